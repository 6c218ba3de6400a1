"""Sampling as one loop in one graph, with filters of the distribution."""

import math
from collections.abc import Sequence
from typing import Any

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
    token_rules,
)
from keras_attn.generation.noise import row_seeds, uniform_noise
from keras_attn.generation.repetition import History
from keras_attn.ops.masks import token_mask

Tensor = Any


def check_sampling(
    temperature: Any = 1.0,
    top_k: Any = None,
    top_p: Any = None,
    min_p: Any = None,
    repetition_penalty: Any = 1.0,
    no_repeat_ngram_size: Any = 0,
) -> None:
    """Raises a ValueError where a setting of `sample` is out of its range.

    Args:
        temperature: Above 0.
        top_k: Integer of at least 1, or None.
        top_p: Above 0 and at most 1, or None.
        min_p: At least 0 and below 1, or None.
        repetition_penalty: Above 0.
        no_repeat_ngram_size: Integer of at least 0.

    Example:

    >>> check_sampling(temperature=0)
    Traceback (most recent call last):
        ...
    ValueError: `temperature` must be a finite number above 0. Received: 0. For the most probable \
token use `greedy_search`, or `top_k=1`.
    """

    def is_number(value):
        is_real = isinstance(value, int | float) and not isinstance(value, bool)
        return is_real and math.isfinite(value)

    if not is_number(temperature) or not temperature > 0:
        raise ValueError(
            f"`temperature` must be a finite number above 0. Received: {temperature!r}. For the "
            "most probable token use `greedy_search`, or `top_k=1`."
        )
    if not is_number(repetition_penalty) or not repetition_penalty > 0:
        raise ValueError(
            "`repetition_penalty` must be a finite number above 0; 1: none. "
            f"Received: {repetition_penalty!r}."
        )
    if top_k is not None:
        integer("top_k", top_k, 1)
    if top_p is not None and not (is_number(top_p) and 0 < top_p <= 1):
        raise ValueError(f"`top_p` must be above 0 and at most 1, or None. Received: {top_p!r}.")
    if min_p is not None and not (is_number(min_p) and 0 <= min_p < 1):
        raise ValueError(f"`min_p` must be at least 0 and below 1, or None. Received: {min_p!r}.")
    integer("no_repeat_ngram_size", no_repeat_ngram_size, 0)


