"""What the tests of the command share: it is run, interrupted, and its ends are compared."""

import contextlib
import csv
import io
import os
import subprocess
import sys

import numpy as np

from keras_attn.cli import main

RUN = "import sys; from keras_attn.cli import main; main(sys.argv[1:])"
# A signal comes when the checkpoint was written so often.
RUN_TO_SIGNAL = """
import os, sys
from keras_attn.cli import main
from keras_attn.training import checkpointing
number, left = map(int, sys.argv[1:3])
save = checkpointing.save_training_state

def save_and_send(*arguments):
    global left
    save(*arguments)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), number)

checkpointing.save_training_state = save_and_send
main(sys.argv[3:])
"""
# Several commands, as on a machine that has no TensorFlow.
RUN_WITHOUT = """
import json, sys
sys.modules["tensorflow"] = None
from keras_attn.cli import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as stop:
        if stop.code:
            raise
"""


def run_command(*arguments):
    """Runs `keras-attn` in this process; returns the exit code, standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([*map(str, arguments)])
        except SystemExit as stop:
            return stop.code, out.getvalue(), err.getvalue()
    raise AssertionError("it always exits")


def start(*arguments, backend="tensorflow", script=RUN, **pipes):
    """Runs it in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={
            **os.environ,
            "KERAS_BACKEND": backend,
            "XLA_FLAGS": "--xla_backend_optimization_level=0",  # compiles in half the time
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **pipes,
    )


def wait(process, code=0, given=None):
    out, err = process.communicate(given, timeout=300)
    assert process.returncode == code, err.decode()[-3000:]
    return out.decode(), err.decode()


def end_of(run):
    """All that a run came to, but for the times."""
    with np.load(run / "checkpoint.npz") as arrays:
        state = {name: arrays[name] for name in arrays.files if name != "header"}
    with open(run / "log.csv", newline="") as file:
        rows = [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]
    return state, rows


def assert_same_end(run, other):
    (state, rows), (expected, expected_rows) = end_of(run), end_of(other)
    assert rows == expected_rows
    assert state.keys() == expected.keys()
    for name, value in state.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
