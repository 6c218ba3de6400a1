"""Images on which attention is drawn."""

import base64
import io
import os
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from keras_attn.images import load_image
from keras_attn.images.loading import pillow_image

Picture: TypeAlias = str | os.PathLike[str] | bytes | npt.ArrayLike
"""A path, the bytes of a file, or an array `(H, W, 3)` with values from 0 to 255."""

_LONGEST = 640
_SMALL = 160


def as_image(image: Picture) -> np.ndarray:
    """Reads an image from a path, bytes or an array, and returns it as uint8 `(H, W, 3)`."""
    if isinstance(image, str | os.PathLike | bytes):
        return load_image(image)
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[2] != 3 or not image.size or image.dtype.kind not in "uif":
        raise ValueError(
            "`image` must be a path, the bytes of a picture, or an array (H, W, 3) of 0 to 255. "
            f"Received: shape {image.shape}, dtype {image.dtype}."
        )
    if image.dtype == np.uint8:
        return image.copy()
    if not (np.isfinite(image).all() and image.min() >= 0 and image.max() <= 255):
        raise ValueError(
            "`image` must be numbers from 0 to 255. Received: values from "
            f"{image.min()} to {image.max()}."
        )
    return np.round(image).astype("uint8")


def shrunk(image: np.ndarray) -> np.ndarray:
    """Reduces a large image to at most 640 pixels in width and height."""
    height, width = image.shape[:2]
    if max(height, width) <= _LONGEST:
        return image
    share = _LONGEST / max(height, width)
    size = (max(1, round(width * share)), max(1, round(height * share)))
    pillow = pillow_image()
    return np.array(pillow.fromarray(image).resize(size, pillow.Resampling.BILINEAR))


def image_address(image: np.ndarray) -> str:
    """Encodes an image as a `data:` URL, at most 640 pixels wide and high."""
    image = shrunk(image)
    file = io.BytesIO()
    kind = "png" if max(image.shape[:2]) <= _SMALL else "jpeg"
    pillow_image().fromarray(image).save(file, kind, **({} if kind == "png" else {"quality": 88}))
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def spread(weights: np.ndarray, height: int, width: int) -> np.ndarray:
    """Interpolates a map of regions over an image, scaled so that its greatest weight is 1."""
    largest = float(weights.max())
    if largest <= 0:
        return np.zeros((height, width), "float32")
    pillow = pillow_image()
    regions = pillow.fromarray(np.ascontiguousarray(weights / largest, "float32"))
    smooth = regions.resize((width, height), pillow.Resampling.BICUBIC)
    return np.clip(np.asarray(smooth), 0, 1)
