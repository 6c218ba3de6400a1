"""Loads translators on a backend and writes what they compute: FOLDER, with one for each."""

import sys
from pathlib import Path

import keras
import numpy as np

from keras_attn.interop import load_pretrained
from keras_attn.models import SequenceDecoder


def outputs(model, inputs):
    """The memory of the encoder, and the logits."""
    memory, _ = SequenceDecoder(model).encode(keras.ops.convert_to_tensor(inputs["source_ids"]))
    return [keras.ops.convert_to_numpy(x) for x in (memory, model(inputs))]


if __name__ == "__main__":
    for place in sorted(Path(sys.argv[1]).glob("*/config.json")):
        model, _, _ = load_pretrained(place.parent)
        inputs = dict(np.load(place.parent / "inputs.npz"))
        np.savez(place.parent / "found.npz", *outputs(model, inputs))
    print(keras.backend.backend())
