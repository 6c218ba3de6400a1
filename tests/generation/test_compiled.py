"""One compiled function: traces, shapes, variables, errors; the same on all backends."""

from pathlib import Path

import keras
import numpy as np
import pytest
from generation_toys import everything, randomize, small_transformer, sources, translate
from processes import run_python
from retraced import retraced

from keras_attn.generation import CompiledFunction, CompiledSteps

HERE = Path(__file__).parent
on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="counts TensorFlow traces"
)


def assert_equal(a, b, tolerance=1e-5):
    for field in a._fields:
        np.testing.assert_allclose(
            getattr(a, field), getattr(b, field), atol=tolerance, err_msg=field
        )


def count_calls(compiled):
    """Makes a list of the `max_length`s with which the function is called, that is, traced."""
    calls, function = [], compiled.function

    def counted(ids, max_length):
        calls.append(max_length)
        return function(ids, max_length)

    compiled.function = counted
    return calls


SETTINGS = {None: {}, 3: {"num_return_sequences": 3, "alpha": 0.6}}


@pytest.fixture(scope="module")
def model():
    return small_transformer()


@pytest.fixture(scope="module")
def compiled(model):
    """Greedy search (None) and three beams, each with the list of its traces."""
    functions = {n: translate(model, n, **settings) for n, settings in SETTINGS.items()}
    return {n: (function, count_calls(function)) for n, function in functions.items()}


@on_tensorflow
@pytest.mark.parametrize("num_beams", [None, pytest.param(3, marks=pytest.mark.slow)])
def test_one_trace_for_any_batch_and_length(compiled, num_beams):
    generate, calls = compiled[num_beams]
    inner = (3,) if num_beams else ()
    for rows, width, length in [(4, 5, 6), (1, 5, 6), (2, 3, 9), (7, 8, 1), (0, 4, 5)]:
        result = generate(sources([width] * rows, width), length)
        assert result.tokens.shape == (rows, *inner, length)
        assert result.scores.shape == (rows, *inner)
        assert result.lengths.shape == result.finished.shape == (rows, *inner)
        assert result.tokens.dtype == "int32"
    assert len(calls) == 1


@pytest.mark.slow
@on_tensorflow
@pytest.mark.parametrize("num_beams", [None, 3])
def test_xla_gives_the_same(model, compiled, num_beams):
    xla = translate(model, num_beams, jit_compile=True, **SETTINGS[num_beams])
    calls = count_calls(xla)
    for rows in [3] if num_beams else [3, 2]:
        ids = sources([5, 2, 3][:rows], 5)
        assert_equal(compiled[num_beams][0](ids, 6), xla(ids, 6))
    assert calls == [6]


@pytest.mark.slow
@pytest.mark.parametrize("num_beams", [None, 3])
def test_rows_and_padding_do_not_matter(compiled, num_beams):
    """A source alone == in a batch with longer ones == with more padding."""
    generate, _ = compiled[num_beams]
    lengths = [5, 2, 1, 4]
    ids = sources(lengths, 5)
    together = generate(ids, 6)
    assert_equal(together, generate(np.pad(ids, [[0, 0], [0, 3]]), 6))
    for row, length in enumerate(lengths):
        alone = generate(ids[row : row + 1, :length], 6)
        assert_equal(alone, type(together)(*(t[row : row + 1] for t in together)))


@pytest.mark.slow
def test_sees_changed_variables(model, compiled):
    """And not those of the trace (that they are the right ones: see the many random models)."""
    ids = sources([5, 3], 5)
    generate, _ = compiled[3]
    before = generate(ids, 6)
    randomize(model, 2)
    assert not np.allclose(before.scores, generate(ids, 6).scores)
    randomize(model, 7)
    assert_equal(before, generate(ids, 6))


def test_sees_training(model, compiled):
    ids = sources([4, 4], 4)
    generate, _ = compiled[None]
    before = generate(ids, 5)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, run_eagerly=True)
    target = np.array([[3, 4, 5], [6, 7, 8]])
    model.fit({"source_ids": ids, "target_ids": target}, target, verbose=0)
    assert not np.allclose(before.scores, generate(ids, 5).scores)
    randomize(model, 7)


