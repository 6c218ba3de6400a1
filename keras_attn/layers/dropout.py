"""Dropout."""

import keras

from keras_attn.ops import dropout


@keras.saving.register_keras_serializable(package="keras_attn")
class Dropout(keras.layers.Dropout):
    """Dropout (Srivastava et al., 2014): `keras.layers.Dropout` with cheaper random numbers.

        output = keep * x / (1 - rate) while training,    keep = 1 with probability 1 - rate

    See `keras_attn.ops.dropout`. With `noise_shape` it is Keras' own.

    Shapes: any, the same comes out.

    Masking: the mask of `x` is that of the output.

    Args:
        rate: Share of the units set to zero, in [0, 1); it is rounded to a multiple of 2^-16.
        noise_shape: As `keras.layers.Dropout`.
        seed: Of the random numbers.
        **kwargs: `name`, `dtype`, ... of `keras.layers.Layer`.

    Call arguments:
        x: Floats of any shape.
        training: Whether units are dropped.

    Raises:
        ValueError: For a rate out of range.

    Example:

    >>> output = Dropout(0.5, seed=1)(keras.ops.ones((1000,)), training=True)
    >>> bool(400 < keras.ops.sum(keras.ops.cast(output == 2, "int32")) < 600)
    True
    """

    def call(self, inputs, training=False):
        """Drops units while training."""
        if training and 0 < self.rate < 1 and self.noise_shape is None:
            return dropout(inputs, self.rate, self.seed_generator)
        return super().call(inputs, training=training)
