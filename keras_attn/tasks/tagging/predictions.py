"""Labels of words, and the entities that they mark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attn.explain import EncoderStudy, Explanation, study_texts
from keras_attn.explain.explained_page import explained_page
from keras_attn.explain.methods import METHODS
from keras_attn.fields import ODD_TEXTS
from keras_attn.fields.text import checked_texts
from keras_attn.inputs import listed
from keras_attn.metrics import entities_of, repair_bio
from keras_attn.tasks.tagging.explaining import explain_labels
from keras_attn.tasks.tagging.settings import TaggingUse
from keras_attn.text import byte_places, split_words

Tensor = Any


class EntityPlace(NamedTuple):
    """An entity and where it stands.

    Example:

    >>> EntityPlace("PER", "Ada", 0, 3, 0, 1).text
    'Ada'
    """

    kind: str
    """Its type."""
    text: str
    """As it stands in the text; words with a space between them, if words were given."""
    start: int | None
    """Place of its first character in the text; None if words were given."""
    end: int | None
    """Place behind its last character."""
    first: int
    """Number of its first word."""
    behind: int
    """Number behind its last word."""


class TaggedWords(NamedTuple):
    """What a tagger says of a text.

    Example:

    >>> TaggedWords("Hi", ["Hi"], ["O"], [0.75], []).labels
    ['O']
    """

    text: str | None
    """The text; None if words were given."""
    words: list[str]
    """Its words."""
    labels: list[str]
    """The label of each word."""
    probabilities: list[float]
    """Probability of each of these labels."""
    entities: list[EntityPlace]
    """The entities, if the labels mark any."""


class TaggingPredictions:
    """The predictions of a tagger: a base class of `Tagger`."""

    labels: tuple[str, ...]
    bio: bool
    rows: Callable
    compute: Callable
    logits: Callable
    model: Any
    field: Any

    def predict(self, texts: Any, batch_size: int = TaggingUse.batch_size, split: bool = True):
        """Labels words.

        Args:
            texts: A string, which `keras_attn.text.split_words` cuts into words; or a list whose
                items are strings or lists of words.
            batch_size: Rows computed at a time.
            split: Whether strings are cut by that rule; else at white space alone.

        Returns:
            A `TaggedWords` for a string, a list of them for a list.

        Raises:
            TypeError: If an input is neither a string nor a list of strings.
        """
        one = isinstance(texts, str)
        given = [texts] if one else listed(texts, "texts")
        words, starts = [], []
        for i, text in enumerate(given):
            cut = _cut(text, i, split)
            words.append([word for word, _ in cut])
            starts.append([start for _, start in cut])
        rows, places = self.rows(words)
        found = self.compute(rows, batch_size, self.probabilities)
        results = []
        for text, of_text, begins, at in zip(given, words, starts, places, strict=True):
            table = np.array([found[row]["tags"][column] for row, column in at])
            results.append(self._tagged(text, of_text, begins, table))
        return results[0] if one else results

    def probabilities(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes the probability of each label for each piece, on every backend.

        Args:
            inputs: What `encoded` returns.
        """
        return {"tags": ops.softmax(self.logits(inputs)["tags"], axis=-1)}

    def _tagged(
        self, text: Any, words: list[str], starts: list[int], table: np.ndarray
    ) -> TaggedWords:
        best = table.argmax(axis=-1) if len(words) else np.zeros(0, "int32")
        labels = [self.labels[i] for i in best]
        number = {label: i for i, label in enumerate(self.labels)}
        entities = []
        if self.bio:
            whole, _ = repair_bio(labels)
            # Some models have no "B-PER" beside "I-PER".
            labels = [b if b in number else a for a, b in zip(labels, whole, strict=True)]
            for kind, first, behind in entities_of(whole):
                if isinstance(text, str):
                    start, end = starts[first], starts[behind - 1] + len(words[behind - 1])
                    shown = text[start:end]
                else:
                    start, end, shown = None, None, " ".join(words[first:behind])
                entities.append(EntityPlace(kind, shown, start, end, first, behind))
        chosen = [float(table[i, number[label]]) for i, label in enumerate(labels)]
        return TaggedWords(text if isinstance(text, str) else None, words, labels, chosen, entities)

    def explain(
        self,
        texts: str | Iterable[str],
        word: int | str | None = None,
        method: str = TaggingUse.method,
    ) -> EncoderStudy | Explanation | list[Explanation]:
        """Shows what each head of the encoder looks at, or which words speak for the label of one.

        Args:
            texts: A string, or a list of them.
            word: The word whose label is explained by `"gradient"`: its number from 0, or the word,
                which stands for its first place. If None, the first word of the first entity, or of
                the text if there is none.
            method: `"attention"` for what the heads look at; `"gradient"` for gradient times input
                of the log-odds of the label.

        Returns:
            For `"attention"` an `EncoderStudy`, whose `html()` is a page. For `"gradient"` an
            `Explanation` of a string, or a list of them. In a text that is longer than
            `max_length`, words of other rows have no weight.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If the method is unknown, or a text does not have the word.
        """
        one = isinstance(texts, str)
        texts = checked_texts([texts] if one else texts)
        if method not in METHODS:
            raise ValueError(f"`method` must be one of {list(METHODS)}. Received: {method!r}.")
        if method == "attention":
            if word is not None:
                raise ValueError(
                    f"`word` belongs to method='gradient'. Received: {word=} with {method=}."
                )
            return study_texts(self.model, self.field, texts)
        found = explain_labels(self, texts, word)
        return found[0] if one else found

    page = staticmethod(explained_page)

    @staticmethod
    def readable(result: TaggedWords) -> str:
        """Returns a result as the command writes it: a JSON object."""
        rounded = [round(p, 6) for p in result.probabilities]
        entities = [entity._asdict() for entity in result.entities]
        found = {"words": result.words, "labels": result.labels, "probabilities": rounded}
        return json.dumps({**found, "entities": entities}, ensure_ascii=False)

    def checked_use(self, use: TaggingUse) -> TaggingUse:
        """Returns the settings of an export, which has a signature of its own for given words."""
        if not use.split:
            raise ValueError(
                "A SavedModel cuts texts into words. Received: split=False. Leave it out, and call "
                "the signature `words` with words."
            )
        return use

    def export_examples(self) -> dict[str, Any]:
        """Returns odd texts beside ordinary ones."""
        texts = [*ODD_TEXTS, "U.S. shares (3.5%) fell", "x\x01y \x01 z", "ab" * 300]
        words = [[word.text for word in split_words(text)] for text in texts]
        most = max(map(len, words))
        return {"text": texts, "words": [[*row, *[""] * (most - len(row))] for row in words]}

    def expected(self, examples: Mapping[str, Any], use: Any) -> dict[str, dict[str, Any]]:
        """Returns what this object gives, as the SavedModel is to give it."""
        texts = examples["text"]
        of_texts = self.predict(texts)
        of_words = self.predict([[word for word in row if word] for row in examples["words"]])
        found = {"serving_default": _columns(of_texts), "words": _columns(of_words)}
        starts, ends, begin, behind = [], [], [], []
        for text, tagged in zip(texts, of_texts, strict=True):
            places = split_words(text)
            starts.append(byte_places(text, [word.start for word in places]))
            ends.append(byte_places(text, [word.end for word in places]))
            begin.append(byte_places(text, [entity.start for entity in tagged.entities]))
            behind.append(byte_places(text, [entity.end for entity in tagged.entities]))
        entities = [tagged.entities for tagged in of_texts]
        found["serving_default"] |= {
            "words": _padded([tagged.words for tagged in of_texts], ""),
            "word_starts": _padded(starts, 0),
            "word_ends": _padded(ends, 0),
            "entities": _padded([[e.text for e in row] for row in entities], ""),
            "entity_starts": _padded(begin, 0),
            "entity_ends": _padded(behind, 0),
            "entity_start_characters": _padded([[e.start for e in row] for row in entities], 0),
            "entity_end_characters": _padded([[e.end for e in row] for row in entities], 0),
        }
        return found


