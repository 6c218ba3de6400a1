"""Loads models on a backend and writes what they compute: FOLDER, with a folder for each model."""

import sys
from pathlib import Path

import keras
import numpy as np

from keras_attn.generation import greedy_search
from keras_attn.interop import load_pretrained
from keras_attn.models import hidden_states, language_decoder

for place in sorted(Path(sys.argv[1]).glob("*/config.json")):
    model, _, _ = load_pretrained(place.parent)
    found = {}
    for side in ("right", "left"):
        inputs = dict(np.load(place.parent / f"{side}.npz"))
        states = hidden_states(model, inputs)
        found[side] = np.stack([keras.ops.convert_to_numpy(state) for state in states])
        if not isinstance(model.input, dict):
            decoder = language_decoder(model)
            found[f"{side}_logits"] = keras.ops.convert_to_numpy(decoder.logits(states[-1]))
            ids, mask = inputs["token_ids"], inputs["padding_mask"]
            tokens = greedy_search(decoder, ids, mask, max_length=6, end_id=None).tokens
            found[f"{side}_tokens"] = keras.ops.convert_to_numpy(tokens)
            continue
        pooled = model(inputs).get("pooled")
        if pooled is not None:
            found[f"{side}_pooled"] = keras.ops.convert_to_numpy(pooled)
    np.savez(place.parent / "found.npz", **found)
print(keras.backend.backend())
