"""Functions of arrays: against loops, on every backend, in a graph, and in little memory."""

import ast
import itertools
from pathlib import Path

import array_cases
import array_references as references
import keras
import memory
import numpy as np
import pytest
import tensorflow as tf
from array_cases import LABELS, TABLES, int32, plain
from processes import answer

import keras_attn
from keras_attn import arrays

CALLS = list(array_cases.calls())


def same(found, expected):
    """Equal numbers of equal dtypes; floats that are close."""
    for (dtype, shape, values), (other, of_other, numbers) in zip(found, expected, strict=True):
        assert (dtype, shape) == (other, of_other)
        if dtype == "float32":
            values, numbers = np.array(values, "float32"), np.array(numbers, "float32")
            np.testing.assert_allclose(values, numbers, atol=1e-5)
        else:
            assert values == numbers


def test_every_result_is_int32_or_float32():
    for name, call, inputs in CALLS:
        assert {dtype for dtype, *_ in plain(call(np, *inputs))} <= {"int32", "float32"}, name


def test_tensorflow_computes_what_numpy_does():
    for _, call, inputs in CALLS:
        found = call(keras.ops, *map(keras.ops.convert_to_tensor, inputs))
        same(plain(found), plain(call(np, *inputs)))


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_another_backend_computes_what_numpy_does(backend):
    result = answer(backend, Path(array_cases.__file__))
    assert result["backend"] == backend
    expected = {name: plain(call(np, *inputs)) for name, call, inputs in CALLS}
    assert len(result["found"]) >= len(expected) / 4
    for name, found in result["found"].items():
        same(found, expected[name])


@pytest.mark.slow
def test_a_graph_computes_what_numpy_does():
    """With unknown shapes; a function is traced once."""
    traced = {}
    for name, call, inputs in CALLS:
        kind = name.rstrip("0123456789 ") + name.rpartition(" ")[2] * name.startswith("windows")
        if kind not in traced:
            specs = [tf.TensorSpec([None] * x.ndim, x.dtype) for x in inputs]
            traced[kind] = tf.function(
                lambda *given, call=call: call(keras.ops, *given), specs, autograph=False
            )
        same(plain(traced[kind](*inputs)), plain(call(np, *inputs)))


def test_of_equal_scores_the_first_ones_are_the_greatest():
    scores = np.random.default_rng(0).integers(0, 3, (20, 2, 9)).astype("float32")
    for count in (1, 4, 9):
        expected = np.argsort(-scores, axis=-1, kind="stable")[..., :count]
        for xp in (np, keras.ops):
            assert np.array_equal(arrays.greatest(xp, scores, count), expected)


