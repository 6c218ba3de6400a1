"""Sinusoidal and learned positional encodings."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Initializer, Shape, Tensor
from keras_attn.layers.masked_layer import (
    MaskedLayer,
    check_positions,
    check_positive,
    check_rank,
    check_width,
    cloned,
    sequence_mask,
)
from keras_attn.ops import sinusoids, token_positions
from keras_attn.ops.masks import static_shape
from keras_attn.ops.positions import no_negative
from keras_attn.ops.precision import wide_dtype


class _AddPositions(MaskedLayer):
    """Base class that adds an encoding of positions to `x` and keeps its mask."""

    _query_mask_name = "x_mask"

    def build(self, x_shape: Shape):
        check_width(self, x=x_shape)

    def call(
        self,
        x: Tensor,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
    ):
        check_rank(x, "x")
        if "float" not in keras.backend.standardize_dtype(x.dtype):
            raise ValueError(
                f"`x` of {self.name} must be embeddings of a float dtype. Received: dtype "
                f"{keras.backend.standardize_dtype(x.dtype)}, shape {tuple(x.shape)}."
            )
        sequence_mask(x, mask, x_mask, name="mask")
        # One row is enough by default: it broadcasts over the batch.
        positions = token_positions(x[:1]) if positions is None else check_positions(positions, x)
        return x + ops.cast(self._encode(positions, x), x.dtype)


@keras.saving.register_keras_serializable(package="keras_attn")
class PositionalEncoding(_AddPositions):
    """Adds sinusoidal positions to embeddings (Vaswani et al., 2017, section 3.5).

        output[b, t] = x[b, t] + PE[positions[b, t] + first]
        PE[p, 2i]    = sin(p / max_wavelength ** (2i / D))
        PE[p, 2i+1]  = cos(p / max_wavelength ** (2i / D))

    If `halves` is True, all sines come before all cosines, as in Marian. Any length and width are
    allowed; an odd width has one more sine than cosines. The layer has no weights.

    Shapes: x `(B, T, D)` to `(B, T, D)`.

    Masking: the mask of `x` (or an explicit `mask` `(B, T)`) is the mask of the output, whereas a
    plain `x + positions` loses the mask. Padded positions are encoded like all other positions.
    With left padding, pass `positions` that count real tokens.

    Args:
        max_wavelength: Base of the wavelengths; 10000 in the paper.
        halves: Whether all sines come before all cosines instead of alternating.
        first: Number added to all positions; 1 counts positions from 1.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, T, D)`.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)`; `0 ... T-1` if None.
        mask: Mask `(B, T)` of the output; the mask of `x` if None.

    Returns:
        The output `(B, T, D)` in the compute dtype of the layer.

    Raises:
        ValueError: If `max_wavelength` is not greater than 1; if `x` has the wrong rank or an
            unknown width, or is not floats; if the positions or the mask have the wrong shape; if
            the positions are not integers; or if the mask has floats.

    Example:

    >>> x = ops.zeros((1, 2, 4))
    >>> ops.convert_to_numpy(PositionalEncoding()(x))[0, 0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """

    def __init__(
        self, *, max_wavelength: float = 10000.0, halves: bool = False, first: int = 0, **kwargs
    ):
        super().__init__(**kwargs)
        if max_wavelength <= 1:
            raise ValueError(
                f"`max_wavelength` must be greater than 1. Received: {max_wavelength!r}."
            )
        self.max_wavelength = max_wavelength
        self.halves = halves
        self.first = first

    def _encode(self, positions: Tensor, x: Tensor):
        numbers, dtype = positions + self.first, wide_dtype(x)
        return sinusoids(numbers, x.shape[-1], self.max_wavelength, self.halves, dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
            "halves": self.halves,
            "first": self.first,
        }


@keras.saving.register_keras_serializable(package="keras_attn")
class LearnedPositionalEncoding(_AddPositions):
    """Adds learned positions to embeddings (Gehring et al., 2017; BERT, GPT).

        output[b, t] = x[b, t] + table[positions[b, t]]

    Shapes: x `(B, T, D)` to `(B, T, D)`, T at most `sequence_length` unless `positions` are given.

    Masking: the mask of `x` (or an explicit `mask` `(B, T)`) is the mask of the output. Padded
    positions are encoded like all other positions. With left padding, pass `positions` that count
    real tokens.

    Args:
        sequence_length: Maximum length, the number of rows of the table.
        embeddings_initializer: Initializer of the table.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, T, D)`.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)` below `sequence_length`; `0 ... T-1` if
            None. A value out of range raises an error in eager calls on CPUs. In compiled calls and
            on accelerators, it may give NaN or an undefined row instead.
        mask: Mask `(B, T)` of the output; the mask of `x` if None.

    Returns:
        The output `(B, T, D)` in the compute dtype of the layer.

    Raises:
        ValueError: If `sequence_length` is not a positive integer; if `x` is not floats, or has the
            wrong rank, an unknown width or a different width than the table; if `x` is longer than
            the table and no `positions` are given; if the positions or the mask have the wrong
            shape; if the positions are not integers; or if the mask has floats.

    Example:

    >>> layer = LearnedPositionalEncoding(sequence_length=8)
    >>> tuple(layer(ops.zeros((2, 5, 4))).shape)
    (2, 5, 4)
    """

    def __init__(
        self, sequence_length: int, *, embeddings_initializer: Initializer = "uniform", **kwargs
    ):
        super().__init__(**kwargs)
        check_positive("LearnedPositionalEncoding", sequence_length=sequence_length)
        self.sequence_length = sequence_length
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, x_shape: Shape):
        """Creates the table of positions, `(sequence_length, D)`."""
        super().build(x_shape)
        self.input_spec = keras.layers.InputSpec(axes={-1: x_shape[-1]})  # 1 is not broadcast
        self.embedding = keras.layers.Embedding(
            self.sequence_length,
            x_shape[-1],
            embeddings_initializer=cloned(self.embeddings_initializer),
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.embedding.build()

    def __call__(self, x: Tensor, *args, positions: Tensor | None = None, **kwargs):
        """Checks the length, then calls the layer."""
        if positions is None and len(x.shape) == 3:
            check_longest(self.name, x, self.sequence_length)
        return super().__call__(x, *args, positions=positions, **kwargs)

    def _encode(self, positions: Tensor, x: Tensor):
        return self.embedding(no_negative(positions, self.sequence_length))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "sequence_length": self.sequence_length,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }


def check_longest(name: str, x: Tensor, sequence_length: int) -> None:
    """Raises a ValueError if `x` `(B, T, ...)` is known to be longer than a table of positions.

    Do not use it in `call`, where JAX and PyTorch replace an unknown length by a made-up one.
    """
    length = x.shape[1]
    if isinstance(length, int) and length > sequence_length:
        raise ValueError(
            f"{name} has positions for sequences of at most {sequence_length} tokens "
            f"(`sequence_length`). Received: x of shape {static_shape(x)}. Shorten the "
            "input, use a larger `sequence_length`, or use PositionalEncoding, which has no "
            "limit."
        )
