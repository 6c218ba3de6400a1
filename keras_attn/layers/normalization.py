"""Norms over the channels of each position."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.masked_layer import MaskedLayer, check_mask


def _check_epsilon(layer: MaskedLayer) -> None:
    if not layer.epsilon > 0:
        raise ValueError(
            f"`epsilon` of {type(layer).__name__} must be positive. Received: {layer.epsilon!r}."
        )


def _take_sizes(layer: MaskedLayer, shape: tuple[int | None, ...], axes: Sequence[int]) -> None:
    """Fixes the sizes of the input; an axis of size 1 is not broadcast."""
    sizes = {axis: shape[axis] for axis in axes}
    if None in sizes.values():
        raise ValueError(
            f"The normalized axes {list(axes)} of the input of {type(layer).__name__} must be "
            f"known. Received: {shape}."
        )
    layer.input_spec = keras.layers.InputSpec(axes=sizes)


@keras.saving.register_keras_serializable(package="keras_attn")
class LayerNormalization(MaskedLayer, keras.layers.LayerNormalization):
    """Subtracts the mean of the channels and divides by their standard deviation (Ba et al., 2016).

        output = (x - mean(x)) / sqrt(variance(x) + epsilon) * gamma + beta

    The layer has the weights and the (keyword) arguments of `keras.layers.LayerNormalization`. Over
    the last axis, it subtracts the mean first on TensorFlow and JAX, whereas Keras multiplies first
    and then subtracts a product. Subtracting first has a derivative that takes less time on a CPU.
    On PyTorch, the implementation of Keras is used. The layer computes in float32 or better.

    Shapes: x `(..., D)` to `(..., D)`.

    Masking: over the last axis, each position is normalized independently. The output keeps the
    mask of `x`.

    Args:
        axis: Axis or axes over which mean and variance are computed; the last one by default. For
            other axes, the implementation of Keras is used.
        epsilon: Small number added to the variance.
        center: Whether there is a `beta`.
        scale: Whether there is a `gamma`.
        **kwargs: Arguments of `keras.layers.LayerNormalization`, such as `gamma_initializer` and
            `dtype`.

    Call arguments:
        x: Inputs `(..., D)`.
        mask: Mask `(...)` of the output; the mask of `x` if None.

    Returns:
        The output `(..., D)` in the compute dtype of the layer.

    Raises:
        ValueError: If the size of an axis is unknown or differs from the weights, `epsilon` is not
            positive, or a mask has the wrong shape or floats.

    Example:

    >>> [round(float(v), 4) for v in LayerNormalization(epsilon=1e-6)(ops.array([[3.0, 5.0]]))[0]]
    [-1.0, 1.0]
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        _check_epsilon(self)

    def build(self, x_shape: Shape):
        """Creates the weights gamma and beta."""
        _take_sizes(self, x_shape, self.axis if isinstance(self.axis, list) else [self.axis])
        super().build(x_shape)

    def call(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Normalizes each position of `x` `(..., D)`."""
        if mask is not None:
            check_mask(mask, x, axes=len(x.shape) - 1)
        (axis, *others) = self.axis
        alone = not others and axis in (-1, len(x.shape) - 1) and not self.rms_scaling
        if not alone or keras.backend.backend() == "torch":  # which has a kernel
            return super().call(x)
        wide = keras.backend.result_type(x.dtype, "float32")
        difference = ops.cast(x, wide)
        difference = difference - ops.mean(difference, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(difference), axis=-1, keepdims=True)
        output = difference * ops.rsqrt(variance + self.epsilon)
        if self.gamma is not None:
            output = output * ops.cast(self.gamma, wide)
        if self.beta is not None:
            output = output + ops.cast(self.beta, wide)
        return ops.cast(output, self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_attn")
class RMSNormalization(MaskedLayer):
    """Divides each vector by the root mean square of its channels (Zhang and Sennrich, 2019).

        output = x / sqrt(mean(x ** 2) + epsilon) * scale

    This is a layer norm without mean and bias, which needs fewer operations and works about as
    well. The output equals the output of `keras.layers.RMSNormalization` over the last axis, but
    this layer keeps the mask of `x`, which the Keras layer drops. The layer computes in float32 or
    better.

    Shapes: x `(..., D)` to `(..., D)`.

    Masking: each position is normalized independently; the output keeps the mask of `x`.

    Args:
        epsilon: Small number added to the mean square.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(..., D)`.
        mask: Mask `(...)` of the output; the mask of `x` if None.

    Returns:
        The output `(..., D)` in the compute dtype of the layer.

    Raises:
        ValueError: If the width is unknown or differs from the weights, `epsilon` is not positive,
            or a mask has the wrong shape or floats.

    Example:

    >>> [round(float(v), 4) for v in RMSNormalization()(ops.array([[3.0, 4.0]]))[0]]
    [0.8485, 1.1314]
    """

    def __init__(self, *, epsilon: float = 1e-6, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        _check_epsilon(self)

    def build(self, x_shape: Shape):
        """Creates the weight `scale`, `(D,)`."""
        _take_sizes(self, x_shape, [-1])
        self.scale = self.add_weight(name="scale", shape=x_shape[-1:], initializer="ones")

    def call(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Normalizes each position of `x` `(..., D)`."""
        if mask is not None:
            check_mask(mask, x, axes=len(x.shape) - 1)
        return ops.rms_normalization(x, self.scale, axis=-1, epsilon=self.epsilon)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {**super().get_config(), "epsilon": self.epsilon}


NORMALIZATIONS: dict[str, type[LayerNormalization] | type[RMSNormalization]] = {
    "layer_norm": LayerNormalization,
    "rms_norm": RMSNormalization,
}
"""The norms by the names that block settings use."""
