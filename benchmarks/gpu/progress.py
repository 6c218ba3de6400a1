"""What a step tells while it works, and how it says that it cannot."""

import json
import math
import os
import threading
import time
from pathlib import Path
from typing import Any


class NotAvailable(Exception):
    """What cannot be done here, such as a kernel of another kind of GPU; the message says why."""


class NoData(Exception):
    """The data of a step are not there; the message says how to make them."""


class Unfinished(Exception):
    """A step that needs another slice: it goes on when it is called again."""


class Progress:
    """What a step has done so far, kept in a file.

    Args:
        path: The file.
        request: The `rows` of an earlier process of the step, the `seconds` it may take, the
            `folder` for its files, and whether parts of it must be `alone`, one after the other.
    """

    def __init__(self, path: Path, request: dict[str, Any]):
        self.path = path
        self.found: dict[str, Any] = {"rows": list(request["rows"]), "at_work": []}
        self.done = {row["name"] for row in self.found["rows"]}
        self.alone = request["alone"]
        self.device = request["device"]
        self.folder = Path(request["folder"])
        self.end = time.monotonic() + request["seconds"]
        self._lock = threading.Lock()

    @property
    def seconds_left(self) -> float:
        """Until the process is ended."""
        return self.end - time.monotonic()

    def begin(self, name: str) -> None:
        """Notes a row that is at work: the one to blame if the process dies."""
        with self._lock:
            self.found["at_work"].append(name)
            self._write()

    def add(self, row: dict[str, Any]) -> None:
        """Notes a row."""
        with self._lock:
            if row["name"] in self.found["at_work"]:
                self.found["at_work"].remove(row["name"])
            self.found["rows"].append(row)
            self._write()

    def note(self, **values: Any) -> None:
        """Notes something of the whole step."""
        with self._lock:
            self.found |= values
            self._write()

    def _write(self) -> None:
        write_json(self.path, self.found)


def write_json(path: Path, value: Any) -> None:
    """Writes strict JSON; the file is replaced when it is whole."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(json.dumps(finite(value), indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)


def finite(value: Any) -> Any:
    """The same, with infinities and NaN as strings."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
