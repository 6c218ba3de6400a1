"""Pictures of every kind become one kind; broken ones are named."""

import io
import struct
import sys
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from keras_attn.images import check_images, load_image


def data(image, format="png", **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def colours(array):
    return [tuple(map(int, pixel)) for pixel in array.reshape(-1, 3)]


def two(mode, first, second):
    image = Image.new(mode, (2, 1), first)
    image.putpixel((1, 0), second)
    return image


def test_modes():
    assert colours(load_image(data(two("L", 7, 200)))) == [(7, 7, 7), (200, 200, 200)]
    assert colours(load_image(data(two("1", 0, 1)))) == [(0, 0, 0), (255, 255, 255)]
    assert colours(load_image(data(two("RGB", (1, 2, 3), (4, 5, 6))))) == [(1, 2, 3), (4, 5, 6)]
    clear = two("RGBA", (255, 0, 0, 0), (0, 0, 0, 128))
    assert colours(load_image(data(clear))) == [(255, 255, 255), (127, 127, 127)]
    assert colours(load_image(data(two("LA", (0, 255), (0, 0))))) == [(0, 0, 0), (255, 255, 255)]
    palette = two("RGB", (255, 0, 0), (0, 0, 255)).convert("P", palette=Image.Palette.ADAPTIVE)
    assert colours(load_image(data(palette))) == [(255, 0, 0), (0, 0, 255)]
    index = palette.getpixel((0, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert colours(load_image(data(palette, transparency=index)))[0] == (255, 255, 255)


def test_16_bits_are_divided_not_cut_off():
    image = Image.fromarray(np.array([[0, 257, 32896, 65535]], "uint16"))
    assert image.mode == "I;16"
    assert load_image(data(image))[0, :, 0].tolist() == [0, 1, 128, 255]
    wide = Image.fromarray(np.array([[0, 65535]], "int32"))
    assert load_image(data(wide, "tiff"))[0, :, 0].tolist() == [0, 255]


@pytest.mark.parametrize(
    "image", [np.array([[0.5]], "float32"), np.array([[70000]], "int32")], ids=["float", "32 bits"]
)
def test_numbers_without_a_known_range(image):
    with pytest.raises(ValueError, match="convert it to 8"):
        load_image(data(Image.fromarray(image), "tiff"))


def test_cmyk():
    image = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    red = load_image(data(image, "jpeg", quality=100))[4, 4].astype(int)
    assert red[0] > 240 and red[1] < 15 and red[2] < 15


def test_first_frame():
    frames = [Image.new("RGB", (3, 2), colour) for colour in ("red", "blue")]
    raw = data(frames[0], "gif", save_all=True, append_images=frames[1:])
    assert set(colours(load_image(raw))) == {(255, 0, 0)}


def test_odd_entries_of_exif_do_no_harm():
    """Pillow fails where it writes them anew."""
    turned = struct.pack("<HHII", 0x0112, 3, 1, 6)
    resolution = struct.pack("<HHI4s", 0x011A, 2, 3, b"72")  # a string in place of a number
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + turned + resolution + bytes(4)
    raw = data(Image.new("RGB", (2, 3), "red"), "jpeg", exif=exif)
    with pytest.raises(TypeError):
        ImageOps.exif_transpose(Image.open(io.BytesIO(raw)))
    assert load_image(raw).shape == (2, 3, 3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_is_that_of_pillow(orientation):
    image = Image.fromarray(np.arange(18, dtype="uint8").reshape(2, 3, 3) * 9)
    exif = Image.Exif()
    exif[0x0112] = orientation
    raw = data(image, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(raw)))
    np.testing.assert_array_equal(load_image(raw), np.asarray(expected))


@pytest.mark.parametrize(
    ("orientation", "place"), [(1, (0, 0)), (2, (0, 1)), (3, (2, 1)), (6, (0, 2)), (8, (1, 0))]
)
def test_orientation(orientation, place):
    image = Image.new("RGB", (2, 3), "white")
    image.putpixel((0, 0), (0, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = orientation
    array = load_image(data(image, exif=exif))
    assert array.shape == ((3, 2, 3) if orientation < 5 else (2, 3, 3))
    assert tuple(np.argwhere(array[..., 0] == 0)[0]) == place


def test_broken_exif_says_nothing():
    raw = data(Image.new("RGB", (2, 3), "red"), "jpeg", exif=b"Exif\0\0nonsense")
    assert load_image(raw).shape == (3, 2, 3)


def test_size():
    image = Image.fromarray(np.arange(0, 240, 20, "uint8").reshape(3, 4))
    assert load_image(data(image), (6, 2)).shape == (6, 2, 3)
    assert load_image(data(image), 5).shape == (5, 5, 3)
    checks = Image.fromarray(np.tile([[0, 255], [255, 0]], (8, 8)).astype("uint8"))
    assert abs(int(load_image(data(checks), 1)[0, 0, 0]) - 127) < 3  # smoothed
    for wrong in (0, (3,), (3, 0), "3", 2.5, True):
        with pytest.raises(ValueError, match="the size of pictures"):
            load_image(data(image), wrong)


def png_of_size(width, height):
    """A small file that says that it is a large picture."""

    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(1000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [10_000, 20_000])  # Pillow warns of the one, refuses the other
def test_too_large(tmp_path, side):
    path = tmp_path / "large.png"
    path.write_bytes(png_of_size(side, side))
    before = Image.MAX_IMAGE_PIXELS
    with pytest.raises(ValueError, match=r"large\.png: expected at most 50,000,000 .*max_pix"):
        load_image(path)
    with pytest.raises(ValueError, match="cut off or damaged"):  # the limit is not the reason now
        load_image(png_of_size(300, 300), max_pixels=90_000)
    with pytest.raises(ValueError, match=r"at most 89,999 pixels. Received: 300 x 300"):
        load_image(png_of_size(300, 300), max_pixels=89_999)
    assert before == Image.MAX_IMAGE_PIXELS
    with pytest.raises(ValueError, match="max_pixels"):
        load_image(path, max_pixels=0)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (40, 40, 3), "uint8"))
    noise.save(tmp_path / "whole.png")
    noise.save(tmp_path / "whole.jpg")
    for name in ("whole.png", "whole.jpg"):
        raw = (tmp_path / name).read_bytes()
        (tmp_path / name.replace("whole", "cut")).write_bytes(raw[: len(raw) // 2])
        (tmp_path / name.replace("whole", "stub")).write_bytes(raw[:12])
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("<html>Not found</html>")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cut.png", "cut off or damaged"),
        ("cut.jpg", "cut off or damaged"),
        ("stub.png", "cannot read as one"),
        ("stub.jpg", "cannot read as one"),
        ("empty.png", "an empty file"),
        ("text.jpg", "begins with b'<html>No'"),
    ],
)
def test_broken(folder, name, said):
    with pytest.raises(ValueError) as caught:
        load_image(folder / name)
    assert str(folder / name) in str(caught.value) and said in str(caught.value)
    with pytest.raises(ValueError, match="the given bytes: expected"):
        load_image((folder / name).read_bytes())


def test_any_damage_is_a_value_error(folder):
    rng = np.random.default_rng(1)
    for name in ("whole.png", "whole.jpg"):
        raw = np.frombuffer((folder / name).read_bytes(), "uint8")
        for _ in range(60):
            damaged = raw.copy()
            damaged[rng.integers(0, len(raw), 20)] = rng.integers(0, 256, 20)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    assert load_image(damaged.tobytes()).dtype == np.uint8
                except ValueError as error:
                    assert "the given bytes: expected" in str(error)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_image(tmp_path / "none.png")
    with pytest.raises(FileNotFoundError, match="There is a folder"):
        load_image(tmp_path)
    checked = check_images([tmp_path], on_error="skip")
    assert checked.problems[0].what == "there is a folder in its place"


def test_check_images(folder):
    paths = sorted(folder.iterdir())
    checked = check_images([*paths, folder / "none.png"], on_error="skip")
    assert [path.rpartition("/")[2] for path in checked.paths] == ["whole.jpg", "whole.png"]
    assert checked.counts == {"files": 9, "whole": 2, "missing": 1, "broken": 6}
    summary = checked.summary()
    assert summary.startswith("2 whole pictures of 9 files. Left out: 1 whose file is not there (")
    assert "empty.png: expected a picture. Received: an empty file." in summary
    assert "and 1 more" in summary
    with pytest.raises(ValueError, match=r"Received: 2 of 3 that are not: .*cut\.jpg.*skip'"):
        check_images([folder / "cut.jpg", folder / "whole.png", folder / "text.jpg"])
    assert check_images([folder / "whole.png"]).problems == []
    with pytest.raises(ValueError, match="on_error"):
        check_images([], on_error="ignore")
    with pytest.raises(ValueError, match="max_pixels"):
        check_images([], on_error="skip", max_pixels=-1)


def test_without_pillow(monkeypatch):
    raw = data(Image.new("L", (1, 1)))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"keras_attn\[captioning\]"):
        load_image(raw)
