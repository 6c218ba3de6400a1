"""Attention layers and blocks of Keras and KerasHub as layers of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.layers import (
    AdditiveAttention,
    DecoderBlock,
    LuongAttention,
    MultiHeadAttention,
    TransformerEncoderBlock,
)

Arguments = dict[str, Any]

# Regularizers that are sums over the weights, and constraints of single weights: the same for the
# kernels of Keras, (D, N, H), and ours, (D, N H).
_KEPT = {"kernel_regularizer": ("L1", "L2", "L1L2"), "kernel_constraint": ("NonNeg",)}
_KEPT |= {name.replace("kernel", "bias"): kinds for name, kinds in _KEPT.items()}
_DECODER_ARGUMENTS = {
    "decoder_sequence": "x",
    "encoder_sequence": "memory",
    "decoder_padding_mask": "padding_mask",
    "decoder_attention_mask": "attention_mask",
    "encoder_padding_mask": "memory_mask",
    "encoder_attention_mask": "cross_attention_mask",
}


class Kind(NamedTuple):
    """The functions that convert layers of one class.

    `make` returns our built layer with the weights of a Keras layer; `translate` converts the named
    arguments of a call; `draw` returns random arguments for calls to compare.
    """

    make: Callable[[Any], keras.layers.Layer]
    translate: Callable[[keras.layers.Layer, Arguments], Arguments]
    draw: Callable[[Any, np.random.Generator], list[Arguments]]


def kind_of(layer: object) -> Kind | None:
    """Returns the `Kind` for a layer, or None if its class is not supported."""
    cls = type(layer)
    return KINDS.get((cls.__module__.partition(".")[0], cls.__name__))


def refused(layer: keras.layers.Layer, what: str, instead: str) -> ValueError:
    """Returns the error for a layer that cannot be converted."""
    kind = type(layer).__name__
    return ValueError(
        f"from_keras cannot convert {kind} `{layer.name}`, which has {what}. {instead}"
    )


def replacement(layer: Any) -> keras.layers.Layer:
    """Returns our layer for a built layer of Keras or KerasHub."""
    kind = kind_of(layer)
    if kind is None:
        names = ", ".join(f"{package}'s {name}" for package, name in KINDS)
        raise TypeError(
            f"from_keras replaces {names}, and functional and Sequential models with them; not "
            f"subclasses, which may compute something else. Received: {layer!r}."
        )
    if not layer.built:
        raise ValueError(
            f"from_keras needs a layer with weights. Received: `{layer.name}`, which is not built. "
            "Call it once."
        )
    parts = list(layer._flatten_layers())
    for part in parts:
        if getattr(part, "lora_enabled", False) or getattr(part, "quantization_mode", None):
            raise refused(
                layer,
                f"LoRA or quantized weights (`{part.name}`)",
                "Convert the layer first.",
            )
    if len({part.trainable for part in parts}) > 1:
        raise refused(layer, "only some sublayers frozen", "Freeze all of them or none.")
    ours = kind.make(layer)
    ours.trainable = layer.trainable
    return ours


def _settings(layer: keras.layers.Layer) -> dict[str, Any]:
    """Settings that all kinds share, for the constructor of ours."""
    config = layer.get_config()
    settings = {"name": layer.name, "dtype": layer.dtype_policy}
    for name in ("kernel_initializer", "bias_initializer"):
        if name in config:
            settings[name] = config[name]
    for name, kinds in _KEPT.items():
        value = config.get(name)
        if value is None:
            continue
        if value.get("class_name") not in kinds:
            raise refused(
                layer,
                f"{name}={value.get('class_name')}",
                "It acts on kernels of shape (D, N, H), but kernels of keras_attn have shape "
                f"(D, N H). Only {', '.join(kinds)} act on single weights.",
            )
        settings[name] = value
    for name in ("activity_regularizer", "sliding_window", "use_gate"):
        if config.get(name):
            raise refused(
                layer,
                f"{name}={config[name]!r}",
                "MultiHeadAttention of keras_attn has no such argument.",
            )
    return settings


def _copy(ours: Any, *theirs: Any) -> None:
    """Copies dense layers, side by side; axes of heads and their width become one."""
    output = len(theirs) == 1 and theirs[0].name == "attention_output"
    kernels = [ops.convert_to_numpy(dense.kernel) for dense in theirs]
    shapes = [(-1, k.shape[-1]) if output else (k.shape[0], -1) for k in kernels]
    flat = [k.reshape(shape) for k, shape in zip(kernels, shapes, strict=True)]
    ours.kernel.assign(np.concatenate(flat, axis=1))
    if ours.use_bias:
        biases = [ops.convert_to_numpy(dense.bias).reshape(-1) for dense in theirs]
        ours.bias.assign(np.concatenate(biases))


def _multi_head(layer: Any) -> keras.layers.Layer:
    """Of MultiHeadAttention and GroupQueryAttention."""
    config, grouped = layer.get_config(), "head_dim" in layer.get_config()
    if grouped:
        sizes = {
            "num_heads": config["num_query_heads"],
            "key_dim": config["head_dim"],
            "num_kv_heads": config["num_key_value_heads"],
        }
    else:
        sizes = {name: config[name] for name in ("num_heads", "key_dim", "value_dim")}
        axes, rank = config["attention_axes"], len(layer._query_dense.equation.partition(",")[0])
        if rank != 3 or tuple(axes) != (1,):
            raise refused(
                layer,
                f"attention_axes={tuple(axes)} of inputs with {rank} axes",
                "The layer of keras_attn attends over the second axis of (B, T, D).",
            )
        width = config["output_shape"]
        if width is not None and len(width) > 1:
            raise refused(
                layer,
                f"output_shape={width}",
                "Use one output width: MultiHeadAttention of keras_attn has only `output_dim`.",
            )
        sizes["output_dim"] = width[0] if width else None
    ours = MultiHeadAttention(
        **sizes,
        attention_dropout=config["dropout"],
        use_bias=config["use_bias"],
        seed=config["seed"],
        attention_kernel="flash" if layer._flash_attention else "auto",
        **_settings(layer),
    )
    parts = ("query", "key", "value", "output")
    theirs = {part: getattr(layer, f"_{part}_dense") for part in parts}
    query, key, value = ((None, None, theirs[part].kernel.shape[0]) for part in parts[:3])
    ours.build(query, value, key)
    for part in parts:
        _copy(getattr(ours, f"{part}_dense"), theirs[part])
    return ours


def _one_head(layer: Any) -> keras.layers.Layer:
    """Of Attention and AdditiveAttention."""
    config = layer.get_config()
    additive, scaled = "score_mode" not in config, config["use_scale"]
    if additive and not scaled:
        raise refused(layer, "use_scale=False", "AdditiveAttention always learns the vector v.")
    if config.get("score_mode") == "concat":
        raise refused(
            layer, 'score_mode="concat"', "AdditiveAttention learns a vector, not one number."
        )
    settings = {"attention_dropout": config["dropout"], "seed": config["seed"], **_settings(layer)}
    if additive:
        ours: Any = AdditiveAttention(None, **settings)
    else:
        ours = LuongAttention(score="scaled" if scaled else "dot", **settings)
    shape = (None, None, layer.scale.shape[0] if additive else 1)
    ours.build(shape, shape)
    if additive:
        ours.scale.assign(ops.expand_dims(layer.scale, 1))
    elif scaled:
        ours.gain.assign(ops.convert_to_numpy(layer.scale))  # JAX would share the array
    return ours


def _block(layer: Any) -> keras.layers.Layer:
    """Of KerasHub's TransformerEncoder and TransformerDecoder."""
    config, attention = layer.get_config(), layer._self_attention_layer
    memory = getattr(layer, "_cross_attention_layer", None)
    same = ("num_heads", "intermediate_dim", "activation", "normalize_first", "layer_norm_epsilon")
    decoder = "decoder_sequence_shape" in config
    ours: Any = (DecoderBlock if decoder else TransformerEncoderBlock)(
        **{name: config[name] for name in same},
        key_dim=attention.key_dim,
        dropout=config["dropout"],
        attention_dropout=config["dropout"],
        attention_kernel="flash" if attention._flash_attention else "auto",
        **_settings(layer),
    )
    shape = (None, None, attention._query_dense.kernel.shape[0])
    ours.build(shape, *([(None, None, memory._key_dense.kernel.shape[0])] if memory else []))
    qkv = (attention._query_dense, attention._key_dense, attention._value_dense)
    _copy(ours.self_attention.qkv_dense, *qkv)
    _copy(ours.self_attention.output_dense, attention._output_dense)
    if memory:
        for part in ("query", "key", "value", "output"):
            mine = getattr(ours.cross_attention, f"{part}_dense")
            _copy(mine, getattr(memory, f"_{part}_dense"))
        ours.cross_attention_norm.set_weights(layer._cross_attention_layer_norm.get_weights())
    _copy(ours.feed_forward.hidden_dense, layer._feedforward_intermediate_dense)
    _copy(ours.feed_forward.output_dense, layer._feedforward_output_dense)
    ours.self_attention_norm.set_weights(layer._self_attention_layer_norm.get_weights())
    ours.feed_forward_norm.set_weights(layer._feedforward_layer_norm.get_weights())
    return ours


