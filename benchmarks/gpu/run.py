"""Does steps one after the other, each in a process of its own, as long as there is time."""

import contextlib
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.child import OUT_OF_MEMORY
from benchmarks.children import ROOT, environment
from benchmarks.gpu import report
from benchmarks.gpu.progress import write_json
from benchmarks.gpu.steps import Step
from benchmarks.runner import stamp

FORMAT = 1
# What another call may change: wheels or data may be there then, or more time.
OPEN = ("not installed", "no data", "unfinished")
RESERVE = 10.0  # seconds at the end of a call: to end a step and to write
TO_SAVE = 30.0  # seconds that a sliced step has for its state after SIGTERM
DEATHS = 8  # most processes of a step whose parts can be done one by one


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    folder: Path
    minutes: float = 8.5
    only: Sequence[str] = ("*",)
    tiny: bool = False
    device: str = "gpu"
    data: Path | None = None

    def takes(self, name: str) -> bool:
        """Whether a step was asked for."""
        return any(fnmatch(name, p) or fnmatch(name, f"{p}/*") for p in self.only)


def path_of(folder: Path, name: str) -> Path:
    """The file of a step's result."""
    return folder / f"{name}.json"


def read(folder: Path, step: Step) -> dict[str, Any] | None:
    """A step's result, or None."""
    path = path_of(folder, step.name)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def prepare_folder(options: Options) -> None:
    """Makes the folder.

    Raises:
        ValueError: If it holds results of other sizes or of another device.
    """
    here = {"format": FORMAT, "tiny": options.tiny, "device": options.device}
    path = options.folder / "settings.json"
    if path.exists():
        there = json.loads(path.read_text(encoding="utf-8"))
        if there != here:
            raise ValueError(
                f"Expected a folder of results with {here}. Received: {options.folder}, which "
                f"holds some with {there}. Give another folder."
            )
    options.folder.mkdir(parents=True, exist_ok=True)
    write_json(path, here)


def run(
    steps: Sequence[Step], options: Options, say: Callable[[str], None], again: bool = False
) -> int:
    """Does what is left of the chosen steps; returns the exit status.

    Returns:
        0; 1 if one of the chosen steps of the kind "right" has failed; 130 after Ctrl-C.
    """
    prepare_folder(options)
    chosen = [step for step in steps if options.takes(step.name)]
    if again:
        for step in chosen:
            path_of(options.folder, step.name).unlink(missing_ok=True)
    end = time.monotonic() + 60 * options.minutes - RESERVE
    started, status = 0, 0
    try:
        for step in chosen:
            found = read(options.folder, step)
            if found and found["status"] not in OPEN:
                continue
            left = end - time.monotonic()
            reason = None if step.device in (None, options.device) else f"for a {step.device} only"
            missing = [name for name in step.requires if importlib.util.find_spec(name) is None]
            expected = min(step.seconds, 20.0) if options.tiny else step.seconds
            if not (missing or reason) and (left <= 0 or (started and expected > left)):
                continue
            say(f"{step.name} ...")
            if missing:
                record = {"status": "not installed", "message": ", ".join(missing), "rows": []}
            elif reason:
                record = {"status": "not available", "message": reason, "rows": []}
            else:
                record = perform(step, options, left, whole=not started)
                started += record["status"] not in ("no data", "not installed")
            if record["status"] == "cut short":  # a later call has more time for it
                say("  no time left; it begins again in the next call")
                continue
            keep(step, options, record)
            tabulate(steps, options, say)
            say(f"  {report.summary(step, record)}")
    except KeyboardInterrupt:
        say("Interrupted. Run the same command again to resume.")
        status = 130
    tabulate(steps, options, say)
    records = [(step, read(options.folder, step)) for step in chosen]
    left = [step.name for step, found in records if not found or found["status"] == "unfinished"]
    say(f"Left: {', '.join(left)}. The same command goes on." if left else "Nothing is left.")
    say(str(options.folder / report.NAME))
    failed = any(step.kind == "right" and found and is_failure(found) for step, found in records)
    return status or int(failed)


def tabulate(steps: Sequence[Step], options: Options, say: Callable[[str], None]) -> None:
    """Writes the report. What goes wrong there must not end the steps: time on a GPU is short."""
    try:
        report.write(steps, options.folder, options.tiny)
    except Exception:
        say(f"The report could not be written.\n{traceback.format_exc()}")


