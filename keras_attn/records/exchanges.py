"""Turns and the answers to them, checked, and with those of the training beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from keras_attn.inputs import listed
from keras_attn.records.dialogues import Exchange


class TestExchanges(list):
    """Exchanges to measure on, with those of the training, from which baselines are drawn.

    Example:

    >>> TestExchanges([Exchange(("Hi.",), "Hello!")], [], "a.jsonl: 1 dialogue").summary()
    'a.jsonl: 1 dialogue; 1 answers to measure on, 0 to learn from'
    """

    __test__ = False  # no test, whatever its name

    def __init__(self, exchanges: Iterable[Exchange], train: Sequence[Exchange], where: str):
        super().__init__(exchanges)
        self.train = train
        self.where = where

    def summary(self) -> str:
        """Returns what was read."""
        return (
            f"{self.where.removesuffix('.')}; {len(self):,} answers to measure on, "
            f"{len(self.train):,} to learn from"
        )


def checked_exchanges(exchanges: Iterable[Any]) -> list[Exchange]:
    """Checks exchanges.

    Args:
        exchanges: `Exchange`s, or tuples of turns (a string, or several of them) and an answer.

    Returns:
        A list of `Exchange`s.

    Raises:
        ValueError: If there are none, or one is of another kind.

    Example:

    >>> checked_exchanges([("Hi.", "Hello!")])
    [Exchange(turns=('Hi.',), answer='Hello!')]
    """
    found = []
    given = listed(exchanges, "exchanges of turns and an answer", 2)
    for i, example in enumerate(given):
        parts = list(example) if isinstance(example, tuple | list) else []
        turns = parts[0] if parts else None
        turns = [turns] if isinstance(turns, str) else turns
        if (
            len(parts) != 2
            or not isinstance(turns, tuple | list)
            or not all(isinstance(text, str) for text in (*turns, parts[1]))
        ):
            raise ValueError(
                "Expected exchanges: turns (strings) and an answer. Received: "
                f"{example!r:.100} at position {i}."
            )
        found.append(Exchange(tuple(turns), parts[1]))
    if not found:
        raise ValueError("Expected at least one exchange of turns and an answer. Received: none.")
    return found
