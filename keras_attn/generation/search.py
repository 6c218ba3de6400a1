"""Greedy and beam search as one loop in one graph."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attn.generation.decoders import Decoder, reorder, repeat_rows

Tensor = Any

_NEVER = -1e30


class Generation(NamedTuple):
    """What a search found. Shapes are `(B, ...)` for greedy search, `(B, R, ...)` for n best."""

    tokens: Tensor
    """int32 `(B, [R,] max_length)`: the new tokens, the end token included, then padding."""
    scores: Tensor
    """float32 `(B, [R])`: log-probability, divided by the length penalty. -inf: no such one."""
    lengths: Tensor
    """int32 `(B, [R])`: number of new tokens, the end token included."""
    finished: Tensor
    """bool `(B, [R])`: whether the end token was reached within `max_length`."""


def length_penalty(lengths: Tensor, alpha: float) -> Tensor:
    """The penalty `((5 + length) / 6) ** alpha` that divides scores (GNMT: Wu et al., 2016).

    Args:
        lengths: Numbers of tokens.
        alpha: 0: none; greater values favour longer sequences.

    Returns:
        float32 tensor of the shape of `lengths`.

    Example:

    >>> float(length_penalty(ops.array(1), 0.6)), float(length_penalty(ops.array(7), 1.0))
    (1.0, 2.0)
    """
    return ops.power((5.0 + ops.cast(lengths, "float32")) / 6.0, float(alpha))


def _check(max_length: Any, min_length: int, **counts: int) -> None:
    if isinstance(max_length, int) and max_length < 1:
        raise ValueError(f"`max_length` must be at least 1. Received: {max_length}.")
    if min_length < 0 or (isinstance(max_length, int) and min_length > max_length):
        raise ValueError(
            "`min_length` must be between 0 and `max_length`. "
            f"Received: min_length={min_length}, max_length={max_length}."
        )
    for name, value in counts.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"`{name}` must be a positive integer. Received: {value!r}.")


def _log_probabilities(
    logits: Tensor, step: Any, min_length: int, end_id: int, suppressed_ids: Sequence[int]
) -> Tensor:
    """Log-softmax in float32; what must not come is as good as impossible."""
    logits = ops.cast(logits, "float32")
    V = logits.shape[-1]
    ids = np.arange(V)
    if suppressed_ids:
        logits = ops.where(ops.convert_to_tensor(np.isin(ids, suppressed_ids)), _NEVER, logits)
    logp = ops.log_softmax(logits, axis=-1)
    if min_length:
        early = ops.logical_and(ops.convert_to_tensor(ids == end_id), step + 1 < min_length)
        logp = ops.where(early, _NEVER, logp)
    return logp


def _prompt_lengths(prompt: Tensor, prompt_mask: Tensor | None) -> Tensor:
    mask = ops.ones_like(prompt) if prompt_mask is None else prompt_mask
    return ops.sum(ops.cast(mask, "int32"), axis=1)


def greedy_search(
    decoder: Decoder,
    prompt: Tensor,
    prompt_mask: Tensor | None = None,
    memory: Tensor | None = None,
    memory_mask: Tensor | None = None,
    *,
    max_length: Any,
    end_id: int,
    min_length: int = 0,
    pad_id: int = 0,
    suppressed_ids: Sequence[int] = (),
) -> Generation:
    """Takes the most probable token at each step. Equal to a beam of one.

    Runs eagerly, in a `tf.function`, under `jax.jit` and on PyTorch; stops when all rows ended.

    Args:
        decoder: Anything that can `prefill` and `step`.
        prompt: Ids `(B, P)`: for a translation the start token.
        prompt_mask: `(B, P)`, True for tokens; all if None.
        memory: `(B, S, Dm)` for the cross-attention, or None.
        memory_mask: `(B, S)`, or None.
        max_length: Most new tokens, the end token included.
        end_id: The token that ends a sequence.
        min_length: Least new tokens, the end token included.
        pad_id: What follows the end.
        suppressed_ids: Tokens that never come.

    Returns:
        `Generation` of shapes `(B, max_length)` and `(B,)`; scores are sums of log-probabilities.

    Raises:
        ValueError: For lengths that do not fit.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=20, dim=8)
    >>> stack = TransformerDecoder(num_layers=1, num_heads=2, intermediate_dim=16)
    >>> stack.build((None, None, 8))
    >>> decoder = TokenDecoder(embedding, PositionalEncoding(), stack)
    >>> result = greedy_search(decoder, ops.array([[1], [1]]), max_length=5, end_id=2)
    >>> tuple(result.tokens.shape)
    (2, 5)
    """
    _check(max_length, min_length)
    lengths = _prompt_lengths(prompt, prompt_mask)
    logits, state = decoder.prefill(
        prompt, prompt_mask, memory, memory_mask, max_length=ops.shape(prompt)[1] + max_length
    )
    slots = ops.expand_dims(ops.arange(max_length, dtype="int32"), 0)
    pad = ops.cast(pad_id, "int32")

    def choose(step, logits, tokens, scores, new, finished):
        logp = _log_probabilities(logits, step, min_length, end_id, suppressed_ids)
        token = ops.cast(ops.argmax(logp, axis=-1), "int32")
        gain = ops.max(logp, axis=-1)
        token = ops.where(finished, pad, token)
        scores = scores + ops.where(finished, 0.0, gain)
        tokens = ops.where(ops.equal(slots, step), ops.expand_dims(token, 1), tokens)
        new = new + ops.cast(ops.logical_not(finished), "int32")
        return token, tokens, scores, new, ops.logical_or(finished, ops.equal(token, end_id))

    def body(step, token, tokens, scores, new, finished, state):
        logits, state = decoder.step(token, lengths + step, state)
        return (
            step + 1,
            *choose(step + 1, logits, tokens, scores, new, finished),
            state,
        )

    def going(step, token, tokens, scores, new, finished, state):
        return ops.logical_and(step + 1 < max_length, ops.logical_not(ops.all(finished)))

    zeros = ops.zeros_like(lengths)
    tokens = ops.expand_dims(zeros, 1) + ops.zeros_like(slots) + pad
    first = choose(
        0, logits, tokens, ops.cast(zeros, "float32"), zeros, ops.zeros_like(zeros, dtype="bool")
    )
    loop = (ops.convert_to_tensor(0, "int32"), *first, state)
    _, _, tokens, scores, new, finished, _ = ops.while_loop(going, body, loop)
    return Generation(tokens, scores, new, finished)


def beam_search(
    decoder: Decoder,
    prompt: Tensor,
    prompt_mask: Tensor | None = None,
    memory: Tensor | None = None,
    memory_mask: Tensor | None = None,
    *,
    num_beams: int,
    max_length: Any,
    end_id: int,
    num_return_sequences: int = 1,
    alpha: float = 0.0,
    min_length: int = 0,
    pad_id: int = 0,
    suppressed_ids: Sequence[int] = (),
) -> Generation:
    """Keeps the `num_beams` best sequences at each step, and returns the best of them.

    A sequence is ranked by its log-probability divided by the `length_penalty` of its own length.
    One that reached the end token is frozen: it keeps its place and its score while it is among
    the best. A row stops when none of its open beams can reach the last of the returned ones, or
    all ended. With enough beams this is exhaustive search; with one, greedy search.

    Runs eagerly, in a `tf.function`, under `jax.jit` and on PyTorch.

    Args:
        decoder: Anything that can `prefill` and `step`.
        prompt: Ids `(B, P)`: for a translation the start token.
        prompt_mask: `(B, P)`, True for tokens; all if None.
        memory: `(B, S, Dm)` for the cross-attention, or None.
        memory_mask: `(B, S)`, or None.
        num_beams: Width K.
        max_length: Most new tokens, the end token included.
        end_id: The token that ends a sequence.
        num_return_sequences: Number R of sequences returned, at most K.
        alpha: Exponent of the length penalty; 0: none, 0.6 to 1 are usual in translation.
        min_length: Least new tokens, the end token included.
        pad_id: What follows the end.
        suppressed_ids: Tokens that never come.

    Returns:
        `Generation` of shapes `(B, R, max_length)` and `(B, R)`, the best first.

    Raises:
        ValueError: For lengths or counts that do not fit.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=20, dim=8)
    >>> stack = TransformerDecoder(num_layers=1, num_heads=2, intermediate_dim=16)
    >>> stack.build((None, None, 8))
    >>> decoder = TokenDecoder(embedding, PositionalEncoding(), stack)
    >>> best = beam_search(decoder, ops.array([[1]]), num_beams=3, max_length=5, end_id=2)
    >>> tuple(best.tokens.shape), tuple(best.scores.shape)
    ((1, 1, 5), (1, 1))
    """
    K, R = num_beams, num_return_sequences
    _check(max_length, min_length, num_beams=K, num_return_sequences=R)
    if R > K:
        raise ValueError(
            "`num_return_sequences` must be at most `num_beams`. "
            f"Received: num_return_sequences={R}, num_beams={K}."
        )
    lengths = _prompt_lengths(prompt, prompt_mask)
    logits, state = decoder.prefill(
        prompt, prompt_mask, memory, memory_mask, max_length=ops.shape(prompt)[1] + max_length
    )
    V = logits.shape[-1]
    slots = ops.reshape(ops.arange(max_length, dtype="int32"), (1, 1, -1))
    rows = ops.cumsum(ops.ones_like(lengths)) - 1
    first_of_row = ops.expand_dims(rows * K, 1)
    beam_lengths = ops.repeat(lengths, K, axis=0)
    pad_only = ops.convert_to_tensor(np.where(np.arange(V) == pad_id, 0.0, _NEVER), "float32")

    def choose(step, logp, tokens, scores, new, finished):
        """From K beams (B, K, ...) and their next tokens (B, K, V) to the K best."""
        logp = ops.where(ops.expand_dims(finished, -1), pad_only, logp)
        total = ops.expand_dims(scores, -1) + logp
        new = new + ops.cast(ops.logical_not(finished), "int32")
        ranked = total / ops.expand_dims(length_penalty(new, alpha), -1)
        _, index = ops.top_k(ops.reshape(ranked, (-1, K * V)), K)
        index = ops.cast(index, "int32")
        parent, token = index // V, index % V
        scores = ops.take_along_axis(ops.reshape(total, (-1, K * V)), index, axis=1)
        finished = ops.take_along_axis(finished, parent, axis=1)
        new = ops.take_along_axis(new, parent, axis=1)
        tokens = ops.take_along_axis(tokens, ops.expand_dims(parent, -1), axis=1)
        tokens = ops.where(ops.equal(slots, step), ops.expand_dims(token, -1), tokens)
        ended = ops.logical_and(ops.logical_not(finished), ops.equal(token, end_id))
        return parent, token, tokens, scores, new, ops.logical_or(finished, ended)

    def done(scores, new, finished):
        """Whether no open beam of a row can get ahead of the R best that are finished."""
        ranked = scores / length_penalty(new, alpha)
        open_scores = ops.max(ops.where(finished, _NEVER, scores), axis=1)
        longest = ops.cast(max_length, "float32")
        # An open score only falls; its penalty lies between that of the next and of full length.
        bound = ops.maximum(
            open_scores / length_penalty(longest, alpha),
            open_scores / length_penalty(ops.max(new, axis=1) + 1, alpha),
        )
        worst = ops.top_k(ops.where(finished, ranked, 2 * _NEVER), R)[0][:, -1]
        return ops.logical_or(ops.all(finished, axis=1), worst >= bound)

    def body(step, token, tokens, scores, new, finished, stopped, state):
        logits, state = decoder.step(ops.reshape(token, (-1,)), beam_lengths + step, state)
        logp = _log_probabilities(logits, step + 1, min_length, end_id, suppressed_ids)
        logp = ops.reshape(logp, (-1, K, V))
        parent, *best = choose(step + 1, logp, tokens, scores, new, finished)
        state = reorder(decoder, state, ops.reshape(first_of_row + parent, (-1,)))
        return (step + 1, *best, done(*best[2:]), state)

    def going(step, token, tokens, scores, new, finished, stopped, state):
        return ops.logical_and(step + 1 < max_length, ops.logical_not(ops.all(stopped)))

    # The first step has one beam; the other K - 1 are there, but as good as impossible.
    zeros = ops.expand_dims(ops.zeros_like(lengths), 1) + ops.zeros((1, K), dtype="int32")
    alone = np.where(np.arange(K) == 0, 0.0, _NEVER)[None]
    scores = ops.cast(zeros, "float32") + ops.convert_to_tensor(alone, "float32")
    tokens = ops.expand_dims(zeros, 2) + ops.zeros_like(slots) + ops.cast(pad_id, "int32")
    logp = _log_probabilities(logits, 0, min_length, end_id, suppressed_ids)
    logp = ops.expand_dims(logp, 1) + ops.zeros((1, K, 1), dtype="float32")
    _, *first = choose(0, logp, tokens, scores, zeros, ops.zeros_like(zeros, dtype="bool"))
    loop = (ops.convert_to_tensor(0, "int32"), *first, done(*first[2:]), repeat_rows(state, K))
    _, _, tokens, scores, new, finished, _, _ = ops.while_loop(going, body, loop)

    ranked = scores / length_penalty(new, alpha)
    ranked, index = ops.top_k(ranked, R)
    index = ops.cast(index, "int32")
    exists = ranked > _NEVER / 1e6
    tokens = ops.take_along_axis(tokens, ops.expand_dims(index, -1), axis=1)
    return Generation(
        ops.where(ops.expand_dims(exists, -1), tokens, pad_id),
        ops.where(exists, ranked, -float("inf")),
        ops.where(exists, ops.take_along_axis(new, index, axis=1), 0),
        ops.logical_and(exists, ops.take_along_axis(finished, index, axis=1)),
    )
