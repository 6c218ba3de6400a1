"""Loading and checking of image files."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_attn.images.image_problems import (
    ImageProblem,
    count_image_problems,
    describe_image_problems,
    refuse_image_problems,
)
from keras_attn.input_files import kind_of, read_input
from keras_attn.packages import needed
from keras_attn.records.problems import many
from keras_attn.records.reading import check_on_error, is_integer

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 50_000_000

# Pillow keeps one limit of the number of pixels, for the whole process.
_LIMIT_LOCK = threading.Lock()


def load_image(
    path: str | os.PathLike[str] | bytes | np.ndarray,
    size: int | tuple[int, int] | None = None,
    max_pixels: int = MAX_PIXELS,
) -> np.ndarray:
    """Loads an image as RGB values from 0 to 255, with Pillow.

    Images are converted to RGB:

    | file | array |
    |---|---|
    | grey | three equal channels |
    | 16 bits per channel | 8 bits, by division |
    | transparent (RGBA or palette) | on white |
    | palette, CMYK, YCbCr, Lab | RGB |
    | animated or several pages | the first frame |
    | rotated by its EXIF orientation | upright |

    Args:
        path: The file, the bytes of a file, or a uint8 array: grey `(H, W)`, RGB `(H, W, 3)` or
            RGBA `(H, W, 4)`.
        size: (height, width) to resize to, or one number for both. The aspect ratio is not kept.
            Resizing is bilinear, with antialiasing when the image becomes smaller. Default: the
            original size.
        max_pixels: Maximum number of pixels of an image. Larger images raise an error before they
            are decoded, because a file of a few kilobytes can decode to gigabytes.

    Returns:
        A NumPy array `(H, W, 3)` of uint8, of height H and width W.

    Raises:
        OSError: If the file is missing or cannot be read.
        ValueError: If the file is empty, not an image, truncated, damaged or too large, or has
            pixels of an unknown range (floats or grey values of 32 bits); the message names it. If
            an array has another shape or dtype, or `size` or `max_pixels` is not positive.
        ImportError: If Pillow, from the extra `captioning`, is not installed.

    Example:

    >>> import io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("L", (4, 2), color=255).save(file, "png")
    >>> image = load_image(file.getvalue())
    >>> image.shape, image.dtype.name, image[0, 0].tolist()
    ((2, 4, 3), 'uint8', [255, 255, 255])
    """
    if isinstance(path, bytes):
        return decode_image(path, "the given bytes", size, max_pixels)
    if isinstance(path, np.ndarray):
        return _of_array(path, check_sizes(size, max_pixels), max_pixels)
    return decode_image(read_input(path, "a picture"), os.fspath(path), size, max_pixels)


def decode_image(
    raw: bytes, name: str, size: int | tuple[int, int] | None, max_pixels: int
) -> np.ndarray:
    """Loads an image from bytes like `load_image`; `name` is used in error messages."""
    size = check_sizes(size, max_pixels)
    if not raw:
        raise ValueError(f"{name}: expected a picture. Received: an empty file.")
    image = _open(raw, name, max_pixels)
    try:
        image.load()  # of an animation it is the first frame
        return _pixels(_upright(image), size)
    except MemoryError:
        raise
    except Exception as error:  # decoders raise many kinds on damaged data
        raise ValueError(
            f"{name}: expected a whole picture. Received: one that is cut off or damaged "
            f"({error or type(error).__name__})."
        ) from error


def _pixels(image: Image.Image, size: tuple[int, int] | None) -> np.ndarray:
    image = _as_rgb(image)
    if size is not None and image.size != size[::-1]:
        image = image.resize(size[::-1], pillow_image().Resampling.BILINEAR)
    return np.array(image, dtype="uint8")


def _of_array(image: np.ndarray, size: tuple[int, int] | None, max_pixels: int) -> np.ndarray:
    channels = image.shape[2:]
    if (
        image.dtype != np.uint8
        or image.ndim not in (2, 3)
        or channels not in ((), (3,), (4,))
        or not 0 < image.shape[0] * image.shape[1] <= max_pixels
    ):
        raise ValueError(
            "Expected a picture as an array of uint8, (H, W), (H, W, 3) or (H, W, 4), of at most "
            f"{max_pixels:,} pixels. Received: {image.dtype}, shape {image.shape}."
        )
    if channels == (3,) and size in (None, image.shape[:2]):
        return image.copy()
    return _pixels(pillow_image().fromarray(image), size)


@dataclass(frozen=True)
class CheckedImages:
    """The valid image files in a list of files, and the problems of all other files.

    Args:
        paths: The valid files, in the given order.
        problems: The `ImageProblem`s of the other files.

    Example:

    >>> CheckedImages(["a.png"], [ImageProblem("b.png", "broken", "it is empty")]).counts
    {'files': 2, 'whole': 1, 'broken': 1}
    """

    paths: list[str]
    problems: list[ImageProblem] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """A dict of `files`, `whole` (valid files), and the number of problems of each kind."""
        files = len(self.paths) + len(self.problems)
        return {"files": files, "whole": len(self.paths), **count_image_problems(self.problems)}

    def summary(self) -> str:
        """Returns the number of valid files, and the problems of the first invalid files, as
        text."""
        text = f"{many(len(self.paths), 'whole picture')} of {many(self.counts['files'], 'file')}."
        if self.problems:
            text += f" Left out: {describe_image_problems(self.problems)}."
        return text


def check_images(
    paths: Iterable[str | os.PathLike[str]], on_error: str = "error", max_pixels: int = MAX_PIXELS
) -> CheckedImages:
    """Finds all invalid image files by reading each file.

    Args:
        paths: The files.
        on_error: `"error"` raises one ValueError for all invalid files. `"skip"` leaves these files
            out, and lists them in `problems` of the result.
        max_pixels: Maximum number of pixels of an image; larger images are invalid.

    Returns:
        A `CheckedImages` with the `paths` of valid images, `problems`, `counts` and `summary()`.

    Raises:
        ImportError: If Pillow, from the extra `captioning`, is not installed.
        ValueError: If `on_error` is `"error"`, and images are broken, missing or too large.

    Example:

    >>> import os, tempfile
    >>> from PIL import Image
    >>> folder = tempfile.mkdtemp()
    >>> good, bad = os.path.join(folder, "good.png"), os.path.join(folder, "bad.png")
    >>> Image.new("RGB", (4, 2)).save(good)
    >>> with open(good, "rb") as whole, open(bad, "wb") as cut:
    ...     _ = cut.write(whole.read()[:40])
    >>> checked = check_images([good, bad], on_error="skip")
    >>> [os.path.basename(path) for path in checked.paths], checked.counts
    (['good.png'], {'files': 2, 'whole': 1, 'broken': 1})
    """
    check_on_error(on_error)
    check_sizes(None, max_pixels)
    whole, problems = [], []
    for given in paths:
        path = os.fspath(given)
        problem = image_problem(path, max_pixels)
        if problem is None:
            whole.append(path)
        else:
            problems.append(problem)
    if on_error == "error":
        refuse_image_problems("pictures", "whole pictures", len(whole) + len(problems), problems)
    return CheckedImages(whole, problems)


def check_sizes(size: object, max_pixels: object) -> tuple[int, int] | None:
    """Checks a size and a limit of pixels, and returns the size as (height, width) or None."""
    if not is_integer(max_pixels, 1):
        raise ValueError(f"Expected `max_pixels` to be an integer >= 1. Received: {max_pixels!r}.")
    if size is None:
        return None
    pair = (size, size) if is_integer(size, 1) else size
    if isinstance(pair, tuple | list) and len(pair) == 2 and all(is_integer(n, 1) for n in pair):
        return pair[0], pair[1]
    raise ValueError(
        "Expected the size of pictures to be (height, width), or one number for both. "
        f"Received: {size!r}."
    )


def image_problem(path: str, max_pixels: int = MAX_PIXELS) -> ImageProblem | None:
    """Reads an image file, and returns its problem, or None if it is valid."""
    try:
        load_image(path, max_pixels=max_pixels)
    except (OSError, ValueError) as error:
        return as_problem(path, error)
    return None


def as_problem(path: str, error: Exception) -> ImageProblem:
    """Converts an error of `load_image` to an `ImageProblem`."""
    if isinstance(error, FileNotFoundError):
        kind = kind_of(path)
        what = "no such file" if kind == "nothing" else f"{kind} in its place"
        return ImageProblem(path, "missing", f"there is {what}")
    return ImageProblem(path, "broken", str(error).removeprefix(f"{path}: "))


def pillow_image() -> Any:
    """Imports the module `PIL.Image`."""
    with needed("A picture"):
        from PIL import Image
    return Image


def _open(raw: bytes, name: str, max_pixels: int) -> Any:
    """The image with only its header read, if it is not too large."""
    pillow = pillow_image()
    try:
        with _LIMIT_LOCK:  # ours counts here, not Pillow's; the pixels are not read yet
            limit, pillow.MAX_IMAGE_PIXELS = pillow.MAX_IMAGE_PIXELS, None
            try:
                image = pillow.open(io.BytesIO(raw))
            finally:
                pillow.MAX_IMAGE_PIXELS = limit
    except MemoryError:
        raise
    except Exception as error:
        why: object = error
        if isinstance(error, pillow.UnidentifiedImageError):
            why = f"it begins with {raw[:8]!r}"  # Pillow's message names a buffer
        raise ValueError(
            f"{name}: expected a picture. Received: a file that Pillow cannot read as one ({why})."
        ) from None
    width, height = image.size
    if width * height > max_pixels:
        raise ValueError(
            f"{name}: expected at most {max_pixels:,} pixels. Received: {width:,} x "
            f"{height:,} = {width * height:,}. Make the picture smaller, or raise "
            "`max_pixels`."
        )
    return image


# By the EXIF orientation. `ImageOps.exif_transpose` would also write the other entries anew, and
# fails at odd ones.
_TURNS = {
    2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_270",
    7: "TRANSVERSE", 8: "ROTATE_90",
}  # fmt: skip


def _upright(image: Image.Image) -> Any:
    """The image rotated by its EXIF orientation; unreadable EXIF data are ignored."""
    try:
        orientation = image.getexif().get(0x0112)
    except Exception:  # as viewers do: the pixels are whole
        return image
    name = _TURNS.get(orientation) if isinstance(orientation, int) else None
    return image if name is None else image.transpose(pillow_image().Transpose[name])


def _as_rgb(image: Image.Image) -> Any:
    pillow = pillow_image()
    if image.mode == "I" or image.mode.startswith("I;16"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError("a grey picture of 32 bits; convert it to 8 or 16 bits")
        image = pillow.fromarray(np.round(values / 257.0).astype("uint8"))
    elif image.mode == "F":
        raise ValueError("a picture of floats, without a known range; convert it to 8 bits")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        ground = pillow.new("RGBA", image.size, "white")
        image = pillow.alpha_composite(ground, image)
    return image if image.mode == "RGB" else image.convert("RGB")
