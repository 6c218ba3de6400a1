import numpy as np
import pytest

from keras_attn.visualize import figures, plot_attention


def test_writes_a_picture_with_its_labels(tmp_path):
    weights = np.eye(3, 4)
    figure = plot_attention(
        weights, ["a", "$b$", "ß", "</s>"], ["x", "▁y", "z"], tmp_path / "map.png", "100 $"
    )
    assert (tmp_path / "map.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "▁y", "z"]
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)


def test_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"shape \(1, 2\) here. Received: shape \(2, 1\)"):
        plot_attention([[1.0], [1.0]], ["a", "b"], ["c"])


def test_other_letters_are_boxes_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "font_of", lambda character: "")
    with pytest.warns(UserWarning, match="write an HTML page"):
        figure = plot_attention([[1.0]], ["中a"], ["🙂"], tmp_path / "map.png", "日")
    assert figure.axes[0].get_xticklabels()[0].get_text() == "□a"
    assert figure.get_suptitle() == "□"
