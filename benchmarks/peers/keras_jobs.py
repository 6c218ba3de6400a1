"""What the contenders on Keras have in common: training steps."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np

from benchmarks.peers import Job


def training(
    model: keras.Model, loss: Any, batches: Iterable, jit: bool, amount: float = 1.0
) -> Job:
    """Adam steps over (inputs, labels[, weights]) that are made anew in each run."""
    model.compile("adam", loss, jit_compile=jit)

    def run():
        for batch in batches:
            value = model.train_on_batch(*batch)
        return value  # a number: all is done

    return Job(run, amount)


def vectors(case: dict, *names: str) -> list[np.ndarray]:
    """Random `(batch, length, dim)`, the lengths those of the names."""
    return [
        np.random.default_rng(i).normal(size=(case["batch"], case[name], case["dim"]))
        for i, name in enumerate(names)
    ]


def stack(block: Callable[[Any, Any], Any], case: dict, jit: bool, memory: bool = False) -> Job:
    """Steps of a stack of equal blocks, on a mean squared error; the amount is tokens."""
    x, m = keras.Input((None, case["dim"])), keras.Input((None, case["dim"]))
    y = x
    for _ in range(case["layers"]):
        y = block(y, m)
    given, read, wanted = (v.astype("float32") for v in vectors(case, *["length"] * 3))
    if memory:
        batch = ([given, read], wanted)
        model = keras.Model([x, m], y)
    else:
        batch = (given, wanted)
        model = keras.Model(x, y)
    amount = case["steps"] * case["batch"] * case["length"]
    return training(model, "mse", [batch] * case["steps"], jit, amount)


def fitted(block: Callable[[Any, Any], Any], case: dict, jit: bool) -> Job:
    """Steps of `model.fit`: blocks between an embedding of ids and two classes of their mean.

    The amount is tokens. `policy` is the dtype policy of all layers.
    """
    keras.config.set_dtype_policy(case["policy"])
    ids = keras.Input((case["length"],), dtype="int32")
    x = keras.layers.Embedding(case["vocabulary"], case["dim"])(ids)
    for _ in range(case["layers"]):
        x = block(x, None)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(ids, keras.layers.Dense(2, dtype="float32")(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=jit)
    given, classes = token_ids(case)
    settings = {"batch_size": case["batch"], "shuffle": False, "verbose": 0}
    amount = case["steps"] * case["batch"] * case["length"]
    return Job(lambda: model.fit(given, classes, **settings), amount)


def token_ids(case: dict) -> tuple[np.ndarray, np.ndarray]:
    """Random ids without padding, and a class for each row."""
    rng, rows = np.random.default_rng(0), case["steps"] * case["batch"]
    ids = rng.integers(1, case["vocabulary"], (rows, case["length"]), dtype="int32")
    return ids, rng.integers(0, 2, rows, dtype="int32")


def recurrent(decoder: Callable[[Any, Any], Any], case: dict, jit: bool) -> Job:
    """Steps of a decoder from vectors and a memory; the amount is tokens."""
    x, m = keras.Input((None, case["dim"])), keras.Input((None, case["dim"]))
    y = decoder(x, m)
    model = keras.Model([x, m], y)
    given, read = (v.astype("float32") for v in vectors(case, "target", "source"))
    wanted = np.zeros((*given.shape[:2], y.shape[-1]), "float32")
    amount = case["batch"] * case["target"]
    return training(model, "mse", [([given, read], wanted)], jit, amount)


def long(layer: Callable[[Any], Any], case: dict, jit: bool) -> Job:
    """A step of one layer over a long input, with a gradient of the input too."""
    x = keras.Input((case["length"], case["dim"]), batch_size=case["batch"])
    # The first Dense makes the gradient go through the attention to its input.
    model = keras.Model(x, layer(keras.layers.Dense(case["dim"])(x)))
    given = vectors(case, "length")[0].astype("float32")
    return training(model, "mse", [(given, given)], jit)
