"""Channel attention, such as squeeze-and-excitation."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Activation, Initializer, Shape, Tensor
from keras_attn.layers.image_layer import ImageGate
from keras_attn.layers.masked_layer import check_positive, cloned
from keras_attn.ops.summaries import maximum_over

POOLS = ("average", "max")


@keras.saving.register_keras_serializable(package="keras_attn")
class ChannelAttention(ImageGate):
    """Attention to the channels of an image: "what" to look at, not "where".

        pooled[p] = average, or maximum, of x over rows and columns         (B, C)
        gates     = sigmoid(sum_p (activation(pooled[p] W1 + b1) W2 + b2))  (B, C)
        output    = x * gates                                               (B, H, W, C)

    With only the average, this is squeeze-and-excitation (Hu et al., 2018). With `pools=("average",
    "max")`, the average and the maximum pass through the same two layers, as in the channel module
    of CBAM (Woo et al., 2018). The hidden layer has C / reduction units, rounded down.

    Gates are not normalized by a softmax. Each gate is between 0 and 1, and `collect_attention`
    does not collect them.

    Shapes: x `(B, H, W, C)` to `(B, H, W, C)`, any H and W; `(B, C, H, W)` with channels first.

    Masking: none. Resize images instead of padding them; Keras warns if `x` has a mask.

    Args:
        reduction: Number of channels for each unit of the hidden layer; at most C.
        activation: Activation of the hidden layer.
        pools: `("average",)`, `("max",)` or both.
        use_bias: Whether to use the biases b1 and b2.
        kernel_initializer: Initializer of W1 and W2.
        bias_initializer: Initializer of b1 and b2.
        data_format: `"channels_last"` or `"channels_first"`; the Keras setting if None.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, H, W, C)`; `(B, C, H, W)` with channels first.
        return_attention_scores: Whether to also return the gates.

    Returns:
        The output in the shape of `x` or, if `return_attention_scores` is True, `(output, gates)`
        with gates `(B, C)`.

    Raises:
        ValueError: If a setting is unknown or out of range, or an input has the wrong shape.

    Example:

    >>> layer = ChannelAttention(reduction=2, pools=("average", "max"))
    >>> output, gates = layer(ops.ones((2, 5, 7, 8)), return_attention_scores=True)
    >>> tuple(output.shape), tuple(gates.shape)
    ((2, 5, 7, 8), (2, 8))
    """

    def __init__(
        self,
        *,
        reduction: int = 16,
        activation: Activation = "relu",
        pools: Sequence[str] = ("average",),
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        data_format: str | None = None,
        **kwargs,
    ):
        super().__init__(data_format=data_format, **kwargs)
        check_positive("ChannelAttention", reduction=reduction)
        known = not isinstance(pools, str) and all(pool in POOLS for pool in pools)
        if not known or not pools or len(set(pools)) != len(pools):
            raise ValueError(
                '`pools` of ChannelAttention must be ("average",), ("max",) or ("average", "max"). '
                f"Received: {pools!r}."
            )
        self.reduction = reduction
        self.activation = keras.activations.get(activation)
        self.pools = list(pools)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, x_shape: Shape):
        """Creates the two dense layers for inputs with C channels."""
        channels = self._check_input(x_shape)
        if channels < self.reduction:
            raise ValueError(
                "`reduction` of ChannelAttention must be at most the number of channels. Received: "
                f"reduction={self.reduction}, {channels} channels (shape {tuple(x_shape)})."
            )
        units = channels // self.reduction
        self.hidden_dense = self._dense(units, self.activation, "hidden")
        self.output_dense = self._dense(channels, None, "output")
        self.hidden_dense.build((None, channels))
        self.output_dense.build((None, units))

    def _dense(self, units: int, activation: Activation, name: str) -> keras.layers.Dense:
        return keras.layers.Dense(
            units,
            activation=activation,
            use_bias=self.use_bias,
            kernel_initializer=cloned(self.kernel_initializer),
            bias_initializer=cloned(self.bias_initializer),
            dtype=self.dtype_policy,
            name=name,
        )

    def call(self, x: Tensor, *, return_attention_scores: bool = False):
        """Multiplies each channel of `x` `(B, H, W, C)` by its gate."""
        logits = []
        for pool in self.pools:
            if pool == "average":
                pooled = ops.mean(x, axis=self.axes)
            else:
                pooled = maximum_over(x, self.axes)
            logits.append(self.output_dense(self.hidden_dense(pooled)))
        gates = ops.cast(ops.sigmoid(sum(logits[1:], logits[0])), x.dtype)
        output = x * ops.expand_dims(gates, self.axes)
        return (output, gates) if return_attention_scores else output

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "reduction": self.reduction,
            "activation": keras.activations.serialize(self.activation),
            "pools": self.pools,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
