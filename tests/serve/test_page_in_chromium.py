"""The page in Chromium: a click for each task, both colour schemes, the keyboard, 390 pixels."""

import json
import os
import time

import every_task
import pytest
from browser import Browser, needs_chromium
from PIL import Image
from serving import served
from test_every_model import UNEXPLAINED, given_and_asked

from keras_attn.serve import Limits

SHOTS = os.environ.get("KERAS_ATTN_SHOTS", "")
"""Folder for pictures of the page, to be looked at; none if empty."""
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def place():
    """Address of a server of all tasks."""
    tasks = {
        name.replace(" ", "-").replace(",", ""): make()
        for name, (make, _) in every_task.CASES.items()
    }
    with served(tasks, Limits(seconds=300)) as url:  # which compiles too
        yield url, tasks


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def opened(browser, url):
    browser.loaded = False
    browser.errors.clear()
    browser.send("Page.navigate", url="about:blank")
    browser.send("Page.navigate", url=url)
    wait(browser, "document.querySelector('#fields')?.children.length > 0")


def wait(browser, condition, seconds=300):
    end = time.monotonic() + seconds
    while not browser.evaluate(f"Boolean({condition})"):
        assert time.monotonic() < end, condition
        time.sleep(0.05)


def fill(browser, asked):
    """Writes texts, and gives pictures as a person does who chooses files."""
    browser.evaluate(
        f"""(() => {{
        const asked = {json.dumps(asked)};
        for (const [name, value] of Object.entries(asked)) {{
          const input = document.getElementById("field-" + name);
          if (typeof value === "string") {{ input.value = value; continue; }}
          if (Array.isArray(value)) {{ input.value = value[value.length - 1]; continue; }}
          const bytes = Uint8Array.from(atob(value.b64), c => c.charCodeAt(0));
          const files = new DataTransfer();
          files.items.add(new File([bytes], "a.png", {{type: "image/png"}}));
          input.files = files.files;
          input.dispatchEvent(new Event("change"));
        }} }})()"""
    )


def wait_for_view(browser, place):
    """Waits until the attention view is painted: until its part of a picture has many colours."""
    end = time.monotonic() + 300
    while True:
        box = browser.evaluate(
            """(() => { const view = document.querySelector("iframe"); view.scrollIntoView();
            const {left, top, right, bottom} = view.getBoundingClientRect();
            return [left + 2, top + 2, right - 2, Math.min(bottom, innerHeight) - 2]; })()"""
        )
        browser.screenshot(place)
        with Image.open(place) as image:
            if len(image.crop(box).convert("RGB").getcolors(1 << 24)) > 20:
                return
        assert time.monotonic() < end


def shot(browser, name):
    if SHOTS:
        browser.screenshot(f"{SHOTS}/{name}.png", full=True)


@pytest.mark.slow
@needs_chromium
@pytest.mark.filterwarnings("ignore:.*were cut:UserWarning")
@pytest.mark.parametrize("name", every_task.CASES)
def test_a_click_shows_the_answer_and_the_attention(browser, place, name, tmp_path):
    url, tasks = place
    model = name.replace(" ", "-").replace(",", "")
    browser.resize(1000, 900)
    browser.prefer("light")
    opened(browser, f"{url}/#{model}")
    fields = [x["name"] for x in browser.evaluate("model.fields")]
    _, asked = given_and_asked(name, tasks[model], fields)
    fill(browser, asked)
    if name == "text generation":
        browser.evaluate("document.getElementById('setting-max_tokens').value = 20")
    browser.click("#send")
    wait(browser, "running === null && document.querySelector('#result > *, #log li:not(.me)')")
    assert browser.evaluate("document.querySelector('.error')?.textContent") is None
    shown = browser.evaluate("document.querySelector('#view').hidden")
    assert shown is (name in UNEXPLAINED), browser.evaluate("document.body.innerText")
    if not shown:
        wait_for_view(browser, tmp_path / "a.png")
    shot(browser, model)
    browser.resize(390, 800)
    browser.prefer("dark")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    if not shown:
        wait_for_view(browser, tmp_path / "a.png")
    shot(browser, f"{model}-dark-390")
    assert browser.errors == []
    assert all(x.startswith((url, "blob:", "data:", "about:")) for x in browser.requests)


@pytest.mark.slow
@needs_chromium
def test_the_keyboard_and_escaped_texts(browser, place):
    url, _ = place
    opened(browser, f"{url}/#answer-selection")
    browser.evaluate("document.querySelector('textarea').focus()")
    browser.send("Input.insertText", text=EVIL)
    browser.press("Tab")
    browser.press("Tab")
    browser.press(" ")
    wait(browser, "running === null && document.querySelector('.answer')")
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    page = browser.evaluate("document.querySelector('iframe').srcdoc")
    assert "img src=x" not in page.replace("&lt;img src=x", "")
    assert browser.errors == []
