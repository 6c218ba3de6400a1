"""An encoder studied: what is in the views, the roles and the page."""

import re

import keras
import numpy as np
import pytest

from keras_attn.explain import head_divergence, head_roles, study_encoder
from keras_attn.explain.encoder_study import study_texts
from keras_attn.fields import EncoderInput
from keras_attn.layers import TokenEmbedding, TransformerEncoder, attention_maps
from keras_attn.models.bert import BertConfig
from keras_attn.text import WordPieceTokenizer
from keras_attn.visualize import LECTURE_SENTENCES, LectureSentence


@pytest.fixture(scope="module")
def model():
    return BertConfig(60, dim=16, num_layers=2, num_heads=2, intermediate_dim=16).build()


@pytest.fixture(scope="module")
def lecture():
    """The lectures' sentences as inputs, tokens and special tokens."""
    texts = " ".join(f"{each.text} {each.second or ''}" for each in LECTURE_SENTENCES).lower()
    words = sorted(set(re.findall(r"\w+|[^\w\s]", texts)))
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])
    rows = []
    for each in LECTURE_SENTENCES:
        row = list(tokenizer.encode(each.text, add_start=True, add_end=True))
        rows.append(row + list(tokenizer.encode(each.second, add_end=True) if each.second else []))
    ids = np.zeros((len(rows), max(map(len, rows))), "int32")
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    return inputs, [tokenizer.tokens(row) for row in rows], (ids == 2) | (ids == 3)


def test_everything_of_one_call(model, lecture):
    inputs, tokens, special = lecture
    study = study_encoder(model, inputs, tokens, special, [each.text for each in LECTURE_SENTENCES])
    maps = attention_maps(model, inputs)
    for i, view in enumerate(study.views):
        assert view.title == LECTURE_SENTENCES[i].text
        (part,) = view.parts
        assert list(part.queries) == list(part.keys) == tokens[i]
        size = len(tokens[i])
        for found, layer in zip(part.weights, maps.select("self"), strict=True):
            np.testing.assert_allclose(found, layer[i, :, :size, :size], atol=1e-5)
    expected = head_roles(maps, inputs["padding_mask"], special)
    np.testing.assert_allclose(study.roles.values, expected.values, atol=1e-5)
    expected = head_divergence(maps, inputs["padding_mask"], special)
    np.testing.assert_allclose(study.divergence, expected, atol=1e-5)
    assert repr(study) == "<EncoderStudy of 5 texts: 2 x 2 heads>"
    page = study.html(LECTURE_SENTENCES, "Lectures")
    assert page.count('class="go"') == 5 and "<title>Lectures</title>" in page
    assert f"it, id {inputs['token_ids'][0, tokens[0].index('it')]}" in page


@pytest.mark.parametrize("wrong", [("a", "b", "c"), ["a"], (), 5, ("a", None)])
def test_texts_are_strings_or_pairs(model, wrong):
    field = EncoderInput(WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]), 8)
    with pytest.raises(TypeError, match=r"pairs of strings\. Received: .* at position 1"):
        study_texts(model, field, ["a", wrong])
    with pytest.raises(TypeError, match="Wrap it in a list"):
        study_texts(model, field, "a")


def test_the_sentences_have_their_words():
    for each in LECTURE_SENTENCES:
        words = re.findall(r"\w+", f"{each.text} {each.second or ''}".lower())
        assert words.count(each.query) == 1, each.text
        assert each.note.endswith(".") and len(each.note) > 40
    assert LectureSentence("a", None, "a", "b") not in LECTURE_SENTENCES
    assert sum(each.second is not None for each in LECTURE_SENTENCES) == 1


def test_a_model_without_segments_and_padding(lecture):
    _, tokens, _ = lecture
    read = keras.Input((None,), dtype="int32", name="token_ids")
    layers = TokenEmbedding(60, 8, mask_zero=False), TransformerEncoder(1, 2, intermediate_dim=8)
    model = keras.Model({"token_ids": read}, layers[1](layers[0](read)))
    ids = np.arange(len(tokens[0]))[None]
    study = study_encoder(model, {"token_ids": ids}, tokens[:1])
    assert study.roles.tokens == len(tokens[0]) and not study.roles.values[..., 3].any()


def test_refuses(model, lecture):
    inputs, tokens, special = lecture
    with pytest.raises(ValueError, match="Expected a token for each id"):
        study_encoder(model, inputs, tokens[:-1], special)
    with pytest.raises(ValueError, match="a title for each of the 5 texts"):
        study_encoder(model, inputs, tokens, special, ["one"])
    left = {name: x[:, ::-1] for name, x in inputs.items()}
    with pytest.raises(ValueError, match="padding on the right"):
        study_encoder(model, left, tokens, special)
