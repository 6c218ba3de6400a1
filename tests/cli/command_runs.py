"""What the tests of the command share: it is run, interrupted, and its ends are compared."""

import contextlib
import csv
import inspect
import io
import os
import tempfile

import numpy as np
from processes import run_python

from keras_attn.cli import main
from keras_attn.export import check_place

# To the bit, as in this process (see `tracing.py`).
AS_HERE = """
import tensorflow
tensorflow.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
"""
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
# It ends when it has written the so manieth file, and not yet put it in its place.
RUN_TO_KILL = """
import os, signal, sys
from keras_attn.cli import main
left, replace = int(sys.argv[1]), os.replace

def replace_or_end(*paths):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)

os.replace = replace_or_end
main(sys.argv[2:])
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


@contextlib.contextmanager
def standard_input(content):
    """Puts text into standard input, for this process and those that it starts."""
    kept = os.dup(0)
    with tempfile.TemporaryFile() as file:
        file.write(content.encode())
        file.seek(0)
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(kept, 0)
            os.close(kept)


def run_command(*arguments, stdin=""):
    """Runs `keras-attn` in this process; returns the exit code, standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    with standard_input(stdin), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([*map(str, arguments)])
        except SystemExit as stop:
            return stop.code, out.getvalue(), err.getvalue()
    raise AssertionError("it always exits")


def note_exports(monkeypatch, task):
    """Has the method `export` of a task leave the mark of a SavedModel, and nothing else.

    Returns:
        A list that gets the place and the further arguments, by name, of each call.
    """
    given, signature = [], inspect.signature(task.export)

    def export(*values, **named):
        bound = signature.bind(*values, **named)
        bound.apply_defaults()
        found = dict(bound.arguments)
        found |= found.pop("use", {})
        _, path = found.pop("self"), found.pop("path")
        folder = check_place(path, found["overwrite"])
        folder.mkdir(exist_ok=True)
        (folder / "saved_model.pb").touch()
        given.append((path, found))

    monkeypatch.setattr(task, "export", export)
    return given


def run_elsewhere(script, *arguments, kind="tensorflow", code=0):
    """Runs a script in a process of its own; returns standard output and error."""
    script = AS_HERE + script if kind == "tensorflow" else script
    ended = run_python(kind, script, *arguments, check=False)
    assert ended.returncode == code, ended.stderr[-3000:]
    return ended.stdout, ended.stderr


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