@pytest.mark.slow
def test_only_functions_of_the_list_are_called():
    called = set()
    for path in Path(keras_attn.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "xp":
                called.add(node.attr)
    assert called == arrays.FUNCTIONS
    assert all(hasattr(np, name) and hasattr(keras.ops, name) for name in called)


@pytest.mark.parametrize(("room", "margin"), [(3, 0), (4, 1), (8, 2), (30, 7)])
def test_each_place_is_read_off_in_one_window(room, margin):
    lengths = np.arange(5 * room, dtype="int32")
    found = arrays.windows(np, lengths, room, margin)
    expected = references.Windows(room, margin)
    assert list(zip(found.owner, found.start, strict=True)) == [
        (i, start) for i, n in enumerate(lengths) for start in expected.starts(n)
    ]
    assert (found.size == np.minimum(lengths, room)[found.owner]).all()
    assert found.counts.tolist() == [expected.count(n) for n in lengths]
    for length, first, count in zip(lengths, found.rows, found.counts, strict=True):
        assert (found.owner[first : first + count] == length).all()
        own = slice(first, first + count)
        assert found.first[own].tolist() == [0, *found.behind[own][:-1]]
        assert found.behind[own][-1] == length
        places = np.arange(length, dtype="int32")
        numbers = arrays.window_numbers(np, places, np.full_like(places, length), room, margin)
        assert numbers.tolist() == [expected.number(p, length) for p in places]
        assert sorted(set(numbers)) == list(range(count)) if length else True
        rows = first + numbers
        assert ((found.first[rows] <= places) & (places < found.behind[rows])).all()
        before = places - found.start[rows]
        behind = found.start[rows] + found.size[rows] - 1 - places
        assert (before >= np.minimum(margin, places)).all()
        assert (behind >= np.minimum(margin, length - 1 - places)).all()


def test_windows_at_the_limits_of_int32():
    length, windows = 2**31 - 1, references.Windows(510, 63)
    places = [0, 62, 63, 446, 447, length - 64, length - 1]
    found = arrays.window_numbers(np, int32(*places), int32(*[length] * 7), 510, 63)
    assert found.tolist() == [windows.number(place, length) for place in places]
    room = 2**30
    few = arrays.windows(np, int32(length), room, 0)
    assert few.start.tolist() == references.Windows(room, 0).starts(length)
    assert few.behind.tolist() == [room, length]


SCHEMES = {
    "BIO": LABELS,
    "BIOES": "O B-A I-A E-A S-A I-B S-B".split(),  # there is no B-B
    "BILOU": "O B-A I-A L-A U-A U-B L-B".split(),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_of_all_labels_of_four_words(scheme):
    """Every sequence, and between others: an entity does not reach into the next sentence."""
    names = SCHEMES[scheme]
    assert arrays.scheme_of(names) == scheme
    tables = arrays.label_tables(names, scheme)
    rows = [*itertools.product(range(len(names)), repeat=4)]
    labels, lengths = np.array(rows, "int32").ravel(), np.full(len(rows), 4, "int32")
    found = arrays.entities(np, labels, lengths, tables)
    repaired = found["labels"].reshape(-1, 4)
    ends = np.cumsum(found["entities"])
    every = list(zip(found["kinds"], found["first"], found["behind"], strict=True))
    for row, ours, end, count in zip(rows, repaired, ends, found["entities"], strict=True):
        given = [names[i] for i in row]
        whole, expected = references.marked_entities(given, scheme)
        known = [b if b in names else a for a, b in zip(given, whole, strict=True)]
        assert [names[i] for i in ours] == known
        places = [(tables.kinds[k - 1], *map(int, at)) for k, *at in every[end - count : end]]
        assert places == expected
    assert (found["first_word"] == np.repeat(np.arange(len(rows)), found["entities"]) * 4
            + found["first"]).all()  # fmt: skip
    assert (found["last_word"] - found["first_word"] == found["behind"] - found["first"] - 1).all()


def test_schemes_that_are_recognized():
    for labels, scheme in [
        ("", ""), ("O", ""), ("B-", ""), ("NN O", ""), ("B-X NN", ""), ("I-X O", "BIO"),
        ("B-X S-X", "BIOES"), ("I-X E-X", "BIOES"), ("U-X O", "BILOU"), ("B-X I-X L-X", "BILOU"),
    ]:  # fmt: skip
        assert arrays.scheme_of(labels.split()) == scheme
    assert arrays.scheme_of(["B-X", "O", ""]) == ""
    with pytest.raises(ValueError, match=r"BIO, BIOES, BILOU\. Received: L-X, S-Y, with"):
        arrays.scheme_of(["O", "S-Y", "L-X"])


def test_labels_that_mark_no_entities():
    tables = arrays.label_tables(["NN", "VB", "B-odd"], "")
    found = arrays.entities(np, int32(0, 2, 1), int32(1, 2), tables)
    assert found["labels"].tolist() == [0, 2, 1] and found["entities"].tolist() == [0, 0]
    assert tables.kinds == []


def test_best_spans_are_those_of_all_spans():
    """In their order where scores are equal, in windows and over the windows of texts."""
    rng = np.random.default_rng(3)
    for trial in range(60):
        n_best, longest = int(rng.integers(1, 9)), int(rng.integers(1, 5))
        lengths = array_cases.lengths_of(rng, 4, 12)
        parts = arrays.windows(np, lengths, 6, 1)
        starts, ends = (
            rng.integers(0, 3 if trial % 2 else 99, (len(parts.owner), 6)).astype("float32")
            for _ in range(2)
        )
        outside = np.arange(6) >= parts.size[:, None]
        starts[outside] = ends[outside] = -np.inf
        at = parts.start[:, None] + np.arange(6)
        begin = (at >= parts.first[:, None]) & (at < parts.behind[:, None])
        none = rng.integers(0, 9, len(parts.owner)).astype("float32")
        found = arrays.best_spans(np, starts, ends, begin, longest, n_best)
        of_windows = [
            references.spans(*rows, longest) for rows in zip(starts, ends, begin, strict=True)
        ]
        for row, scores in enumerate(of_windows):
            best = references.best(scores, n_best)
            there = found.scores[row] > -np.inf
            assert found.scores[row][there].tolist() == [scores[span] for span in best]
            pairs = zip(found.first[row][there], found.last[row][there], strict=True)
            assert list(pairs) == best
            assert found.whole[row] == pytest.approx(references.log_sum([*scores.values()]))
        shift = parts.start[:, None]
        shifted = found._replace(first=found.first + shift, last=found.last + shift)
        result = arrays.spans_of_texts(np, shifted, none, parts)
        for text, (row, count) in enumerate(zip(parts.rows, parts.counts, strict=True)):
            every = {
                (i + parts.start[r], j + parts.start[r]): score
                for r in range(row, row + count)
                for (i, j), score in of_windows[r].items()
            }
            best = references.best(every, n_best)
            there = result.best.scores[text] > -np.inf
            pairs = zip(result.best.first[text][there], result.best.last[text][there], strict=True)
            assert list(pairs) == best and there[: len(best)].all()
            assert result.best.whole[text] == pytest.approx(references.log_sum([*every.values()]))
            least = none[row : row + count]
            assert result.none[text] == least.min()
            assert result.doubtful[text] == row + least.argmin()


def test_rows_that_are_joined():
    first, second = int32(5, 6, 7, 8), int32(1, 2)
    parts = [(first, int32(1, 0, 4), int32(2, 4, 0)), (second, int32(0, 1, 2), int32(2, 1, 0))]
    rows, sizes = arrays.joined(np, parts, 9)
    assert rows.tolist() == [[6, 7, 1, 2, 9], [5, 6, 7, 8, 2], [9] * 5]
    assert sizes.tolist() == [4, 5, 0]
    rows, sizes = arrays.joined(np, [(int32(), int32(0, 0), int32(0, 0))], 9)
    assert rows.shape == (2, 0) and sizes.tolist() == [0, 0]


def test_equal_values_stay_in_their_order():
    """Of as many as NumPy sorts otherwise by quicksort."""
    values = np.random.default_rng(0).integers(0, 3, (2, 500)).astype("float32")
    expected = [sorted(range(500), key=lambda i, row=row: row[i]) for row in values]
    for found in (
        arrays.order(np, values),
        keras.ops.convert_to_numpy(arrays.order(keras.ops, values)),
    ):
        assert found.tolist() == expected


def test_memory_grows_with_the_values():
    """One long row beside 20,000 empty ones, of which a table would have 8 GB."""
    lengths = np.zeros(20_000, "int32")
    lengths[7] = 100_000
    labels = np.tile(int32(1, 2, 0, 4), 25_000)

    def run(xp, labels, lengths):
        found = arrays.entities(xp, labels, lengths, TABLES)
        parts = arrays.windows(xp, lengths, 126, 15)
        sizes = xp.zeros_like(lengths) + 1
        rows, _ = arrays.joined(xp, [(labels, parts.start, parts.size)], 0)
        return [*found.values(), rows[:, 0], arrays.row_sums(xp, labels, lengths), sizes]

    graph = tf.function(
        lambda *given: run(keras.ops, *given),
        [tf.TensorSpec([None], tf.int32)] * 2,
        autograph=False,
    )
    for call in (lambda *given: run(np, *given), graph):
        with memory.grown() as megabytes:
            call(labels, lengths)
        assert megabytes() < 150