def line(step: Step, options: Options) -> str:
    """A step in a list: its name, how long it may take, and its result."""
    found = read(options.folder, step)
    result = report.summary(step, found) if found else "no result yet"
    return f"{step.name:<50} {step.seconds:>5.0f} s  {result}"


def is_failure(record: dict[str, Any]) -> bool:
    """Whether what must be right is not."""
    return record["status"] not in ("done", "not available", *OPEN)


def keep(step: Step, options: Options, record: dict[str, Any]) -> None:
    """Writes a step's result."""
    path = path_of(options.folder, step.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "name": step.name,
        "backend": step.backend,
        "seconds": 0.0,
        **record,
        "date": stamp(),
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "machine": machine.describe(),
        "versions": machine.versions(),
    }
    write_json(path, record)


def perform(step: Step, options: Options, left: float, whole: bool) -> dict[str, Any]:
    """Does one step.

    Args:
        step: The step.
        options: Of the command line.
        left: Seconds that this call still has.
        whole: Whether that is all of the call: who gets no more time in another call either is
            too long.

    Returns:
        Its status, message, rows and seconds.
    """
    limit = left if step.sliced else min(step.limit, left)
    began = time.monotonic()
    rows: list[dict[str, Any]] = []
    alone, message = False, ""
    for _ in range(DEATHS):
        found = one_process(step, options, limit - (time.monotonic() - began), rows, alone)
        status, message = found["ended"]["status"], found["ended"].get("message", "")
        rows = found["rows"]
        if status != "died" or not step.by_parts or time.monotonic() - began > limit - 5:
            break
        if alone and found["at_work"]:
            for name in found["at_work"]:
                rows.append({"name": name, "ok": False, "message": message[:2000]})
        elif alone:
            break
        alone = True
    if status == "died":
        killed = "with -9" in message.split("\n")[0]
        memory = killed or OUT_OF_MEMORY.search(message)
        status = "out of memory" if memory else "error"
    if status == "too long" and not whole and limit < step.limit:
        status = "cut short"
    if status == "done" and step.kind == "right" and not (rows and all(r["ok"] for r in rows)):
        status = "failed"
    return {
        "status": status,
        "message": message,
        "seconds": round(time.monotonic() - began, 1),
        "computed_on": found.get("computed_on"),
        "rows": rows,
    }


def one_process(
    step: Step, options: Options, limit: float, rows: list[dict[str, Any]], alone: bool
) -> dict[str, Any]:
    """Lets a process work, and returns what it wrote, with how it ended."""
    progress = options.folder / "progress" / f"{step.name.replace('/', '_')}.json"
    progress.parent.mkdir(parents=True, exist_ok=True)
    write_json(progress, {"rows": rows, "at_work": []})
    module, _, function = step.work.partition(":")
    request = {
        "module": module,
        "function": function,
        "settings": {**step.sizes(options.tiny), "data": options.data and str(options.data)},
        "backend": step.backend,
        "device": options.device,
        "sliced": step.sliced,
        "seconds": limit,
        "folder": str(options.folder.resolve()),
        "rows": rows,
        "alone": alone,
    }
    log = progress.with_suffix(".log")
    with log.open("w+", errors="replace") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.child", str(progress.resolve())],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**environment(step.backend or "", options.device, None), **step.environment},
            process_group=0,
        )
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
        ended = None
        try:
            code = process.wait(max(1.0, limit))
        except subprocess.TimeoutExpired:
            ended = {"status": "too long", "message": f"No end after {limit:.0f} s."}
        except KeyboardInterrupt:
            if step.sliced:
                stop(process, signal.SIGTERM, TO_SAVE)
            raise
        finally:
            stop(process, signal.SIGKILL, None)
        found = json.loads(progress.read_text(encoding="utf-8"))
        if ended is None and "ended" not in found:
            said.seek(0)
            ended = {
                "status": "died",
                "message": f"The process ended with {code}.\n{said.read()[-4000:]}".strip(),
            }
    return found | ({"ended": ended} if ended else {})


def stop(process: subprocess.Popen, number: int, seconds: float | None) -> None:
    """Ends a process and its own children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
