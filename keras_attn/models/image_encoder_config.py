"""Settings of an image encoder."""

from __future__ import annotations

import dataclasses
import os

from keras_attn.hints import DType
from keras_attn.models.image_encoder import ImageEncoder
from keras_attn.models.image_encoders import APPLICATIONS, applications_encoder
from keras_attn.models.small_image_encoders import (
    IMAGE_ATTENTION,
    check_patches,
    patch_encoder,
    small_cnn_encoder,
)
from keras_attn.settings import Settings, setting

SMALL_ENCODERS = ("small-cnn", "patches")
_IMAGE_SIZE = 64
ENCODERS = (*SMALL_ENCODERS, *APPLICATIONS)
_OWNERS = {
    "small-cnn": ("filters", "image_attention"),
    "patches": ("patch_size", "patch_layers", "patch_dim", "patch_heads"),
}


@dataclasses.dataclass(frozen=True)
class ImageEncoderConfig(Settings):
    """Settings of an `ImageEncoder`: the network, its weights and the size of images.

    Settings of encoders other than the chosen one must keep their defaults.

    Args:
        encoder: `"small-cnn"` (see `small_cnn_encoder`), `"patches"` (see `patch_encoder`), or the
            name of a network of `keras.applications` (see `applications_encoder`).
        encoder_weights: For networks of `keras.applications`: the path of a file of weights, or
            `"none"` for random weights. If empty, ImageNet weights are downloaded.
        train_encoder: Whether the encoder is trained: `"yes"`, `"no"` or `"auto"`, which trains it
            if its weights are random.
        image_size: Rows and columns to which images are resized. If None, 64 for `"small-cnn"` and
            `"patches"`, and the usual size of a network of `keras.applications`.
        encoder_dropout: Dropout rate of `"small-cnn"` (of the regions) or `"patches"` (of the
            embeddings and sublayers).
        filters: Numbers of channels of the stages of `"small-cnn"`, separated by commas. Each stage
            halves rows and columns.
        image_attention: Attention in each stage of `"small-cnn"`: `"none"`, `"channel"`,
            `"spatial"` or `"cbam"`.
        patch_size: Rows and columns of a patch; they must divide `image_size`.
        patch_layers: Number of blocks of `"patches"`.
        patch_dim: Width of `"patches"`; the feed-forward networks are 4 times as wide.
        patch_heads: Number of attention heads of `"patches"`, which must divide `patch_dim`.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, belongs to another
            encoder, or is `train_encoder="no"` for an encoder with random weights; or if patches do
            not divide the image, or heads the width.

    Example:

    >>> ImageEncoderConfig("patches", image_size=32).build().grid
    (4, 4)
    """

    encoder: str = setting("small-cnn", "image encoder", choices=ENCODERS)
    encoder_weights: str = setting(
        "", "weights of an encoder of keras.applications: a file, or none for random weights; "
        "if empty, ImageNet weights are downloaded", shapes_result=False,
    )  # fmt: skip
    train_encoder: str = setting(
        "auto", "train the encoder too; auto does so if its weights are random",
        choices=("auto", "yes", "no"),
    )  # fmt: skip
    image_size: int | None = setting(
        None, "rows and columns to which images are resized; if none, the encoder's usual size",
        kind=int, at_least=1,
    )  # fmt: skip
    encoder_dropout: float = setting(
        0.0, "small-cnn, patches: dropout rate of the encoder", at_least=0, below=1
    )
    filters: str = setting(
        "32,64,128,256", "small-cnn: channels of each stage, which halves the rows and columns"
    )
    image_attention: str = setting(
        "none", "small-cnn: attention within the network", choices=("none", *IMAGE_ATTENTION)
    )
    patch_size: int = setting(8, "patches: rows and columns of a patch", at_least=1)
    patch_layers: int = setting(4, "patches: Transformer blocks", at_least=1)
    patch_dim: int = setting(128, "patches: width", at_least=1)
    patch_heads: int = setting(4, "patches: attention heads", at_least=1)

    def __post_init__(self):
        super().__post_init__()
        for kind, names in _OWNERS.items():
            self._refuse(names, self.encoder != kind, f"encoder={kind!r}")
        small = self.encoder in SMALL_ENCODERS
        self._refuse(("encoder_dropout",), not small, "encoder='small-cnn' or 'patches'")
        self._refuse(("encoder_weights",), small, "an encoder of keras.applications")
        if self.train_encoder == "no" and self.has_random_weights:
            raise ValueError(
                "train_encoder='no' requires an encoder that is already trained. Received: "
                f"train_encoder='no' with encoder={self.encoder!r}, which has random weights."
            )
        if self.encoder == "small-cnn":
            _ = self.filter_numbers
        if self.encoder == "patches":
            size = self.image_size or _IMAGE_SIZE
            numbers = self.patch_size, self.patch_dim, self.patch_heads
            check_patches(type(self).__name__, (size, size), *numbers)

    def _refuse(self, names: tuple[str, ...], where: bool, owner: str) -> None:
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        given = [name for name in names if where and getattr(self, name) != defaults[name]]
        if given:
            raise ValueError(
                f"{' and '.join(f'`{name}`' for name in given)} can only be used with "
                f"{owner}. Received: encoder={self.encoder!r}."
            )

    @property
    def filter_numbers(self) -> tuple[int, ...]:
        """The setting `filters` as a tuple of numbers."""
        parts = [part.strip() for part in self.filters.split(",")]
        if not all(part.isdecimal() and int(part) for part in parts):
            raise ValueError(
                "`filters` must be positive integers with commas between them. Received: "
                f"{self.filters!r}."
            )
        return tuple(map(int, parts))

    @property
    def has_random_weights(self) -> bool:
        """Whether the encoder is trained from random weights."""
        return self.encoder in SMALL_ENCODERS or self.encoder_weights == "none"

    @property
    def is_trained(self) -> bool:
        """Whether the encoder is trained, from random or from pretrained weights."""
        return self.has_random_weights or self.train_encoder == "yes"

    def build(self, dtype: DType = None) -> ImageEncoder:
        """Builds the image encoder that these settings describe.

        Args:
            dtype: Dtype or policy of the layers of `"small-cnn"` and `"patches"`. Encoders of
                `keras.applications` have Keras' global policy.

        Returns:
            An `ImageEncoder`.

        Raises:
            DownloadError: If weights cannot be downloaded.
            ValueError: If the encoder does not support the image size, the weights file does not
                exist, or Keras is not set to channels last.
        """
        if self.encoder == "small-cnn":
            filters, attention = self.filter_numbers, self.image_attention
            return small_cnn_encoder(
                self.image_size or _IMAGE_SIZE,
                filters,
                None if attention == "none" else attention,
                min(16, *filters) if attention in ("channel", "cbam") else None,
                dropout=self.encoder_dropout,
                dtype=dtype,
            )
        if self.encoder == "patches":
            return patch_encoder(
                self.image_size or _IMAGE_SIZE,
                self.patch_size,
                self.patch_layers,
                self.patch_dim,
                self.patch_heads,
                4 * self.patch_dim,
                self.encoder_dropout,
                dtype=dtype,
            )
        weights = os.path.expanduser(self.encoder_weights)
        chosen = None if weights == "none" else weights or "imagenet"
        return applications_encoder(self.encoder, chosen, self.image_size)
