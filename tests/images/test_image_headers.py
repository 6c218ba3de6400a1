"""The size of a picture is read from its header, and no more than its first frame is decoded."""

import io
import struct

import memory
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from test_images import png_of_size

from keras_attn.images import load_image
from keras_attn.images.image_headers import first_frame_graph, image_size_graph
from keras_attn.images.picture_graph import decode_picture, decode_pictures

PIXELS = (np.arange(11 * 300 * 3).reshape(11, 300, 3) % 251).astype("uint8")


def data(kind, image=PIXELS, **settings):
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind, **settings)
    return file.getvalue()


def animation(first, *others, **settings):
    return data("gif", first, save_all=True, append_images=[*map(Image.fromarray, others)])


def sizes(raw):
    return tuple(map(int, image_size_graph(tf, tf.constant(raw))))


UPSIDE_DOWN = bytearray(data("bmp"))
UPSIDE_DOWN[22:26] = struct.pack("<i", -11)
FILES = {
    "png": data("png"),
    "jpeg": data("jpeg"),
    "progressive jpeg": data("jpeg", progressive=True),
    "bmp": data("bmp"),
    "bmp from the top": bytes(UPSIDE_DOWN),
    "gif": data("gif"),
    "gif with a comment": data("gif", comment=b"a" * 600),
    "animation": animation(PIXELS, PIXELS[::-1], PIXELS[:, ::-1]),
    "webp": data("webp"),
    "lossless webp": data("webp", lossless=True),
    "webp with more parts": data("webp", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0"),
}


@pytest.mark.parametrize("name", FILES)
def test_sizes(name):
    assert sizes(FILES[name]) == (11, 300)


@pytest.mark.parametrize("raw", [b"", b"\0", b"text of no picture", b"RIFF", b"GIF8", b"\x89PNG"])
def test_what_is_no_picture_has_no_size(raw):
    assert sizes(raw) == (0, 0)


def test_a_size_of_32_bits():
    assert sizes(png_of_size(2**31, 2**32 - 1)) == (2**32 - 1, 2**31)


@pytest.mark.parametrize("name", ["gif", "gif with a comment", "animation"])
def test_the_first_frame_of_a_gif(name):
    raw = FILES[name]
    cut = first_frame_graph(tf, tf.constant(raw)).numpy()
    np.testing.assert_array_equal(tf.io.decode_gif(cut)[0], tf.io.decode_gif(raw)[0])
    assert tf.io.decode_gif(cut).shape[0] == 1
    assert len(cut) <= len(raw)
    decoded = decode_picture(tf, tf.constant(raw), (11, 300)).numpy()
    np.testing.assert_array_equal(decoded, load_image(raw))


def test_many_frames_are_not_unfolded():
    """All 60 frames have 240 MB, in a file of 60 kB."""
    one = data("gif", np.zeros((1000, 1000), "uint8"))
    parts = 13 + 3 * 2 ** ((one[10] & 7) + 1)
    raw = one[:parts] + one[parts:-1] * 60 + b";"
    decode_picture(tf, tf.constant(data("gif")), (4, 4))
    with memory.grown() as megabytes:
        decoded = decode_picture(tf, tf.constant(raw), (4, 4)).numpy()
    assert megabytes() < 120
    assert not decoded.any()
    assert tf.io.decode_gif(raw).shape[0] == 60


def test_a_first_frame_that_is_larger_than_its_canvas():
    raw = bytearray(data("gif"))
    frame = raw.index(b"\x2c\0\0\0\0")
    raw[frame + 1 : frame + 9] = struct.pack("<HHHH", 5, 7, 40_000, 30_000)
    assert sizes(bytes(raw)) == (30_007, 40_005)


@pytest.mark.parametrize("end", [3, 12, 14, 800, -1])
def test_a_gif_that_is_cut_off_stays_as_it_is(end):
    raw = data("gif")[:end]
    if end == -1:  # only the mark of the end is missing
        assert first_frame_graph(tf, tf.constant(raw)).numpy() == data("gif")
    else:
        assert first_frame_graph(tf, tf.constant(raw)).numpy() == raw


@pytest.mark.slow
def test_parts_of_one_byte_take_no_longer():
    """A loop over the parts would take minutes."""
    raw, parts = data("gif"), 13 + 3 * 256
    raw = raw[:parts] + b"\x21\xfe" + b"\1a" * 30_000 + b"\0" + raw[parts:]
    found = tf.function(lambda raw: image_size_graph(tf, raw), autograph=False)(tf.constant(raw))
    assert [int(x) for x in found] == [11, 300]


SIDES = {"png": png_of_size(12_000, 12_000)}
for kind, place, form in (("bmp", 18, "<ii"), ("gif", 6, "<HH")):
    changed = bytearray(data(kind))
    changed[place : place + struct.calcsize(form)] = struct.pack(form, 12_000, 12_000)
    SIDES[kind] = bytes(changed)


@pytest.mark.parametrize("name", SIDES)
def test_a_large_picture_is_refused_before_it_is_decoded(name):
    message = r"at most 50,000,000 pixels. Received: 12000 x 12000.*max_pixels"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        decode_picture(tf, tf.constant(SIDES[name]), (4, 4))
    with pytest.raises(ValueError, match=r"50,000,000 pixels. Received: 12,000 x 12,000"):
        load_image(SIDES[name])


@pytest.mark.quick("gif")
@pytest.mark.parametrize("name", ["png", "jpeg", "gif", "bmp", "webp"])
def test_the_limit_is_that_of_python(name):
    files = tf.constant([FILES[name]])
    assert decode_pictures(tf, files, (4, 4), max_pixels=3300).shape == (1, 4, 4, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 3,299 pixels"):
        decode_pictures(tf, files, (4, 4), max_pixels=3299)
    load_image(FILES[name], max_pixels=3300)
    with pytest.raises(ValueError, match="at most 3,299 pixels"):
        load_image(FILES[name], max_pixels=3299)


def test_other_formats_are_refused():
    for raw in (data("tiff"), b"\xff\x0a" + bytes(40), b""):
        with pytest.raises(tf.errors.InvalidArgumentError, match="JPEG, PNG, GIF, BMP or WebP"):
            decode_picture(tf, tf.constant(raw), (4, 4))
