"""Pooling of a sequence into one vector: average, maximum, first token, final states."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.masked_layer import MaskedLayer, check_rank, sequence_mask
from keras_attn.ops import summarize
from keras_attn.ops.precision import wide_dtype
from keras_attn.ops.summaries import maximum_over

COMBINERS = ("mean", "sqrtn")


class PoolingLayer(MaskedLayer):
    """Base class of pooling from `(B, S, D)` to `(B, D)`. The output has no mask."""

    _needed_masks = (("x", ("mask", "x_mask")),)

    def compute_output_shape(self, x_shape: Shape):
        """Returns the shape `(B, D)` of the output."""
        return (x_shape[0], x_shape[-1])

    def compute_mask(self, x: Tensor, previous_mask: Tensor | None = None):
        """Returns None, because the output `(B, D)` has no mask."""
        return None

    def call(self, x: Tensor, *, mask: Tensor | None = None, x_mask: Tensor | None = None):
        """Pools the tokens of `x` `(B, S, D)` to `(B, D)`."""
        check_rank(x, "x", shape="(B, S, D)")
        mask = sequence_mask(x, mask, x_mask, name="mask")
        if x.shape[1] == 0:  # like a row without tokens
            x = ops.pad(x, [[0, 0], [0, 1], [0, 0]])
            mask = ops.zeros_like(x[:, :, 0], dtype="bool")
        return self._pool(self._clean(x, mask), mask)

    def _pool(self, x: Tensor, mask: Tensor | None) -> Tensor:
        raise NotImplementedError


@keras.saving.register_keras_serializable(package="keras_attn")
class MaskedAveragePooling(PoolingLayer):
    """Averages the tokens of each sequence.

        output = sum_s mask[s] x[s] / n,  n = sum_s mask[s]       (B, D)

    With `combiner="sqrtn"`, the sum is divided by `sqrt(n)`, as in `tf.nn.embedding_lookup_sparse`,
    so that the variance does not depend on n if tokens are independent.

    Shapes: x `(B, S, D)` to `(B, D)`.

    Masking: `mask` `(B, S)`, or the Keras mask of `x`, is True for tokens. The output has no mask.
    A row without tokens gives zeros.

    Args:
        combiner: `"mean"` or `"sqrtn"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, S, D)`.
        mask: Padding mask `(B, S)`, boolean or 0/1 integers; the mask of `x` if None.

    Returns:
        The pooled vectors `(B, D)`.

    Raises:
        ValueError: If the combiner is unknown, `x` or the mask has the wrong shape, the mask has
            floats, or a symbolic `x` lost its Keras mask on the way to this layer.

    Example:

    >>> x, mask = ops.array([[[1.0], [3.0], [9.0]]]), ops.array([[True, True, False]])
    >>> ops.convert_to_numpy(MaskedAveragePooling()(x, mask=mask)).tolist()
    [[2.0]]
    """

    def __init__(self, *, combiner: str = "mean", **kwargs):
        super().__init__(**kwargs)
        if combiner not in COMBINERS:
            raise ValueError(
                f"`combiner` of MaskedAveragePooling must be one of {list(COMBINERS)}. "
                f"Received: {combiner!r}."
            )
        self.combiner = combiner

    def _pool(self, x: Tensor, mask: Tensor | None):
        mean = summarize(x, mask, "mean")
        if self.combiner == "mean":
            return mean
        dtype = wide_dtype(mean)
        is_token = ops.ones_like(x[:, :, 0], dtype=dtype)
        if mask is not None:
            is_token = is_token * ops.cast(mask, dtype)
        return mean * ops.cast(ops.sqrt(ops.sum(is_token, axis=1, keepdims=True)), mean.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {**super().get_config(), "combiner": self.combiner}


@keras.saving.register_keras_serializable(package="keras_attn")
class MaskedMaxPooling(PoolingLayer):
    """Takes the maximum of each feature over the tokens (Collobert et al., 2011).

        output[d] = max over s with mask[s] of x[s, d]       (B, D)

    Shapes: x `(B, S, D)` to `(B, D)`.

    Masking: `mask` `(B, S)`, or the Keras mask of `x`, is True for tokens. The output has no mask.
    A row without tokens gives zeros.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, S, D)`.
        mask: Padding mask `(B, S)`, boolean or 0/1 integers; the mask of `x` if None.

    Returns:
        The pooled vectors `(B, D)`.

    Raises:
        ValueError: If `x` or the mask has the wrong shape, the mask has floats, or a symbolic `x`
            lost its Keras mask on the way to this layer.

    Example:

    >>> x, mask = ops.array([[[-1.0], [-3.0], [9.0]]]), ops.array([[True, True, False]])
    >>> ops.convert_to_numpy(MaskedMaxPooling()(x, mask=mask)).tolist()
    [[-1.0]]
    """

    def _pool(self, x: Tensor, mask: Tensor | None):
        if mask is None:
            return maximum_over(x, 1)
        # The lowest number, since -inf may give NaN gradients.
        lowest = -65504.0 if ops.dtype(x) == "float16" else -3e38
        highest = maximum_over(ops.where(ops.expand_dims(mask, 2), x, lowest), 1)
        any_token = ops.any(mask, axis=1, keepdims=True)
        return ops.where(any_token, highest, ops.zeros_like(highest))


@keras.saving.register_keras_serializable(package="keras_attn")
class FirstTokenPooling(PoolingLayer):
    """Takes the first token, such as `[CLS]` (Devlin et al., 2019).

        output = x[f],  f the first s with mask[s]       (B, D)

    Shapes: x `(B, S, D)` to `(B, D)`.

    Masking: `mask` `(B, S)`, or the Keras mask of `x`, is True for tokens; with left padding, the
    first token is not at position 0. The output has no mask. A row without tokens gives zeros.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, S, D)`.
        mask: Padding mask `(B, S)`, boolean or 0/1 integers; the mask of `x` if None.

    Returns:
        The pooled vectors `(B, D)`.

    Raises:
        ValueError: If `x` or the mask has the wrong shape, the mask has floats, or a symbolic `x`
            lost its Keras mask on the way to this layer.

    Example:

    >>> x, mask = ops.array([[[1.0], [3.0], [9.0]]]), ops.array([[False, True, True]])
    >>> ops.convert_to_numpy(FirstTokenPooling()(x, mask=mask)).tolist()
    [[3.0]]
    """

    def _pool(self, x: Tensor, mask: Tensor | None):
        if mask is None:
            return x[:, 0]
        number = ops.cumsum(ops.cast(mask, "int32"), axis=1)
        first = ops.expand_dims(ops.logical_and(mask, ops.equal(number, 1)), 2)
        return ops.sum(ops.where(first, x, ops.zeros_like(x)), axis=1)  # no product: 0 inf is NaN


@keras.saving.register_keras_serializable(package="keras_attn")
class FinalStatesPooling(PoolingLayer):
    """Takes the final states of both directions of a bidirectional recurrent network.

        output = [x[l, :D/2]; x[f, D/2:]]       (B, D)

    l is the last token, where the forward direction ends, and f is the first token, where the
    backward direction ends.

    Shapes: x `(B, S, D)` to `(B, D)`, D even, such as the output of a `RecurrentEncoder`.

    Masking: `mask` `(B, S)`, or the Keras mask of `x`, is True for tokens. The output has no mask.
    A row without tokens gives zeros.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, S, D)`.
        mask: Padding mask `(B, S)`, boolean or 0/1 integers; the mask of `x` if None.

    Returns:
        The pooled vectors `(B, D)`.

    Raises:
        ValueError: If `x` or the mask has the wrong shape, the mask has floats, the width is odd,
            or a symbolic `x` lost its Keras mask on the way to this layer.

    Example:

    >>> x = ops.array([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    >>> ops.convert_to_numpy(FinalStatesPooling()(x)).tolist()
    [[5.0, 2.0]]
    """

    def _pool(self, x: Tensor, mask: Tensor | None):
        if x.shape[-1] % 2:
            raise ValueError(
                "`x` of FinalStatesPooling must have an even width, one half for each "
                f"direction. Received: shape {tuple(x.shape)}."
            )
        return summarize(x, mask, "ends")
