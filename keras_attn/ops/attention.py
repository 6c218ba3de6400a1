"""Attention functions on tensors."""

import math
from typing import Any

from keras import ops

from keras_attn.hints import Seed, Tensor
from keras_attn.ops.attention_kernels import (
    Call,
    check_call,
    check_kernel,
    choose,
    conjunction,
    options_of,
    perhaps_right_padding,
    split_bias,
)
from keras_attn.ops.cheap_dropout import dropout as random_dropout
from keras_attn.ops.chunked_attention import chunked_attention
from keras_attn.ops.flash_attention import flash_attention, flash_if_right_padded
from keras_attn.ops.masks import MASKED, as_boolean_mask, static_shape
from keras_attn.ops.precision import wide_dtype
from keras_attn.ops.score_options import MaskMod, ScoreMod, pair_positions


def masked_softmax(
    scores: Tensor, mask: Tensor | None = None, sinks: Tensor | None = None
) -> Tensor:
    """Computes a softmax in float32 or better over the visible entries of the last axis.

        weights[s] = mask[s] exp(scores[s]) / (exp(sink) + sum_r mask[r] exp(scores[r]))

    Without sinks, exp(sink) is 0. With sinks, the weights sum to less than 1. A row without visible
    entries gives zeros (neither NaN nor uniform weights), with zero gradients.

    Args:
        scores: Scores `(..., S)`.
        mask: Boolean or 0/1 integer tensor that broadcasts to `scores`, True for visible entries;
            all are visible if None.
        sinks: Logits that broadcast to `(..., 1)`, one for each row; none if None.

    Returns:
        The weights `(..., S)` in float32, or in float64 for float64 scores.

    Raises:
        ValueError: If the dtype of the mask is neither boolean nor integer, or a mask that is a
            NumPy array or a list has an integer other than 0 and 1.

    Example:

    >>> mask = ops.array([True, True, False])
    >>> ops.convert_to_numpy(masked_softmax(ops.zeros((3,)), mask)).tolist()
    [0.5, 0.5, 0.0]
    """
    mask = None if mask is None else as_boolean_mask(mask)
    if ops.dtype(scores) == "float16":
        # A product that overflowed in float16 saturates, instead of giving inf - inf.
        scores = ops.clip(ops.cast(scores, "float32"), -65504.0, 65504.0)
    scores = ops.cast(scores, wide_dtype(scores))
    # ops.softmax warns about an axis of size 1. PyTorch's tracer may see 1 for any size.
    if sinks is not None:
        weights = _softmax_with_sinks(scores, mask, ops.cast(sinks, scores.dtype))
    elif static_shape(scores)[-1] == 1:
        weights = ops.ones_like(scores)
    else:
        weights = ops.softmax(scores if mask is None else ops.where(mask, scores, MASKED), axis=-1)
    if mask is None:
        return weights
    return weights * ops.cast(ops.any(mask, axis=-1, keepdims=True), weights.dtype)


