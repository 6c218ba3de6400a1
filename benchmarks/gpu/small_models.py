"""Trains and decodes small models: `python -m benchmarks.gpu.small_models`, its request on stdin.

Weights are NumPy's, so the same on every device and backend; there is no dropout. Each model's
results are a file, `NAME.npz`, in the request's `folder`.
"""

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from benchmarks import translator
from benchmarks.gpu.child import find_device
from benchmarks.gpu.kernels import full_precision
from benchmarks.gpu.progress import NotAvailable
from benchmarks.peers.ours import make_translator
from benchmarks.translator import END, FIRST, START
from keras_attn.generation import CompiledFunction, beam_search, greedy_search
from keras_attn.models import (
    RecurrentEncoderDecoderConfig,
    RecurrentLanguageModelConfig,
    SequenceDecoder,
    TransformerClassifierConfig,
    TransformerEncoderDecoderConfig,
    language_decoder,
)
from keras_attn.training import MaskedCrossEntropy

Sizes = dict[str, Any]


@dataclass
class Small:
    """A model, a batch, and how it decodes."""

    model: keras.Model
    loss: Any
    batch: tuple
    decode: Callable[[int, bool], tuple[Any, Any]] | None = None


def fill(model: keras.Model) -> keras.Model:
    """Gives all matrices weights of NumPy's, wide enough for sharp distributions."""
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        shape = tuple(variable.shape)
        if len(shape) > 1:
            limit = 2.0 * np.sqrt(6.0 / (shape[-1] + np.prod(shape[:-1])))
            variable.assign(rng.uniform(-limit, limit, shape).astype("float32"))
    return model


def of_pairs(model: keras.Model, sizes: Sizes) -> Small:
    """An encoder-decoder."""
    decoder = SequenceDecoder(model)
    ids = translator.sources(sizes)

    def decode(beams: int, jit: bool) -> tuple[Any, Any]:
        def search(ids, steps):
            memory, mask = decoder.encode(ids)
            start = ops.zeros_like(ids[:, :1]) + START
            return searched((decoder.decoder, start, None, memory, mask), steps, beams)

        return CompiledFunction(search, model.variables, jit)(ids, sizes["target"])

    return Small(model, MaskedCrossEntropy(), next(translator.plain_batches(sizes)), decode)


def searched(inputs: tuple, steps: int, beams: int) -> tuple[Any, Any]:
    """Tokens and scores of greedy search, or of a beam's best."""
    if beams == 1:
        found = greedy_search(*inputs, max_length=steps, end_id=END)
    else:
        found = beam_search(*inputs, num_beams=beams, max_length=steps, end_id=END)
    return found.tokens, found.scores


def _sizes_of(sizes: Sizes) -> dict[str, Any]:
    return {
        "num_layers": sizes["layers"],
        "dim": sizes["dim"],
        "num_heads": sizes["heads"],
        "intermediate_dim": sizes["intermediate"],
        "dropout": 0.0,
    }


def transformer(sizes: Sizes) -> Small:
    """Post-norm, sinusoidal positions."""
    return of_pairs(make_translator(sizes), sizes)


def modern_transformer(sizes: Sizes) -> Small:
    """Pre-norm with RMS norms, rotary positions and gated networks."""
    config = TransformerEncoderDecoderConfig(
        sizes["vocabulary"],
        **_sizes_of(sizes),
        normalization="rms_norm",
        gated=True,
        activation="silu",
        positions="rotary",
        right_padding=True,
    )
    return of_pairs(fill(config.build()), sizes)


def recurrent(attention: str, cell: str) -> Callable[[Sizes], Small]:
    """A recurrent encoder-decoder."""

    def make(sizes: Sizes) -> Small:
        config = RecurrentEncoderDecoderConfig(
            sizes["vocabulary"],
            attention=attention,
            cell=cell,
            dim=sizes["dim"],
            units=sizes["dim"],
            dropout=0.0,
        )
        return of_pairs(fill(config.build()), sizes)

    return make


def language_model(sizes: Sizes) -> Small:
    """A recurrent language model."""
    config = RecurrentLanguageModelConfig(
        sizes["vocabulary"], dim=sizes["dim"], units=sizes["dim"], dropout=0.0
    )
    model = fill(config.build())
    decoder = language_decoder(model)
    rng = np.random.default_rng(1)
    shape = sizes["batch"], sizes["target"] + 1
    ids = rng.integers(FIRST, sizes["vocabulary"], shape, dtype="int32")

    def decode(beams: int, jit: bool) -> tuple[Any, Any]:
        def search(ids, steps):
            return searched((decoder, ids), steps, beams)

        return CompiledFunction(search, model.variables, jit)(ids[:, :3], sizes["target"])

    return Small(model, MaskedCrossEntropy(), (ids[:, :-1], ids[:, 1:]), decode)


def classifier(sizes: Sizes) -> Small:
    """A Transformer with attention pooling over padded rows."""
    config = TransformerClassifierConfig(sizes["vocabulary"], 3, **_sizes_of(sizes))
    model = fill(config.build())
    labels = np.random.default_rng(1).integers(0, 3, sizes["batch"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return Small(model, loss, (translator.sources(sizes), labels))


MODELS: dict[str, Callable[[Sizes], Small]] = {
    "transformer": transformer,
    "transformer, RMS norm, rotary, gated": modern_transformer,
    "classifier": classifier,
    "GRU, additive attention": recurrent("additive", "gru"),
    "LSTM, Luong's attention": recurrent("luong-general", "lstm"),
    "language model": language_model,
}


def results(name: str, request: dict[str, Any]) -> dict[str, np.ndarray]:
    """Tokens and scores of both searches, losses of the training, and logits after it."""
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(request["policy"])
    small, jit, sizes = MODELS[name](request["sizes"]), request["jit"], request["sizes"]
    found = {}
    # In half precision two tokens can be about as likely: what is chosen is not compared.
    if small.decode is not None and request["policy"] == "float32":
        for beams in (1, sizes["beam"]):
            tokens, scores = small.decode(beams, jit)
            found |= {f"tokens {beams}": tokens, f"scores {beams}": scores}
    # The epsilon keeps Adam from blowing up what rounding left of gradients that are zero.
    small.model.compile(keras.optimizers.Adam(1e-3, epsilon=1e-3), small.loss, jit_compile=jit)
    losses = [float(small.model.train_on_batch(*small.batch)) for _ in range(sizes["steps"])]
    logits = small.model.predict_on_batch(small.batch[0])
    return found | {"losses": np.array(losses), "logits": np.asarray(logits, "float32")}


def main() -> None:
    """Writes a file for each model; what a model cannot is written as its `error`."""
    request = json.load(sys.stdin)
    device = Path(request["folder"]) / "device.json"
    try:
        found = find_device(keras.backend.backend(), request["device"])
    except NotAvailable as error:
        device.write_text(json.dumps({"message": str(error)}))
        return
    device.write_text(json.dumps({"computed_on": found}))
    full_precision()
    for name in request["models"]:
        try:
            found = results(name, request)
        except Exception as error:
            traceback.print_exc()
            found = {"error": np.array(f"{type(error).__name__}: {error}"[:1000])}
        path = Path(request["folder"]) / f"{name}.npz"
        partial = path.with_name("partial.npz")
        np.savez(partial, **{key: np.asarray(value) for key, value in found.items()})
        partial.replace(path)


if __name__ == "__main__":
    main()
