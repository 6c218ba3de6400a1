"""The page on an encoder: what is in it, and what Chromium makes of it."""

import base64
import dataclasses
import hashlib
import re

import numpy as np
import pytest
from browser import needs_chromium

from keras_attn.explain import HeadRoles
from keras_attn.visualize import AttentionPart, AttentionView, LectureSentence, encoder_page
from keras_attn.visualize.focus import Focus, find_focus

BAD = "</script><script>document.title='run'</script><img src=x onerror=alert(1)>"
TOKENS = [["[CLS]", "it", "un", "##able", "[SEP]"], ["[CLS]", "bank", "[SEP]"]]
NOTES = [
    LectureSentence("It unable", None, "Unable", "Look <there>."),
    LectureSentence("Bank", None, "bank", "And here."),
]
ROLES = HeadRoles([[[0.9, 0.0, 0.1, 0.0, 0.2]] * 2] * 2, 4)


def attention(*shape, seed=0):
    weights = np.random.default_rng(seed).random(shape) ** 3
    return (weights / weights.sum(axis=-1, keepdims=True)).astype("float32")


WEIGHTS = [[attention(2, len(t), len(t), seed=i) for i in range(2)] for t in TOKENS]
VIEWS = [
    AttentionView([AttentionPart("self", tokens, tokens, weights)], f"text {i}")
    for i, (tokens, weights) in enumerate(zip(TOKENS, WEIGHTS, strict=True))
]


def test_all_is_in_one_page():
    ids = [[2, 9, 8, 7, 3], [2, 6, 3]]
    page = encoder_page(VIEWS, ROLES, np.zeros((4, 4)), ids=ids, notes=NOTES, title=BAD)
    assert page.count('class="kt"') == 2 and page.count('class="kh"') == 2
    assert page.count("<script") == 2 and "<img" not in page
    assert re.findall(r'data-view="(\d)" data-query="(\d)"', page) == [("0", "2"), ("1", "1")]
    assert "Look &lt;there&gt;." in page and "##able, id 7, continues the word" in page
    page = page.replace("http://www.w3.org/2000/svg", "")  # the name of SVG
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp|style=", page)


def test_its_policy_lets_nothing_else_run():
    page = encoder_page(VIEWS, ROLES)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    for content, kind in ((script, "script"), (style, "style")):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_what_is_not_given_is_left_out():
    page = encoder_page(VIEWS[0])
    assert page.count('class="kt"') == 1
    assert '<div class="kh"' not in page and '<button class="go"' not in page


def test_refuses():
    with pytest.raises(ValueError, match=r"must be a word of the text.*'bank'"):
        encoder_page(VIEWS, notes=NOTES[::-1])
    with pytest.raises(ValueError, match=r"must be a word of the text.*'bank'"):
        encoder_page(dataclasses.replace(VIEWS[0], focus=Focus("it")), notes=NOTES[1:])
    with pytest.raises(ValueError, match="for each of the 2 views"):
        encoder_page(VIEWS, notes=NOTES[:1])
    with pytest.raises(ValueError, match="requires `roles`"):
        encoder_page(VIEWS, divergence=np.zeros((4, 4)))
    with pytest.raises(ValueError, match="at least one `AttentionView`"):
        encoder_page([])


@needs_chromium
def test_in_a_browser(browser, tmp_path):
    path = tmp_path / "page.html"
    page = encoder_page(VIEWS, ROLES, np.zeros((4, 4)), notes=NOTES, title=BAD)
    path.write_text(page, encoding="utf-8")
    browser.errors.clear()
    browser.requests.clear()
    browser.prefer("light")
    browser.resize(1000, 900)
    browser.open(path)
    assert browser.evaluate("document.title").strip() == BAD
    shades = (
        "[...document.querySelectorAll('#keys .t')].map("
        "e => Number(e.style.getPropertyValue('--w')))"
    )
    focused = "document.activeElement.textContent"
    for view, query, word in ((1, 1, "bank"), (0, 2, "un")):
        browser.click(f"button[data-view='{view}']")
        browser.evaluate("new Promise(done => setTimeout(done, 100))")
        focus = find_focus(VIEWS[view].parts, Focus(query))
        expected = WEIGHTS[view][focus["layer"]][focus["head"]][query]
        np.testing.assert_allclose(browser.evaluate(shades), np.sqrt(expected), atol=0.003)
        assert browser.evaluate(focused) == word
        assert browser.evaluate("document.getElementById('views').value") == str(view)
    browser.press("ArrowRight")
    assert browser.evaluate(focused) == "able"
    # Black or white letters on each colour, in both schemes: contrast of WCAG AA is 4.5.
    colours = (
        "[...document.querySelectorAll('.kh td[title], .piece')].filter(e => e.textContent)"
        ".map(e => getComputedStyle(e)).map(s => [s.color, s.backgroundColor])"
    )
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        ground = browser.evaluate("getComputedStyle(document.querySelector('.kh')).backgroundColor")
        for letters, color in {tuple(pair) for pair in browser.evaluate(colours)}:
            assert contrast(over(letters, ground), over(color, ground)) >= 4.5, (scheme, color)
    browser.prefer("light")
    browser.resize(360, 700)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
    browser.resize(1000, 900)
    assert browser.errors == [] and len(browser.requests) == 1


def over(color, ground):
    """The colour that is seen, if `color` may be transparent."""
    red, green, blue, *alpha = (float(x) for x in re.findall(r"[\d.]+", color))
    share = alpha[0] if alpha else 1.0
    under = [float(x) for x in re.findall(r"[\d.]+", ground)][:3]
    return [share * c + (1 - share) * g for c, g in zip((red, green, blue), under, strict=True)]


def contrast(one, two):
    """The contrast ratio of WCAG."""
    lights = []
    for color in (one, two):
        linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
        lights.append(0.05 + np.dot(linear, [0.2126, 0.7152, 0.0722]))
    return max(lights) / min(lights)
