"""One compiled function: traces, shapes, variables, errors; the same on all backends."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from generation_toys import everything, randomize, small_transformer, sources, translate

from keras_attn.generation import CompiledFunction

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
@pytest.mark.parametrize("num_beams", [None, 3])
def test_one_trace_for_any_batch_and_length(compiled, num_beams):
    generate, calls = compiled[num_beams]
    inner = (3,) if num_beams else ()
    for rows, width, length in [(4, 5, 6), (1, 5, 6), (2, 3, 9), (7, 8, 1), (0, 4, 5)]:
        result = generate(sources([width] * rows, width), length)
        assert result.tokens.shape == (rows, *inner, length)
        assert result.scores.shape == (rows, *inner)
    assert len(calls) == 1


@on_tensorflow
@pytest.mark.parametrize("num_beams", [None, 3])
def test_xla_gives_the_same(model, compiled, num_beams):
    xla = translate(model, num_beams, jit_compile=True, **SETTINGS[num_beams])
    calls = count_calls(xla)
    for rows in [3] if num_beams else [3, 2]:
        ids = sources([5, 2, 3][:rows], 5)
        assert_equal(compiled[num_beams][0](ids, 6), xla(ids, 6))
    assert calls == [6]


@pytest.mark.parametrize("num_beams", [None, 3])
def test_no_rows(compiled, num_beams):
    result = compiled[num_beams][0](np.zeros((0, 4), "int32"), 5)
    inner = (3,) if num_beams else ()
    assert result.tokens.shape == (0, *inner, 5)
    assert result.scores.shape == result.lengths.shape == result.finished.shape == (0, *inner)
    assert result.tokens.dtype == "int32"


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
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
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


@pytest.fixture(scope="module")
def here():
    return everything()


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_all_backends_give_the_same(backend, here, tmp_path):
    if backend == keras.backend.backend():
        pytest.skip("this process")
    pytest.importorskip(backend)
    script = (
        "import numpy as np; from generation_toys import everything; "
        "np.savez('there.npz', **everything())"
    )
    path = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    there = np.load(tmp_path / "there.npz")
    assert set(there) == set(here)
    for name, value in here.items():
        assert there[name].shape == value.shape, name
        np.testing.assert_allclose(there[name], value, atol=1e-5, err_msg=name)


def test_the_results_compared_are_not_trivial(here):
    assert here["toy beam: finished"].any()
    for name in ("greedy", "beam"):
        rows = here[f"{name}: tokens"].reshape(4, -1)
        assert len(np.unique(rows, axis=0)) >= 3
        changed = here[f"{name} after a change: tokens"].reshape(4, -1)
        assert not np.array_equal(rows, changed)
