"""An update by AdamW with clipping: that of the tasks, and that of Keras."""

import keras
import numpy as np
import tensorflow as tf

from benchmarks.peers import Job
from keras_attn.tasks.base.compiling import make_adam


def update(case: dict, jit: bool, ours: bool) -> Job:
    """One update of a table of embeddings and of blocks; the amount is weights."""
    dim = case["dim"]
    block = [(dim, 3 * dim), (dim, dim), (dim, 4 * dim), (4 * dim, dim)]
    shapes = [(case["vocabulary"], dim), *block * case["layers"]]
    rng = np.random.default_rng(0)
    gradients, weights = (
        [rng.normal(size=shape).astype("float32") for shape in shapes] for _ in range(2)
    )
    variables = [keras.Variable(value) for value in weights]
    if ours:
        optimizer = make_adam(1e-4, keras.DTypePolicy("float32"), 0.01, 1.0)
    else:
        optimizer = keras.optimizers.AdamW(1e-4, 0.01, global_clipnorm=1.0)
    optimizer.build(variables)
    given = [tf.Variable(value) for value in gradients]

    @tf.function(jit_compile=jit)
    def step():
        optimizer.apply([value.read_value() for value in given], variables)

    def run():
        step()
        return float(variables[0][0, 0])  # all is done

    return Job(run, float(sum(map(np.prod, shapes))))
