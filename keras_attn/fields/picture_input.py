"""Images as inputs, in Python and in a TensorFlow graph."""

from __future__ import annotations

import io
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from keras_attn.arrays import Array
from keras_attn.fields.signature import Encode
from keras_attn.images import load_image
from keras_attn.images.loading import MAX_PIXELS
from keras_attn.images.picture_graph import decode_picture, decode_pictures

PIXEL_TOLERANCE = {"png": 1, "jpeg": 4}
"""Maximum difference of pixels from Pillow's, in levels of 255."""


class PictureInput:
    """Converts the bytes of image files to the pixels that an image encoder reads.

    Repeated images are decoded only once.

    Args:
        size: Height and width in pixels, to which images are resized.
        max_pixels: Maximum number of pixels of an image; a larger image raises
            `tf.errors.InvalidArgumentError`.

    Example:

    >>> field = PictureInput((4, 6))
    >>> first, second = field.examples[:2]
    >>> arrays = field.encode([first, second, first])
    >>> arrays["pixels"].shape, arrays["number"].tolist()
    ((2, 4, 6, 3), [0, 1, 0])
    """

    def __init__(self, size: tuple[int, int], max_pixels: int = MAX_PIXELS):
        self.size = size
        self.max_pixels = max_pixels

    @property
    def examples(self) -> list[bytes]:
        """Example files for checking exports: images of several formats and sizes."""
        return example_files(self.size)

    def encode(self, files: Sequence[bytes]) -> dict[str, Array]:
        """Decodes image files with TensorFlow, and compares the pixels with those of Pillow.

        Args:
            files: The bytes of each of the B image files.

        Returns:
            A dict with `pixels`, uint8 `(P, height, width, 3)`, the pixels of the P distinct
            images; and `number`, int32 `(B,)`, the index of each file's image among them.

        Raises:
            tf.errors.InvalidArgumentError: If a file is damaged, not a supported image, or too
                large.
            RuntimeError: If a pixel differs from Pillow's by more than `PIXEL_TOLERANCE`.
        """
        import tensorflow as tf

        numbers = {raw: number for number, raw in enumerate(dict.fromkeys(files))}
        decoded = [decode_picture(tf, raw, self.size, self.max_pixels) for raw in numbers]
        pixels = np.reshape(np.array(decoded, "uint8"), (len(numbers), *self.size, 3))
        for raw, found in zip(numbers, pixels, strict=True):
            kind = "png" if raw.startswith(b"\x89PNG") else "jpeg"
            pillow = load_image(raw, self.size, self.max_pixels).astype("int32")
            difference = int(np.abs(found.astype("int32") - pillow).max())
            if difference > PIXEL_TOLERANCE[kind]:
                raise RuntimeError(
                    f"TensorFlow and Pillow decode a {kind} picture to different pixels. "
                    f"Expected: a difference of at most {PIXEL_TOLERANCE[kind]} out of 255. "
                    f"Received: {difference}."
                )
        return {"pixels": pixels, "number": np.array([numbers[raw] for raw in files], "int32")}

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.

        Returns:
            A function from the bytes of image files, strings `(B,)`, to a dict with `pixels` and
            `number` as in `encode`; and an empty list, because it uses no `tf.Module`s.
        """

        def encode(image):
            different, number = tf.unique(image)
            pixels = decode_pictures(tf, different, self.size, self.max_pixels)
            return {"pixels": pixels, "number": number}

        return encode, []


def example_files(size: tuple[int, int]) -> list[bytes]:
    """Returns the bytes of image files of several formats and sizes."""
    import tensorflow as tf
    from PIL import Image

    files = []
    for seed, (rows, columns, channels) in enumerate(
        [(*size, 3), (*size, 1), (*size, 4), (2 * size[0] + 1, size[1] + 7, 3), (5, 3, 3)]
    ):
        waves = np.arange(rows)[:, None, None] / 7 + np.arange(columns)[None, :, None] / 5
        waves = np.sin(waves + np.arange(channels) * (seed + 1))
        pixels = tf.constant(np.round(127.5 + 127.5 * waves).astype("uint8"))
        files.append(tf.io.encode_png(pixels).numpy())
        if channels != 4:
            kind = "grayscale" if channels == 1 else "rgb"
            files.append(tf.io.encode_jpeg(pixels, kind, quality=90).numpy())
    for colors in (2, 4, 16):  # palettes of 1, 2 and 4 bits
        file = io.BytesIO()
        Image.fromarray(tf.io.decode_png(files[0]).numpy()).quantize(colors).save(file, "png")
        files.append(file.getvalue())
    return files
