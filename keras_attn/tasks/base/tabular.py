"""Tables as examples and inputs: DataFrames, Arrow tables and dicts of columns."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sized
from pathlib import Path
from typing import Any, ClassVar

from keras_attn.inputs import read_twice
from keras_attn.records.columns import read_columns
from keras_attn.records.items import Records
from keras_attn.records.reading import Location
from keras_attn.records.rows import Rows, rows_of
from keras_attn.records.tables import Column
from keras_attn.records.whole_tables import InputReading
from keras_attn.settings import Settings


class Tabular:
    """Base class of `Task`: reads examples and inputs from files and tables."""

    Data: ClassVar[type[Settings]] = Settings
    Test: ClassVar[type[Settings]] = Settings
    input_columns: ClassVar[Mapping[str, str]] = {}
    """The columns that form an input, in order: a dict from the setting (or call argument) that
    names a column to its default name. A column without a default name may be missing."""
    predicts: ClassVar[Mapping[str, object]] = {}
    """The columns that predictions add to a table, with their types: `str`, `float`, `int`,
    `list[str]`, `list[float]`, or `object` for values written as JSON."""
    examples_are: ClassVar[str]
    data: Any

    @classmethod
    def read_file(cls, path: Location, data: Any) -> Any:
        """Reads training, development or test examples from a file or table.

        `read` and `read_test` call this method for the command, and `fit`, `evaluate` and `create`
        for examples in a table. A subclass must override it.

        Args:
            path: The file, or a table in memory as `keras_attn.records.Rows`.
            data: Settings of class `Data`.

        Returns:
            The examples: a list (or another sized iterable) with a method `summary()`, which
            describes the file.
        """
        raise NotImplementedError

    @classmethod
    def split(cls, examples: Any, data: Any) -> tuple[Any, Any]:
        """Splits examples into training and development examples.

        `read` calls this method if no development file is given, and `fit` with `validation_split`.

        Args:
            examples: The result of `read_file`, or of `checked`.
            data: Settings of class `Data`.

        Returns:
            A tuple of the training examples and the development examples; one of them may be empty
            if there are too few examples.
        """
        raise NotImplementedError

    @classmethod
    def checked(cls, examples: Any) -> Any:
        """Checks examples and returns them in the form that `measured` and `report` receive; by
        default, unchanged. Called by `evaluate`, and by `fit` with `validation_split`.

        Args:
            examples: Examples, as for `fit`.
        """
        return examples

    @classmethod
    def table_settings(cls) -> list[str]:
        """Returns the names of the data settings that `fit`, `evaluate` and `create` accept as
        arguments if the examples are a table."""
        if not cls.input_columns:
            return []
        of_test = ["train", *(option.name for option in cls.Test.declared())]
        read = [x.name for x in cls.Data.declared() if "evaluate" in x.steps]
        return [x for x in dict.fromkeys([*cls.input_columns, *read]) if x not in of_test]

    @classmethod
    def column_helps(cls, inputs: bool) -> dict[str, str]:
        """Returns the help texts of the `table_settings` (if `inputs`, only of the
        `input_columns`), keyed by setting."""
        helps = {option.name: option.help for option in cls.Data.declared()}
        names = cls.input_columns if inputs else cls.table_settings()
        return {x: _of_table(helps.get(x, f"column of the {x}")) for x in names}

    @classmethod
    def taken_from(cls, given: dict[str, object], inputs: bool = False) -> dict[str, object]:
        """Removes the `table_settings` (if `inputs`, only the `input_columns`) from the keyword
        arguments `given` of a call, and returns the removed values, keyed by setting."""
        names = cls.input_columns if inputs else cls.table_settings()
        return {name: given.pop(name) for name in [*given] if name in names}

    @classmethod
    def with_columns(cls, data: Settings, columns: Mapping[str, object]) -> Settings:
        """Returns the settings `data`, updated by the settings that a call with a table received as
        keyword arguments (`columns`)."""
        known = [option.name for option in cls.Data.declared()]
        own = {name: x for name, x in columns.items() if name in known and x is not None}
        return cls.Data.made({**data.to_dict(), **own}) if own else data

    @classmethod
    def read_given(cls, given: object, data: Settings, columns: Mapping[str, object]) -> Any:
        """Reads examples from a table; returns other examples unchanged."""
        rows = rows_of(given) if cls.input_columns else given
        if isinstance(rows, Rows):
            return cls.read_file(rows, cls.with_columns(data, columns))
        _refuse_columns(given, columns)
        return rows

    def read_own(self, given: object, columns: Mapping[str, object]) -> Any:
        """Reads examples from a table with the data settings of this task; see `read_given`."""
        return self.read_given(given, self.data, columns) if self.input_columns else given

    def read_asked(self, given: object, columns: Mapping[str, object]) -> Any:
        """Reads inputs from the columns of a table; returns other inputs unchanged."""
        rows = rows_of(given) if self.input_columns else given
        if not isinstance(rows, Rows):
            _refuse_columns(given, columns)
            return rows
        return self.read_inputs(rows, self.columns_of(self.data, columns))

    def held_out(self, examples: Any, share: float) -> tuple[Any, Any]:
        """Splits examples into training and development examples.

        Args:
            examples: Examples, as for `fit`.
            share: Fraction of development examples, above 0 and below 1.

        Returns:
            The training examples and the development examples.

        Raises:
            TypeError: If the examples are encoded ids.
            ValueError: If the task does not split examples, or there are too few different
                examples.
        """
        kind = type(self)
        if vars(Tabular)["split"] is inspect.getattr_static(kind, "split"):
            raise ValueError(
                f"`validation_split` is not available: {kind.__name__} does not split examples. "
                f"Received: {share!r}. Give development examples (`validation_data`)."
            )
        if not isinstance(examples, Records):
            examples = self.checked(read_twice(examples, self.examples_are))
        if not (isinstance(examples, Iterable) and isinstance(examples, Sized)):
            raise TypeError(
                f"`validation_split` can split {self.examples_are}, but not encoded ids. Received: "
                f"{type(examples).__name__}. Give development examples (`validation_data`)."
            )
        number = {"dev_share": share, "dev_size": max(1, round(share * len(examples)))}
        sides = self.split(examples, self.with_columns(self.data, number))
        if not all(map(len, sides)):
            raise ValueError(
                f"Expected two different {self.examples_are} or more, so that they can be "
                "split. Received: only one. Give development examples (`validation_data`)."
            )
        return sides

    @classmethod
    def columns_of(cls, data: Settings, columns: Mapping[str, object]) -> dict[str, Column]:
        """Returns the names of the columns that form an input, keyed by the setting that names the
        column."""
        named = {
            name: str(columns.get(name) or getattr(data, name, "") or usual)
            for name, usual in cls.input_columns.items()
        }
        return {name: column for name, column in named.items() if column}

    @staticmethod
    def read_inputs(place: Location, columns: Mapping[str, Column]) -> list[object]:
        """Reads the inputs of a table.

        Args:
            place: The file, or a table in memory as `keras_attn.records.Rows`.
            columns: The names of the columns that form an input, keyed by setting.

        Returns:
            A list of the values of the column, or of tuples of values if there are several columns.
        """
        reading = InputReading(place)
        found: list[object] = []
        for _, row in read_columns(place, dict(columns), reading):
            values = tuple(row.values())
            found.append(values if len(values) > 1 else values[0])
        reading.refuse_bad(len(found))
        return found

    # What predictions add to a table

    def predicted_columns(self, given: object) -> Mapping[str, object]:
        """Returns the columns that predictions add to a table, with their types.

        Args:
            given: The first input of the table.

        Returns:
            A dict from columns to types, such as `{"label": str}`; by default, `predicts`.
        """
        return self.predicts

    def cells(self, result: Any) -> dict[str, object]:
        """Returns the values of the columns in `predicts` for a result of `predict`, keyed by
        column. If the result is None, all values are None."""
        if result is None:
            return dict.fromkeys(self.predicts)
        if len(self.predicts) == 1:
            return dict.fromkeys(self.predicts, result)
        found = result if isinstance(result, dict) else result._asdict()
        return {name: found[name] for name in self.predicts}

    @staticmethod
    def inputs_in(inputs: list[Any], folder: Path) -> list[Any]:
        """Returns the inputs of a table; image paths in them are resolved relative to `folder`."""
        return inputs


_COLUMNS = ("column, or JSON key, of", "JSON key, or column, of", "JSON key or column of", "column")


def _of_table(text: str) -> str:
    """Returns the help text of a setting as it applies to a table in memory."""
    text = text.removeprefix("csv, tsv: ").removeprefix("csv: ").partition("; or its number")[0]
    text, separator, rest = text.partition("; ")
    for column in _COLUMNS:
        if text.startswith(f"{column} "):
            own = text.removeprefix(column).removeprefix(" with").removeprefix(" of")
            return (
                f"name of the column with{own}, if the examples come from a table{separator}{rest}"
            )
    return f"for examples from a table: {text}{separator}{rest}"


def _refuse_columns(given: object, columns: Mapping[str, object]) -> None:
    if named := [name for name, column in columns.items() if column not in ("", None)]:
        name = named[0]
        raise TypeError(
            f"`{name}` is only used if the data is a table, such as a DataFrame. Received: "
            f"{name}={columns[name]!r} with a {type(given).__name__}. Leave it out, or pass "
            "a table."
        )
