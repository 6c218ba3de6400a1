"""Tagging: words in, a label for each word and the entities out."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import keras
import numpy as np

from keras_attn.batches import EncoderBatches
from keras_attn.metrics import TaggingReport, is_bio, repair_bio, score_tags
from keras_attn.records import TaggedText, TaggedTexts, read_tagged, split_tagged
from keras_attn.records.label_columns import check_label_counts
from keras_attn.records.tagged_texts import checked_tagged
from keras_attn.tasks.base.doubts import doubt_of_guesses
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.families.class_weights import ClassWeight, weights_of_classes
from keras_attn.tasks.families.encoder_task import EncoderTask, EncoderTokenizer
from keras_attn.tasks.families.windowed import row_lists
from keras_attn.tasks.tagging.predictions import TaggingLearned, TaggingPredictions
from keras_attn.tasks.tagging.settings import (
    TaggingData,
    TaggingTest,
    TaggingTraining,
    TaggingUse,
)
from keras_attn.training import MaskedCrossEntropy

Tagged = TaggedText | tuple[Sequence[str], Sequence[str]]


class Tagger(TaggingPredictions):
    """A tagger: an encoder with a head that labels each word.

    A word is labelled by the state of its first piece. Byte pairs read each word with a space
    before it, as `transformers` does with `add_prefix_space`. Sentences that are longer than
    `max_length` are cut into rows that overlap (`keras_attn.arrays.windows`), so that no
    word is left out. If the labels mark entities (`B-X`, `I-X` and `O`), each `I-X` that does not
    go on an entity is read as `B-X`, in the training labels as in what the model guesses.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 5.3: BERT on CoNLL-2003.

    Args:
        tokenizer: A `WordPieceTokenizer`, a `BytePairTokenizer` with `normalize=False`, or a
            `WordTokenizer`.
        labels: The labels, in the order of the logits.
        model: Settings of the encoder: a `BertConfig` or `RobertaConfig`, a dict of its settings,
            or None.
        data: Settings `TaggingData`, or a dict of some of them, such as `max_length`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If there are fewer than two labels, one comes twice, or a setting is unknown or
            out of range.

    Example:

    >>> examples = [(["Ada", "codes"], ["B-PER", "O"]), (["Tea", "helps"], ["O", "O"])] * 4
    >>> sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32, "dropout": 0.0}
    >>> data = {"vocabulary_size": 60, "max_length": 16}
    >>> tagger = Tagger.create(examples, data=data, model=sizes)
    >>> run = tagger.fit(examples, epochs=20, batch_size=8, learning_rate=0.02, verbose=0)
    >>> tagger.predict("Ada codes").entities
    [EntityPlace(kind='PER', text='Ada', start=0, end=3, first=0, behind=1)]
    """

    name = "tagging"
    summary = "Label the words of sentences: names of people and places, or parts of speech."
    heads = ("tags",)
    token_labels = ("tags",)
    Data = TaggingData
    Learned = TaggingLearned
    Training = TaggingTraining
    Use = TaggingUse
    Test = TaggingTest
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are = "sentences"
    rows_are = "rows"
    decide_nothing = (*EncoderTask.decide_nothing, "repaired")
    signature_inputs: ClassVar = {"serving_default": ("text",), "words": ("words",)}
    limits = ("max_words",)

    repaired = 0
    """Labels of the training examples that were repaired, see `repair_bio`."""

    @property
    def num_classes(self) -> int:
        """Number of labels."""
        return len(self.labels)

    def facts(self) -> list[str]:
        """What tells this tagger from others, for its `repr`."""
        some = ", ".join(self.labels[:5]) + (", ..." if len(self.labels) > 5 else "")
        return [*super().facts(), f"{len(self.labels)} labels: {some}"]

    # Data and training

    @classmethod
    def read(cls, data: TaggingData) -> Examples:
        """Reads sentences whose words have labels, from CoNLL columns or JSON lines."""
        columns = data.word_column, data.label_column, data.on_error
        train = read_tagged(data.train, *columns)
        counts = Counter(label for text in train for label in text.labels)
        check_label_counts(counts, "words", "label_column")
        if data.dev:
            dev: Any = read_tagged(data.dev, *columns)
            return Examples(train, dev, f"{train.summary()}\n{dev.summary()}")
        sides = split_tagged(train, data.dev_share, data.split_seed)
        if not all(sides):
            raise ValueError(
                "Expected two different sentences or more, to split them. Received: one. Give a "
                "file for development (--dev)."
            )
        return Examples(*sides, f"{train.summary()}; held out: {len(sides[1]):,}")

    def read_test(self, test: TaggingTest, data: TaggingData) -> TaggedTexts:
        """Reads sentences to measure with."""
        return read_tagged(test.data, data.word_column, data.label_column, data.on_error)

    @classmethod
    def checked(cls, examples: Iterable[Tagged]) -> list[TaggedText]:
        """Returns labelled sentences."""
        return checked_tagged(examples)

    @classmethod
    def texts_of(cls, examples: Sequence[TaggedText], data: TaggingData) -> Iterable[str]:
        """Returns the sentences."""
        return (" ".join(text.words) for text in examples)

    @classmethod
    def learn_beside(
        cls, tokenizer: EncoderTokenizer, examples: Sequence[TaggedText], data: TaggingData
    ) -> TaggingLearned:
        """Returns the labels of sentences; of entities, `B-X` and `I-X` of each type."""
        labels = sorted({label for text in examples for label in text.labels}, key=_order)
        if is_bio(labels):  # an entity may be longer in a text to come
            kinds = sorted({label[2:] for label in labels if label != "O"})
            labels = ["O", *(f"{mark}-{kind}" for kind in kinds for mark in "BI")]
        return TaggingLearned(tokenizer, tuple(labels))

    def dataset(
        self, examples: Iterable[Tagged], class_weight: ClassWeight = None, **settings: Any
    ) -> EncoderBatches:
        """Makes batches for `model.fit`.

        Args:
            examples: `TaggedText`s, or pairs of a list of words and a list of labels.
            class_weight: None: every word has the same weight. `"balanced"`: every label has. Or
                the weights of labels by their names; a label that is not named has weight 1.
            **settings: Of `keras_attn.batches.EncoderBatches`: `batch_size`, `seed`, `shuffle`, ...

        Returns:
            `EncoderBatches`.

        Raises:
            ValueError: If a label, or a name of `class_weight`, is not one of this tagger's, or a
                weight is not one.
        """
        texts = checked_tagged(examples)
        numbers = self._numbers(texts)
        rows = self.rows(np, self.words.encode([text.words for text in texts]))
        table = np.full(rows["row_ids"].shape, -1, "int32")
        table[rows["row"], rows["column"]] = [*itertools.chain.from_iterable(numbers)]
        labels = [row[:size] for row, size in zip(table, rows["row_sizes"], strict=True)]
        if class_weight is not None:
            every = np.array([label for of_words in numbers for label in of_words])
            weights = weights_of_classes(every, self.labels, class_weight)
            settings = {"label_weights": {"tags": weights}, **settings}
        return self.row_batches(row_lists(rows), {"tags": labels}, **settings)

    def _numbers(self, texts: Sequence[TaggedText]) -> list[list[int]]:
        """The numbers of the labels, which are repaired before."""
        number = {label: i for i, label in enumerate(self.labels)}
        found, self.repaired = [], 0
        for i, text in enumerate(texts):
            labels: Sequence[str] = text.labels
            if self.bio:
                labels, changed = repair_bio(labels)
                self.repaired += changed
            unknown = [label for label in labels if label not in number]
            if unknown:
                raise ValueError(
                    f"Expected labels of {list(self.labels)}. Received: {unknown[0]!r} in sentence "
                    f"{i}, {' '.join(text.words)[:80]!r}."
                )
            found.append([number[label] for label in labels])
        return found

    def batches(
        self, examples: Sequence[Tagged], training: TaggingTraining, shuffle: bool = True
    ) -> EncoderBatches:
        """Makes the batches of a training, see `dataset`."""
        return self.dataset(
            examples,
            training.class_weight,
            batch_size=training.batch_size,
            seed=training.seed,
            shuffle=shuffle,
        )

    def objective(self, training: TaggingTraining) -> dict[str, Any]:
        """Cross-entropy of the labels of all words."""
        return {
            "loss": {"tags": MaskedCrossEntropy(ignore_id=None, name="tags")},
            "weighted_metrics": {"tags": keras.metrics.SparseCategoricalAccuracy(name="accuracy")},
        }

    def describe(self, batches: Any) -> list[str]:
        """Says what is trained, how many labels were repaired, and why there are no entities."""
        notes = []
        if self.repaired:
            notes = [f"{self.repaired:,} labels I-X that go on no entity were read as B-X"]
        marks = [label for label in self.labels if label != "O"]
        odd = [label for label in marks if not is_bio([label])]
        if 0 < len(odd) < len(marks):
            notes = [
                f"no entities, as there are labels other than B-X, I-X and O: {', '.join(odd[:5])}"
            ]
        return [*super().describe(batches), *notes]

    def doubt_guesses(self, dev: Sequence[Tagged]) -> str:
        """Says so if all words of the development sentences are guessed to have the same label."""
        if not len(dev):
            return ""
        texts = checked_tagged(dev)
        found = self.predict([list(text.words) for text in texts])
        guesses, true = (
            [label for tagged in side for label in tagged.labels] for side in (found, texts)
        )
        return doubt_of_guesses(guesses, true, "words")

    def scored_by(self, training: TaggingTraining) -> tuple[str, int]:
        """The F1 of entities, or the accuracy if the labels do not mark any."""
        return ("entity F1" if self.bio else "accuracy"), 1

    def scorer(
        self, dev: Sequence[Tagged], training: TaggingTraining
    ) -> Callable[[keras.Model], Scored]:
        """Returns what scores development sentences, and warns of labels that are new in them."""
        self._warn_of_unknown(checked_tagged(dev), stacklevel=5)  # who called `fit`
        return super().scorer(dev, training)

    def _warn_of_unknown(self, texts: Sequence[TaggedText], stacklevel: int) -> None:
        counts = Counter(label for text in texts for label in text.labels)
        unknown = {label: n for label, n in counts.items() if label not in self.labels}
        if unknown:
            some = ", ".join(f"{label} ({n:,})" for label, n in [*unknown.items()][:5])
            more = f", {len(unknown) - 5:,} more" if len(unknown) > 5 else ""
            warnings.warn(
                f"{sum(unknown.values()):,} of {counts.total():,} words have labels that this "
                f"tagger does not know, and count as errors: {some}{more}.",
                stacklevel=stacklevel,
            )

    def score(self, examples: Sequence[Tagged]) -> dict[str, float]:
        """Measures the F1 of entities, if the labels mark them, and the accuracy."""
        report = self._measured(checked_tagged(examples), num_bootstrap=0)
        figures = {} if report.f1 is None else {"f1": report.f1}
        return {**figures, "accuracy": report.accuracy}

    def evaluate(
        self,
        examples: Iterable[Tagged],
        batch_size: int = TaggingUse.batch_size,
        num_bootstrap: int = TaggingTest.num_bootstrap,
        seed: int = 0,
    ) -> TaggingReport:
        """Measures the tagger.

        Args:
            examples: `TaggedText`s, or pairs of a list of words and a list of labels. Labels that
                the tagger does not know count as errors, with a warning.
            batch_size: Rows computed at a time.
            num_bootstrap: Samples for the interval; 0 computes none.
            seed: Seed of these samples.

        Returns:
            A `TaggingReport`: accuracy, and `seqeval`'s precision, recall and F1 of entities.
            `print` shows it.

        Raises:
            ValueError: If there are no sentences.
        """
        texts = checked_tagged(examples)
        self._warn_of_unknown(texts, stacklevel=3)
        return self._measured(texts, batch_size, num_bootstrap, seed)

    def _measured(
        self,
        texts: Sequence[TaggedText],
        batch_size: int = TaggingUse.batch_size,
        num_bootstrap: int = TaggingTest.num_bootstrap,
        seed: int = 0,
    ) -> TaggingReport:
        found = self.predict([list(text.words) for text in texts], batch_size)
        truth = [text.labels for text in texts]
        labels = [tagged.labels for tagged in found]
        return score_tags(truth, labels, num_bootstrap, seed, self.bio)

    # Files and export


def _order(label: str) -> tuple[bool, str]:
    return label != "O", label
