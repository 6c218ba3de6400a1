"""Positions and chunks of keys and queries that can see each other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from keras import ops

from keras_attn.hints import Size, Tensor
from keras_attn.ops.loops import repeated


@dataclass(frozen=True, kw_only=True)
class ChunkRanges:
    """Chunks of queries and keys, and which chunks see each other because of their positions."""

    sizes: tuple[int, int]
    chunks: tuple[Size, Size]
    lengths: tuple[Size, Size]
    causal: bool = False
    window: int | None = None
    sink_tokens: int = 0
    padded: bool = False
    key_lengths: Tensor | None = None

    def positions_seen(self, i: Size, j: Size) -> list[Tensor]:
        """Returns the masks of keys in chunk j for queries in chunk i that positions define."""
        T, S = self.lengths
        s = ops.expand_dims(ops.arange(self.sizes[1]) + j * self.sizes[1], 0)
        t = ops.expand_dims(ops.arange(self.sizes[0]) + i * self.sizes[0], 1) + (S - T)
        visible = []
        if self.padded:
            visible.append(s < S)
        if self.key_lengths is not None:
            lengths = ops.reshape(ops.cast(self.key_lengths, s.dtype), (-1, 1, 1, 1, 1))
            visible.append(s < lengths)
        if self.causal:
            visible.append(s <= t)
        if self.window is not None and not self.sink_tokens:
            visible.append(s > t - self.window)
            if not self.causal:
                visible.append(s < t + self.window)
        elif self.window is not None:
            near = ops.abs(t - s) < self.window
            visible.append(ops.logical_or(near, s < self.sink_tokens))
        return visible

    def over_keys(self, i: Size, body: Callable, start: tuple[Tensor, ...]) -> tuple:
        """Repeats `body` for the chunks of keys that queries of chunk i can see."""
        lower, upper = self.keys_of(i)
        if self.sink_tokens:
            most = upper if self.causal else self.chunks[1]
            first = _within(-(-self.sink_tokens // self.sizes[1]), most)
            start = repeated(0, first, body, start)
            lower = _greater(lower, first)
        return repeated(lower, upper, body, start)

    def keys_of(self, i: Size) -> tuple[Any, Any]:
        """Returns the range of chunks of keys that queries of chunk i see, without sink tokens."""
        (size, width), (_, most) = self.sizes, self.chunks
        first = i * size + self.lengths[1] - self.lengths[0]
        last = first + size - 1
        lower, upper = 0, most
        if self.causal:
            upper = _within(last // width + 1, most)
        if self.window is not None:
            lower = _within((first - self.window + 1) // width, most)
            if not self.causal:
                upper = _within((last + self.window - 1) // width + 1, most)
        return lower, upper

    def queries_of(self, j: Size) -> tuple[Any, Any]:
        """Returns the range of chunks of queries that can see keys of chunk j."""
        (width, size), (most, _) = self.sizes, self.chunks
        first = j * size - self.lengths[1] + self.lengths[0]
        last = first + size - 1
        lower, upper = 0, most
        if self.causal:
            lower = _within(first // width, most)
        if self.window is not None:
            upper = _within((last + self.window - 1) // width + 1, most)
            if not self.causal:
                lower = _within((first - self.window + 1) // width, most)
            if self.sink_tokens:
                sinks = j * size < self.sink_tokens
                upper = _either(sinks, most, upper)
                lower = lower if self.causal else _either(sinks, 0, lower)
        return lower, upper


def _either(condition: Any, a: Size, b: Size) -> Any:
    """`a` if the condition is true, else `b`."""
    if isinstance(condition, bool):
        return a if condition else b
    return ops.where(condition, a, b)


def _greater(a: Size, b: Size) -> Any:
    known = isinstance(a, int) and isinstance(b, int)
    return max(cast(int, a), cast(int, b)) if known else ops.maximum(a, b)


def _within(chunk: Size, most: Size) -> Any:
    if isinstance(chunk, int) and isinstance(most, int):
        return min(max(chunk, 0), most)
    return ops.minimum(ops.maximum(chunk, 0), most)
