"""A tokenizer in a graph lives as long as its functions, and no longer."""

import gc
import weakref

import pytest
import tensorflow as tf

from keras_attn.text import BytePairTokenizer, CharacterTokenizer, WordPieceTokenizer, WordTokenizer

TOKENIZERS = [
    BytePairTokenizer.train(["a rose"], 259),
    CharacterTokenizer.train(["a rose"]),
    WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "rose"]),
    WordTokenizer.train(["a rose"]),
]


@pytest.mark.quick("WordPieceTokenizer")
@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda t: type(t).__name__)
def test_in_one_expression(tokenizer):
    ids = tokenizer.to_graph().encode(tf.constant(["a rose"])).to_list()
    assert ids == [tokenizer.encode("a rose")]
    encode = tokenizer.to_graph().encode
    assert encode(tf.constant(["a rose"])).to_list() == ids


@pytest.mark.slow
def test_it_is_collected():
    graph = TOKENIZERS[0].to_graph()
    graph.encode(tf.constant(["a rose"]))
    seen = weakref.ref(graph)
    del graph
    gc.collect()
    assert seen() is None
