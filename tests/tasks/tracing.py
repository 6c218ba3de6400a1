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


def _traced(tf, function, specs):
    """By position or by name, as signatures are."""
    compiled = tf.function(
        lambda *inputs: function(**dict(zip(specs, inputs, strict=True))),
        [*specs.values()],
        autograph=False,
    )

    def call(*inputs, **named):
        return compiled(*inputs, *(named[name] for name in [*specs][len(inputs) :]))

    return call


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
        specs = {
            name: tf.TensorSpec([None] * value.shape.rank, value.dtype, name=name)
            for name, value in inputs.items()
        }
        taken = {name: (settings.get("taken") or {}).get(name, tuple(inputs)) for name in functions}
        functions = {
            name: _traced(tf, tracing_for(xla=False)(f), {x: specs[x] for x in taken[name]})
            for name, f in functions.items()
        }
        for name, outputs in expected.items():
            received = functions[name](**{x: inputs[x] for x in taken[name]})
            for output, values in outputs.items():
                found = received[output].numpy()
                export.check_equal(f"{name}: {output}", found, values, tolerance)
        made.append(functions)

    monkeypatch.setattr("keras_attn.tasks.base.exported.export_text_functions", run)
    return made
