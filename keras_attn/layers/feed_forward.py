"""Position-wise feed-forward network of Transformer blocks."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Activation, Shape, Tensor
from keras_attn.layers.activations import activation as get_activation
from keras_attn.layers.activations import activation_config
from keras_attn.layers.dense_layer import DenseLayer
from keras_attn.layers.dropout import Dropout
from keras_attn.layers.flattening import flat
from keras_attn.layers.masked_layer import (
    check_mask,
    check_positive,
    check_rate,
)


@keras.saving.register_keras_serializable(package="keras_attn")
class FeedForward(DenseLayer):
    """Position-wise feed-forward network (Vaswani et al., 2017, section 3.3).

        output = dropout(activation(x W1 + b1)) W2 + b2

    If `gated` is True, the hidden layer is a gated linear unit (Shazeer, 2020):

        output = dropout(activation(x Wg + bg) * (x W1 + b1)) W2 + b2

    The name of this network is SwiGLU with `activation="silu"`, GEGLU with "gelu", ReGLU with
    "relu", and GLU with "sigmoid". Wg and W1 are stored as one kernel `(D, 2 intermediate_dim)`, Wg
    first. The gate increases the number of weights by half; reduce `intermediate_dim` to two thirds
    to keep the number of weights.

    Shapes: x `(..., D)` to `(..., D)`.

    Masking: each position is computed independently; the output keeps the mask of `x`.

    Args:
        intermediate_dim: Width of the hidden layer.
        activation: Activation of the hidden layer, or of the gate if `gated` is True.
        dropout: Dropout rate of the hidden units.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        kernel_regularizer: Regularizer of the kernels.
        bias_regularizer: Regularizer of the biases.
        kernel_constraint: Constraint of the kernels, each a matrix (inputs, outputs).
        bias_constraint: Constraint of the biases.
        seed: Seed of the dropout.
        gated: Whether the hidden layer is multiplied by a gate.
        use_bias: Whether to use biases.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(..., D)`.
        mask: Mask `(...)` of the output; the mask of `x` if None.
        training: Whether dropout is active.

    Returns:
        The output `(..., D)`.

    Raises:
        ValueError: If a setting is out of range or unknown, the width D is unknown, or a mask has
            the wrong shape or floats.

    Example:

    >>> tuple(FeedForward(intermediate_dim=32)(keras.ops.ones((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        intermediate_dim: int,
        *,
        activation: Activation = "relu",
        dropout: float = 0.0,
        seed: int | None = None,
        gated: bool = False,
        use_bias: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive("FeedForward", intermediate_dim=intermediate_dim)
        check_rate("FeedForward", dropout=dropout)
        self.intermediate_dim = intermediate_dim
        self.activation = get_activation(activation)
        self.dropout = dropout
        self.seed = seed
        self.gated = gated
        self.use_bias = use_bias

    def build(self, x_shape: Shape):
        """Creates the two projections for inputs of width D."""
        if x_shape[-1] is None:
            raise ValueError(
                f"The last axis of the input of FeedForward must be known. Received: {x_shape}."
            )
        if self.gated:
            self.hidden_dense = self._dense(2 * self.intermediate_dim, "hidden")
        else:
            self.hidden_dense = self._dense(
                self.intermediate_dim, "hidden", activation=self.activation
            )
        self.output_dense = self._dense(x_shape[-1], "output")
        self.dropout_layer = Dropout(
            self.dropout, seed=self.seed, dtype=self.dtype_policy, name="dropout"
        )
        self.hidden_dense.build(x_shape)
        self.output_dense.build((*x_shape[:-1], self.intermediate_dim))

    def _dense(self, units: int, name: str, **settings: Any) -> keras.layers.Dense:
        return super()._dense(units, name, use_bias=self.use_bias, **settings)

    def call(self, x: Tensor, *, mask: Tensor | None = None, training: bool | None = None):
        """Applies the network to each position of `x` `(..., D)`."""
        if mask is not None:
            check_mask(mask, x, axes=len(x.shape) - 1)
            x = ops.copy(x)  # else `Dense` keeps the mask of `x`, not the explicit one
        hidden = flat(self.hidden_dense, x)
        if self.gated:
            gate, hidden = ops.split(hidden, 2, axis=-1)
            hidden = self.activation(gate) * hidden
        return flat(self.output_dense, self.dropout_layer(hidden, training=training))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": activation_config(self.activation),
            "dropout": self.dropout,
            "seed": self.seed,
            "gated": self.gated,
            "use_bias": self.use_bias,
        }
