"""Damaged and manipulated files for every loader.

    KERAS_BACKEND=torch python tests/nightly/mutated_files.py --cases 10000 --seed 1

Each case damages one file of a folder that loads, and loads it: bits, cuts and blocks; other
values in JSON, headers and archives, with their right checksums; pickles, bombs and files of
another kind in its place. The loader must return, or raise an error that names the folder. Cases
run in child processes, one for each loader and batch, which report:

    crash     the process ended
    hang      it used 10 s of processor time, or two minutes
    memory    it held 1 GB more than before
    outside   it opened a file for writing, or changed one, outside of the folder
    code      it unpickled a class, or started a process
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
from drawn_cases import options, report
from loaded_files import KINDS
from mutations import canary, mutated

BATCH = 100
GIGABYTE = 1e9
# Events of the interpreter that no loader may cause.
CODE = ("pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "socket.connect")
CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink")


class Watch:
    """What the interpreter does during a case, by its audit events."""

    def __init__(self):
        self.folder, self.found = None, None
        sys.addaudithook(self)

    def __call__(self, event, arguments):
        if self.found is None:
            return
        if event in CODE:
            self.found.append(f"code: {event} {arguments[:2]}")
        elif event in CHANGES and not self.within(arguments[0]):
            self.found.append(f"outside: {event} {arguments[0]}")
        elif event == "open" and isinstance(arguments[0], str | bytes):
            _, mode, flags = arguments
            writes = (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if (writes or set(mode or "") & set("wax+")) and not self.within(arguments[0]):
                self.found.append(f"outside: open {arguments[0]} {mode}")

    def within(self, path):
        path = os.path.abspath(os.fsdecode(path))
        return path.startswith((str(self.folder), "/dev/null"))


def peak():
    """Bytes that this process held at most since the last call."""
    with open("/proc/self/status") as status:
        most = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return most * 1024


def others_of(folder):
    """A few whole files of other loaders, to stand in the place of one."""
    return [path.read_bytes() for path in sorted(folder.glob("*/kept/**/*")) if path.is_file()]


def try_case(kind, folder, files, rng, others, trap, watch):
    """Damages a file, loads, and puts it back; returns what became of it."""
    path = files[int(rng.integers(len(files)))]
    raw = path.read_bytes()
    bad = mutated(rng, path.name, raw, others, trap)
    path.write_bytes(bad)
    peak()  # the next one is what is held now
    before, watch.found = peak(), []
    try:
        kind.read(folder)
        outcome = "read"
    except (ValueError, OSError) as error:
        named = str(folder) in str(error)
        outcome = "refused" if named else f"failed: not named: {error!r}"
    except Exception as error:
        outcome = f"failed: {error!r}"
    found, watch.found = watch.found, None
    if peak() - before > GIGABYTE:
        found.append("memory")
    if found:
        outcome = f"failed: {'; '.join(found[:2])}"
    path.write_bytes(raw)
    return outcome if not outcome.startswith("failed") else f"{outcome} ({path.name})"


def child(name, place, seed, numbers, results):
    """Runs a batch in this process, and writes a line for each case."""
    kind, folder = KINDS[name], place / name / "whole"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    kind.make(folder)
    others, trap = others_of(place), canary(place / "canary")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    empty = place / "empty"
    os.chdir(empty)
    os.environ.update(HOME=str(empty), TMPDIR=str(empty))
    watch = Watch()
    watch.folder = place / name
    kind.read(folder)
    with open(results, "a", encoding="utf-8") as file:
        for number in numbers:
            rng = np.random.default_rng([seed, number])
            print(f"{number}\t", end="", file=file, flush=True)
            signal.setitimer(signal.ITIMER_PROF, 10)  # the signal ends the process
            signal.alarm(120)
            outcome = try_case(kind, folder, files, rng, others, trap, watch)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
            print(json.dumps(outcome)[1:-1], file=file, flush=True)
    assert not list(empty.iterdir()) and not (place / "canary").exists()


def make_kept(name, place):
    """Writes the files of a loader in a process of its own: this one computes nothing."""
    pid = os.fork()
    if not pid:
        (place / name / "kept").mkdir(parents=True)
        KINDS[name].make(place / name / "kept")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, name


def run_batch(name, place, seed, numbers):
    """Returns the outcome of each case; a process that ended is replaced."""
    outcomes, numbers = {}, list(numbers)
    while numbers:
        results = place / "results.txt"
        results.write_text("")
        pid = os.fork()
        if not pid:
            code = 1
            try:
                child(name, place, seed, numbers, results)
                code = 0
            except Exception:
                traceback.print_exc()
            finally:  # never the code of the parent
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        lines = [x.split("\t", 1) for x in results.read_text(encoding="utf-8").splitlines()]
        outcomes |= {int(number): outcome for number, outcome in lines}
        if status == 0:
            break
        if not lines or int(lines[-1][0]) == numbers[-1]:
            outcomes[-1 - len(outcomes)] = f"failed: the process ended with status {status}"
            break
        last = int(lines[-1][0])
        hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
        if not outcomes[last]:
            outcomes[last] = "failed: hang" if hung else f"failed: crash {status}"
        numbers = numbers[numbers.index(last) + 1 :]
    return outcomes


def main():
    parser = options(__doc__, 10_000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    args = parser.parse_args()
    began, counts, failures = time.monotonic(), Counter(), []
    with tempfile.TemporaryDirectory() as root:
        place = Path(root)
        (place / "empty").mkdir()
        for name in args.kinds:
            make_kept(name, place)
        each = -(-args.cases // len(args.kinds))
        for at, name in enumerate(args.kinds):
            numbers = range(each * at, min(args.cases, each * (at + 1)))
            if args.only is not None:
                numbers = [args.only] if args.only in numbers else []
            for first in range(0, len(numbers), BATCH):
                if args.minutes and time.monotonic() - began > 60 * args.minutes:
                    break
                batch = run_batch(name, place, args.seed, numbers[first : first + BATCH])
                for number, outcome in batch.items():
                    counts[outcome.split(":")[0]] += 1
                    if outcome.startswith("failed"):
                        failures.append(number)
                        print(f"case {number} of {name}: {outcome[:500]}", file=sys.stderr)
    report(args, counts, failures, began)


if __name__ == "__main__":
    main()
