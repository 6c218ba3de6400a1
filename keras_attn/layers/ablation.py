"""Ablation of attention heads in any model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_attn.layers.collect import AttentionKey
from keras_attn.layers.heads import HeadsLayer
from keras_attn.layers.patterns import NO_SINK, fixed_patterns, without_bias


def heads_of(model: keras.layers.Layer) -> dict[str, HeadsLayer]:
    """Returns the multi-head attention layers of a model, keyed by their paths.

    Args:
        model: A built model or layer.

    Returns:
        A dict of `MultiHeadAttention` and `MultiHeadSelfAttention` layers in the order of the
        model, with the same paths as in `attention_maps`.

    Raises:
        ValueError: If the model has no built multi-head attention layer of this package.
            `keras_attn.from_keras` converts models with attention layers of Keras or KerasHub.

    Example:

    >>> x = keras.Input((None, 8))
    >>> model = keras.Model(x, MultiHeadSelfAttention(num_heads=2, name="attend")(x))
    >>> list(heads_of(model))
    ['attend']
    """
    found: dict[str, HeadsLayer] = {}
    for layer in {id(x): x for x in _in_order(model)}.values():
        if isinstance(layer, HeadsLayer) and layer.built:
            path, number = layer.path or layer.name, 0
            name = path
            while name in found:
                number += 1
                name = f"{path}:{number}"
            found[name] = layer
    if not found:
        raise ValueError(
            "Expected a built model with multi-head attention of keras_attn. Received: "
            f"{model.name!r}, which has no such layer. Call it once if it is not built. If "
            "it has attention layers of Keras or KerasHub, convert it with "
            "`keras_attn.from_keras(model)`."
        )
    return found


def _in_order(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """The layer and its parts, depth first. `_flatten_layers` of Keras reverses inner layers."""
    yield layer
    for part in layer._layers:
        yield from _in_order(part)


@contextlib.contextmanager
def ablate(
    model: keras.layers.Layer,
    heads: Mapping[str | AttentionKey, int | Sequence[int]],
    replace: str | npt.ArrayLike = "zero",
) -> Iterator[None]:
    """Switches attention heads off, or replaces their attention weights, inside a `with` block.

    A multi-head layer adds up the contexts of its heads, each projected by its part of the output
    projection:

        output = sum over n of context_n Wo_n + b

    `replace="zero"` leaves the heads out of this sum, as in Michel et al. (2019) and Voita et al.
    (2019). `replace="uniform"` sets the queries of the heads to 0, so that all keys that a query
    sees get the same weight. If `replace` is an array, it is a fixed pattern of attention, which
    replaces the attention weights of the heads. Hidden keys get no weight, and each row is scaled
    to sum to 1. With `"uniform"` and patterns, the heads have no `attention_sinks`.

    For `replace="zero"` and `replace="uniform"`, weights of the layers are changed, and restored at
    the end of the block. Inside the block, the change therefore affects all uses of the model:
    `model(x)`, `predict`, functions that were compiled before, cached decoding, the methods of a
    task, and other threads. A fixed pattern only affects eager calls on whole rows.

    References:
        - [Michel et al., 2019](https://arxiv.org/abs/1905.10650): Are Sixteen Heads Really Better
          than One?
        - [Voita et al., 2019](https://arxiv.org/abs/1905.09418): Analyzing Multi-Head
          Self-Attention.

    Args:
        model: A built model or layer. For a task, pass `task.whole`.
        heads: The index of a head, from 0, or a list of indices, keyed by the path of their layer
            in `heads_of`, such as `{"encoder/block_1/self_attention": [3]}`, or by a key of
            `attention_maps`.
        replace: `"zero"`, `"uniform"`, or finite weights `(T, S)` of at least 0. If the inputs are
            shorter, only the first rows and columns are used.

    Yields:
        None.

    Raises:
        TypeError: If the index of a head is not an integer.
        ValueError: If the model has no built multi-head attention layer of this package; if `heads`
            names a layer or head that does not exist; if `replace` has an unknown value or is not
            supported by the layer (`"uniform"` by layers with ALiBi, relative positions, a
            `score_mod` or `qk_norm="layer_norm"`; both names by layers that are quantized other
            than to int8 or float8); if a layer with uniform heads is called with an
            `attention_bias`, unless the call was compiled before; or if a pattern is not a matrix
            of finite numbers of at least 0, or is smaller than the attention weights of a call.
        RuntimeError: If a model with a fixed pattern is called in a compiled function or in cached
            steps, if no eager call reached a layer with a fixed pattern, or if the weights that
            `replace="zero"` or `replace="uniform"` changed are changed again in the block, for
            example by training.

    Example:

    >>> layer = MultiHeadSelfAttention(num_heads=2, name="attend")
    >>> x = keras.random.normal((1, 3, 8))
    >>> before = layer(x)
    >>> with ablate(layer, {"attend": [0, 1]}):
    ...     float(ops.max(ops.abs(layer(x))))
    0.0
    >>> bool(ops.all(layer(x) == before))
    True
    """
    chosen = _chosen(heads_of(model), heads)
    if isinstance(replace, str):
        if replace not in ("zero", "uniform"):
            raise ValueError(
                "`replace` must be 'zero', 'uniform' or an array of weights (T, S). Received: "
                f"{replace!r}."
            )
        parts = _outputs if replace == "zero" else _queries
        layers = [layer for layer, _ in chosen] if replace == "uniform" else []
        with (
            _changed([part for layer, n in chosen for part in parts(layer, n)]),
            without_bias(layers),
        ):
            yield
        return
    pattern = np.asarray(replace, "float32")
    if pattern.ndim != 2 or not np.isfinite(pattern).all() or (pattern < 0).any():
        raise ValueError(
            "A pattern must be an array of shape (T, S) with finite weights of at least 0. "
            f"Received: shape {pattern.shape}"
            + (f", minimum {pattern.min()}." if pattern.size else ".")
        )
    with fixed_patterns([(layer, number, pattern) for layer, number in chosen]):
        yield


def _chosen(
    layers: Mapping[str, HeadsLayer], heads: Mapping[Any, int | Sequence[int]]
) -> list[tuple[HeadsLayer, int]]:
    found = []
    for key, numbers in heads.items():
        path = key.path if isinstance(key, AttentionKey) else key
        if path not in layers:
            raise ValueError(
                f"Expected the path of a multi-head attention layer, one of {list(layers)}. "
                f"Received: {path!r}."
            )
        most = layers[path].num_heads
        for number in numbers if isinstance(numbers, Sequence | np.ndarray) else [numbers]:
            if isinstance(number, bool) or not isinstance(number, int | np.integer):
                raise TypeError(f"Head numbers must be integers. Received: {number!r}.")
            if not 0 <= number < most:
                raise ValueError(f"{path} has heads 0 to {most - 1}. Received: head {number}.")
            found.append((layers[path], int(number)))
    return found


Part: TypeAlias = tuple[keras.Variable, tuple[slice, ...], float]
"""A variable, a part of it, and the value that the part gets."""


def _outputs(layer: HeadsLayer, number: int) -> list[Part]:
    """The rows of the output projection that belong to a head."""
    width = layer._value_head_dim
    rows = slice(number * width, (number + 1) * width)
    dense = _plain(layer.output_dense)
    if dense.lora_enabled:
        return [(dense._kernel, (rows,), 0), (dense.lora_kernel_a, (rows,), 0)]
    return [(dense._kernel, (rows,), 0)]


def _queries(layer: HeadsLayer, number: int) -> list[Part]:
    """The columns of the projection that make the queries of a head, whose scores become 0."""
    others = {"qk_norm": (None, "rms_norm"), "positions": (None, "rotary"), "score_mod": (None,)}
    for name, allowed in others.items():
        value = getattr(layer, name, None)
        if value not in allowed:
            raise ValueError(
                "replace='uniform' requires a layer whose scores are 0 if its queries are 0. "
                f"Received: {layer.path} with {name}={value!r}. Pass an array of ones instead."
            )
    width = layer._head_dim
    columns = slice(number * width, (number + 1) * width)
    dense = _plain(layer.qkv_dense if hasattr(layer, "qkv_dense") else layer.query_dense)
    every = slice(None)
    parts: list[Part] = [(dense._kernel, (every, columns), 0)]
    if dense.bias is not None:
        parts.append((dense.bias, (columns,), 0))
    if dense.lora_enabled:
        parts.append((dense.lora_kernel_b, (every, columns), 0))
    if layer.sinks is not None:
        parts.append((layer.sinks, (slice(number, number + 1),), NO_SINK))
    return parts


def _plain(dense: Any) -> Any:
    """A dense layer whose kernel is a plain float matrix."""
    if dense.quantization_mode not in (None, "int8", "float8"):
        raise ValueError(
            "`ablate` requires kernels that are not quantized, or quantized to int8 or float8. "
            f"Received: {dense.path}, quantized to {dense.quantization_mode}. Ablate the model "
            "before quantizing it."
        )
    return dense


@contextlib.contextmanager
def _changed(parts: Sequence[Part]) -> Iterator[None]:
    """Changes parts of variables inside the block."""
    variables = {id(variable): variable for variable, _, _ in parts}
    former = {i: ops.convert_to_numpy(v).copy() for i, v in variables.items()}
    values = {i: value.copy() for i, value in former.items()}
    for variable, place, value in parts:
        values[id(variable)][place] = value
    try:
        for i, variable in variables.items():
            variable.assign(values[i])
        yield
    finally:
        now = {i: ops.convert_to_numpy(v) for i, v in variables.items()}
        changed = [variables[i].path for i in now if not np.array_equal(now[i], values[i])]
        for i, variable in variables.items():
            variable.assign(former[i])
    if changed:
        raise RuntimeError(
            f"The weights {changed[0]} were changed inside `ablate`. They have their values "
            "from before the `with` block again. Train the model outside of the block."
        )