def test_takes_lists_and_gives_arrays():
    double = CompiledFunction(lambda ids, max_length: {"a": ids * 2, "b": [ids + 1]}, [])
    result = double([[1, 2]], np.int64(3))
    assert isinstance(result["a"], np.ndarray)
    assert result["a"].tolist() == [[2, 4]]
    assert result["b"][0].tolist() == [[2, 3]]
    assert double(np.zeros((0, 2)), 3)["b"][0].shape == (0, 2)


@pytest.mark.slow
@on_tensorflow
def test_many_functions_give_no_warning():
    """TensorFlow counts traces by lines of code, here of functions that are traced once each."""
    with retraced() as warnings:
        for i in range(8):
            run = CompiledFunction(lambda ids, length, i=i: ids + i, [])
            assert run([[1]], 1).tolist() == [[1 + i]]
            steps = CompiledSteps(
                lambda ids, length: ids, lambda state: (state, state), keras.Sequential()
            )
            assert steps.advance(steps.begin([[i]], 1))[0].tolist() == [[i]]
        xla = CompiledFunction(lambda ids, length: ids + length, [], jit_compile=True)
        assert [int(xla([[1]], length)[0, 0]) for length in range(1, 9)] == [*range(2, 10)]
    assert warnings == []


@pytest.mark.parametrize(
    "ids, max_length, message",
    [
        ([1, 2], 3, r"shape \(B, S\). Received: dtype int64, shape \(2,\)"),
        ([[1.5]], 3, "must be integers"),
        ([[1]], 0, "`max_length` must be an integer of at least 1. Received: 0"),
        ([[1]], 2.5, "`max_length` must be an integer"),
    ],
)
def test_errors(ids, max_length, message):
    with pytest.raises(ValueError, match=message):
        CompiledFunction(lambda ids, max_length: ids, [])(ids, max_length)


def pool(rank, jit_compile=False, dtype="float32"):
    """A dense layer, which must know the last dimension, on the mean of the others."""
    layer = keras.layers.Dense(2, kernel_initializer="ones", bias_initializer="ones")
    layer.build((None, 3))

    def function(inputs, max_length, *numbers):
        assert inputs.dtype == dtype or str(inputs.dtype).endswith(dtype)
        x = keras.ops.cast(inputs, "float32")
        x = layer(keras.ops.mean(x, axis=tuple(range(1, rank - 1))))
        return x * keras.ops.cast(max_length, "float32") + sum(
            keras.ops.cast(n, "float32")[:, None] for n in numbers
        )

    return CompiledFunction(function, layer.variables, jit_compile, dtype=dtype, rank=rank), layer


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(("dtype", "rank"), [("float32", 3), ("uint8", 4)])
def test_regions_and_pictures(dtype, rank, jit_compile):
    run, layer = pool(rank, jit_compile, dtype)
    rng = np.random.default_rng(0)
    for rows, side in [(4, 5), (1, 5), (3, 6), (0, 5)]:
        inputs = rng.integers(0, 256, (rows, *[side] * (rank - 2), 3)).astype(dtype)
        expected = inputs.astype("float64").mean(tuple(range(1, rank - 1))).sum(-1) + 1
        found = run(inputs, 2, np.arange(rows))
        assert found.shape == (rows, 2)
        assert found.dtype == "float32"
        for column in found.T:
            np.testing.assert_allclose(column, 2 * expected + np.arange(rows), rtol=1e-5)
    layer.set_weights([np.zeros((3, 2)), np.full(2, 5.0)])
    np.testing.assert_allclose(run(np.ones([1, *[5] * (rank - 2), 3], dtype), 2, [1]), [[11, 11]])


@on_tensorflow
def test_one_trace_for_each_shape_of_regions():
    run, _ = pool(3)
    calls = count_calls(run)
    for rows, regions, length in [(2, 4, 3), (5, 4, 7), (0, 4, 1), (1, 9, 3), (2, 4, 3)]:
        run(np.zeros((rows, regions, 3), "float32"), length)
    assert len(calls) == 2


