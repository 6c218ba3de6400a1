"""Deliberate faults that tests must find: `python tests/faults.py [--only WORDS] [--list]`.

`tests/faults/ROOM.toml` lists the faults of a room. Each has a name, the file of `keras_attn/` that
it changes, the text there (`old`, once in the file), what takes its place (`new`), and the ids of
the quick tests that must fail then (`tests`, below `tests/`). If only slow tests find a fault, it
has `slow = true`, and the named tests may be slow ones. All is tried in a copy of the repository:
first the named tests without a fault, then each fault with its tests alone. It takes some minutes
and is run by hand: after tests were made quicker, or code was moved.
"""

import argparse
import collections
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import textwrap
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
COPIED = (
    "keras_attn keras_attn_command.py tests benchmarks examples docs pyproject.toml setup.cfg "
    "README.md"
).split()
SECONDS = 300  # the tests of a fault that take longer are ended
WITH_SLOW = ("-m", "not by_hand and not nightly")
MEANINGS = {2: "interrupted, or tests that cannot be collected", 4: "no such test", 5: "no test"}


@dataclass(frozen=True)
class Fault:
    """What is changed where, and who must notice."""

    room: str
    name: str
    file: str
    old: str
    new: str
    tests: list[str]
    slow: bool = False


@dataclass
class Run:
    """What became of a run of tests: pytest's exit status, and the first test that failed."""

    status: int
    seconds: float
    failed: str = ""
    message: str = ""

    def error(self) -> str:
        """Why the run says nothing about the fault; empty if it does."""
        if self.status in (0, 1):
            return ""
        if self.status == -signal.SIGALRM:
            return f"more than {SECONDS} seconds"
        return MEANINGS.get(self.status, f"pytest ended with {self.status}")


class Watcher:
    """A plugin of pytest that keeps the first failure."""

    def __init__(self):
        self.failed = self.message = ""

    def pytest_runtest_logreport(self, report):
        """Is called for each phase of each test."""
        if report.failed and not self.failed:
            self.failed = report.nodeid
            crash = getattr(report.longrepr, "reprcrash", None)
            self.message = crash.message if crash else str(report.longrepr)


def faults() -> list[Fault]:
    """All faults, in the order of the files and within them."""
    found = []
    for path in sorted((HERE / "faults").glob("*.toml")):
        for name, fields in tomllib.loads(path.read_text(encoding="utf-8")).items():
            found.append(Fault(path.stem, name, **fields))
    return found


def stale(fault: Fault) -> str:
    """Why a fault cannot be tried any more; empty if it can."""
    path = HERE.parent / "keras_attn" / fault.file
    count = path.read_text(encoding="utf-8").count(fault.old) if path.exists() else 0
    if count != 1:
        return f"{fault.name}: the old text is there {count} times"
    for test in fault.tests:
        file, *names = test.split("::")
        text = (HERE / file).read_text(encoding="utf-8") if (HERE / file).exists() else ""
        if not text or (names and f"def {names[-1].split('[')[0]}" not in text):
            return f"{fault.name}: there is no {test}"
    return ""


