"""Changes of attention scores and masks: soft caps, sinks, functions of positions."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import keras
from keras import ops

from keras_attn.hints import Size, Tensor
from keras_attn.ops.masks import as_boolean_mask, static_shape

ScoreMod: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""A function `(scores, head, query, key) -> scores` of arrays that broadcast to `(B, N, T, S)`."""
MaskMod: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A function `(head, query, key) -> visible` of integers that broadcast to `(B, N, T, S)`."""


class ScoreOptions(NamedTuple):
    """The options of `dot_product_attention` that change scores or hide keys."""

    softcap: float | None = None
    sinks: Tensor | None = None
    score_mod: ScoreMod | None = None
    mask_mod: MaskMod | None = None
    query_positions: Tensor | None = None
    key_positions: Tensor | None = None

    @property
    def of_positions(self) -> bool:
        """Whether `score_mod` or `mask_mod` is given, which are functions of positions."""
        return self.score_mod is not None or self.mask_mod is not None

    def capped(self, scores: Tensor) -> Any:
        """Returns the scores in float32 or better, with the soft cap applied."""
        scores = precise(scores)
        return scores if self.softcap is None else softcap(scores, self.softcap)

    def modified(self, scores: Tensor, query: Tensor, key: Tensor) -> Any:
        """Applies `score_mod` to scores `(B, N, T, S)`, with positions of queries and keys."""
        if self.score_mod is None:
            return scores
        result = self.score_mod(scores, heads(scores.shape[1]), query, key)
        wanted, received = static_shape(scores), static_shape(result)
        fits = len(wanted) == len(received) and all(
            None in (a, b) or a == b for a, b in zip(wanted, received, strict=True)
        )
        if not fits or ops.dtype(result) != ops.dtype(scores):
            raise ValueError(
                f"`score_mod` must return scores of shape {wanted} and dtype "
                f"{ops.dtype(scores)}, like the scores that it receives. Received: "
                f"{received}, {ops.dtype(result)}."
            )
        return result

    def seen(self, num_heads: int, query: Tensor, key: Tensor) -> Any:
        """Returns the mask that `mask_mod` computes from positions; None if there is none."""
        if self.mask_mod is None:
            return None
        result = as_boolean_mask(self.mask_mod(heads(num_heads), query, key), "mask_mod(...)")
        if len(result.shape) != 4:
            raise ValueError(
                "`mask_mod` must return booleans that broadcast to (B, N, T, S). Received: shape "
                f"{static_shape(result)}."
            )
        return result

    def sink_column(self, dtype: str) -> Any:
        """Returns the sinks as `(1, N, 1, 1)`; None if there are none."""
        if self.sinks is None:
            return None
        return ops.reshape(ops.cast(self.sinks, dtype), (1, -1, 1, 1))


def softcap(x: Tensor, cap: float) -> Any:
    """Limits numbers smoothly to the range from `-cap` to `cap` (Gemma Team, 2024).

        output = cap * tanh(x / cap)

    Args:
        x: Floats of any shape, such as logits.
        cap: A positive number.

    Returns:
        Floats of the same shape and dtype.

    Example:

    >>> [round(float(x), 3) for x in softcap(ops.array([0.5, 100.0]), 2.0)]
    [0.49, 2.0]
    """
    return ops.tanh(x * (1.0 / cap)) * cap


def precise(scores: Tensor) -> Any:
    """Converts scores to float32 or float64; products that overflowed in float16 saturate."""
    dtype = ops.dtype(scores)
    if dtype == "float64":
        return scores
    scores = ops.cast(scores, "float32")
    return ops.clip(scores, -65504.0, 65504.0) if dtype == "float16" else scores


def heads(number: int) -> Any:
    """Returns the indices of the heads, `(1, N, 1, 1)`."""
    return ops.reshape(ops.arange(number, dtype="int32"), (1, number, 1, 1))


def pair_positions(query: Tensor, key: Tensor, options: ScoreOptions) -> tuple[Any, Any]:
    """Returns the positions of queries `(b, 1, T, 1)` and of keys `(b, 1, 1, S)`.

    By default, the queries have the last positions of the keys.
    """
    T, S = ops.shape(query)[1], ops.shape(key)[1]
    query_positions, key_positions = options.query_positions, options.key_positions
    if key_positions is None:
        key_positions = _counted(key)
    if query_positions is None:
        query_positions = _counted(query) + (S - T)
    query_positions = ops.cast(query_positions, "int32")
    key_positions = ops.cast(key_positions, "int32")
    return (
        ops.expand_dims(ops.expand_dims(query_positions, 1), 3),
        ops.expand_dims(ops.expand_dims(key_positions, 1), 1),
    )


def _counted(x: Tensor) -> Any:
    ones = ops.ones_like(x[(slice(0, 1), slice(None), 0, 0)], dtype="int32")
    return ops.cumsum(ones, axis=1) - 1


def check_softcap(cap: object, name: str = "softcap") -> None:
    """Raises a ValueError if a soft cap is not a positive number."""
    number = isinstance(cap, numbers.Real) and not isinstance(cap, bool)
    if cap is not None and not (number and 0 < float(str(cap)) < float("inf")):
        raise ValueError(
            f"`{name}` must be a positive number c, which limits scores to the range from -c "
            f"to c. Received: {cap!r}. Leave it out if scores need no limit."
        )


def check_mods(score_mod: object, mask_mod: object) -> None:
    """Raises a TypeError if a function of scores or of visibility cannot be called."""
    for name, function in (("score_mod", score_mod), ("mask_mod", mask_mod)):
        if function is not None and not callable(function):
            arguments = "scores, head, query, key" if name == "score_mod" else "head, query, key"
            raise TypeError(
                f"`{name}` must be a function of ({arguments}). Received: {function!r}."
            )


def check_options(options: ScoreOptions, query: Tensor, key: Tensor) -> ScoreOptions:
    """Checks the options of a call, and returns them with tensors for arrays."""
    check_softcap(options.softcap)
    check_mods(options.score_mod, options.mask_mod)
    sinks, N = options.sinks, query.shape[2]
    if sinks is not None:
        sinks = sinks if keras.backend.is_keras_tensor(sinks) else ops.convert_to_tensor(sinks)
        if static_shape(sinks) not in ((N,), (None,)) or "float" not in ops.dtype(sinks):
            raise ValueError(
                f"`sinks` must be floats of shape (N,), here {(N,)}: one logit for each "
                f"head. Received: dtype {ops.dtype(sinks)}, shape {static_shape(sinks)}."
            )
    found: list[Any] = []
    for name, positions, x in (
        ("query_positions", options.query_positions, query),
        ("key_positions", options.key_positions, key),
    ):
        if positions is not None:
            if not options.of_positions:
                raise ValueError(
                    f"`{name}` are only used by `score_mod` and `mask_mod`. Received: "
                    f"neither of these functions. Pass one of them, or leave `{name}` out."
                )
            positions = ops.convert_to_tensor(positions)
            _check_positions(name, positions, static_shape(x)[:2])
        found.append(positions)
    return options._replace(sinks=sinks, query_positions=found[0], key_positions=found[1])


def _check_positions(name: str, positions: Tensor, wanted: tuple[Size | None, ...]) -> None:
    shape = static_shape(positions)
    fits = len(shape) == 2 and all(
        None in (a, b) or a == b or (a == 1 and not axis)
        for axis, (a, b) in enumerate(zip(shape, wanted, strict=False))
    )
    if not fits or "int" not in ops.dtype(positions):
        raise ValueError(
            f"`{name}` must be integers of shape (1 or B, length), here {wanted}. Received: dtype "
            f"{ops.dtype(positions)}, shape {shape}."
        )
