"""The step of similarity that other tasks have not: vectors of texts."""

import contextlib
import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from keras_attn.cli.lines import check_files, files_argument, read_chunks
from keras_attn.cli.options import FILE, device_option, model_option
from keras_attn.cli.output import check_output, open_output
from keras_attn.cli.task_command import step_command, task_command, values_of
from keras_attn.files import atomic_write
from keras_attn.tasks import SimilarityScorer
from keras_attn.training import compute_on


def _embed(
    model_file: Path,
    output: Path | None,
    device: str,
    files: tuple[Path, ...],
    settings: dict[str, Any],
) -> None:
    check_files(files)
    check_output(output)
    with compute_on(device), contextlib.ExitStack() as stack:
        values = values_of(SimilarityScorer, "embed", settings, SimilarityScorer.embed)
        loaded = SimilarityScorer.load(model_file)
        loaded.check_embeds()
        if output is not None and output.suffix == ".npy":
            parts = [loaded.embed(lines, **values) for lines in read_chunks(files)]
            with open(stack.enter_context(atomic_write(output)), "wb") as binary:
                np.save(binary, np.concatenate(parts or [loaded.embed([])]), allow_pickle=False)
            return
        file = open_output(output, stack)
        for lines in read_chunks(files):
            for text, vector in zip(lines, loaded.embed(lines, **values), strict=True):
                row = {"text": text, "vector": [round(float(x), 7) for x in vector]}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()


embed = step_command(
    SimilarityScorer,
    "embed",
    _embed,
    """Make a vector of each text, with a model of kind bi.

    FILES have one text on each line; standard input is read if there are none. The vectors are
    written as JSON lines, or as one array of float32 if the file of --to ends in .npy.
    """,
    model_option,
    click.option(
        "--to", "output", type=FILE, help="file to write, JSON lines or .npy; standard output if "
        "none",
    ),
    device_option,
    files_argument,
)  # fmt: skip

similarity = task_command(SimilarityScorer)
similarity.add_command(embed)
