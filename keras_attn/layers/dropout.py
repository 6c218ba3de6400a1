"""Dropout."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.masked_layer import MaskedLayer, check_mask, check_rate
from keras_attn.ops import dropout


@keras.saving.register_keras_serializable(package="keras_attn")
class Dropout(MaskedLayer):
    """Dropout (Srivastava et al., 2014), as `keras.layers.Dropout`, with cheaper random numbers.

        output = keep * x / (1 - rate) while training,    keep = 1 with probability 1 - rate

    See `keras_attn.ops.dropout`.

    Shapes: any, the same comes out.

    Masking: the mask of `x` is that of the output; what is masked is dropped as all else.

    Args:
        rate: Share of the units set to zero, in [0, 1); it is rounded to a multiple of 2^-16.
        seed: Of the random numbers.
        **kwargs: `name`, `dtype`, ... of `keras.layers.Layer`.

    Call arguments:
        x: Floats of any shape.
        mask: Mask `(B, T)` of the output; that of `x` if None.
        training: Whether units are dropped.

    Returns:
        A tensor as `x`.

    Raises:
        ValueError: For a rate out of range, or a mask of another shape or of floats.

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

    def call(self, x, *, mask=None, training=None):
        """Drops units while training."""
        if mask is not None:
            check_mask(mask, x)
        if training and self.rate:
            return dropout(x, self.rate, self.seed_generator)
        # The mask is this layer's own: what comes out is another tensor then.
        return x if mask is None else ops.copy(x)

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs."""
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
