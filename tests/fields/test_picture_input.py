"""Images and words as inputs: the same in Python and in a graph."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.fields import (
    ODD_TEXTS,
    Names,
    PictureInput,
    Strings,
    TextInput,
    Together,
    WordTokens,
)
from keras_attn.images import load_image
from keras_attn.text import WordTokenizer

TOKENIZER = WordTokenizer.train([*ODD_TEXTS[:5], "what is it ?"])


@pytest.mark.slow
def test_an_image_is_decoded_once():
    field = PictureInput((6, 9))
    files = field.examples
    given = [files[2], files[0], files[2], files[1]]
    found = field.encode(given)
    assert found["pixels"].shape == (3, 6, 9, 3) and found["number"].tolist() == [0, 1, 0, 2]
    assert found["number"].dtype == "int32"
    for raw, number in zip(given, found["number"], strict=True):
        np.testing.assert_allclose(found["pixels"][number], load_image(raw, (6, 9)), atol=4)
    encode, modules = field.to_graph(tf)
    served = tf.function(encode, autograph=False)(tf.constant(given))
    assert modules == []
    for name, array in found.items():
        np.testing.assert_array_equal(served[name], array)


@pytest.mark.slow
def test_larger_images_are_refused():
    field = PictureInput((4, 4), max_pixels=7)
    encode, _ = field.to_graph(tf)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 7 pixels"):
        encode(tf.constant(field.examples[:1]))


@pytest.mark.quick("3")
@pytest.mark.parametrize("max_length", [3, 2000])
def test_words_and_their_ids(max_length):
    field = WordTokens(TOKENIZER, max_length)
    encode, _ = field.to_graph(tf)
    for texts in (ODD_TEXTS, ["", " "], ODD_TEXTS[4:5]):
        found, served = field.encode(texts), encode(tf.constant(texts))
        np.testing.assert_array_equal(found["ids"], served["ids"])
        np.testing.assert_array_equal(found["ids"], TextInput(TOKENIZER, max_length).encode(texts))
        words = [[word.decode() for word in row] for row in served["words"].numpy()]
        assert Strings("words").decode(found) == found["words"] == words
        for row, cut in zip(words, TOKENIZER.words(texts), strict=True):
            assert [word for word in row if word] == cut[:max_length]


@pytest.mark.slow
def test_several_arrays_of_an_input():
    field = Together({"number": None, "text": WordTokens(TOKENIZER, 2)})
    found = field.encode(np.array([3]), ["is it ?"])
    assert list(found) == ["number", "text_ids", "text_words"]
    encode, modules = field.to_graph(tf)
    served = encode(tf.constant([3]), tf.constant(["is it ?"]))
    assert list(served) == list(found) and len(modules) == 1
    np.testing.assert_array_equal(served["text_ids"], found["text_ids"])


def test_names_of_any_shape():
    field = Names(["", "é", "b\0"], "best")
    best = np.array([[2, 0], [1, 1]], "int32")
    assert field.decode({"best": best}) == [["b\0", ""], ["é", "é"]]
    served = field.graph(tf, {"best": tf.constant(best)}).numpy()
    assert [[name.decode() for name in row] for row in served] == field.decode({"best": best})


@pytest.mark.slow
def test_no_picture():
    arrays = PictureInput((4, 6)).encode([])
    assert arrays["pixels"].shape == (0, 4, 6, 3) and arrays["number"].shape == (0,)
