"""Fonts of figures: an installed font for letters that the usual one lacks."""

from matplotlib import font_manager

from keras_attn.visualize import figures, plot_attention


def characters(font):
    return figures._known_characters((font_manager.findfont(font, fallback_to_default=False),))


def test_a_font_that_has_the_letters(tmp_path):
    """A letter that matplotlib's usual font lacks, and another one in its package has."""
    letter = min(characters("STIXGeneral") - characters("DejaVu Sans"))
    font = figures.font_of(letter)
    assert letter in characters(font)
    assert figures.label(f"a{letter}$") == f"a{letter}\\$"
    # Matplotlib warns of letters that it cannot draw, which is an error in tests.
    figure = plot_attention([[1.0]], [letter], ["a"], tmp_path / "a.png")
    families = figure.axes[0].get_xticklabels()[0].get_fontfamily()
    assert families[1:] == [font]
    assert font not in figure.axes[0].get_yticklabels()[0].get_fontfamily()


def test_a_font_of_boxes_is_none():
    """matplotlib's own Last Resort font has a picture for each character."""
    assert figures.font_of("\U000f0000") == ""
