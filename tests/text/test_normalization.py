"""Normalisation of texts: by hand, against Unicode's own, and the same in a graph."""

import textwrap
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import answer

from keras_attn.text import BytePairTokenizer
from keras_attn.text.checks import well_formed
from keras_attn.text.normalization import (
    _compositions,
    normalize_text,
    normalize_text_in_graph,
    normalize_with_offsets,
)

BY_HAND = [
    ("", "", []),
    (" \n\u00a0", "", []),
    ("ab", "ab", [(0, 1), (1, 2)]),
    ("  a \t\u3000b\r\n", "a b", [(2, 3), (3, 6), (6, 7)]),
    ("cafe\u0301 x", "caf\u00e9 x", [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6), (6, 7)]),
    # Vietnamese and Greek: a letter with two and three marks.
    ("e\u0323\u0302", "\u1ec7", [(0, 3)]),
    ("\u03b1\u0313\u0301\u0345", "\u1f84", [(0, 4)]),
    # Korean: consonant, vowel, consonant; the second syllable has no last one.
    ("\u1112\u1161\u11ab\u1100\u116e", "\ud55c\uad6c", [(0, 3), (3, 5)]),
    # A mark with nothing before it, or with a space, stays.
    ("\u0301a \u0301", "\u0301a \u0301", [(0, 1), (1, 2), (2, 3), (3, 4)]),
    # A mark is not composed across another, as NFC does it.
    ("x\u0323\u0308", "x\u0323\u0308", [(0, 1), (1, 2), (2, 3)]),
]


def in_graph(texts):
    data = tf.constant([text.encode("utf-8") for text in texts], tf.string, shape=[len(texts)])
    return [text.decode("utf-8") for text in normalize_text_in_graph(tf, data).numpy()]


@pytest.mark.parametrize(("text", "expected", "offsets"), BY_HAND)
def test_by_hand(text, expected, offsets):
    assert normalize_text(text) == expected
    assert normalize_with_offsets(text) == (expected, offsets)
    assert in_graph([text]) == [expected]


def test_a_batch_is_its_texts():
    """What ends one text is not composed with what begins the next."""
    texts = [text for text, _, _ in BY_HAND] + ["e", "\u0301", "\u1100", "\u1161"]
    assert in_graph(texts) == [normalize_text(text) for text in texts]


def test_every_composition_is_that_of_unicode():
    """Each character that Unicode composes of two others, and all Korean syllables."""
    characters = [chr(both) for both in _compositions().values()]
    characters += [chr(code) for code in range(0xAC00, 0xD7A4, 7)]
    apart = [f"a{unicodedata.normalize('NFD', character)}b" for character in characters]
    expected = [f"a{unicodedata.normalize('NFC', character)}b" for character in characters]
    assert [normalize_text(text) for text in apart] == expected
    assert in_graph(apart) == expected


def test_no_pair_begins_where_another_ends():
    """Else rounds over all pairs would not be what goes from left to right."""
    firsts, seconds = map(set, zip(*_compositions(), strict=True))
    assert not firsts & seconds


TEXTS = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("aeo \n\u00a0\u0301\u0302\u0323\u1100\u1161\u11a8\uac00"),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6))
def test_any_text_is_the_same_in_the_graph(texts):
    expected = [normalize_text(text) for text in texts]
    assert in_graph(texts) == expected
    for text, read in zip(texts, expected, strict=True):
        assert normalize_text(read) == read
        composed = unicodedata.normalize("NFC", text)
        assert normalize_text(composed) == " ".join(composed.split())
        found, offsets = normalize_with_offsets(text)
        assert found == read
        # Each place in its order, with nothing between them; what is left out is white space.
        ends = [0, *(end for _, end in offsets)]
        assert all(
            start == end or not text[end:start].strip()
            for (start, _), end in zip(offsets, ends, strict=False)
        )
        for character, (start, end) in zip(found, offsets, strict=True):
            assert normalize_text(text[start:end]) == character.strip()


