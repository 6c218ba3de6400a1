"""Choice of the kernel for dot-product attention."""

import numbers
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.masks import (
    as_boolean_mask,
    causal_mask,
    dtypes_are_guessed,
    key_length_mask,
    not_hidden,
    sliding_window_mask,
    static_shape,
)
from keras_attn.ops.score_options import (
    MaskMod,
    ScoreMod,
    ScoreOptions,
    check_options,
    pair_positions,
)

KERNELS = ("auto", "plain", "chunked", "flash")

# "auto" takes "chunked" from this number T S of query-key pairs on. Measured on CPUs, see
# docs/attention_kernels.md: on JAX it is faster from there on. On TensorFlow it is never faster,
# but saves gigabytes of memory. PyTorch has "flash".
CHUNKED_FROM = {"jax": 1024**2, "tensorflow": 4096**2, "torch": 4096**2}

# "auto" takes cuDNN from this number of queries and keys on: it does not pay for single queries.
CUDNN_FROM = 128


class Call(NamedTuple):
    """The arguments of `dot_product_attention` for a kernel."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None = None
    bias: Tensor | None = None
    use_causal_mask: bool = False
    key_lengths: Tensor | None = None
    sliding_window: int | None = None
    dropout: float = 0.0
    return_attention_scores: bool = False
    sink_tokens: int = 0
    options: ScoreOptions | None = None

    @property
    def aligned(self) -> bool:
        """Whether query t has the same position as key t, as kernels assume."""
        T, S = static_shape(self.query)[1], static_shape(self.key)[1]
        return T is not None and T == S

    def whole_mask(self) -> Tensor | None:
        """One mask of rank 4 for all that hides keys, except `bias`; None if nothing does."""
        masks = [self.mask]
        if self.sliding_window is not None:
            window, causal = self.sliding_window, self.use_causal_mask
            masks.append(
                sliding_window_mask(self.query, self.key, window, causal, self.sink_tokens)
            )
        elif self.use_causal_mask:
            masks.append(causal_mask(self.query, self.key))
        if self.key_lengths is not None:
            masks.append(key_length_mask(self.key, self.key_lengths))
        if self.options is not None and self.options.mask_mod is not None:
            positions = pair_positions(self.query, self.key, self.options)
            masks.append(self.options.seen(self.query.shape[2], *positions))
        return conjunction(*masks)


def conjunction(*masks: Tensor | None) -> Tensor | None:
    """Returns the logical "and" of all masks that are not None; None if all are None."""
    result = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else ops.logical_and(result, mask)
    return result


def split_bias(bias: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
    """Returns the finite numbers of `bias`, and a mask of the keys that -inf does not hide."""
    bias = ops.cast(bias, dtype)
    visible = not_hidden(bias)
    return ops.where(visible, bias, 0.0), visible


def choose_attention_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    use_causal_mask: bool = False,
    key_lengths: Tensor | None = None,
    sliding_window: int | None = None,
    dropout: float = 0.0,
    return_attention_scores: bool = False,
    kernel: str = "auto",
    softcap: float | None = None,
    sinks: Tensor | None = None,
    sink_tokens: int = 0,
    score_mod: ScoreMod | None = None,
    mask_mod: MaskMod | None = None,
) -> str:
    """Returns the name of the kernel that `dot_product_attention` uses for these arguments.

    With `kernel="auto"`, the name is:

    - "flash" if it is available and faster. TensorFlow has no such kernel. Query, key and value
      must have one dtype: on PyTorch, any float dtype. An export of PyTorch to ONNX does not use
      "flash". On JAX, "flash" requires a CUDA GPU of compute capability 8.0 or more, float16 or
      bfloat16, heads of width at most 128 (256 from capability 9.0 on), T and S of at least 128,
      and no masking other than right padding (`key_lengths`) and a causal mask with T = S, which a
      window may narrow if there are no `key_lengths`. (For other masks and biases, cuDNN would need
      a mask of all query-key pairs, and compute its gradient.) Fused kernels do not support
      `softcap`, `sinks` and `score_mod`; on JAX, they are also not used with `sink_tokens` and
      `mask_mod`.
    - "chunked" for long sequences without "flash", where T S is at least 1024² on JAX and 4096² on
      TensorFlow and PyTorch. Lengths must be known when a graph is traced.
    - "plain" otherwise, and always with dropout, with returned weights, and for the symbolic
      tensors of a functional model.

    On JAX, `dot_product_attention` inspects a `mask` that only hides keys, `(B, 1, 1, S)`, at run
    time: it uses "flash" if the mask hides only the end of each row and nothing else rules "flash"
    out, and otherwise the kernel that this function returns.

    Args:
        query: Queries `(B, T, N, H)`: batch, queries, heads, width of a head.
        key: Keys `(B, S, K, H)`, for S keys with K heads.
        value: Values `(B, S, K, Hv)`.
        mask: Mask of query-key pairs, as for `dot_product_attention`.
        bias: Bias of the scores, as for `dot_product_attention`.
        use_causal_mask: Whether later keys are hidden from earlier queries.
        key_lengths: Number of visible keys of each row, `(B,)`.
        sliding_window: Distance from which keys are hidden; no limit if None.
        dropout: Dropout rate of the attention weights.
        return_attention_scores: Whether to also return the weights.
        kernel: "auto", or the name of a kernel, which is returned if it is available.
        softcap: Limit of the scaled products; none if None.
        sinks: Logits in the denominator of the softmax, `(N,)`.
        sink_tokens: Number of first keys that `sliding_window` does not hide.
        score_mod: Function that changes scores, as for `dot_product_attention`.
        mask_mod: Function that hides keys, as for `dot_product_attention`.

    Returns:
        "plain", "chunked" or "flash".

    Raises:
        ValueError: If `kernel` is unknown or not available; the message says why.

    Example:

    >>> x = ops.ones((1, 8, 2, 4))
    >>> choose_attention_kernel(x, x, x, return_attention_scores=True)
    'plain'
    >>> choose_attention_kernel(x, x, x, kernel="chunked")
    'chunked'
    """
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
        options_of(softcap, sinks, score_mod, mask_mod),
    )
    return choose(call, kernel)


def options_of(*options: Any) -> ScoreOptions | None:
    """Creates `ScoreOptions` from the options in their order; None if there are none."""
    return None if all(option is None for option in options) else ScoreOptions(*options)


def check_kernel(kernel: str) -> None:
    """Raises a ValueError if the name of a kernel is unknown."""
    if kernel not in KERNELS:
        raise ValueError(
            f"`kernel` must be one of {', '.join(map(repr, KERNELS))}. Received: {kernel!r}."
        )


def choose(call: Call, kernel: str = "auto") -> str:
    """Returns the name of the kernel for a `Call` by the rules of `choose_attention_kernel`."""
    if kernel != "auto":
        reason = obstacle(call, kernel)
        if reason is not None:
            raise ValueError(f'kernel="{kernel}" is not available here: {reason}')
        return kernel
    if obstacle(call, "flash") is None and _flash_pays(call):
        return "flash"
    T, S = static_shape(call.query)[1], static_shape(call.key)[1]
    pairs = 0 if T is None or S is None else T * S
    if pairs >= CHUNKED_FROM[keras.backend.backend()] and obstacle(call, "chunked") is None:
        return "chunked"
    return "plain"


def obstacle(call: Call, kernel: str) -> str | None:
    """Returns why a kernel is not available, and what to do; None if it is available."""
    if kernel == "plain":
        return None
    if call.return_attention_scores:
        return (
            "it never holds all weights. Call without `return_attention_scores=True`, or take "
            '"auto" or "plain"; for the weights of a whole model use `keras_attn.attention_maps`.'
        )
    if call.dropout:
        return (
            "it has no dropout of the weights. Received: dropout="
            f'{call.dropout}. Take dropout 0, or "auto" or "plain".'
        )
    if any(keras.backend.is_keras_tensor(x) for x in call[:3]):
        return (
            "it cannot be called with the symbolic tensors of a functional model. Call it within "
            'a layer, such as MultiHeadAttention(..., attention_kernel="...").'
        )
    if kernel == "chunked":
        return _obstacle_of_chunked()
    return _obstacle_of_flash(call)


def _obstacle_of_chunked() -> str | None:
    if keras.backend.backend() == "torch":
        import torch

        if torch.jit.is_tracing():
            return (
                "PyTorch cannot trace its loops, as for an export to ONNX. Make the layers with "
                'attention_kernel="auto", or "plain", and load the weights.'
            )
    return None


def _obstacle_of_flash(call: Call) -> str | None:
    backend = keras.backend.backend()
    for name in ("softcap", "sinks", "score_mod"):
        if call.options is not None and getattr(call.options, name) is not None:
            return (
                f'fused kernels have no `{name}`. Take "auto", or "chunked" for memory linear '
                "in the length."
            )
    if backend == "tensorflow":
        return (
            'TensorFlow has no flash attention. Take "auto", or "chunked" for memory linear in '
            "the length; or set KERAS_BACKEND=jax (with a CUDA GPU) or torch."
        )
    dtypes = {ops.dtype(x) for x in (call.query, call.key, call.value)}
    if len(dtypes) > 1:
        return (
            "query, key and value must have one dtype. Received: "
            f"{', '.join(ops.dtype(x) for x in call[:3])}. Cast them."
        )
    if backend == "torch":
        import torch

        if torch.onnx.is_in_onnx_export() and bool(call.query.shape[2] != call.key.shape[2]):
            return 'ONNX has no grouped heads in its attention. Take "auto", or "plain".'
        return None
    capability = cuda_capability()
    if capability is None or capability < (8, 0):
        return (
            "on JAX it is cuDNN's, which needs a CUDA GPU of compute capability 8.0 or more. "
            f'Received: {_device()}. Take "auto", or "chunked" for memory linear in the length.'
        )
    if not dtypes <= {"float16", "bfloat16"}:
        return (
            "cuDNN's kernel takes float16 and bfloat16. Received: "
            f'{dtypes.pop()}. Take dtype="mixed_bfloat16" for the layer, or "auto".'
        )
    widest = max(call.query.shape[3], call.value.shape[3])
    most = 256 if capability >= (9, 0) else 128
    if widest > most:
        return (
            f"cuDNN's kernel takes heads up to a width of {most} on this GPU. Received: {widest}. "
            'Take more heads, or "auto".'
        )
    if None in (*static_shape(call.query)[:2], static_shape(call.key)[1]):
        return 'cuDNN\'s kernel needs known lengths. Take "plain" to export symbolic ones.'
    return None


def _flash_pays(call: Call) -> bool:
    if keras.backend.backend() == "torch":
        import torch

        # ONNX has no grouped heads in its attention.
        return not torch.onnx.is_in_onnx_export()
    if min(call.query.shape[1], call.key.shape[1]) < CUDNN_FROM:
        return False
    positional = call.use_causal_mask or call.sliding_window is not None
    return (
        call.mask is None
        and call.bias is None
        and call.options is None
        and (call.aligned or not positional)
        and (call.sliding_window is None or cudnn_window(call))
    )


def perhaps_right_padding(call: Call) -> bool:
    """Returns whether "auto" has to inspect the values of the mask at run time on JAX.

    This is the case if cuDNN would be chosen without the mask, and the mask hides only keys. If the
    mask hides only the end of each row, cuDNN accepts lengths; otherwise, cuDNN needs a mask for
    all query-key pairs.
    """
    if keras.backend.backend() != "jax" or call.mask is None or call.key_lengths is not None:
        return False
    if static_shape(call.mask)[1:3] != (1, 1) or call.mask.shape[3] != call.key.shape[1]:
        return False
    if call.sliding_window is not None:  # see `cudnn_window`
        return False
    unmasked = call._replace(mask=None)
    return obstacle(unmasked, "flash") is None and _flash_pays(unmasked)


def cudnn_window(call: Call) -> bool:
    """Returns whether cuDNN can apply the window itself, which requires a causal mask.

    With `key_lengths`, some queries would see no key, and cuDNN's gradients for such queries are
    undefined.
    """
    causal = call.use_causal_mask and call.aligned
    return causal and call.key_lengths is None and not call.sink_tokens


def _device() -> Any:
    import jax

    device = jax.config.jax_default_device  # type: ignore[attr-defined]  # JAX adds its options as attributes at run time
    if isinstance(device, str):
        device = jax.devices(device)[0]
    return device or jax.devices()[0]


def cuda_capability() -> tuple[int, int] | None:
    """Returns the compute capability of the GPU that JAX uses; None without a CUDA GPU."""
    device = _device()
    if device.platform != "gpu" or "cuda" not in device.client.platform_version:
        return None
    major, minor = str(device.compute_capability).split(".")[:2]
    return int(major), int(minor)


def check_call(call: Call) -> Call:
    """Checks masks, bias, lengths and window, and returns them as tensors; masks get rank 4."""
    B = static_shape(call.query)[0]
    mask, bias, lengths, window = call.mask, call.bias, call.key_lengths, call.sliding_window
    if mask is not None:
        mask = _rank_4(as_boolean_mask(mask))
    if bias is not None:
        bias = _rank_4(ops.convert_to_tensor(bias))
    if lengths is not None:
        lengths = ops.convert_to_tensor(lengths)
        if "int" not in ops.dtype(lengths) and dtypes_are_guessed():
            lengths = ops.cast(lengths, "int32")
        shape, dtype = static_shape(lengths), ops.dtype(lengths)
        if len(shape) != 1 or "int" not in dtype or (None not in (B, shape[0]) and shape[0] != B):
            raise ValueError(
                f"`key_lengths` must be integers of shape (B,), here {(B,)}: the number of "
                f"visible keys in each row. Received: dtype {dtype}, shape {shape}. If the "
                "hidden keys are not at the end of each row, pass a mask instead."
            )
    whole = isinstance(window, numbers.Integral) and not isinstance(window, bool)
    if window is not None and (not whole or window < 1):
        raise ValueError(
            "`sliding_window` must be a positive integer: the number of latest keys that a "
            f"query may attend to, including its own. Received: {window!r}. Leave it out to "
            "attend to all keys."
        )
    number = call.sink_tokens
    if isinstance(number, bool) or not isinstance(number, numbers.Integral) or number < 0:
        raise ValueError(
            "`sink_tokens` must be an integer of at least 0: the number of keys at the start "
            f"that stay visible outside of the window. Received: {number!r}."
        )
    if number and window is None:
        raise ValueError(
            f"`sink_tokens` requires a `sliding_window`. Received: sink_tokens={number} "
            "without `sliding_window`. Give both, or neither."
        )
    options = call.options
    options = None if options is None else check_options(options, call.query, call.key)
    return call._replace(mask=mask, bias=bias, key_lengths=lengths, options=options)


def _rank_4(x: Tensor) -> Tensor:
    while len(x.shape) < 4:
        x = ops.expand_dims(x, 0)
    return x
