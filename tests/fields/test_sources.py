"""Sources as rows of ids, and what a decoder makes of them: in Python and in a graph."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.fields import (
    ODD_TEXTS,
    AttentionWeights,
    GeneratedText,
    Numbers,
    PaddedNumbers,
    ReadableTokens,
    SourceText,
    TurnRows,
    with_marks,
)
from keras_attn.text import BytePairTokenizer, SentencePieceTokenizer

PLAIN = BytePairTokenizer.train(["A film to remember, the ships of 17 ports"] * 2, 280)
TOKENIZER = with_marks(PLAIN)
PIECES = with_marks(SentencePieceTokenizer.train(["A film to remember"] * 2, 290, allow_fewer=True))
PIECES_GRAPH = functools.cache(PIECES.to_graph)
GRAPH = functools.cache(TOKENIZER.to_graph)
TEXTS = [*ODD_TEXTS, "</s> <pad> <end> ▁", "<self> <other>", "x" * 300]


def encoded_in_graph(field, values, *shape, graph=GRAPH):
    """The rows that a field makes in a graph of unknown shapes."""
    encode, modules = field.to_graph(tf)
    assert modules == [graph()]
    spec = tf.TensorSpec(shape, tf.string)
    return tf.function(encode, [spec], autograph=False)(tf.constant(values))


def check_rows(found, expected):
    table = found["source_ids"].numpy()
    assert table.shape[1] == max(map(len, expected["source_ids"]))
    for row, ids in zip(table.tolist(), expected["source_ids"], strict=True):
        assert row == ids + [TOKENIZER.pad_id] * (len(row) - len(ids))
    for name in expected.keys() - {"source_ids"}:
        assert found[name].numpy().tolist() == expected[name].tolist(), name


@pytest.mark.quick("7-False")
@pytest.mark.parametrize(("most", "ends"), [(2, True), (7, True), (64, True), (7, False)])
def test_sources(most, ends):
    field = SourceText(TOKENIZER, most, GRAPH, ends=ends)
    expected = field.encode(TEXTS)
    check_rows(encoded_in_graph(field, TEXTS, None), expected)
    whole = TOKENIZER.encode(TEXTS)
    for ids, cut, row in zip(expected["source_ids"], expected["cut"], whole, strict=True):
        assert ids == ([*row[: most - 1], TOKENIZER.end_id] if ends or not row else row[:most])
        assert cut == (len(row) > most - ends)
    assert expected["some"].tolist() == [bool(text.strip()) for text in TEXTS]
    assert field.encode([])["source_ids"] == []


@pytest.mark.quick("byte_pair-2")
@pytest.mark.parametrize("most", [2, 9, 64])
@pytest.mark.parametrize("kind", ["byte_pair", "sentence_piece"])
def test_turns(kind, most):
    rows = [
        *zip(TEXTS, TEXTS[1:], TEXTS[3:], strict=False),
        ("", "", ""),
        ("", "a", ""),
        ("a",) * 3,
    ]
    tokenizer, graph = (PIECES, PIECES_GRAPH) if kind == "sentence_piece" else (TOKENIZER, GRAPH)
    field = TurnRows(tokenizer, 2, most, graph)
    expected = field.encode(rows)
    check_rows(encoded_in_graph(field, rows, None, None, graph=graph), expected)
    assert max(map(len, expected["source_ids"])) <= most
    assert expected["some"].tolist() == [any(map(str.strip, row)) for row in rows]


def test_outputs():
    """In Python each row has its own length, in a graph all rows are padded."""
    ids = [TOKENIZER.encode([a, b], add_end=True) for a, b in (("ships", "a"), ("", "é \x00b"))]
    rng = np.random.default_rng(0)
    width = max(len(row) for pair in ids for row in pair)
    table = np.full((2, 2, width), TOKENIZER.pad_id, "int32")
    weights = np.zeros((2, 2, width, 6), "float32")
    for b, pair in enumerate(ids):
        for r, row in enumerate(pair):
            table[b, r, : len(row)] = row
            weights[b, r, : len(row), : 6 - 2 * b] = rng.random((len(row), 6 - 2 * b))
    own = [max(map(len, pair)) for pair in ids]
    rows = {
        "tokens": [x[:, :n] for x, n in zip(table, own, strict=True)],
        "weights": [weights[0, :, : own[0]], weights[1, :, : own[1], :4]],
        "scores": [np.array([0.5, 0.25]), np.array([2.0, 1.0])],
        "some": np.array([True, False]),
    }
    tensors = {"tokens": table, "weights": weights, "scores": [[0.5, 0.25], [2.0, 1.0]]}
    tensors = {name: tf.constant(x) for name, x in {**tensors, "some": rows["some"]}.items()}
    for field in (
        GeneratedText(TOKENIZER, graph=GRAPH),
        GeneratedText(TOKENIZER, some="some", graph=GRAPH),
        ReadableTokens(TOKENIZER, graph=GRAPH),
        AttentionWeights("weights"),
        AttentionWeights("weights", (2, 3)),
        Numbers("scores"),
    ):
        if hasattr(field, "modules"):
            assert field.modules() == [GRAPH()]
        found = field.graph(tf, tensors).numpy()
        expected = np.asarray(field.decode(rows))
        if found.dtype == object:
            found = np.vectorize(bytes.decode, [object])(found)
        assert found.tolist() == expected.tolist(), type(field)
    assert GeneratedText(TOKENIZER).decode(rows) == [["ships", "a"], ["", "é \x00b"]]
    assert ReadableTokens(TOKENIZER).decode(rows)[0, 0, -1] == "" != "</s>"
    assert AttentionWeights("weights", (2, 3)).decode(rows).shape == (2, 2, width, 2, 3)


def test_outputs_of_no_row():
    assert GeneratedText(TOKENIZER).decode({"tokens": []}) == []
    assert ReadableTokens(TOKENIZER).decode({"tokens": []}).tolist() == []
    assert AttentionWeights("weights").decode({"weights": []}).shape == (0, 0, 0, 0)
    assert AttentionWeights("weights", (2, 3)).decode({"weights": []}).shape == (0, 0, 0, 2, 3)
    none = {"weights": np.zeros((0, 2, 9)), "sizes": np.zeros(0, "int32")}
    assert PaddedNumbers("weights", 2, "sizes").decode(none).shape == (0, 2, 0)


@pytest.mark.slow
def test_blank_texts_with_a_prefix_and_a_language():
    tokenizer = PIECES.from_config(
        {
            **PIECES.get_config(),
            "vocabulary": [*PIECES.vocabulary, ">>deu<<"],
            "special_tokens": [*PIECES.special_tokens, ">>deu<<"],
        }
    )
    texts = ["a film", "", " \n", ">>deu<< ", ">>deu<< film"]
    for prefix in ("", "say: ", ">>deu<< "):
        field = SourceText(tokenizer, 20, prefix=prefix)
        expected = field.encode(texts)
        assert expected["some"].tolist() == [True, False, False, False, True]
        encode, _ = field.to_graph(tf)
        check_rows(tf.function(encode, [tf.TensorSpec([None], tf.string)])(texts), expected)


@pytest.mark.parametrize("tokenizer", [TOKENIZER, PIECES])
@pytest.mark.parametrize("several", [False, True])
def test_texts_behind_prompts(tokenizer, several):
    """A text that continues a prompt keeps the space before its first word."""
    ids = [tokenizer.encode(text) for text in ("to remember", " film", "A")]
    table = np.array([row[:3] + [tokenizer.pad_id] * (3 - len(row)) for row in ids])
    wanted = [tokenizer.decode(row) for row in table]
    if tokenizer is PIECES:
        wanted = [wanted[0], *(f" {text}" for text in wanted[1:])]
    before = ["", "A ", "é"]
    wanted = [start + text for start, text in zip(before, wanted, strict=True)]
    if several:
        table, wanted = np.stack([table, table], 1), [[text] * 2 for text in wanted]
    field = GeneratedText(tokenizer, after="prompt")
    field.modules()
    assert field.decode({"tokens": table, "prompt": before}) == wanted
    found = field.graph(tf, {"tokens": tf.constant(table), "prompt": tf.constant(before)}).numpy()
    assert np.vectorize(bytes.decode, [object])(found).tolist() == wanted
