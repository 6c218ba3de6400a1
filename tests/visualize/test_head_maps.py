"""All heads on one page."""

import time

import numpy as np
import pytest
from matplotlib.image import imread

from keras_attn.visualize import figures, plot_attention_heads


def attention(*shape):
    weights = np.random.default_rng(0).random(shape)
    return weights / weights.sum(axis=-1, keepdims=True)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_each_head_is_in_its_place(tmp_path):
    layers = [attention(2, 3, 4), attention(1, 3, 4)]
    figure = plot_attention_heads(
        layers, ["▁a", "b", "$c$", "</s>"], "xyz", tmp_path / "heads.png", "5 $"
    )
    assert imread(tmp_path / "heads.png").ndim == 3
    axes = figure.axes[0]
    page = axes.images[0].get_array()
    assert page.shape == (7, 9)
    np.testing.assert_allclose(page[:3, :4], layers[0][0], rtol=1e-6)
    np.testing.assert_allclose(page[:3, 5:], layers[0][1], rtol=1e-6)
    np.testing.assert_allclose(page[4:, :4], layers[1][0], rtol=1e-6)
    assert page.mask[3].all() and page.mask[:, 4].all() and page.mask[4:, 5:].all()
    assert texts(figure) == ["layer 0", "layer 1", "head 0", "head 1"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["a", "b", r"\$c\$", "</s>"] * 2
    assert [t.get_text() for t in axes.get_yticklabels()] == ["x", "y", "z"] * 2
    assert figure.texts[0].get_text() == r"5 \$"


@pytest.mark.slow
def test_a_large_model_takes_some_seconds(tmp_path):
    """One picture, not 144 axes: those take minutes."""
    tokens = [f"w{i}" for i in range(128)]
    start = time.perf_counter()
    figure = plot_attention_heads([attention(12, 128, 128)] * 12, tokens, tokens)
    figure.savefig(tmp_path / "heads.png")
    assert time.perf_counter() - start < 30
    assert len(figure.axes) == 2
    assert len(figure.axes[0].get_xticks()) == 0  # there is no room for names
    assert texts(figure)[-1] == "head 11"


@pytest.mark.quick("1-60")
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 60), (60, 1), (400, 3)])
def test_any_shape(tmp_path, rows, columns):
    figure = plot_attention_heads(
        [attention(1, rows, columns)], ["w"] * columns, ["w"] * rows, tmp_path / "heads.png"
    )
    width, height = figure.get_size_inches()
    assert 1 < width < 20 and 1 < height < 100


def test_other_letters_are_boxes_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "font_of", lambda character: "")
    with pytest.warns(UserWarning, match="write an HTML page"):
        figure = plot_attention_heads([attention(1, 1, 2)], "中a", "🙂", tmp_path / "a.png", "日")
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["□", "a"]


def test_a_batch_of_one_is_taken():
    figure = plot_attention_heads([attention(1, 2, 3, 4)], "abcd", "xyz")
    assert figure.axes[0].images[0].get_array().shape == (3, 9)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([attention(2, 3, 4)] * 2 + [attention(2, 4, 3)], r"`weights\[2\]`.*shape \(2, 4, 3\)"),
        ([attention(2, 2, 3, 4)], "of a batch of one"),
        ([], "at least one layer"),
    ],
)
def test_what_does_not_fit_is_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        plot_attention_heads(weights, "abcd", "xyz")


def test_no_tokens():
    with pytest.raises(ValueError, match="at least one query"):
        plot_attention_heads([np.zeros((1, 0, 3))], "abc", "")
