"""Labels of words, and the entities that they mark."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from types import ModuleType
from typing import Any, NamedTuple

from keras import ops

from keras_attn.arrays import Array, ArrayModule, LabelTables, entities, label_tables
from keras_attn.explain import EncoderStudy, Explanation, study_texts
from keras_attn.explain.explained_page import explained_page
from keras_attn.explain.methods import METHODS
from keras_attn.export import limited
from keras_attn.fields import (
    ODD_TEXTS,
    NameRows,
    NumberRows,
    PartRows,
    PlaceRows,
    Signature,
    StringRows,
    TextWords,
    WordLists,
    WordRows,
    checked_texts,
)
from keras_attn.fields.signature import OutputField
from keras_attn.fields.word_rows import int32_of
from keras_attn.inputs import listed
from keras_attn.metrics import is_bio
from keras_attn.tasks.families.encoder_task import EncoderLearned
from keras_attn.tasks.families.windowed import WindowedTask
from keras_attn.tasks.tagging.explaining import explain_labels
from keras_attn.tasks.tagging.settings import TaggingData, TaggingUse
from keras_attn.text import split_words


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


@dataclass(frozen=True)
class TaggingLearned(EncoderLearned):
    """What a tagger learned: its tokenizer and its labels.

    Example:

    >>> TaggingLearned(WordTokenizer.train(["a b"]), ("O", "B-PER")).labels
    ('O', 'B-PER')

    Raises:
        ValueError: If there are fewer than two labels, or one comes twice.
    """

    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.labels) < 2 or len(set(self.labels)) < len(self.labels):
            raise ValueError(
                f"Expected two labels or more, each once. Received: {list(self.labels)[:20]}."
            )


class TaggingPredictions(WindowedTask):
    """The predictions of a tagger: a base class of `Tagger`."""

    data: TaggingData
    learned: TaggingLearned

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of the logits."""
        return self.learned.labels

    @property
    def bio(self) -> bool:
        """Whether the labels mark entities."""
        return is_bio(self.labels)

    @property
    def words(self) -> WordRows:
        """From words to the rows that the model reads."""
        return WordRows(self.tokenizer, self.max_length)

    @property
    def tables(self) -> LabelTables:
        """What each label marks."""
        return label_tables(self.labels, self.bio)

    def signatures(self, use: TaggingUse) -> dict[str, Signature]:
        """Returns what the SavedModel takes and gives, by the names of its signatures.

        `serving_default` takes `text: string (B,)`, `words` takes `words: string (B, W)`, padded
        with `""`. Both give, equal to what this object gives,

            labels         string (B, W)    of the words, `""` in padding
            probabilities  float32 (B, W)   of these labels
            kinds          string (B, E)    of the entities, `""` in padding
            first, behind  int32 (B, E)     the first word of an entity, and the one behind it

        and for texts also

            words          string (B, W)    as the text was cut, see `keras_attn.text.split_words`
            word_starts, word_ends          int32 (B, W)    their places in bytes
            entities       string (B, E)    as they stand in the text
            entity_starts, entity_ends      int32 (B, E)    their places in bytes
            entity_start_characters, entity_end_characters  int32 (B, E)

        Bytes that are not UTF-8 are read as U+FFFD, and places are those in the text so made. Rows
        times words of the longest text are at most `max_words`.

        Args:
            use: Settings `Use`.
        """
        outputs: dict[str, OutputField] = {
            "labels": NameRows(self.labels, "labels", "words"),
            "probabilities": NumberRows("probabilities", "words"),
            "kinds": NameRows(["", *self.tables.kinds], "kinds", "entities"),
            "first": NumberRows("first", "entities"),
            "behind": NumberRows("behind", "entities"),
        }
        of_texts: dict[str, OutputField] = {
            "words": StringRows("word", "words"),
            "word_starts": PlaceRows("word_starts", "words"),
            "word_ends": PlaceRows("word_ends", "words"),
            "entities": PartRows("entity_starts", "entity_ends", "entities"),
            "entity_starts": PlaceRows("entity_starts", "entities"),
            "entity_ends": PlaceRows("entity_ends", "entities"),
            "entity_start_characters": PlaceRows("entity_starts", "entities", characters=True),
            "entity_end_characters": PlaceRows("entity_ends", "entities", characters=True),
        }

        def limit(tf: ModuleType, number: Array) -> Array:
            return limited(
                tf, number, use.max_words, "max_words",
                f"at most {use.max_words:,} words in all texts, each as long as the longest",
                "Send long texts in requests of their own", least=0,
            )  # fmt: skip

        words = self.words
        return {
            "serving_default": Signature(("text",), TextWords(words, limit), outputs | of_texts),
            "words": Signature(("words",), WordLists(words), outputs),
        }

    def rows(self, xp: ArrayModule, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Makes the rows that the model reads, see `WordRows.rows`."""
        return self.words.rows(xp, tensors)

    def scores(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Computes the probability of each label for each piece, on every backend."""
        return {"tokens": ops.softmax(self.logits(inputs)["tags"], axis=-1)}

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Array], use: TaggingUse
    ) -> dict[str, Array]:
        """Reads off the labels of words, and finds the entities that they mark."""
        starts = xp.take(tensors["token_starts"], tensors["row"], axis=0)
        table = xp.take(tensors["tokens"], starts + tensors["column"], axis=0)  # (W, C)
        best = xp.array(xp.argmax(table, axis=-1), dtype="int32")
        found = entities(xp, best, tensors["words"], self.tables)
        labels = xp.expand_dims(found["labels"], 1)
        found["probabilities"] = xp.take_along_axis(table, labels, axis=1)[:, 0]
        if "word_starts" in tensors:
            for name, word in (("starts", "first_word"), ("ends", "last_word")):
                places = xp.take(tensors[f"word_{name}"], found[word], axis=0)
                found[f"entity_{name}"] = places
        return found

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
        cut = [_cut(text, i, split) for i, text in enumerate(given)]
        if not cut:
            return []
        words = [[word for word, _ in row] for row in cut]
        starts = [start for row in cut for _, start in row]
        tensors = self.words.encode(words)
        sizes = int32_of([len(word) for row in words for word in row])
        tensors |= {"word_starts": int32_of(starts), "word_ends": int32_of(starts) + sizes}
        found = self.computed(tensors, TaggingUse(batch_size=index(batch_size)))
        labels, p = iter(found["labels"].tolist()), iter(found["probabilities"].tolist())
        names = "kinds", "entity_starts", "entity_ends", "first", "behind"
        every = zip(*(found[name].tolist() for name in names), strict=True)
        kinds = self.tables.kinds
        results = []
        for text, row, count in zip(given, words, found["entities"].tolist(), strict=True):
            places = [
                _place(text, row, kinds[kind - 1], *places)
                for kind, *places in itertools.islice(every, count)
            ]
            results.append(
                TaggedWords(
                    text if isinstance(text, str) else None,
                    row,
                    [self.labels[next(labels)] for _ in row],
                    [next(p) for _ in row],
                    places,
                )
            )
        return results[0] if one else results

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
        texts = checked_texts([texts] if isinstance(texts, str) else texts)
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


def _place(
    text: Any, words: list[str], kind: str, start: int, end: int, first: int, behind: int
) -> EntityPlace:
    """An entity of a text, or of a list of words."""
    if isinstance(text, str):
        return EntityPlace(kind, text[start:end], start, end, first, behind)
    return EntityPlace(kind, " ".join(words[first:behind]), None, None, first, behind)


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
