"""Rows of ragged tensors: what TensorFlow gives, without its tables."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.text import BytePairTokenizer, WordPieceTokenizer, WordTokenizer, split_words_graph
from keras_attn.text.ragged_rows import join_rows, masked_rows, row_numbers

LENGTHS = ([], [0], [3], [0, 2, 0, 0, 5, 1, 0], [4, 0])


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_they_are_those_of_tensorflow(lengths):
    rng = np.random.default_rng(0)
    count = sum(lengths)
    values = tf.constant([f"{i}é" for i in range(count)], tf.string)
    ragged = tf.RaggedTensor.from_row_lengths(values, tf.constant(lengths, tf.int64))
    assert row_numbers(tf, ragged).numpy().tolist() == ragged.value_rowids().numpy().tolist()
    joined = tf.strings.reduce_join(ragged, axis=-1)
    assert join_rows(tf, ragged).numpy().tolist() == joined.numpy().tolist()
    mask = tf.constant(rng.random(count) < 0.5, tf.bool)
    expected = tf.ragged.boolean_mask(ragged, ragged.with_flat_values(mask))
    assert masked_rows(tf, ragged, mask).to_list() == expected.to_list()


TEXTS = ["a long word", "the words of a text"]


GRAPHS = {
    "word_piece": lambda: WordPieceTokenizer.train(TEXTS, 36),
    "words": lambda: WordTokenizer.train(TEXTS),
    "byte_pair": lambda: BytePairTokenizer.train(TEXTS, 263),
    "split_words": None,
}


@pytest.mark.quick("words")
@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_no_table_of_rows_by_the_longest_one(make):
    """One word of 100,000 characters among 20,000 others would make it 16 GB."""
    signature = [tf.TensorSpec([None], tf.string)]
    module = make and make().to_graph()
    split = tf.function(lambda text: split_words_graph(tf, text), signature)
    graph = (module.encode if module else split).get_concrete_function().graph.as_graph_def()
    names = [node.name for node in graph.node]
    names += [node.name for function in graph.library.function for node in function.node_def]
    assert len(names) > 10
    assert not [name for name in names if "SegmentIds" in name or "SequenceMask" in name]
