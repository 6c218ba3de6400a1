"""The SavedModel of a captioner: bytes of pictures in, captions out."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_attn.explain.alignment import END
from keras_attn.images import load_image
from keras_attn.images.image_headers import first_frame_graph, image_size_graph
from keras_attn.images.loading import MAX_PIXELS
from keras_attn.layers import ImagePreprocessing
from keras_attn.tasks.base.served_numbers import WITH_SETTINGS, checked_numbers
from keras_attn.tasks.captioning.decoding import Caption, CaptionSearch

# Most levels of 255 by which decoding and resizing in the graph may differ from Pillow's.
PIXEL_TOLERANCE = {"png": 1, "jpeg": 4}


def example_files(size: tuple[int, int]) -> list[bytes]:
    """Returns pictures of several kinds and sizes, as the bytes of their files.

    Args:
        size: Rows and columns of most of them.
    """
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


def decode_picture(tf: Any, raw: Any, size: tuple[int, int], max_pixels: int = MAX_PIXELS) -> Any:
    """Makes uint8 `(rows, columns, 3)` of the bytes of a picture, as `load_image` does.

    Grey is made colour, and what is transparent is put on white. EXIF data are not read. A picture
    that is too large is refused by its header, before its pixels are unfolded.

    Args:
        tf: The module `tensorflow`.
        raw: Scalar string: a JPEG, PNG, GIF (its first frame), BMP or WebP file.
        size: Rows and columns to which it is resized.
        max_pixels: Largest number of pixels, as in `load_image`.

    Returns:
        A uint8 tensor.
    """
    rows, columns = image_size_graph(tf, raw)
    message = tf.strings.format(
        f"Expected a picture of at most {max_pixels:,} pixels. Received: {{}} x {{}}. Make it "
        "smaller, or export the model with a higher limit (max_pixels).",
        (rows, columns),
    )
    # Each side by itself too: the product of two large ones is not an int64.
    fits = tf.maximum(rows, columns) <= max_pixels
    fits &= tf.minimum(rows, max_pixels) * tf.minimum(columns, max_pixels) <= max_pixels
    with tf.control_dependencies([tf.debugging.Assert(fits, [message])]):
        raw = tf.identity(raw)

    def on_white():
        # Grey and colour may have one that is transparent, which `channels=4` alone takes. Not for
        # others: with less than 8 bits a colour what it makes up is not opaque.
        bits, kind = tf.unstack(tf.io.decode_raw(tf.strings.substr(raw, 24, 2), "uint8"), 2)
        keyed = (bits >= 8) & ((kind == 0) | (kind == 2))
        pixels = tf.cond(
            keyed,
            lambda: tf.io.decode_png(raw, channels=4),
            lambda: tf.io.decode_png(raw, channels=0),
        )
        last = tf.shape(pixels)[2]

        def blended():
            color, opaque = tf.split(tf.cast(pixels, "float32"), [last - 1, 1], axis=2)
            opaque = opaque / 255
            return tf.cast(tf.round(color * opaque + 255 * (1 - opaque)), "uint8")

        color = tf.cond(last % 2 == 0, blended, lambda: pixels)
        return tf.cond(tf.shape(color)[2] < 3, lambda: tf.repeat(color, 3, axis=2), lambda: color)

    def bitmap():
        # As int32, since an error writes a byte as a character.
        bits = tf.cast(tf.io.decode_raw(tf.strings.substr(raw, 28, 2), "uint8")[0], "int32")
        message = "Expected a BMP picture without a palette, of 24 or 32 bits. Received: {} bits."
        check = tf.debugging.Assert(bits > 8, [tf.strings.format(message, bits)])
        with tf.control_dependencies([check]):
            return tf.io.decode_bmp(raw, channels=0)[..., :3]

    def other():
        # The decoder also knows formats whose headers are not read here.
        known = tf.debugging.Assert(
            rows > 0, ["Expected a JPEG, PNG, GIF, BMP or WebP picture. Received another file."]
        )
        with tf.control_dependencies([known]):
            return tf.io.decode_image(raw, channels=3, expand_animations=False)

    def jpeg():
        return tf.io.decode_jpeg(raw, channels=3, dct_method="INTEGER_ACCURATE")

    def gif():
        return tf.io.decode_gif(first_frame_graph(tf, raw))[0]

    start = tf.strings.substr(raw, 0, 4)
    pixels = tf.case(
        [
            (start == b"\x89PNG", on_white),
            (tf.strings.substr(raw, 0, 2) == b"\xff\xd8", jpeg),
            (tf.strings.substr(raw, 0, 2) == b"BM", bitmap),
            (start == b"GIF8", gif),
        ],
        default=other,
    )
    pixels = tf.ensure_shape(pixels, [None, None, 3])
    resized = ImagePreprocessing(size, scaling="none", dtype="float32")(pixels[None])[0]
    return tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), "uint8")


def decode_pictures(
    tf: Any, image: Any, size: tuple[int, int], max_pixels: int = MAX_PIXELS
) -> Any:
    """Makes uint8 `(B, rows, columns, 3)` of the bytes of pictures, see `decode_picture`.

    One is decoded after the other, so that only one is in memory with all its pixels.

    Args:
        tf: The module `tensorflow`.
        image: Strings `(B,)`.
        size: Rows and columns to which they are resized.
        max_pixels: Largest number of pixels of each.

    Returns:
        A uint8 tensor.
    """
    return tf.map_fn(
        lambda raw: decode_picture(tf, raw, size, max_pixels),
        image,
        parallel_iterations=1,
        fn_output_signature=tf.TensorSpec((*size, 3), "uint8"),
    )


def graph_functions(
    search: CaptionSearch, tf: Any, beams: int, alpha: float, count: int, max_pixels: int
) -> tuple[dict[str, Callable], list[Any]]:
    """Makes the functions of the SavedModel, from strings `(B,)` to dicts of tensors.

    Args:
        search: Searches the captions.
        tf: The module `tensorflow`.
        beams: Width of the beam search.
        alpha: Exponent of the length penalty.
        count: Number R of captions that `details` gives.
        max_pixels: Largest number of pixels of a picture.

    Returns:
        The functions by the names of their signatures, and the `tf.Module`s they use.
    """
    tokenizer = search.tokenizer.to_graph()
    size, grid = search.encoder.image_size, search.encoder.grid

    def read(image):
        return search.encode(decode_pictures(tf, image, size, max_pixels))

    def serve(image, **numbers):
        given = {"alpha": alpha, **checked_numbers(tf, numbers)}
        found = search.search(read(image), search.max_length, beams, **given)
        return {"caption": tokenizer.decode(found.tokens[:, 0])}

    def details(image):
        found, weights = search.search_and_align(
            read(image), search.max_length, beams, alpha, count
        )
        tokens = tf.where(found.tokens == tokenizer.end_id, END, tokenizer.tokens(found.tokens))
        shape = tf.concat([tf.shape(weights)[:3], grid], axis=0)
        return {
            "captions": tokenizer.decode(found.tokens),
            "scores": found.scores,
            "truncated": tf.logical_not(found.finished),
            "tokens": tf.where(found.tokens == tokenizer.pad_id, "", tokens),
            "attention": tf.reshape(weights, shape),
        }

    functions = {"serving_default": serve, "details": details, WITH_SETTINGS: serve}
    return functions, [tokenizer]


def decoded_pictures(files: Sequence[bytes], size: tuple[int, int]) -> np.ndarray:
    """Decodes pictures as the SavedModel does, and compares that with Pillow.

    Args:
        files: The bytes of pictures.
        size: Rows and columns to which they are resized.

    Returns:
        uint8 `(n, rows, columns, 3)`.

    Raises:
        RuntimeError: If a picture differs from Pillow's by more than `PIXEL_TOLERANCE`.
    """
    import tensorflow as tf

    pixels = np.stack([decode_picture(tf, raw, size) for raw in files])
    for raw, found in zip(files, pixels, strict=True):
        kind = "png" if raw.startswith(b"\x89PNG") else "jpeg"
        pillow = load_image(raw, size).astype("int32")
        difference = int(np.abs(found.astype("int32") - pillow).max())
        if difference > PIXEL_TOLERANCE[kind]:
            raise RuntimeError(
                f"TensorFlow decodes a {kind} picture to other pixels than Pillow. Expected: a "
                f"difference of {PIXEL_TOLERANCE[kind]} of 255 at most. Received: {difference}."
            )
    return pixels


def expected_outputs(
    search: CaptionSearch, files: Sequence[bytes], beams: int, alpha: float, count: int
) -> dict[str, dict[str, Any]]:
    """Returns what the SavedModel must give for pictures, by signature and output.

    The captions are those of the pixels that the graph has, see `decoded_pictures`.

    Args:
        search: Searches the captions.
        files: The bytes of pictures.
        beams: Width of the beam search.
        alpha: Exponent of the length penalty.
        count: Number R of captions in `details`.

    Raises:
        RuntimeError: If a picture is decoded to something else than by Pillow.
    """
    pixels = decoded_pictures(files, search.encoder.image_size)
    regions = search.regions(pixels, len(pixels))
    best = search.best(regions, beams, alpha, len(pixels))
    n_best = search.n_best(regions, beams, alpha, count, len(pixels))
    return {
        "serving_default": {"caption": search.tokenizer.decode(best)},
        "details": stacked(n_best, search.encoder.grid),
    }


def stacked(results: Sequence[Sequence[Caption]], grid: tuple[int, int]) -> dict[str, np.ndarray]:
    """Returns the n best of several pictures as the arrays that the SavedModel's `details` gives.

    Args:
        results: At least one, all with the same number R of captions.
        grid: Rows and columns of the regions.

    Returns:
        `captions`, `scores`, `truncated` `(B, R)`, `tokens` `(B, R, T)` and `attention`
        `(B, R, T, rows, columns)`, padded with `""` and zeros.
    """
    R = len(results[0])
    T = max(len(caption.tokens) for captions in results for caption in captions)
    tokens = np.full((len(results), R, T), "", object)
    attention = np.zeros((len(results), R, T, *grid), "float32")
    for b, captions in enumerate(results):
        for r, caption in enumerate(captions):
            tokens[b, r, : len(caption.tokens)] = caption.tokens
            attention[b, r, : len(caption.tokens)] = caption.attention
    return {
        "captions": np.array([[c.text for c in captions] for captions in results], object),
        "scores": np.array([[c.score for c in captions] for captions in results], "float32"),
        "truncated": np.array([[c.truncated for c in captions] for captions in results]),
        "tokens": tokens,
        "attention": attention,
    }
