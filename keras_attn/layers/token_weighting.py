"""Learned weights for the tokens of a vocabulary (a trainable IDF)."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.collect import active_collector
from keras_attn.layers.masked_layer import (
    MaskedLayer,
    check_mask,
    check_positive,
    check_rank,
    sequence_mask,
)
from keras_attn.ops.masks import dtypes_are_guessed
from keras_attn.ops.positions import no_negative

ACTIVATIONS = (None, "softplus", "exponential")


def integer_ids(token_ids: Tensor, name: str) -> Tensor:
    """Returns ids `(B, S)` as int32; raises a ValueError if rank or dtype is wrong."""
    check_rank(token_ids, "token_ids", 2, "(B, S)")
    dtype = keras.backend.standardize_dtype(token_ids.dtype)
    if "int" not in dtype and not dtypes_are_guessed():
        raise ValueError(
            f"`token_ids` of {name} must be integers. Received: dtype {dtype}, shape "
            f"{tuple(token_ids.shape)}. Use keras.Input(shape, dtype='int32')."
        )
    return ops.cast(token_ids, "int32")


@keras.saving.register_keras_serializable(package="keras_attn")
class TokenWeighting(MaskedLayer):
    """Multiplies each token by a learned weight for its id.

        weights[b, s] = activation(w[token_ids[b, s]]), 0 where the mask is False     (B, S)
        output[b, s]  = weights[b, s] x[b, s]                                         (B, S, D)

    The weight is a trainable inverse document frequency (IDF; Salton and Buckley, 1988, describe
    the fixed IDF of TF-IDF), and a first step towards attention: it depends only on the id of a
    token, not on the token's neighbours. The weights are not normalized. By default, their initial
    value is 1, so that the layer initially changes nothing. The layer has V parameters w.

    Shapes: x `(B, S, D)` and token_ids `(B, S)` to `(B, S, D)`.

    Masking: `mask` `(B, S)`, or the Keras mask of `x`, is the mask of the output. Hidden tokens
    have a weight of 0.

    Args:
        vocabulary_size: Number V of ids.
        initial: V initial weights, such as IDF; 1 for all if None. With an activation, they must be
            above 0. They are not in the config; a saved model keeps the learned weights.
        activation: None, which allows any weight, or `"softplus"` or `"exponential"`, which keep
            weights above 0.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, S, D)`.
        token_ids: Integers `(B, S)` below `vocabulary_size`.
        mask: Padding mask `(B, S)`, boolean or 0/1 integers; the mask of `x` if None.
        return_attention_scores: Whether to also return the attention weights.

    Returns:
        The output `(B, S, D)` or, if `return_attention_scores` is True, `(output, weights)` with
        weights `(B, S)`. The role of the weights in `collect_attention` is "weighting".
        `layer.token_weights(token_ids)` returns only the weights, and `layer.get_token_weights()`
        returns the weights of the vocabulary, a NumPy array `(V,)`.

    Raises:
        ValueError: If a setting is unknown or out of range, an input or a mask has the wrong shape,
            the ids are not integers, the mask has floats, or a symbolic `x` lost its Keras mask on
            the way to this layer.

    Example:

    >>> layer = TokenWeighting(4, initial=[0.0, 1.0, 2.0, 3.0])
    >>> x = layer(ops.ones((1, 3, 2)), ops.array([[3, 1, 0]]))
    >>> ops.convert_to_numpy(x)[0].tolist()
    [[3.0, 3.0], [1.0, 1.0], [0.0, 0.0]]
    """

    _needed_masks = (("x", ("mask", "x_mask")),)

    def __init__(
        self,
        vocabulary_size: int,
        *,
        initial: npt.ArrayLike | None = None,
        activation: str | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive("TokenWeighting", vocabulary_size=vocabulary_size)
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"`activation` of TokenWeighting must be one of {list(ACTIVATIONS)}. "
                f"Received: {activation!r}."
            )
        self.vocabulary_size = vocabulary_size
        self.activation = activation
        self._initial = None if initial is None else self._before_activation(initial, "initial")

    def _before_activation(self, values: npt.ArrayLike, name: str) -> np.ndarray:
        """The numbers from which the activation computes `values`."""
        values = np.asarray(values, "float64")
        if values.shape != (self.vocabulary_size,):
            raise ValueError(
                f"`{name}` of TokenWeighting must have one weight per token, shape "
                f"{(self.vocabulary_size,)}. Received: shape {values.shape}."
            )
        low = -np.inf if self.activation is None else 0.0
        if not (np.isfinite(values) & (values > low)).all():
            kind = "finite" if self.activation is None else "finite and above 0"
            raise ValueError(
                f"`{name}` of TokenWeighting with activation={self.activation!r} must be {kind}. "
                f"Received: values from {values.min()} to {values.max()}."
            )
        if self.activation == "exponential":
            return np.log(values)
        if self.activation == "softplus":
            return values + np.log(-np.expm1(-values))
        return values

    def build(self, x_shape: Shape | None = None, token_ids_shape: Shape | None = None):
        """Creates the weights of the vocabulary, `(V,)`."""
        begin = self._initial
        if begin is None:
            begin = self._before_activation(np.ones(self.vocabulary_size), "initial")
        self.table = self.add_weight(
            shape=(self.vocabulary_size,),
            initializer=lambda shape, dtype: ops.convert_to_tensor(begin, dtype),
            autocast=False,  # cast what is looked up, not the whole table
            name="table",
        )
        self._initial = None

    def token_weights(self, token_ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns the weights `(B, S)` of ids `(B, S)`, which are 0 where `mask` is False."""
        if not self.built:
            self.build()
        token_ids = integer_ids(ops.convert_to_tensor(token_ids), self.name)
        weights = ops.take(self.table, no_negative(token_ids, self.vocabulary_size), axis=0)
        if self.activation == "softplus":
            weights = ops.softplus(weights)
        elif self.activation == "exponential":
            weights = ops.exp(weights)
        weights = ops.cast(weights, self.compute_dtype)
        mask = sequence_mask(token_ids, mask, name="mask")
        return weights if mask is None else weights * ops.cast(mask, weights.dtype)

    def get_token_weights(self) -> np.ndarray:
        """Returns the weights of the vocabulary, `(V,)`."""
        ids = ops.expand_dims(ops.arange(self.vocabulary_size, dtype="int32"), 0)
        return ops.convert_to_numpy(ops.cast(self.token_weights(ids)[0], "float32"))

    def set_token_weights(self, values: npt.ArrayLike) -> None:
        """Sets the weights of the vocabulary, such as IDF: `(V,)`."""
        before = self._before_activation(values, "values")
        if not self.built:
            self.build()
        self.table.assign(before)

    def call(
        self,
        x: Tensor,
        token_ids: Tensor,
        *,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        x_mask: Tensor | None = None,
    ):
        """Multiplies each token of `x` `(B, S, D)` by the weight of its id."""
        check_rank(x, "x", shape="(B, S, D)")
        check_mask(token_ids, x, name="token_ids")
        mask = sequence_mask(x, mask, x_mask, name="mask")
        x = self._clean(x, mask)
        weights = self.token_weights(token_ids, mask)
        output = x * ops.expand_dims(ops.cast(weights, x.dtype), 2)
        collector = active_collector()
        if collector is not None:
            collector._add(self, "weighting", weights)
        return (output, weights) if return_attention_scores else output

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, without the initial weights."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "activation": self.activation,
        }
