"""Calls of the functions of arrays, for any array module. Run: what `keras.ops` computes, as JSON.

A call is a name, a function of an array module and of arrays, and these arrays.
"""

import json

import keras
import numpy as np

from keras_attn import arrays

LABELS = ["O", "B-A", "I-A", "B-B", "I-B", "I-C"]  # there is no B-C
TABLES = arrays.label_tables(LABELS)
BIOES = arrays.label_tables("O B-A I-A E-A S-A S-B".split(), "BIOES")
MOST = 2**31 - 1


def int32(*values):
    return np.array(values, "int32")


def lengths_of(rng, rows, most):
    """Some rows are empty."""
    return (rng.integers(0, most + 1, rows) * (rng.random(rows) < 0.7)).astype("int32")


def windows(room, margin):
    return lambda xp, lengths: [*arrays.windows(xp, lengths, room, margin)]


def numbers(room, margin):
    return lambda xp, places, lengths: [arrays.window_numbers(xp, places, lengths, room, margin)]


def spans(longest, n_best):
    return lambda xp, *inputs: [*arrays.best_spans(xp, *inputs, longest, n_best)]


def texts(n_best):
    def call(xp, starts, ends, lengths, none):
        parts = arrays.windows(xp, lengths, 4, 1)
        begin = xp.where(starts > -np.inf, True, False)
        best = arrays.best_spans(xp, starts, ends, begin, 3, n_best)
        found = arrays.spans_of_texts(xp, best, none, parts)
        return [*found.best, found.none, found.doubtful]

    return call


def entities(xp, labels, lengths):
    both = (arrays.entities(xp, labels, lengths, tables) for tables in (TABLES, BIOES))
    return [values for found in both for values in found.values()]


def rows(xp, values, mask, lengths):
    return [
        arrays.starts_of(xp, lengths),
        *arrays.places_in_rows(xp, lengths),
        arrays.row_sums(xp, values, lengths),
        *arrays.kept(xp, mask, lengths),
        arrays.padded(xp, values, lengths),
        arrays.padded(xp, values, lengths, -7),
    ]


def joined(xp, first, second, starts, sizes, more):
    parts = [(first, starts, sizes), (second, xp.zeros_like(starts), more)]
    return [*arrays.joined(xp, parts, 9)]


def order(xp, values):
    return [arrays.order(xp, values)]


def vectors(xp, values):
    return [arrays.unit_length(xp, values)]


def places(xp, table):
    return [arrays.places_of(xp, table, 1)]


def greatest(xp, scores):
    return [arrays.greatest(xp, scores, 3)]


def sums(xp, scores):
    return [arrays.log_sum(xp, scores)]


def calls(trials=range(8)):
    for trial in trials:
        rng = np.random.default_rng(trial)
        # The last trial has no rows, and the one before it empty rows alone.
        lengths = lengths_of(rng, 0 if trial == 7 else 6, 0 if trial == 6 else 9)
        count = int(lengths.sum())
        labels = rng.integers(0, len(LABELS), count).astype("int32")
        yield f"entities {trial}", entities, [labels, lengths]
        values = rng.integers(-5, 5, count).astype("int32")
        yield f"rows {trial}", rows, [values, rng.random(count) < 0.5, lengths]
        for room, margin in ((3, 0), (8, 2)):
            yield f"windows {trial} {room}", windows(room, margin), [lengths * 5]
        owner = np.repeat(np.arange(len(lengths)), lengths)
        at = rng.integers(0, 1 + lengths[owner]).astype("int32")
        yield f"numbers {trial}", numbers(4, 1), [at, lengths[owner]]
        starts = rng.integers(0, 3, len(lengths)).astype("int32")
        sizes, more = (rng.integers(0, 4, len(lengths)).astype("int32") for _ in range(2))
        yield (
            f"joined {trial}",
            joined,
            [np.arange(6, dtype="int32"), int32(1, 2, 3), starts, sizes, more],
        )
        # Few different scores, so that many are equal; some windows and places have none.
        width = 1 if trial == 5 else 5
        scores = [rng.integers(0, 3, (6, width)).astype("float32") for _ in range(2)]
        outside = np.arange(width) >= rng.integers(0, width + 1, 6)[:, None]
        for some in scores:
            some[outside] = -np.inf
        yield f"spans {trial}", spans(2, 4), [*scores, rng.random((6, width)) < 0.8]
        # The best of windows of 4 places, of which 2 are read off.
        lengths = lengths_of(rng, 5, 0 if trial == 6 else 12)
        count = len(arrays.windows(np, lengths, 4, 1).owner)
        scores = [rng.integers(0, 3, (count, 4)).astype("float32") for _ in range(2)]
        scores[0][rng.random((count, 4)) < 0.2] = -np.inf
        none = rng.integers(-3, 3, count).astype("float32")
        yield f"texts {trial}", texts(3), [*scores, lengths, none]
        yield f"sums {trial}", sums, [scores[0]]
        yield f"order {trial}", order, [scores[0]]
        yield f"order of integers {trial}", order, [scores[0][:, 0].clip(-1).astype("int32")]
    values = np.array([[3, 4], [0, 0], [1e-20, 0], [-1e18, 1e18]], "float32")
    yield "vectors", vectors, [values]
    yield "places", places, [np.random.default_rng(0).integers(0, 3, (5, 7)).astype("int32")]
    yield "places of none", places, [np.zeros((3, 2), "int32")]
    scores = np.tile(np.arange(9, dtype="float32"), (5, 1))
    yield "greatest", greatest, [np.random.default_rng(0).permuted(scores, axis=1)]
    yield "order at the limits", order, [int32(MOST, -MOST - 1, 0, MOST, -MOST - 1)]
    yield "numbers at the limits", numbers(510, 63), [
        int32(MOST - 1, 0, MOST - 1, 64), int32(MOST, MOST, MOST - 1, 0)
    ]  # fmt: skip
    yield "rows of many values", lambda xp, values, lengths: [
        arrays.starts_of(xp, lengths), arrays.row_sums(xp, values, int32(1, 0, 2)),
    ], [int32(MOST, -3, 3), int32(MOST - 1, 0, 1)]  # fmt: skip
    yield "windows that differ", lambda xp, lengths, room, margin: [
        *arrays.windows(xp, lengths, room, margin)
    ], [int32(40, 17, 100), int32(8, 5, 30), int32(2, 1, 7)]  # fmt: skip


def plain(values):
    """Numbers and dtypes, as JSON has them."""
    values = [np.asarray(keras.ops.convert_to_numpy(x)) for x in values]
    return [[x.dtype.name, list(x.shape), [*map(str, x.ravel().tolist())]] for x in values]


if __name__ == "__main__":
    found = {
        name: plain(call(keras.ops, *map(keras.ops.convert_to_tensor, inputs)))
        # JAX compiles each function for each shape.
        for name, call, inputs in calls([6, 7] if keras.backend.backend() == "jax" else range(8))
    }
    print(json.dumps({"backend": keras.backend.backend(), "found": found}))
