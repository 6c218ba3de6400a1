"""Texts with their tokens shaded: the pieces, the page, the picture."""

import itertools
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import needs_chromium
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from keras_attn.explain import Explanation
from keras_attn.visualize import (
    figures,
    plot_text_weights,
    text_weights_fragment,
    text_weights_html,
)
from keras_attn.visualize.display import drawable
from keras_attn.visualize.shaded_text import ShadedText
from keras_attn.visualize.text_segments import text_segments

ODD = "aב\u0627 \n\r\t\x00\x9b\ud800<>&\"'$🙂👨\u200d👩é e\u0301🇩🇪🇫👍🏽中\u202e"


def explained(text, weights=None, pattern=r"\w+|[^\w\s]", label=None, probabilities=None, **more):
    offsets = [match.span() for match in re.finditer(pattern, text)]
    weights = np.linspace(0, 1, len(offsets)) if weights is None else weights
    tokens = [text[start:end] for start, end in offsets]
    return Explanation(text, tokens, offsets, weights, label, probabilities or {}, **more)


def pieces(text, offsets, weights, tokens=None):
    tokens = [""] * len(offsets) if tokens is None else tokens
    return [(piece.text, piece.weight) for piece in text_segments(text, tokens, offsets, weights)]


class Reader(HTMLParser):
    """The visible text of the shaded paragraph, its pieces' weights and all tags."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.weights, self.text, self._in_text = [], [], "", False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self._in_text = self._in_text or (tag == "div" and attributes.get("class") == "text")
        if self._in_text and "data-weight" in attributes:
            assert attributes["tabindex"] == "0"
            assert attributes["title"] == attributes["data-weight"]
            self.weights.append(attributes["data-weight"])

    def handle_endtag(self, tag):
        if tag == "div":
            self._in_text = False

    def handle_data(self, data):
        if self._in_text:
            self.text += data


class TestSegments:
    def test_gaps_and_order(self):
        assert pieces("a bc d", [(5, 6), (0, 1), (2, 4)], [3, 1, 2]) == [
            ("a", 1.0), (" ", None), ("bc", 2.0), (" ", None), ("d", 3.0)
        ]  # fmt: skip

    def test_tokens_of_one_character_are_added(self):
        """Bytes of an emoji share its place; so may a token that ends with its first byte."""
        assert pieces("x🙂y", [(0, 1), (1, 2), (1, 2), (1, 3)], [1, 2, 4, 8]) == [
            ("x", 1.0),
            ("🙂y", 14.0),
        ]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("e\u0301a", ["e\u0301", "a"]),
            ("👨\u200d👩\u200d👧!", ["👨\u200d👩\u200d👧", "!"]),
            ("❤\ufe0fx", ["❤\ufe0f", "x"]),
            ("👍🏽a", ["👍🏽", "a"]),
            ("🇩🇪🇫🇷", ["🇩🇪", "🇫🇷"]),
            ("a🇩b", ["a", "🇩", "b"]),
        ],
    )
    def test_what_is_seen_as_one_character_stays_together(self, text, expected):
        offsets = [(i, i + 1) for i in range(len(text))]
        found = pieces(text, offsets, [1.0] * len(text))
        assert found == [(piece, float(len(piece))) for piece in expected]

    def test_tokens_without_a_place(self):
        found = pieces("ab", [(0, 0), (0, 1), (1, 2), (0, 0)], [1, 2, 3, 4], ["[C]", "", "", "[S]"])
        assert found == [("[C]", 1.0), ("a", 2.0), ("b", 3.0), ("[S]", 4.0)]
        assert pieces("", [(0, 0)], [1], ["[C]"]) == [("[C]", 1.0)]

    @settings(deadline=None, max_examples=200)
    @given(st.text(ODD, max_size=20), st.data())
    def test_nothing_of_the_text_or_the_weights_is_lost(self, text, data):
        place = st.tuples(*(st.integers(0, len(text)),) * 2).map(lambda ends: tuple(sorted(ends)))
        offsets = data.draw(st.lists(place, max_size=8))
        weights = [float(2**i) for i in range(len(offsets))]
        found = text_segments(text, ["t"] * len(offsets), offsets, weights)
        assert "".join(piece.text for piece in found if piece.start < piece.end) == text
        assert sum(piece.weight or 0 for piece in found) == sum(weights)
        inside = [piece for piece in found if piece.start < piece.end]
        assert all(a.end == b.start for a, b in itertools.pairwise(inside))
        shown = drawable(text)
        assert len(shown) == len(text)
        shown.encode("utf-8")


def test_colors():
    shaded = ShadedText(explained("a b c d", [0.5, -0.25, 0.0, 0.25]))
    assert shaded.largest == 0.5 and shaded.signed
    assert shaded.color(0.5) == (253, 141, 60)
    assert shaded.color(0.25) == (254, 198, 158)
    assert shaded.color(-0.5) == (107, 174, 214)
    assert shaded.color(0.0) == (255, 255, 255)
    assert ShadedText(explained("a b", [0.0, 0.0])).color(0.0) == (255, 255, 255)
    for color in shaded.scale():  # black on it can be read: contrast of WCAG AA is 4.5
        red, green, blue = (
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in np.array(color) / 255
        )
        luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
        assert (luminance + 0.05) / (0.0103 + 0.05) > 4.5  # the letters are #1a1a1a


class TestPage:
    def test_text_and_weights(self):
        page = text_weights_html(explained("not  so\n\ngood", [0.5, 0.125, 0.25]), "A & B")
        reader = Reader(page)
        assert reader.text == "not  so\n\ngood"
        assert reader.weights == ["0.5", "0.125", "0.25"]
        assert "<title>A &amp; B</title>" in page
        assert "dotted line" not in page and "not read" not in page
        assert page.index(">not</span></bdi> 0.5, ") < page.index(">good</span></bdi> 0.25, ")

    def test_signed_weights(self):
        page = text_weights_html(explained("a b c", [0.5, -0.25, -0.01]))
        assert Reader(page).weights == ["+0.5", "-0.25", "-0.01"]
        assert "<span>-0.5</span>" in page and "<span>+0.5</span>" in page
        assert "dotted line: against" in page
        # In the text and in the list; next to nothing is not underlined.
        assert page.count('class="against minus"') == 2

    def test_what_was_not_read_is_grey(self):
        explanation = Explanation("a b c d", ["a"], [(0, 1)], [1.0])
        page = text_weights_html(explanation)
        assert '<span class="unread"> b c d</span>' in page and "grey: not read" in page

    def test_probabilities_and_label(self):
        probabilities = {f"class {i}": 0.1 for i in range(9)} | {"<i>": 0.1}
        page = text_weights_html(explained("a", label="<i>", probabilities=probabilities))
        assert '<bdi class="label">&lt;i&gt; 10.0 %</bdi>' in page
        assert "<bdi>&lt;i&gt;</bdi>" in page and "and 4 more" in page
        certain = explained("a", label="yes", probabilities={"yes": 0.99996, "no": 0.00004})
        page = text_weights_html(certain)
        assert "yes &gt; 99.9 %" in page and "&lt; 0.1 %" in page

    def test_nothing_is_markup_and_nothing_is_fetched(self):
        bad = "<script>alert(1)</script><img src=x onerror=\"alert('2')\">&lt;"
        explanation = explained(
            bad, pattern=r"\S+", label=bad, probabilities={bad: 1.0}, method=bad
        )
        page = text_weights_html([explanation, explanation], title=bad)
        reader = Reader(page)
        allowed = set("html head meta title style body main h1 div span bdi i p".split())
        assert set(reader.tags) <= allowed
        assert reader.tags.count("style") == 1
        assert reader.text == bad * 2
        assert "default-src 'none'" in page
        assert not re.search(r"https?:|url\(|@import|\bsrc=|href=", page.replace("src=x", ""))

    @settings(deadline=None, max_examples=60)
    @given(st.text(ODD, max_size=20))
    def test_any_text_comes_back(self, text):
        explanation = Explanation(text, list(text), [(i, i + 1) for i in range(len(text))],
                                  np.ones(len(text)), text)  # fmt: skip
        page = text_weights_html(explanation, title=text)
        page.encode("utf-8")
        assert Reader(page).text == drawable(text)
        assert Reader(text_weights_fragment(explanation)).text == drawable(text)

    def test_no_text(self):
        assert Reader(text_weights_html(explained(""))).text == ""
        assert "no word was read" in text_weights_html(explained(""))
        assert "<h1" in text_weights_html([])


@needs_chromium
class TestBrowser:
    @pytest.fixture
    def opened(self, browser, tmp_path):
        """Opens a page; at the end nothing has gone wrong, and nothing else was asked for."""

        def show(page, width=900, height=1500):
            path = tmp_path / "page.html"
            path.write_text(page, encoding="utf-8")
            browser.errors.clear()
            browser.requests.clear()
            browser.resize(width, height)
            browser.open(path)
            return browser

        yield show
        assert browser.errors == []
        assert len(browser.requests) == 1

    def page(self):
        bad = "</title></style><script>document.title = 'run'</script><img src=x onerror=alert(1)>"
        texts = [f"good film {bad}", "فيلم رائع جدا 🙂 cafe\u0301", "x\x00\ud800 \u202eyz"]
        explanations = [
            explained(text, label=bad, probabilities={bad: 0.5}, method=bad) for text in texts
        ]
        explanations.append(explained("strong weak", [1.0, -1.0]))
        return text_weights_html(explanations, title=bad)

    def test_the_page_is_what_was_written(self, opened):
        dom = opened(self.page()).evaluate("document.documentElement.outerHTML")
        reader, written = Reader(dom), Reader(self.page())
        assert reader.text == written.text
        assert reader.weights == written.weights
        assert set(reader.tags) == set(written.tags)  # no script, no img came to be
        assert reader.tags.count("div") == written.tags.count("div")
        assert "<title>&lt;/title&gt;" in dom

    def test_the_colors_are_seen(self, opened, tmp_path):
        opened(self.page()).screenshot(tmp_path / "page.png")
        pixels = (imread(tmp_path / "page.png")[..., :3] * 255).round().astype(int)
        assert pixels.shape == (1500, 900, 3)
        for color in ((253, 141, 60), (107, 174, 214), (255, 255, 255), (26, 26, 26)):
            assert (pixels == color).all(axis=-1).sum() > 50, color

    def test_the_tab_key_shows_the_weight(self, opened, tmp_path):
        """A piece that has the focus has its weight in a box above it."""
        page = text_weights_html(explained("a word here", [0.1, 0.5, 0.2]))
        browser = opened(page, 700, 400)

        def dark():
            browser.screenshot(tmp_path / "page.png")
            return (imread(tmp_path / "page.png")[..., :3] < 0.15).all(axis=-1).sum()

        before = dark()
        browser.press("Tab")
        browser.press("Tab")
        assert browser.evaluate("document.activeElement.dataset.weight") == "0.5"
        assert dark() > before + 300


class TestPicture:
    def boxes(self, figure):
        return [
            (patch.get_x(), patch.get_y(), patch.get_width(), patch.get_facecolor()[:3])
            for patch in figure.axes[0].patches
        ]

    def test_pieces_lie_on_their_boxes(self, tmp_path):
        explanation = explained("so good\nbut", [0.5, -1.0, 0.0], label="yes",
                                probabilities={"yes": 0.75}, method="cost $5")  # fmt: skip
        figure = plot_text_weights(explanation, tmp_path / "picture.png")
        assert (tmp_path / "picture.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        axes = figure.axes[0]
        assert [text.get_text() for text in axes.texts] == ["so", " ", "good", "but"]
        places = [text.get_position() for text in axes.texts]
        assert places == [(0, 0.5), (2, 0.5), (3, 0.5), (0, 1.5)]
        boxes = self.boxes(figure)
        assert [(x, round(y), width) for x, y, width, _ in boxes] == [
            (0, 0, 2),
            (3, 0, 4),
            (0, 1, 3),
        ]
        np.testing.assert_allclose(boxes[1][3], np.array([107, 174, 214]) / 255)
        np.testing.assert_allclose(boxes[2][3], 1)
        assert figure.texts[0].get_text() == "yes 75.0 %"
        assert figure.axes[1].get_xlabel() == r"cost \$5"

    def test_letters_are_as_wide_as_their_boxes(self):
        word = "m" * 60
        figure = plot_text_weights(explained(word))
        figure.canvas.draw()
        text = figure.axes[0].texts[0].get_window_extent()
        box = figure.axes[0].patches[0].get_window_extent()
        assert text.width == pytest.approx(box.width, rel=0.02)

    def test_long_texts_are_wrapped_and_cut(self):
        figure = plot_text_weights(explained("word " * 1000 + "x" * 300), max_lines=5)
        texts = figure.axes[0].texts
        assert texts[-1].get_text() == "…"
        assert {text.get_position()[1] for text in texts} == {0.5, 1.5, 2.5, 3.5, 4.5, 5.5}
        ends = [text.get_position()[0] + len(text.get_text().rstrip()) for text in texts]
        assert max(ends) <= 96
        assert all(text.get_text().strip() in ("word", "…", "") for text in texts)
        long = plot_text_weights(explained("x" * 300)).axes[0].texts
        assert [len(text.get_text()) for text in long] == [96, 96, 96, 12]

    def test_other_letters_are_boxes_with_a_warning(self, tmp_path, monkeypatch):
        explanation = explained(ODD, label="日", probabilities={"日": 1.0}, method="中")
        monkeypatch.setattr(figures, "font_of", lambda character: "")
        with pytest.warns(UserWarning, match="write an HTML page"):
            figure = plot_text_weights(explanation, tmp_path / "picture.png", title="🙂 $x^2$")
        assert figure.texts[0].get_text() == "\u25a1 \\$x^2\\$"
        assert "\u25a1" in "".join(text.get_text() for text in figure.axes[0].texts)

    def test_no_text(self, tmp_path):
        plot_text_weights(explained(""), tmp_path / "picture.png")
