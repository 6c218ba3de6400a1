"""Trains on two replicas of TensorFlow, and prints what comes of it; see test_distribution.py."""

import json
import sys

import keras
import numpy as np
import tensorflow as tf
from distribution_toys import (
    After,
    commanded,
    compiled,
    difference,
    fitted,
    make_batches,
    message,
    values,
)

from keras_attn.batches import TextBatches
from keras_attn.layers import DoublyStochasticLoss, MultiHeadAttention
from keras_attn.training import (
    ChunkedLossModel,
    TrainingCheckpoint,
    compute_on,
    fit_resumable,
    num_data_shards,
)
from keras_attn.training.token_means import token_means

CPU = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(CPU, [tf.config.LogicalDeviceConfiguration()] * 2)


def chunked():
    return fitted(wrap=lambda model: ChunkedLossModel(model, 8))


def looked():
    """Weights of a model whose attention adds a loss by the tokens of the batch.

    The loss that Keras shows is too high there: what a layer adds on one replica is in the losses
    of the next one too.
    """
    keras.utils.set_random_seed(1)
    x, mask = keras.Input((4, 8)), keras.Input((4,), dtype="int32")
    y, scores = MultiHeadAttention(1)(x, x, query_mask=mask, return_attention_scores=True)
    y = DoublyStochasticLoss(3.0)(y, keras.ops.squeeze(scores, 1), padding_mask=mask)
    model = keras.Model([x, mask], y)
    model.compile(keras.optimizers.SGD(0.5), jit_compile=False)
    rng = np.random.default_rng(0)
    tokens = (np.arange(4) < [[1], [4], [2], [0]]).astype("int32")
    inputs = [rng.normal(size=(4, 4, 8)).astype("float32"), tokens]
    before = model.get_weights()
    model.fit(inputs, batch_size=4, epochs=3, shuffle=False, verbose=0)
    return before, model.get_weights()


def classified():
    """A classifier with Keras' own loss: a mean over rows, those that fill a batch included."""
    keras.utils.set_random_seed(1)
    batches = TextBatches(
        [[3, 4], [5], [6, 7, 8], [4], [5, 5]],
        [0, 1, 1, 0, 1],
        [1.0, 2.0, 1.0, 0.5, 1.0],
        batch_size=5,
        max_shapes=1,
        rows_multiple_of=num_data_shards(),
    )
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(9, 4)(ids))
    model = keras.Model(ids, keras.layers.Dense(2)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.5), loss, jit_compile=False)
    history = model.fit(batches, epochs=3, shuffle=False, verbose=0).history
    return [batches.shapes[0][0], *history["loss"]], model.get_weights()


def compiled_and_batches():
    """An untrained model, and batches of which some are filled up."""
    return compiled()[1], make_batches(max_shapes=3, shuffle=False)


def far(one, other):
    return float(max(np.abs(a - b).max() for a, b in zip(one, other, strict=True)))


def train(folder):
    found = {"shards": [num_data_shards()]}
    model, found["one"] = fitted()
    reference, alone = values(model), values(chunked()[0])
    (begun, kernels), (classes, heads) = looked(), classified()
    found["means"] = [token_means(*compiled_and_batches())["loss"]]
    with compute_on("cpu", "all"):
        found["shards"].append(num_data_shards())
        model, found["two"] = fitted()
        found["weights"] = difference(reference, values(model))
        model, _ = chunked()
        found["chunked"] = difference(alone, values(model))
        found["looked"] = [far(kernels, begun), far(kernels, looked()[1])]
        found["means"].append(token_means(*compiled_and_batches())["loss"])
        losses, weights = classified()
        found["classified"] = [classes, losses, far(heads, weights)]
        found["accumulated"] = message(lambda: compiled(gradient_accumulation=2))
        model.save(f"{folder}/model.keras")
    reloaded = keras.saving.load_model(f"{folder}/model.keras", compile=False)
    found["reloaded"] = far(values(model), values(reloaded))

    for number, devices in enumerate(("1", "2", "1")):
        with compute_on("cpu", devices):
            model, training = compiled()
            checkpoint = TrainingCheckpoint(f"{folder}/run.npz")
            stop = [After(3, checkpoint)] if number < 2 else []
            done = fit_resumable(training, make_batches(), checkpoint, 2, stop, verbose=0)
            found[f"place {number}"] = [done, *checkpoint.position]
    found["resumed weights"] = difference(reference, values(model))
    found["too many"] = message(lambda: compute_on("cpu", "3").__enter__())
    return found


if __name__ == "__main__":
    found = train(sys.argv[1])
    found["commands"] = [commanded(sys.argv[1], devices) for devices in ("1", "all")]
    print(json.dumps(found))
