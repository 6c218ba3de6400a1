"""Runs of every task that are killed, find the disk full or the clock set back, and resume.

    KERAS_BACKEND=torch python tests/nightly/stopped_runs.py --cases 300 --seed 1

For each task, a toy is trained by the command without interruption. Then the same run is disturbed
in a folder of its own, resumed until it is done, and must end with the same weights, optimizer and
log, to the bit. The cases are divided among the tasks and these disturbances:

    kill    SIGKILL at a random moment, several times a run
    full    from a random write on, files cannot grow beyond a few bytes: exit code 1, an error
            that names a file or asks for room, and files that stay readable
    clock   each look at the clock is a day earlier, and files have times of next year
    two     a second process in the folder: exit code 1 and an error, while the first one goes on
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from drawn_cases import options, report

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("", "cli")]

import installed_tasks
from command_runs import assert_same_end

from keras_attn.cli import main as keras_attn_main
from keras_attn.training import read_training_notes

KINDS = ("kill", "full", "clock", "two")
WRITERS: dict[int, subprocess.Popen[bytes]] = {}
"""What writes the log of each process."""
MORE = ("--epochs", "3", "--checkpoint-steps", "1")


def start(arguments, log, prepare=None):
    """Forks a process that runs the command; returns its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    with open(log, "wb") as file:  # through a pipe: the limit of a full disk is not its own
        writer = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file)
    pid = os.fork()
    if pid:
        writer.stdin.close()
        WRITERS[pid] = writer
        return pid
    os.dup2(writer.stdin.fileno(), 1)
    os.dup2(writer.stdin.fileno(), 2)
    os.close(writer.stdin.fileno())
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)  # it may have had another file
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
    code = 1
    try:
        if prepare:
            prepare()
        keras_attn_main([*arguments])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(pid):
    """Returns the exit code of a process, or minus its signal."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    WRITERS.pop(pid).wait()
    return code


def fitted(name):
    """Returns the options of `fit` for a task's toy, without the number of epochs."""
    options = installed_tasks.CASES[name][1].split()
    if "--epochs" in options:
        at = options.index("--epochs")
        del options[at : at + 2]
    return options


class Runs:
    """The run of a task, whole and disturbed, in a folder."""

    def __init__(self, name, folder, rng):
        self.name, self.folder, self.rng = name, folder, rng
        os.chdir(folder)
        installed_tasks.CASES[name][0]()
        self.fit = [name, "fit", *fitted(name), *MORE, "--run-dir"]
        began = time.monotonic()
        self.whole = self.done("whole")
        self.seconds = time.monotonic() - began

    def done(self, run):
        code = wait(start([*self.fit, run], "log.txt"))
        assert code == 0, f"exit code {code}: {self.log()}"
        return self.folder / run

    def log(self, file="log.txt"):
        return (self.folder / file).read_text(encoding="utf-8", errors="replace")[-1500:]

    def kill(self, run):
        """Returns how many kills a run had; the last process ends by itself."""
        kills = 0
        for _ in range(3):
            pid = start([*self.fit, run], "log.txt")
            time.sleep(self.rng.uniform(0.1, 0.8) * self.seconds)
            os.kill(pid, signal.SIGKILL)
            kills += wait(pid) == -signal.SIGKILL
            self.check_readable(run)
        return kills

    def check_readable(self, run):
        if (self.folder / run / "checkpoint.npz").exists():
            read_training_notes(self.folder / run / "checkpoint.npz")

    def full(self, run):
        number, room = int(self.rng.integers(1, 25)), int(self.rng.choice([0, 10, 100, 1000]))

        def fill():
            left = number

            def hook(event, arguments):
                nonlocal left
                if event != "open" or run not in str(arguments[0]):
                    return
                if (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                    left -= 1
                    if not left:
                        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

            sys.addaudithook(hook)

        code = wait(start([*self.fit, run], "log.txt", fill))
        assert code in (0, 1), f"exit code {code}: {self.log()}"
        said = self.log()
        assert code == 0 or run in said or "Free some space" in said, said
        assert "Traceback" not in said, said
        self.check_readable(run)
        return int(code == 1)

    def clock(self, run):
        def back():
            began, real, looks = time.time(), time.time, Counter()

            def earlier():
                looks["at"] += 1
                return began - 86_400 * looks["at"] + 0 * real()

            time.time = earlier

        pid = start([*self.fit, run], "log.txt", back)
        time.sleep(self.rng.uniform(0.3, 0.9) * self.seconds)
        os.kill(pid, signal.SIGTERM)
        assert wait(pid) in (0, 143, -signal.SIGTERM), self.log()
        for file in [*(self.folder / run).glob("*")]:
            os.utime(file, (time.time() + 3e7,) * 2)
        code = wait(start([*self.fit, run], "log.txt", back))
        assert code == 0, f"exit code {code}: {self.log()}"
        return 1

    def two(self, run):
        pid = start([*self.fit, run], "log.txt")
        while not (self.folder / run / ".lock").exists():
            time.sleep(0.01)
        code = wait(start([*self.fit, run], "second.txt"))
        first = wait(pid)
        assert first == 0, f"exit code {first}: {self.log()}"
        said = self.log("second.txt")
        refused = code == 1 and "Another process trains" in said
        assert refused or code == 0, f"exit code {code}: {said}"
        return int(refused)


def main():
    parser = options(__doc__, 300, numbered=False)
    parser.add_argument("--tasks", nargs="+", choices=installed_tasks.CASES)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    args = parser.parse_args()
    tasks = args.tasks or list(installed_tasks.CASES)
    began, counts, failures = time.monotonic(), Counter(), []
    rounds = -(-args.cases // (len(tasks) * len(args.kinds)))
    for name in tasks:
        if args.minutes and time.monotonic() - began > 60 * args.minutes:
            break
        rng = np.random.default_rng([args.seed, list(installed_tasks.CASES).index(name)])
        with tempfile.TemporaryDirectory() as folder:
            runs = Runs(name, Path(folder), rng)
            for number in range(rounds):
                for kind in args.kinds:
                    run = f"{kind}_{number}"
                    try:
                        counts[kind] += getattr(runs, kind)(run)
                        runs.done(run)
                        assert_same_end(runs.folder / run, runs.whole)
                        left = list((runs.folder / run).glob(".partial*"))
                        assert not left, f"left behind: {left}"
                    except AssertionError as error:
                        failures.append(f"{name} {run}")
                        print(f"{name} {run}: {str(error)[:900]}", file=sys.stderr, flush=True)
            os.chdir("/")
        print(f"{name}: {dict(counts)}", file=sys.stderr, flush=True)
    report(args, counts, failures, began)


if __name__ == "__main__":
    main()
