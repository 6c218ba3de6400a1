"""Checks of each sentence pair."""

from __future__ import annotations

from typing import Any, TypedDict

from keras_attn.records.parallel import ParallelText, TranslationPair, unique_pairs
from keras_attn.records.reading import LineReading, Location, is_blank, is_integer
from keras_attn.white_space import normalize_white_space


class Checks(TypedDict, total=False):
    """Settings of all readers of sentence pairs, which `read_pairs` describes."""

    on_error: str
    max_characters: int | None
    normalize_spaces: bool
    unique: bool


class PairReading(LineReading):
    """Collects the sentence pairs of a file, and the problems of its lines."""

    def __init__(
        self,
        where: Location,
        on_error: str = "error",
        max_characters: int | None = None,
        normalize_spaces: bool = True,
        unique: bool = False,
    ):
        super().__init__(where, on_error)
        if max_characters is not None and not is_integer(max_characters, 1):
            raise ValueError(
                f"Expected `max_characters` to be an integer >= 1 or None. "
                f"Received: {max_characters!r}"
            )
        self.max_characters = max_characters
        self.normalize_spaces = normalize_spaces
        self.unique = unique
        self.pairs: list[TranslationPair] = []

    def value(self, number: int, record: dict[str, Any], key: str) -> str | None:
        """Returns the string under a key of a JSON object; if it is bad, records a problem and
        returns None."""
        values = _look_up(record, key)
        if not values:
            self.no_key(number, record, key)
        return self.string(number, values[0], key) if values else None

    def add(self, number: int, source: str | None, target: str | None) -> None:
        """Adds the two sentences of a line; a sentence is None if its problem is recorded."""
        sides = [self._side(number, *s) for s in (("source", source), ("target", target))]
        if sides[0] is not None and sides[1] is not None:
            self.pairs.append(TranslationPair(sides[0], sides[1]))

    def _side(self, number: int, name: str, text: str | None) -> str | None:
        if text is not None and self.normalize_spaces:
            text = normalize_white_space(text)
        if text is not None and is_blank(text):
            self.problem(number, "empty", f"the {name} is empty")
        elif text is None or self.max_characters is None or len(text) <= self.max_characters:
            return text
        else:
            what = f"the {name} has {len(text)} characters, more than {self.max_characters}"
            self.problem(number, "long", what)
        return None

    def finish(self) -> ParallelText:
        """Returns the `ParallelText`; raises an error if problems are errors or no pair is left."""
        self.refuse(len(self.pairs), "a sentence and its translation on each line", "pair")
        once = unique_pairs(self.pairs)
        return ParallelText(
            once if self.unique else self.pairs,
            self.where,
            self.lines,
            self.passed_over,
            len(self.pairs) - len(once),
            self.unique,
            self.problems,
        ).in_units(self.unit)


def _look_up(record: dict[str, Any], key: str) -> list[Any]:
    """The value under a key in a list, or an empty list."""
    for holder in (record, record.get("translation")):
        found = holder
        if isinstance(holder, dict) and key in holder:
            return [holder[key]]
        for part in key.split("."):
            if not isinstance(found, dict) or part not in found:
                break
            found = found[part]
        else:
            return [found]
    return []