def _masks(layer: keras.layers.Layer, given: Arguments) -> Arguments:
    """Makes masks boolean, as Keras does, and gives a mask (T, S) an axis for the rows."""
    found = {name: value for name, value in given.items() if value is not None}
    for name in [n for n in found if n.endswith("_mask") and n != "use_causal_mask"]:
        mask = found[name]
        if keras.backend.standardize_dtype(mask.dtype) != "bool":
            mask = ops.cast(mask, "bool")
        whole = name in ("attention_mask", "cross_attention_mask") and len(mask.shape) == 2
        found[name] = ops.expand_dims(mask, 0) if whole else mask
    return found


def _heads_call(layer: keras.layers.Layer, given: Arguments) -> Arguments:
    found = _masks(layer, given)
    query, value = found["query"], found["value"]
    lengths = query.shape[1], value.shape[1]
    same = query is value or (None not in lengths and lengths[0] == lengths[1])
    if found.get("use_causal_mask") and not same:
        raise refused(
            layer,
            f"a call with use_causal_mask=True and {lengths[0]} queries for {lengths[1]} keys",
            "Keras aligns the first query with the first key, and keras_attn aligns the last "
            "query with the last key.",
        )
    return found


def _list_call(layer: keras.layers.Layer, given: Arguments) -> Arguments:
    if given.get("use_causal_mask"):
        raise refused(
            layer,
            "a call with use_causal_mask=True",
            "Give LuongAttention an `attention_mask` (1, T, S).",
        )
    masks = dict(zip(("query_mask", "value_mask"), given.get("mask") or (), strict=False))
    rest = {n: v for n, v in given.items() if n not in ("inputs", "mask", "use_causal_mask")}
    inputs = dict(zip(("query", "value", "key"), given["inputs"], strict=False))
    return _masks(layer, {**inputs, **masks, **rest})


