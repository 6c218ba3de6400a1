"""Texts and pairs as an encoder reads them: by hand, and the same in the graph."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.fields import ODD_TEXTS, EncoderInput
from keras_attn.text import WordPieceTokenizer

LETTERS = "a b c d e f g h".split()
TOKENIZER = WordPieceTokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS], mask_in_text=True
)


def test_the_longer_text_of_a_pair_is_cut():
    field = EncoderInput(TOKENIZER, max_length=9)  # room for 6
    texts, seconds = (
        ["a b c d e f g h", "a", "a b c d e", "a b"],
        ["a b", "b c d e f g h", "a b c d e", ""],
    )
    ids, segments = field.encode(texts, seconds)
    read = [[t for t in TOKENIZER.tokens(row) if t != "[PAD]"] for row in ids]
    assert [" ".join(row) for row in read] == [
        "[CLS] a b c d [SEP] a b [SEP]",
        "[CLS] a [SEP] b c d e f [SEP]",
        "[CLS] a b c [SEP] a b c [SEP]",
        "[CLS] a b [SEP] [SEP]",
    ]  # fmt: skip
    assert segments[0].tolist() == [0] * 6 + [1] * 3
    assert segments[3].tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert field.encode(["a"])[0].tolist() == [[2, 5, 3]]
    assert field.encode(["a"], multiple=8)[0].shape == (1, 8)
    assert field.encode(["a b c d e f g"], multiple=8)[0].shape == (1, 9)
    assert field.encode([])[0].shape == (0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("max_length", [9, 64])
def test_the_graph_gives_the_same(max_length):
    field = EncoderInput(TOKENIZER, max_length)
    encode, _ = field.to_graph(tf)
    texts = [*ODD_TEXTS, "[MASK] a [MASK]", "a b c d e f g h"]
    seconds = texts[3:] + texts[:3]
    for given in ((texts,), (texts, seconds)):
        for ours, theirs in zip(
            field.encode(*given), encode(*map(tf.constant, given)), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs.numpy())


@pytest.mark.slow
@pytest.mark.parametrize(("start", "end"), [(False, False), (True, False), (False, True)])
def test_ends_that_a_model_does_not_read(start, end):
    """The separator between two texts stays; in Python and in the graph."""
    field = EncoderInput(TOKENIZER, 8, start=start, end=end)
    assert field.room == 8 - start - end
    ids, segments = field.encode(["a b c d e f g h", "a"], ["b c", ""])
    row = [t for t in TOKENIZER.tokens(ids[1]) if t != "[PAD]"]
    assert row == ["[CLS]"] * start + ["a", "[SEP]"] + ["[SEP]"] * end
    assert segments[1, : len(row)].tolist() == [0] * (2 + start) + [1] * end
    first = "a b c d e f g h".split()[: 5 - start - end]
    row = ["[CLS]"] * start + [*first, "[SEP]", "b", "c"] + ["[SEP]"] * end
    assert TOKENIZER.tokens(ids[0]) == row
    encode, _ = field.to_graph(tf)
    texts = [*ODD_TEXTS[:-1], "[MASK] a [MASK]", "a b c d e f g h"]
    seconds = texts[3:] + texts[:3]
    for given in ((texts,), (texts, seconds), ([""],)):
        for ours, theirs in zip(
            field.encode(*given), encode(*map(tf.constant, given)), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs.numpy())


def test_wrong_inputs():
    field = EncoderInput(TOKENIZER, 9)
    with pytest.raises(ValueError, match="as many second texts"):
        field.encode(["a"], [])
    with pytest.raises(TypeError, match="Expected strings"):
        field.encode([7])