def _softmax_with_sinks(scores: Tensor, mask: Tensor | None, sinks: Tensor) -> Tensor:
    scores = scores if mask is None else ops.where(mask, scores, MASKED)
    largest = ops.max(scores, axis=-1, keepdims=True, initial=MASKED)  # there may be no key
    largest = ops.stop_gradient(ops.maximum(largest, sinks))
    exponentials = ops.exp(scores - largest)
    total = ops.sum(exponentials, axis=-1, keepdims=True) + ops.exp(sinks - largest)
    return exponentials / total


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    use_causal_mask: bool = False,
    dropout: float = 0.0,
    seed: Seed = None,
    return_attention_scores: bool = False,
    kernel: str = "auto",
    key_lengths: Tensor | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    sink_tokens: int = 0,
    score_mod: ScoreMod | None = None,
    mask_mod: MaskMod | None = None,
    query_positions: Tensor | None = None,
    key_positions: Tensor | None = None,
) -> Any:
    """Computes scaled dot-product attention (Vaswani et al., 2017), with grouped key/value heads.

        scores  = scale * query key^T + bias          (B, N, T, S)
        weights = softmax(scores where mask)          (B, N, T, S)
        context = weights value                       (B, T, N, Hv)

    Shapes: B batch, T queries, S keys, N query heads, K key/value heads, H head width. Query head n
    reads key/value head `n // (N // K)` (Ainslie et al., 2023). K = N is multi-head attention,
    K = 1 multi-query attention. Shared heads are not repeated in memory.

    Masking: a query that sees no key has zero weights and a zero context, with finite gradients, in
    every dtype. Causal masks and windows are aligned bottom-right (`causal_mask`). An entry -inf of
    `bias` hides the key. The softmax is computed in float32 or better.

    Score options: the options below change scores in this order, in float32 or better, except that
    the kernel "flash" rounds `bias` to the dtype of `query`:

        scores = softcap * tanh(scores / softcap)                    (Gemma Team, 2024)
        scores = scores + bias
        scores = score_mod(scores, head, query, key)                 (Dong et al., 2024)
        weights[s] = exp(scores[s]) / (exp(sinks[n]) + sum_r exp(scores[r]))

    `sinks` are learned logits, one for each head, in the denominator of the softmax (OpenAI, 2025),
    so that the weights of a query sum to less than 1. `sink_tokens` is unrelated to `sinks`: it is
    the number of first keys that `sliding_window` does not hide (Xiao et al., 2024). `score_mod`
    and `mask_mod` receive the indices of heads `(1, N, 1, 1)`, the positions of queries `(b, 1, T,
    1)` and the positions of keys `(b, 1, 1, S)`, with b = 1 or B, all int32, for all query-key
    pairs or for a chunk of pairs. Write these functions with `keras.ops`. They must treat each pair
    independently, and `score_mod` must also return finite numbers for hidden pairs. Gradients pass
    through `score_mod`; model weights that it reads get gradients only with the kernel "plain".

    Kernels: `kernel="plain"` computes the formula directly and keeps all weights, `B N T S`
    numbers. "chunked" stores only the weights of one chunk of at most 512 queries and 512 keys, and
    recomputes weights for the gradient, so that it needs memory linear in the length. "flash" is
    the fused kernel of the backend: cuDNN on JAX, or PyTorch's own kernel; TensorFlow has none. The
    results of all kernels agree within the precision of the dtype. Only "plain" supports second
    derivatives. `kernel="auto"` uses the result of `choose_attention_kernel`.

    Args:
        query: Queries `(B, T, N, H)`.
        key: Keys `(B, S, K, H)`, K divides N.
        value: Values `(B, S, K, Hv)`.
        mask: Boolean or 0/1 integers that broadcast to `(B, N, T, S)`, True for keys that may be
            attended; all keys if None.
        bias: Floats that broadcast to `(B, N, T, S)`, added to the scaled scores; none if None.
        scale: Factor of the product; `1 / sqrt(H)` if None.
        use_causal_mask: Whether later keys are hidden from earlier queries.
        dropout: Dropout rate of the attention weights; 0 outside of training. Only `kernel="plain"`
            supports dropout.
        seed: Integer or `keras.random.SeedGenerator` for the dropout.
        return_attention_scores: Whether to also return the weights (before dropout). Only
            `kernel="plain"` supports returned weights.
        kernel: Name of the kernel: "auto", "plain", "chunked" or "flash".
        key_lengths: Integers `(B,)`, the number of visible keys of each row; all keys if None.
            `key_lengths` replaces a mask of right padding, and cuDNN accepts the lengths directly.
        sliding_window: Distance from which keys are hidden: a query sees at most `sliding_window`
            keys up to its own position and, without a causal mask, `sliding_window - 1` keys after
            it. No limit if None.
        softcap: Limit of the scaled products, by a hyperbolic tangent; none if None.
        sinks: Floats `(N,)`: additional logits in the denominator; none if None.
        sink_tokens: Number of first keys that `sliding_window` does not hide.
        score_mod: Function `(scores, head, query, key) -> scores`. It receives and returns scores
            `(B, N, t, s)` of all queries and keys or of a chunk, in float32 or float64.
        mask_mod: Function `(head, query, key) -> visible`. It returns booleans of rank 4 that
            broadcast to `(B, N, t, s)`, True where a key may be attended.
        query_positions: Positions of the queries for `score_mod` and `mask_mod`, integers
            `(1 or B, T)`; `S - T ... S - 1` if None.
        key_positions: Positions of the keys for `score_mod` and `mask_mod`, integers
            `(1 or B, S)`; `0 ... S - 1` if None.

    Returns:
        The context `(B, T, N, Hv)` or, if `return_attention_scores` is True, `(context, weights)`
        with weights `(B, N, T, S)`. All are in the dtype of `value`.

    Raises:
        ValueError: If ranks, widths, lengths or numbers of heads do not match; if an argument is
            out of range or has a wrong shape or dtype, such as a mask of floats; if options
            contradict each other; or if `kernel` is unknown or not available.
        TypeError: If `score_mod` or `mask_mod` cannot be called.

    Example:

    >>> q = ops.ones((2, 5, 8, 4)); kv = ops.ones((2, 7, 2, 4))
    >>> context, weights = dot_product_attention(q, kv, kv, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 5, 8, 4), (2, 8, 5, 7))
    """
    _check(query, key, value)
    check_kernel(kernel)
    call = Call(
        query,
        key,
        value,
        mask,
        bias,
        use_causal_mask,
        key_lengths,
        sliding_window,
        dropout,
        return_attention_scores,
        sink_tokens,
        options_of(softcap, sinks, score_mod, mask_mod, query_positions, key_positions),
    )
    call = check_call(call)
    scale = 1.0 / math.sqrt(query.shape[3]) if scale is None else scale
    if kernel == "auto" and perhaps_right_padding(call):
        other = choose(call)
        return flash_if_right_padded(call, scale, lambda c: _attend(c, other, scale, seed))
    return _attend(call, choose(call, kernel), scale, seed)


