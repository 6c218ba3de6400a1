"""A cache of the objects that were used last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from keras_attn.generation.decoders import integer

T = TypeVar("T")


class Recent(Generic[T]):
    """Keeps a few things that are expensive to make, such as compiled functions, by their keys.

    A key must contain all that decides what is made. If there are too many things, the least
    recently used one is forgotten. Several threads may ask at once: a thing is made once. A copy
    begins empty, because what was made may hold on to parts of the original.

    Args:
        most: Largest number of things that are kept.

    Example:

    >>> made = Recent(most=2)
    >>> [made.get(key, lambda: print("makes", key) or key) for key in ("a", "b", "a", "c", "b")]
    makes a
    makes b
    makes c
    makes b
    ['a', 'b', 'a', 'c', 'b']
    """

    def __init__(self, most: int = 8):
        self.most = integer("most", most, 1)
        self._made: dict[Hashable, T] = {}
        self._lock = threading.RLock()  # `make` may ask for another key

    def __reduce__(self) -> tuple:
        """Returns how `copy` and `pickle` make an empty one."""
        return type(self), (self.most,)

    def __len__(self) -> int:
        """Returns the number of things that are kept."""
        return len(self._made)

    def __iter__(self) -> Iterator[tuple[Hashable, T]]:
        """Returns an iterator over the keys and what was made for them, the oldest first."""
        with self._lock:
            return iter(list(self._made.items()))

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns what was made for a key, or makes it.

        Args:
            key: Any hashable value.
            make: Function without arguments.

        Returns:
            What `make` returned, now or before.
        """
        with self._lock:
            # The last key of the dict is the one that was asked for last.
            found = self._made.pop(key) if key in self._made else make()
            self._made[key] = found
            for oldest in list(self._made)[: -self.most]:
                del self._made[oldest]
            return found

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._made.clear()