def run(folder: Path, tests: list[str], slow: bool, seconds: int = SECONDS) -> Run:
    """Runs tests, if `slow` slow ones too, in a fork: it has imported nothing of `keras_attn`."""
    began = time.monotonic()
    said = folder / "said.json"
    said.unlink(missing_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            signal.alarm(seconds)
            output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number in (1, 2):
                os.dup2(output, number)
            status = _pytest(folder, tests, slow, said)
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    result = Run(os.waitstatus_to_exitcode(ended), time.monotonic() - began)
    if said.exists():
        result.failed, result.message = json.loads(said.read_text(encoding="utf-8"))
    return result


def _pytest(folder: Path, tests: list[str], slow: bool, said: Path) -> int:
    import pytest

    os.chdir(folder)
    sys.path[:] = [str(folder), *(path for path in sys.path if path != str(HERE))]
    watcher = Watcher()
    arguments = ["-x", "-q", "-p", "no:cacheprovider", *(WITH_SLOW if slow else ())]
    arguments += [f"tests/{test}" for test in tests]
    status = pytest.main(arguments, plugins=[watcher])
    ours = sys.modules.get("keras_attn")
    if ours is not None and not Path(ours.__file__).is_relative_to(folder):
        print(f"The tests ran with {ours.__file__}", file=sys.stderr)
        return 71
    said.write_text(json.dumps([watcher.failed, watcher.message]), encoding="utf-8")
    return int(status)


def tried(folder: Path, fault: Fault) -> tuple[str, Run | None]:
    """Makes a fault, runs its tests and mends it; returns "caught", or what is wrong."""
    path = folder / "keras_attn" / fault.file
    if not path.exists():
        return "stale: no such file", None
    text, times = path.read_text(encoding="utf-8"), path.stat()
    if text.count(fault.old) != 1:
        return f"stale: the old text is there {text.count(fault.old)} times", None
    changed = text.replace(fault.old, fault.new)
    try:
        compile(changed, str(path), "exec")
    except SyntaxError as error:
        return f"error: the change is not Python: {error}", None
    path.write_text(changed, encoding="utf-8")
    try:
        result = run(folder, fault.tests, fault.slow)
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # what was compiled is right
    if result.error():
        return f"error: {result.error()}", result
    return ("caught" if result.status == 1 else "NOT CAUGHT"), result


def prepare(folder: Path) -> None:
    """Copies the repository, and imports what all runs of tests need."""
    for name in COPIED:
        if (HERE.parent / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(HERE.parent / name, folder / name, ignore=ignored)
        elif (HERE.parent / name).exists():
            shutil.copy2(HERE.parent / name, folder / name)
    os.environ["PYTHONPATH"] = str(folder)
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # as in conftest.py
    import keras  # noqa: F401
    import pytest  # noqa: F401
    import tensorflow  # noqa: F401

    if "keras_attn" in sys.modules:
        raise SystemExit("keras_attn was imported before the copy of it could be.")


def main() -> int:
    """Tries the chosen faults; the exit status is 1 if one was not caught."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression over 'ROOM: NAME'")
    parser.add_argument("--list", action="store_true", help="print the faults and their tests")
    options = parser.parse_args()
    chosen = [f for f in faults() if re.search(options.only, f"{f.room}: {f.name}")]
    if options.list:
        for fault in chosen:
            slow = ", by slow tests" if fault.slow else ""
            print(f"{fault.room}: {fault.name} ({fault.file}{slow})")
            print(textwrap.indent("\n".join(fault.tests), "    "))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder).resolve()
        prepare(folder)
        seconds = 0.0
        for slow in sorted({fault.slow for fault in chosen}):
            tests = list(dict.fromkeys(t for f in chosen if f.slow == slow for t in f.tests))
            whole = run(folder, tests, slow, SECONDS + 30 * len(tests))
            seconds += whole.seconds
            if whole.status:
                print((folder / "output.txt").read_text(encoding="utf-8", errors="replace"))
                print(f"Without any fault: {whole.error() or whole.failed}")
                return 1
        print(f"Without any fault all tests pass: {seconds:.0f} s")
        sys.dont_write_bytecode = True  # what is compiled stays that of the files without a fault
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        results = []
        for number, fault in enumerate(chosen, start=1):
            verdict, result = tried(folder, fault)
            results.append(verdict)
            print(f"{number:3}/{len(chosen)} {fault.room}: {fault.name}: {verdict}", end="")
            print(f" by {result.failed} in {result.seconds:.0f} s" if verdict == "caught" else "")
            if verdict == "caught":
                message = textwrap.shorten(result.message, 88, placeholder=" ...")
                print(textwrap.indent(message, " " * 8))
    return table(chosen, results)


def table(chosen: list[Fault], results: list[str]) -> int:
    """Prints how many faults of each room were caught; returns the exit status."""
    rooms: dict[str, list[str]] = collections.defaultdict(list)
    for fault, verdict in zip(chosen, results, strict=True):
        rooms[fault.room].append(verdict)
    print(f"\n{'room':15} faults caught")
    for room, verdicts in [*rooms.items(), ("all", results)]:
        print(f"{room:15} {len(verdicts):6} {verdicts.count('caught'):6}")
    for fault, verdict in zip(chosen, results, strict=True):
        if verdict != "caught":
            print(f"{fault.room}: {fault.name}: {verdict}")
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"{sum(u.ru_utime + u.ru_stime for u in used):.0f} s of processors")
    return int(any(verdict != "caught" for verdict in results))


if __name__ == "__main__":
    sys.exit(main())
