"""Trains on several devices of JAX, and prints what comes of it; see test_distribution.py."""

import json
import re
import sys

import keras
import numpy as np
from distribution_toys import (
    After,
    commanded,
    compiled,
    difference,
    fitted,
    make_batches,
    message,
    tiny_model,
    values,
)

from keras_attn.layers import TokenEmbedding
from keras_attn.models import TransformerEncoderDecoderConfig
from keras_attn.training import (
    TrainingCheckpoint,
    compute_on,
    fit_resumable,
    get_layout_map,
    model_parallel,
    num_data_shards,
)


def parts(variable):
    """The shapes of what the devices hold of it."""
    return sorted({shard.data.shape for shard in variable.value.addressable_shards})


def unnumbered(path):
    """Layers that Keras names have a number after the first."""
    return re.sub(r"(adam|decoder_block|token_embedding)_\d+", r"\1", path)


def kernel_of(model):
    return next(v for v in model.variables if v.path.endswith("qkv/kernel"))


def train(folder):
    found = {"shards": [num_data_shards()]}
    model, found["one"] = fitted()
    reference = values(model)
    ids = make_batches()[0][0]
    expected = model.predict_on_batch(ids)
    with compute_on("cpu", "all") as kind:
        found["shards"].append(num_data_shards())
        data, found["data"] = fitted()
        kernel = kernel_of(data)
        found["data parts"] = [kind, len(kernel.value.devices()), parts(kernel)]
        found["data weights"] = difference(reference, values(data))
    with model_parallel(2).scope():
        found["shards"].append(num_data_shards())
        cut, found["model"] = fitted()
        found["model weights"] = difference(reference, values(cut))
        names = {unnumbered(v.path): v for v in [*cut.variables, *cut.optimizer.variables]}
        found["model parts"] = {name: [v.shape, parts(v)] for name, v in names.items()}
        cut.save_weights(f"{folder}/model.weights.h5")  # `save` would import TensorFlow
        again = tiny_model()
        again.load_weights(f"{folder}/model.weights.h5")
        found["reloaded parts"] = parts(kernel_of(again))
    alone = tiny_model()
    alone.load_weights(f"{folder}/model.weights.h5")
    found["alone parts"] = parts(kernel_of(alone))
    found["alone"] = float(np.abs(alone.predict_on_batch(ids) - expected).max())

    for number, devices in enumerate(("1", "2", "1")):
        with compute_on("cpu", devices):
            model, training = compiled()
            checkpoint = TrainingCheckpoint(f"{folder}/run.npz")
            stop = [After(3, checkpoint)] if number < 2 else []
            done = fit_resumable(training, make_batches(), checkpoint, 2, stop, verbose=0)
            found[f"place {number}"] = [done, *checkpoint.position]
    found["resumed weights"] = difference(reference, values(model))
    return found


def layouts():
    """What lies where, without training: of a whole Transformer, and what cannot be."""
    devices = keras.distribution.list_devices()
    config = TransformerEncoderDecoderConfig(
        20, num_layers=1, dim=16, num_heads=4, intermediate_dim=24, gated=True, normalize_first=True
    )
    with model_parallel(4).scope():
        model = config.build()
    found = {"parts": {v.path: [v.shape, parts(v)] for v in model.variables}}

    def cut(shards, make, **settings):
        with model_parallel(shards, devices=devices[:shards], **settings).scope():
            make()

    def embedding():
        TokenEmbedding(23, 16).build()

    mesh = keras.distribution.DeviceMesh((4,), ("batch",), devices)
    found["errors"] = [
        message(lambda: compute_on("cpu", "5").__enter__()),
        message(lambda: compute_on("cpu", "0").__enter__()),
        message(lambda: model_parallel(3)),
        message(lambda: model_parallel(2, 4)),
        message(lambda: cut(3, tiny_model)),
        message(lambda: cut(2, embedding)),
        message(lambda: cut(2, embedding, shard_embeddings=False)),
        message(lambda: get_layout_map(mesh)),
    ]
    return found


if __name__ == "__main__":
    found = {**train(sys.argv[1]), **layouts()}
    found["commands"] = [commanded(sys.argv[1], devices) for devices in ("1", "2")]
    print(json.dumps(found))
