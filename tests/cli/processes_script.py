"""Trains some tasks, alone or as one of several processes: `processes_script.py FOLDER`.

Each process runs it with the same folder; see test_processes.py.
"""

import contextlib
import os
import sys
from pathlib import Path

from installed_tasks import CASES

from keras_attn.cli import main
from keras_attn.tasks import TextClassifier
from keras_attn.training import compute_on
from keras_attn.training.processes import is_first_process, join_processes, wait_for_processes

COMMANDS = ("tagging", "translation", "text-generation")
TEXTS = [(f"{word} {n % 3}", word) for n in range(20) for word in ("good", "bad")]


def command(name):
    """`fit` of a task, on its toy."""
    write, fit = CASES[name]
    if is_first_process():
        write()
    wait_for_processes()
    more = "--dropout 0 --epochs 2 --device cpu --run-dir"
    with contextlib.suppress(SystemExit):
        main([name, "fit", *fit.split(), *more.split(), f"run-{name}"])


def in_python():
    """A task that is created in Python and trained without and with a folder."""
    with compute_on("cpu", "all"):
        sizes = {
            "data": {"vocabulary_size": 60},
            "model": {"dim": 4, "dropout": 0, "word_dropout": 0},
        }
        task = TextClassifier.create(TEXTS, **sizes)
        settings = {"epochs": 2, "batch_size": 6, "learning_rate": 0.01, "verbose": 0}
        task.fit(TEXTS, TEXTS[:8], run_dir="run-python", **settings)
        run = task.fit(TEXTS, TEXTS[:8], **settings)
        assert len(run.history["val_accuracy"]) == 2
        assert [found.label for found in task.predict(["good 1", "bad 2"])] == ["good", "bad"]


if __name__ == "__main__":
    join_processes()
    os.chdir(Path(sys.argv[1]))
    for each in COMMANDS:
        command(each)
    in_python()
    wait_for_processes()
