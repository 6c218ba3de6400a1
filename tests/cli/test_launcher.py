"""The launcher answers without Keras what needs no Keras, and is quiet."""

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import launcher_table
import pytest
import tensorflow as tf
from processes import run_python

import keras_attn_command
from keras_attn.cli import keras_attn_command as commands
from keras_attn.cli import main
from keras_attn.version import __version__

ROOT = Path(keras_attn_command.__file__).parent
WITHOUT = (
    "for name in ('keras', 'keras_attn', 'tensorflow', 'numpy'):\n    sys.modules[name] = None\n"
)
RUN = "from keras_attn_command import main\nmain(sys.argv[1:])\n"


def run(script, arguments, cwd=None):
    path = {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{script}{RUN}", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **path},
    )


def test_its_lists_are_those_of_the_commands():
    assert [*keras_attn_command.TASKS, "serve"] == [*commands.commands]
    for name, task in keras_attn_command.TASKS.items():
        command = commands.commands[name]
        assert task.about == command.help
        lines = [(step, sub.line) for step, sub in command.commands.items()]
        assert list(task.steps.items()) == lines
        for step, line in task.steps.items():
            assert len(f"  {step:<12}{line}") <= 100
    assert " ".join(keras_attn_command.EPILOG.split()) == commands.epilog
    source = launcher_table.LAUNCHER.read_text(encoding="utf-8")
    assert launcher_table.updated(source) == source, "run: python tests/launcher_table.py"
    context = click.Context(commands)
    for option in commands.get_params(context):
        assert option.opts[-1] in keras_attn_command.quick_answer([])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--version"], f"keras-attn, version {__version__}"),
        (["--help"], "text-classification"),
        ([], "Usage: keras-attn TASK STEP"),
        (["translation"], "Steps:\n  prepare     Read sentence pairs, check and split"),
        (["captioning", "-h"], "Caption pictures"),
    ],
)
def test_what_needs_no_keras(arguments, expected):
    done = run(WITHOUT, arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert expected in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tagging", "fit", "--run-dir", "r", "--train", "none"], "--train. Received: none. There"),
        (["tagging", "fit", "--train=a.txt", "--dev", "e.txt"], "e.txt. There is an empty file."),
        (["tagging", "predict", "--no-split", "n.txt", "--model", "a.txt"], "a file for FILES"),
        (["tagging", "predict", "--model", "a.txt", "--", "n.txt"], "n.txt. There is nothing"),
        (["tagging", "predict", "--model", "a.txt", "d"], "Received: d. There is a folder"),
        (["translation", "fit", "--data", "a.txt"], "Expected a folder for --data"),
        (["translation", "fit", "--config", "n.toml"], "Expected a file for --config"),
        (["tagging", "fit", "--config", "a.toml"], "for --train. Received: none.csv"),
        (["embeddings", "evaluate", "--model", "a.txt", "--pairs", "a.txt", "--pairs", "b"], "b."),
        (["captioning", "predict", "--model", "a.txt", "n.png"], "a file or a folder for FILES"),
        (["--debug", "similarity", "export", "--model", "n.task"], "Expected a saved task"),
        (["tagging", "fit", "--config", "a.toml", "--train", "a.txt"], ""),
        (["translation", "predict", "--model", "home-assistant-en-de", "-", "e.txt"], ""),
        (["text-generation", "fit", "--text", "*.txt", "--model", "gpt"], ""),
        (["tagging", "fit", "--train", "none", "--help"], ""),
        (["tagging", "quantise", "--model", "none"], ""),
        (["file.py:Mine", "fit", "--train", "none"], ""),
    ],
)
def test_input_files_are_looked_at_before_keras(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "e.txt").touch()
    (tmp_path / "a.toml").write_text('[data]\ntrain = "none.csv"\n')
    problem = keras_attn_command.input_problem(arguments)
    assert message in problem
    assert bool(problem) == bool(message)


def test_a_missing_file_needs_no_keras(tmp_path):
    done = run(WITHOUT, ["tagging", "fit", "--train", "none.txt", "--run-dir", "r"], tmp_path)
    message = "Error: Expected a file or a folder for --train. Received: none.txt. There is nothing"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{message}.\n")


