"""Fixed attention patterns that replace the weights of heads."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.layers.collect import is_concrete

Patterns: TypeAlias = dict[int, list[tuple[int, np.ndarray]]]
_patterns: contextvars.ContextVar[Patterns | None] = contextvars.ContextVar(
    "keras_attn_patterns", default=None
)
_reached: contextvars.ContextVar[set[int] | None] = contextvars.ContextVar(
    "keras_attn_reached", default=None
)


NO_SINK = -1e4
"""A logit that makes the sink of a head ineffective, in float16 too."""


@contextlib.contextmanager
def without_bias(layers: Sequence[keras.layers.Layer]) -> Iterator[None]:
    """Makes calls of layers with an `attention_bias` errors inside the block."""
    former = [(layer, layer._has_uniform_heads) for layer in layers]
    try:
        for layer in layers:
            layer._has_uniform_heads = True
        yield
    finally:
        for layer, value in former:
            layer._has_uniform_heads = value


@contextlib.contextmanager
def fixed_patterns(
    chosen: Sequence[tuple[keras.layers.Layer, int, np.ndarray]],
) -> Iterator[None]:
    """Replaces the weights of heads by fixed patterns inside the block."""
    patterns = {key: list(value) for key, value in (_patterns.get() or {}).items()}
    for layer, number, pattern in chosen:
        patterns.setdefault(id(layer), []).append((number, pattern))
    reached: set[int] = set()
    tokens = _patterns.set(patterns), _reached.set(reached)
    try:
        yield
    finally:
        _patterns.reset(tokens[0])
        _reached.reset(tokens[1])
    missed = [layer.path for layer, _, _ in chosen if id(layer) not in reached]
    if missed:
        raise RuntimeError(
            f"No eager call reached {missed[0]} inside `ablate` with a pattern. Compiled "
            "functions ignore the pattern. Call the model eagerly, as `model(x)`."
        )


def with_patterns(
    layer: keras.layers.Layer, query: Tensor, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Adds the fixed patterns of the surrounding `ablate` block to the options of the kernel."""
    patterns = (_patterns.get() or {}).get(id(layer))
    if patterns is None:
        return dict(options)
    if not is_concrete(query):
        refuse_patterns(layer)
    reached = _reached.get()
    if reached is not None:
        reached.add(id(layer))
    score_mod, mask_mod = options.get("score_mod"), options.get("mask_mod")

    def part(pattern: np.ndarray, query: Tensor, key: Tensor) -> np.ndarray:
        rows, columns = query.shape[2], key.shape[3]
        if pattern.shape[0] < rows or pattern.shape[1] < columns:
            raise ValueError(
                f"The pattern must have at least {rows} queries and {columns} keys, as many as "
                f"{layer.path} has. Received: shape {pattern.shape}."
            )
        return pattern[:rows, :columns]

    def scores_of(scores: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Any:
        changed = scores if score_mod is None else score_mod(scores, head, query, key)
        for number, pattern in patterns:
            logs = np.log(np.maximum(part(pattern, query, key), 1e-30))
            changed = ops.where(head == number, ops.cast(logs, changed.dtype), changed)
        return changed

    def visible(head: Tensor, query: Tensor, key: Tensor) -> Any:
        seen = ops.ones_like(head, dtype="bool")
        if mask_mod is not None:
            seen = ops.cast(mask_mod(head, query, key), "bool")
        for number, pattern in patterns:
            shown = ops.convert_to_tensor(part(pattern, query, key) > 0)
            seen = ops.where(head == number, ops.logical_and(seen, shown), seen)
        return seen

    if layer.sinks is not None:
        sinks = ops.convert_to_tensor(layer.sinks)
        for number, _ in patterns:
            sinks = ops.where(ops.arange(layer.num_heads) == number, NO_SINK, sinks)
        options = {**options, "sinks": sinks}
    return {**options, "score_mod": scores_of, "mask_mod": visible}


def refuse_patterns(layer: keras.layers.Layer) -> None:
    """Raises an error if the layer is called where a pattern has no effect."""
    if id(layer) in (_patterns.get() or {}):
        raise RuntimeError(
            "`ablate` with a pattern works only in eager calls on whole sequences. Received: "
            f"a call of {layer.path} in a compiled function or in a cached step. Call the "
            "model as `model(x)`, or use replace='zero' or 'uniform', which work everywhere."
        )
