"""Functions of SavedModels: rows in parts, batches without rows, unequal batches, limits."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.export import in_parts, limited, with_a_row

TEXTS = ["a", "bc", "", "defg", "hi", "j", "klm"]


def letters(text, count, table):
    """Outputs of several types, ranks and widths; `table` has rows of its own."""
    found = tf.strings.bytes_split(text).to_tensor("")
    lengths = tf.strings.length(text)
    return {
        "letters": found,
        "lengths": lengths + count,
        "here": found != "",
        "cubes": tf.cast(lengths, "float32")[:, None, None] * tf.ones([1, tf.shape(found)[1], 3]),
        "table": tf.repeat(tf.reduce_sum(table)[None], tf.size(text)),
    }


def traced(function):
    specs = [tf.TensorSpec([None], "string"), tf.TensorSpec([], "int32"), tf.TensorSpec([None])]
    return tf.function(lambda *x: function(text=x[0], count=x[1], table=x[2]), specs)


@pytest.mark.quick("3-True")
@pytest.mark.parametrize(("size", "graph"), [(1, True), (3, True), (64, True), (3, False)])
def test_parts_give_what_the_whole_gives(size, graph):
    given = {"text": tf.constant(TEXTS), "count": tf.constant(5), "table": tf.constant([1.0, 2])}
    function = in_parts(tf, letters, size, whole=("table",))
    found = traced(function)(*given.values()) if graph else function(**given)
    text = [[*map(str.encode, row), *[b""] * (4 - len(row))] for row in TEXTS]
    assert found["letters"].numpy().tolist() == text
    assert found["lengths"].numpy().tolist() == [5 + len(row) for row in TEXTS]
    assert found["here"].numpy().tolist() == [[letter != b"" for letter in row] for row in text]
    assert found["table"].numpy().tolist() == [3.0] * len(TEXTS)
    for row, cube in zip(TEXTS, found["cubes"].numpy(), strict=True):
        # A row is padded to its part, where it has its values, and to the whole by zeros.
        assert cube.shape == (4, 3)
        np.testing.assert_array_equal(cube[: len(row)], len(row))


@pytest.mark.slow
def test_no_more_rows_than_the_size_are_computed_at_a_time():
    sizes = []

    def function(text):
        tf.py_function(lambda x: sizes.append(int(tf.size(x))), [text], [])
        return {"length": tf.strings.length(text)}

    run = tf.function(in_parts(tf, function, 3))
    assert run(text=tf.constant(TEXTS))["length"].numpy().tolist() == [*map(len, TEXTS)]
    assert sizes == [3, 3, 1]


def test_the_function_is_traced_once():
    calls = []

    def function(text):
        calls.append(text)
        return {"length": tf.strings.length(text)}

    tf.function(in_parts(tf, function, 2)).get_concrete_function(
        text=tf.TensorSpec([None], "string")
    )
    assert len(calls) == 1


def both(text, second):
    return {"text": tf.strings.join([text, second])}


@pytest.mark.parametrize("graph", [False, True])
def test_batches_that_are_not_equal_are_refused(graph):
    run = with_a_row(tf, both)
    if graph:
        specs = [tf.TensorSpec([None], "string")] * 2
        run = tf.function(
            lambda text, second: with_a_row(tf, both)(text=text, second=second), specs
        )
    assert run(text=tf.constant(["a"]), second=tf.constant(["b"]))["text"].numpy() == [b"ab"]
    assert run(text=tf.constant([], "string"), second=tf.constant([], "string"))["text"].shape == 0
    for text, second in ((2, 1), (1, 2), (0, 1), (3, 0)):
        message = f"as many rows of `second` as of `text`. Received: {second} and {text}"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            run(text=tf.fill([text], "a"), second=tf.fill([second], "b"))


def test_an_input_that_is_whole_may_have_other_rows():
    def pick(place, values):
        return {"value": tf.gather(values, place)}

    run = with_a_row(tf, in_parts(tf, pick, 2, whole=("values",)), whole=("values",))
    given = {"place": tf.constant([2, 0, 1, 2]), "values": tf.constant([5, 6, 7])}
    assert run(**given)["value"].numpy().tolist() == [7, 5, 6, 7]


def test_a_limit_says_what_was_expected():
    run = tf.function(lambda n: limited(tf, n, 5, "max_rows", "1 to 5 rows", "Send fewer"))
    assert [int(run(tf.constant(n))) for n in (1, 5)] == [1, 5]
    for n in (-(2**31), 0, 6, 2**31 - 1):
        message = rf"Expected 1 to 5 rows. Received: {n}. Send fewer, or export .* \(max_rows\)"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            run(tf.constant(n))
