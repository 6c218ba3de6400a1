"""Fields of words, questions and outputs: in Python and as TensorFlow ops, with odd texts."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.fields import (
    ODD_TEXTS,
    NameRows,
    NumberRows,
    PartRows,
    PlaceRows,
    QuestionRows,
    StringRows,
    TextWords,
    WordLists,
    WordRows,
)
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer, byte_places

TEXTS = [*ODD_TEXTS, "x\x01y \x01 z", "ab" * 300, "U.S. shares (3.5%) fell"]
CORPUS = ["A film to remember, the ships of 17 ports sailed in 1500: not good"]


@pytest.fixture(scope="module", params=["word pieces", "byte pairs"])
def tokenizer(request):
    if request.param == "word pieces":
        return WordPieceTokenizer.train(CORPUS, 60, allow_fewer=True)
    return BytePairTokenizer.train(CORPUS, 290, normalize=False, allow_fewer=True)


def traced(field, *specs):
    """The field as one function of unknown shapes."""
    encode, _ = field.to_graph(tf)
    return tf.function(encode, specs, autograph=False)


def same(found, expected, but=()):
    for name, values in expected.items():
        if name not in but:
            assert found[name].dtype == tf.int32 and values.dtype == np.int32
            assert found[name].numpy().tolist() == values.tolist(), name


def in_bytes(texts, lengths, places):
    """Places of characters of texts as places of bytes."""
    rows = np.split(places, np.cumsum(lengths)[:-1])
    pairs = zip(texts, rows, strict=True)
    return [place for text, row in pairs for place in byte_places(text, row.tolist())]


@pytest.mark.quick("byte pairs")
def test_words_of_texts(tokenizer):
    field = TextWords(WordRows(tokenizer, 24))
    given = field.encode(TEXTS)
    found = traced(field, tf.TensorSpec([None], tf.string))(tf.constant(TEXTS))
    same(found, given, ("text", "word", "word_starts", "word_ends"))
    assert [word.decode() for word in found["word"].numpy()] == given["word"]
    assert [text.decode() for text in found["text"].numpy()] == given["text"]
    for name in ("word_starts", "word_ends"):
        assert found[name].numpy().tolist() == in_bytes(TEXTS, given["words"], given[name])


@pytest.mark.quick("byte pairs")
def test_lists_of_words(tokenizer):
    field = WordLists(WordRows(tokenizer, 24))
    rows = [["Ada", "", "\u200d", ""], ["", "", "", ""], ["ships", "sailed", "in", "1500"]]
    given = field.encode(rows)
    assert given["words"].tolist() == [3, 0, 4] and (given["pieces"] > 0).all()
    same(traced(field, tf.TensorSpec([None, None], tf.string))(tf.constant(rows)), given)


def test_rows_of_words(tokenizer):
    """Each word is read off at its first piece, in a row that has the pieces around it."""
    words = WordRows(tokenizer, 24)
    sentences = [text.split() for text in TEXTS]
    given = words.encode(sentences)
    rows = words.rows(np, given)
    first = iter(zip(rows["row"], rows["column"], given["pieces"], strict=True))
    for sentence in sentences:
        for word in sentence:
            row, column, count = next(first)
            ids = tokenizer.encode(words.lead + word) or [words.unknown_id]
            assert len(ids) == count and 0 < column < rows["row_sizes"][row] - 1
            here = rows["row_ids"][row, column : rows["row_sizes"][row] - 1].tolist()
            assert here[:count] == ids[: len(here)]
    sizes = rows["row_sizes"]
    assert (rows["row_ids"][:, 0] == tokenizer.start_id).all() and sizes.max() == 24
    assert (rows["row_ids"][np.arange(len(sizes)), sizes - 1] == tokenizer.end_id).all()
    behind = np.arange(rows["row_ids"].shape[1]) >= sizes[:, None]
    assert ((rows["row_ids"] == tokenizer.pad_id) == behind).all()


@pytest.mark.slow
def test_questions_and_texts(tokenizer):
    field = QuestionRows(tokenizer, 32, 10, 8)
    asked = [*TEXTS[1:], TEXTS[0]]
    texts = [*TEXTS[:-1], TEXTS[0]]  # the first one twice
    given = field.encode(asked, texts)
    specs = [tf.TensorSpec([None], tf.string)] * 2
    found = traced(field, *specs)(tf.constant(asked), tf.constant(texts))
    names = ("ids", "begins", "piece_starts", "piece_ends", "text", "asked")
    same(found, given, names)
    for i, text in enumerate(texts):
        ours, theirs = (
            slice(int(x["begins"][i]), int(x["begins"][i] + x["pieces"][i])) for x in (given, found)
        )
        assert given["ids"][ours].tolist() == found["ids"].numpy()[theirs].tolist()
        for name in ("piece_starts", "piece_ends"):
            places = byte_places(text, given[name][ours].tolist())
            if name == "piece_starts" or text.isascii():  # a part of a character
                assert np.all(found[name].numpy()[theirs] >= places)
    mine, other = field.rows(np, given), field.rows(np, {k: np.array(v) for k, v in found.items()})
    for name in mine:
        assert mine[name].tolist() == other[name].tolist()
    assert mine["row_sizes"].max() == 32 and given["asked"].max() > given["questions"].max() == 10


def test_rows_of_questions():
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"])
    field = QuestionRows(tokenizer, max_length=9, max_question_length=2, overlap=2, between=2)
    rows = field.rows(np, field.encode(["a b c", ""], ["d e f g h", "a"]))
    assert [tokenizer.decode(row[1:].tolist()) for row in rows["row_ids"]] == [
        "a b d e f", "a b f g h", "a"
    ]  # fmt: skip
    assert rows["row_ids"][0].tolist() == [2, 4, 5, 3, 3, 7, 8, 9, 3]
    assert rows["row_ids"][2].tolist() == [2, 3, 3, 4, 3, 0, 0, 0, 0]
    assert rows["row_seconds"].tolist() == [5, 5, 3] and rows["rooms"].tolist() == [3, 5]


def test_outputs():
    texts = ["é 😀b", "", "añ"]
    lengths = np.array([2, 0, 1], "int32")
    starts, ends = np.array([0, 2, 1], "int32"), np.array([1, 4, 2], "int32")
    tensors = {
        "text": texts, "n": lengths, "starts": starts, "ends": ends,
        "p": np.array([0.25, 0.5, 1], "float32"), "kind": np.array([1, 0, 2], "int32"),
        "word": ["é", "😀", ""],
        "one": np.array([0, 0, 0], "int32"), "to": np.array([1, 0, 2], "int32"),
    }  # fmt: skip
    graph = {
        name: tf.constant(
            in_bytes(texts, lengths, x) if name in ("starts", "ends")
            else in_bytes(texts, [1, 1, 1], x) if name in ("one", "to") else x
        )
        for name, x in tensors.items()
    }  # fmt: skip
    for some in (tensors, graph):  # two for each text
        some |= {f"{name}s": np.stack([some[name]] * 2, 1) for name in ("one", "to")}
    graph |= {name: tf.constant(graph[name]) for name in ("ones", "tos")}
    for field, expected in {
        NumberRows("p", "n"): [[0.25, 0.5], [0, 0], [1, 0]],
        NameRows(["x", "y", "z"], "kind", "n"): [["y", "x"], ["", ""], ["z", ""]],
        StringRows("word", "n"): [["é", "😀"], ["", ""], ["", ""]],
        PlaceRows("ends", "n"): [[2, 8], [0, 0], [3, 0]],
        PlaceRows("ends", "n", characters=True): [[1, 4], [0, 0], [2, 0]],
        PartRows("starts", "ends", "n"): [["é", "😀b"], ["", ""], ["ñ", ""]],
        PartRows("one", "to"): ["é", "", "añ"],
        PartRows("ones", "tos"): [["é", "é"], ["", ""], ["añ", "añ"]],
        PlaceRows("tos"): [[2, 2], [0, 0], [3, 3]],
        PlaceRows("tos", characters=True): [[1, 1], [0, 0], [2, 2]],
    }.items():
        decoded = field.decode(tensors)
        assert np.array(decoded).tolist() == expected
        served = field.graph(tf, graph).numpy()
        if served.dtype == object:
            served = np.vectorize(lambda text: text.decode(), [object])(served)
        else:
            assert served.dtype == decoded.dtype
        assert served.tolist() == expected
    none = {"n": np.zeros(2, "int32"), "word": [], "kind": np.zeros(0, "int32"), "text": ["", ""]}
    assert StringRows("word", "n").decode(none) == [[], []]
    assert NameRows(["x"], "kind", "n").decode(none) == [[], []]
    assert PlaceRows("kind", "n").decode(none).shape == (2, 0)
