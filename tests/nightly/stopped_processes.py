"""Runs of every task in two processes, of which some are killed, and which resume.

    KERAS_BACKEND=jax python tests/nightly/stopped_processes.py --cases 56 --seed 1

For each task but word embeddings, which train in one process, a toy is trained by the command with
`--processes 2`. In each case, SIGKILL ends some processes of such a run at a random moment:

    process 0    which writes the files
    process 1
    both
    command      the process that was started, and which started the other two: they go on

No process may be left after 40 seconds; with `command`, after ten minutes. Then the same command
resumes the run to its end, and the weights, the optimizer and the log must be those of the run that
was not disturbed, to the bit.
"""

import os
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
from processes import JAX_CACHE, package_folder
from stopped_runs import MORE, fitted

KINDS = ("process 0", "process 1", "both", "command")
ENVIRONMENT = {
    **os.environ,
    **JAX_CACHE,
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join(map(str, [package_folder(), *sys.path[:2]])),
}
SECONDS_TO_END = {"command": 600}  # others: 40


def children(pid):
    """Returns the ids of the processes that a process started."""
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in file.read_text().split()] if file.exists() else []


def is_alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Runs:
    """The run of a task in two processes, whole and disturbed, in a folder."""

    def __init__(self, name, folder, rng):
        self.folder, self.rng = folder, rng
        os.chdir(folder)
        installed_tasks.CASES[name][0]()
        self.fit = [name, "fit", *fitted(name), *MORE, "--processes", "2", "--run-dir"]
        self.done("compiled")
        began = time.monotonic()
        self.whole = self.done("whole")
        self.seconds = time.monotonic() - began

    def start(self, run):
        with open("log.txt", "wb") as log:
            command = [sys.executable, "-m", "keras_attn", *self.fit, run]
            return subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=log)

    def log(self):
        return Path("log.txt").read_text(encoding="utf-8", errors="replace")[-1500:]

    def done(self, run):
        code = self.start(run).wait()
        assert code == 0, f"exit code {code}: {self.log()}"
        return self.folder / run

    def killed(self, run, kind):
        """Kills some processes of a run; returns whether they had not ended before."""
        command = self.start(run)
        time.sleep(self.rng.uniform(0.2, 0.95) * self.seconds)
        of_run = children(command.pid)
        chosen = {"command": [command.pid], "both": of_run}.get(kind)
        if chosen is None:
            chosen = of_run[int(kind[-1]) :][:1]
        hit = [pid for pid in chosen if is_alive(pid)]
        for pid in hit:
            os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        while any(map(is_alive, [command.pid, *of_run])):
            left = [pid for pid in [command.pid, *of_run] if is_alive(pid)]
            if time.monotonic() - began > SECONDS_TO_END.get(kind, 40):
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                command.wait()
                raise AssertionError(f"{len(left)} of the processes go on: {self.log()}")
            time.sleep(0.1)
        code = command.wait()
        expected = -signal.SIGKILL if kind == "command" else 128 + signal.SIGKILL
        assert not hit or code == expected, f"exit code {code}: {self.log()}"
        assert "Traceback" not in self.log(), self.log()
        return int(bool(hit))


def main():
    parser = options(__doc__, 56, numbered=False)
    tasks = [name for name in installed_tasks.CASES if name != "embeddings"]
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=tasks)
    args = parser.parse_args()
    began, counts, failures = time.monotonic(), Counter(), []
    for name in args.tasks:
        if args.minutes and time.monotonic() - began > 60 * args.minutes:
            break
        rng = np.random.default_rng([args.seed, tasks.index(name)])
        with tempfile.TemporaryDirectory() as folder:
            runs = Runs(name, Path(folder), rng)
            for number in range(-(-args.cases // len(args.tasks))):
                kind = KINDS[(number + tasks.index(name)) % len(KINDS)]
                try:
                    counts[kind] += runs.killed(str(number), kind)
                    assert_same_end(runs.done(str(number)), runs.whole)
                except AssertionError as error:
                    failures.append(f"{name} {kind} {number}")
                    print(f"{failures[-1]}: {str(error)[:1800]}", file=sys.stderr, flush=True)
            os.chdir("/")
        print(f"{name}: {dict(counts)}", file=sys.stderr, flush=True)
    report(args, counts, failures, began)


if __name__ == "__main__":
    main()
