"""Base classes of the results of readers: items and problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field
from typing import ClassVar, Self, TypeVar, overload

from keras_attn.records.problems import PROBLEMS, LineProblem, count_problems, describe_problems

T = TypeVar("T")


class Items(Sequence[T]):
    """Base class of dataclasses that act as a sequence of the items in their first field."""

    __dataclass_fields__: ClassVar[dict[str, Field]]

    @property
    def _items(self) -> list[T]:
        return getattr(self, next(iter(self.__dataclass_fields__)))

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self._items[index]


class Records(Items[T]):
    """Base class of readers' results: items, and the problems of skipped lines."""

    kinds: ClassVar[Mapping[str, str]] = PROBLEMS
    """The kinds of problems and their descriptions."""
    problems: list[LineProblem]
    unit = "line"
    """The unit of reading: lines, or rows of a table."""

    def summary(self) -> str:
        """Returns a summary of the items and problems as text."""
        raise NotImplementedError

    def in_units(self, unit: str) -> Self:
        """Makes messages use `unit`, such as "row", instead of "line"; returns this object."""
        object.__setattr__(self, "unit", unit)
        return self

    def _bad_lines(self) -> dict[str, int]:
        """The number of bad lines, in total and of each kind."""
        bad = len({problem.line for problem in self.problems})
        return {"bad_lines": bad, **count_problems(self.problems, self.kinds)}

    def _left_out(self) -> str:
        """A summary of the lines that were left out; empty if there are none."""
        described = describe_problems(self.problems, kinds=self.kinds, unit=self.unit)
        return f". Left out: {described}" * bool(described)
