"""Tables to which `predict` adds columns with predictions."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.step_settings import values_of
from keras_attn.records.rows import is_parquet
from keras_attn.records.tables import check_delimiter
from keras_attn.records.whole_tables import WholeTable
from keras_attn.records.written_tables import open_table, written_format
from keras_attn.settings import Settings, WrongUse, setting
from keras_attn.tasks import Step, Task

_SIZE = 1024
_WITH_LINES = ("on_error",)
"""Settings of steps that also apply to tables."""


@dataclasses.dataclass(frozen=True)
class TableSettings(Settings):
    """Settings for reading a table and naming its new columns."""

    delimiter: str = setting(
        "", "of a table: character between columns; if empty, inferred from its first row",
        check=check_delimiter,
    )  # fmt: skip
    prefix: str = setting("", "of a table: prefix of the names of the new columns")


def with_tables(task: type[Task], step: Step) -> Step:
    """Returns the step `predict` with options for tables, and other steps unchanged."""
    names = [*task.input_columns]
    if step.name != "predict" or not names:
        return step
    fields: list[tuple[str, type, Any]] = []
    for name in names:
        what = task.inputs_are if name == "key" else name.removesuffix("_key")
        about = f"column, or JSON key, of the {what}, to read FILES as a table"
        fields.append((name, str, setting("", about)))
    bases = (TableSettings,) if step.settings is None else (step.settings, TableSettings)
    made = dataclasses.make_dataclass("Predicting", fields, bases=bases, frozen=True)
    options = ", ".join("--" + name.replace("_", "-") for name in names)
    added = ", ".join(task.predicts)
    text = (
        f"{step.help}\n\nWith {options} a file is read as a table (CSV, tab-separated, JSON lines "
        f"or Parquet). All its columns are written in their order, and those of the predictions "
        f"behind them: {added}. The end of --to says which kind of table is written."
    )
    return dataclasses.replace(step, settings=made, help=text)


def asks_for_table(task: type[Task], settings: Any, files: tuple[Path, ...]) -> bool:
    """Whether the input is a table: an option names a column, or a file is Parquet."""
    named = [name for name in task.input_columns if getattr(settings, name, "")]
    if not task.input_columns:
        return False
    if not named and not any(str(path) != "-" and is_parquet(path) for path in files):
        return False
    if len(files) != 1 or str(files[0]) == "-":
        got = ", ".join(map(str, files)) or "none"
        raise click.UsageError(f"Give one file, because the input is a table. Received: {got}.")
    for option in settings.declared():
        of_table = option.name in (*task.input_columns, *_WITH_LINES) or option.name in vars(
            TableSettings()
        )
        if not of_table and getattr(settings, option.name) != option.default:
            raise WrongUse(f"--{option.name.replace('_', '-')} is not available with a table.")
    return True


def predict_table(
    task: Task, path: Path, to: Path | None, settings: Mapping[str, Any], step: Step
) -> None:
    """Reads a table, and writes it with additional columns that contain the predictions."""
    use = settings[step.name]
    named = {name: getattr(use, name) for name in task.input_columns if getattr(use, name)}
    table = WholeTable(path, task.columns_of(task.data, named), use.delimiter)
    first = next(table.parts(1)).inputs[0]
    names = {f"{use.prefix}{name}": name for name in task.predicted_columns(first)}
    kinds = {name: task.predicted_columns(first)[of_task] for name, of_task in names.items()}
    table.check_new(names)
    values = values_of(type(task), step, settings, task.predict)
    if hasattr(use, "on_error") and "on_error" in inspect.signature(task.predict).parameters:
        values["on_error"] = use.on_error
    with open_table(to, written_format(to, table.format), table, kinds) as write:
        for part in table.parts(_SIZE):
            results = task.predict(task.inputs_in(part.inputs, path.parent), **values)
            cells = map(task.cells, results)
            write(part, [{name: row[x] for name, x in names.items()} for row in cells])
