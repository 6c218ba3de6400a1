"""Tokens in colours: pieces of words, special and unknown tokens, any text."""

import itertools
import re
from html.parser import HTMLParser

import pytest
from browser import needs_chromium
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.visualize import (
    coloured_tokens_fragment,
    coloured_tokens_html,
    coloured_tokens_text,
)
from keras_attn.visualize.display import displayed_tokens

TOKENS = ["[CLS]", "un", "##aff", "##able", "cafe", "[UNK]", "!", "[SEP]"]
ODD = "aב\u0627 \n\r\t\x00\x1b\x9b\ud800<>&\"'$🙂\u202e▁#[]"


class Card(HTMLParser):
    """The words of a card: for each the texts and attributes of its pieces."""

    def __init__(self, html):
        super().__init__()
        self.words, self.tags, self._open = [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        found = dict(attributes)
        classes = found.get("class", "").split()
        self._open.append("piece" in classes)
        if "word" in classes:
            self.words.append([])
        elif "piece" in classes:
            self.words[-1].append(["", classes, found])

    def handle_endtag(self, tag):
        self._open.pop()

    def handle_data(self, data):
        if any(self._open):
            self.words[-1][-1][0] += data


def card(*arguments):
    return Card(coloured_tokens_fragment(*arguments).partition("</style>")[2])


def test_pieces_are_joined_to_their_word():
    found = card(TOKENS, range(10, 18))
    assert [[text for text, _, _ in word] for word in found.words] == [
        ["[CLS]"], ["un", "aff", "able"], ["cafe"], ["[UNK]"], ["!"], ["[SEP]"]
    ]  # fmt: skip
    kinds = [classes[1:] for word in found.words for _, classes, _ in word]
    assert kinds == [
        ["special"], ["c1", "goes-on"], ["c2", "joined", "goes-on"], ["c3", "joined"], ["c0"],
        ["unknown"], ["c2"], ["special"],
    ]  # fmt: skip
    told = [attributes["title"] for word in found.words for _, _, attributes in word]
    assert told == [
        "[CLS], id 10, special token", "un, id 11", "##aff, id 12, continues the word",
        "##able, id 13, continues the word", "cafe, id 14",
        "[UNK], id 15, unknown to the vocabulary", "!, id 16", "[SEP], id 17, special token",
    ]  # fmt: skip
    page = coloured_tokens_fragment(TOKENS)
    assert "8 tokens, 2 inside a word, 2 special, 1 unknown" in page and "id 1" not in page


def test_tokens_of_byte_pairs():
    found = card(["So", "▁un", "able", "</s>"])
    assert [[text for text, _, _ in word] for word in found.words] == [
        ["So"], ["un", "able"], ["</s>"]
    ]  # fmt: skip


def test_in_a_terminal():
    plain = coloured_tokens_text(TOKENS, colour=False)
    assert plain == "[CLS] un·aff·able cafe [UNK] ! [SEP]"
    coloured = coloured_tokens_text(TOKENS)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    backgrounds = re.findall(r"\x1b\[38;5;16;48;5;(\d+)m(\w+|!)\x1b\[0m", coloured)
    assert [text for _, text in backgrounds] == ["un", "aff", "able", "cafe", "!"]
    assert all(a != b for (a, _), (b, _) in itertools.pairwise(backgrounds))
    assert coloured.count("\x1b[7m[") == 3
    # A token cannot clear the screen.
    assert coloured_tokens_text(["a\x1b[2Jb"], colour=False) == "a␛[2Jb"
    assert coloured_tokens_text([]) == ""


def test_markup_is_text():
    bad = '<img src=x onerror="alert(1)">'
    found = card([bad, "&lt;"])
    assert "img" not in found.tags
    assert [word[0][0] for word in found.words] == [bad, "&lt;"]
    assert found.words[0][0][2]["title"] == bad


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text(ODD, max_size=6), max_size=5))
def test_any_tokens_are_text(tokens):
    found = card(tokens)
    assert set(found.tags) == {"div", "p"} | ({"span"} if tokens else set())
    texts = [text for word in found.words for text, _, _ in word]
    assert texts == [token.text for token in displayed_tokens(tokens)]
    coloured_tokens_html(tokens).encode("utf-8")
    assert coloured_tokens_text(tokens, colour=False).isprintable() or "\u202e" in "".join(tokens)


def test_several_texts_and_ids_that_do_not_fit():
    page = coloured_tokens_html([["a"], ["b", "c"]], [[5], [6, 7]], "Two <texts>")
    assert page.count('class="kt"') == 2 and "c, id 7" in page
    assert "<title>Two &lt;texts&gt;</title>" in page and "<script" not in page
    with pytest.raises(ValueError, match="an id for each of the 2 tokens"):
        coloured_tokens_fragment(["a", "b"], [1])


@needs_chromium
def test_in_a_browser(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(coloured_tokens_html([*TOKENS, "<img src=x onerror=alert(1)>"]), "utf-8")
    browser.errors.clear()
    browser.open(path)
    boxes = browser.evaluate(
        "[...document.querySelectorAll('.piece')].map(e => e.getBoundingClientRect())"
        ".map(b => [b.left, b.right])"
    )
    assert boxes[2][0] == pytest.approx(boxes[1][1], abs=0.1)  # pieces of a word touch
    assert boxes[4][0] > boxes[3][1] + 2  # words do not
    colours = browser.evaluate(
        "[...document.querySelectorAll('.piece')].map(e => getComputedStyle(e).backgroundColor)"
    )
    assert len({colours[i] for i in (1, 2, 3, 4)}) == 4
    browser.press("Tab")
    browser.press("Tab")
    shown = "getComputedStyle(document.activeElement, '::after').content"
    assert browser.evaluate(shown) == '"un"'
    assert browser.errors == []
    browser.resize(300, 700)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 300
    browser.resize(1000, 900)