SENTENCES = ["Ein schöner Café-Besuch.", "Zwei Mädchen und ein Hund im Café."] * 3
ALIKE = [
    "Zwei Mädchen im Café.",
    "  Zwei  Mädchen\tim\u00a0Café.\n",
    unicodedata.normalize("NFD", "Zwei Mädchen im Café."),
]


@pytest.fixture(scope="module")
def tokenizer():
    return BytePairTokenizer.train(SENTENCES, 290)


@pytest.mark.slow
def test_texts_that_look_alike_have_the_same_ids(tokenizer):
    expected = tokenizer.encode(ALIKE[0])
    assert tokenizer.encode(ALIKE) == [expected] * 3
    assert tokenizer.to_graph().encode(tf.constant(ALIKE)).to_list() == [expected] * 3
    assert tokenizer.to_graph().encode_start(tf.constant(ALIKE), 5).to_list() == [expected[:5]] * 3
    assert tokenizer.decode(expected) == ALIKE[0] == tokenizer.normalized(ALIKE[1])
    apart = [unicodedata.normalize("NFD", f" {text}\n") for text in SENTENCES]
    assert BytePairTokenizer.train(apart, 290).get_config() == tokenizer.get_config()


def test_every_byte_is_kept_where_it_is_wanted(tokenizer):
    exact = BytePairTokenizer(tokenizer.vocabulary, tokenizer.merges, normalize=False)
    ids = exact.encode(ALIKE)
    assert exact.decode(ids) == ALIKE
    assert exact.to_graph().encode(tf.constant(ALIKE)).to_list() == ids
    assert [exact.normalized(text) for text in ALIKE] == ALIKE
    trained = BytePairTokenizer.train(["a  b\n"] * 9, 260, normalize=False)
    assert trained.decode(trained.encode("a  b\n")) == "a  b\n"
    assert not BytePairTokenizer.from_config(trained.get_config()).normalize


def test_places_in_the_original_text(tokenizer):
    for text in ALIKE:
        ids, offsets = tokenizer.encode_with_offsets(text)
        assert ids == tokenizer.encode(text)
        # Each word with the white space before it.
        borders = {end for _, end in offsets}
        assert borders >= {
            text.index("im") - 1,
            text.index("im") + 2,
            text.index("."),
            len(text.rstrip()),
        }
        assert offsets[0][0] == len(text) - len(text.lstrip())
        assert offsets[-1][1] == len(text.rstrip())


def test_places_with_lone_surrogates(tokenizer):
    text = " a\ud800\u0301 b"
    assert len(well_formed(text)) == len(text) + 2
    ids, offsets = tokenizer.encode_with_offsets(text, add_end=True)
    # Three U+FFFD of three bytes each are the surrogate; the mark has two bytes.
    around = [(1, 2), *[(2, 3)] * 9, (3, 4), (3, 4), (4, 5), (5, 6), (6, 6)]
    assert (len(ids), offsets) == (15, around)


def test_files_keep_it(tokenizer, tmp_path):
    exact = BytePairTokenizer(tokenizer.vocabulary, tokenizer.merges, normalize=False)
    for name, kept in (("yes", tokenizer), ("no", exact)):
        kept.save_assets(tmp_path / name)
        assert BytePairTokenizer.load_assets(tmp_path / name).normalize is kept.normalize


@pytest.mark.slow
def test_a_saved_model_normalizes_without_the_package(tokenizer, tmp_path):
    tf.saved_model.save(tokenizer.to_graph(), tmp_path / "saved")
    code = f"""
        import json
        import tensorflow as tf
        loaded = tf.saved_model.load("saved")
        print(json.dumps(loaded.encode(tf.constant({ALIKE!r})).to_list()))
    """
    expected = [tokenizer.encode(ALIKE[0])] * 3
    assert answer("alone", textwrap.dedent(code), cwd=tmp_path) == expected
