"""Greedy search and beam search, each as one loop in one graph."""

from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_attn.generation.beams import Beams
from keras_attn.generation.decoders import Decoder, integer, reorder, repeat, repeat_rows
from keras_attn.generation.greatest import greatest
from keras_attn.generation.loops import (
    Generation,
    checked_lengths,
    decode_rows,
    log_total,
    prefilled,
    row_limits,
    within_room,
)
from keras_attn.generation.ranking import EarlyStopping, Ranking, check_ranking
from keras_attn.generation.repetition import History
from keras_attn.generation.rules import TokenRules
from keras_attn.hints import Nest, Size, Tensor


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
    no_repeat_ngram_size: int = 0,
    forced_first_id: int | None = None,
    forced_last_id: int | None = None,
    beginning: Tensor | None = None,
    beginning_mask: Tensor | None = None,
    renormalize: bool = False,
) -> Generation:
    """Chooses the most probable token at each step, like beam search with one beam.

    The search runs eagerly, in a `tf.function`, under `jax.jit` and on PyTorch, and stops when all
    rows have ended. A sequence that does not end within the maximum length is cut; its `finished`
    is then False.

    Args:
        decoder: Any object with `prefill` and `step`.
        prompt: Ids `(B, P)`, such as the start token for a translation.
        prompt_mask: `(B, P)`, True for tokens, at least one per row; all if None.
        memory: Source states for cross-attention, `(B, S, Dm)`, or None.
        memory_mask: `(B, S)`, True for tokens of the memory; all if None.
        max_length: Maximum number of new tokens, including the end token; an integer, or a tensor
            in a graph.
        end_id: Id of the token that ends a sequence, or a list of several end ids. With None,
            sequences end at their maximum length.
        max_lengths: Maximum number of new tokens of each row, int32 `(B,)`, from 1 to `max_length`;
            `max_length` for all rows if None.
        min_length: Minimum number of new tokens, including the end token; an integer, or a tensor
            `()` or `(B,)`. Above 0, it requires an `end_id`.
        pad_id: Id of the padding after the end; it may be `end_id`.
        suppressed_ids: Ids of tokens that are never generated.
        no_repeat_ngram_size: Size n of the n-grams that may not repeat, in prompt and new tokens
            together; 0 allows all. If no other token is left, n-grams may repeat.
        forced_first_id: Id of the first new token, such as a language mark, or None.
        forced_last_id: Id of the token at the maximum length, usually `end_id`, or None.
        beginning: Given first new tokens of each row, int32 `(B, G)`, after `forced_first_id`.
        beginning_mask: `(B, G)`, True for tokens, with padding on the right; all if None.
        renormalize: Whether probabilities are renormalized over the allowed tokens, as in
            CTranslate2 and with `renormalize_logits` in transformers. By default, scores are based
            on the model's log-probabilities.

    Returns:
        A `Generation` with shapes `(B, max_length)` and `(B,)`. Scores are sums of the
        log-probabilities of the tokens; forced and given tokens count 0.

    Raises:
        ValueError: If a length is out of range, a tensor has the wrong shape or dtype,
            `min_length` is given without `end_id` or `beginning_mask` without `beginning`, prompt
            and new tokens exceed the decoder's positions, an id is outside the vocabulary, or
            `suppressed_ids` leave no possible token.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=20, dim=8)
    >>> stack = TransformerDecoder(num_layers=1, num_heads=2, intermediate_dim=16)
    >>> stack.build((None, None, 8))
    >>> decoder = TokenDecoder(embedding, PositionalEncoding(), stack)
    >>> result = greedy_search(decoder, ops.array([[1], [1]]), max_length=5, end_id=2)
    >>> tuple(result.tokens.shape)
    (2, 5)
    """
    integer("no_repeat_ngram_size", no_repeat_ngram_size, 0)
    max_length, min_length = checked_lengths(max_length, min_length, end_id)
    decoder, logits, state, lengths = prefilled(
        decoder, prompt, prompt_mask, memory, memory_mask, max_length
    )
    limits = row_limits(decoder, max_lengths, max_length, lengths)
    past = History(prompt, prompt_mask, logits, 1.0, no_repeat_ngram_size)
    rules = TokenRules(
        logits.shape[-1],
        end_id,
        pad_id,
        min_length,
        suppressed_ids,
        limits=limits,
        forced_first_id=forced_first_id,
        forced_last_id=forced_last_id,
        beginning=beginning,
        beginning_mask=beginning_mask,
        past=past,
        lengths=lengths,
    )

    def choose(step: Size, logits: Tensor, history: Any):
        allowed = rules.allowed(logits, step, history)
        best, token = greatest(allowed)
        logp = best - log_total(allowed if renormalize else logits)[:, 0]
        return token, logp, past.extended(history, token, lengths + step)

    return decode_rows(
        decoder,
        logits,
        state,
        lengths,
        limits,
        max_length,
        end_id,
        pad_id,
        choose,
        past.start(max_length),
    )


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
    length_penalty_kind: str = "gnmt",
    early_stopping: EarlyStopping = None,
    min_length: int | Tensor = 0,
    pad_id: int = 0,
    suppressed_ids: Sequence[int] = (),
    no_repeat_ngram_size: int = 0,
    forced_first_id: int | None = None,
    forced_last_id: int | None = None,
    beginning: Tensor | None = None,
    beginning_mask: Tensor | None = None,
    renormalize: bool = False,
) -> Generation:
    """Keeps the `num_beams` best sequences at each step and returns the best of them.

    Sequences are ranked by their log-probability divided by the `length_penalty` of their length. A
    sequence that has reached the end token is frozen: it keeps its score, and its place in the beam
    while it is among the K best. The R best finished sequences are remembered even if they lose
    their place. A row stops when all of its beams have finished, or when no open beam can overtake
    its R best finished sequences. At their maximum length, open beams are cut, and ranked together
    with the finished sequences. With enough beams, the search is exhaustive; with one beam, it is
    greedy.

    The search runs eagerly, in a `tf.function`, under `jax.jit` and on PyTorch.

    Args:
        decoder: Any object with `prefill` and `step`.
        prompt: Ids `(B, P)`, such as the start token for a translation.
        prompt_mask: `(B, P)`, True for tokens, at least one per row; all if None.
        memory: Source states for cross-attention, `(B, S, Dm)`, or None.
        memory_mask: `(B, S)`, True for tokens of the memory; all if None.
        num_beams: Number K of beams; it may exceed the size of the vocabulary.
        max_length: Maximum number of new tokens, including the end token; an integer, or a tensor
            in a graph.
        end_id: Id of the token that ends a sequence, or a list of several end ids. With None,
            sequences end at their maximum length.
        max_lengths: Maximum number of new tokens of each row, int32 `(B,)`, from 1 to `max_length`;
            `max_length` for all rows if None.
        num_return_sequences: Number R of sequences returned, at most K.
        alpha: Exponent of the length penalty; 0 for no penalty. In translation, 0.6 to 1 are usual.
            A number, or a tensor `()` or `(B,)`, so that one compiled function works for all
            values.
        length_penalty_kind: Formula of the `length_penalty`, `"gnmt"` or `"power"`.
        early_stopping: None stops as described above. The other values work as in transformers:
            finished sequences leave the beam, and the K best finished sequences are kept. With
            True, a row stops when K sequences have finished. With False, it stops when no open
            beam, at its current length, has a better score than the K-th best finished sequence.
            With "never", it stops when no open beam can reach a better score at any length. With
            `num_beams=1`, all values work like None.
        min_length: Minimum number of new tokens, including the end token; an integer, or a tensor
            `()` or `(B,)`. Above 0, it requires an `end_id`.
        pad_id: Id of the padding after the end; it may be `end_id`.
        suppressed_ids: Ids of tokens that are never generated.
        no_repeat_ngram_size: Size n of the n-grams that may not repeat, in prompt and new tokens
            together; 0 allows all. If no other token is left, n-grams may repeat.
        forced_first_id: Id of the first new token, such as a language mark, or None.
        forced_last_id: Id of the token at the maximum length, usually `end_id`, or None.
        beginning: Given first new tokens of each row, int32 `(B, G)`, after `forced_first_id`.
        beginning_mask: `(B, G)`, True for tokens, with padding on the right; all if None.
        renormalize: Whether probabilities are renormalized over the allowed tokens, as in
            CTranslate2 and with `renormalize_logits` in transformers. By default, scores are based
            on the model's log-probabilities.

    Returns:
        A `Generation` with shapes `(B, R, max_length)` and `(B, R)`, the best sequences first.
        Forced and given tokens count 0 in the scores, and the tokens of `beginning` do not count in
        the length penalty.

    Raises:
        ValueError: If a length or count is out of range, a tensor has the wrong shape or dtype,
            `min_length` is given without `end_id` or `beginning_mask` without `beginning`, prompt
            and new tokens exceed the decoder's positions, an id is outside the vocabulary,
            `suppressed_ids` leave no possible token, or `length_penalty_kind` or `early_stopping`
            is unknown.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=20, dim=8)
    >>> stack = TransformerDecoder(num_layers=1, num_heads=2, intermediate_dim=16)
    >>> stack.build((None, None, 8))
    >>> decoder = TokenDecoder(embedding, PositionalEncoding(), stack)
    >>> best = beam_search(decoder, ops.array([[1]]), num_beams=3, max_length=5, end_id=2)
    >>> tuple(best.tokens.shape), tuple(best.scores.shape)
    ((1, 1, 5), (1, 1))
    """
    integer("no_repeat_ngram_size", no_repeat_ngram_size, 0)
    max_length, min_length = checked_lengths(max_length, min_length, end_id)
    K = integer("num_beams", num_beams, 1)
    R = integer("num_return_sequences", num_return_sequences, 1)
    if R > K:
        raise ValueError(
            "`num_return_sequences` must be at most `num_beams`. "
            f"Received: num_return_sequences={R}, num_beams={K}."
        )
    check_ranking(length_penalty_kind, early_stopping)
    decoder, logits, state, lengths = prefilled(
        decoder, prompt, prompt_mask, memory, memory_mask, max_length, K
    )
    limits = row_limits(decoder, max_lengths, max_length, lengths)
    past = History(prompt, prompt_mask, logits, 1.0, no_repeat_ngram_size)
    rules = TokenRules(
        logits.shape[-1],
        end_id,
        pad_id,
        min_length,
        suppressed_ids,
        limits=limits,
        forced_first_id=forced_first_id,
        forced_last_id=forced_last_id,
        beginning=beginning,
        beginning_mask=beginning_mask,
        past=past,
        lengths=lengths,
    )
    of_beams = rules.of_beams(K)
    beam_lengths = ops.repeat(lengths, K, axis=0)
    rows = ops.cumsum(ops.ones_like(lengths)) - 1
    first_of_row = ops.expand_dims(rows * K, 1)
    search = Beams(
        num_beams=K,
        returned=R,
        vocabulary=logits.shape[-1],
        limits=ops.expand_dims(limits, 1),
        slots=ops.reshape(ops.arange(max_length, dtype="int32"), (1, 1, -1)),
        ranking=Ranking.of(alpha, length_penalty_kind, rules.given),
        end_id=end_id,
        pad_id=pad_id,
        early_stopping=early_stopping,
    )

    def extended(
        step: Size, history: dict[str, Tensor], token: Tensor, parent: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """The history of the chosen beams, and the rows that they continue."""
        rows = ops.reshape(first_of_row + parent, (-1,))
        history = {name: ops.take(x, rows, axis=0) for name, x in history.items()}
        return past.extended(history, ops.reshape(token, (-1,)), beam_lengths + step), rows

    def body(
        step: Tensor,
        token: Tensor,
        beams: Generation,
        best: Generation,
        over: Tensor,
        history: dict[str, Tensor],
        state: Nest,
    ):
        positions = within_room(decoder, beam_lengths + step)
        logits, state = decoder.step(ops.reshape(token, (-1,)), positions, state)
        allowed = of_beams.allowed(logits, step + 1, history)
        following = search.following(allowed, allowed if renormalize else logits)
        logp, tokens = (ops.reshape(x, (-1, K, search.most)) for x in following)
        token, beams, best, over, parent = search.choose(step + 1, logp, tokens, beams, best, over)
        history, rows = extended(step + 1, history, token, parent)
        return step + 1, token, beams, best, over, history, reorder(decoder, state, rows)

    def going(
        step: Tensor,
        token: Tensor,
        beams: Generation,
        best: Generation,
        over: Tensor,
        history: dict[str, Tensor],
        state: Nest,
    ) -> Tensor:
        return ops.logical_and(step + 1 < max_length, ops.logical_not(ops.all(over)))

    # The first step has one possible beam; the other K - 1 are impossible.
    history = past.start(max_length)
    allowed = rules.allowed(logits, 0, history)
    of_first = search.following(allowed, allowed if renormalize else logits)
    logp, tokens = (ops.repeat(ops.expand_dims(x, 1), K, axis=1) for x in of_first)
    token, *kept, parent = search.choose(0, logp, tokens, *search.begin())
    history, _ = extended(0, repeat_rows(history, K), token, parent)
    first = ops.convert_to_tensor(0, "int32")
    loop = (first, token, *kept, history, repeat(decoder, state, K))
    _, _, _, best, *_ = ops.while_loop(going, body, loop)
    return search.result(best)