def _attend(call: Call, kernel: str, scale: float, seed: Seed) -> Any:
    query, key, value = call[:3]
    if kernel == "plain" or 0 in (*query.shape[:2], key.shape[1]):
        return _plain(call, scale, seed)
    if kernel == "flash":
        return flash_attention(call, scale)
    return chunked_attention(
        query * ops.convert_to_tensor(scale, query.dtype),
        key,
        value,
        call.mask,
        call.bias,
        call.use_causal_mask,
        call.key_lengths,
        call.sliding_window,
        call.sink_tokens,
        call.options,
    )


def _plain(call: Call, scale: float, seed: Seed) -> Any:
    query, key, value = call[:3]
    N, K, H = query.shape[2], key.shape[2], query.shape[3]
    if K != N and 0 in (query.shape[1], key.shape[1]):
        # No backend can infer the batch of an empty tensor; there is nothing to repeat.
        key, value = (ops.repeat(x, N // K, axis=2) for x in (key, value))
        K = N
    T, S = ops.shape(query)[1], ops.shape(key)[1]
    query = query * ops.convert_to_tensor(scale, query.dtype)
    if K == N:
        scores = ops.einsum("btnh,bsnh->bnts", query, key)
    else:
        grouped = ops.reshape(query, (-1, T, K, N // K, H))
        scores = ops.einsum("btkgh,bskh->bkgts", grouped, key)
        scores = ops.reshape(scores, (-1, N, T, S))
    mask, options, sinks = call.whole_mask(), call.options, None
    if options is not None:
        scores = options.capped(scores)
        sinks = options.sink_column(ops.dtype(scores))
    if call.bias is not None:
        dtype = wide_dtype(scores)
        bias, visible = split_bias(call.bias, dtype)
        mask = conjunction(mask, visible)
        scores = ops.cast(scores, dtype) + bias
    if options is not None and options.score_mod is not None:
        scores = options.modified(scores, *pair_positions(query, key, options))
    weights = ops.cast(masked_softmax(scores, mask, sinks), value.dtype)
    kept = random_dropout(weights, call.dropout, seed) if call.dropout else weights
    if K == N:
        context = ops.einsum("bnts,bsnh->btnh", kept, value)
    else:
        kept = ops.reshape(kept, (-1, K, N // K, T, S))
        context = ops.einsum("bkgts,bskh->btkgh", kept, value)
        context = ops.reshape(context, (-1, T, N, value.shape[3]))
    return (context, weights) if call.return_attention_scores else context


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not len(query.shape) == len(key.shape) == len(value.shape) == 4:
        raise ValueError(
            "`query`, `key` and `value` must have shapes (B, T, N, H), (B, S, K, H) and "
            f"(B, S, K, Hv). Received: {shapes}."
        )
    if query.shape[3] != key.shape[3]:
        raise ValueError(f"`query` and `key` must have the same head width H. Received: {shapes}.")
    if key.shape[2] != value.shape[2] or query.shape[2] % key.shape[2]:
        raise ValueError(
            "`key` and `value` must have the same number of heads K, which must divide the "
            f"number of query heads N. Received: {shapes}."
        )
    if None not in (key.shape[1], value.shape[1]) and key.shape[1] != value.shape[1]:
        raise ValueError(f"`key` and `value` must have the same length S. Received: {shapes}.")


def additive_scores(query: Tensor, key: Tensor, scale: Tensor) -> Tensor:
    """Computes additive attention scores of projected queries and keys (Bahdanau et al., 2015).

        scores[t, s] = scale . tanh(query[t] + key[s])        (B, T, S)

    The hidden layer, `tanh(...)`, needs memory for `B * T * S * U` numbers, so use a loop if there
    are many queries, as decoders do. The backward pass recomputes the hidden layer, so that a loop
    of T steps stores only the queries and keys.

    Args:
        query: Projected queries `(B, T, U)`.
        key: Projected keys `(B, S, U)`, in the dtype of `query`.
        scale: Vector `(U,)` that the hidden layer is multiplied by.

    Returns:
        The scores `(B, T, S)` in the dtype of `query`.

    Example:

    >>> scores = additive_scores(ops.zeros((1, 1, 2)), ops.zeros((1, 3, 2)), ops.ones((2,)))
    >>> ops.convert_to_numpy(scores).tolist()
    [[[0.0, 0.0, 0.0]]]
    """
    return _rematerialized_scores(query, key, ops.cast(scale, query.dtype))


def _hidden(query: Tensor, key: Tensor) -> Tensor:
    return ops.tanh(ops.expand_dims(query, 2) + ops.expand_dims(key, 1))


@ops.custom_gradient
def _rematerialized_scores(query: Tensor, key: Tensor, scale: Tensor) -> tuple[Tensor, Any]:
    scores = ops.squeeze(ops.matmul(_hidden(query, key), ops.expand_dims(scale, 1)), axis=-1)

    def gradients(*args, upstream: Tensor | None = None):
        upstream = ops.expand_dims(args[0] if upstream is None else upstream, 3)  # (B, T, S, 1)
        hidden = _hidden(query, key)
        inner = upstream * scale * (1 - ops.square(hidden))  # (B, T, S, U)
        of_scale = ops.sum(upstream * hidden, axis=(0, 1, 2))
        return ops.sum(inner, axis=2), ops.sum(inner, axis=1), of_scale

    return scores, gradients


def additive_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    seed: Seed = None,
    return_attention_scores: bool = False,
) -> Any:
    """Computes additive attention from projected queries and keys (Bahdanau et al., 2015).

        scores       = additive_scores(query, key, scale)       (B, T, S)
        context[t]   = sum_s softmax_s(scores[t]) value[s]      (B, T, D)

    Args:
        query: Projected queries `(B, T, U)`.
        key: Projected keys `(B, S, U)`.
        value: Values `(B, S, D)`, of any width D.
        scale: Vector `(U,)`, as in `additive_scores`.
        mask: Boolean or 0/1 integers that broadcast to `(B, T, S)`, True for keys that may be
            attended; all keys if None.
        dropout: Dropout rate of the attention weights; 0 outside of training.
        seed: Integer or `keras.random.SeedGenerator` for the dropout.
        return_attention_scores: Whether to also return the weights (before dropout).

    Returns:
        The context `(B, T, D)` or, if `return_attention_scores` is True, `(context, weights)` with
        weights `(B, T, S)`, in the dtype of `value`. A query that sees no key has zero weights and
        a zero context.

    Raises:
        ValueError: If the mask has floats, if a mask that is a NumPy array or a list has an integer
            other than 0 and 1, or if the dropout rate is not in [0, 1).

    Example:

    >>> q, k, v = ops.ones((2, 3, 8)), ops.ones((2, 5, 8)), ops.ones((2, 5, 6))
    >>> tuple(additive_attention(q, k, v, ops.ones((8,))).shape)
    (2, 3, 6)
    """
    scores = additive_scores(query, key, scale)
    weights = ops.cast(masked_softmax(scores, mask), value.dtype)
    kept = random_dropout(weights, dropout, seed) if dropout else weights
    context = ops.matmul(kept, value)
    return (context, weights) if return_attention_scores else context
