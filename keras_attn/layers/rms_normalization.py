"""Root mean square normalization that keeps masks."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.masked_layer import MaskedLayer, check_mask


@keras.saving.register_keras_serializable(package="keras_attn")
class RMSNormalization(MaskedLayer):
    """Divides by the root mean square of the channels (Zhang and Sennrich, 2019).

        output = x / sqrt(mean(x ** 2) + epsilon) * scale

    It is a layer norm without mean and bias, which needs fewer operations and is about as good. It
    equals `keras.layers.RMSNormalization` over the last axis, but keeps the mask of `x`, which the
    Keras layer drops. It computes in float32 or better.

    Shapes: x `(..., D)` to `(..., D)`.

    Masking: each position is normalized alone; the output keeps the mask of `x`.

    Args:
        epsilon: Small number added to the mean square.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: `(..., D)`.
        mask: Mask `(...)` of the output; the mask of `x` if None.

    Returns:
        `(..., D)` in the dtype of `x`.

    Raises:
        ValueError: If the width is unknown, `epsilon` is not positive, or a mask has the wrong
            shape or floats.

    Example:

    >>> [round(float(v), 4) for v in RMSNormalization()(ops.array([[3.0, 4.0]]))[0]]
    [0.8485, 1.1314]
    """

    def __init__(self, *, epsilon: float = 1e-6, **kwargs):
        super().__init__(**kwargs)
        if not epsilon > 0:
            raise ValueError(
                f"`epsilon` of RMSNormalization must be positive. Received: {epsilon!r}."
            )
        self.epsilon = epsilon

    def build(self, x_shape):
        """Creates the scale."""
        if x_shape[-1] is None:
            raise ValueError(
                "The last axis of the input of RMSNormalization must be known. "
                f"Received: {x_shape}."
            )
        self.scale = self.add_weight(name="scale", shape=x_shape[-1:], initializer="ones")

    def call(self, x, *, mask=None):
        """Normalizes each position."""
        if mask is not None:
            check_mask(mask, x, axes=len(x.shape) - 1)
        return ops.rms_normalization(x, self.scale, axis=-1, epsilon=self.epsilon)

    def get_config(self) -> dict[str, Any]:
        """Returns the config."""
        return {**super().get_config(), "epsilon": self.epsilon}
