"""Greedy search and beam search, each as one loop in one graph."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_attn.generation.decoders import Decoder, integer, reorder, repeat
from keras_attn.generation.greatest import greatest, greatest_k, ordered_top_k
from keras_attn.generation.loops import (
    IMPOSSIBLE,
    Generation,
    checked_lengths,
    decode_rows,
    is_end,
    log_total,
    prefilled,
    row_limits,
    token_rules,
    within_room,
)
from keras_attn.generation.numbers import is_tensor, of_rows
from keras_attn.hints import Nest, Size, Tensor


def length_penalty(lengths: Size, alpha: float | Tensor) -> Tensor:
    """Length penalty `((5 + length) / 6) ** alpha` that divides scores (GNMT: Wu et al., 2016).

    Args:
        lengths: Numbers of tokens.
        alpha: Exponent; 0 for no penalty, above 0 favours longer sequences, below 0 shorter ones. A
            number, or a tensor that can be broadcast with `lengths`.

    Returns:
        float32 tensor of the shape of `lengths`, or of both.

    Example:

    >>> float(length_penalty(ops.array(1), 0.6)), float(length_penalty(ops.array(7), 1.0))
    (1.0, 2.0)
    """
    alpha = ops.cast(alpha, "float32") if is_tensor(alpha) else float(alpha)
    return ops.power((5.0 + ops.cast(lengths, "float32")) / 6.0, alpha)


def greedy_search(
    decoder: Decoder,
    prompt: Tensor,
    prompt_mask: Tensor | None = None,
    memory: Tensor | None = None,
    memory_mask: Tensor | None = None,
    *,
    max_length: Size,
    end_id: int | Sequence[int] | None,
    max_lengths: Tensor | None = None,
    min_length: int | Tensor = 0,
    pad_id: int = 0,
    suppressed_ids: Sequence[int] = (),
) -> Generation:
    """Takes the most probable token at each step, like a beam of one.

    It runs eagerly, in a `tf.function`, under `jax.jit` and on PyTorch, and stops when all rows
    have ended. See `Generation` for sequences that do not end.

    Args:
        decoder: Any object with `prefill` and `step`.
        prompt: Ids `(B, P)`, such as the start token for a translation.
        prompt_mask: `(B, P)`, True for tokens, at least one per row; all if None.
        memory: `(B, S, Dm)` for the cross-attention, or None.
        memory_mask: `(B, S)`, or None.
        max_length: Maximum number of new tokens, with the end token; an integer, or a tensor in a
            graph.
        end_id: Id of the token that ends a sequence, or a list of several such ids, or None: all go
            on to `max_length`.
        max_lengths: int32 `(B,)`, the maximum number of new tokens of each row, 1 to `max_length`,
            so that results do not depend on the batch; `max_length` for all if None.
        min_length: Minimum number of new tokens, with the end token; an integer, or a tensor `()`
            or `(B,)`.
        pad_id: Id of the padding after the end; it may be `end_id`.
        suppressed_ids: Ids of tokens that are never generated.

    Returns:
        `Generation` with shapes `(B, max_length)` and `(B,)`. Scores are sums of log-probabilities.

    Raises:
        ValueError: If lengths do not fit, or an id is outside the vocabulary.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=20, dim=8)
    >>> stack = TransformerDecoder(num_layers=1, num_heads=2, intermediate_dim=16)
    >>> stack.build((None, None, 8))
    >>> decoder = TokenDecoder(embedding, PositionalEncoding(), stack)
    >>> result = greedy_search(decoder, ops.array([[1], [1]]), max_length=5, end_id=2)
    >>> tuple(result.tokens.shape)
    (2, 5)
    """
    max_length, min_length = checked_lengths(max_length, min_length)
    decoder, logits, state, lengths = prefilled(
        decoder, prompt, prompt_mask, memory, memory_mask, max_length
    )
    allowed = token_rules(logits.shape[-1], end_id, pad_id, min_length, suppressed_ids)

    def choose(step: Size, logits: Tensor, history: Any):
        best, token = greatest(allowed(logits, step))
        return token, best - log_total(logits)[:, 0], history

    limits = row_limits(decoder, max_lengths, max_length, lengths)
    return decode_rows(decoder, logits, state, lengths, limits, max_length, end_id, pad_id, choose)


def beam_search(
    decoder: Decoder,
    prompt: Tensor,
    prompt_mask: Tensor | None = None,
    memory: Tensor | None = None,
    memory_mask: Tensor | None = None,
    *,
    num_beams: int,
    max_length: Size,
    end_id: int | Sequence[int] | None,
    max_lengths: Tensor | None = None,
    num_return_sequences: int = 1,
    alpha: float | Tensor = 0.0,
    min_length: int | Tensor = 0,
    pad_id: int = 0,
    suppressed_ids: Sequence[int] = (),
) -> Generation:
    """Keeps the `num_beams` best sequences at each step, and returns the best of them.

    Sequences are ranked by their log-probability divided by the `length_penalty` of their length. A
    sequence that has reached the end token is frozen: it keeps its score, and its place in the beam
    while it is among the best. The R best ended sequences are remembered even if they lose their
    place. A row stops when all its beams have ended, or none of its open beams can overtake these
    R. At `max_length` the open beams are cut and ranked with the rest (see `Generation`). With
    enough beams this is exhaustive search; with one it is greedy search.

    It runs eagerly, in a `tf.function`, under `jax.jit` and on PyTorch.

    Args:
        decoder: Any object with `prefill` and `step`.
        prompt: Ids `(B, P)`, such as the start token for a translation.
        prompt_mask: `(B, P)`, True for tokens, at least one per row; all if None.
        memory: `(B, S, Dm)` for the cross-attention, or None.
        memory_mask: `(B, S)`, or None.
        num_beams: Number K of beams; it may exceed the size of the vocabulary.
        max_length: Maximum number of new tokens, with the end token; an integer, or a tensor in a
            graph.
        end_id: Id of the token that ends a sequence, or a list of several such ids, or None: all go
            on to `max_length`.
        max_lengths: int32 `(B,)`, the maximum number of new tokens of each row, 1 to `max_length`,
            so that results do not depend on the batch; `max_length` for all if None.
        num_return_sequences: Number R of sequences returned, at most K.
        alpha: Exponent of the length penalty; 0 for none, 0.6 to 1 are usual in translation. A
            number, or a tensor `()` or `(B,)`: what is compiled then serves all values.
        min_length: Minimum number of new tokens, with the end token; an integer, or a tensor `()`
            or `(B,)`.
        pad_id: Id of the padding after the end; it may be `end_id`.
        suppressed_ids: Ids of tokens that are never generated.

    Returns:
        `Generation` with shapes `(B, R, max_length)` and `(B, R)`, the best first.

    Raises:
        ValueError: If lengths or counts do not fit, or an id is outside the vocabulary.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=20, dim=8)
    >>> stack = TransformerDecoder(num_layers=1, num_heads=2, intermediate_dim=16)
    >>> stack.build((None, None, 8))
    >>> decoder = TokenDecoder(embedding, PositionalEncoding(), stack)
    >>> best = beam_search(decoder, ops.array([[1]]), num_beams=3, max_length=5, end_id=2)
    >>> tuple(best.tokens.shape), tuple(best.scores.shape)
    ((1, 1, 5), (1, 1))
    """
    max_length, min_length = checked_lengths(max_length, min_length)
    K = integer("num_beams", num_beams, 1)
    R = integer("num_return_sequences", num_return_sequences, 1)
    if R > K:
        raise ValueError(
            "`num_return_sequences` must be at most `num_beams`. "
            f"Received: num_return_sequences={R}, num_beams={K}."
        )
    decoder, logits, state, lengths = prefilled(
        decoder, prompt, prompt_mask, memory, memory_mask, max_length, K
    )
    V = logits.shape[-1]
    most = min(K, V)  # next tokens of one beam that can be among the K best
    alpha = of_rows("alpha", alpha)
    least = of_rows("min_length", min_length)  # () or (B, 1): of rows, of beams (B * K,)
    of_beams = ops.repeat(least[:, 0], K) if is_tensor(least) and len(least.shape) else least
    first_allowed, allowed = (
        token_rules(V, end_id, pad_id, n, suppressed_ids) for n in (min_length, of_beams)
    )
    limits = ops.expand_dims(row_limits(decoder, max_lengths, max_length, lengths), 1)
    slots = ops.reshape(ops.arange(max_length, dtype="int32"), (1, 1, -1))
    rows = ops.cumsum(ops.ones_like(lengths)) - 1
    first_of_row = ops.expand_dims(rows * K, 1)
    beam_lengths = ops.repeat(lengths, K, axis=0)
    once = np.where(np.arange(most) == 0, 0.0, IMPOSSIBLE)
    once = ops.convert_to_tensor(once, "float32")

    def nothing(count: int) -> Generation:
        """`count` impossible sequences for each row."""
        zeros = ops.expand_dims(ops.zeros_like(lengths), 1) + ops.zeros((1, count), dtype="int32")
        return Generation(
            tokens=ops.expand_dims(zeros, 2) + ops.zeros_like(slots) + ops.cast(pad_id, "int32"),
            scores=ops.cast(zeros, "float32") + IMPOSSIBLE,
            lengths=zeros,
            finished=ops.cast(zeros, "bool"),
        )

    def is_open(beams: Generation) -> Tensor:
        return ops.logical_and(ops.logical_not(beams.finished), beams.lengths < limits)

    def take(beams: Generation, index: Tensor) -> Generation:
        """The beams at `index` (B, n)."""
        tokens = ops.take_along_axis(beams.tokens, ops.expand_dims(index, -1), axis=1)
        rest = [ops.take_along_axis(t, index, axis=1) for t in beams[1:]]
        return Generation(tokens, *rest)

    def following(
        step: Size, logits: Tensor, allowed: Callable[[Tensor, Size], Tensor] = allowed
    ) -> tuple[Tensor, Tensor]:
        """The best next tokens of logits (..., V) and their log-probabilities, (..., most)."""
        values, tokens = greatest_k(allowed(logits, step), most)
        return values - log_total(logits), tokens

    def extend(
        step: Size, logp: Tensor, tokens: Tensor, beams: Generation
    ) -> tuple[Generation, Tensor, Tensor, Tensor]:
        """The K best of K beams with their next `tokens` (B, K, most); scores are sums."""
        open_ = is_open(beams)
        goes_on = ops.expand_dims(open_, -1)
        logp = ops.where(goes_on, logp, once)
        tokens = ops.where(goes_on, tokens, ops.cast(pad_id, "int32"))
        total = ops.expand_dims(beams.scores, -1) + logp
        beams = beams._replace(lengths=beams.lengths + ops.cast(open_, "int32"))
        ranked = total / ops.expand_dims(length_penalty(beams.lengths, alpha), -1)
        _, index = ordered_top_k(ops.reshape(ranked, (-1, K * most)), K)
        parent = index // most
        token = ops.take_along_axis(ops.reshape(tokens, (-1, K * most)), index, axis=1)
        was_open = ops.take_along_axis(open_, parent, axis=1)
        beams = take(beams, parent)
        ended = ops.logical_and(was_open, is_end(token, end_id))
        beams = Generation(
            ops.where(ops.equal(slots, step), ops.expand_dims(token, -1), beams.tokens),
            ops.take_along_axis(ops.reshape(total, (-1, K * most)), index, axis=1),
            beams.lengths,
            ops.logical_or(beams.finished, ended),
        )
        return beams, parent, token, was_open

    def remember(best: Generation, beams: Generation, which: Tensor) -> Generation:
        """The R best of `best` and the beams in `which` (B, K); scores have the length penalty."""
        ranked = beams.scores / length_penalty(beams.lengths, alpha)
        beams = beams._replace(scores=ops.where(which, ranked, IMPOSSIBLE))
        pairs = zip(best, beams, strict=True)
        joined = Generation(*(ops.concatenate(pair, axis=1) for pair in pairs))
        return take(joined, ordered_top_k(joined.scores, R)[1])

    def done(step: Size, beams: Generation, best: Generation) -> Tensor:
        """Whether no open beam of a row can overtake the last of the remembered sequences."""
        open_scores = ops.where(is_open(beams), beams.scores, IMPOSSIBLE)
        open_score = ops.max(open_scores, axis=1, keepdims=True)
        # The score only falls; its penalty lies between those of the next and maximum length.
        bound = ops.maximum(
            open_score / length_penalty(step + 2, alpha),
            open_score / length_penalty(limits, alpha),
        )
        return best.scores[:, -1:] >= bound

    def choose(
        step: Size, logp: Tensor, tokens: Tensor, beams: Generation, best: Generation
    ) -> tuple[Tensor, Generation, Generation, Tensor, Tensor]:
        beams, parent, token, was_open = extend(step, logp, tokens, beams)
        over = ops.logical_and(was_open, ops.logical_not(is_open(beams)))
        best = remember(best, beams, over)
        return token, beams, best, done(step, beams, best), parent

    def body(
        step: Tensor,
        token: Tensor,
        beams: Generation,
        best: Generation,
        stopped: Tensor,
        state: Nest,
    ):
        positions = within_room(decoder, beam_lengths + step)
        logits, state = decoder.step(ops.reshape(token, (-1,)), positions, state)
        logp, tokens = (ops.reshape(t, (-1, K, most)) for t in following(step + 1, logits))
        *chosen, parent = choose(step + 1, logp, tokens, beams, best)
        state = reorder(decoder, state, ops.reshape(first_of_row + parent, (-1,)))
        return (step + 1, *chosen, state)

    def going(
        step: Tensor,
        token: Tensor,
        beams: Generation,
        best: Generation,
        stopped: Tensor,
        state: Nest,
    ) -> Tensor:
        return ops.logical_and(step + 1 < max_length, ops.logical_not(ops.all(stopped)))

    # The first step has one possible beam; the other K - 1 are impossible.
    beams = nothing(K)
    first = ops.convert_to_tensor(np.arange(K)[None] == 0)
    beams = beams._replace(scores=ops.where(first, 0.0, beams.scores))
    of_first = following(0, logits, first_allowed)
    logp, tokens = (ops.repeat(ops.expand_dims(t, 1), K, axis=1) for t in of_first)
    *chosen, _ = choose(0, logp, tokens, beams, nothing(R))
    loop = (ops.convert_to_tensor(0, "int32"), *chosen, repeat(decoder, state, K))
    _, _, _, best, _, _ = ops.while_loop(going, body, loop)

    there = best.scores > IMPOSSIBLE
    return Generation(
        ops.where(ops.expand_dims(there, -1), best.tokens, ops.cast(pad_id, "int32")),
        best.scores,
        ops.where(there, best.lengths, 0),
        ops.logical_and(there, best.finished),
    )
