"""The page: what is in it, and what Chromium makes of it."""

import base64
import hashlib
import json
import re
import time
import zlib
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from browser import needs_chromium
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.images import load_image
from keras_attn.visualize import (
    AttentionPart,
    AttentionView,
    Focus,
    HeadOutcomes,
    Outcome,
    attention_viewer,
)
from keras_attn.visualize.display import displayed_tokens
from keras_attn.visualize.weight_codes import encode_weights

BAD = "</script><script>document.title='run'</script><img src=x onerror=alert(1)><!--&lt;"
ODD = "aב\u0627 \n\r\t\x00\x9b\ud800<>&\"'/$🙂\u2028é\u202e▁#[]"


def attention(*shape, seed=0):
    weights = np.random.default_rng(seed).random(shape).astype("float32") ** 3
    return weights / weights.sum(axis=-1, keepdims=True)


class Page(HTMLParser):
    """Tags, and what is in the script elements."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self.open = [], [], None
        self.feed(page)
        self.close()
        self.data = json.loads(self.scripts[0])

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, data):
        if self.open == "script":
            self.scripts[-1] += data


def decode(part):
    """The weights in the page, as its script reads them."""
    codes = np.frombuffer(zlib.decompress(base64.b64decode(part["weights"])), "uint8")
    codes = codes.reshape(sum(part["heads"]), -1, len(part["queries"])).swapaxes(1, 2)
    table = part["most"] * np.square(codes / part["levels"])
    return np.split(table, np.cumsum(part["heads"])[:-1])


class TestPage:
    def test_the_weights_are_in_it(self):
        layers = [attention(3, 4, 7), attention(1, 4, 7, seed=1) * 1e-4, np.zeros((2, 4, 7))]
        part = AttentionPart("cross", "abcd", "uvwxyz!", layers)
        found = decode(Page(attention_viewer(AttentionView([part]))).data["views"][0]["parts"][0])
        assert [len(layer) for layer in found] == [3, 1, 2]
        for read, layer in zip(found, part.weights, strict=True):
            assert np.abs(np.sqrt(read) - np.sqrt(layer)).max() <= 1.001 / 510

    @pytest.mark.slow
    def test_size_and_time_of_a_large_model(self):
        """12 layers of 12 heads over 128 tokens."""
        tokens = [f"w{i}" for i in range(128)]
        part = AttentionPart("self", tokens, tokens, [attention(12, 128, 128)] * 12)
        view = AttentionView([part])
        times = []
        for _ in range(3):
            start = time.perf_counter()
            page = attention_viewer(view)
            times.append(time.perf_counter() - start)
        assert len(page) < 3.4e6
        assert min(times) < 1.5

    def test_pages_stay_below_a_limit(self):
        """Fewer steps, and no weights below a limit that the page names."""
        tokens = [f"w{i}" for i in range(60)]
        part = AttentionPart("self", tokens, tokens, [attention(4, 60, 60)] * 2)
        rest, sizes = 0.0, []
        for limit, least in ((1e-9, 0.5), (10, 0.0), (0.01, 0.01)):
            text = attention_viewer(AttentionView([part]), max_megabytes=rest + limit)
            page = Page(text)
            assert page.data["least"] == least
            (found,) = page.data["views"][0]["parts"]
            (read, _) = decode(found)
            kept = part.weights[0] >= max(least, 0.01)
            assert (read[kept] > 0).all() and not read[part.weights[0] < least].any()
            distance = np.abs(np.sqrt(read) - np.sqrt(part.weights[0]))[kept].max(initial=0)
            assert distance <= 1.001 / (2 * found["levels"])
            sizes.append(len(text))
            rest = rest or (len(text) - len(found["weights"])) / 1e6
        assert sizes[1] > sizes[2] > sizes[0] and sizes[2] < 1e6 * rest + 10_000

    def test_answers_without_heads_are_in_it(self):
        outcomes = HeadOutcomes(Outcome("good", 0.75), {"a": [Outcome("bad", 0.5)] * 2})
        part = AttentionPart("self", "xy", "xy", [attention(2, 2, 2)] * 2, paths=["a", "b"])
        (view,) = Page(attention_viewer(AttentionView([part], outcomes=outcomes))).data["views"]
        assert view["whole"] == ["good", "75.0 %"]
        assert view["parts"][0]["without"] == [[["bad", "50.0 %"]] * 2, []]

    def test_nothing_is_markup_and_nothing_is_fetched(self):
        part = AttentionPart(BAD, [BAD, "b"], [BAD], [np.ones((2, 1))], BAD, BAD)
        text = attention_viewer([AttentionView([part], BAD)] * 2, BAD)
        page = Page(text)
        assert page.tags.count("script") == 2 and len(page.scripts) == 2
        assert "img" not in page.tags and "</script" not in page.scripts[0]
        assert page.data["views"][1]["parts"][0]["keys"] == [[BAD, False, False]]
        assert page.data["views"][0]["title"] == BAD
        text = text.replace("http://www.w3.org/2000/svg", "")  # the name of SVG
        assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp", text)

    def test_it_runs_its_own_script_alone(self):
        text = attention_viewer(AttentionView([AttentionPart("a", "b", "c", [np.ones((1, 1))])]))
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
        style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
        for content, kind in ((Page(text).scripts[1], "script"), (style, "style")):
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert f"{kind}-src 'sha256-{digest}'" in policy
        assert "default-src 'none'" in policy and "unsafe" not in policy

    @settings(deadline=None, max_examples=60)
    @given(st.lists(st.text(ODD, max_size=6), min_size=1, max_size=4), st.text(ODD, max_size=9))
    def test_any_tokens_come_back(self, tokens, title):
        part = AttentionPart(title, tokens, tokens, [np.ones((len(tokens),) * 2)])
        text = attention_viewer(AttentionView([part], title), title)
        text.encode("utf-8")
        read = Page(text).data["views"][0]["parts"][0]
        expected = [list(token) for token in displayed_tokens(tokens)]
        assert read["queries"] == read["keys"] == expected

    def test_pictures_are_embedded_and_small(self):
        part = AttentionPart("cross", "ab", None, [attention(2, 4)])
        noise = np.random.default_rng(0).integers(0, 256, (1000, 1500, 3)).astype("uint8")
        for image, kind, shape in ((noise, "jpeg", (427, 640)), (noise[:16, :16], "png", (16, 16))):
            view = AttentionView([part], image=image, grid=(2, 2))
            address = Page(attention_viewer(view)).data["views"][0]["image"]
            prefix, data = address.split(",")
            assert prefix == f"data:image/{kind};base64"
            assert load_image(base64.b64decode(data)).shape == (*shape, 3)

    def test_notebooks_get_a_frame(self):
        view = AttentionView([AttentionPart("a", ['"&'], "c", [np.ones((1, 1))])])
        frame = view._repr_html_()
        parser = HTMLParser()
        found = {}
        parser.handle_starttag = lambda tag, attributes: found.update({tag: dict(attributes)})
        parser.feed(frame)
        assert list(found) == ["iframe"]
        assert found["iframe"]["srcdoc"] == attention_viewer(view, view.title)
        assert found["iframe"]["sandbox"] == "allow-scripts allow-downloads"

    def test_no_views(self):
        with pytest.raises(ValueError, match="at least one `AttentionView`"):
            attention_viewer([])

    def test_bytes(self):
        """The square root of the weight in steps of 1 / 255, column by column."""
        told = encode_weights([np.array([[[0.25, 0.01, 0.0], [1, 0, 0]]], "float32")])
        codes = zlib.decompress(base64.b64decode(told["weights"]))
        assert list(codes) == [128, 255, 26, 0, 0, 0]


SOURCE = ["▁Ein", "▁klein", "er", "▁Hund", "</s>"]
TARGET = ["▁A", "▁small", "▁dog", "</s>"]
CROSS = [attention(3, 4, 5, seed=i) for i in range(2)]
ENCODER = [attention(3, 5, 5, seed=i + 5) for i in range(2)]
WORDS = [("red", np.eye(4)[:3] / 3), ("car", np.full((3, 4), 1 / 12))]
RTL = ["[CLS]", "هذا", "كتاب", "[SEP]"]


@pytest.fixture
def page(browser, tmp_path):
    """Opens views; at the end nothing has gone wrong, and nothing was asked for but the page."""

    def show(*views):
        path = tmp_path / "page.html"
        path.write_text(attention_viewer(views, BAD), encoding="utf-8")
        browser.errors.clear()
        browser.requests.clear()
        browser.prefer("light")
        browser.resize(1000, 900)
        browser.open(path)
        settle(browser)
        return browser

    yield show
    assert browser.errors == []
    assert browser.evaluate("document.title").strip() == BAD
    addresses = {a.split(":")[0] for a in browser.requests} - {"data"}
    assert addresses == {"file"} and sum(a.startswith("file") for a in browser.requests) == 1


def settle(browser):
    """Waits until the weights are decoded."""
    browser.evaluate(
        "new Promise(done => { const look = () => document.querySelector('[aria-busy=true]') ?"
        " setTimeout(look, 5) : done(); look(); })"
    )


FIRST = Focus(word=0, layer=-1, head="mean")


def translation(focus=FIRST, **more):
    return AttentionView(
        [
            AttentionPart("cross-attention", TARGET, SOURCE, CROSS, "target", "source"),
            AttentionPart("encoder self-attention", SOURCE, SOURCE, ENCODER, "source", "source"),
        ],
        focus=focus,
        **more,
    )


def shades(browser, side):
    return browser.evaluate(
        f"[...document.querySelectorAll('#{side} .t')].map("
        "e => Number(e.style.getPropertyValue('--w')))"
    )


def looks_like(browser, side, weights):
    """The tokens of a side have the square roots of the weights as their share of the colour."""
    np.testing.assert_allclose(shades(browser, side), np.sqrt(weights), atol=0.003)


def chip(side, index):
    return f"#{side} .t[data-index='{index}']"


def radio(name, value):
    return f"#{name} label:has(input[value='{value}'])"


def status(browser):
    return browser.evaluate("document.getElementById('status').textContent")


@needs_chromium
class TestBrowser:
    def test_a_word_under_the_pointer_shows_where_it_looked(self, page):
        browser = page(translation())
        looks_like(browser, "keys", CROSS[1].mean(axis=0)[0])  # at first: the first word
        browser.hover(chip("queries", 2))
        expected = CROSS[1].mean(axis=0)[2]
        looks_like(browser, "keys", expected)
        most = ["Ein", "klein", "er", "Hund", "</s>"][expected.argmax()]
        assert status(browser).startswith(f"“dog” looked at {most} {expected.max():.2f} · ")
        assert browser.evaluate("document.querySelector('.on').textContent") == "dog"
        browser.hover("h1")
        looks_like(browser, "keys", CROSS[1].mean(axis=0)[0])

    def test_what_was_looked_at_shows_who_looked(self, page):
        browser = page(translation())
        browser.hover(chip("keys", 3))
        looks_like(browser, "queries", CROSS[1].mean(axis=0)[:, 3])
        assert status(browser).startswith("“Hund” was looked at by ")
        assert not any(shades(browser, "keys"))

    def test_layers_and_heads_are_chosen(self, page):
        browser = page(translation())
        browser.click(chip("queries", 1))
        browser.click(radio("layers", 0))
        looks_like(browser, "keys", CROSS[0].mean(axis=0)[1])
        browser.click(radio("heads", 2))
        looks_like(browser, "keys", CROSS[0][2, 1])
        browser.click("#all canvas[title='layer 1, head 0']")
        looks_like(browser, "keys", CROSS[1][0, 1])
        checked = "[...document.querySelectorAll('input:checked')].map(e => e.value)"
        assert browser.evaluate(checked) == ["0", "words", "1", "0"]
        browser.click(radio("layers", -1))
        looks_like(browser, "keys", np.mean(CROSS, axis=(0, 1))[1])
        assert browser.evaluate("document.querySelectorAll('#heads input:disabled').length") == 3

    def test_kinds_of_attention_and_views_are_chosen(self, page):
        other = AttentionView([AttentionPart("pooling", ["good"], "ab", [attention(1, 2)])])
        browser = page(translation(), other)
        browser.click(radio("parts", 1))
        settle(browser)
        looks_like(browser, "keys", ENCODER[1].mean(axis=0)[0])
        browser.evaluate(
            "(() => { const s = document.getElementById('views'); s.value = 1; "
            "s.dispatchEvent(new Event('change')); })()"
        )
        settle(browser)
        looks_like(browser, "keys", attention(1, 2)[0])
        hidden = "['layers', 'heads', 'forms', 'all'].map(i => document.getElementById(i).hidden)"
        assert browser.evaluate(hidden) == [True] * 4
        browser.evaluate("(s => { s.value = 0; s.onchange(); })(document.getElementById('views'))")
        settle(browser)
        looks_like(browser, "keys", CROSS[1].mean(axis=0)[0])

    def test_the_keyboard(self, page):
        browser = page(translation())
        focused = "document.activeElement.textContent"
        for _ in range(20):
            browser.press("Tab")
            if browser.evaluate("document.activeElement.closest('#queries') !== null"):
                break
        assert browser.evaluate(focused) == "A"
        browser.press("ArrowRight")
        browser.press("ArrowRight")
        assert browser.evaluate(focused) == "dog"
        looks_like(browser, "keys", CROSS[1].mean(axis=0)[2])
        browser.press("End")
        browser.press("ArrowRight")
        assert browser.evaluate(focused) == "</s>"
        browser.press("Home")
        browser.press("ArrowLeft")
        assert browser.evaluate(focused) == "A"
        # One stop of the tab key for each text.
        assert browser.evaluate("document.querySelectorAll('.t[tabindex=\"0\"]').length") == 2

    def test_right_to_left(self, page):
        part = AttentionPart("self", RTL, RTL, [attention(4, 4)])
        browser = page(AttentionView([part], focus=FIRST))
        places = browser.evaluate(
            "[...document.querySelectorAll('#queries .t')].map(e => e.getBoundingClientRect().left)"
        )
        assert places == sorted(places, reverse=True)
        browser.click(chip("queries", 1))
        browser.press("ArrowLeft")
        assert browser.evaluate("document.activeElement.dataset.index") == "2"

    def test_a_finger(self, page):
        browser = page(translation())
        browser.tap(chip("queries", 3))
        looks_like(browser, "keys", CROSS[1].mean(axis=0)[3])

    def test_the_maps_of_heads(self, page):
        browser = page(translation())
        alpha = (
            "(c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"
            ".filter((_, i) => i % 4 === 3))(document.querySelector('{}'))"
        )
        for selector, weights in (
            ('#all canvas[title="layer 0, head 2"]', CROSS[0][2]),
            ('#all canvas[title="layer 1, head 1"]', CROSS[1][1]),
        ):
            found = np.reshape(browser.evaluate(alpha.format(selector)), (4, 5)) / 255
            np.testing.assert_allclose(found, np.sqrt(weights), atol=0.02)

    @pytest.mark.slow
    def test_the_matrix(self, page):
        browser = page(translation())
        browser.click(radio("forms", "matrix"))
        cells = browser.evaluate(
            "(async () => { const i = new Image(); i.src = document.querySelector('.cells')"
            ".getAttribute('href'); await i.decode(); const c = document.createElement('canvas');"
            "c.width = 5; c.height = 4; const p = c.getContext('2d'); p.drawImage(i, 0, 0);"
            "return [...p.getImageData(0, 0, 5, 4).data].filter((_, i) => i % 4 === 3); })()"
        )
        expected = np.sqrt(CROSS[1].mean(axis=0))
        np.testing.assert_allclose(np.reshape(cells, (4, 5)) / 255, expected, atol=0.02)
        texts = "[...document.querySelectorAll('.matrix text')].map(e => e.textContent)"
        assert browser.evaluate(texts) == [
            *("A", "small", "dog", "</s>"),
            *("Ein", "klein", "er", "Hund", "</s>"),
        ]
        browser.hover(".cells", 0.7, 0.6)  # row 2, column 3
        number = f"{CROSS[1].mean(axis=0)[2, 3]:.2f}"
        assert status(browser) == f"“dog” → Hund {number}"
        browser.click(".cells", 0.1, 0.1)
        browser.evaluate("document.querySelector('.matrix').focus()")
        for key, word in (("ArrowDown", "“small” → Ein"), ("ArrowRight", "“small” → klein")):
            browser.press(key)
            assert status(browser).startswith(word)
        browser.press("End")
        assert status(browser).startswith("“small” → </s>")

    @pytest.mark.slow
    def test_lines_between_words(self, page):
        browser = page(translation())
        browser.click(radio("forms", "lines"))
        lines = (
            "[...document.querySelectorAll('.chosen line')].map(e => "
            "Number(e.getAttribute('stroke-opacity')))"
        )
        browser.hover(".lines text[data-side='queries'][data-index='2']")
        weights = CROSS[1].mean(axis=0)
        np.testing.assert_allclose(browser.evaluate(lines), np.sqrt(weights[2]), atol=0.004)
        browser.click(".lines text[data-side='keys'][data-index='3']")
        np.testing.assert_allclose(browser.evaluate(lines), np.sqrt(weights[:, 3]), atol=0.004)
        assert status(browser).startswith("“Hund” was looked at by ")
        browser.evaluate("document.querySelector('.lines').focus()")
        browser.press("ArrowLeft")
        assert status(browser).startswith("“</s>” looked at ")

    @pytest.mark.slow
    def test_two_heads_beside_each_other(self, page):
        browser = page(translation())
        browser.click("#compare")
        browser.click(radio("layers2", 0))
        browser.click(radio("heads2", 2))
        browser.click(chip("queries", 2))
        looks_like(browser, "keys", CROSS[1].mean(axis=0)[2])
        second = (
            "[...document.querySelectorAll('.pane:nth-child(2) .keys .t')].map("
            "e => Number(e.style.getPropertyValue('--w')))"
        )
        np.testing.assert_allclose(browser.evaluate(second), np.sqrt(CROSS[0][2, 2]), atol=0.003)
        assert "layer 0, head 2: “dog” looked at" in status(browser)
        browser.click("#all canvas[title='layer 1, head 0']")
        np.testing.assert_allclose(browser.evaluate(second), np.sqrt(CROSS[1][0, 2]), atol=0.003)
        browser.click("#compare")
        assert browser.evaluate("document.querySelectorAll('.pane').length") == 1

    @pytest.mark.slow
    def test_it_opens_on_the_strongest_link(self, page):
        weights = np.full((2, 2, 4, 5), 0.01, "float32")
        weights[0, 1, 2, 3] = 0.9
        weights[1, 0, 3, 4] = 1.0  # of the end to the end, which are no words
        part = AttentionPart("cross", TARGET, SOURCE, list(weights))
        browser = page(AttentionView([part]))
        looks_like(browser, "keys", weights[0, 1, 2])
        pressed = "[...document.querySelectorAll('[aria-pressed=true]')].map(e => e.textContent)"
        assert browser.evaluate(pressed) == ["dog"]
        browser.evaluate("location.hash = document.querySelector('#link').hash")
        assert "layer=0&head=1&queries=2" in browser.evaluate("location.hash")

    @pytest.mark.slow
    def test_a_link_opens_the_same_view(self, page):
        browser = page(translation(), translation(title="other"))
        browser.evaluate(
            "location.hash = 'view=1&part=1&as=lines&layer=0&head=2&keys=3&layer2=1&head2=-1'"
        )
        browser.evaluate("new Promise(done => setTimeout(done, 100))")
        settle(browser)
        checked = "[...document.querySelectorAll('input:checked')].map(e => e.value)"
        assert browser.evaluate(checked) == ["1", "lines", "0", "2", "1", "-1"]
        assert browser.evaluate("document.getElementById('views').value") == "1"
        assert "“Hund” was looked at by " in status(browser)
        found = browser.evaluate("new URL(document.querySelector('#link').href).hash")
        assert found == "#view=1&part=1&as=lines&layer=0&head=2&keys=3&layer2=1&head2=-1"
        browser.evaluate("location.hash = '#view=99&layer=x'")  # names nothing: nothing happens
        assert browser.evaluate("document.getElementById('views').value") == "1"

    @pytest.mark.slow
    def test_heads_are_switched_off(self, page):
        good, bad = Outcome("good", 0.75), Outcome("<b>bad", 0.5)
        outcomes = HeadOutcomes(good, {"a": [good, bad, good], "b": [good] * 3})
        part = AttentionPart("cross", TARGET, SOURCE, CROSS, paths=["a", "b"])
        browser = page(AttentionView([part], focus=Focus(0, layer=0, head=1), outcomes=outcomes))
        answer = "document.getElementById('answer').textContent"
        assert browser.evaluate(answer).startswith("Answer: good 75.0 % · 1 of the 6 heads")
        framed = "[...document.querySelectorAll('.changes')].map(e => e.title)"
        assert browser.evaluate(framed) == ["layer 0, head 1; without it: <b>bad 50.0 %"]
        browser.click("#off")
        expected = "Answer without layer 0, head 1: <b>bad 50.0 % · with all heads: good 75.0 %"
        assert browser.evaluate(answer) == expected
        assert browser.evaluate("document.getElementById('off').ariaPressed") == "true"
        browser.click(radio("heads", 0))
        assert " · the same with all heads: good 75.0 %" in browser.evaluate(answer)

    @pytest.mark.slow
    def test_what_is_seen_is_saved(self, page):
        browser = page(translation())
        browser.evaluate(
            "(() => { window.kept = []; const make = URL.createObjectURL;"
            "URL.createObjectURL = blob => { kept.push(blob); return '#'; };"
            "HTMLAnchorElement.prototype.click = function () { kept.push(this.download); }; })()"
        )
        for form in ("words", "matrix", "lines"):
            browser.click(radio("forms", form))
            browser.evaluate("kept.length = 0")
            browser.click("#svg")
            text = browser.evaluate("new Promise(d => setTimeout(() => d(kept[0].text()), 50))")
            root = ElementTree.fromstring(text)
            words = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
            assert {"Ein", "Hund", "small"} <= set(words), form
            assert browser.evaluate("kept[1]") == "attention-layer-1-mean-of-its-heads.svg"
        browser.evaluate("kept.length = 0")
        browser.click("#png")
        size = browser.evaluate(
            "new Promise(d => { const look = () => kept.length ? createImageBitmap(kept[0]).then("
            "b => d([b.width, b.height])) : setTimeout(look, 20); look(); })"
        )
        assert min(size) > 300

    def test_a_picture(self, page):
        image = np.full((300, 400, 3), 200, "uint8")
        browser = page(AttentionView.from_words(image, WORDS))
        box = browser.evaluate(
            "(() => { const b = document.querySelector('.picture').getBoundingClientRect();"
            "return [b.width, b.height]; })()"
        )
        assert box[0] / box[1] == pytest.approx(4 / 3, rel=0.01)
        veil = (
            "(() => { const c = document.querySelector('#keys canvas'), p = c.getContext('2d');"
            "const at = (x) => p.getImageData(x * c.width, c.height / 6, 1, 1).data[3];"
            "return [at(1 / 8), at(7 / 8)]; })()"
        )
        browser.hover(chip("queries", 0))
        on, off = browser.evaluate(veil)
        assert on < 60 and off > 160  # "red" looked at the diagonal
        browser.hover(chip("queries", 1))
        on, off = browser.evaluate(veil)
        assert on == off < 60
        assert "half of its attention is in 6 of 12 regions" in status(browser)
        browser.hover("#keys canvas", 1 / 8, 1 / 6)
        looks_like(browser, "queries", np.array([1 / 3, 1 / 12]))
        assert status(browser).startswith("“row 0, column 0” was looked at by red 0.33")
        browser.hover("#keys canvas", 3 / 8, 1 / 2)
        looks_like(browser, "queries", np.array([1 / 3, 1 / 12]))
        browser.hover("#keys canvas", 0.99, 0.99)
        assert status(browser).startswith("“row 2, column 3” was looked at by car 0.08")
        looks_like(browser, "queries", np.array([0, 1 / 12]))

    def test_odd_tokens_are_text(self, page):
        tokens = [BAD, *(t for t in ODD if not t.isspace()), "</b>", "\n"]
        weights = attention(len(tokens), len(tokens))
        browser = page(AttentionView([AttentionPart(BAD, tokens, tokens, [weights])]))
        texts = "[...document.querySelectorAll('#keys .t')].map(e => e.textContent)"
        shown = browser.evaluate(texts)
        assert shown == [token.text for token in displayed_tokens(tokens)]
        browser.hover(chip("queries", 0))
        assert status(browser).startswith(f"“{BAD}” looked at ")
        assert browser.evaluate("document.images.length") == 0

    @pytest.mark.slow
    def test_dark_and_narrow(self, page, tmp_path):
        browser = page(translation())
        color = "getComputedStyle(document.body).backgroundColor"
        light = browser.evaluate(color)
        browser.prefer("dark")
        assert browser.evaluate(color) != light
        browser.resize(360, 700)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 360
        browser.screenshot(tmp_path / "narrow.png")
        browser.prefer("light")
        browser.resize(1000, 900)

    @pytest.mark.slow
    def test_a_notebook(self, browser, tmp_path):
        part = AttentionPart("cross", ["dog"], ["Hund"], [np.ones((1, 1, 1))])
        view = AttentionView([part])
        path = tmp_path / "notebook.html"
        path.write_text(f"<!DOCTYPE html><title>{view.title}</title>{view._repr_html_()}")
        browser.errors.clear()
        browser.open(path)
        from matplotlib.image import imread

        for _ in range(100):  # frames, until the page within the page is painted
            browser.evaluate("new Promise(painted => requestAnimationFrame(painted))")
            browser.screenshot(tmp_path / "picture.png")
            pixels = (imread(tmp_path / "picture.png")[..., :3] * 255).round().astype(int)
            deepest = (pixels == (253, 141, 60)).all(axis=-1).sum()
            if deepest > 50:
                break
        assert deepest > 50
        assert browser.errors == []

    @pytest.mark.slow
    def test_hovering_changes_little(self, page):
        """12 layers of 12 heads over 128 tokens: shades change, and no token is made anew."""
        tokens = [f"w{i}" for i in range(128)]
        part = AttentionPart("self", tokens, tokens, [attention(12, 128, 128)] * 12)
        browser = page(AttentionView([part]))
        browser.click(radio("layers", -1))
        browser.click(chip("queries", 0))
        changes = browser.evaluate(
            "[...document.querySelectorAll('#queries .t')].map(e => {"
            "const seen = new MutationObserver(() => {});"
            "seen.observe(document.body, {childList: true, attributes: true, subtree: true});"
            "const move = {bubbles: true, pointerType: 'mouse'};"
            "e.dispatchEvent(new PointerEvent('pointermove', move));"
            "const all = seen.takeRecords(); seen.disconnect();"
            "const made = all.filter(r => [...r.addedNodes].some(n => n.nodeType === 1));"
            "return [all.length, made.length]; })"
        )
        assert len(changes) == 128
        # Of each token a few attributes, and one line that says what was seen.
        assert all(0 < number <= 4 * 128 and made <= 1 for number, made in changes[1:])
