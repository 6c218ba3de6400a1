"""Base class of the layers that attend to images with gates."""

from typing import Any

import keras

from keras_attn.hints import Shape
from keras_attn.layers.arguments import output_spec
from keras_attn.layers.quantization import CompositeLayer

DATA_FORMATS = ("channels_last", "channels_first")


class ImageGate(CompositeLayer):
    """A layer that multiplies an image by gates between 0 and 1.

    `axes` are the axes of rows and columns, `channel_axis` is the axis of the channels.
    """

    def __init__(self, data_format: str | None = None, **kwargs):
        super().__init__(**kwargs)
        data_format = data_format or keras.config.image_data_format()
        if data_format not in DATA_FORMATS:
            raise ValueError(
                f"`data_format` of {type(self).__name__} must be one of {list(DATA_FORMATS)}. "
                f"Received: {data_format!r}."
            )
        self.data_format = data_format
        self.channel_axis = 3 if data_format == "channels_last" else 1
        self.axes = (1, 2) if data_format == "channels_last" else (2, 3)

    def _check_input(self, x_shape: tuple) -> int:
        """Fixes the rank and the number of channels, and returns that number."""
        if len(x_shape) != 4 or x_shape[self.channel_axis] is None:
            shape = "(B, H, W, C)" if self.channel_axis == 3 else "(B, C, H, W)"
            raise ValueError(
                f"`x` of {type(self).__name__} must have shape {shape} with a known number of "
                f"channels C ({self.data_format}). Received: shape {tuple(x_shape)}."
            )
        channels = x_shape[self.channel_axis]
        self.input_spec = keras.layers.InputSpec(ndim=4, axes={self.channel_axis: channels})
        return channels

    def compute_output_shape(self, x_shape: Shape):
        """Returns the shape of the output, which is the shape of the input."""
        return tuple(x_shape)

    def compute_output_spec(self, *args, **kwargs):
        """Traces `call`, so that symbolic outputs include the gates."""
        return output_spec(self, args, kwargs)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {**super().get_config(), "data_format": self.data_format}
