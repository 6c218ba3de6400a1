"""How a text classifier reads texts and labels: what it learned, and rows of ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attn.batches import TextBatches
from keras_attn.fields import EncoderInput
from keras_attn.records.labelled_texts import Input
from keras_attn.tasks.base.checks import checked_temperature
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.text_classification.inputs import checked_inputs, checked_truncation
from keras_attn.tasks.text_classification.labels import (
    Labelled,
    checked_class_names,
    checked_examples,
    label_numbers,
)
from keras_attn.tasks.text_classification.settings import TextClassificationData
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer, WordTokenizer, tokenizer_name


@dataclass(frozen=True)
class ClassifierLearned(Learned):
    """What a text classifier learned.

    Example:

    >>> ClassifierLearned(WordTokenizer.train(["a b"]), ("no", "yes")).temperature
    1.0

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If there are fewer than two classes, a name comes twice, or the temperature is
            not above 0.
    """

    tokenizer: BytePairTokenizer | WordPieceTokenizer | WordTokenizer
    class_names: tuple[str, ...]
    """Names of the classes, in the order of the logits."""
    multi_label: bool = False
    """Whether a text may have several labels, or none."""
    pairs: bool = False
    """Whether pairs of texts are classified, as in textual entailment."""
    temperature: float = 1.0
    """What logits are divided by before they become probabilities."""

    def __post_init__(self) -> None:
        super().__post_init__()
        tokenizer_name(self.tokenizer)  # one that can be saved
        object.__setattr__(self, "class_names", checked_class_names(self.class_names))
        object.__setattr__(self, "temperature", checked_temperature(self.temperature))


class TextClassificationReading(Task):
    """What a text classifier reads: a base class of `TextClassifier`."""

    data: TextClassificationData
    learned: ClassifierLearned

    @property
    def tokenizer(self) -> Any:
        """The tokenizer."""
        return self.learned.tokenizer

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the logits."""
        return self.learned.class_names

    @property
    def max_length(self) -> int:
        """Largest number of tokens of a text."""
        return self.data.max_length

    @property
    def truncation(self) -> str:
        """Which part of a long text is kept."""
        return checked_truncation(self.data.truncation, self.pairs)

    @property
    def multi_label(self) -> bool:
        """Whether a text may have several labels, or none."""
        return self.learned.multi_label

    @property
    def pairs(self) -> bool:
        """Whether pairs of texts are classified."""
        return self.learned.pairs

    @property
    def temperature(self) -> float:
        """What logits are divided by before they become probabilities; see `calibrate`."""
        return self.learned.temperature

    @temperature.setter
    def temperature(self, temperature: float) -> None:
        self.relearn(temperature=temperature)

    @property
    def field(self) -> EncoderInput:
        """From texts to rows of ids, without the tokens that batches and graph put around them."""
        between = getattr(self.config, "ends_between", 1)
        return self.kept(
            lambda: EncoderInput(
                self.tokenizer, self.room, start=False, end=False, between=between
            ),
            "field",
        )

    @property
    def start_id(self) -> int | None:
        """The id put before each text, if the model reads special tokens or pools the first."""
        pools_first = getattr(self.config, "pooling", None) == "first"
        reads = pools_first or getattr(self.config, "special_tokens", False)
        return self.tokenizer.start_id if reads else None

    @property
    def end_id(self) -> int | None:
        """The id put after each text, if the model reads special tokens; else None."""
        reads = getattr(self.config, "special_tokens", False)
        return self.tokenizer.end_id if reads else None

    @property
    def room(self) -> int:
        """Largest number of a text's own tokens that is read."""
        return self.max_length - sum(x is not None for x in (self.start_id, self.end_id))

    def encode(self, texts: Sequence[Input]) -> list[list[int]]:
        """Returns the ids of texts, without special tokens at their ends.

        Args:
            texts: Strings; or pairs, which become one row with a separator, shortened so that they
                fit.

        Returns:
            A list of ids for each.
        """
        if not self.pairs:
            return self.tokenizer.encode(texts)
        return self.joined(self.encoded_sides(texts))

    def encoded_sides(self, pairs: Sequence[Any]) -> list[list[list[int]]]:
        """Returns the ids of the first texts of pairs, and those of the second ones.

        Args:
            pairs: Tuples of two strings.
        """
        return [self.tokenizer.encode([pair[side] for pair in pairs]) for side in (0, 1)]

    def joined(self, sides: Sequence[list[list[int]]]) -> list[list[int]]:
        """Returns a row for each pair, shortened so that it fits.

        Args:
            sides: What `encoded_sides` returns.
        """
        return [ids for ids, _ in self.field.rows(*sides)]

    def id_batches(
        self, ids: Any, labels: Any = None, weights: Any = None, **settings: Any
    ) -> TextBatches:
        """Makes batches of tokenised texts, as the model reads them.

        Args:
            ids: The ids of each text.
            labels: Numbers of classes, zeros and ones, or None.
            weights: Weight of each text, or None.
            **settings: Of `TextBatches`.

        Returns:
            `TextBatches`.
        """
        settings = {
            "max_length": self.max_length,
            "truncation": self.truncation,
            "start_id": self.start_id,
            "end_id": self.end_id,
            "pad_id": self.tokenizer.pad_id,
            **settings,
        }
        return TextBatches(ids, labels, weights, **settings)

    def _split(self, examples: Iterable[Labelled]) -> tuple[list[Input], np.ndarray]:
        texts, labels = checked_examples(examples)
        texts = checked_inputs(texts, self.pairs)
        return texts, label_numbers(labels, self.class_names, self.multi_label)