def _encoder_call(layer: keras.layers.Layer, given: Arguments) -> Arguments:
    return _masks(layer, {("x" if n == "inputs" else n): v for n, v in given.items()})


def _decoder_call(layer: keras.layers.Layer, given: Arguments) -> Arguments:
    caches = [n for n, v in given.items() if "_cache" in n and v is not None]
    if caches:
        raise refused(
            layer,
            f"a call with `{caches[0]}`",
            "Use `prefill` and `step` of DecoderBlock for decoding.",
        )
    named = {_DECODER_ARGUMENTS.get(n, n): v for n, v in given.items() if "_cache" not in n}
    return _masks(layer, named)


T, S = 5, 7


def _normal(rng: np.random.Generator, length: int, width: int) -> Tensor:
    return rng.normal(size=(2, length, width)).astype("float32")


def _padded(length: int) -> np.ndarray:
    return np.arange(length) < np.array([[length], [length - 2]])


def _some(rng: np.random.Generator, length: int) -> np.ndarray:
    """A mask that leaves the first key to each query."""
    return (rng.random((2, T, length)) > 0.4) | (np.arange(length) == 0)


def _heads_inputs(layer: Any, rng: np.random.Generator) -> list[Arguments]:
    widths = [
        getattr(layer, f"_{part}_dense").kernel.shape[0] for part in ("query", "value", "key")
    ]
    query, value, key = (_normal(rng, n, w) for n, w in zip((T, S, S), widths, strict=True))
    inputs = {"query": query, "value": value, "key": key}
    causal = {"query": query, "value": value[:, :T], "key": key[:, :T], "use_causal_mask": True}
    return [inputs, {**inputs, "value_mask": _padded(S), "attention_mask": _some(rng, S)}, causal]


def _list_inputs(layer: Any, rng: np.random.Generator) -> list[Arguments]:
    width = layer.scale.shape[0] if isinstance(layer, keras.layers.AdditiveAttention) else 4
    inputs = [_normal(rng, T, width), _normal(rng, S, width)]
    return [{"inputs": inputs}, {"inputs": inputs, "mask": [None, ops.array(_padded(S))]}]


def _encoder_inputs(layer: Any, rng: np.random.Generator) -> list[Arguments]:
    x = _normal(rng, T, layer._self_attention_layer._query_dense.kernel.shape[0])
    masks = {"padding_mask": _padded(T), "attention_mask": _some(rng, T)}
    return [{"inputs": x}, {"inputs": x, **masks}]


def _decoder_inputs(layer: Any, rng: np.random.Generator) -> list[Arguments]:
    x = _normal(rng, T, layer._self_attention_layer._query_dense.kernel.shape[0])
    inputs = {"decoder_sequence": x}
    masks = {"decoder_padding_mask": _padded(T), "decoder_attention_mask": _some(rng, T)}
    if layer._cross_attention_layer is not None:
        width = layer._cross_attention_layer._key_dense.kernel.shape[0]
        inputs["encoder_sequence"] = _normal(rng, S, width)
        masks |= {"encoder_padding_mask": _padded(S), "encoder_attention_mask": _some(rng, S)}
    return [inputs, {**inputs, **masks}]


_HEADS = Kind(_multi_head, _heads_call, _heads_inputs)
_ONE_HEAD = Kind(_one_head, _list_call, _list_inputs)
KINDS = {
    ("keras", "MultiHeadAttention"): _HEADS,
    ("keras", "GroupedQueryAttention"): _HEADS,
    ("keras", "Attention"): _ONE_HEAD,
    ("keras", "AdditiveAttention"): _ONE_HEAD,
    ("keras_hub", "TransformerEncoder"): Kind(_block, _encoder_call, _encoder_inputs),
    ("keras_hub", "TransformerDecoder"): Kind(_block, _decoder_call, _decoder_inputs),
}
"""The layers that are replaced, by package and class."""
