"""What is installed: the base does without extras, and a missing one is an error that names it."""

import configparser
import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import installed_tasks
import pytest

from keras_attn.packages import EXTRAS, check_installed, needed

ROOT = Path(__file__).parents[1]
DISTRIBUTIONS = {
    "PIL": "pillow",
    "prometheus_client": "prometheus-client",
    "keras_hub": "keras-nlp",
    "sklearn": "scikit-learn",
    "rouge_score": "rouge-score",
    "tensorflow_text": "tensorflow-text",
    "ai_edge_litert": "ai-edge-litert",
}
"""The names of packages that are not those of their modules."""

# Imports everything that is public with Keras, JAX and nothing else, and asks for more.
BARE = """
import json, sys
for name in sys.argv[1:]:
    sys.modules[name] = None
import keras_attn
for name in keras_attn.__all__:
    for inner in getattr(getattr(keras_attn, name), "__all__", ()):
        getattr(getattr(keras_attn, name), inner)
from keras_attn import metrics, text, visualize
from keras_attn.export import export_in_child_process
words = text.WordTokenizer.train(["a"])
asked = {
    "byte pairs": lambda: text.BytePairTokenizer.train(["a"], 261),
    "word pieces": lambda: text.WordPieceTokenizer.train(["a"], 9),
    "SentencePiece": lambda: text.SentencePieceTokenizer(b""),
    "a graph": words.to_graph,
    "ROUGE": lambda: metrics.rouge(["a"], ["a"]),
    "a map": lambda: visualize.word_places([[0.0]] * 5),
    "a picture": lambda: keras_attn.images.load_image(b"a"),
    "a drawing": lambda: visualize.plot_attention([[1.0]], "a", "a"),
    "a SavedModel": lambda: export_in_child_process(dict, None, "saved"),
    "the command": lambda: __import__("keras_attn.cli"),
}
said = {}
for name, ask in asked.items():
    try:
        ask()
    except ImportError as error:
        said[name] = str(error)
print(json.dumps(said))
"""


def extras():
    """The names of the distributions of each extra, with those of the extras in it; of the base."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    given = {"base": config["options"]["install_requires"], **config["options.extras_require"]}

    def distributions(name):
        found = set()
        for line in given[name].split("\n"):
            inner = re.fullmatch(r"keras_attn\[(.*)\]", line)
            if inner:
                found.update(*map(distributions, inner[1].split(",")))
            elif line:
                found.add(re.split("[<>=;]", line)[0])
        return found

    return {name: distributions(name) for name in given}


@pytest.mark.slow
def test_the_package_without_extras(tmp_path):
    """Blocked modules stand for packages that are not installed."""
    blocked = [name for name in EXTRAS if name != "jax"]
    done = subprocess.run(
        [sys.executable, "-c", BARE, *blocked],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    expected = {
        "byte pairs": ("tokenizers", "tasks"),
        "word pieces": ("tokenizers", "tasks"),
        "SentencePiece": ("sentencepiece", "tasks"),
        "a graph": ("tensorflow", "tensorflow"),
        "ROUGE": ("rouge_score", "summarization"),
        "a map": ("sklearn", "tasks"),
        "a picture": ("PIL", "captioning"),
        "a drawing": ("matplotlib", "plots"),
        "a SavedModel": ("tensorflow", "tensorflow"),
        "the command": ("click", "tasks"),
    }
    assert said.keys() == expected.keys()
    for name, (module, extra) in expected.items():
        assert f" needs the module {module}, " in said[name]
        assert f'pip install "keras_attn[{extra}]"' in said[name]


def test_extras_bring_what_the_errors_say():
    found = extras()
    for module, extra in EXTRAS.items():
        assert DISTRIBUTIONS.get(module, module) in found[extra], module
    assert not found["base"] & {DISTRIBUTIONS.get(module, module) for module in EXTRAS}
    every = set().union(*(found[extra] for extra in EXTRAS.values()))
    assert found["all"] == every
    assert found["test"] >= every - found["hub"]
    assert found["examples"] == found["tensorflow"] | found["tasks"] | found["plots"]


OFFLINE = ("Could not find a version", "Failed to establish a new connection")
# As in the extra `test`: its build for CPUs, where there is one.
PINNED = {"jax": (), "torch": ("torch==2.13.0",)}


@pytest.mark.slow
@pytest.mark.parametrize("backend", PINNED)
def test_every_task_without_tensorflow(backend, tmp_path):
    """The wheel in an environment of its own, outside of the tree."""
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    wanted = f"{wheel}[{backend},tasks,captioning,summarization]"
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", wanted, *PINNED[backend]],
        capture_output=True,
        text=True,
    )
    if done.returncode and any(words in done.stderr for words in OFFLINE):
        pytest.skip(f"no registry of packages: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr[-3000:]
    done = subprocess.run(
        [python, "-I", ROOT / "tests/installed_tasks.py", tmp_path / "toys"],
        env={**os.environ, "KERAS_BACKEND": backend},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    assert done.returncode == 0, (done.stdout[-1000:], done.stderr[-3000:])
    lines = done.stdout.splitlines()
    assert str(tmp_path / "env") in lines[0]
    assert {*installed_tasks.CASES} <= {*lines}
    assert json.loads(lines[-1]) == []


def test_only_a_missing_package_is_an_error_of_an_extra(monkeypatch):
    with pytest.raises(ModuleNotFoundError, match="nowhere"), needed("A test"):
        import nowhere  # noqa: F401
    with pytest.raises(ImportError, match=r"^cannot import name"), needed("A test"):
        from tokenizers import nothing  # noqa: F401
    monkeypatch.setitem(sys.modules, "bm25s", None)
    said = r"^A test needs the module bm25s.*search\]\""
    with pytest.raises(ImportError, match=rf"{said}\. Or not"), needed("A test", "Or not."):
        import bm25s  # noqa: F401
    with pytest.raises(ImportError, match=f"{said}$"):
        check_installed("bm25s", "A test")
