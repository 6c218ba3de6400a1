"""The page with a map of words, in a browser."""

import json

import numpy as np
import pytest
from browser import needs_chromium

from keras_attn.metrics import WordSpace
from keras_attn.visualize import word_map_page

WORDS = ["sun", "moon", "day", "</script>", "night & day", "Star"]
VECTORS = np.random.default_rng(0).normal(size=(7, 4))
SPACE = WordSpace([*WORDS, "far"], VECTORS)
PLACES = np.random.default_rng(1).random((6, 2))


def test_what_is_in_the_page():
    """Neighbours among all words; those on the map by number, which can be clicked."""
    page = word_map_page(SPACE, WORDS, top_k=3, places=PLACES)
    assert page.count("</script>") == 2
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["words"] == WORDS
    for i, word in enumerate(WORDS):
        expected = SPACE.nearest(word, top_k=3)
        assert [WORDS[w] if isinstance(w, int) else w for w, _ in data["near"][i]] == [
            n.word for n in expected
        ]
        found = [cosine for _, cosine in data["near"][i]]
        assert found == pytest.approx([n.similarity for n in expected], abs=1e-4)
    assert {w for row in data["near"] for w, _ in row if isinstance(w, str)} <= {"far"}


def test_places_must_fit():
    with pytest.raises(ValueError, match=r"places of shape \(6, 2\).*\(3, 2\)"):
        word_map_page(SPACE, WORDS, places=PLACES[:3])


@needs_chromium
@pytest.mark.slow
def test_search_and_click(browser, tmp_path):
    path = tmp_path / "map.html"
    path.write_text(word_map_page(SPACE, WORDS, top_k=6, places=PLACES), encoding="utf-8")
    browser.open(path)
    assert browser.evaluate("document.querySelectorAll('#map g.word').length") == 6
    browser.evaluate(
        "const s = document.getElementById('search'); s.value = 'STA'; s.oninput();"
        "document.querySelector('#found button').click()"
    )
    assert browser.evaluate("document.getElementById('word').textContent") == "Star"
    near = browser.evaluate("[...document.querySelectorAll('#near li')].map((x) => x.textContent)")
    expected = [f"{word}{cosine:.3f}" for word, cosine in SPACE.nearest("Star", top_k=6)]
    assert [text[:-6] for text in near] == [text[:-6] for text in expected]
    browser.evaluate(
        "[...document.querySelectorAll('#map g.word')].find((g) => g.textContent === 'sun')"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert browser.evaluate("document.getElementById('word').textContent") == "sun"
    assert browser.evaluate("document.querySelectorAll('#map .near').length") == 5
    browser.evaluate("[...document.querySelectorAll('#near button')][0].click()")
    nearest = next(w for w, _ in SPACE.nearest("sun", top_k=6) if w != "far")
    assert browser.evaluate("document.getElementById('word').textContent") == nearest
    assert not browser.errors and browser.requests == [path.as_uri()]


@needs_chromium
@pytest.mark.slow
def test_labels_do_not_overlap(browser, tmp_path):
    """Of 300 crowded words those are written for which there is room, also of 390 pixels."""
    words = [f"word{i}" for i in range(300)]
    random = np.random.default_rng(2)
    page = word_map_page(
        WordSpace(words, random.normal(size=(300, 4))),
        words,
        top_k=3,
        places=random.random((300, 2)),
    )
    path = tmp_path / "map.html"
    path.write_text(page, encoding="utf-8")
    boxes = (
        "[...document.querySelectorAll('#map text')].filter(e => e.style.display !== 'none')"
        ".map(e => e.getBoundingClientRect()).map(b => [b.left, b.top, b.right, b.bottom])"
    )
    wait = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    for width, least in ((1000, 60), (390, 15)):
        browser.resize(width, 800)
        browser.open(path)
        browser.evaluate(wait)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        size = "parseFloat(getComputedStyle(document.querySelector('#map text')).fontSize)"
        assert browser.evaluate(size) >= 12
        found = np.array(browser.evaluate(boxes))
        before = len(found)
        assert before >= least
        left, top, right, bottom = found.T
        apart = (right[:, None] < left) | (right < left[:, None])
        apart |= (bottom[:, None] < top + 2) | (bottom < top[:, None] + 2)
        assert (apart | np.eye(before, dtype=bool)).all()
    browser.evaluate(
        "[...document.querySelectorAll('#map g.word')].find(g => g.textContent === 'word299')"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    shown = "document.querySelector('#map .chosen text').style.display"
    assert browser.evaluate(shown) == ""  # the chosen word is written first
    browser.resize(1000, 900)
