"""Image sizes from file headers, with TensorFlow ops."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from keras_attn.hints import Tensor

if TYPE_CHECKING:
    import tensorflow as tf

_READ = 30  # bytes: the longest header, of WebP


def image_size_graph(tf: ModuleType, raw: tf.Tensor) -> tuple[Any, Any]:
    """Reads the rows and columns of an image from its header, without decoding the image."""
    head = tf.io.decode_raw(tf.strings.substr(raw, 0, _READ), tf.uint8)
    head = tf.cast(tf.pad(head, [[0, _READ - tf.size(head)]]), tf.int64)

    def number(first: int, count: int, big: bool = False) -> Any:
        places = range(first, first + count)
        return sum(head[at] * 256**i for i, at in enumerate(reversed(places) if big else places))

    def signed(first: int) -> Any:
        value = number(first, 4)
        return tf.abs(tf.where(value < 2**31, value, value - 2**32))  # BMPs may be top-down

    def jpeg() -> tuple[Any, Any]:
        size = tf.cast(tf.io.extract_jpeg_shape(raw), tf.int64)
        return size[0], size[1]

    def gif() -> tuple[Any, Any]:
        (top, left, rows, columns), _ = _first_frame(tf, raw)
        return tf.maximum(number(8, 2), top + rows), tf.maximum(number(6, 2), left + columns)

    def webp() -> tuple[Any, Any]:
        part, packed = tf.strings.substr(raw, 12, 4), number(21, 4)
        return tf.case(
            [
                (part == b"VP8 ", lambda: (number(28, 2) & 0x3FFF, number(26, 2) & 0x3FFF)),
                (part == b"VP8L", lambda: ((packed // 2**14 & 0x3FFF) + 1, (packed & 0x3FFF) + 1)),
                (part == b"VP8X", lambda: (number(27, 3) + 1, number(24, 3) + 1)),
            ],
            default=lambda: (tf.zeros_like(packed), tf.zeros_like(packed)),
        )

    zero = tf.zeros([], tf.int64)
    return tf.case(
        [
            (_starts(tf, raw, b"\x89PNG"), lambda: (number(20, 4, big=True), number(16, 4, True))),
            (_starts(tf, raw, b"\xff\xd8"), jpeg),
            (_starts(tf, raw, b"BM"), lambda: (signed(22), signed(18))),
            (_starts(tf, raw, b"GIF8"), gif),
            (_starts(tf, raw, b"RIFF") & (tf.strings.length(raw) >= _READ), webp),
        ],
        default=lambda: (zero, zero),
    )


def first_frame_graph(tf: ModuleType, raw: tf.Tensor) -> Any:
    """Removes all frames of a GIF file except the first; TensorFlow would decode all of them."""
    _, end = _first_frame(tf, raw)
    cut = tf.strings.join([tf.strings.substr(raw, 0, end), b";"])
    return tf.where(end > 0, cut, raw)


def _first_frame(tf: ModuleType, raw: tf.Tensor) -> tuple[tuple[Any, Any, Any, Any], Any]:
    """Position and size of the first frame of a GIF, and its end (0 if it is truncated).

    Blocks are chains of parts that are preceded by their lengths. All chains are followed at once
    by pointer doubling, so that the cost does not depend on the number of parts.
    """
    data = tf.cast(tf.io.decode_raw(raw, tf.uint8), tf.int32)
    length = tf.size(data)
    data = tf.pad(data, [[0, 16]])  # of zeros: nothing is read beyond
    places = tf.range(tf.size(data))

    def last(steps: Tensor) -> Any:
        """The position that each position leads to after all steps; the last leads to itself."""
        steps = tf.minimum(steps, tf.size(data) - 1)
        return tf.while_loop(
            lambda x, twice: tf.reduce_any(x != twice),
            lambda x, twice: (twice, tf.gather(twice, twice)),
            (steps, tf.gather(steps, steps)),
            parallel_iterations=1,
        )[0]

    def table(flags: Any) -> Any:
        return tf.where(flags & 0x80 > 0, 3 * tf.pow(2, (flags & 7) + 1), 0)

    ends = last(tf.where(data == 0, places, places + 1 + data))  # the 0 behind the parts
    behind = tf.gather(ends, tf.minimum(places + 2, tf.size(data) - 1)) + 1
    start = tf.minimum(13 + table(data[10]), length)
    frame = last(tf.where(data == 0x21, behind, places))[start]  # extensions are passed over
    entry = data[tf.minimum(frame, length) :][:10]
    begin = frame + 11 + table(entry[9])
    end = ends[tf.minimum(begin, length)] + 1
    whole = (entry[0] == 0x2C) & (end <= length)
    left, top, columns, rows = (
        tf.cast(entry[i] + 256 * entry[i + 1], tf.int64) for i in (1, 3, 5, 7)
    )
    return (top, left, rows, columns), tf.where(whole, end, 0)


def _starts(tf: ModuleType, raw: tf.Tensor, mark: bytes) -> Any:
    return tf.strings.substr(raw, 0, len(mark)) == mark
