"""Attention to cached keys and values, for step-by-step decoding."""

import math
from collections.abc import Callable
from typing import Any, cast

import keras
from keras import ops

from keras_attn.hints import Size, Tensor
from keras_attn.ops.attention import masked_softmax
from keras_attn.ops.attention_kernels import conjunction
from keras_attn.ops.compilers import compiler, on_cpu
from keras_attn.ops.masks import static_shape
from keras_attn.ops.padding import known_value
from keras_attn.ops.precision import wide_dtype
from keras_attn.ops.score_options import ScoreOptions

LEAST_READ = 32  # fewer slots of a cache are not worth a part of their own
DIVISORS = (128, 32, 8, 2, 1)  # a step reads the cache divided by one of these


def to_cache(projected: Tensor) -> Tensor:
    """Transposes keys or values `(B, S, K, H)` to the layout of a cache, `(B, K, S, H)`.

    Each step can use this layout directly. With any other layout, every step would first copy the
    whole cache, which takes longer than the attention itself.
    """
    return ops.transpose(projected, (0, 2, 1, 3))


def write_cache(cache: Tensor, slot: Tensor, projected: Tensor) -> Tensor:
    """Writes the key or value of one new position into a slot of a cache, and returns the cache."""
    new = ops.reshape(projected, (-1, cache.shape[1], 1, cache.shape[3]))
    zero = ops.zeros_like(slot)
    start = ops.stack([zero, zero, slot, zero])
    if keras.backend.backend() != "tensorflow" or compiler() != "none":
        return ops.slice_update(cache, start, new)
    import tensorflow as tf

    # This writes in place in a loop. Keras would start an XLA program each time, which copies the
    # whole cache. XLA itself compiles this op only for constant slots.
    return tf.raw_ops.TensorStridedSliceUpdate(
        input=cache,
        begin=start,
        end=start + 1,
        strides=[1, 1, 1, 1],
        value=new,
        begin_mask=0b1011,  # only the third axis is sliced
        end_mask=0b1011,
    )


def cached_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    visible: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    return_attention_scores: bool = False,
    shared: bool = True,
    used: Tensor | None = None,
    options: ScoreOptions | None = None,
) -> Any:
    """Computes scaled dot-product attention from queries to a cache (Vaswani et al., 2017).

        weights = softmax(scale * query keys^T + bias where visible)     (B, N, T, L)
        context = weights values                                         (B, T, N, Hv)

    Several rows of queries may share a row of the cache, like the beams of a sentence: if there are
    M = B R rows of queries, rows `b R ... b R + R - 1` read row b of the cache. The cache is not
    repeated.

    The R beams of a sentence may also share slots: with `visible (M, R, L)` and T = 1, each row of
    queries attends to the slots of all R rows of its sentence. Beams that continue other beams then
    need no copies of their slots:

        weights = softmax over rows j and slots s of (scale * query_i keys_js where visible_ijs)

    The score options are the same as in `dot_product_attention`. Functions of positions need
    explicit positions, and one cache row for each row of queries.
    """
    if used is not None and not return_attention_scores:

        def attend(length: Size):
            told = options
            if told is not None and told.key_positions is not None:
                told = told._replace(key_positions=told.key_positions[:, :length])
            return cached_attention(
                query,
                keys[:, :, :length],
                values[:, :, :length],
                None if visible is None else visible[..., :length],
                None if bias is None else bias[..., :length],
                scale,
                shared=shared,
                options=told,
            )

        return _of_the_first(used, keys, attend)
    N, H, K = query.shape[2], query.shape[3], keys.shape[1]
    T, G = ops.shape(query)[1], N // K
    scale = 1.0 / math.sqrt(H) if scale is None else scale
    query = query * ops.convert_to_tensor(scale, query.dtype)
    if visible is not None and len(visible.shape) == 3:
        return _of_beams(query, keys, values, visible, bias, return_attention_scores, options)
    rows = ops.shape(keys)[0]
    own = not shared or (isinstance(rows, int) and rows == query.shape[0])
    one = own and isinstance(T, int) and T == 1
    if one:  # (B, 1, K, G, H) and (B, K, G, 1, H) have the same layout
        query = ops.reshape(query, (-1, K, G, H))
    else:
        query = ops.reshape(query, (rows, -1, K, G, H))  # (B, R T, K, G, H)
        query = ops.reshape(ops.transpose(query, (0, 2, 3, 1, 4)), (rows, K, -1, H))
    scores = ops.einsum("bkqh,bksh->bkqs", query, keys)  # (B, K, G R T, L)
    if bias is not None:
        bias = ops.reshape(bias, (-1, K, G * T, ops.shape(bias)[3]))
    weights = ops.cast(_weights(scores, visible, bias, N, options), values.dtype)
    context = ops.einsum("bkqs,bksh->bkqh", weights, values)
    context = _by_row(context, one, rows, N, T)
    if not return_attention_scores:
        return context
    weights = _by_row(weights, one, rows, N, T)  # (M, T, N, L)
    return context, ops.transpose(weights, (0, 2, 1, 3))


