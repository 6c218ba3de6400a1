"""What is done with quantized models and LoRA in a process of its own. Run: as JSON."""

import json
import sys
import tempfile
import warnings
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_attn import models
from keras_attn.adapt import enable_lora, load_lora, merge_lora, save_lora
from keras_attn.generation import beam_search, greedy_search
from keras_attn.layers.quantization import quick_deletions
from keras_attn.training import MaskedCrossEntropy

V = 23
TRANSFORMER = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 12, "dropout": 0.0}
MODERN = {"normalization": "rms_norm", "gated": True, "positions": "rotary"}
RECURRENT = {"dim": 8, "units": 12, "dropout": 0.0}


def transformer(**more):
    config = models.TransformerEncoderDecoderConfig(V, **{**TRANSFORMER, **more})
    return config.build()


def recurrent(**more):
    return models.RecurrentEncoderDecoderConfig(V, **{**RECURRENT, **more}).build()


def captioner(kind, **more):
    config = {"soft": models.SoftAttentionCaptionerConfig, "t": models.TransformerCaptionerConfig}
    encoder = models.small_cnn_encoder(16, filters=(4, 8), attention="cbam", reduction=2)
    decoder = config[kind](V, region_dim=8, **more).build()
    return models.image_captioner(encoder, decoder)


MODELS = {
    "transformer": transformer,
    "modern": lambda: transformer(**MODERN, target_vocabulary_size=V),
    "additive": recurrent,
    "luong": lambda: recurrent(attention="luong-general"),
    "language": lambda: models.RecurrentLanguageModelConfig(V, units=8).build(),
    "bag": lambda: models.BagClassifierConfig(V, 3, pair_buckets=10).build(),
    "rnn": lambda: models.RecurrentClassifierConfig(V, 3, units=8).build(),
    "classifier": lambda: models.TransformerClassifierConfig(
        V, 3, positions="learned", **TRANSFORMER
    ).build(),
    "soft": lambda: captioner("soft", dim=8, units=12),
    "captioner": lambda: captioner("t", region_positions="none", **TRANSFORMER),
}
SEARCHED = ("transformer", "additive")


def make(name):
    """A model with weights that do not depend on the backend, and are not flat."""
    model = MODELS[name]()
    rng = np.random.default_rng(0)
    for weight in model.weights:
        value = rng.normal(scale=0.4, size=weight.shape)
        if "variance" in weight.path:
            value = 1 + np.abs(value)
        if weight.name != "seed_generator_state":
            weight.assign((value + (weight.name == "gamma")).astype("float32"))
    return model


def inputs_of(model):
    rng = np.random.default_rng(1)
    ids = rng.integers(1, V, (3, 6)).astype("int32")
    ids[1, 4:] = 0
    images = rng.integers(0, 256, (3, 16, 16, 3)).astype("float32")
    named = {"source_ids": ids, "target_ids": ids[:, :5], "images": images}
    names = model.input.keys() if isinstance(model.input, dict) else ()
    return {name: named[name] for name in names} or ids


def numpy(x):
    return np.asarray(ops.convert_to_numpy(x))


def call(model):
    if keras.backend.backend() == "jax":  # one function to compile, not one an operation
        return model.predict_on_batch(inputs_of(model))
    return numpy(model(inputs_of(model), training=False))


def searched(model):
    """What greedy and beam search find."""
    sequences = models.SequenceDecoder(model)
    ids = ops.convert_to_tensor(inputs_of(model)["source_ids"])
    memory, mask = sequences.encode(ids)
    start = (sequences.decoder, ops.ones_like(ids[:, :1]), None, memory, mask)
    settings = {"max_length": 4, "end_id": 2}
    found = [greedy_search(*start, **settings), beam_search(*start, num_beams=3, **settings)]
    return [numpy(result.tokens).tolist() for result in found]


def quantize(model, **settings):
    with quick_deletions(), warnings.catch_warnings():  # of each layer that Keras cannot quantize
        warnings.filterwarnings("ignore", ".*does not have a `quantize` method")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        model.quantize("int8", **settings)
    return model


def fit(model, **settings):
    """Some steps; returns the losses."""
    inputs = inputs_of(model)
    ids = inputs["target_ids"] if isinstance(inputs, dict) else inputs
    model.compile(keras.optimizers.Adam(0.02), MaskedCrossEntropy(), jit_compile=False)
    history = model.fit(inputs, np.roll(ids, -1, axis=1), shuffle=False, verbose=0, **settings)
    return history.history["loss"]


def lora(folder):
    """Trains, saves, reloads and merges with LoRA; what is seen on the way."""
    model = make("transformer")
    plain = call(model)
    before = {w.path: numpy(w).copy() for w in model.weights}
    report = enable_lora(model, 2, alpha=4)
    at_first = np.abs(call(model) - plain).max()
    losses = fit(model, epochs=4)
    now = {w.path: numpy(w) for w in model.weights}
    changed = [p for p in before if not np.array_equal(before[p], now[p])]
    trained = call(model)
    model.save(folder / "lora.keras")
    save_lora(model, folder / "lora.npz")
    other = make("transformer")
    load_lora(other, folder / "lora.npz")
    saved = call(keras.models.load_model(folder / "lora.keras", compile=False))
    merge_lora(model)
    return {
        "layers": len(report.layers),
        "at_first": float(at_first),
        "losses": losses,
        "changed": changed,
        "learnt": float(np.abs(trained - plain).max()),
        "saved": float(np.abs(saved - trained).max()),
        "adapter": float(np.abs(call(other) - trained).max()),
        "merged": float(np.abs(call(model) - trained).max()),
        "names": [w.path for w in model.weights] == list(before),
        "again": fit(model),
    }


def main(folder, names, own):
    scratch = Path(tempfile.mkdtemp())
    found = {"backend": keras.backend.backend(), "loaded": {}, "own": {}}
    for name in names:
        loaded = keras.models.load_model(folder / f"{name}.keras", safe_mode=True)
        expected = np.load(folder / f"{name}.npy")
        found["loaded"][name] = [
            float(np.abs(call(loaded) - expected).max()),
            searched(loaded) if name in SEARCHED and found["backend"] == "tensorflow" else None,
        ]
    for name in own:
        model = quantize(make(name))
        model.save(scratch / "own.keras")
        again = keras.models.load_model(scratch / "own.keras", safe_mode=True)
        difference = np.abs(call(model) - np.load(folder / f"{name}.npy")).max()
        found["own"][name] = [float(difference), float(np.abs(call(again) - call(model)).max())]
    if own:
        found["lora"] = lora(scratch)
    return found


if __name__ == "__main__":
    folder, names, own = sys.argv[1:]
    print(json.dumps(main(Path(folder), names.split(), own.split())))
