"""What the tests of tasks and of the command need no graphs for, and no files."""

import contextlib
import warnings

import pytest

from keras_attn import export
from keras_attn.ops.compilers import tracing_for


@contextlib.contextmanager
def eagerly():
    """Within it nothing is traced: what runs a few times is sooner done so."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Even though the `tf.config", UserWarning)
            yield
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.fixture
def eager():
    with eagerly():
        yield


@pytest.fixture
def unsaved(monkeypatch):
    """Exports run their functions here, and compare as ever: nothing is written or read.

    Returns:
        A list that gets the functions of each export, by the names of their signatures.
    """
    import tensorflow as tf

    made = []

    def run(path, make_functions, variables, examples, expected, tolerance=1e-4, **settings):
        functions, _ = make_functions(tf)
        inputs = {name: export._constant(tf, value) for name, value in examples.items()}
        specs = [tf.TensorSpec([None] * value.shape.rank, value.dtype) for value in inputs.values()]
        functions = {
            name: tf.function(tracing_for(xla=False)(f), specs, autograph=False)
            for name, f in functions.items()
        }
        for name, outputs in expected.items():
            received = functions[name](**inputs)
            for output, values in outputs.items():
                found = received[output].numpy()
                export.check_equal(f"{name}: {output}", found, values, tolerance)
        made.append(functions)

    for task in ("captioning", "text_classification", "text_generation", "translation"):
        monkeypatch.setattr(f"keras_attn.tasks.{task}_export.export_text_functions", run)
    return made
