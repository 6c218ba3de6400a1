"""Tables in the place of examples and inputs: DataFrames, Arrow tables, dicts of columns."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
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
    """How a task reads tables: a base class of `Task`, which says what its columns are."""

    Data: ClassVar[type[Settings]] = Settings
    Test: ClassVar[type[Settings]] = Settings
    input_columns: ClassVar[Mapping[str, str]] = {}
    """The columns of an input, in its order: settings `Data` that name them, or names by which
    calls name them, and the columns themselves if nobody does; an empty one may be missing."""
    predicts: ClassVar[Mapping[str, object]] = {}
    """The columns that predictions add to a table, with the types of their values: `str`, `float`,
    `int`, `list[str]`, `list[float]`; other values are written as JSON (`object`)."""
    examples_are: ClassVar[str]
    data: Any

    @classmethod
    def read_file(cls, path: Location, data: Any) -> Any:
        """Reads examples of a file: for training, to choose the best weights, or for a test.

        Args:
            path: The file; or `keras_attn.records.Rows`, a table in memory, which readers take in
                its place.
            data: Settings `Data`.

        Returns:
            Examples that have a `summary()`.
        """
        raise NotImplementedError

    @classmethod
    def split(cls, examples: Any, data: Any) -> tuple[Any, Any]:
        """Splits examples into those to learn from and those that choose the best weights.

        Args:
            examples: What `read_file` returned.
            data: Settings `Data`.
        """
        raise NotImplementedError

    @classmethod
    def checked(cls, examples: Any) -> Any:
        """Returns examples in one form, each checked.

        Args:
            examples: Examples, as for `fit`.
        """
        return examples

    @classmethod
    def table_settings(cls) -> list[str]:
        """Returns the settings `Data` that calls with a table take: how its examples are read."""
        if not cls.input_columns:
            return []
        of_test = ["train", *(option.name for option in cls.Test.declared())]
        read = [x.name for x in cls.Data.declared() if "evaluate" in x.steps]
        return [x for x in dict.fromkeys([*cls.input_columns, *read]) if x not in of_test]

    @classmethod
    def column_helps(cls, inputs: bool) -> dict[str, str]:
        """Returns what the settings of a table are, by name; of `inputs`, their columns."""
        helps = {option.name: option.help for option in cls.Data.declared()}
        names = cls.input_columns if inputs else cls.table_settings()
        return {x: f"of a table: {helps.get(x, f'column of the {x}')}" for x in names}

    @classmethod
    def taken_from(cls, given: dict[str, object], inputs: bool = False) -> dict[str, object]:
        """Takes the settings of a table out of keyword arguments; of `inputs`, their columns."""
        names = cls.input_columns if inputs else cls.table_settings()
        return {name: given.pop(name) for name in [*given] if name in names}

    @classmethod
    def with_columns(cls, data: Settings, columns: Mapping[str, object]) -> Settings:
        """Returns settings `Data` with those that a call with a table was given."""
        known = [option.name for option in cls.Data.declared()]
        own = {name: x for name, x in columns.items() if name in known and x is not None}
        return cls.Data.made({**data.to_dict(), **own}) if own else data

    @classmethod
    def read_given(cls, given: object, data: Settings, columns: Mapping[str, object]) -> Any:
        """Returns examples; those of a table are read as those of a file are."""
        rows = rows_of(given) if cls.input_columns else given
        if isinstance(rows, Rows):
            return cls.read_file(rows, cls.with_columns(data, columns))
        _refuse_columns(given, columns)
        return rows

    def read_own(self, given: object, columns: Mapping[str, object]) -> Any:
        """Returns examples, read by the settings of this object."""
        return self.read_given(given, self.data, columns) if self.input_columns else given

    def read_asked(self, given: object, columns: Mapping[str, object]) -> Any:
        """Returns inputs; those of a table are read from its columns."""
        rows = rows_of(given) if self.input_columns else given
        if not isinstance(rows, Rows):
            _refuse_columns(given, columns)
            return rows
        return self.read_inputs(rows, self.columns_of(self.data, columns))

    def held_out(self, examples: Any, share: float) -> tuple[Any, Any]:
        """Splits examples, given the share of the second side."""
        kind = type(self)
        if vars(Tabular)["split"] is inspect.getattr_static(kind, "split"):
            raise ValueError(
                f"`validation_split` is not available: {kind.__name__} does not split examples. "
                f"Received: {share!r}. Give development examples (`validation_data`)."
            )
        if not isinstance(examples, Records):
            examples = self.checked(read_twice(examples, self.examples_are))
        number = {"dev_share": share, "dev_size": max(1, round(share * len(examples)))}
        sides = self.split(examples, self.with_columns(self.data, number))
        if not all(map(len, sides)):
            raise ValueError(
                f"Expected two different {self.examples_are} or more, to split them. Received: one "
                "group. Give development examples (`validation_data`)."
            )
        return sides

    @classmethod
    def columns_of(cls, data: Settings, columns: Mapping[str, object]) -> dict[str, Column]:
        """Returns the columns of inputs by the names of their settings."""
        named = {
            name: str(columns.get(name) or getattr(data, name, "") or usual)
            for name, usual in cls.input_columns.items()
        }
        return {name: column for name, column in named.items() if column}

    @staticmethod
    def read_inputs(place: Location, columns: Mapping[str, Column]) -> list[object]:
        """Reads the inputs of a table: the values of a column, or tuples of those of several."""
        reading = InputReading(place)
        found: list[object] = []
        for _, row in read_columns(place, dict(columns), reading):
            values = tuple(row.values())
            found.append(values if len(values) > 1 else values[0])
        reading.refuse_bad(len(found))
        return found

    # What predictions add to a table

    def predicted_columns(self, given: object) -> Mapping[str, object]:
        """Returns the columns that predictions add to a table, with the types of their values.

        Args:
            given: The first input of the table.
        """
        return self.predicts

    def cells(self, result: Any) -> dict[str, object]:
        """Returns the values of these columns for a result of `predict`; all None if it is None."""
        if result is None:
            return dict.fromkeys(self.predicts)
        if len(self.predicts) == 1:
            return dict.fromkeys(self.predicts, result)
        found = result if isinstance(result, dict) else result._asdict()
        return {name: found[name] for name in self.predicts}

    @staticmethod
    def inputs_in(inputs: list[Any], folder: Path) -> list[Any]:
        """Returns the inputs of a table in a folder, where the paths in it begin."""
        return inputs


def _refuse_columns(given: object, columns: Mapping[str, object]) -> None:
    if named := [name for name, column in columns.items() if column not in ("", None)]:
        name = named[0]
        raise TypeError(
            f"`{name}` is of tables, such as a DataFrame with this column. Received: {name}="
            f"{columns[name]!r} with a {type(given).__name__}. Leave it out, or give a table."
        )