def filter_logits(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Tensor:
    """Sharpens logits and takes unlikely tokens away, one filter after the other.

        x    = (logits - max(logits)) / temperature
        top_k: keep x_i >= the k-th greatest                        Fan et al., 2018
        top_p: keep the smallest set with probability >= p          Holtzman et al., 2020
        min_p: keep p_i >= min_p * max(p)                           Nguyen et al., 2024

    p is the softmax of what the filters before have left, as in `transformers`. Of equal logits
    all are kept or none, so that no token comes before another by its number. At least one token is
    always left.

    Args:
        logits: `(..., V)`; -inf where a token must not come.
        temperature: Above 0; below 1 sharpens, above 1 flattens.
        top_k: Number k of tokens, or None.
        top_p: Probability p, or None. 1 keeps all.
        min_p: Share of the greatest probability, or None.

    Returns:
        float32 tensor of the same shape; the greatest value is 0, and -inf was taken away.

    Example:

    >>> kept = filter_logits(ops.log(ops.array([0.5, 0.3, 0.15, 0.05])), top_p=0.7)
    >>> [round(float(p), 3) for p in ops.softmax(kept)]
    [0.625, 0.375, 0.0, 0.0]
    """
    x = ops.cast(logits, "float32")
    x = (x - ops.max(x, axis=-1, keepdims=True)) / temperature
    if top_k is not None and top_k < x.shape[-1]:
        least = ops.top_k(x, top_k)[0][..., -1:]
        x = ops.where(x < least, IMPOSSIBLE, x)
    if top_p is not None and top_p < 1:
        descending = ops.flip(ops.sort(x, axis=-1), axis=-1)
        p = ops.softmax(descending, axis=-1)
        before = ops.cumsum(p, axis=-1) - p
        # The first is always kept: nothing is before it.
        least = ops.min(ops.where(before < top_p, descending, 0.0), axis=-1, keepdims=True)
        x = ops.where(x < least, IMPOSSIBLE, x)
    if min_p is not None and min_p > 0:
        x = ops.where(x < math.log(min_p), IMPOSSIBLE, x)  # the greatest is 0
    return x


def draw(logits: Tensor, noise: Tensor) -> Tensor:
    """Draws a token from each row of logits, by the inverse of the distribution function.

        token = the first i with sum_{j <= i} p_j > u,  p = softmax(logits)

    Args:
        logits: float32 `(B, V)`; what is -inf never comes.
        noise: float32 `(B,)`: u, above 0 and below 1.

    Returns:
        int32 `(B,)`.

    Example:

    >>> logits = ops.log(ops.array([[0.5, 0.3, 0.2]] * 3))
    >>> [int(i) for i in draw(logits, ops.array([0.4, 0.7, 0.9]))]
    [0, 1, 2]
    """
    total = ops.cumsum(ops.softmax(logits, axis=-1), axis=-1)
    possible = logits > IMPOSSIBLE
    # A parallel sum may round a step of zero up: what is impossible is not taken for it.
    above = total > ops.expand_dims(noise, -1) * total[..., -1:]
    above = ops.logical_and(above, possible)
    ids = ops.cumsum(ops.ones_like(logits, dtype="int32"), axis=-1) - 1
    size = logits.shape[-1]
    first = ops.min(ops.where(above, ids, size), axis=-1)
    last = ops.max(ops.where(possible, ids, 0), axis=-1)
    return ops.minimum(first, last)


def sample(
    decoder: Decoder,
    prompt: Tensor,
    prompt_mask: Tensor | None = None,
    memory: Tensor | None = None,
    memory_mask: Tensor | None = None,
    *,
    max_length: Any,
    end_id: int | None,
    seed: Any,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    no_repeat_ngram_size: int = 0,
    max_lengths: Tensor | None = None,
    min_length: int = 0,
    pad_id: int = 0,
    suppressed_ids: Sequence[int] = (),
) -> Generation:
    """Draws each token at random from the decoder's distribution, or from what filters leave of it.

    At each step, in the order of `transformers`:

        z     = logits;  for tokens that were there: z / r where z > 0, z * r where not
        z     = -inf for tokens that would repeat an n-gram, and for those that must not come
        p     = softmax(filter_logits(z, temperature, top_k, top_p, min_p))
        token = the first i with sum_{j <= i} p_j > u(seed of the row, step)

    The random number u is `uniform_noise`: a hash of the row's seed and the step. So a row's tokens
    do not depend on the batch it is in, and the same seeds give the same tokens eagerly, in a
    `tf.function`, under `jax.jit`, on PyTorch and in a SavedModel, but for logits that differ in
    their last bits where u falls between two tokens.

    References:
        - [Keskar et al., 2019](https://arxiv.org/abs/1909.05858): the repetition penalty r (CTRL).
        - [Paulus et al., 2017](https://arxiv.org/abs/1705.04304): no n-gram twice.
        - [Fan et al., 2018](https://arxiv.org/abs/1805.04833): top-k.
        - [Holtzman et al., 2020](https://arxiv.org/abs/1904.09751): top-p, "nucleus sampling".
        - [Nguyen et al., 2024](https://arxiv.org/abs/2407.01082): min-p.

    Args:
        decoder: Any object with `prefill` and `step`.
        prompt: Ids `(B, P)`.
        prompt_mask: `(B, P)`, True for tokens, at least one a row; all if None.
        memory: `(B, S, Dm)` for the cross-attention, or None.
        memory_mask: `(B, S)`, or None.
        max_length: Most new tokens, the end token included; an integer, or a tensor in a graph.
        end_id: The token that ends a sequence; None: sequences end at their greatest length.
        seed: Integer from 0 to 2^31 - 1: row i gets `row_seeds(seed, [i])`; or int32 `(B,)`: the
            rows' seeds.
        temperature: What logits are divided by, above 0.
        top_k: Number of most probable tokens that are kept; None: all.
        top_p: Probability of the smallest set of tokens that is kept; None: all.
        min_p: Tokens are kept whose probability is this share of the greatest; None: all.
        repetition_penalty: r; above 1 makes tokens of the prompt and new ones rarer, 1: none.
        no_repeat_ngram_size: n: no n tokens come a second time in a row, those of the prompt
            included; 0: any may. Where nothing else is left, they come all the same.
        max_lengths: int32 `(B,)`: most new tokens of each row, 1 to `max_length`; `max_length` for
            all if None.
        min_length: Minimum number of new tokens, with the end token.
        pad_id: What follows the end; it may be `end_id`.
        suppressed_ids: Ids of tokens that are never generated.

    Returns:
        `Generation` of shapes `(B, max_length)` and `(B,)`. `scores` are sums of the decoder's own
        log-probabilities of the tokens, before all penalties and filters.

    Raises:
        ValueError: For settings out of range, lengths that do not fit, or ids outside of the
            vocabulary.

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
    max_length, min_length = checked_lengths(max_length, min_length)
    if end_id is None and min_length:
        raise ValueError(
            "`min_length` keeps the end token away, and there is none. Received: "
            f"min_length={min_length}, end_id=None. Leave one of them out."
        )
    decoder, logits, state, lengths = prefilled(
        decoder, prompt, prompt_mask, memory, memory_mask, max_length
    )
    allowed = token_rules(logits.shape[-1], end_id, pad_id, min_length, suppressed_ids)
    limits = row_limits(max_lengths, max_length, lengths)
    seeds = row_seeds(seed, ops.cumsum(ops.ones_like(lengths)) - 1)
    prompt = ops.convert_to_tensor(prompt)
    past = History(
        prompt, token_mask(prompt, prompt_mask), logits, repetition_penalty, no_repeat_ngram_size
    )

    def choose(step, logits, history):
        logits = ops.cast(logits, "float32")
        logp = allowed(logits, step) - log_total(logits)
        possible = logp > IMPOSSIBLE
        z = ops.where(possible, past.penalized(logits, history), IMPOSSIBLE)
        repeats = past.repeats(history, lengths + step)
        if repeats is not None:
            free = ops.logical_and(possible, ops.logical_not(repeats))
            free = ops.where(ops.any(free, axis=-1, keepdims=True), free, possible)
            z = ops.where(free, z, IMPOSSIBLE)
        token = draw(filter_logits(z, temperature, top_k, top_p, min_p), uniform_noise(seeds, step))
        logp = ops.take_along_axis(logp, ops.expand_dims(token, -1), axis=-1)[:, 0]
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
