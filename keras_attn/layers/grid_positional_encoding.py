"""Positional encoding on a grid."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.masked_layer import MaskedLayer, check_positive, check_rank, sequence_mask
from keras_attn.ops import sinusoids, token_positions
from keras_attn.ops.precision import wide_dtype


@keras.saving.register_keras_serializable(package="keras_attn")
class GridPositionalEncoding(MaskedLayer):
    """Adds two-dimensional sinusoidal positions to the regions of an image (Parmar et al., 2018).

        output[b, r] = x[b, r] + [PE[r // columns]; PE[r % columns]]

    The first half of the width encodes the row and the second half the column. PE are the
    sinusoids of `PositionalEncoding`, of width D / 2. There may be any number of rows. The layer
    has no weights.

    Shapes: x `(B, R, D)`, D even, to `(B, R, D)`.

    Masking: the mask of `x` (or an explicit `mask` `(B, R)`) is the mask of the output. Hidden
    regions count as positions.

    Args:
        columns: Number of columns, such as `grid[1]` of a `keras_attn.models.ImageEncoder`.
        max_wavelength: Base of the wavelengths of the sinusoids.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Regions `(B, R, D)`, row by row.
        mask: Mask `(B, R)` of the output; the mask of `x` if None.

    Returns:
        The output `(B, R, D)` in the compute dtype of the layer.

    Raises:
        ValueError: If `columns` is not a positive integer; if `max_wavelength` is not greater than
            1; if `x` has an odd or unknown width or the wrong rank; or if a mask has the wrong
            shape or floats.

    Example:

    >>> layer = GridPositionalEncoding(columns=2)
    >>> ops.convert_to_numpy(layer(ops.zeros((1, 6, 4))))[0, 4, :2].round(3).tolist()  # row 2
    [0.9089999794960022, -0.41600000858306885]
    """

    _query_mask_name = "x_mask"

    def __init__(self, columns: int, *, max_wavelength: float = 10000.0, **kwargs):
        super().__init__(**kwargs)
        check_positive("GridPositionalEncoding", columns=columns)
        if max_wavelength <= 1:
            raise ValueError(
                f"`max_wavelength` must be greater than 1. Received: {max_wavelength!r}."
            )
        self.columns = columns
        self.max_wavelength = max_wavelength

    def build(self, x_shape: Shape):
        """Raises a ValueError if the input is not `(B, R, D)` with even D."""
        if len(x_shape) != 3 or x_shape[-1] is None or x_shape[-1] % 2:
            raise ValueError(
                f"`x` of {type(self).__name__} must have shape (B, R, D) with an even width D. "
                f"Received: shape {tuple(x_shape)}."
            )

    def call(self, x: Tensor, *, mask: Tensor | None = None, x_mask: Tensor | None = None):
        """Adds the encodings of rows and columns to `x` `(B, R, D)`."""
        check_rank(x, "x", shape="(B, R, D)")
        sequence_mask(x, mask, x_mask, name="mask")
        places = token_positions(x[:1])  # one row broadcasts over the batch
        half = x.shape[-1] // 2
        both = [ops.floor_divide(places, self.columns), ops.mod(places, self.columns)]
        dtype = wide_dtype(x)
        encoded = [sinusoids(axis, half, self.max_wavelength, dtype=dtype) for axis in both]
        return x + ops.cast(ops.concatenate(encoded, axis=-1), x.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "columns": self.columns,
            "max_wavelength": self.max_wavelength,
        }
