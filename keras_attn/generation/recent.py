"""A thread-safe cache of the most recently used objects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from keras_attn.generation.decoders import integer

T = TypeVar("T")


class Recent(Generic[T]):
    """A cache of values that are expensive to create, such as compiled functions.

    A key must contain everything that determines its value. If there are too many values, the least
    recently used value is dropped. The cache is thread-safe: each value is created only once. A
    copy of the cache is empty, because values may refer to parts of the original object.

    Args:
        most: Maximum number of cached values.

    Raises:
        ValueError: If `most` is not an integer of at least 1.

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
        """Makes `copy` and `pickle` create an empty cache."""
        return type(self), (self.most,)

    def __len__(self) -> int:
        """Returns the number of cached values."""
        return len(self._made)

    def __iter__(self) -> Iterator[tuple[Hashable, T]]:
        """Returns an iterator over the keys and their values, the oldest first."""
        with self._lock:
            return iter(list(self._made.items()))

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the cached value for a key, or creates it with `make`.

        Args:
            key: Any hashable value.
            make: Function without arguments that creates the value; called if the key is not in the
                cache.

        Returns:
            The cached or new result of `make`.
        """
        with self._lock:
            # The last key of the dict is the one that was asked for last.
            found = self._made.pop(key) if key in self._made else make()
            self._made[key] = found
            for oldest in list(self._made)[: -self.most]:
                del self._made[oldest]
            return found

    def clear(self) -> None:
        """Clears the cache."""
        with self._lock:
            self._made.clear()
