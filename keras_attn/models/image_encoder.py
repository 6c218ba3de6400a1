"""Base class of image encoders, which map images to regions."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import keras

from keras_attn.hints import DType, Tensor
from keras_attn.images.feature_cache import encoder_fingerprint
from keras_attn.layers.image_preprocessing import ImagePreprocessing, as_image_size

_PREPROCESS, _REGIONS = "preprocess", "regions"
_UNIMPORTANT = ("trainable", "shared_object_id", "build_config", "compile_config", "seed")


@keras.saving.register_keras_serializable(package="keras_attn")
class ImageEncoder(keras.Model):
    """A functional model from images `(B, H, W, 3)` to regions `(B, R, D)`.

    Images may have any size, with RGB values from 0 to 255, `uint8` or floats; the graph resizes
    and scales them. Region `r` is at row `r // columns` and column `r % columns` of a `grid` that
    covers the whole image.

    Create an encoder with `applications_encoder`, `encoder_from_model`, `small_cnn_encoder` or
    `patch_encoder`. It is saved, loaded and trained like any functional Keras model: to freeze the
    weights, set `encoder.trainable = False`.

    Example:

    >>> encoder = small_cnn_encoder(image_size=32, filters=(8, 16))
    >>> regions = encoder(keras.ops.ones((2, 50, 60, 3)))
    >>> encoder.image_size, encoder.grid, tuple(regions.shape)
    ((32, 32), (8, 8), (2, 64, 16))
    """

    @property
    def preprocess(self) -> ImagePreprocessing:
        """The layer that resizes and scales images."""
        return self.get_layer(_PREPROCESS)

    @property
    def image_size(self) -> tuple[int, int]:
        """Rows and columns to which images are resized."""
        return self.preprocess.image_size

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the regions."""
        return tuple(self.get_layer(_REGIONS).input.shape[1:3])

    @property
    def num_regions(self) -> int:
        """Number R of regions."""
        return self.output_shape[1]

    @property
    def region_dim(self) -> int:
        """Width D of a region."""
        return self.output_shape[2]

    def fingerprint(self) -> dict[str, Any]:
        """Returns a description of the encoder, for the key of a `keras_attn.images.FeatureCache`.

        Returns:
            A JSON-compatible dict with `name`, `image_size`, `scaling`, `grid`, `region_dim`,
            `dtype`, `layers` (a digest of all layers with their settings) and `weights` (the
            `encoder_fingerprint`). The dict is the same after the encoder is saved and loaded.
        """
        layers = json.dumps(_without_names(keras.saving.serialize_keras_object(self)))
        return {
            "name": self.name,
            "image_size": list(self.image_size),
            "scaling": self.preprocess.scaling,
            "grid": list(self.grid),
            "region_dim": self.region_dim,
            "dtype": keras.backend.standardize_dtype(self.output.dtype),
            "layers": hashlib.sha256(layers.encode()).hexdigest()[:16],
            "weights": encoder_fingerprint(self),
        }


def _without_names(config: object) -> object:
    """Removes names from the serialized config of a model, since they do not change its outputs.

    Automatic names contain numbers that count up through a process.
    """
    numbers: dict[str, str] = {}

    def collect(value: object) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("name"), str):
                numbers.setdefault(value["name"], f"layer {len(numbers)}")
            for item in value.values():
                collect(item)
        elif isinstance(value, list | tuple):
            for item in value:
                collect(item)

    def strip(value: object) -> object:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in sorted(value.items()) if k not in _UNIMPORTANT}
        if isinstance(value, list | tuple):
            return [strip(item) for item in value]
        return numbers.get(value, value) if isinstance(value, str) else value

    collect(config)
    return strip(config)


def begin_encoder(
    image_size: int | Sequence[int], scaling: str, owner: str, dtype: DType = None
) -> tuple[Tensor, Tensor]:
    """Returns symbolic images, and the resized and scaled images that the network reads."""
    if keras.config.image_data_format() != "channels_last":
        raise ValueError(
            f"{owner} requires pictures with channels last. Received: Keras set to "
            f"{keras.config.image_data_format()!r}. Call "
            "keras.config.set_image_data_format('channels_last') first."
        )
    image_size = as_image_size(image_size, owner)
    images = keras.Input((None, None, 3), dtype="float32", name="images")
    return images, ImagePreprocessing(image_size, scaling=scaling, dtype=dtype, name=_PREPROCESS)(
        images
    )


def as_regions(features: Tensor, dtype: DType = None) -> Tensor:
    """Converts a feature map `(B, rows, columns, D)` to regions `(B, R, D)`."""
    _, rows, columns, width = features.shape
    reshape = keras.layers.Reshape((rows * columns, width), dtype=dtype, name=_REGIONS)
    return reshape(features)
