"""How the tests of tasks and of the command have TensorFlow run: graphs are made once, and as is.

A graph here runs a few times. What Grappler does to it, and what Keras does twice, takes longer.
"""

import contextlib
import warnings

import keras
import pytest

from keras_attn import export
from keras_attn.ops.compilers import tracing_for


@pytest.fixture(autouse=True, scope="session")
def _quick_graphs():
    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer as Trainer

    former = tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer", False)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    make = Trainer.make_train_function

    def build_and_make(self, force=False):
        # Else the first step makes the variables of the optimizer, and is traced again without.
        if self.built and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        return make(self, force)

    Trainer.make_train_function = build_and_make
    yield
    Trainer.make_train_function = make
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": former})


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
