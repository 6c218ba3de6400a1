"""Base of what comes of reading a file: its items, in order, as a sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TypeVar, overload

T = TypeVar("T")


class Items(Sequence[T]):
    """A dataclass that is the sequence of the items in its first field."""

    @property
    def _items(self) -> list[T]:
        return getattr(self, fields(self)[0].name)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index):
        return self._items[index]