def _weights(
    scores: Tensor,
    visible: Tensor | None,
    bias: Tensor | None,
    heads: int,
    options: ScoreOptions | None,
) -> Tensor:
    """The weights of scores `(B, K, Q, L)`, with `visible (B, L)` and a bias like the scores."""
    if options is not None:
        scores = options.capped(scores)
    if bias is not None:
        dtype = wide_dtype(scores)
        scores = ops.cast(scores, dtype) + ops.cast(bias, dtype)
    if visible is not None:
        visible = ops.expand_dims(ops.expand_dims(visible, 1), 1)
    if options is None:
        return masked_softmax(scores, visible)
    rows, K, Q, length = ops.shape(scores)
    by_head = ops.reshape(scores, (rows, heads, K * Q // heads, length))
    return ops.reshape(_with_options(by_head, visible, options), ops.shape(scores))


def _of_beams(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    visible: Tensor,
    bias: Tensor | None,
    wanted: bool,
    options: ScoreOptions | None,
) -> Any:
    """Attention from scaled queries `(B R, 1, N, H)` to the slots of all R beams of a sentence.

    Each row of the cache is read where it is, by the queries of all beams of its sentence.
    """
    R, N, H, K = visible.shape[1], query.shape[2], query.shape[3], keys.shape[1]
    G, L = N // K, ops.shape(keys)[2]
    query = ops.transpose(ops.reshape(query, (-1, R, K, G, H)), (0, 2, 1, 3, 4))
    query = ops.repeat(ops.reshape(query, (-1, K, R * G, H)), R, axis=0)
    scores = ops.einsum("bkqh,bksh->bkqs", query, keys)  # (B R, K, R G, L)
    scores = ops.reshape(scores, (-1, R, K, R, G, L))  # owner, head, reader, query
    scores = ops.reshape(ops.transpose(scores, (0, 3, 2, 4, 1, 5)), (-1, K, G, R * L))
    if bias is not None:
        bias = ops.tile(ops.reshape(bias, (-1, K, G, L)), (1, 1, 1, R))
    if options is not None and options.key_positions is not None:
        options = options._replace(key_positions=ops.tile(options.key_positions, (1, R)))
    weights = _weights(scores, ops.reshape(visible, (-1, R * L)), bias, N, options)
    weights = ops.cast(weights, values.dtype)
    weights = ops.reshape(weights, (-1, R, K, G, R, L))  # reader, head, query, owner
    parts = ops.transpose(weights, (0, 4, 2, 1, 3, 5))
    context = ops.einsum("bkqs,bksh->bkqh", ops.reshape(parts, (-1, K, R * G, L)), values)
    context = ops.sum(ops.reshape(context, (-1, R, K, R, G, values.shape[3])), axis=1)
    context = ops.reshape(ops.transpose(context, (0, 2, 1, 3, 4)), (-1, 1, N, values.shape[3]))
    if not wanted:
        return context
    return context, ops.reshape(ops.sum(weights, axis=4), (-1, N, 1, L))


def _with_options(scores: Tensor, visible: Tensor | None, options: ScoreOptions) -> Tensor:
    """The weights of capped scores `(B, N, T, L)`."""
    if options.of_positions:
        query, key = (
            ops.cast(cast(Tensor, x), "int32")
            for x in (options.query_positions, options.key_positions)
        )
        query, key = query[:, None, :, None], key[:, None, None, :]
        scores = options.modified(scores, query, key)
        visible = conjunction(visible, options.seen(scores.shape[1], query, key))
    return masked_softmax(scores, visible, options.sink_column(ops.dtype(scores)))


def _of_the_first(used: Tensor, cache: Tensor, attend: Callable[[Any], Tensor]) -> Tensor:
    """Returns `attend(length)` for the smallest available length that is at least `used`.

    The lengths are the length of the cache, a half of it, an eighth, a 32nd and so on. XLA, which
    needs static shapes, gets a branch for each. In a branch, XLA reads the cache in place; next to
    a write, it would first copy caches of a single row. On a GPU the whole cache is read, because
    the choice of a branch would make it wait.
    """
    known, length = known_value(used), static_shape(cache)[2]
    if known is not None and length is not None:
        lengths = [length // divisor for divisor in _divisors(length)]
        return attend(next(n for n in lengths if n >= min(int(known), length)))
    if not on_cpu():
        return attend(length)
    whole = ops.shape(cache)[2]
    if compiler() == "xla":
        divisors = _divisors(length)
        above = [ops.cast(used > whole // divisor, "int32") for divisor in divisors[:-1]]
        # The length of a part is found in its branch, where it is a constant to XLA.
        branches = [lambda n=n: attend(ops.shape(cache)[2] // n) for n in divisors]
        return ops.switch(sum(above), branches) if above else attend(length)
    if compiler() != "none":
        return attend(length)
    length = whole
    for divisor in reversed(DIVISORS[:-1]):
        shorter = whole // divisor
        length = ops.where(shorter >= ops.maximum(used, LEAST_READ), shorter, length)
    return attend(length)


def _divisors(length: int | None) -> list[int]:
    """The numbers by which a cache is divided, the greatest first."""
    if length is None:
        return [8, 2, 1]
    return [n for n in DIVISORS[:-1] if length // n >= LEAST_READ] + [1]


def _by_row(x: Tensor, one: bool, rows: Size, heads: int, length: Size) -> Tensor:
    """Reshapes `(B, K, G R T, width)` to `(B R, T, N, width)`."""
    width = ops.shape(x)[3]
    if one:
        return ops.reshape(x, (-1, 1, heads, width))
    x = ops.transpose(ops.reshape(x, (rows, heads, -1, width)), (0, 2, 1, 3))  # (B, R T, N, width)
    return ops.reshape(x, (-1, length, heads, width))
