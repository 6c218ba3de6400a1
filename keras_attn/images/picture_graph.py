"""Decoding of images as TensorFlow ops."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from keras_attn.images.image_headers import first_frame_graph, image_size_graph
from keras_attn.images.loading import MAX_PIXELS
from keras_attn.layers import ImagePreprocessing

if TYPE_CHECKING:
    import tensorflow as tf


def decode_picture(
    tf: ModuleType, raw: tf.Tensor, size: tuple[int, int], max_pixels: int = MAX_PIXELS
) -> tf.Tensor:
    """Decodes the bytes of an image to uint8 `(rows, columns, 3)`, like `load_image`.

    JPEG, PNG, GIF (first frame), BMP and WebP files are supported. Grey images become RGB, and
    transparent images are drawn on white. EXIF data are ignored. If the header of an image says
    that it has more than `max_pixels` pixels, an error is raised before it is decoded.
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
            rows > 0, ["Expected a JPEG, PNG, GIF, BMP or WebP picture. Received: another file."]
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
    tf: ModuleType, image: tf.Tensor, size: tuple[int, int], max_pixels: int = MAX_PIXELS
) -> tf.Tensor:
    """Decodes images `(B,)` to uint8 `(B, rows, columns, 3)`, one after the other.

    Only one image at a time is in memory at its full size.
    """
    return tf.map_fn(
        lambda raw: decode_picture(tf, raw, size, max_pixels),
        image,
        parallel_iterations=1,
        fn_output_signature=tf.TensorSpec((*size, 3), "uint8"),
    )
