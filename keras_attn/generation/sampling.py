"""Sampling from filtered distributions, as one loop in one graph."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from keras import ops

from keras_attn.generation.decoders import Decoder, integer
from keras_attn.generation.loops import (
    IMPOSSIBLE,
    Generation,
    checked_lengths,
    decode_rows,
    log_total,
    prefilled,
    row_limits,
)
from keras_attn.generation.noise import row_seeds, uniform_noise
from keras_attn.generation.numbers import is_tensor, of_rows, values_of
from keras_attn.generation.repetition import History
from keras_attn.generation.rules import TokenRules
from keras_attn.hints import Size, Tensor, TensorLike

LEAST, GREATEST = 1e-30, 1e30
"""Range of temperatures and of repetition penalties, whose quotients are computed in float32."""


SAMPLING = (
    "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "no_repeat_ngram_size",
)  # fmt: skip
"""The settings that `check_sampling` checks."""


def check_sampling(
    temperature: float | Tensor = 1.0,
    top_k: int | Tensor | None = None,
    top_p: float | Tensor | None = None,
    min_p: float | Tensor | None = None,
    repetition_penalty: float | Tensor = 1.0,
    no_repeat_ngram_size: int = 0,
) -> None:
    """Raises a ValueError if a setting of `sample` is out of range.

    The values of tensors are only checked if they are known, which is not the case in a graph.
    """

    def is_number(value: object) -> bool:
        is_real = isinstance(value, int | float) and not isinstance(value, bool)
        return is_real and math.isfinite(cast(float, value))

    for value in values_of(temperature):
        if not is_number(value) or not LEAST <= value <= GREATEST:
            raise ValueError(
                f"`temperature` must be a number of at least {LEAST:g} and at most {GREATEST:g}. "
                f"Received: {value!r}. To take the most probable token, use `greedy_search`, "
                "or a beam of 1."
            )
    for value in values_of(repetition_penalty):
        if not is_number(value) or not LEAST <= value <= GREATEST:
            raise ValueError(
                f"`repetition_penalty` must be a number of at least {LEAST:g} and at most "
                f"{GREATEST:g}; 1 means no penalty. Received: {value!r}."
            )
    if top_k is not None:
        for value in values_of(top_k):
            integer("top_k", value, 0 if is_tensor(top_k) else 1)
    for value in () if top_p is None else values_of(top_p):
        if not (is_number(value) and 0 < value <= 1):
            raise ValueError(
                f"`top_p` must be above 0 and at most 1, or None. Received: {value!r}."
            )
    for value in () if min_p is None else values_of(min_p):
        if not (is_number(value) and 0 <= value < 1):
            raise ValueError(
                f"`min_p` must be at least 0 and below 1, or None. Received: {value!r}."
            )
    integer("no_repeat_ngram_size", no_repeat_ngram_size, 0)


def filter_logits(
    logits: Tensor,
    temperature: float | Tensor = 1.0,
    top_k: int | Tensor | None = None,
    top_p: float | Tensor | None = None,
    min_p: float | Tensor | None = None,
    largest_top_k: int | None = None,
) -> Tensor:
    """Divides logits by the temperature, and removes unlikely tokens by a sequence of filters.

        x    = (logits - max(logits)) / temperature
        top_k: keep x_i >= the k-th greatest                        Fan et al., 2018
        top_p: keep the smallest set with probability >= p          Holtzman et al., 2020
        min_p: keep p_i >= min_p * max(p)                           Nguyen et al., 2024

    p is the softmax over the tokens that earlier filters have kept, as in `transformers`. Equal
    logits are all kept or all removed, so that the order of ids makes no difference. At least one
    token is always kept.

    For logits `(B, V)`, each setting may be a tensor `()` or `(B,)`, so that one compiled function
    works for all values.
    """
    x = ops.cast(logits, "float32")
    x = (x - ops.max(x, axis=-1, keepdims=True)) / of_rows("temperature", temperature)
    if is_tensor(top_k):
        k = of_rows("top_k", top_k) + ops.zeros_like(x[..., :1], dtype="int32")
        if largest_top_k is None:
            p = of_rows("top_p", 1.0 if top_p is None else top_p)
            needed = ops.logical_or(ops.any(k > 0), ops.any(ops.less(p, 1.0)))
            x = ops.cond(needed, lambda: _most_probable(x, k, p), lambda: x)
            top_p = None
        else:
            x = ops.where(
                x < _kth(ops.top_k(x, min(largest_top_k, x.shape[-1]))[0], k), IMPOSSIBLE, x
            )
    elif top_k is not None and top_k < x.shape[-1]:
        least = ops.top_k(x, top_k)[0][..., -1:]
        x = ops.where(x < least, IMPOSSIBLE, x)
    if is_tensor(top_p) or (top_p is not None and top_p < 1):
        x = _most_probable(x, None, of_rows("top_p", top_p))
    if is_tensor(min_p):
        x = ops.where(x < ops.log(of_rows("min_p", min_p)), IMPOSSIBLE, x)  # the greatest is 0
    elif min_p is not None and min_p > 0:
        x = ops.where(x < math.log(min_p), IMPOSSIBLE, x)
    return x


def _kth(descending: Tensor, k: Tensor) -> Tensor:
    """The k-th greatest entry of each row, `(B, 1)`; -inf where k is 0."""
    least = ops.take_along_axis(descending, ops.clip(k, 1, descending.shape[-1]) - 1, axis=-1)
    return ops.where(k > 0, least, IMPOSSIBLE)


def _most_probable(x: Tensor, k: Tensor | None, p: float | Tensor) -> Tensor:
    """Applies `top_k` (if it is given) and `top_p` by one sort of each row."""
    descending = ops.flip(ops.sort(x, axis=-1), axis=-1)
    least: float | Tensor = IMPOSSIBLE
    if k is not None:
        least = _kth(descending, k)
        descending = ops.where(descending < least, IMPOSSIBLE, descending)
    probabilities = ops.softmax(descending, axis=-1)
    before = ops.cumsum(probabilities, axis=-1) - probabilities
    # The first is always kept, since `before` is 0. Rounding may bring `before` to 1.
    kept = ops.logical_or(before < p, ops.greater_equal(p, 1.0))
    lowest = ops.min(ops.where(kept, descending, 0.0), axis=-1, keepdims=True)
    return ops.where(x < ops.maximum(lowest, least), IMPOSSIBLE, x)


def draw(logits: Tensor, noise: Tensor) -> Tensor:
    """Draws a token from each row of logits `(B, V)` by inverse transform sampling.

        token = the first i with sum_{j <= i} p_j > u,  p = softmax(logits)

    The random numbers u are `noise (B,)`, above 0 and below 1. Tokens with a logit of -inf are
    never drawn.
    """
    total = ops.cumsum(ops.softmax(logits, axis=-1), axis=-1)
    possible = logits > IMPOSSIBLE
    # A parallel sum may round a step of zero up, so check for impossible tokens.
    above = total > ops.expand_dims(noise, -1) * total[..., -1:]
    above = ops.logical_and(above, possible)
    ids = ops.cumsum(ops.ones_like(logits, dtype="int32"), axis=-1) - 1
    size = logits.shape[-1]
    first = ops.min(ops.where(above, ids, size), axis=-1)
    last = ops.max(ops.where(possible, ids, 0), axis=-1)
    return ops.minimum(first, last)


def chooser(
    allowed: Callable[[Tensor, Any, Any], Tensor],
    past: History,
    seeds: Tensor,
    lengths: Tensor,
    filters: Mapping[str, Any],
) -> Callable[[Any, Tensor, Any], tuple[Tensor, Tensor, Any]]:
    """Returns the `choose` function for `decode_rows` that draws the tokens of `sample`."""

    def choose(step: Size, logits: Tensor, history: dict[str, Tensor]):
        logits = ops.cast(logits, "float32")
        logp = allowed(logits, step, history) - log_total(logits)
        z = ops.where(logp > IMPOSSIBLE, past.penalized(logits, history), IMPOSSIBLE)
        token = draw(filter_logits(z, **filters), uniform_noise(seeds, step))
        logp = ops.take_along_axis(logp, ops.expand_dims(token, -1), axis=-1)[:, 0]
        return token, logp, past.extended(history, token, lengths + step)

    return choose


def sample(
    decoder: Decoder,
    prompt: Tensor,
    prompt_mask: Tensor | None = None,
    memory: Tensor | None = None,
    memory_mask: Tensor | None = None,
    *,
    max_length: Size,
    end_id: int | Sequence[int] | None,
    seed: TensorLike,
    temperature: float | Tensor = 1.0,
    top_k: int | Tensor | None = None,
    top_p: float | Tensor | None = None,
    min_p: float | Tensor | None = None,
    repetition_penalty: float | Tensor = 1.0,
    no_repeat_ngram_size: int = 0,
    max_lengths: Tensor | None = None,
    min_length: int | Tensor = 0,
    pad_id: int = 0,
    suppressed_ids: Sequence[int] = (),
    forced_first_id: int | None = None,
    forced_last_id: int | None = None,
    beginning: Tensor | None = None,
    beginning_mask: Tensor | None = None,
    largest_top_k: int | None = None,
) -> Generation:
    """Draws each token at random from the filtered distribution of the decoder.

    At each step, in the order of `transformers`:

        z     = logits;  for tokens of the history: z / r if z >= 0, else z * r
        z     = -inf for tokens that would repeat an n-gram, and for forbidden tokens
        p     = softmax(filter_logits(z, temperature, top_k, top_p, min_p))
        token = the first i with sum_{j <= i} p_j > u(seed of the row, step)

    The random number u is `uniform_noise`, a hash of the row's seed and the step. Therefore the
    tokens of a row do not depend on its batch, and the same seeds give the same tokens eagerly, in
    a `tf.function`, under `jax.jit`, on PyTorch and in a SavedModel. The only exception is a number
    u so close to the border of two tokens that rounding errors of the logits decide.

    The settings `temperature`, `top_k`, `top_p`, `min_p`, `repetition_penalty` and `min_length` may
    be tensors `()`, or `(B,)` with a number for each row. As inputs of a compiled function, they do
    not cause it to be compiled again.

    References:
        - [Keskar et al., 2019](https://arxiv.org/abs/1909.05858): the repetition penalty r (CTRL).
        - [Paulus et al., 2017](https://arxiv.org/abs/1705.04304): no repeated n-grams.
        - [Fan et al., 2018](https://arxiv.org/abs/1805.04833): top-k.
        - [Holtzman et al., 2020](https://arxiv.org/abs/1904.09751): top-p, "nucleus sampling".
        - [Nguyen et al., 2024](https://arxiv.org/abs/2407.01082): min-p.

    Args:
        decoder: Any object with `prefill` and `step`.
        prompt: Ids `(B, P)`.
        prompt_mask: `(B, P)`, True for tokens, at least one per row; all if None.
        memory: Source states for cross-attention, `(B, S, Dm)`, or None.
        memory_mask: `(B, S)`, True for tokens of the memory; all if None.
        max_length: Maximum number of new tokens, including the end token; an integer, or a tensor
            in a graph.
        end_id: Id of the token that ends a sequence, or a list of several end ids. With None,
            sequences end at their maximum length.
        seed: Integer from 0 to 2^31 - 1, from which row i gets the seed `row_seeds(seed, [i])`; or
            the seeds of all rows, int32 `(B,)`.
        temperature: Divisor of the logits, above 0.
        top_k: Number of most probable tokens to keep; all if it is None, or 0 in a tensor.
        top_p: Probability of the smallest set of tokens that is kept; all if None.
        min_p: Minimum probability of a kept token, relative to the largest probability; all if
            None.
        repetition_penalty: Penalty r; above 1 makes tokens that already occurred less probable, and
            1 has no effect.
        no_repeat_ngram_size: Size n of the n-grams that may not repeat, in prompt and new tokens
            together; 0 allows all. If no other token is left, n-grams may repeat.
        max_lengths: Maximum number of new tokens of each row, int32 `(B,)`, from 1 to `max_length`;
            `max_length` for all rows if None.
        min_length: Minimum number of new tokens, including the end token; above 0, it requires an
            `end_id`.
        pad_id: Id of the padding after the end; it may be `end_id`.
        suppressed_ids: Ids of tokens that are never generated.
        forced_first_id: Id of the first new token, such as a language mark, or None.
        forced_last_id: Id of the token at the maximum length, usually `end_id`, or None.
        beginning: Given first new tokens of each row, int32 `(B, G)`, after `forced_first_id`.
        beginning_mask: `(B, G)`, True for tokens, with padding on the right; all if None.
        largest_top_k: Upper limit of a tensor `top_k`; without it, the whole vocabulary is sorted
            at each step.

    Returns:
        A `Generation` with shapes `(B, max_length)` and `(B,)`. `scores` are sums of the decoder's
        log-probabilities of the tokens, before penalties and filters; forced and given tokens
        count 0.

    Raises:
        ValueError: If a setting is out of range, a tensor has the wrong shape or dtype,
            `min_length` is given without `end_id`, or `beginning_mask` without `beginning`, prompt
            and new tokens exceed the decoder's positions, an id is outside the vocabulary, or
            `suppressed_ids` leave no possible token.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=20, dim=8)
    >>> stack = TransformerDecoder(num_layers=1, num_heads=2, intermediate_dim=16)
    >>> stack.build((None, None, 8))
    >>> decoder = TokenDecoder(embedding, PositionalEncoding(), stack)
    >>> prompt = ops.array([[1], [1]])
    >>> first = sample(decoder, prompt, max_length=5, end_id=None, seed=7, top_p=0.9)
    >>> again = sample(decoder, prompt, max_length=5, end_id=None, seed=7, top_p=0.9)
    >>> bool(ops.all(first.tokens == again.tokens))
    True
    """
    check_sampling(temperature, top_k, top_p, min_p, repetition_penalty, no_repeat_ngram_size)
    max_length, min_length = checked_lengths(max_length, min_length, end_id)
    decoder, logits, state, lengths = prefilled(
        decoder, prompt, prompt_mask, memory, memory_mask, max_length
    )
    limits = row_limits(decoder, max_lengths, max_length, lengths)
    seeds = row_seeds(seed, ops.cumsum(ops.ones_like(lengths)) - 1)
    past = History(prompt, prompt_mask, logits, repetition_penalty, no_repeat_ngram_size)
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
    choose = chooser(
        rules.allowed,
        past,
        seeds,
        lengths,
        {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "largest_top_k": largest_top_k,
        },
    )
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
