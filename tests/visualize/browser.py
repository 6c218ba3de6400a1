"""Chromium without a window, driven over a pipe by its DevTools protocol."""

import base64
import json
import os
import select
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the PATH")
_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--remote-debugging-pipe --force-device-scale-factor=1"
).split()
_KEYS = {" ": 32, "Enter": 13, "Tab": 9}


class Browser:
    """One page of a browser that is closed at the end of the `with` block.

    Args:
        profile: A folder for its files.
        width: Of the window.
        height: Of the window.
    """

    def __init__(self, profile, width=1000, height=900):
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        # It reads commands from 3 and answers on 4.
        redirect = f'exec "$@" 3<&{commands} 4>&{answers}'
        command = [CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", redirect, "bash", *command],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._rest, self._count, self._session = b"", 0, None
        self.loaded = False
        self.errors = []
        """What went wrong in the page: uncaught errors, and what its policy blocked."""
        self.requests = []
        """Addresses that were asked for."""
        self.size = width, height

    def __enter__(self):
        (target, *_) = [
            t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page"
        ]
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(*self.size)
        return self

    def __exit__(self, *error):
        self._session = None
        self.send("Browser.close")
        self._process.wait(timeout=30)
        os.close(self._write)
        os.close(self._read)

    def send(self, method, **parameters):
        """Sends a command and waits for its answer."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]

    def _receive(self):
        while b"\0" not in self._rest:
            assert select.select([self._read], [], [], 60)[0], "the browser does not answer"
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser ended"
            self._rest += piece
        raw, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(raw)
        method, told = message.get("method"), message.get("params", {})
        logged = method == "Log.entryAdded" and told["entry"]["level"] == "error"
        if logged or method == "Runtime.exceptionThrown":
            self.errors.append(told)
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True
        return message

    def resize(self, width, height):
        """Sets the size of the window."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def prefer(self, scheme):
        """Asks for `"dark"` or `"light"`."""
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def open(self, path):
        """Opens a file and waits until it is loaded."""
        self.loaded = False
        self.send("Page.navigate", url=Path(path).as_uri())
        while not self.loaded:
            self._receive()

    def evaluate(self, expression):
        """Returns the value of an expression of JavaScript; of a promise, what it gives."""
        result = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def place(self, selector, x=0.5, y=0.5):
        """Returns where in the window a share of an element is."""
        left, top, width, height = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'nearest'}); const b = e.getClientRects()[0]; "
            "return [b.left, b.top, b.width, b.height]; })()"
        )
        return left + x * width, top + y * height

    def mouse(self, kind, x, y):
        """Sends `Moved`, `Pressed` or `Released`."""
        button = {"button": "left", "clickCount": 1} if kind != "Moved" else {}
        self.send("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, **button)

    def hover(self, selector, x=0.5, y=0.5):
        """Moves the pointer onto an element."""
        self.mouse("Moved", *self.place(selector, x, y))

    def click(self, selector, x=0.5, y=0.5):
        """Clicks on an element."""
        place = self.place(selector, x, y)
        for kind in ("Moved", "Pressed", "Released"):
            self.mouse(kind, *place)

    def tap(self, selector):
        """Touches an element with a finger."""
        x, y = self.place(selector)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key):
        """Presses a key."""
        code = {"windowsVirtualKeyCode": _KEYS[key]} if key in _KEYS else {}
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **code)

    def screenshot(self, path, full=False):
        """Writes what is seen, or the full page."""
        told = self.send("Page.captureScreenshot", captureBeyondViewport=full)
        Path(path).write_bytes(base64.b64decode(told["data"]))
