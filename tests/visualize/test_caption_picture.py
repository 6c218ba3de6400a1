"""Where a captioner looked for each word, drawn."""

import io

import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image

from keras_attn.visualize import figures, plot_caption
from keras_attn.visualize.pictures import as_image, shrunk, spread

GREY = np.full((40, 60, 3), 100, "uint8")
WORDS = [
    ("a", np.eye(2, 3)),
    ("$b$", [[0.1, 0.2, 0.3], [0.1, 0.1, 0.2]]),
    ("c\n", np.zeros((2, 3))),
]


def shown(axes):
    return np.asarray(axes.images[0].get_array()).astype(int)


def test_the_picture_then_each_word(tmp_path):
    figure = plot_caption(GREY, WORDS, tmp_path / "caption.png")
    assert imread(tmp_path / "caption.png").ndim == 3
    assert [axes.get_title() for axes in figure.axes] == ["", "a", r"\$b\$", "c\n"]
    assert figure.get_suptitle() == "a \\$b\\$ c\n"
    assert (shown(figure.axes[0]) == 100).all()
    picture = shown(figure.axes[1])[..., 0]
    height, width = picture.shape
    assert height / width == 40 / 60
    # Bright in the middle of the first region and of the fifth, dark in the others.
    regions = picture[height // 4 :: height // 2, width // 6 :: width // 3]
    bright = np.eye(2, 3) > 0
    assert (regions[bright] > 120).all() and (regions[~bright] < 50).all()
    assert (shown(figure.axes[3]) == 30).all()  # nothing was looked at


def test_maps_are_smooth_and_in_their_place():
    up = spread(np.array([[0.0, 0.0, 0.0, 0.2], [0.0] * 4], "float32"), 80, 160)
    assert up.shape == (80, 160) and up.min() == 0 and up.max() == 1
    top, left = np.unravel_index(up.argmax(), up.shape)
    assert top < 30 and left > 130
    assert np.abs(np.diff(up, axis=1)).max() < 0.06


def test_a_caption_and_its_words():
    class Caption:
        def words(self):
            return [("red", np.eye(2)), ("car", np.eye(2))]

    figure = plot_caption(GREY, Caption(), title="mine")
    assert [axes.get_title() for axes in figure.axes] == ["", "red", "car"]
    assert figure.get_suptitle() == "mine"
    assert plot_caption(GREY, Caption(), title="").get_suptitle() == ""


def test_other_letters_are_boxes_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "font_of", lambda character: "")
    with pytest.warns(UserWarning, match="write an HTML page"):
        figure = plot_caption(
            GREY, [("中🙂", np.eye(2)), ("\ud800", np.eye(2))], tmp_path / "a.png"
        )
    assert figure.axes[1].get_title() == "□□"


@pytest.mark.parametrize(
    ("count", "columns", "grid"),
    [(0, None, (1, 1)), (3, None, (1, 4)), (9, None, (2, 5)), (11, None, (2, 6)), (4, 2, (3, 2))],
)
def test_rows_and_columns(count, columns, grid):
    figure = plot_caption(GREY, [("w", np.eye(2))] * count, columns=columns)
    assert len(figure.axes) == count + 1
    assert figure.axes[0].get_gridspec().get_geometry() == grid


def test_pictures_that_are_taken(tmp_path):
    file = io.BytesIO()
    Image.fromarray(GREY).save(file, "png")
    (tmp_path / "grey.png").write_bytes(file.getvalue())
    for image in (GREY, GREY.astype("float32"), file.getvalue(), tmp_path / "grey.png"):
        np.testing.assert_array_equal(as_image(image), GREY)


def test_large_pictures_are_drawn_smaller():
    sides = np.repeat(np.array([[[10], [200]]], "uint8"), 1500, axis=1) * np.ones((900, 1, 3), int)
    figure = plot_caption(sides, WORDS)
    for axes in figure.axes:
        assert shown(axes).shape == (192, 640, 3)
    picture = shown(figure.axes[0])
    assert (picture[:, :310] == 10).all() and (picture[:, 330:] == 200).all()
    assert shrunk(GREY) is GREY
    assert shrunk(np.zeros((1, 2000, 3), "uint8")).shape == (1, 640, 3)


def test_a_picture_is_not_that_of_the_caller():
    image = GREY.copy()
    as_image(image)[:] = 0
    np.testing.assert_array_equal(image, GREY)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("words", "must be a list of .*Received: str"),
        (
            [("a", np.zeros(4))],
            r"word 0, 'a', must have shape \(rows, columns\).* Received: shape \(4,\)",
        ),
        ([("a", [[np.nan]])], "finite and not below 0"),
        ([("a", [[-1.0]])], "finite and not below 0"),
        ([(1, np.eye(2))], r"`words\[0\]` must be \(word, map\)"),
    ],
)
def test_what_is_no_map_is_refused(words, message):
    with pytest.raises(ValueError, match=message):
        plot_caption(GREY, words)


def test_columns_are_checked():
    for columns in (0, True, 2.0):
        with pytest.raises(ValueError, match=f"Received: {columns}"):
            plot_caption(GREY, WORDS, columns=columns)
