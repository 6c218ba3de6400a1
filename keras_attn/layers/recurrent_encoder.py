"""Recurrent encoder."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Initializer, Shape, Tensor
from keras_attn.layers.dropout import Dropout
from keras_attn.layers.masked_layer import (
    MaskedLayer,
    check_positive,
    check_rank,
    check_rate,
    check_width,
    cloned,
    sequence_mask,
    sub_seed,
)
from keras_attn.layers.recurrent_cells import CELLS, with_a_step


@keras.saving.register_keras_serializable(package="keras_attn")
class RecurrentEncoder(MaskedLayer):
    """A stack of GRU or LSTM layers, optionally bidirectional, that respects any padding mask.

        x      = dropout(x)                                           between the layers
        x[s]   = [forward(x)[s]; backward(x)[s]]                      (B, S, 2 U)
        output = x where there is a token, 0 elsewhere

    The recurrent layers of Keras use cuDNN only if masks are right-padded and no row is empty. This
    layer passes no mask to them: it moves the tokens of each row to the front, reads them in both
    directions, and moves them back. Padding may therefore be anywhere, a row may be empty, and
    cuDNN is used wherever Keras supports it, which excludes recurrent dropout.

    Shapes: x `(B, S, D)` to `(B, S, 2 U)`, or `(B, S, U)` in one direction.

    Masking: `padding_mask` (or the Keras mask of `x`) is the mask of the output. Padded positions
    have no effect and get zeros.

    Args:
        units: Width U of each direction.
        num_layers: Number of layers.
        cell: `"gru"` (Cho et al., 2014) or `"lstm"` (Hochreiter and Schmidhuber, 1997).
        bidirectional: Whether to add a backward direction (Schuster and Paliwal, 1997).
        dropout: Dropout rate of the inputs of all layers except the first.
        recurrent_dropout: Dropout rate of the states, with one mask for all steps (Gal and
            Ghahramani, 2016).
        kernel_initializer: Initializer of the input matrices.
        recurrent_initializer: Initializer of the recurrent matrices.
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, S, D)`.
        padding_mask: Padding mask of `x`, `(B, S)`; the Keras mask of `x` if None.
        training: Whether dropout is active.

    Returns:
        The states of the last layer, `(B, S, 2 U)`, or `(B, S, U)` in one direction.
        `keras_attn.ops.summarize(output, mask, "ends")` returns the final states of both
        directions, `(B, 2 U)`.

    Raises:
        ValueError: If a setting is unknown or out of range, an input or a mask has the wrong shape,
            a mask has floats, or a symbolic `x` lost its Keras mask on the way to this layer.

    Example:

    >>> encoder = RecurrentEncoder(units=8, num_layers=2)
    >>> tuple(encoder(ops.ones((2, 5, 4))).shape)
    (2, 5, 16)
    """

    _query_mask_name = "padding_mask"
    _needed_masks = (("x", ("padding_mask", "mask", "x_mask")),)

    def __init__(
        self,
        units: int,
        *,
        num_layers: int = 1,
        cell: str = "gru",
        bidirectional: bool = True,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive("RecurrentEncoder", units=units, num_layers=num_layers)
        check_rate("RecurrentEncoder", dropout=dropout, recurrent_dropout=recurrent_dropout)
        if cell not in CELLS:
            raise ValueError(
                f"`cell` of RecurrentEncoder must be one of {list(CELLS)}. Received: {cell!r}."
            )
        self.units = units
        self.num_layers = num_layers
        self.cell = cell
        self.bidirectional = bidirectional
        self.dropout = dropout
        self.recurrent_dropout = recurrent_dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.seed = seed

    def build(self, x_shape: Shape):
        """Creates the recurrent layers of both directions."""
        check_width(self, x=x_shape)
        self.forward_layers, self.backward_layers, self.dropouts = [], [], []
        width = x_shape[-1]
        for i in range(self.num_layers):
            self.forward_layers.append(self._direction(f"forward_{i}", width, 2 * i))
            if self.bidirectional:
                self.backward_layers.append(self._direction(f"backward_{i}", width, 2 * i + 1))
            width = self.units * (1 + self.bidirectional)
            seed = sub_seed(self.seed, 2 * self.num_layers + i)
            self.dropouts.append(Dropout(self.dropout, seed=seed, dtype=self.dtype_policy))

    def _direction(self, name: str, width: int, number: int) -> keras.layers.Layer:
        kind = keras.layers.GRU if self.cell == "gru" else keras.layers.LSTM
        layer = kind(
            self.units,
            return_sequences=True,
            recurrent_dropout=self.recurrent_dropout,
            kernel_initializer=cloned(self.kernel_initializer),
            recurrent_initializer=cloned(self.recurrent_initializer),
            seed=sub_seed(self.seed, number),
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build((None, None, width))
        return layer

    def compute_output_shape(self, x_shape: Shape):
        """Returns the shape of the output, `(B, S, 2 U)` or `(B, S, U)`."""
        return (*x_shape[:-1], self.units * (1 + self.bidirectional))

    def call(
        self,
        x: Tensor,
        *,
        padding_mask: Tensor | None = None,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
        training: bool | None = None,
    ):
        """Runs all layers over `x` `(B, S, D)`, and returns the states of the last layer."""
        check_rank(x, "x", shape="(B, S, D)")
        padding_mask = sequence_mask(x, padding_mask, mask, x_mask)
        x = self._clean(x, padding_mask)
        x, padding_mask, length = with_a_step(x, padding_mask)
        if padding_mask is not None:
            to_front, to_back, reverse = _moves(padding_mask)
            x = _moved(x, to_front)
        for i, forward in enumerate(self.forward_layers):
            # A Keras mask would disable the fast kernels; no padding matters here.
            x = _without_mask(self.dropouts[i](x, training=training) if i else x)
            output = forward(x, training=training)
            if self.bidirectional:
                turned = ops.flip(x, axis=1) if padding_mask is None else _moved(x, reverse)
                turned = self.backward_layers[i](turned, training=training)
                back = ops.flip(turned, 1) if padding_mask is None else _moved(turned, reverse)
                output = ops.concatenate([output, back], axis=-1)
            x = output
        if padding_mask is not None:
            x = _moved(x, to_back) * ops.cast(ops.expand_dims(padding_mask, -1), x.dtype)
        return x if length is None else x[:, :length]

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "units": self.units,
            "num_layers": self.num_layers,
            "cell": self.cell,
            "bidirectional": self.bidirectional,
            "dropout": self.dropout,
            "recurrent_dropout": self.recurrent_dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "seed": self.seed,
        }


def _moves(mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Indices `(B, S)` that move tokens to the front, move them back, and reverse the front."""
    is_token = ops.cast(mask, "int32")
    ones = ops.ones_like(is_token)
    index = ops.cumsum(ones, axis=1) - 1
    count = ops.sum(is_token, axis=1, keepdims=True)
    # The target of each position: tokens in their order, then padding in its order.
    after = count + ops.cumsum(ones - is_token, axis=1) - 1
    to_back = ops.where(mask, ops.cumsum(is_token, axis=1) - 1, after)
    to_front = ops.argsort(to_back, axis=1)
    reverse = ops.where(index < count, count - 1 - index, index)
    return ops.cast(to_front, "int32"), to_back, reverse


def _moved(x: Tensor, index: Tensor) -> Tensor:
    """`output[b, s] = x[b, index[b, s]]`."""
    rows = ops.cumsum(ops.ones_like(index[:, :1]), axis=0) - 1
    flat = ops.reshape(index + rows * ops.shape(x)[1], (-1,))
    width = x.shape[-1]
    moved = ops.take(ops.reshape(x, (-1, width)), flat, axis=0)
    return ops.reshape(moved, (-1, ops.shape(x)[1], width))


def _without_mask(x: Tensor) -> Tensor:
    return ops.copy(x) if getattr(x, "_keras_mask", None) is not None else x
