"""The notebooks run from their first cell to their last, each in a kernel of its own."""

import html
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "translation.ipynb"
PRETRAINED = ROOT / "examples" / "pretrained_translator.ipynb"
SOURCE = "We meet on Friday, March 3, at half past three."
TINY = "num_pairs, epochs, dim = 80, 1, 16"

# In a process of its own: what the kernel's libraries warn of is none of our warnings.
RUN = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
assert len(cells) == 1
cells[0].source += "\\n" + sys.argv[2]
resources = {"metadata": {"path": sys.argv[4]}}
NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
nbformat.write(notebook, sys.argv[3])
"""


pytestmark = pytest.mark.slow  # it is one run of a kernel


def run(notebook, parameters, folder):
    """The cells of code after a run with other parameters."""
    result = folder / "executed.ipynb"
    command = [sys.executable, "-c", RUN, str(notebook), parameters, str(result), str(folder)]
    done = subprocess.run(
        command,
        env={
            **os.environ,
            "KERAS_BACKEND": "tensorflow",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(folder),
            # The kernel of this Python, whatever others are installed for the user.
            "JUPYTER_DATA_DIR": str(folder / "jupyter"),
            "IPYTHONDIR": str(folder / "ipython"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [c for c in json.loads(result.read_text())["cells"] if c["cell_type"] == "code"]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return run(NOTEBOOK, TINY, tmp_path_factory.mktemp("notebook"))


def output(cells, ending):
    """What came of the cell whose last line is this."""
    (cell,) = [c for c in cells if "".join(c["source"]).splitlines()[-1] == ending]
    (found,) = [o for o in cell["outputs"] if o["output_type"] == "execute_result"]
    return {kind: "".join(data) for kind, data in found["data"].items()}


def labels(table):
    """The labels of a heat map: columns, then rows."""
    return [html.unescape(label) for label in re.findall(">([^<]*)</th>", table)]


def test_the_alignments_are_shown_with_their_tokens(cells):
    tokens = output(cells, "alignment")["text/html"]
    assert tokens.startswith("<table")
    assert "".join(labels(tokens)).startswith(SOURCE.replace(" ", "▁") + "</s>")
    words = labels(output(cells, "words")["text/html"])
    assert words[: len(SOURCE.split()) + 1] == [*SOURCE.split(), "</s>"]
    assert output(cells, "words.plot(title=source)")["image/png"]


def test_what_was_saved_and_exported_is_the_same(cells):
    again = output(cells, "again.translate(source) == translator.translate(source)")
    assert again["text/plain"] == "True"
    ending = 'serve(text=tf.constant([source]))["translation"].numpy()[0].decode()'
    assert output(cells, ending)["text/plain"].startswith(("'", '"'))


def test_it_is_kept_without_outputs_and_installs_nothing_that_is_there(cells):
    kept = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    for cell in kept["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    assert "%pip install" in "".join(cells[0]["source"])
    assert cells[0]["outputs"] == []


def test_the_n_best_are_a_table(cells):
    shown = output(cells, f'translator.translate_n_best("{SOURCE}", 3)')["text/html"]
    assert shown.startswith("<table>")
    assert shown.count("<tr>") == 1 + 3


def test_a_translator_of_others(tmp_path):
    """A process without the package gives what the imported translator gives."""
    cells = run(PRETRAINED, "epochs, dim = 1, 16", tmp_path)
    ending = "served.stdout.splitlines()[: len(texts)] == translator.translate(texts, beams=4)"
    assert output(cells, ending)["text/plain"] == "True"
    assert "looked at" in json.dumps(cells[-2]["outputs"])


def test_its_outputs_are_kept():
    kept = json.loads(PRETRAINED.read_text(encoding="utf-8"))
    cells = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = json.dumps([cell["outputs"] for cell in cells])
    assert "zwei alte Katzen" in outputs and "Error" not in outputs
    assert tempfile.gettempdir() not in outputs
