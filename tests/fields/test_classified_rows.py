"""Rows of texts and of pairs, words of texts, and padded outputs: the same as TensorFlow ops."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.fields import (
    ODD_TEXTS,
    EncoderInput,
    PaddedNumbers,
    TextRows,
    Tokens,
    checked_inputs,
)
from keras_attn.fields.text import sides_of
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer, WordTokenizer
from keras_attn.text.truncation import TRUNCATIONS, truncate, truncate_graph

TEXTS = ["A film to remember, a second film: 42 words!", *ODD_TEXTS]
TOKENIZERS = {
    "word pieces": WordPieceTokenizer.train(TEXTS, 90, allow_fewer=True),
    "byte pairs": BytePairTokenizer.train(TEXTS, 290, allow_fewer=True),
    "words": WordTokenizer.train(TEXTS),
}
STRINGS = tf.TensorSpec([None], tf.string)


def plain(values):
    """Tensors as lists, with strings."""
    return np.vectorize(lambda x: x.decode() if isinstance(x, bytes) else x, [object])(
        values.numpy()
    ).tolist()


@pytest.mark.parametrize("strategy", TRUNCATIONS)
@pytest.mark.parametrize("most", [1, 3, 8])
def test_the_graph_keeps_the_same_ids(strategy, most):
    rows = [list(range(n)) for n in (0, 1, most, most + 1, 3 * most + 2)]
    found = truncate_graph(tf, tf.ragged.constant(rows, tf.int32), most, strategy)
    assert found.to_list() == [truncate(row, most, strategy) for row in rows]


@pytest.mark.quick("byte pairs-head-True")
@pytest.mark.parametrize(
    "name, strategy, ends",
    [
        # Each pair of two settings once.
        pytest.param(*case, marks=[] if case[2] == (i // 2) % 2 else pytest.mark.slow)
        for i, case in enumerate(itertools.product(TOKENIZERS, TRUNCATIONS, (False, True)))
    ],
)
def test_rows_and_their_tokens(name, strategy, ends):
    """The rows, and the tokens between the ends, in Python and in a graph of unknown shapes."""
    tokenizer = TOKENIZERS[name]
    field = EncoderInput(tokenizer, 9, start=ends, end=ends, truncation=strategy)
    found = TextRows(field).encode(TEXTS)
    encode, _ = TextRows(field).to_graph(tf)
    tensors = tf.function(encode, [STRINGS], autograph=False)(tf.constant(TEXTS))
    for name, values in found.items():
        np.testing.assert_array_equal(tensors[name].numpy(), values)
    ids = tensors["row_ids"]
    sizes, own, weights = field.between_ends(ids, tf.ones(ids.shape))
    assert found["row_sizes"].max() == 9
    sizes_of_texts = found["row_sizes"] - 2 * ends
    assert sizes.numpy().tolist() == sizes_of_texts.tolist() == weights.numpy().sum(1).tolist()
    kept = [row[ends : ends + n].tolist() for row, n in zip(found["row_ids"], sizes, strict=True)]
    assert [x.tokens for x in field.read(TEXTS)] == tokenizer.tokens(kept)
    output = Tokens(field, "ids", "sizes")
    expected = output.decode({"ids": own.numpy(), "sizes": sizes.numpy()})
    assert plain(output.graph(tf, {"ids": own, "sizes": sizes})) == expected
    assert [[x for x in row if x] for row in expected] == tokenizer.tokens(kept)


@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
def test_what_is_read_of_pairs(tokenizer):
    field = EncoderInput(tokenizer, 14, start=False, end=False, between=2)
    pairs = [*zip(TEXTS, reversed(TEXTS), strict=True)]
    rows = field.rows(*(tokenizer.encode(list(side)) for side in zip(*pairs, strict=True)))
    for pair, (ids, start), read in zip(pairs, rows, field.read(pairs), strict=True):
        assert read.tokens == tokenizer.tokens(ids)
        assert read.segments == [0] * start + [1] * (len(ids) - start)
        assert read.offsets[start - 2 : start] == [(len(pair[0]),) * 2] * 2
        for (begin, end), segment in zip(read.offsets, read.segments, strict=True):
            assert 0 <= begin <= end <= len(pair[segment])


def test_padded_numbers():
    table = np.arange(1, 7, dtype="float32").reshape(2, 3)
    tensors = {"of": table, "n": np.array([2, 1]), "none": np.array([0, 0])}
    graph = {name: tf.constant(values) for name, values in tensors.items()}
    for field, expected in {
        PaddedNumbers("of", "n"): table[:, :2],
        PaddedNumbers("of", "none"): table[:, :0],
        PaddedNumbers("of", "none", least=1): table[:, :1],
        PaddedNumbers("of", 3): table,
    }.items():
        np.testing.assert_array_equal(field.decode(tensors), expected)
        np.testing.assert_array_equal(field.graph(tf, graph).numpy(), expected)
    maps = {"of": np.ones((2, 5, 4)), "t": np.array([3, 0]), "s": np.array([0, 2])}
    assert PaddedNumbers("of", "t", "s").decode(maps).shape == (2, 3, 2)
    of_graph = {name: tf.constant(values) for name, values in maps.items()}
    assert PaddedNumbers("of", 1, "s").graph(tf, of_graph).shape == (2, 1, 2)


def test_texts_or_pairs():
    pairs = [("a", "b"), ("c", "d")]
    assert checked_inputs([["a", "b"], ("c", "d")], pairs=True) == pairs
    assert sides_of(pairs) == [["a", "c"], ["b", "d"]] and sides_of(["a", "b"]) == [["a", "b"]]
    assert sides_of([]) == []
    with pytest.raises(ValueError, match="the single text 'a' at position 0"):
        checked_inputs(["a"], pairs=True)
