"""Dropout layer."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.layers.masked_layer import MaskedLayer, check_mask, check_rate
from keras_attn.ops import dropout


@keras.saving.register_keras_serializable(package="keras_attn")
class Dropout(MaskedLayer):
    """Dropout (Srivastava et al., 2014) with cheap random numbers on TensorFlow and JAX.

        output = keep * x / (1 - rate) while training,    keep = 1 with probability 1 - rate

    `keras_attn.ops.dropout` describes the random numbers. On PyTorch, `keras.random.dropout` draws
    them.

    Shapes: any; the output has the shape of the input.

    Masking: the output keeps the mask of `x`. Masked units are dropped like all others.

    Args:
        rate: Fraction of the units set to zero, in [0, 1). On TensorFlow and JAX, it is rounded to
            a multiple of 2^-16.
        seed: Seed of the random numbers; a random seed if None.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Floats of any shape.
        mask: Mask `(B, T)` of the output; the mask of `x` if None.
        training: Whether units are dropped.

    Returns:
        A tensor with the shape of `x`, in the compute dtype of the layer.

    Raises:
        ValueError: If the rate is out of range, or a mask has the wrong shape or floats.

    Example:

    >>> output = Dropout(0.5, seed=1)(ops.ones((1000,)), training=True)
    >>> bool(400 < ops.sum(ops.cast(output == 2, "int32")) < 600)
    True
    """

    _query_mask_name = "mask"
    _key_mask_name = "mask"

    def __init__(self, rate: float, *, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        check_rate("Dropout", rate=rate)
        self.rate = rate
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if rate else None
        self.built = True

    def call(self, x: Tensor, *, mask: Tensor | None = None, training: bool | None = None):
        """Drops units of `x` while training; returns `x` unchanged otherwise."""
        if mask is not None:
            check_mask(mask, x)
        if training and self.rate:
            return dropout(x, self.rate, self.seed_generator)
        # A copy, since the explicit mask must not replace the mask of `x`.
        return x if mask is None else ops.copy(x)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
