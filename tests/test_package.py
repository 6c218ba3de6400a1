"""The house: rooms import downwards, the wheel works, the top level is light."""

import ast
import configparser
import functools
import importlib
import importlib.util
import subprocess
import sys
import venv
from pathlib import Path

import faults
import pytest

import keras_attn

ROOT = Path(__file__).parents[1]
# Each room may import from those before it.
ROOMS = [
    "version", "packages", "progress", "input_files", "archives", "files", "folder_headers",
    "inputs", "line_ends", "white_space", "hints", "settings", "arrays", "ops", "layers", "text",
    "records", "images", "fields", "trained", "corpora", "batches",
    "training", "metrics", "adapt", "generation", "models", "export", "interop", "visualize",
    "explain", "tasks", "serve", "cli", "__main__",
]  # fmt: skip


@functools.cache
def parts_of(path):
    """The imports of a file, and the lines with "import" of its strings that are no docstrings."""
    imports, strings, docstrings = [], [], set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                docstrings.add(node.body[0].value)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            imports.append(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings += [node.value] if node not in docstrings else []
    return imports, [x for text in strings for x in text.splitlines() if "import" in x]


def test_rooms_import_downwards_only():
    seen = set()
    for path in sorted((ROOT / "keras_attn").rglob("*.py")):
        parts = path.relative_to(ROOT / "keras_attn").parts
        room = parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        seen.add(room)
        for node in parts_of(path)[0]:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("keras_attn."):
                other = node.module.split(".")[1]
                assert ROOMS.index(other) <= ROOMS.index(room), f"{path} imports {other}"
    assert seen == set(ROOMS)


def test_what_is_imported_is_there():
    """Examples and benchmarks import within functions too, which no quick test calls."""
    missing, number = [], 0
    for folder in ("examples", "benchmarks", "keras_attn"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in parts_of(path)[0]:
                module = getattr(node, "module", None) or ""
                if not isinstance(node, ast.ImportFrom) or module.split(".")[0] != "keras_attn":
                    continue
                for name in (alias.name for alias in node.names if alias.name != "*"):
                    number += 1
                    # A name of the module, or a module within it.
                    found = importlib.import_module(module)
                    inner = f"{module}.{name}"
                    if not hasattr(found, name) and (
                        not hasattr(found, "__path__") or importlib.util.find_spec(inner) is None
                    ):
                        missing.append(f"{path.relative_to(ROOT)}: {inner}")
    assert missing == [] and number > 3000


def test_deliberate_faults_can_be_made():
    """Faults name code and tests that are there. `tests/faults.py` tries whether they are found."""
    assert [why for fault in faults.faults() if (why := faults.stale(fault))] == []


def test_five_layers_at_the_top():
    for name in (
        "AdditiveAttention",
        "MultiHeadSelfAttention",
        "PositionalEncoding",
        "TransformerEncoderBlock",
        "DecoderBlock",
    ):
        assert getattr(keras_attn, name) is getattr(keras_attn.layers, name)


def test_files_beside_the_code_are_shipped():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    shipped = {
        path
        for package, patterns in config["options.package_data"].items()
        for pattern in patterns.split()
        for path in ROOT.joinpath(*package.split(".")).glob(pattern)
    }
    files = {path for path in (ROOT / "keras_attn").rglob("*.*") if path.is_file()}
    assert {path for path in files if path.suffix not in (".py", ".pyc")} == shipped


@pytest.mark.by_hand
def test_wheel_in_a_clean_environment_passes_the_quick_tests(tmp_path):
    """Builds a wheel, installs it where the tree is not on the path, and runs the tests."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)], check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", f"{wheel}[test]"], check=True)
    script = "import keras_attn, sys; sys.exit('site-packages' not in keras_attn.__file__)"
    subprocess.run([python, "-c", script], cwd=tmp_path, check=True)
    tests = [str(ROOT / "tests" / room) for room in ("ops", "layers", "text", "training")]
    subprocess.run(
        [python, "-I", "-m", "pytest", "-q", "--rootdir", str(ROOT), *tests],
        cwd=tmp_path,
        check=True,
    )


def named_in(path, modules):
    """Modules of ours that a file imports: at the top, for type hints, in functions, in strings."""
    imports, lines = parts_of(path)
    found = {name for name in modules if any(f"{name} " in f"{line} " for line in lines)}
    for node in imports:
        found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & set(modules)


def test_no_two_files_name_each_other():
    """Docstrings aside, whose examples show how things are used."""
    modules = {}
    for path in (ROOT / "keras_attn").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] != "__init__":
            modules[".".join(parts)] = path
    named = {name: named_in(path, modules) - {name} for name, path in modules.items()}
    pairs = {(a, b) for a in named for b in named[a] if a in named[b] and a < b}
    assert not pairs


def test_no_two_test_files_have_one_name():
    """Pytest imports them by their names; run in parts, two of one name would not be noticed."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert [name for name in set(names) if names.count(name) > 1] == []
