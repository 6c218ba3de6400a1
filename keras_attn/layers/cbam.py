"""Convolutional block attention module (CBAM)."""

from typing import Any

import keras

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.channel_attention import ChannelAttention
from keras_attn.layers.image_layer import ImageGate
from keras_attn.layers.spatial_attention import SpatialAttention


@keras.saving.register_keras_serializable(package="keras_attn")
class CBAM(ImageGate):
    """Convolutional block attention module (Woo et al., 2018).

        x'     = ChannelAttention(reduction, pools=("average", "max"))(x)
        output = SpatialAttention(kernel_size)(x')

    In a residual network, use it as the last layer of the branch, before the addition.

    Shapes: x `(B, H, W, C)` to `(B, H, W, C)`, any H and W; `(B, C, H, W)` with channels first.

    Masking: none. Resize images instead of padding them; Keras warns if `x` has a mask.

    Args:
        reduction: Number of channels for each unit of the hidden layer; at most C.
        kernel_size: Rows and columns of the kernel of the spatial attention; odd.
        data_format: `"channels_last"` or `"channels_first"`; the Keras setting if None.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, H, W, C)`; `(B, C, H, W)` with channels first.
        return_attention_scores: Whether to also return the gates.

    Returns:
        The output in the shape of `x` or, if `return_attention_scores` is True, `(output,
        channel_gates, spatial_gates)` with gates `(B, C)` and `(B, H, W)`.

    Raises:
        ValueError: If a setting is unknown or out of range, or an input has the wrong shape.

    Example:

    >>> layer, x = CBAM(reduction=4, kernel_size=3), keras.ops.ones((2, 5, 7, 8))
    >>> output, what, where = layer(x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(what.shape), tuple(where.shape)
    ((2, 5, 7, 8), (2, 8), (2, 5, 7))
    """

    def __init__(
        self,
        *,
        reduction: int = 16,
        kernel_size: int = 7,
        data_format: str | None = None,
        **kwargs,
    ):
        super().__init__(data_format=data_format, **kwargs)
        settings = {"data_format": self.data_format, "dtype": self.dtype_policy}
        self.channel_attention = ChannelAttention(
            reduction=reduction, pools=("average", "max"), name="channel_attention", **settings
        )
        self.spatial_attention = SpatialAttention(
            kernel_size=kernel_size, name="spatial_attention", **settings
        )

    def build(self, x_shape: Shape):
        """Creates the weights of channel and spatial attention."""
        self._check_input(x_shape)
        self.channel_attention.build(x_shape)
        self.spatial_attention.build(x_shape)

    def call(self, x: Tensor, *, return_attention_scores: bool = False):
        """Applies channel attention to `x` `(B, H, W, C)`, then spatial attention."""
        x, what = self.channel_attention(x, return_attention_scores=True)
        x, where = self.spatial_attention(x, return_attention_scores=True)
        return (x, what, where) if return_attention_scores else x

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "reduction": self.channel_attention.reduction,
            "kernel_size": self.spatial_attention.kernel_size,
        }
