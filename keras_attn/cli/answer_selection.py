"""The steps of answer selection that other tasks have not: an index of answers, and pairs."""

import contextlib
import csv
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.options import FILE, device_option, make_option, model_option
from keras_attn.cli.output import check_new_model, check_output, open_output
from keras_attn.cli.task_command import step_command, task_command, values_of
from keras_attn.tasks import AnswerSelectionData, AnswerSelector
from keras_attn.tasks.answer_selection.selector import read_answers, read_questions_of
from keras_attn.training import compute_on

_OF_INDEX = ("backbone", "answers", "answer", "delimiter", "on_error", "max_length", "pooling")


def _index(output: Path, overwrite: bool, **given: Any) -> None:
    check_new_model(output, overwrite)
    data = AnswerSelectionData.made({k: v for k, v in given.items() if v is not None})
    answers = read_answers(data)
    chosen = {name: getattr(data, name) for name in ("max_length", "pooling")}
    selector = AnswerSelector.from_backbone(data.backbone, answers, **chosen)
    click.echo(str(selector.loaded))
    selector.save(output)
    click.echo(f"{output}: {len(selector.answers):,} answers")


for option in AnswerSelectionData.declared()[::-1]:
    if option.name in _OF_INDEX:
        words = {"answers": "file of the answers", "answer": "column of the answers, or JSON key"}
        text = words.get(option.name, option.help)
        required = option.name in ("backbone", "answers")
        _index = make_option(option._replace(required=required, help=text))(_index)
_index = click.option("--overwrite", is_flag=True, help="replace a model that is there")(_index)
_index = click.option("--to", "output", type=FILE, required=True, help="file of the model")(_index)
index = click.command(
    "index",
    help="""Make a model that searches the answers of a file, without training.

    The encoder is taken as it is: one that was trained for vectors of texts, or that of a model of
    this task, whose answers are left behind. A file of answers has one on each line, or is a table
    with the column --answer (*.csv, *.tsv, *.jsonl).
    """,
)(_index)


def _pairs(
    model_file: Path, source: Path, output: Path, device: str, settings: dict[str, Any]
) -> None:
    check_output(output)
    with compute_on(device), contextlib.ExitStack() as stack:
        values = values_of(AnswerSelector, "pairs", settings, AnswerSelector.pairs)
        questions = read_questions_of(source, settings["data"])
        click.echo(questions.summary())
        found = AnswerSelector.load(model_file).pairs(questions, **values)
        # A carriage return alone is not quoted otherwise, and then cannot be read.
        rows = csv.writer(
            open_output(output, stack), lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
        )
        rows.writerow(["sentence1", "sentence2", "score"])
        rows.writerows(found)
    click.echo(f"{output}: {len(found):,} pairs")


pairs = step_command(
    AnswerSelector,
    "pairs",
    _pairs,
    """Write pairs of questions and answers from which a reranker learns.

    Right answers have the score 1; the best wrong ones that are found have 0. `keras-attn
    similarity fit --kind cross` learns from the file, and --reranker takes the model.
    """,
    model_option,
    click.option("--data", "source", type=FILE, required=True, help="questions, as for fit"),
    click.option("--to", "output", type=FILE, required=True, help="CSV file to write"),
    device_option,
)

answer_selection = task_command(AnswerSelector)
answer_selection.add_command(index)
answer_selection.add_command(pairs)
