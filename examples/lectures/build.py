"""Makes the notebooks of the lectures from their sources, runs them and stores their outputs.

    python examples/lectures/build.py                  # all five
    python examples/lectures/build.py 1_attention_by_hand

A source is a Python file in the percent format: `# %%` begins a cell of code and `# %% [markdown]`
a cell of text, which is written in comments.
"""

import argparse
import os
import re
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
SOURCES = sorted(HERE.glob("[1-9]_*.py"))


def cells_of(source: str) -> list[nbformat.NotebookNode]:
    """Returns the cells of a source."""
    cells = []
    parts = re.split(r"^# %%(.*)\n", source, flags=re.MULTILINE)[1:]
    for number, (kind, body) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        if kind.strip() == "[markdown]":
            text = re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE)
            cell = nbformat.v4.new_markdown_cell(text)
        else:
            cell = nbformat.v4.new_code_cell(body.strip())
        cell["id"] = f"cell-{number}"
        cells.append(cell)
    return cells


def notebook_of(source: Path) -> nbformat.NotebookNode:
    """Returns the notebook of a source, without outputs."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    }
    notebook.cells = cells_of(source.read_text(encoding="utf-8"))
    return notebook


def run(notebook: nbformat.NotebookNode, folder: Path = HERE, timeout: int = 1200) -> None:
    """Runs all cells in a kernel of their own; raises an error if one fails."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # the times of the run
        if cell.cell_type == "code":  # what libraries print on stderr differs between machines
            cell.outputs = [x for x in cell.outputs if x.get("name") != "stderr"]


def main() -> None:
    """Makes the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="names of sources; all if none is given")
    names = parser.parse_args().names
    for source in SOURCES:
        if not names or source.stem in names:
            notebook = notebook_of(source)
            run(notebook)
            path = source.with_suffix(".ipynb")
            nbformat.write(notebook, path)
            print(f"{path.name}: {path.stat().st_size // 1000} kB", flush=True)


if __name__ == "__main__":
    main()
