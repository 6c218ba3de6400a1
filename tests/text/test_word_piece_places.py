"""Places of word pieces in the graph: those of the Python object, in bytes."""

import functools
import random
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.text import WordPieceTokenizer, byte_places, character_places_graph
from keras_attn.text.places import cut_texts_graph

TEXTS = ["the running cafe was unable to offer high praise, 한국어 is great!"] * 3
KINDS = [(True, None, True), (False, None, False), (False, True, False)]


@pytest.fixture(scope="module", params=KINDS, ids=["lower", "cased", "without accents"])
def tokenizer(request):
    lowercase, strip_accents, mask = request.param
    return WordPieceTokenizer.train(
        TEXTS, 120, lowercase, strip_accents, allow_fewer=True, mask_in_text=mask
    )


@functools.cache
def graph_of(tokenizer):
    return tokenizer.to_graph()


def in_graph(tokenizer, texts):
    graph = graph_of(tokenizer)
    found = graph.encode_with_offsets(tf.constant([t.encode() for t in texts]))
    return [part.to_list() for part in found]


def in_python(tokenizer, texts):
    ids, offsets = tokenizer.encode_with_offsets(texts)
    pairs = list(zip(texts, offsets, strict=True))
    starts = [byte_places(text, [start for start, _ in places]) for text, places in pairs]
    ends = [byte_places(text, [end for _, end in places]) for text, places in pairs]
    return [ids, starts, ends]


def test_by_hand():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hi", "##gh", "!"]
    tokenizer = WordPieceTokenizer(words)
    assert in_graph(tokenizer, ["So  HÍGH!", ""]) == [
        [[1, 4, 5, 6], []],
        [[0, 4, 7, 9], []],
        [[2, 7, 9, 10], []],
    ]


def test_a_mask_is_where_it_stands():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    tokenizer = WordPieceTokenizer(words, mask_in_text=True)
    ids, starts, ends = in_graph(tokenizer, ["a[MASK]a \x01[MASK][MASK]"])
    assert ids == [[5, 4, 5, 4, 4]]
    assert starts == [[0, 1, 7, 10, 16]]
    assert ends == [[1, 7, 8, 16, 22]]


@pytest.mark.slow
def test_accents_that_were_removed_belong_to_the_piece_before():
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cafe", "क", "##s"])
    texts = ["cafe\u0301\u0308s cafe\u0301", "के", "\u0301cafe", "cafe"]
    ids, starts, ends = in_graph(tokenizer, texts)
    assert ids == [[4, 6, 4], [5], [4], [4]]
    assert [starts, ends] == in_python(tokenizer, texts)[1:]
    cut = [
        [text.encode()[a:b].decode() for a, b in zip(*places, strict=True)]
        for text, *places in zip(texts, starts, ends, strict=True)
    ]
    assert cut == [["cafe\u0301\u0308", "s", "cafe\u0301"], ["के"], ["cafe"], ["cafe"]]


def odd_texts(count, seed):
    rng = random.Random(seed)
    pool = [chr(c) for c in range(0x3400)]
    pool += [chr(rng.randrange(0x3000, 0x110000)) for _ in range(3000)]
    pool += [chr(c) for c in range(0xAC00, 0xAE00)]
    pool = [c for c in pool if not 0xD800 <= ord(c) < 0xE000]
    pool += [*"the of and ing er café ñ.,-' \n\t\r\x00\x01", "[MASK]", "running", "##ing"] * 150
    texts = ["".join(rng.choices(pool, k=rng.randrange(40))) for _ in range(count)]
    # Marks that are kept are put into Unicode's order by Python alone: it is there already.
    return [unicodedata.normalize("NFC", text) for text in texts]


HARD = [
    "", "HÍGH i\u0301\u0301x", "x" * 1000 + " a", "\x00\n\x00", "한국어 각각", "ﬁ ǆ İ ẞ",
    "[MASK][mask] [MASK",
    "[MASK]\u0301 a\u0301[MASK]\u0301", "\u0301", "\u0301 के क\u094d\u0937",
    "東京 the", "👩\u200d👧 ☕\ufe0f", "\u00a0the\u3000running ",
]  # fmt: skip


@pytest.mark.quick("lower")
def test_the_same_as_in_python(tokenizer):
    texts = HARD + odd_texts(600, seed=0)
    assert in_graph(tokenizer, texts) == in_python(tokenizer, texts)


@pytest.mark.slow
def test_the_same_as_in_python_for_many_texts(tokenizer):
    texts = odd_texts(10_000, seed=1)
    different = [
        text
        for text, *both in zip(
            texts,
            *in_graph(tokenizer, texts)[1:],
            *in_python(tokenizer, texts)[1:],
            strict=True,
        )
        if both[:2] != both[2:]
    ]
    # Marks of newer Unicode versions, which one of the two does not know, may be reordered.
    assert len(different) <= 2, different


@pytest.mark.slow
def test_a_long_text(tokenizer):
    text = "the café was running, " * 5000
    assert in_graph(tokenizer, [text]) == in_python(tokenizer, [text])


@pytest.mark.slow
def test_bytes_that_are_not_text(tokenizer):
    """Each bad byte is a character of its own, and places stay those of the bytes."""
    raw = b"the \xff\xfe running"
    graph = graph_of(tokenizer)
    ids, starts, ends = graph.encode_with_offsets(tf.constant([raw]))
    cut = [raw[a:b] for a, b in zip(starts.to_list()[0], ends.to_list()[0], strict=True)]
    assert cut[0] == b"the"
    assert b"".join(cut[-len(tokenizer.encode("running")) :]) == b"running"
    assert ids.to_list() == graph.encode(tf.constant([raw])).to_list()


def test_no_text(tokenizer):
    assert in_graph(tokenizer, ["", " \n"]) == [[[], []]] * 3
    graph = graph_of(tokenizer)
    empty = graph.encode_with_offsets(tf.constant([], tf.string))
    assert [part.to_list() for part in empty] == [[], [], []]


def test_places_of_characters():
    texts = ["año 😀x", "abc", ""]
    places = [10, 2, 0]
    found = character_places_graph(tf, tf.constant(texts), tf.constant(places))
    assert found.numpy().tolist() == [6, 2, 0]


def test_places_and_parts_of_several_texts():
    """Any number of them, in any order, against Python."""
    rng = np.random.default_rng(0)
    texts = ["año 😀x", "", "abc", "\u0301\u4e2d\U0001f600" * 5, ""]
    rows = rng.integers(0, len(texts), 60)
    places = [np.sort(rng.integers(0, len(texts[row]) + 1, 2)) for row in rows]
    pairs = [byte_places(texts[row], pair.tolist()) for row, pair in zip(rows, places, strict=True)]
    starts, ends = (tf.constant([pair[i] for pair in pairs]) for i in (0, 1))
    number, texts_ = tf.constant(rows, tf.int32), tf.constant(texts)
    found = cut_texts_graph(tf, texts_, number, starts, ends).numpy()
    expected = [texts[row][a:b] for row, (a, b) in zip(rows, places, strict=True)]
    assert [part.decode() for part in found] == expected
    found = character_places_graph(tf, texts_, ends, number).numpy()
    assert found.tolist() == [pair[1] for pair in places]
    none = tf.constant([], tf.int32)
    assert cut_texts_graph(tf, texts_, none, none, none).shape == 0
    assert character_places_graph(tf, texts_[:0], none, none).shape == 0
