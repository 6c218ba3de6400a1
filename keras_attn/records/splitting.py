"""Building blocks of leak-free splits: linked items and draws of whole groups."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import Field
from typing import ClassVar, TypeVar

from keras_attn.records.reading import is_integer

T = TypeVar("T")


class Sides:
    """Base class of dataclasses with the sets of a split and counts."""

    __dataclass_fields__: ClassVar[dict[str, Field]]

    def summary(self) -> dict[str, int]:
        """Returns a dict of the sizes of the sets and of all counts, keyed by field."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {k: v if isinstance(v, int) else len(v) for k, v in values.items()}


class Links:
    """Union-find (disjoint sets) over `count` items."""

    def __init__(self, count: int):
        self._parents = list(range(count))

    def root(self, node: int) -> int:
        """Returns the first of all items that are linked with an item (directly or indirectly)."""
        parents = self._parents
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    def add(self, one: int, other: int) -> None:
        """Links two items."""
        one, other = self.root(one), self.root(other)
        self._parents[max(one, other)] = min(one, other)


def together(things: Sequence[T], keys: Callable[[T], Iterable[Hashable]]) -> list[list[T]]:
    """Groups items that share a key (directly or indirectly), in the order of their first items."""
    links = Links(len(things))
    first: dict[Hashable, int] = {}
    for index, thing in enumerate(things):
        for key in keys(thing):
            links.add(first.setdefault(key, index), index)
    members: dict[int, list[T]] = defaultdict(list)
    for index, thing in enumerate(things):
        members[links.root(index)].append(thing)
    return list(members.values())


def draw(
    groups: Sequence[list[T]], size: int, limit: int, keep_one: bool = False
) -> tuple[list[list[T]], list[list[T]], int]:
    """Takes whole groups, in their order, until they contain `size` items.

    Groups larger than `limit` are not taken; with `keep_one`, at least one group is left. Returns
    the taken groups, the remaining groups, and the number of missing items.
    """
    drawn: list[list[T]] = []
    rest: list[list[T]] = []
    for index, group in enumerate(groups):
        only = keep_one and not rest and index == len(groups) - 1
        if len(group) <= min(limit, size) and not only:
            drawn.append(group)
            size -= len(group)
        else:
            rest.append(group)
    return drawn, rest, size


def check_share(share: float) -> None:
    """Raises a ValueError for a fraction that is not between 0 and 1."""
    if not 0 < share < 1:
        raise ValueError(f"Expected `share` to be above 0 and below 1. Received: {share!r}.")


def split_by_hash(
    things: Sequence[T], names: Sequence[str], share: float | int, seed: int
) -> tuple[list[T], list[T]]:
    """Splits items in two: the names with the lowest SHA-256 of seed and name form the second set.

    If `share` is a fraction of the distinct names, it is met approximately, and if there are at
    least two names, each set gets at least one. If `share` is an integer, it is a number of names.
    """
    check_size("seed", seed)
    hashes = {
        name: hashlib.sha256(f"{seed}\n{name}".encode("utf-8", "replace")).digest()
        for name in names
    }
    count = share
    if not isinstance(share, int):
        below = sum(int.from_bytes(h[:6], "big") < share * 2**48 for h in hashes.values())
        count = min(max(below, 1), len(hashes) - 1)
    second = set(sorted(hashes, key=hashes.__getitem__)[: int(count)])
    sides: tuple[list[T], list[T]] = ([], [])
    for thing, name in zip(things, names, strict=True):
        sides[name in second].append(thing)
    return sides


def check_size(name: str, size: object) -> None:
    """Raises an error for an invalid size of a set."""
    if not is_integer(size, 0):
        raise ValueError(f"Expected `{name}` to be an integer >= 0. Received: {size!r}.")


def as_count(name: str, size: object, of: int) -> int:
    """Returns the size of a set as a number of items; a fraction gives at least 1."""
    if isinstance(size, float) and 0 <= size < 1:
        return max(round(size * of), 1) if size else 0
    if not is_integer(size, 0):
        raise ValueError(
            f"Expected `{name}` to be an integer >= 0 or a share below 1. Received: {size!r}"
        )
    return size
