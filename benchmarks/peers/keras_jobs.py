"""What the contenders on Keras have in common: training steps."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from benchmarks import encoder, gpt
from benchmarks.peers import Job
from keras_attn.training import MaskedCrossEntropy, without_autotuning
from keras_attn.training.memory import memory_of_training


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


class Held(keras.utils.PyDataset):
    """Batches that are there."""

    def __init__(self, batches: list):
        super().__init__()
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]


def masked_words(model: keras.Model, loss: Any, names: dict, case: dict, jit: bool) -> Job:
    """Steps of `model.fit` on masked words, from batches that are held; the amount is positions.

    Args:
        model: From ids, segments, mask and masked positions to logits.
        loss: A loss of logits, labels and weights.
        names: Names of the model's inputs where they are not those of `encoder.masked_rows`.
        case: Sizes.
        jit: Whether XLA compiles.
    """
    model.compile("adam", loss, jit_compile=jit)
    inputs, labels, weights = encoder.masked_rows(case)
    rows = {names.get(name, name): value for name, value in inputs.items()}, labels, weights
    batches = [
        keras.tree.map_structure(lambda x, i=i: x[i : i + case["batch"]], rows)
        for i in range(0, len(labels), case["batch"])
    ]
    amount = case["steps"] * case["batch"] * case["length"]
    held = without_autotuning(Held(batches))  # for all contenders: its waits are not theirs
    return Job(lambda: model.fit(held, shuffle=False, verbose=0), amount)


def next_tokens(model: keras.Model, case: dict, jit: bool) -> Job:
    """Steps of `model.fit` on the next tokens; the amount is tokens."""
    model.compile("adam", MaskedCrossEntropy(ignore_id=None), jit_compile=jit)
    ids, labels = gpt.rows(case)
    batches = [
        (ids[i : i + case["batch"]], labels[i : i + case["batch"]])
        for i in range(0, len(ids), case["batch"])
    ]
    held = Held(batches)

    def run() -> keras.callbacks.History:
        with memory_of_training():  # as the tasks train
            return model.fit(held, shuffle=False, verbose=0)

    return Job(run, ids.size)


def mean_vectors(x: Any, mask: Any) -> Any:
    """Means `(B, D)` of the vectors `(B, S, D)` of real tokens."""
    weight = ops.cast(ops.expand_dims(mask, -1), x.dtype)
    return ops.sum(x * weight, axis=1) / ops.sum(weight, axis=1)


def compiles_shapes(jit: bool) -> bool:
    """Whether each shape of a batch is compiled anew."""
    return jit or keras.backend.backend() == "jax"


def reading(read: Callable[[np.ndarray], np.ndarray], case: dict, jit: bool) -> Job:
    """Vectors of texts, batch by batch; the amount is texts.

    A compiler that compiles each shape gets lengths that are multiples of `multiple`.
    """
    batches = encoder.read_batches(case, case["multiple"] if compiles_shapes(jit) else 1)
    return Job(lambda: [read(ids) for ids in batches], case["texts"])
