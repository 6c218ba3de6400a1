"""T5, Flan-T5 and mT5 in folders in the format of Hugging Face: settings and weights."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attn.files import atomic_folder
from keras_attn.interop.activations import checked_activation, theirs_of
from keras_attn.interop.json_files import to_json
from keras_attn.interop.matching import checked_tensors
from keras_attn.interop.pretrained_model import Pretrained
from keras_attn.interop.search_settings import read_search, read_tasks
from keras_attn.interop.t5_tokenizers import read_t5_tokenizer, t5_tokenizer_files
from keras_attn.interop.tensor_files import WEIGHTS, stored_tensors
from keras_attn.interop.weights import Weight, check_shapes, check_stored, read_weights
from keras_attn.models import T5Config
from keras_attn.models.tensors import to_bytes

KINDS = ("t5", "mt5")
"""The kinds of models that can be read."""
TABLE = "source_embedding/embedding/embeddings"
# Our settings, theirs and what theirs are if they are not in the file.
_SETTINGS = {
    "source_vocabulary_size": ("vocab_size", 32128),
    "dim": ("d_model", 512),
    "key_dim": ("d_kv", 64),
    "intermediate_dim": ("d_ff", 2048),
    "num_layers": ("num_layers", 6),
    "num_decoder_layers": ("num_decoder_layers", None),
    "num_heads": ("num_heads", 8),
    "num_buckets": ("relative_attention_num_buckets", 32),
    "max_distance": ("relative_attention_max_distance", 128),
    "dropout": ("dropout_rate", 0.1),
    "layer_norm_epsilon": ("layer_norm_epsilon", 1e-6),
}
_MT5 = {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6}
_ONLY: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (True, None),
    "is_decoder": (False, None),
    "pad_token_id": (0, None),
    "decoder_start_token_id": (0, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
_SHARED, _HEAD = "shared.weight", "lm_head.weight"
_COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
# Of cross-attention, which has no positions: an old file has this table, which nothing reads.
_UNREAD = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"


def read_t5_config(settings: dict[str, Any], where: str) -> T5Config:
    """Reads the settings of a T5 model from its parsed `config.json`."""
    kind = settings.get("model_type", "t5")
    if kind == "mt5":
        settings = {**_MT5, "feed_forward_proj": "gated-gelu", **settings}
    for name, supported in _ONLY.items():
        if name in settings and settings[name] not in supported:
            raise ValueError(
                f"{where}: `{name}` must be {supported[0]!r}. Received: {settings[name]!r}. Such "
                "models cannot be loaded."
            )
    found: dict[str, Any] = {
        ours: settings.get(theirs, default) for ours, (theirs, default) in _SETTINGS.items()
    }
    for name in ("dropout", "layer_norm_epsilon"):
        if type(found[name]) is int:
            found[name] = float(found[name])
    found["attention_dropout"] = found["dropout"]
    form = settings.get("feed_forward_proj", "relu")
    gate, _, activation = form.rpartition("-") if isinstance(form, str) else ("?", "", "")
    if gate not in ("", "gated"):
        raise ValueError(
            f"{where}: `feed_forward_proj` must be an activation, or 'gated-' with one. Received: "
            f"{form!r}."
        )
    activation = "gelu_new" if form == "gated-gelu" else activation
    activation = settings.get("dense_act_fn", activation)
    found["activation"] = checked_activation(activation, f"{where}: the activation")
    found["gated"] = settings.get("is_gated_act", gate == "gated")
    if found["num_decoder_layers"] == found["num_layers"]:
        found["num_decoder_layers"] = None
    # Version 1.1 has no scale, and its files say that the output is not tied.
    scaled = kind != "mt5" and settings.get("tie_word_embeddings") is not False
    found["scale_output"] = settings.get("scale_decoder_outputs", scaled)
    try:
        config = T5Config(**found)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error
    if config.key_dim == config.dim / config.num_heads:
        config = dataclasses.replace(config, key_dim=None)
    return config


def t5_config_file(config: T5Config) -> dict[str, Any]:
    """Returns the contents of the `config.json` of a T5 model."""
    if config.target_vocabulary_size is not None:
        raise ValueError(
            "T5 has one vocabulary. Received: a model with two, "
            f"target_vocabulary_size={config.target_vocabulary_size}."
        )
    values = {theirs: getattr(config, ours) for ours, (theirs, _) in _SETTINGS.items()}
    values["d_kv"] = config.key_dim or config.dim // config.num_heads
    values["num_decoder_layers"] = config.num_decoder_layers or config.num_layers
    activation = theirs_of(config.activation)
    form = f"gated-{activation}" if config.gated else activation
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        **values,
        "feed_forward_proj": "gated-gelu" if form == "gated-gelu_new" else form,
        "dense_act_fn": activation,
        "is_gated_act": config.gated,
        "tie_word_embeddings": config.scale_output,
        "scale_decoder_outputs": config.scale_output,
        "is_encoder_decoder": True,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        "dtype": "float32",
        "torch_dtype": "float32",
    }


def t5_weights(config: T5Config) -> Iterator[Weight]:
    """Yields the `Weight`s of the embedding and of each block of a T5 model."""
    yield Weight(TABLE, (_SHARED,), (config.source_vocabulary_size, config.dim))
    count = config.num_decoder_layers
    for stack, blocks in (
        ("encoder", config.num_layers),
        ("decoder", config.num_layers if count is None else count),
    ):
        for number in range(blocks):
            yield from _block(config, stack, number)
        yield Weight(f"{stack}/norm/scale", (f"{stack}.final_layer_norm.weight",), (config.dim,))


def _block(config: T5Config, stack: str, number: int) -> Iterator[Weight]:
    ours, theirs = f"{stack}/block_{number}", f"{stack}.block.{number}.layer"
    dim, hidden = config.dim, config.intermediate_dim
    heads = config.num_heads * (config.key_dim or dim // config.num_heads)
    own = f"{theirs}.0.SelfAttention"
    if number == 0:
        table = f"{ours}/self_attention/relative_bias/embeddings"
        shape = (config.num_buckets, config.num_heads)
        yield Weight(table, (f"{own}.relative_attention_bias.weight",), shape)
    last = 2 if stack == "decoder" else 1
    forward = f"{theirs}.{last}.DenseReluDense"
    dense = {
        "self_attention/qkv": ([f"{own}.{n}" for n in "qkv"], (heads, dim)),
        "self_attention/output": ([f"{own}.o"], (dim, heads)),
        "feed_forward/hidden": (
            [f"{forward}.wi_0", f"{forward}.wi_1"] if config.gated else [f"{forward}.wi"],
            (hidden, dim),
        ),
        "feed_forward/output": ([f"{forward}.wo"], (dim, hidden)),
    }
    norms = {"self_attention_norm": 0, "feed_forward_norm": last}
    if stack == "decoder":
        cross = f"{theirs}.1.EncDecAttention"
        names = {"query": "q", "key": "k", "value": "v", "output": "o"}
        for part, name in names.items():
            shape = (dim, heads) if name == "o" else (heads, dim)
            dense[f"cross_attention/{part}"] = ([f"{cross}.{name}"], shape)
        norms["cross_attention_norm"] = 1
    for part, (layers, shape) in dense.items():
        kernels = tuple(f"{layer}.weight" for layer in layers)
        yield Weight(f"{ours}/{part}/kernel", kernels, shape, turned=True)
    for part, place in norms.items():
        yield Weight(f"{ours}/{part}/scale", (f"{theirs}.{place}.layer_norm.weight",), (dim,))


def head_weight(config: T5Config) -> Weight:
    """Returns the `Weight` of the output layer of a model with an untied output."""
    shape = (config.source_vocabulary_size, config.dim)
    return Weight("head/kernel", (_HEAD,), shape, turned=True)


def read_t5(folder: Path, settings: dict[str, Any]) -> Pretrained:
    """Reads a T5 model from a folder in the format of Hugging Face."""
    config = read_t5_config(settings, str(folder / "config.json"))
    stored = stored_tensors(folder)
    copies = [name for name in _COPIES if name in stored]
    if _SHARED not in stored and copies:
        stored[_SHARED] = stored[copies[0]]
    weights = []
    for weight in t5_weights(config):
        check_stored(weight, stored, folder)  # one after the other: `num_layers` may be anything
        weights.append(weight)
    head = head_weight(config)
    table = stored[_SHARED].read()
    if _HEAD in stored:
        check_stored(head, stored, folder)
        config = dataclasses.replace(
            config, tied_output=bool(np.array_equal(stored[_HEAD].read(), table))
        )
        weights += [] if config.tied_output else [head]
    for name in copies:
        check_stored(weights[0]._replace(theirs=(name,)), stored, folder)
        if not np.array_equal(stored[name].read(), table):
            raise ValueError(
                f"{stored[name].file}: {name} must equal {_SHARED}: encoder and decoder have "
                "one embedding. Received: different numbers."
            )
    used = {name for weight in weights for name in weight.theirs}
    used |= {_SHARED, _HEAD, _UNREAD, *_COPIES}
    unused = [name for name in stored if name not in used]
    tokenizer = read_t5_tokenizer(folder, settings, config.source_vocabulary_size)
    tensors = read_weights(weights, stored)
    search, tasks = read_search(folder, settings), read_tasks(folder, settings)
    return Pretrained(config, tokenizer, tensors, (), None, unused, search=search, tasks=tasks)


def save_t5(
    folder: str | os.PathLike[str], model: keras.Model, config: T5Config, tokenizer: object = None
) -> None:
    """Writes a T5 model for `T5ForConditionalGeneration` and `T5Tokenizer` of transformers."""
    files = t5_tokenizer_files(tokenizer, config.source_vocabulary_size)
    settings = t5_config_file(config)
    tensors = checked_tensors(model, config, T5Config)
    weights = list(t5_weights(config))
    weights += [] if config.tied_output else [head_weight(config)]
    check_shapes(weights, tensors, settings["architectures"][0])
    written = {
        name: array
        for weight in weights
        for name, array in zip(weight.theirs, weight.split(tensors[weight.ours]), strict=True)
    }
    if config.tied_output and not config.scale_output:  # older versions do not tie it then
        written[_HEAD] = written[_SHARED]
    files["config.json"] = to_json(settings)
    with atomic_folder(folder) as partial:
        for name, content in files.items():
            (partial / name).write_bytes(content)
        (partial / WEIGHTS).write_bytes(to_bytes(written, format="pt"))
