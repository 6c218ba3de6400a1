"""Entailment: classifies pairs of a premise and a hypothesis."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from keras import ops

from keras_attn.arrays import Array
from keras_attn.batches.classification_batches import TextBatches
from keras_attn.batches.pair_batches import SIDES, PairBatches
from keras_attn.explain import Alignment
from keras_attn.explain.alignment import alignment_page
from keras_attn.explain.attributions import pair_gradient_function
from keras_attn.explain.explained_page import explained_page
from keras_attn.explain.methods import DEFAULT, METHODS, path_of
from keras_attn.fields import ODD_TEXTS, PaddedNumbers, Signature, Strings, TextInput, WordTokens
from keras_attn.fields.encoder_input import ReadText
from keras_attn.fields.signature import Together
from keras_attn.fields.text import sides_of
from keras_attn.hints import Tensor
from keras_attn.layers import AdditiveAttention
from keras_attn.layers.collect import traced_attention
from keras_attn.models import PAIR_CLASSIFIERS
from keras_attn.records.class_labels import class_names_of
from keras_attn.records.label_columns import check_label_counts
from keras_attn.records.labelled_pairs import (
    LabelledPair,
    LabelledPairs,
    checked_labelled_pairs,
    checked_text_pairs,
    has_splits,
    read_labelled_pairs,
    split_by_premise,
)
from keras_attn.records.labelled_texts import Input
from keras_attn.records.reading import Location, existing
from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.base.backbones import SavedStart
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.word_vectors import WordVectorData, train_words
from keras_attn.tasks.families.beginnings import beginning
from keras_attn.tasks.families.class_predictions import ClassLearned
from keras_attn.tasks.families.class_weights import ClassTraining
from keras_attn.tasks.families.classes import ClassTask
from keras_attn.tasks.families.data_settings import (
    COLUMN_OF_FORMAT,
    FORMATS,
    Files,
    Tables,
    column,
)
from keras_attn.tasks.families.training_settings import BatchTraining
from keras_attn.tasks.families.use_settings import ClassUse, SplitTest
from keras_attn.text import WordTokenizer
from keras_attn.visualize.display import percent

_NAMES = ("premise", "hypothesis")
_WHOLE = "<hypothesis>"
"""The row of an alignment of attention='last', which is of all words of the hypothesis."""


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "file of labelled pairs",
        "dev": "pairs by which the best weights are chosen; if empty, SICK's trial pairs or a part "
        "of --train",
        "dev_share": "share of the pairs that is held out, if no file has such pairs",
        "on_error": "what to do with a bad line; in --dev and evaluate, also a line whose "
        "label does not occur in the training data",
    },
    words={"when": "", "then": ""},
    choices={"format": (*FORMATS, "sick", "snli")},
)
class EntailmentData(SavedStart, WordVectorData, Tables, Files):
    """Settings of the labelled pairs of texts, their split, and their vocabulary."""

    premise: str = column("", "first texts", COLUMN_OF_FORMAT)
    hypothesis: str = column("", "second texts", COLUMN_OF_FORMAT)
    label: str = column("", "labels", COLUMN_OF_FORMAT)
    reversed_pairs: bool = setting(
        False, "sick: also learn from each pair with its texts swapped, by column entailment_BA"
    )
    vocabulary_size: int = setting(
        20_000, "largest number of words of the training pairs, special tokens included", at_least=5
    )
    max_length: int = setting(64, "largest number of words of a text", at_least=1)


@dataclass(frozen=True)
@with_defaults(words={"rows": "pairs", "examples": "pairs"})
class EntailmentTraining(ClassTraining, BatchTraining):
    """Settings for training an entailment classifier."""


@dataclass(frozen=True)
@with_defaults(
    words={
        "rows": "pairs",
        "shown": "the attention between words, or the weight of each word by gradients; "
        "if none, attention if the model has it, else integrated_gradients",
    },
)
class EntailmentUse(ClassUse):
    """Settings of predictions, pages and SavedModels of an entailment classifier."""


@dataclass(frozen=True)
@with_defaults(
    words={"examples": "file of labelled pairs", "parts": "a file that has several, as SICK's"}
)
class EntailmentTest(SplitTest):
    """Settings for evaluating an entailment classifier."""

    def check(self, data: Settings | None = None) -> None:
        """Raises a FileNotFoundError if the file of test pairs does not exist."""
        existing(self.data, "a file of labelled pairs")


@dataclass(frozen=True)
class EntailmentLearned(ClassLearned):
    """Learned values of an entailment classifier."""

    tokenizers: ClassVar = (WordTokenizer,)
    tokenizer: WordTokenizer
    temperature: float = 1.0
    """Number by which the logits are divided before the softmax."""


class EntailmentClassifier(ClassTask):
    """Classifies pairs of texts, a premise and a hypothesis, with two LSTMs and, by default,
    attention.

    `.model` is the plain Keras model of an `EntailmentConfig`, from ids to logits, and
    `.dataset(examples)` returns the data for its `fit`.

    Args:
        tokenizer: A `WordTokenizer`.
        class_names: Names of the classes, in the order of the logits.
        temperature: Number by which the logits are divided before the softmax.
        model: Settings of the model: an `EntailmentConfig`, or a dict of some of its settings. The
            other arguments determine the vocabulary size and the number of classes.
        data: Settings of the data: an `EntailmentData`, or a dict of some of its settings, such as
            `max_length`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If `tokenizer` is not a `WordTokenizer`, or a setting of the data is unknown.
        ValueError: If there are fewer than two classes, a name occurs twice, a setting of the model
            is unknown, or a setting is out of range.

    Example:

    >>> examples = [("a dog runs", "a dog runs", "yes"), ("a dog runs", "a cat runs", "no")]
    >>> sizes = {"dim": 8, "units": 8, "projection_dim": 0}
    >>> classifier = EntailmentClassifier.create(examples, model=sizes)
    >>> run = classifier.fit(examples, epochs=1, verbose=0)
    >>> alignment = classifier.explain(("a dog runs", "a cat runs"))
    >>> alignment.source_tokens, alignment.weights.shape
    (['a', 'dog', 'runs'], (3, 3))
    """

    name = "entailment"
    about = "Say whether a text follows from another one, and which words were compared."
    kinds = PAIR_CLASSIFIERS
    Data = EntailmentData
    Learned = EntailmentLearned
    Training = EntailmentTraining
    Use = EntailmentUse
    Test = EntailmentTest
    examples_are = "pairs"
    reads = "only_pairs"
    input_columns: ClassVar = {"premise": "premise", "hypothesis": "hypothesis"}
    data: EntailmentData
    learned: EntailmentLearned

    def model_sizes(self) -> dict[str, Any]:
        """Returns a dict of `vocabulary_size` and `num_classes`."""
        vocabulary_size = self.tokenizer.vocabulary_size
        return {"vocabulary_size": vocabulary_size, "num_classes": len(self.class_names)}

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the attention, the classes and the vocabulary size."""
        _, classes, _ = super().facts()
        words = f"{self.tokenizer.vocabulary_size:,} words"
        return [f"attention={self.config.attention!r}", classes, words]

    # What it learns from

    @classmethod
    def read(cls, data: EntailmentData) -> Examples:
        """Reads labelled pairs: a table with named columns, JSON lines, Parquet, SICK or SNLI.

        The pairs of --dev, SICK's trial pairs, or held-out pairs with different premises determine
        the best weights. No test set is read.
        """
        read = _read(data.train, data, split="train", swap=data.reversed_pairs)
        cls.check_read(read, data)
        if data.dev or has_splits(data.train, data.format):
            dev = _read(data.dev or data.train, data, split="dev", labels=read.label_counts)
            return Examples(list(read), list(dev), f"{read.summary()}\n{dev.summary()}")
        train, held = cls.split(read, data)
        return Examples(train, held, read.summary())

    @classmethod
    def read_file(cls, path: Location, data: EntailmentData) -> LabelledPairs:
        """Reads all labelled pairs of a file in the format `data.format`, or of a table in memory,
        and returns them as `keras_attn.records.LabelledPairs`."""
        return _read(path, data)

    @classmethod
    def check_read(cls, examples: LabelledPairs, data: EntailmentData) -> None:
        """Checks that several pairs share each label, because another column may otherwise have the
        labels.

        If labels occur at most twice on average, it raises a ValueError if more than half of them
        occur only once, and warns otherwise. Fewer than 10 pairs are not checked.
        """
        check_label_counts(examples.label_counts, "pairs")

    @classmethod
    def split(cls, examples: Sequence[LabelledPair], data: EntailmentData) -> Any:
        """Splits pairs at random into a list of training pairs and a list of development pairs, so
        that no premise is in both, and each label is in the training pairs. Raises a ValueError if
        all pairs have the same premise."""
        return split_by_premise(examples, data.dev_share, data.split_seed)

    def read_test(self, test: EntailmentTest, data: EntailmentData) -> LabelledPairs:
        """Returns the `LabelledPairs` of the test file. A pair whose label is not a class of this
        classifier is bad: it is skipped or raises an error, as `data.on_error` says."""
        return _read(test.data, data, split=test.split, labels=self.class_names)

    @classmethod
    def checked(cls, examples: Iterable[object]) -> list[LabelledPair]:
        """Checks labelled pairs, and returns them as a list; raises a ValueError if it is empty."""
        pairs = checked_labelled_pairs(examples)
        if not pairs:
            raise ValueError("Expected at least one labelled pair. Received: none.")
        return pairs

    def inputs_of(self, examples: Sequence[LabelledPair]) -> list[Input]:
        """Returns the two texts of each labelled pair."""
        return [pair[:2] for pair in examples]

    def asked(self, inputs: Any) -> list[Input]:
        """Checks inputs, and returns them as a list of pairs of texts."""
        return [*checked_text_pairs(inputs)]

    @classmethod
    def begin(
        cls, examples: Any, data: EntailmentData, model: Any, dtype: Any, **parts: Any
    ) -> Beginning:
        """Returns the `Beginning` of a new classifier: vocabulary, classes and model."""
        pairs = cls.checked(examples)
        names = class_names_of([pair.label for pair in pairs])
        return beginning(
            cls,
            data,
            model,
            lambda: [text for pair in pairs for text in pair[:2]],
            lambda texts: train_words(texts, data.vocabulary_size, data),
            lambda tokenizer: EntailmentLearned(tokenizer, names),
        )

    def labelled_batches(
        self, inputs: list[Input], labels: np.ndarray, weights: np.ndarray | None, **settings: Any
    ) -> PairBatches:
        """Returns batches of the ids of premises and hypotheses.

        Args:
            inputs: n pairs of texts.
            labels: The indices of their classes, `(n,)`.
            weights: The weights of the pairs in the loss, `(n,)`, or None.
            **settings: Settings of `PairBatches`, such as `batch_size`.
        """
        premises, hypotheses = (
            self.tokenizer.encode(list(side)) for side in zip(*inputs, strict=True)
        )
        settings = {"max_length": self.max_length, "pad_id": self.tokenizer.pad_id, **settings}
        return PairBatches(premises, hypotheses, labels, weights, **settings)

    def describe(self, batches: TextBatches) -> list[str]:
        """Returns lines for the log about the model, the batches and the cut texts."""
        lines = super().describe(batches)
        trained = sum(int(np.prod(w.shape)) for w in self.model.trainable_weights)
        of_words = self.tokenizer.vocabulary_size * self.config.dim
        own = trained - (0 if self.data.freeze_word_vectors else of_words)
        lines.append(f"{own:,} of the weights are outside of the embedding.")
        if batches.truncated:
            lines.append(
                f"{batches.truncated:,} pairs have a text of more than {self.max_length} words: "
                f"{batches.lost_share:.1%} of all words are not read."
            )
        return lines

    # What it says

    def encoded(self, inputs: Sequence[Input]) -> dict[str, Any]:
        """Returns a dict of the padded ids of n pairs of texts: `premise_ids (n, S)` and
        `hypothesis_ids (n, T)`, for at most S and T words."""
        field, sides = TextInput(self.tokenizer, self.max_length), sides_of(inputs)
        return {name: field.encode(side) for name, side in zip(SIDES, sides, strict=True)}

    def words(self, inputs: Sequence[Input]) -> list[list[list[str]]]:
        """Returns two lists, for premises and hypotheses, with the words of each text that the
        model reads."""
        sides = (self.tokenizer.words(side) for side in sides_of(inputs))
        return [[row[: self.max_length] for row in side] for side in sides]

    def rows_of(self, tensors: Mapping[str, Any], **settings: Any) -> PairBatches:
        """Returns batches of encoded pairs; `settings` are settings of `PairBatches`."""
        pad_id = self.tokenizer.pad_id
        premises, hypotheses = ([ids[ids != pad_id] for ids in tensors[name]] for name in SIDES)
        return PairBatches(premises, hypotheses, pad_id=pad_id, **settings)

    def weighed(
        self, tensors: Mapping[str, Array], method: str | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Computes logits and, with a method, the attention or the weights of words.

        Args:
            tensors: A dict of `premise_ids (B, S)` and `hypothesis_ids (B, T)` and, for gradients,
                `explained (B,)`, the indices of the explained classes.
            method: One of `keras_attn.explain.methods.METHODS`, or None.

        Returns:
            The logits `(B, C)`, and a dict. With `method="attention"`, the dict has
            `alignment (B, T, S)`, or `(B, 1, S)` if the model has `attention="last"`, and the
            numbers of words of the hypothesis, `rows (B,)`, and of the premise, `columns (B,)`.
            With None, it is empty. Otherwise, it has the weights of the words,
            `weights_premise_ids (B, S)` and `weights_hypothesis_ids (B, T)`.
        """
        ids = {name: ops.convert_to_tensor(tensors[name]) for name in SIDES}
        if method in ("gradient", "integrated_gradients"):
            path = path_of(method, self.tokenizer)
            ask = pair_gradient_function(self.model, path, self.temperature)
            logits, weights = ask(ids, tensors["explained"])
            return logits, {f"weights_{name}": values for name, values in weights.items()}
        if method is None:
            return self.model(ids, training=False), {}
        with traced_attention() as calls:
            logits = self.model(ids, training=False)
        ((layer, _, alignment),) = calls
        alignment = ops.cast(alignment, "float32")
        premise, hypothesis = (
            ops.cast(ops.not_equal(ids[name], self.tokenizer.pad_id), "float32") for name in SIDES
        )
        # Attention from words has weights in padding too; that of the last state has one row.
        if not isinstance(layer, AdditiveAttention):
            alignment = alignment * ops.expand_dims(hypothesis, 2)
        sizes = {"rows": ops.sum(hypothesis, axis=1), "columns": ops.sum(premise, axis=1)}
        return logits, {
            "alignment": alignment,
            **{n: ops.cast(x, "int32") for n, x in sizes.items()},
        }

    def checked_method(self, method: str | None) -> str:
        """Returns `method`. If it is None, returns `"attention"` if the model has attention,
        otherwise `"integrated_gradients"`.

        Raises:
            ValueError: If `method` is unknown, or is `"attention"` although the model has no
                attention.
        """
        attends = self.config.attention != "none"
        if method is None:
            method = "attention" if attends else DEFAULT
        if method not in METHODS:
            raise ValueError(f"`method` must be one of {list(METHODS)}. Received: {method!r}.")
        if method == "attention" and not attends:
            raise ValueError(
                "Expected a model with attention. Received: a model with attention='none', "
                "which compares no words. Pass method='gradient' or "
                "method='integrated_gradients'."
            )
        return method

    def shown(self, inputs: Sequence[Input], use: ClassUse) -> Any:
        """Explains pairs by attention or by gradients.

        Args:
            inputs: Checked pairs of texts.
            use: Settings of class `Use`, with a `method`.

        Returns:
            A list with an entry for each pair: an `Explanation` or, with `method="attention"`, an
            `Alignment` with the words of the premise as columns, the words of the hypothesis as
            rows, and the predicted class with its probability as the title. A model with
            `attention="last"` has one row for the whole hypothesis.
        """
        if use.method != "attention" or not inputs:
            return super().shown(inputs, use)
        found = self.predicted(inputs, use)
        explained = []
        labels, probabilities = self._labels(found), found["probabilities"]
        rows = zip(*self.words(inputs), labels, probabilities, found["alignment"], strict=True)
        for premise, hypothesis, label, row, weights in rows:
            words = [_WHOLE] if self.config.attention == "last" else hypothesis
            part = weights[: len(words), : len(premise)]
            title = f"{label} {percent(float(row.max()))}"
            explained.append(Alignment(premise, words, part, unit="word", title=title))
        return explained

    def read_off(
        self, inputs: Sequence[Input], found: Mapping[str, Any]
    ) -> Iterator[tuple[ReadText, np.ndarray]]:
        """Yields a tuple for each pair: a `ReadText` with the words of both texts, and an array of
        the weights of these words.

        Args:
            inputs: Checked pairs of texts.
            found: A dict of the weights `weights_premise_ids (n, S)` and
                `weights_hypothesis_ids (n, T)`.
        """
        places = [self.tokenizer.encode_with_offsets(side)[1] for side in sides_of(inputs)]
        for i, words in enumerate(zip(*self.words(inputs), strict=True)):
            sizes = list(map(len, words))
            first, second = (side[i][:size] for side, size in zip(places, sizes, strict=True))
            weights = [
                found[f"weights_{name}"][i][:n] for name, n in zip(SIDES, sizes, strict=True)
            ]
            segments = [0] * sizes[0] + [1] * sizes[1]
            read = ReadText([*words[0], *words[1]], [*first, *second], segments)
            yield read, np.concatenate(weights)

    @staticmethod
    def page(explanations: Sequence[Any], title: str) -> str:
        """Returns an HTML page of explanations.

        Args:
            explanations: The result of `explain` for a list.
            title: Title of the page.
        """
        if all(isinstance(explained, Alignment) for explained in explanations):
            return alignment_page(explanations, title)
        return explained_page(explanations, title)

    def signatures(self, use: EntailmentUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The inputs of `serving_default` are `premise: string (B,)` and `hypothesis: string (B,)`.
        Its outputs have the same values as the results of this object:

            label             string (B,)        the most probable class
            probabilities     float32 (B, C)     probabilities of the classes
            classes           string (B, C)      names of the classes, the same in each row
            premise_words     string (B, S)      words of the premise, `""` in padding
            hypothesis_words  string (B, T)      words of the hypothesis, `""` in padding
            alignment         float32 (B, T, S)  attention of hypothesis words to premise words;
                                                 `(B, 1, S)` if the model has `attention="last"`,
                                                 missing if it has `attention="none"`
        """
        fields = dict.fromkeys(_NAMES, WordTokens(self.tokenizer, self.max_length))
        outputs = self.class_outputs()
        outputs |= {f"{name}_words": Strings(f"{name}_words") for name in _NAMES}
        if self.config.attention != "none":
            rows = 1 if self.config.attention == "last" else "rows"
            outputs["alignment"] = PaddedNumbers("alignment", rows, "columns", least=1)
        return {"serving_default": Signature(_NAMES, Together(fields), outputs)}

    def checked_use(self, use: EntailmentUse) -> EntailmentUse:
        """Returns the settings of an export, with `method="attention"` if the model has attention,
        otherwise with `method=None`."""
        attends = self.config.attention != "none"
        return dataclasses.replace(use, method="attention" if attends else None)

    def export_examples(self) -> dict[str, Any]:
        """Returns a dict of `premise` and `hypothesis`: ordinary and unusual texts for checking an
        export."""
        return {"premise": ODD_TEXTS, "hypothesis": ODD_TEXTS[::-1]}


def _read(path: Location, data: EntailmentData, **checks: Any) -> LabelledPairs:
    """Reads the labelled pairs of a file in the form that the settings name."""
    columns = {name: getattr(data, name) for name in (*_NAMES, "label")}
    checks = {"delimiter": data.delimiter or None, "on_error": data.on_error, **checks}
    return read_labelled_pairs(path, data.format, **columns, **checks)
