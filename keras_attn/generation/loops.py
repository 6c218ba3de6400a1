"""Prompts, loops and results that all searches share."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from keras import ops

from keras_attn.generation.decoders import Decoder, check_room, integer, laid_out
from keras_attn.generation.numbers import is_tensor, values_of
from keras_attn.hints import Nest, Size, Tensor
from keras_attn.ops.masks import token_mask
from keras_attn.ops.padding import known_value

IMPOSSIBLE = -float("inf")


class Generation(NamedTuple):
    """The new tokens of B prompts, with their scores: the result of a search or of sampling.

    The shapes are `(B, ...)`, or `(B, R, ...)` for the R best sequences of a beam search. If a
    sequence does not end within `max_length` tokens (or its row's `max_lengths`), it is cut: it has
    no end token, `finished` is False, and it is ranked by its current score.
    """

    tokens: Tensor
    """The new tokens with the end token, then padding: int32 `(B, [R,] max_length)`."""
    scores: Tensor
    """The log-probability of the new tokens, in beam search divided by the length penalty: float32
    `(B, [R])`. If fewer than R sequences exist, the missing ones have score -inf and length 0."""
    lengths: Tensor
    """Number of new tokens, including the end token: int32 `(B, [R])`."""
    finished: Tensor
    """Whether the sequence has an end token; False if it was cut: bool `(B, [R])`."""


def checked_lengths(
    max_length: Size, min_length: Size, end_id: int | Sequence[int] | None
) -> tuple[Size, Size]:
    """Checks lengths and returns them. In a graph, only known values are checked."""
    for value in values_of(min_length):
        integer("min_length", value, 0)
    check_end(min_length, end_id)
    if ops.is_tensor(max_length):
        return ops.cast(max_length, "int32"), min_length
    max_length = integer("max_length", max_length, 1)
    most = max(values_of(min_length), default=0)
    if most > max_length:
        raise ValueError(
            "`min_length` must be at most `max_length`. "
            f"Received: min_length={most}, max_length={max_length}."
        )
    return max_length, min_length


def check_end(min_length: Size, end_id: int | Sequence[int] | None) -> None:
    """Raises a ValueError for a minimum number of tokens without an end token to delay."""
    if (is_tensor(min_length) or min_length) and not end_ids_of(end_id):
        raise ValueError(
            "`min_length` delays the end token, so it requires an `end_id`. Received: "
            f"min_length={min_length}, end_id={end_id}. Pass `end_id`, or leave `min_length` out."
        )


def row_limits(
    decoder: Decoder, max_lengths: Tensor | None, max_length: Size, lengths: Tensor
) -> Tensor:
    """Returns the maximum number of new tokens of each row, int32 `(B,)`.

    If a decoder does not have enough positions for a row, an error is raised. In a graph, where the
    lengths of prompts are not known, the number of new tokens is reduced instead.
    """
    every = ops.zeros_like(lengths) + max_length
    limits = every if max_lengths is None else _asked_limits(max_lengths, every)
    longest = getattr(decoder, "longest", None)
    if longest is None:
        return limits
    known = known_value(lengths + limits)
    if known is not None:
        check_room(decoder, int(known.max(initial=0)) - 1)
    # The last new token is returned, but never read.
    return ops.minimum(limits, ops.maximum(longest + 1 - lengths, 1))


def within_room(decoder: Decoder, positions: Tensor) -> Tensor:
    """Limits the positions of next tokens to the decoder's positions, for rows that have ended."""
    longest = getattr(decoder, "longest", None)
    return positions if longest is None else ops.minimum(positions, longest - 1)


def _asked_limits(max_lengths: Tensor, every: Tensor) -> Tensor:
    max_lengths = ops.convert_to_tensor(max_lengths)
    if len(max_lengths.shape) != 1 or "int" not in ops.dtype(max_lengths):
        raise ValueError(
            "`max_lengths` must have one integer for each row, shape (B,). Received: shape "
            f"{tuple(max_lengths.shape)}, dtype {ops.dtype(max_lengths)}."
        )
    return ops.minimum(ops.maximum(ops.cast(max_lengths, "int32"), 1), every)


def prefilled(
    decoder: Decoder,
    prompt: Tensor,
    prompt_mask: Tensor | None,
    memory: Tensor | None,
    memory_mask: Tensor | None,
    max_length: Size,
    beams: int = 1,
    spare: int = 0,
) -> tuple[Decoder, Tensor, Any, Tensor]:
    """Reads the prompts, with a cache that has `spare` additional slots.

    Returns the decoder for the steps, the logits after the prompts, the state, and the lengths of
    the prompts `(B,)`.
    """
    prompt = ops.convert_to_tensor(prompt)
    if len(prompt.shape) != 2 or prompt.shape[1] == 0:
        raise ValueError(
            "`prompt` must have shape (B, P) with at least one token per row, such as the start "
            f"token. Received: shape {tuple(prompt.shape)}."
        )
    mask = token_mask(prompt, prompt_mask)
    prompt_mask = None if prompt_mask is None else mask
    # The last new token is returned, but never read.
    if isinstance(max_length, int):  # of padded prompts each has at least one token
        known = prompt.shape[1] if prompt_mask is None else 1
        check_room(decoder, (known or 1) + max_length - 1)
    slots = ops.shape(prompt)[1] + max_length - 1 + spare
    logits, state = decoder.prefill(prompt, prompt_mask, memory, memory_mask, max_length=slots)
    decoder = laid_out(decoder, prompt, beams)  # after its layers are built
    return decoder, logits, state, ops.sum(ops.cast(mask, "int32"), axis=1)


def end_ids_of(end_id: int | Sequence[int] | None) -> list[int]:
    """Returns the ids of the tokens that end a sequence as a list; empty for None."""
    if end_id is None:
        return []
    ends = end_id if isinstance(end_id, list | tuple) else [cast(int, end_id)]
    return [operator.index(i) for i in ends]


def is_end(token: Tensor, end_id: int | Sequence[int] | None) -> Tensor:
    """Returns whether each token is an end token, for tokens of any shape."""
    ends = [ops.equal(token, i) for i in end_ids_of(end_id)]
    return functools.reduce(ops.logical_or, ends, ops.zeros_like(token, dtype="bool"))


def log_total(logits: Tensor) -> Tensor:
    """Returns the log of the sum of exponentials of logits `(..., V)`, float32 `(..., 1)`.

    Logits minus this number are log-probabilities. Pass the decoder's original logits, so that
    forbidding some tokens does not raise the probabilities of all others.
    """
    return ops.logsumexp(ops.cast(logits, "float32"), axis=-1, keepdims=True)


def decode_rows(
    decoder: Decoder,
    logits: Tensor,
    state: Nest,
    lengths: Tensor,
    limits: Tensor,
    max_length: Size,
    end_id: int | Sequence[int] | None,
    pad_id: int,
    choose: Callable[[Any, Tensor, Any], tuple[Tensor, Tensor, Any]],
    history: Nest = (),
) -> Generation:
    """Decodes one sequence per row, in one loop that stops when all rows have ended."""
    slots = ops.expand_dims(ops.arange(max_length, dtype="int32"), 0)
    pad = ops.cast(pad_id, "int32")

    def is_open(found: Generation) -> Tensor:
        return ops.logical_and(ops.logical_not(found.finished), found.lengths < limits)

    def extend(step: Size, logits: Tensor, found: Generation, history: Nest):
        open_ = is_open(found)
        token, logp, history = choose(step, logits, history)
        token = ops.where(open_, ops.cast(token, "int32"), pad)
        found = Generation(
            ops.where(ops.equal(slots, step), ops.expand_dims(token, 1), found.tokens),
            found.scores + ops.where(open_, logp, 0.0),
            found.lengths + ops.cast(open_, "int32"),
            ops.logical_or(found.finished, ops.logical_and(open_, is_end(token, end_id))),
        )
        return token, found, history

    def body(step: Tensor, token: Tensor, found: Generation, history: Nest, state: Nest):
        logits, state = decoder.step(token, within_room(decoder, lengths + step), state)
        return (step + 1, *extend(step + 1, logits, found, history), state)

    def going(step: Tensor, token: Tensor, found: Generation, history: Nest, state: Nest):
        return ops.logical_and(step + 1 < max_length, ops.any(is_open(found)))

    zeros = ops.zeros_like(lengths)
    tokens = ops.expand_dims(zeros, 1) + ops.zeros_like(slots) + pad
    nothing = Generation(tokens, ops.cast(zeros, "float32"), zeros, ops.cast(zeros, "bool"))
    first = ops.convert_to_tensor(0, "int32")
    loop = (first, *extend(first, logits, nothing, history), state)
    return ops.while_loop(going, body, loop)[2]