def test_floats_of_any_precision_and_pictures_of_any_integers():
    half, _ = pool(3)
    np.testing.assert_array_equal(half(np.full((1, 2, 3), 0.5, "float16"), 1), [[2.5, 2.5]])
    assert half([[[0.5, 1.0, 2.0]]], 1).tolist() == [[4.5, 4.5]]
    picture, _ = pool(4, dtype="uint8")
    assert picture([[[[1, 2, 255]]]], 1).tolist() == [[259, 259]]


def test_arrays_that_cannot_be_written_to(tmp_path):
    """Features come from memory-mapped files."""
    np.save(tmp_path / "regions.npy", np.ones((2, 4, 3), "float32"))
    regions = np.load(tmp_path / "regions.npy", mmap_mode="r")
    assert pool(3)[0](regions, 1).tolist() == [[4, 4], [4, 4]]


@pytest.mark.parametrize(
    ("dtype", "rank", "inputs", "message"),
    [
        ("float32", 3, np.zeros((2, 3)), r"floats of shape \(B, \.\.\.\) and rank 3\..*\(2, 3\)"),
        ("float32", 3, np.zeros((2, 3, 1), "int32"), "must be floats .* Received: dtype int32"),
        ("uint8", 4, np.zeros((2, 2, 3), "uint8"), r"rank 4. Received: dtype uint8, shape \(2, 2"),
        ("uint8", 4, np.zeros((1, 2, 2, 3)), "integers from 0 to 255 .* Received: dtype float64"),
        ("uint8", 4, np.full((1, 2, 2, 3), -1), "Received: integers from -1 to -1"),
        ("uint8", 4, np.full((1, 2, 2, 3), 256), "Received: integers from 256 to 256"),
        ("int32", 3, np.zeros((1, 2), "int32"), "`ids` must be integers .*rank 3"),
    ],
)
def test_errors_of_other_inputs(dtype, rank, inputs, message):
    with pytest.raises(ValueError, match=message):
        CompiledFunction(lambda x, _: x, [], dtype=dtype, rank=rank)(inputs, 1)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="one of 'int32', 'float32', 'uint8'"):
        CompiledFunction(lambda x, _: x, [], dtype="int64")
    for rank in (1, 2.5):
        with pytest.raises(ValueError, match="`rank` must be an integer of at least 2"):
            CompiledFunction(lambda x, _: x, [], rank=rank)


@pytest.fixture(scope="module")
def here():
    return everything()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_all_backends_give_the_same(backend, here, tmp_path):
    script = (
        "import numpy as np; from generation_toys import everything; "
        "np.savez('there.npz', **everything())"
    )
    run_python(backend, script, cwd=tmp_path, path=[HERE])
    there = np.load(tmp_path / "there.npz")
    assert set(there) == set(here)
    for name, value in here.items():
        assert there[name].shape == value.shape, name
        np.testing.assert_allclose(there[name], value, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_the_results_compared_are_not_trivial(here):
    assert here["toy beam: finished"].any()
    for name in ("greedy", "beam"):
        rows = here[f"{name}: tokens"].reshape(4, -1)
        assert len(np.unique(rows, axis=0)) >= 3
        changed = here[f"{name} after a change: tokens"].reshape(4, -1)
        assert not np.array_equal(rows, changed)


@on_tensorflow
def test_functions_that_run_eagerly_get_tensors():
    """As one debugs: `tf.config.run_functions_eagerly(True)`."""
    import tensorflow as tf

    def add(ids, length, more):
        assert all(tf.is_tensor(x) for x in (ids, length, more))
        return keras.ops.expand_dims(ids[:, 0] + length, 1) + more

    function = CompiledFunction(add, [])
    tf.config.run_functions_eagerly(True)
    try:
        found = function([[1], [2]], 3, [[10, 20], [30, 40]])
    finally:
        tf.config.run_functions_eagerly(False)
    assert found.tolist() == [[14, 24], [35, 45]]
