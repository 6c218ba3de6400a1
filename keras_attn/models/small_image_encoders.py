"""Image encoders that are trained from random weights."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_attn.hints import DType, Tensor
from keras_attn.layers import (
    CBAM,
    ChannelAttention,
    Dropout,
    LearnedPositionalEncoding,
    SpatialAttention,
    TransformerEncoder,
)
from keras_attn.layers.masked_layer import check_positive, check_rate
from keras_attn.models.image_encoder import ImageEncoder, as_regions, begin_encoder

IMAGE_ATTENTION = ("channel", "spatial", "cbam")


def small_cnn_encoder(
    image_size: int | Sequence[int] = 64,
    filters: Sequence[int] = (32, 64, 128, 256),
    attention: str | None = None,
    reduction: int | None = None,
    kernel_size: int | None = None,
    dropout: float = 0.0,
    dtype: DType = None,
    name: str = "small_cnn_encoder",
) -> ImageEncoder:
    """Creates a small residual network (He et al., 2016), optionally with attention in each stage.

    Each stage halves rows and columns, rounded up:

        x = relu(norm(convolution of stride 2(x)))
        y = norm(convolution(relu(norm(convolution(x)))))
        x = relu(x + attention(y))

    Args:
        image_size: Rows and columns to which images are resized, or one number.
        filters: Number of channels of each stage; the last one is the width D of the regions.
        attention: Attention of each stage: `"channel"` (squeeze-and-excitation), `"spatial"`, or
            `"cbam"` (both); without attention if None.
        reduction: Number of channels for each hidden unit of the channel attention, at most the
            smallest of `filters`; 16 if None.
        kernel_size: Rows and columns of the kernel of the spatial attention; 7 if None.
        dropout: Fraction of the channels of each region set to zero in training.
        dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
        name: Name of the model.

    Returns:
        An `ImageEncoder`, which scales pixels to the range from -1 to 1.

    Raises:
        ValueError: If `attention` is unknown, a setting is out of range, `reduction` or
            `kernel_size` is given without an attention that uses it, or Keras is not set to
            channels last.

    Example:

    >>> encoder = small_cnn_encoder(32, filters=(8, 16, 16), attention="cbam", reduction=4)
    >>> encoder.grid, tuple(encoder(keras.ops.ones((2, 32, 32, 3))).shape)
    ((4, 4), (2, 16, 16))
    """
    owner = "small_cnn_encoder"
    if attention is not None and attention not in IMAGE_ATTENTION:
        raise ValueError(
            f"`attention` of {owner} must be one of {list(IMAGE_ATTENTION)} or None. Received: "
            f"{attention!r}."
        )
    for option, value, users in (
        ("reduction", reduction, ("channel", "cbam")),
        ("kernel_size", kernel_size, ("spatial", "cbam")),
    ):
        if value is not None and attention not in users:
            raise ValueError(
                f"`{option}` of {owner} is only used with "
                f"attention={' or '.join(map(repr, users))}. Received: {option}={value!r} "
                f"with attention={attention!r}."
            )
    reduction = 16 if reduction is None else reduction
    kernel_size = 7 if kernel_size is None else kernel_size
    if not isinstance(filters, Sequence) or not filters:
        raise ValueError(f"`filters` of {owner} must be positive integers. Received: {filters!r}.")
    for width in filters:
        check_positive(owner, filters=width)
    check_rate(owner, dropout=dropout)
    images, x = begin_encoder(image_size, "tf", owner, dtype)
    for i, width in enumerate(filters):
        x = _convolution(x, width, 2, f"stage_{i}_down", dtype)
        y = _convolution(x, width, 1, f"stage_{i}_first", dtype)
        y = _convolution(y, width, 1, f"stage_{i}_second", dtype, activation=False)
        y = _attend(y, attention, reduction, kernel_size, f"stage_{i}_attention", dtype)
        x = keras.layers.Add(dtype=dtype, name=f"stage_{i}_add")([x, y])
        x = keras.layers.ReLU(dtype=dtype, name=f"stage_{i}_relu")(x)
    x = Dropout(dropout, dtype=dtype, name="dropout")(as_regions(x, dtype))
    return ImageEncoder(images, x, name=name)


def _convolution(
    x: Tensor, width: int, strides: int, name: str, dtype: DType, activation: bool = True
) -> Tensor:
    # Of even width with a stride: else, on even sizes, a cell looks half a cell down and right.
    x = keras.layers.Conv2D(
        width, 4 if strides == 2 else 3, strides, padding="same", use_bias=False, dtype=dtype,
        name=name,
    )(x)  # fmt: skip
    # Keras' own momentum of 0.99 takes 500 steps to forget where it began: whole runs, here.
    x = keras.layers.BatchNormalization(momentum=0.9, dtype=dtype, name=f"{name}_norm")(x)
    return keras.layers.ReLU(dtype=dtype, name=f"{name}_relu")(x) if activation else x


def _attend(
    x: Tensor, attention: str | None, reduction: int, kernel_size: int, name: str, dtype: DType
) -> Tensor:
    settings: dict[str, Any] = {"dtype": dtype, "name": name}
    if attention == "channel":
        return ChannelAttention(reduction=reduction, **settings)(x)
    if attention == "spatial":
        return SpatialAttention(kernel_size=kernel_size, **settings)(x)
    if attention == "cbam":
        return CBAM(reduction=reduction, kernel_size=kernel_size, **settings)(x)
    return x


def check_patches(
    owner: str, image_size: Sequence[int], patch_size: int, dim: int, num_heads: int
) -> None:
    """Raises a ValueError if patches do not divide the image, or heads the width."""
    if dim % num_heads:
        raise ValueError(
            f"The width of {owner} must be divisible by the number of heads. Received: width "
            f"{dim} and {num_heads} heads."
        )
    if any(size % patch_size for size in image_size):
        raise ValueError(
            f"`image_size` of {owner} must be divisible by `patch_size`. Received: "
            f"image_size={tuple(image_size)}, patch_size={patch_size}."
        )


def patch_encoder(
    image_size: int | Sequence[int] = 64,
    patch_size: int = 8,
    num_layers: int = 4,
    dim: int = 128,
    num_heads: int = 4,
    intermediate_dim: int = 512,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
    activation: str = "gelu",
    normalize_first: bool = True,
    dtype: DType = None,
    name: str = "patch_encoder",
) -> ImageEncoder:
    """Creates an image encoder with a Transformer over patches (ViT, Dosovitskiy et al., 2021).

        x       = patches W + b                                  (B, R, D)
        regions = TransformerEncoder(dropout(x + positions))     (B, R, D)

    R is the number of patches, W and b are weights, and the positions are learned. There is no
    class token. `attention_maps(encoder, images)` returns the attention between patches.

    Args:
        image_size: Rows and columns to which images are resized, or one number; multiples of
            `patch_size`.
        patch_size: Rows and columns of a patch.
        num_layers: Number of blocks.
        dim: Width D.
        num_heads: Number of attention heads.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        dropout: Dropout of embeddings and sublayers.
        attention_dropout: Dropout of the attention weights.
        activation: Activation of the feed-forward networks.
        normalize_first: Whether to use pre-norm instead of post-norm.
        dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
        name: Name of the model.

    Returns:
        An `ImageEncoder`, which scales pixels to the range from -1 to 1.

    Raises:
        ValueError: If a setting is out of range, `patch_size` does not divide `image_size`,
            `num_heads` does not divide `dim`, or Keras is not set to channels last.

    Example:

    >>> encoder = patch_encoder((16, 24), patch_size=8, num_layers=1, dim=12, num_heads=2)
    >>> encoder.grid, tuple(encoder(keras.ops.ones((1, 40, 40, 3))).shape)
    ((2, 3), (1, 6, 12))
    """
    check_positive("patch_encoder", patch_size=patch_size, dim=dim, num_heads=num_heads)
    check_rate("patch_encoder", dropout=dropout)
    images, x = begin_encoder(image_size, "tf", "patch_encoder", dtype)
    check_patches("patch_encoder", x.shape[1:3], patch_size, dim, num_heads)
    x = keras.layers.Conv2D(dim, patch_size, patch_size, dtype=dtype, name="patches")(x)
    x = as_regions(x, dtype)
    x = LearnedPositionalEncoding(x.shape[1], dtype=dtype, name="positions")(x)
    x = Dropout(dropout, dtype=dtype, name="embedding_dropout")(x)
    x = TransformerEncoder(
        num_layers,
        num_heads,
        intermediate_dim=intermediate_dim,
        dropout=dropout,
        attention_dropout=attention_dropout,
        activation=activation,
        normalize_first=normalize_first,
        dtype=dtype,
        name="encoder",
    )(x)
    return ImageEncoder(images, x, name=name)
