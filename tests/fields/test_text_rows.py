"""Texts and pairs as rows of an encoder: by hand, and the same in the graph."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.fields import (
    ODD_TEXTS,
    EncoderInput,
    FoundNames,
    SearchTexts,
    SeparateTexts,
    TextRows,
)
from keras_attn.text import WordPieceTokenizer

TOKENIZER = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"a b c d e f g h".split()])
TEXTS = [*ODD_TEXTS, "a b c d e f g h", "a b", "a b"]
SECONDS = TEXTS[3:] + TEXTS[:3]


def same_in_the_graph(field, *texts):
    """With unknown shapes; returns what Python gives."""
    encode, _ = field.to_graph(tf)
    specs = [tf.TensorSpec([None], tf.string) for _ in texts]
    theirs = tf.function(encode, specs, autograph=False)(*map(tf.constant, texts))
    ours = field.encode(*texts)
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"names"}:
        np.testing.assert_array_equal(ours[name], theirs[name].numpy(), name)
    return ours


@pytest.mark.slow
@pytest.mark.parametrize(("max_length", "between"), [(9, 1), (64, 2)])
def test_rows(max_length, between):
    field = EncoderInput(TOKENIZER, max_length, between=between)
    same_in_the_graph(TextRows(field), TEXTS)
    found = same_in_the_graph(TextRows(field), TEXTS, SECONDS)
    assert found["row_ids"].shape == (len(TEXTS), max_length)
    row = TextRows(field).encode(["a"], ["b c"])
    ids = [2, 4, *[3] * between, 5, 6, 3]
    assert [x.tolist() for x in row.values()] == [[ids], [len(ids)], [2 + between]]
    assert TextRows(field).encode([])["row_ids"].shape == (0, 1)


def test_each_different_text_is_read_once():
    """With the prompt before it."""
    field = EncoderInput(TOKENIZER, 64)
    found = same_in_the_graph(SeparateTexts(field, "b : "), TEXTS, SECONDS)
    assert len(found["row_ids"]) == len({*TEXTS})
    rows = TextRows(field).encode(["b : " + text for text in TEXTS])["row_ids"]
    np.testing.assert_array_equal(found["row_ids"][found["first"]], rows)
    np.testing.assert_array_equal(found["row_ids"][found["second"]], [*rows[3:], *rows[:3]])


@pytest.mark.slow
def test_what_is_searched_is_a_variable():
    """A constant would make a graph that is too large to be saved."""
    names, vectors = ["a", "b \x00", "ü"], np.arange(12, dtype="float32").reshape(3, 4)
    field = SearchTexts(EncoderInput(TOKENIZER, 9), names, lambda: vectors)
    found = same_in_the_graph(field, TEXTS)
    assert found["index"].T.tolist() == vectors.tolist()
    encode, modules = field.to_graph(tf)
    function = tf.function(encode, [tf.TensorSpec([None], tf.string)], autograph=False)
    read = function.get_concrete_function().variables
    variables = modules[-1].variables
    assert len(variables) == 2 and all(any(x is y for y in read) for x in variables)
    numbers, output = np.array([[2, 1]], "int32"), FoundNames("numbers")
    theirs = output.graph(tf, {**encode(tf.constant(["a"])), "numbers": tf.constant(numbers)})
    (row,) = output.decode({**found, "numbers": numbers})
    assert row == [x.decode() for x in theirs.numpy()[0]] == [names[2], names[1]]