def _columns(found: Sequence[TaggedWords]) -> dict[str, Any]:
    entities = [tagged.entities for tagged in found]
    return {
        "labels": _padded([tagged.labels for tagged in found], ""),
        "probabilities": _padded([tagged.probabilities for tagged in found], 0.0, "float32"),
        "kinds": _padded([[e.kind for e in row] for row in entities], ""),
        "first": _padded([[e.first for e in row] for row in entities], 0),
        "behind": _padded([[e.behind for e in row] for row in entities], 0),
    }


def _padded(rows: Sequence[Sequence[Any]], blank: Any, dtype: str = "int32") -> Any:
    most = max(map(len, rows), default=0)
    table = [[*row, *[blank] * (most - len(row))] for row in rows]
    return table if isinstance(blank, str) else np.array(table, dtype).reshape(len(rows), most)


def _cut(text: Any, number: int, split: bool) -> list[tuple[str, int]]:
    """The words of an input, and where they begin if it is a string."""
    if isinstance(text, str):
        if split:
            return [(word.text, word.start) for word in split_words(text)]
        found, at = [], 0
        for word in text.split():
            at = text.index(word, at)
            found.append((word, at))
            at += len(word)
        return found
    is_row = isinstance(text, Sequence) and not isinstance(text, bytes)
    if is_row and all(isinstance(word, str) for word in text):
        return [(word, 0) for word in text]
    raise TypeError(
        f"Expected a string or a list of words. Received: {text!r:.100} at position {number}."
    )
