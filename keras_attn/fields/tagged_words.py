"""Labels of words and their entities as outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from keras_attn.arrays import LabelTables, label_tables
from keras_attn.fields.ragged_outputs import NameRows, NumberRows, PartRows, PlaceRows, StringRows
from keras_attn.fields.signature import OutputField


class EntityPlace(NamedTuple):
    """An entity and its position.

    Attributes:
        kind: Type of the entity, such as `"PER"`.
        text: The entity as written in the text, or its words joined by spaces if the input was a
            list of words.
        start: Index of the entity's first character in the text; None for a list of words.
        end: Index after the entity's last character; None for a list of words.
        first: Index of the entity's first word.
        behind: Index after the entity's last word.

    Example:

    >>> EntityPlace("PER", "Ada", 0, 3, 0, 1).text
    'Ada'
    """

    kind: str
    text: str
    start: int | None
    end: int | None
    first: int
    behind: int


class TaggedWords(NamedTuple):
    """The predictions of a tagger for a text or a list of words.

    Attributes:
        text: The text; None if the input was a list of words.
        words: The words.
        labels: The predicted label of each word.
        probabilities: The probability of each predicted label.
        entities: The entities that the labels mark.

    Example:

    >>> TaggedWords("Hi", ["Hi"], ["O"], [0.75], []).labels
    ['O']
    """

    text: str | None
    words: list[str]
    labels: list[str]
    probabilities: list[float]
    entities: list[EntityPlace]

    def number_of(self, word: int | str | None) -> int | None:
        """Returns the index of a word.

        Args:
            word: The index of the word, or the word itself, whose first occurrence is used. None
                stands for the first word of the first entity or, if there is no entity, for the
                first word.

        Returns:
            The index; None if there are no words.

        Raises:
            ValueError: If there are words, but `word` is neither one of them nor the index of one.
        """
        if word is None and self.entities:
            return self.entities[0].first
        if not self.words:
            return None
        if isinstance(word, str) and word in self.words:
            return self.words.index(word)
        number = 0 if word is None else word
        if not isinstance(number, str) and 0 <= number < len(self.words):
            return int(number)
        raise ValueError(
            f"`word` must be a word of {(self.text or '')[:80]!r}, or its index, 0 to "
            f"{len(self.words) - 1}. Received: {word!r}."
        )


class LabelledWords:
    """Output fields for the labels of words and the entities that the labels mark.

    Args:
        labels: The names of the labels, in the order of the logits.
        scheme: The scheme of the labels, one of `keras_attn.arrays.SCHEMES`; `""` if the labels
            mark no entities.

    Example:

    >>> LabelledWords(["O", "B-X", "I-X"], "BIO").tables.kinds
    ['X']
    """

    def __init__(self, labels: Sequence[str], scheme: str):
        self.labels, self.scheme = labels, scheme

    @cached_property
    def tables(self) -> LabelTables:
        """A `LabelTables`: the types of entities, and arrays with the entity type of each label and
        its position in an entity."""
        return label_tables(self.labels, self.scheme)

    def outputs(self, of_texts: bool) -> dict[str, OutputField]:
        """Returns the output fields of a SavedModel, keyed by name.

        Args:
            of_texts: Whether the inputs are texts, so that words and entities have positions;
                otherwise, the inputs are lists of words.

        Returns:
            A dict with `labels`, `probabilities`, `kinds`, `first` and `behind`. If the inputs are
            texts, it also has `words`, `entities`, their positions in bytes (`word_starts`,
            `word_ends`, `entity_starts` and `entity_ends`), and the positions of the entities in
            characters (`entity_start_characters` and `entity_end_characters`).
        """
        found: dict[str, OutputField] = {
            "labels": NameRows(self.labels, "labels", "words"),
            "probabilities": NumberRows("probabilities", "words"),
            "kinds": NameRows(["", *self.tables.kinds], "kinds", "entities"),
            "first": NumberRows("first", "entities"),
            "behind": NumberRows("behind", "entities"),
        }
        if not of_texts:
            return found
        places = {
            name: PlaceRows(name, rows)
            for rows, names in (
                ("words", ("word_starts", "word_ends")),
                ("entities", ("entity_starts", "entity_ends")),
            )
            for name in names
        }
        return {
            **found,
            **places,
            "words": StringRows("word", "words"),
            "entities": PartRows("entity_starts", "entity_ends", "entities"),
            "entity_start_characters": PlaceRows("entity_starts", "entities", characters=True),
            "entity_end_characters": PlaceRows("entity_ends", "entities", characters=True),
        }

    def read(self, tensors: Mapping[str, Any]) -> list[TaggedWords]:
        """Converts the arrays of a batch to a `TaggedWords` for each input.

        Args:
            tensors: The result of `TextWords.encode` with additional arrays: `labels` and
                `probabilities`, the index and the probability of the label of each word; the result
                of `keras_attn.arrays.entities`; and `entity_starts` and `entity_ends`, the
                character positions of the entities in the texts.
        """
        columns = (tensors[name].tolist() for name in ("labels", "probabilities"))
        words = zip(tensors["word"], *columns, strict=True)
        names = "kinds", "entity_starts", "entity_ends", "first", "behind"
        entities = zip(*(tensors[name].tolist() for name in names), strict=True)
        counts = (tensors[name].tolist() for name in ("words", "entities"))
        return [
            self._tagged(text, [*islice(words, of_words)], [*islice(entities, of_entities)])
            for text, of_words, of_entities in zip(tensors["text"], *counts, strict=True)
        ]

    def _tagged(
        self, text: object, words: list[tuple[str, int, float]], entities: list[tuple[int, ...]]
    ) -> TaggedWords:
        own = [word for word, *_ in words]
        if isinstance(text, str):
            places = [
                EntityPlace(self.tables.kinds[kind - 1], text[start:end], start, end, *numbers)
                for kind, start, end, *numbers in entities
            ]
        else:
            text = None
            places = [
                EntityPlace(self.tables.kinds[kind - 1], " ".join(own[a:b]), None, None, a, b)
                for kind, _, _, a, b in entities
            ]
        labels = [self.labels[label] for _, label, _ in words]
        return TaggedWords(text, own, labels, [p for *_, p in words], places)
