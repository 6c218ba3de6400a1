"""The lectures: notebooks of their sources, run again from the first cell to the last."""

import base64
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/lectures"
LECTURES = [
    "1_attention_by_hand",
    "2_from_recurrence_to_attention",
    "3_the_transformer",
    "4_words_and_context",
    "5_bert_and_gpt",
]
# In a process of its own: what the kernel's libraries warn of is none of our warnings.
RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import build
notebook = build.notebook_of(Path(sys.argv[1]) / f"{sys.argv[2]}.py")
build.run(notebook, Path(sys.argv[3]))
"""

pytestmark = pytest.mark.slow  # each is one run of a kernel


def test_they_are_all_there():
    assert sorted(path.stem for path in FOLDER.glob("[1-9]_*.py")) == LECTURES
    index = (ROOT / "docs/lectures.md").read_text(encoding="utf-8")
    assert all(f"../examples/lectures/{name}.ipynb" in index for name in LECTURES)


@pytest.mark.parametrize("name", LECTURES)
def test_no_cell_fails(name, tmp_path):
    """Hand numbers are asserted in the cells."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(FOLDER), name, str(tmp_path)],
        env={
            **os.environ,
            "KERAS_BACKEND": "tensorflow",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(tmp_path),
            # The kernel of this Python, whatever others are installed for the user.
            "JUPYTER_DATA_DIR": str(tmp_path / "jupyter"),
            "IPYTHONDIR": str(tmp_path / "ipython"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("build_lectures", FOLDER / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", LECTURES)
def test_what_is_stored(name, build):
    """Cells are the source's, every one has been run in order, and outputs are small."""
    path = FOLDER / f"{name}.ipynb"
    kept = json.loads(path.read_text(encoding="utf-8"))
    made = build.notebook_of(path.with_suffix(".py"))
    assert ["".join(cell["source"]) for cell in kept["cells"]] == [c.source for c in made.cells]
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert outputs and "/work/" not in json.dumps(outputs)
    assert {output["output_type"] for output in outputs}.isdisjoint({"error"})
    pictures = [o["data"]["image/png"] for o in outputs if "image/png" in o.get("data", {})]
    assert pictures and max(len(base64.b64decode(png)) for png in pictures) < 100_000
    assert path.stat().st_size < 600_000
    text = "".join("".join(cell["source"]) for cell in kept["cells"])
    assert "## Exercises" in text and "## Solutions" in text
