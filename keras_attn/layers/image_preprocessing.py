"""Resizing and scaling of images."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.masked_layer import check_positive
from keras_attn.ops.masks import static_shape

SCALINGS = {
    # Order of the channels, mean and standard deviation, for pixels from 0 to 255.
    "none": ((0, 1, 2), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "tf": ((0, 1, 2), (127.5, 127.5, 127.5), (127.5, 127.5, 127.5)),
    "torch": ((0, 1, 2), (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
    "caffe": ((2, 1, 0), (103.939, 116.779, 123.68), (1.0, 1.0, 1.0)),
}


@keras.saving.register_keras_serializable(package="keras_attn")
class ImagePreprocessing(keras.layers.Layer):
    """Resizes images and scales their pixels inside the graph.

        output = (resize(x)[..., order] - mean) / std

    `scaling` sets the order of the channels, the mean and the standard deviation, like the modes of
    `keras.applications.imagenet_utils.preprocess_input`, for RGB pixels from 0 to 255: `"none"` (no
    change); `"tf"` (-1 to 1); `"torch"` (ImageNet's mean and standard deviation, as in DenseNet and
    torchvision); or `"caffe"` (BGR minus ImageNet's mean, as in VGG and ResNet).

    Resizing is bilinear, with antialiasing when an image becomes smaller, as in Pillow. It is
    computed by two matrix products, which give the same results on every backend and under XLA. The
    image is stretched to the new size, so each region of the output covers the same share of the
    image.

    Shapes: x `(B, H, W, 3)`, any H and W, to `(B, rows, columns, 3)`.

    Masking: none.

    Args:
        image_size: `(rows, columns)`, or one number for both.
        scaling: `"none"`, `"tf"`, `"torch"` or `"caffe"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, H, W, 3)`, integers or floats from 0 to 255.

    Returns:
        Images `(B, rows, columns, 3)` in the compute dtype of the layer.

    Raises:
        ValueError: If a setting is unknown or out of range, or an input has the wrong shape.

    Example:

    >>> layer = ImagePreprocessing(image_size=(1, 4), scaling="tf")
    >>> black_and_white = ops.convert_to_tensor([[[[0, 0, 0], [255, 255, 255]]]])
    >>> ops.convert_to_numpy(layer(black_and_white))[0, 0, :, 0].tolist()
    [-1.0, -0.5, 0.5, 1.0]
    """

    def __init__(self, image_size: int | Sequence[int], *, scaling: str = "none", **kwargs):
        super().__init__(autocast=False, **kwargs)  # resizing is done in float32
        self.image_size = as_image_size(image_size, "ImagePreprocessing")
        if scaling not in SCALINGS:
            raise ValueError(
                f"`scaling` of ImagePreprocessing must be one of {list(SCALINGS)}. "
                f"Received: {scaling!r}."
            )
        self.scaling = scaling

    def build(self, x_shape: Shape):
        """Raises a ValueError if the input is not `(B, H, W, 3)`."""
        if len(x_shape) != 4 or x_shape[-1] != 3:
            raise ValueError(
                "`x` of ImagePreprocessing must be images of shape (B, H, W, 3), channels last. "
                f"Received: shape {tuple(x_shape)}."
            )
        self.input_spec = keras.layers.InputSpec(ndim=4, axes={3: 3})

    def call(self, x: Tensor):
        """Resizes images `(B, H, W, 3)` to `(B, rows, columns, 3)`, and scales pixels."""
        x = ops.cast(x, "float32")
        order, mean, std = SCALINGS[self.scaling]
        if static_shape(x)[1:3] != self.image_size:
            rows, columns = self.image_size
            x = ops.einsum("rh,bhwc->brwc", _averages(ops.sum(x, axis=(0, 2, 3)), rows), x)
            x = ops.einsum("vw,brwc->brvc", _averages(ops.sum(x, axis=(0, 1, 3)), columns), x)
        x = ops.stack([x[..., i] for i in order], axis=-1) if order != (0, 1, 2) else x
        if self.scaling != "none":
            x = (x - ops.convert_to_tensor(mean, "float32")) / ops.convert_to_tensor(std, "float32")
        return ops.cast(x, self.compute_dtype)

    def compute_output_shape(self, x_shape: Shape):
        """Returns the shape `(B, rows, columns, 3)` of the output."""
        return (x_shape[0], *self.image_size, x_shape[-1])

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "image_size": list(self.image_size),
            "scaling": self.scaling,
        }


def as_image_size(image_size: int | Sequence[int], owner: str) -> tuple[int, int]:
    """Returns an image size as `(rows, columns)`."""
    size = tuple(image_size) if isinstance(image_size, Sequence) else (image_size,) * 2
    if len(size) != 2 or isinstance(image_size, str):
        raise ValueError(
            f"`image_size` of {owner} must be (rows, columns) or one number. "
            f"Received: {image_size!r}."
        )
    for number in size:
        check_positive(owner, image_size=number)
    return int(size[0]), int(size[1])


def _averages(line: Tensor, size: int) -> Tensor:
    """Matrix (size, S) whose rows are the weights of the S old pixels in each new one.

    Only the length of `line` `(S,)` is used, which may be unknown when a graph is built.
    """
    old = ops.cumsum(ops.ones_like(line)) - 0.5  # (S,) centers of the pixels
    length = ops.sum(ops.ones_like(line))
    new = (ops.arange(size, dtype="float32") + 0.5) * (length / size)
    reach = ops.maximum(length / size, 1.0)
    weights = ops.relu(1.0 - ops.abs(old - ops.expand_dims(new, 1)) / reach)
    return weights / ops.sum(weights, axis=1, keepdims=True)
