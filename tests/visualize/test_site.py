"""The site: every public name, whole links, and pages as a browser shows them."""

import html
import importlib.util
import json
import re
import subprocess
import sys
import time
import tomllib
import types
import zlib
from pathlib import Path
from urllib.parse import unquote

import pytest
from browser import needs_chromium

import keras_attn

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build/site"
SHOWN = ("index.html", "results.html", "reference/layers.html", "reference/tasks/translation.html")
needs_zensical = pytest.mark.skipif(
    importlib.util.find_spec("zensical") is None, reason="needs the extra `site`"
)


def test_every_page_is_in_the_navigation():
    text = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    tomllib.loads(text)
    pages = [path.name for path in ROOT.glob("docs/*.md")]
    tasks = (ROOT / "keras_attn/tasks").glob("[a-z]*.py")
    pages += [f"reference/tasks/{path.stem}.md" for path in tasks]
    missing = [page for page in pages if f'"{page}"' not in text]
    assert not missing, f"zensical.toml does not name {missing}"


@pytest.fixture(scope="module")
def site():
    """The site, built anew if a source is newer than it."""
    sources = [ROOT / "zensical.toml", ROOT / "README.md", *ROOT.glob("docs/**/*.*")]
    sources += ROOT.glob("keras_attn/**/*.py")
    index = SITE / "index.html"
    if not index.exists() or index.stat().st_mtime < max(p.stat().st_mtime for p in sources):
        subprocess.run([sys.executable, ROOT / "docs/site/build.py"], check=True)
    return SITE


@pytest.mark.slow
@needs_zensical
def test_every_public_name_is_on_a_page(site):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(inventory).decode().splitlines()
    shown = {line.split(" py:")[0] for line in lines}
    rooms = {
        name: room
        for name in keras_attn.__all__
        if isinstance(room := getattr(keras_attn, name), types.ModuleType)
    }
    public = {f"keras_attn.{room}.{name}" for room in rooms for name in rooms[room].__all__}
    assert not public - shown
    overview = (site / "reference/index.html").read_text(encoding="utf-8")
    others = set(keras_attn.__all__) - set(rooms) - set(rooms["layers"].__all__)
    assert all(f"keras_attn.{name}" in overview for name in others)


@pytest.mark.slow
@needs_zensical
def test_tasks_show_inherited_methods_and_no_insides(site):
    text = (site / "reference/tasks/translation.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'id="keras_attn\.tasks\.Translator\.(\w+)"', text))
    assert {"translate", "fit", "evaluate", "export", "save", "load", "predict"} <= shown
    assert not {"computed", "begun", "hooks", "served_numbers", "get_config"} & shown


@pytest.mark.slow
@needs_zensical
def test_call_arguments_are_a_table(site):
    text = (site / "reference/layers.html").read_text(encoding="utf-8")
    (section,) = re.findall(
        r'<h2 id="keras_attn\.layers\.LuongAttention".*?(?=<h2 )', text, re.DOTALL
    )
    table = section.partition("Call arguments")[2].partition("</table>")[0]
    assert re.findall(r"<code>(\w+)</code></td>", table)[:3] == ["query", "value", "key"]


@pytest.mark.slow
@needs_zensical
def test_links_and_images_are_there_and_nothing_is_from_elsewhere(site):
    wrong = []
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for tag, target in re.findall(r'<(\w+)\b[^>]*?\s(?:href|src)="([^"]*)"', text):
            target = unquote(html.unescape(target))
            if re.match(r"\w+:", target):
                if tag != "a" and not target.startswith("data:"):
                    wrong.append(f"{page.relative_to(site)}: <{tag}> {target}")
            elif page.name != "404.html":
                file = target.partition("#")[0].partition("?")[0]
                if not (page.parent / file).exists():
                    wrong.append(f"{page.relative_to(site)}: {target}")
    assert not wrong


@pytest.mark.slow
@needs_zensical
def test_lectures_are_pages_with_their_outputs(site):
    notebooks = sorted(ROOT.glob("examples/lectures/*.ipynb"))
    assert len(notebooks) == 5
    for notebook in notebooks:
        page = (site / f"lectures/{notebook.stem}.html").read_text(encoding="utf-8")
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        pictures = sum("image/png" in output.get("data", {}) for output in outputs)
        assert page.count("Output of the cell") == pictures > 0
    assert "exact weights" in (site / "lectures/1_attention_by_hand.html").read_text("utf-8")


@needs_zensical
@needs_chromium
@pytest.mark.slow
class TestBrowser:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_pages_fit_a_telephone_and_ask_for_nothing(self, site, browser, scheme):
        browser.prefer(scheme)  # the pages follow it, whatever was seen before
        browser.requests.clear(), browser.errors.clear()
        for width in (1200, 390):
            browser.resize(width, 900)
            for page in SHOWN:
                browser.open(site / page)
                seen = "[document.documentElement.scrollWidth <= innerWidth,"
                seen += "getComputedStyle(document.body).backgroundColor]"
                fits, colour = browser.evaluate(seen)
                assert fits, f"{page} is wider than {width} pixels"
                shade = sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
                assert (shade > 200) if scheme == "light" else (shade < 60), (page, colour)
        asked = [url for url in browser.requests if not url.startswith(("file:", "data:"))]
        assert not asked and not browser.errors

    def test_search_finds_a_name_from_a_file(self, site, browser):
        browser.resize(1200, 900)
        browser.open(site / "index.html")
        browser.click(".md-search__button")
        browser.send("Input.insertText", text="LuongAttention")
        found = """(() => {
            const shadows = [...document.querySelectorAll("*")].map((e) => e.shadowRoot);
            const links = shadows.flatMap((s) => [...(s?.querySelectorAll("a") ?? [])]);
            return links.map((a) => a.href).join(" ");
        })()"""
        for _ in range(300):
            if re.search(r"layers\.html\S*#keras_attn\.layers\.LuongA", browser.evaluate(found)):
                return
            time.sleep(0.1)
        raise AssertionError("the search found nothing within thirty seconds")
