"""Base class of layers with `Dense` sublayers: initializers, regularizers and constraints."""

from typing import Any

import keras

from keras_attn.hints import Constraint, Initializer, Regularizer
from keras_attn.layers.masked_layer import MaskedLayer, cloned


class DenseLayer(MaskedLayer):
    """Base class of layers that pass initializers, regularizers and constraints to sublayers."""

    def __init__(
        self,
        *,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)

    def _weight_settings(self) -> dict[str, Any]:
        """The settings of the weights, as arguments of one sublayer."""
        return {
            "kernel_initializer": cloned(self.kernel_initializer),
            "bias_initializer": cloned(self.bias_initializer),
            "kernel_regularizer": self.kernel_regularizer,
            "bias_regularizer": self.bias_regularizer,
            "kernel_constraint": self.kernel_constraint,
            "bias_constraint": self.bias_constraint,
        }

    def _dense(self, units: int, name: str, **settings: Any) -> keras.layers.Dense:
        return keras.layers.Dense(
            units, **self._weight_settings(), dtype=self.dtype_policy, name=name, **settings
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
        }