@pytest.mark.parametrize("unbuffered", [True, False])
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["tagging", "--help"]])
def test_a_reader_that_has_gone(arguments, unbuffered):
    """As in `keras-attn --help | head -1`: no traceback, and no status of success."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{WITHOUT}{RUN}", *arguments],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1" * unbuffered},
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["tagging", "fit", "--help"], ["embeddings", "nearest", "--model", "v.txt", "a"]]
)
def test_a_reader_that_has_gone_from_a_step(arguments, tmp_path):
    """Of help, which is written at once, and of results, which are written as they come."""
    (tmp_path / "v.txt").write_text("".join(f"{x} {i} 1\n" for i, x in enumerate("abcdefgh")))
    script = (
        "import os, sys\nfrom keras_attn.cli import main\nread, write = os.pipe()\n"
        "os.close(read)\nos.dup2(write, 1)\nsys.stdout = os.fdopen(os.dup(1), 'w')\n"
        "main(sys.argv[1:])\n"
    )
    done = run_python("tensorflow", script, *arguments, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "code", "message", "fresh"),
    [
        (["text-generation", "predict", "--help"], 0, "", False),
        *(
            pytest.param(
                ["text-generation", "predict", "--model", "none.task"],
                1,
                "Expected a saved task",
                fresh,
                marks=[pytest.mark.slow] * fresh,
            )
            for fresh in (False, True)
        ),
        (["nothing"], 2, "No such command 'nothing'", False),
    ],
)
def test_all_else_is_handed_on_and_quiet(arguments, code, message, fresh, tmp_path):
    """Standard error has our own lines alone; one of them imports all that may say something."""
    if fresh:
        done = run("", arguments, tmp_path)
    else:
        done = run_python(
            "tensorflow", f"import sys\n{RUN}", *arguments, cwd=tmp_path, path=[ROOT], check=False
        )
    assert done.returncode == code
    assert message in done.stderr
    if not code:
        assert done.stderr == ""
        assert "--num-characters" in done.stdout
    for line in done.stderr.splitlines():
        assert line.startswith(("Error: ", "Usage: ", "Try ")) or not line


NOISE = """
import os, sys, types
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written\\n")
os.write(2, b"I0000 00:00:1795696231.92 8672 port.cc:153] oneDNN custom operations are on.\\n")
os.write(2, b"a line of ours\\n")

def list_physical_devices(kind):
    os.write(2, b"E0000 00:00:1795696251.15 8672 cuda_platform.cc:52] failed call to cuInit\\n")

config = types.SimpleNamespace(list_physical_devices=list_physical_devices)
sys.modules["tensorflow"] = types.SimpleNamespace(config=config)
"""


@pytest.mark.parametrize(("debug", "expected"), [(False, "Warning: 3 pairs"), (True, "script.py")])
def test_scripts_have_plain_output(tmp_path, debug, expected):
    """A package stands in for ours that says as it is imported what TensorFlow says."""
    (tmp_path / "keras_attn").mkdir()
    (tmp_path / "keras_attn" / "__init__.py").write_text(NOISE)
    (tmp_path / "keras_attn_command.py").write_bytes(Path(keras_attn_command.__file__).read_bytes())
    (tmp_path / "script.py").write_text(
        "import warnings\n"
        "from keras_attn_command import plain_output\n"
        f"plain_output(progress=False, debug={debug})\n"
        "warnings.warn('3 pairs are left out.')\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, cwd=tmp_path
    )
    first, second, *more = done.stderr.splitlines()
    assert (done.returncode, first) == (0, "a line of ours")
    assert second.startswith(expected if not debug else str(tmp_path)) and expected in second
    assert second == "Warning: 3 pairs are left out." or debug
    assert bool(more) == debug


def test_all_scripts_have_plain_output():
    """And none imports the package or Keras before."""
    scripts = [*ROOT.glob("examples/*.py"), *ROOT.glob("examples/*/*.py")]
    commands = [path for path in scripts if "__main__" in path.read_text(encoding="utf-8")]
    assert len(commands) > 15
    for path in commands:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        names = [ast.unparse(node) for node in body]
        heavy = [
            i for i, name in enumerate(names)
            if re.match(r"(from|import) (keras|numpy|tensorflow|vgg16|tfidf|baselines)\b", name)
        ]  # fmt: skip
        calls = [
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "plain_output"
        ]  # fmt: skip
        assert len(calls) == 1, path
        assert not heavy or names.index("plain_output()") < heavy[0], path


@pytest.mark.skipif(os.name != "posix", reason="a signal to a process, and how it ended")
def test_interrupted_in_the_imports(tmp_path):
    """Libraries that swallow an exception when they are imported do not swallow Ctrl-C."""
    (tmp_path / "keras_attn").mkdir()
    (tmp_path / "keras_attn" / "__init__.py").write_text("")
    (tmp_path / "keras_attn" / "cli.py").write_text(
        "import os, signal\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n    pass\n"
        "main = print\n"
    )
    (tmp_path / "keras_attn_command.py").write_bytes(Path(keras_attn_command.__file__).read_bytes())
    done = subprocess.run(
        [sys.executable, "keras_attn_command.py", "tagging", "fit"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("error", [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "")])
def test_out_of_memory(monkeypatch, capsys, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(commands, "main", fail)
    with pytest.raises(SystemExit, match="1"):
        main([])
    assert capsys.readouterr().err.startswith("Error: out of memory. Give smaller batches")


def test_a_file_of_a_name_that_is_taken(monkeypatch, tmp_path, capsys):
    """Else it would be said that the other module has no such class."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "json.py").write_text("class Own: pass\n")
    with pytest.raises(SystemExit, match="2"):
        main([f"{tmp_path / 'json.py'}:Own", "fit"])
    assert "json.py has the name of a module that is already loaded" in capsys.readouterr().err
