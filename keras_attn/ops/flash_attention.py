"""Flash attention by cuDNN on JAX and by `scaled_dot_product_attention` on PyTorch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.attention_kernels import Call, conjunction, cudnn_window, split_bias
from keras_attn.ops.masks import MASKED
from keras_attn.ops.precision import wide_dtype

if TYPE_CHECKING:
    import torch


def flash_attention(call: Call, scale: float) -> Tensor:
    """Computes attention with the fused kernel of the backend (Dao et al., 2022).

    Heads are padded with zeros if the kernel does not support their width. For a query that sees no
    key, kernels return NaN or a mean, and zero times NaN is NaN in gradients. Therefore, such a
    query gets some visible keys, and its context is set to zero afterwards.

    On JAX, cuDNN accepts right padding, a causal mask with T = S, and a window within it directly;
    everything else becomes one mask for all query-key pairs. This call was written for JAX 0.10.2
    and checked there with JAX's own implementation in place of cuDNN: it has not run on a GPU.

    On PyTorch, the kernel accepts a causal mask with T = S directly if nothing else is masked;
    everything else becomes a mask. PyTorch chooses the kernel; for a `bias` that needs a gradient,
    it chooses one that keeps all weights. PyTorch's CPU kernels return finite numbers for some
    queries that are NaN or infinite; this function returns NaN for them.

    The kernels keep the logarithm of the sum of the exponentials in float32. If all scores of a
    query are large, for example with a bias of -1e9, this logarithm loses the sum, and gradients
    are wrong. Therefore the largest bias of each query is subtracted first, which changes neither
    weights nor gradients.
    """
    attend = _by_cudnn if keras.backend.backend() == "jax" else _by_torch
    return attend(call, scale)


def flash_if_right_padded(call: Call, scale: float, otherwise: Callable[[Call], Tensor]) -> Tensor:
    """Uses cuDNN on JAX if the mask is right padding, and another kernel otherwise.

        cuDNN if mask[b, s] == (s < lengths[b]) for all b, s, with lengths[b] = sum_s mask[b, s]

    The program contains both kernels and runs one of them. The gradient of the other kernel
    recomputes its weights, because `B N T S` numbers would otherwise be kept in addition to
    cuDNN's.
    """
    import jax

    def by_lengths(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, lengths: Tensor):
        told = call._replace(query=query, key=key, value=value, mask=None, key_lengths=lengths)
        return flash_attention(told, scale)

    def by_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, lengths: Tensor):
        return otherwise(call._replace(query=query, key=key, value=value, mask=mask))

    (B, S), mask = (call.query.shape[0], call.key.shape[1]), cast(Tensor, call.mask)
    keys = ops.broadcast_to(mask[:, 0, 0], (B, S))
    lengths = ops.sum(ops.cast(keys, "int32"), axis=1)
    is_right = ops.all(keys == (ops.arange(S, dtype="int32") < ops.expand_dims(lengths, 1)))
    tensors = (call.query, call.key, call.value, mask, lengths)
    return jax.lax.cond(is_right, by_lengths, jax.checkpoint(by_mask), *tensors)


def _by_cudnn(call: Call, scale: float) -> Tensor:
    import jax

    (_, T, _, _), S, Hv = call.query.shape, call.key.shape[1], call.value.shape[3]
    causal = call.use_causal_mask and call.aligned
    windowed = call.sliding_window is not None and cudnn_window(call)
    lengths = call.key_lengths
    # If anything goes into the mask, lengths do too.
    as_mask = (
        call.mask is not None
        or call.use_causal_mask != causal
        or (call.sliding_window is not None and not windowed)
        or call.options is not None
    )
    bias: Any = None  # arrays of JAX, or None
    mask: Any = None
    seen = None
    if as_mask or call.bias is not None:
        mask = call.whole_mask()
        if call.bias is not None:
            bias, visible = split_bias(call.bias, "float32")
            mask = conjunction(mask, visible)
            largest = ops.max(ops.where(visible, bias, MASKED), axis=-1, keepdims=True)
            bias = ops.where(visible, bias - ops.stop_gradient(largest), 0.0)
            bias = _of_all_pairs(ops.cast(bias, ops.dtype(call.query)), T, S)
        mask = _of_all_pairs(mask, T, S)
        seen = ops.any(mask, axis=-1, keepdims=True)
        windowed, lengths = False, None
    elif lengths is not None:
        seen = ops.reshape(lengths > 0, (-1, 1, 1, 1))
        lengths = ops.clip(ops.cast(lengths, "int32"), 1, S)
    width = -(-max(call.query.shape[3], Hv) // 8) * 8
    query, key, value = (_pad(x, 3, width) for x in call[:3])
    if mask is not None:  # cuDNN differentiates a bias only with even lengths
        query = _pad(query, 1, T + T % 2)
        key, value = (_pad(x, 1, S + S % 2) for x in (key, value))
        mask, bias = (
            x if x is None else _pad(_pad(x, 2, T + T % 2), 3, S + S % 2) for x in (mask, bias)
        )
    context = jax.nn.dot_product_attention(
        query,
        key,
        value,
        bias=bias,
        mask=mask,
        scale=scale,
        is_causal=causal,
        key_value_seq_lengths=lengths,
        local_window_size=(cast(int, call.sliding_window) - 1, 0) if windowed else None,
        implementation="cudnn",
    )
    return _without_unseeing(context[:, :T, :, :Hv], seen)


def _by_torch(call: Call, scale: float) -> Tensor:
    import torch.nn.functional as F

    query, key, value = (x.transpose(1, 2) for x in cast("tuple[torch.Tensor, ...]", call[:3]))
    N, K, Hv = query.shape[1], key.shape[1], value.shape[3]
    mask: Any = call.whole_mask()  # tensors of PyTorch, or None
    seen, tainted = None, _taint(call.query)
    causal = (
        call.use_causal_mask
        and call.aligned
        and call.mask is call.bias is call.key_lengths is call.sliding_window is None
        and call.options is None
    )
    if causal:
        mask = None
    if call.bias is not None:
        bias, visible = split_bias(call.bias, wide_dtype(query))
        mask = conjunction(mask, visible)
    if mask is not None:
        seen = mask.any(dim=-1, keepdim=True)
        mask = mask | ~seen
    if call.bias is not None:
        mask = cast("torch.Tensor", bias).masked_fill(~mask, float("-inf"))
        largest = mask.amax(dim=-1, keepdim=True).detach()
        tainted = tainted + _taint(largest).transpose(1, 2)
        mask = ops.cast(mask.sub_(largest), ops.dtype(query))
    width = max(query.shape[3], Hv)
    query, key, value = (_pad(x, 3, width) for x in (query, key, value))
    # Traced sizes are tensors, and so are their comparisons.
    context = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=bool(N != K)
    )
    context = context[..., :Hv].transpose(1, 2) + ops.cast(tainted, ops.dtype(context))
    return _without_unseeing(context, seen)


def _taint(x: Tensor) -> Any:
    """Zero for each finite vector of the last axis, NaN for all others."""
    return 0 * ops.sum(ops.cast(x, wide_dtype(x)), axis=-1, keepdims=True)


def _without_unseeing(context: Tensor, seen: Tensor | None) -> Tensor:
    """Zeroes the context `(B, T, N, Hv)` of queries that see no key; `seen` is `(b, n, t, 1)`."""
    if seen is None:
        return context
    return ops.where(ops.transpose(seen, (0, 2, 1, 3)), context, ops.zeros((), context.dtype))


def _of_all_pairs(x: Tensor, T: int, S: int) -> Tensor:
    """Broadcasts T and S of a mask or bias; cuDNN itself broadcasts batch and heads."""
    return ops.broadcast_to(x, (x.shape[0], x.shape[1], T, S))


def _pad(x: Tensor, axis: int, length: int) -> Any:
    if x.shape[axis] == length:
        return x
    pads = [[0, 0]] * 4
    pads[axis] = [0, length - x.shape[axis]]
    return ops.pad(x, pads)
