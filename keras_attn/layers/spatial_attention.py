"""Spatial attention by a convolution."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Initializer, Shape, Tensor
from keras_attn.layers.image_layer import ImageGate
from keras_attn.layers.masked_layer import check_positive, cloned
from keras_attn.ops.summaries import maximum_over


@keras.saving.register_keras_serializable(package="keras_attn")
class SpatialAttention(ImageGate):
    """Attention to the positions in an image: "where" to look (CBAM, Woo et al., 2018, equation 3).

        maps   = [average of x over channels; maximum of x over channels]   (B, H, W, 2)
        gates  = sigmoid(convolution(maps, K) + b)                          (B, H, W)
        output = x * gates                                                  (B, H, W, C)

    This is the formula of the paper. The authors' code has a batch normalization before the
    sigmoid, and the maximum before the average; consider both when you load weights from that code.

    Gates are not normalized by a softmax. Each gate is between 0 and 1, and `collect_attention`
    does not collect them.

    Shapes: x `(B, H, W, C)` to `(B, H, W, C)`, any H and W; `(B, C, H, W)` with channels first.

    Masking: none. Resize images instead of padding them; Keras warns if `x` has a mask.

    Args:
        kernel_size: Rows and columns of the kernel K; odd.
        use_bias: Whether to use the bias b.
        kernel_initializer: Initializer of K.
        bias_initializer: Initializer of b.
        data_format: `"channels_last"` or `"channels_first"`; the Keras setting if None.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, H, W, C)`; `(B, C, H, W)` with channels first.
        return_attention_scores: Whether to also return the gates.

    Returns:
        The output in the shape of `x` or, if `return_attention_scores` is True, `(output, gates)`
        with gates `(B, H, W)`.

    Raises:
        ValueError: If a setting is unknown or out of range, or an input has the wrong shape.

    Example:

    >>> layer = SpatialAttention(kernel_size=3)
    >>> output, gates = layer(ops.ones((2, 5, 7, 8)), return_attention_scores=True)
    >>> tuple(output.shape), tuple(gates.shape)
    ((2, 5, 7, 8), (2, 5, 7))
    """

    def __init__(
        self,
        *,
        kernel_size: int = 7,
        use_bias: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        data_format: str | None = None,
        **kwargs,
    ):
        super().__init__(data_format=data_format, **kwargs)
        check_positive("SpatialAttention", kernel_size=kernel_size)
        if kernel_size % 2 == 0:
            raise ValueError(
                f"`kernel_size` of SpatialAttention must be odd. Received: {kernel_size!r}."
            )
        self.kernel_size = kernel_size
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, x_shape: Shape):
        """Creates the convolution from two maps to one."""
        self._check_input(x_shape)
        self.convolution = keras.layers.Conv2D(
            1,
            self.kernel_size,
            padding="same",
            data_format="channels_last",  # the maps, not `x`
            use_bias=self.use_bias,
            kernel_initializer=cloned(self.kernel_initializer),
            bias_initializer=cloned(self.bias_initializer),
            dtype=self.dtype_policy,
            name="convolution",
        )
        rows, columns = (x_shape[axis] for axis in self.axes)
        self.convolution.build((x_shape[0], rows, columns, 2))

    def call(self, x: Tensor, *, return_attention_scores: bool = False):
        """Multiplies each position of `x` `(B, H, W, C)` by its gate."""
        average = ops.mean(x, axis=self.channel_axis)
        maps = ops.stack([average, maximum_over(x, self.channel_axis)], axis=-1)
        gates = ops.cast(ops.sigmoid(self.convolution(maps)), x.dtype)
        gates = gates[..., 0]  # not squeezed: TensorFlow gives an empty batch other channels
        output = x * ops.expand_dims(gates, self.channel_axis)
        return (output, gates) if return_attention_scores else output

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
