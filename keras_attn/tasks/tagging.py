"""Tagging: labels words, and finds entities."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attn.arrays import SCHEMES, Array, ArrayModule, entities, scheme_of
from keras_attn.batches import EncoderBatches
from keras_attn.explain import Explanation
from keras_attn.explain.attributions import label_log_odds
from keras_attn.explain.methods import METHOD_NAMES
from keras_attn.export import limited
from keras_attn.fields import (
    ODD_TEXTS,
    LabelledWords,
    Signature,
    TaggedWords,
    TextWords,
    WordLists,
    WordRows,
    checked_texts,
)  # fmt: skip
from keras_attn.metrics import TaggingReport, repair_labels, score_tags
from keras_attn.records import TaggedText, read_tagged, split_tagged
from keras_attn.records.label_columns import check_label_counts
from keras_attn.records.reading import Location
from keras_attn.records.tagged_texts import checked_tagged, warn_of_unknown
from keras_attn.settings import setting, with_defaults
from keras_attn.tasks.base.continuing import lacking
from keras_attn.tasks.base.fine_tuning import EncoderTraining
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.class_weights import ClassWeight, ClassWeights, weights_of_classes
from keras_attn.tasks.families.data_settings import READ, Files
from keras_attn.tasks.families.encoder_task import EncoderData, EncoderLearned, EncoderTask
from keras_attn.tasks.families.use_settings import BootstrapTest, PageUse
from keras_attn.tasks.families.windowed import WindowedTask, row_lists
from keras_attn.text import split_words
from keras_attn.training import MaskedCrossEntropy

Tagged = TaggedText | tuple[Sequence[str], Sequence[str]]
Tensors = Mapping[str, Array]


@dataclass(frozen=True)
@with_defaults(
    help={"train": "sentences to learn from: CoNLL columns, or JSON lines with words and labels"},
    words={"examples": "sentences"},
)
class TaggingData(EncoderData, Files):
    """Settings of the sentences with labelled words, and of the encoder."""

    word_column: int = setting(
        0, "column of the words, from 0; negative numbers count from the end", steps=READ
    )
    label_column: int = setting(-1, "column of the labels", steps=READ)


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(10, backbone=4), words={"classes": "labels", "examples": "words"}
)
class TaggingTraining(ClassWeights, EncoderTraining):
    """Settings for training a tagger."""


@dataclass(frozen=True)
@with_defaults(
    method="attention",
    words={
        "rows": "rows",
        "shown": "what each head looks at, or the words that speak for the label of the first "
        "entity of each text",
    },
)
class TaggingUse(PageUse):
    """Settings of predictions, pages and SavedModels of a tagger."""

    max_words: int = setting(
        5_000_000, "largest number of words that the SavedModel gives at a time: rows times words "
        "of the longest text", at_least=1, steps=("export",),
    )  # fmt: skip
    split: bool = setting(
        True, "split each line into words and punctuation marks; otherwise, words are separated by "
              "spaces",
        steps=("predict",),
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(words={"examples": "sentences with labels, as for fit"})
class TaggingTest(BootstrapTest):
    """Settings for evaluating a tagger."""


@dataclass(frozen=True)
class TaggingLearned(EncoderLearned):
    """Learned values of a tagger: its tokenizer and its labels."""

    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.labels) < 2 or len(set(self.labels)) < len(self.labels):
            raise ValueError(
                "Expected at least two labels, and no label twice. Received: "
                f"{list(self.labels)[:20]}."
            )


class Tagger(WindowedTask):
    """Labels each word of a text with an encoder and a head.

    The label of a word is predicted from the state of its first piece. A `BytePairTokenizer` reads
    each word with a leading space, like `transformers` with `add_prefix_space`. Sentences longer
    than `max_length` are split into overlapping rows (`keras_attn.arrays.windows`), so that no word
    is left out. If the labels mark entities by BIO, BIOES or BILOU (see
    `keras_attn.arrays.scheme_of`), invalid labels are repaired in the training labels and in the
    predictions. For example, in BIO, each `I-X` that does not continue an entity becomes `B-X`.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 5.3: BERT on CoNLL-2003.

    Args:
        tokenizer: A `WordPieceTokenizer`, a `SentencePieceTokenizer`, a `BytePairTokenizer` with
            `normalize=False`, or a `WordTokenizer`.
        labels: The labels, in the order of the logits.
        model: Settings of the encoder: a `BertConfig`, `RobertaConfig`, `ModernBertConfig` or
            `BiLstmConfig`; a dict of some settings, such as `{"model": "roberta", "dim": 128}`; or
            None for the defaults of BERT.
        data: Settings of the data: a `TaggingData`, or a dict of some of its settings, such as
            `max_length`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer is not supported, or a setting of the data is
            unknown.
        ValueError: If there are fewer than two labels, a label occurs twice, a setting of the model
            is unknown, a setting is out of range, or the tokenizer normalizes texts.

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
    about = "Label the words of sentences: names of people and places, or parts of speech."
    continues = True
    heads = token_labels = ("tags",)
    Data, Learned, Training = TaggingData, TaggingLearned, TaggingTraining
    Use, Test = TaggingUse, TaggingTest
    data: TaggingData
    learned: TaggingLearned
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are, rows_are = "sentences", "rows"
    input_columns: ClassVar = {"words": "words"}
    predicts: ClassVar = {
        "words": list[str], "labels": list[str], "probabilities": list[float], "entities": object,
    }  # fmt: skip
    guesses_are = "words"
    batched_by = ("batch_size", "seed", "class_weight")
    decide_nothing = (*EncoderTask.decide_nothing, "repaired")
    signature_inputs: ClassVar = {"serving_default": ("text",), "words": ("words",)}
    limits = ("max_words",)

    repaired = 0
    """Number of labels of the training examples that `repair_labels` changed."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of the logits."""
        return self.learned.labels

    @property
    def num_classes(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def scheme(self) -> str:
        """Scheme of the entity labels: `"BIO"`, `"BIOES"`, `"BILOU"`, or `""` if they mark no
        entities."""
        return scheme_of(self.labels)

    @property
    def words(self) -> WordRows:
        """The field that converts words to rows of the model."""
        return WordRows(self.tokenizer, self.max_length)

    @property
    def labelled(self) -> LabelledWords:
        """The field that converts label ids to labels and entities."""
        return LabelledWords(self.labels, self.scheme)

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the encoder and the labels."""
        some = ", ".join(self.labels[:5]) + (", ..." if len(self.labels) > 5 else "")
        return [*super().facts(), f"{len(self.labels)} labels: {some}"]

    # Data and training

    @classmethod
    def read_file(cls, path: Location, data: TaggingData) -> Any:
        """Reads sentences whose words have labels, from CoNLL columns, JSON lines or Parquet.

        Args:
            path: The file, or a table in memory as `keras_attn.records.Rows`.
            data: Settings of class `Data`.

        Returns:
            `keras_attn.records.TaggedTexts`.
        """
        return read_tagged(path, data.word_column, data.label_column, data.on_error)

    @classmethod
    def check_read(cls, examples: Sequence[TaggedText], data: TaggingData) -> None:
        """Checks that several words share each label, because another column may otherwise have the
        labels.

        If labels occur at most twice on average, it raises a ValueError if more than half of them
        occur only once, and warns otherwise. Fewer than 10 words are not checked.
        """
        counts = Counter(label for text in examples for label in text.labels)
        check_label_counts(counts, "words", "label_column")

    @classmethod
    def split(cls, examples: Sequence[TaggedText], data: TaggingData) -> Any:
        """Splits sentences into a list of training sentences and a list of development sentences;
        equal sentences stay together."""
        return split_tagged(examples, data.dev_share, data.split_seed)

    @classmethod
    def checked(cls, examples: Iterable[Tagged]) -> list[TaggedText]:
        """Checks labelled sentences, and returns them as a list of `TaggedText`s."""
        return checked_tagged(examples)

    @classmethod
    def texts_of(cls, examples: Sequence[TaggedText], data: TaggingData) -> Iterable[str]:
        """Returns each sentence as a string of words with spaces between them."""
        return (" ".join(text.words) for text in examples)

    @classmethod
    def unlike(cls, learned: TaggingLearned, examples: Any, data: Any) -> str:
        """Returns which labels of the examples a saved tagger lacks; empty if none."""
        found = cls.learn_beside(learned.tokenizer, cls.checked(examples), data)
        return lacking(found.labels, learned.labels)

    @classmethod
    def learn_beside(
        cls, tokenizer: Any, examples: Sequence[TaggedText], data: TaggingData
    ) -> TaggingLearned:
        """Returns the tokenizer and the labels of sentences, as an instance of `Learned`.

        If the labels mark entities, each type of entity gets a label for each mark of the scheme.

        Args:
            tokenizer: The tokenizer of the tagger.
            examples: Checked training sentences.
            data: Settings of class `Data`.
        """
        labels = [*dict.fromkeys(label for text in examples for label in text.labels)]
        scheme = scheme_of(labels)
        if not scheme:
            return TaggingLearned(
                tokenizer, tuple(sorted(labels, key=lambda label: (label != "O", label)))
            )
        kinds = sorted({label[2:] for label in labels if label != "O"})
        # An entity may be longer in a text to come.
        marks = dict.fromkeys(SCHEMES[scheme])
        return TaggingLearned(tokenizer, ("O", *(f"{m}-{kind}" for kind in kinds for m in marks)))

    def dataset(
        self, examples: Iterable[Tagged], class_weight: ClassWeight = None, **settings: Any
    ) -> EncoderBatches:
        """Creates batches for `model.fit`.

        Args:
            examples: `TaggedText`s, or pairs of a list of words and a list of labels.
            class_weight: None gives every word the same weight, and `"balanced"` gives every label
                the same total weight. A dict has weights keyed by label; other labels have weight
                1.
            **settings: Settings of `keras_attn.batches.EncoderBatches`: `batch_size`, `seed`,
                `shuffle`, ...

        Returns:
            `EncoderBatches` of rows of ids, in which the first piece of each word has a label.

        Raises:
            TypeError: If an example has the wrong form.
            ValueError: If a label, or a name in `class_weight`, is not a label of this tagger, a
                weight is invalid, or the numbers of words and labels of an example differ.
        """
        texts = checked_tagged(examples)
        numbers = [number for text in self._numbers(texts) for number in text]
        rows = self.rows(np, self.words.encode([text.words for text in texts]))
        table = np.full(rows["row_ids"].shape, -1, "int32")
        table[rows["row"], rows["column"]] = numbers
        labels = [row[:size] for row, size in zip(table, rows["row_sizes"], strict=True)]
        if class_weight is not None:
            weights = weights_of_classes(np.array(numbers), self.labels, class_weight)
            settings = {"label_weights": {"tags": weights}, **settings}
        return self.row_batches(row_lists(rows), {"tags": labels}, **settings)

    def _numbers(self, texts: Sequence[TaggedText]) -> list[list[int]]:
        """The numbers of the labels, which are repaired before."""
        number = {label: i for i, label in enumerate(self.labels)}
        scheme, every, self.repaired = self.scheme, [], 0
        for i, text in enumerate(texts):
            labels, changed = repair_labels(text.labels, scheme) if scheme else (text.labels, 0)
            self.repaired += changed
            unknown = [label for label in labels if label not in number]
            if unknown:
                raise ValueError(
                    f"Expected labels of {list(self.labels)}. Received: {unknown[0]!r} in sentence "
                    f"{i}, {' '.join(text.words)[:80]!r}."
                )
            every.append([number[label] for label in labels])
        return every

    def objective(self, training: TaggingTraining) -> dict[str, Any]:
        """Returns a dict of `loss` and `weighted_metrics`: cross-entropy and accuracy of the labels
        of words."""
        return {
            "loss": {"tags": MaskedCrossEntropy(ignore_id=None, name="tags")},
            "weighted_metrics": {"tags": keras.metrics.SparseCategoricalAccuracy(name="accuracy")},
        }

    def describe(self, batches: Any) -> list[str]:
        """Returns lines for the log about the model, the batches, entities and repaired labels."""
        notes = [f"entities by the scheme {self.scheme}"] if self.scheme else []
        if self.repaired:
            notes.append(
                f"{self.repaired:,} labels that are not valid in this scheme were repaired"
            )
        marks = [label for label in self.labels if label != "O"]
        odd = [label for label in marks if not scheme_of([label])]
        if 0 < len(odd) < len(marks):
            notes = [
                "no entities, as there are labels other than O and marks with a type, such as B-X: "
                f"{', '.join(odd[:5])}"
            ]
        return [*super().describe(batches), *notes]

    # Measuring

    def scored_by(self, training: TaggingTraining) -> tuple[str, int]:
        """Returns `"entity F1"`, or `"accuracy"` if the labels do not mark entities; and 1, because
        higher is better."""
        return ("entity F1" if self.scheme else "accuracy"), 1

    def scorer(
        self, dev: Sequence[Tagged], training: TaggingTraining
    ) -> Callable[[keras.Model], Scored]:
        """Returns the function that scores development sentences; warns about unknown labels."""
        warn_of_unknown(checked_tagged(dev), self.labels, stacklevel=5)  # who called `fit`
        return super().scorer(dev, training)

    def score(self, examples: Sequence[Tagged]) -> dict[str, float]:
        """Returns a dict of `accuracy` and, if labels mark entities, `f1`, the F1 of entities, for
        which `seqeval` must be installed."""
        texts = checked_tagged(examples)
        report = self._report(texts, self.measured(texts, self.Use()), num_bootstrap=0)
        figures = {} if report.f1 is None else {"f1": report.f1}
        return {**figures, "accuracy": report.accuracy}

    def inputs_of(self, examples: Sequence[TaggedText]) -> list[list[str]]:
        """Returns the words of each sentence, as lists."""
        return [list(text.words) for text in examples]

    def guesses(
        self, examples: Sequence[TaggedText], results: Sequence[TaggedWords]
    ) -> tuple[list[str], list[str]]:
        """Returns the predicted labels and the true labels of all words of the examples, as two
        lists."""
        both = ([label for x in side for label in x.labels] for side in (results, examples))
        guessed, right = both
        return guessed, right

    def report(
        self,
        examples: Sequence[TaggedText],
        results: Sequence[TaggedWords],
        *,
        num_bootstrap: int,
        seed: int = 0,
    ) -> TaggingReport:
        """Compares predicted labels and entities with the labels of sentences.

        Args:
            examples: `TaggedText`s, or pairs of a list of words and a list of labels. Labels that
                the tagger does not know count as errors, with a warning.
            results: The predictions: a `TaggedWords` for each example.
            num_bootstrap: Bootstrap samples for the confidence intervals; 0 for no intervals.
            seed: Seed of the bootstrap samples.

        Returns:
            A `TaggingReport`, which `print` shows: the accuracy and, if the labels mark entities,
            the precision, recall and F1 of entities from `seqeval`.

        Raises:
            ImportError: If the labels mark entities, and `seqeval` is not installed.
            TypeError: If an example has the wrong form, or a setting is unknown.
            ValueError: If there are no sentences, the numbers of words and labels of a sentence
                differ, or a setting is out of range.
        """
        warn_of_unknown(examples, self.labels, stacklevel=5)
        return self._report(examples, results, num_bootstrap=num_bootstrap, seed=seed)

    def _report(
        self, texts: Sequence[TaggedText], results: Sequence[TaggedWords], **settings: int
    ) -> TaggingReport:
        labels = [tagged.labels for tagged in results]
        return score_tags([text.labels for text in texts], labels, scheme=self.scheme, **settings)

    # Predictions

    def signatures(self, use: TaggingUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The input of `serving_default` is `text: string (B,)`. The input of the signature `words` is
        `words: string (B, W)`, padded with `""`. The outputs of both signatures have the same
        values as the results of this object, for at most W words and E entities in each text:

            labels         string (B, W)    labels of the words, `""` in padding
            probabilities  float32 (B, W)   probability of the label of each word
            kinds          string (B, E)    types of the entities, `""` in padding
            first, behind  int32 (B, E)     first word of an entity, and the word after its last

        `serving_default` also returns

            words          string (B, W)    the words, see `keras_attn.text.split_words`
            word_starts, word_ends          int32 (B, W)    positions of the words in bytes
            entities       string (B, E)    the entities as they occur in the text
            entity_starts, entity_ends      int32 (B, E)    positions of the entities in bytes
            entity_start_characters, entity_end_characters  int32 (B, E)    positions in characters

        Bytes that are not UTF-8 are read as U+FFFD, and positions refer to the resulting text. If B
        times W is above `max_words`, `serving_default` raises an error.
        """

        def limit(tf: ModuleType, number: Array) -> Array:
            return limited(
                tf, number, use.max_words, "max_words",
                f"at most {use.max_words:,} words in all texts, each as long as the longest",
                "Send long texts in requests of their own", least=0,
            )  # fmt: skip

        texts = TextWords(self.words, use.split, limit)
        outputs = self.labelled.outputs
        return {
            "serving_default": Signature(("text",), texts, outputs(of_texts=True)),
            "words": Signature(("words",), WordLists(self.words), outputs(of_texts=False)),
        }

    def rows(self, xp: ArrayModule, tensors: Tensors) -> dict[str, Array]:
        """Cuts encoded words into the R rows of ids that the model reads.

        Args:
            xp: The array module: `numpy`, or `keras.ops` in the SavedModel.
            tensors: The result of `WordRows.encode`.

        Returns:
            A dict of arrays, such as the padded ids `row_ids (R, T)` and the number of ids of each
            row, `row_sizes (R,)`; see `WordRows.rows`.
        """
        return self.words.rows(xp, tensors)

    def scores(self, inputs: Tensors) -> dict[str, Array]:
        """Computes the probabilities of the C labels for each token of R rows.

        Args:
            inputs: Inputs of the model, such as `token_ids (R, T)`.

        Returns:
            A dict of `tokens (R, T, C)`, the probabilities.
        """
        return {"tokens": ops.softmax(self.logits(inputs)["tags"], axis=-1)}

    def run(self, xp: ArrayModule, tensors: Tensors, use: TaggingUse) -> dict[str, Array]:
        """Selects the labels of words, and finds the entities that the labels mark.

        Args:
            xp: The array module: `numpy`, or `keras.ops` in the SavedModel.
            tensors: The encoded inputs, the result of `rows`, and the result of `scores` for all
                rows one after the other: `tokens (N, C)`, the probabilities of C labels for N
                tokens, and `token_starts (R,)`, the index of the first token of each row.
            use: Settings of class `Use`.

        Returns:
            A dict of `labels` and `probabilities` `(W,)`, the indices of the labels of all W words
            in the batch, and their probabilities; `entities (B,)`, the number of entities of each
            text; and further arrays `(E,)` of the E entities, see `keras_attn.arrays.entities`. If
            `tensors` has positions of words, `entity_starts` and `entity_ends` `(E,)` are the
            positions of entities, in the same unit.
        """
        starts = xp.take(tensors["token_starts"], tensors["row"], axis=0)
        table = xp.take(tensors["tokens"], starts + tensors["column"], axis=0)  # (W, C)
        best = xp.array(xp.argmax(table, axis=-1), dtype="int32")
        found = entities(xp, best, tensors["words"], self.labelled.tables)
        labels = xp.expand_dims(found["labels"], 1)
        found["probabilities"] = xp.take_along_axis(table, labels, axis=1)[:, 0]
        if "word_starts" in tensors:
            for name, word in (("starts", "first_word"), ("ends", "last_word")):
                places = xp.take(tensors[f"word_{name}"], found[word], axis=0)
                found[f"entity_{name}"] = places
        return found

    def results(self, texts: Sequence[Any], use: TaggingUse) -> list[TaggedWords]:
        """Labels each word of texts; the entities follow from the labels.

        Args:
            texts: A string, which is split into words; or a list whose items are strings or lists
                of words.
            use: Settings of class `Use`.

        Returns:
            A `TaggedWords` for a string, or a list of `TaggedWords` for a list: the words, their
            labels and probabilities, and the entities.

        Raises:
            TypeError: If an input is neither a string nor a list of strings, or a setting is
                unknown.
            ValueError: If a setting is out of range.
        """
        tensors = TextWords(self.words, use.split).encode(texts)
        return self.labelled.read(tensors | self.computed(tensors, use))

    def studied(self, texts: list[Any]) -> list[str]:
        """Returns the texts whose attention `explain` shows, which are the inputs; raises a
        TypeError if an input is a list of words."""
        return checked_texts(texts)

    def reasons(
        self, texts: list[Any], use: TaggingUse, *, word: int | str | None = None
    ) -> list[Explanation]:
        """Collects the attention of all heads, or computes how much each word supports the label of
        one word.

        Args:
            texts: A string, or a list of strings.
            use: Settings of class `Use`.
            word: The word whose label is explained unless `method="attention"`: its index from 0,
                or a string, which stands for its first occurrence. If None, the first word of the
                first entity, or the first word of a text without entities.

        Returns:
            With `method="attention"`, an `EncoderStudy`, whose `html()` returns a page. With
            `method="gradient"` (gradient times input) and `method="integrated_gradients"`, an
            `Explanation` for a string, or a list of `Explanation`s for a list. An `Explanation` has
            the contribution of each word to the log-odds of the label. In a text longer than
            `max_length`, words outside the row of the explained word are left out.

        Raises:
            TypeError: If an input is not a string, or a setting is unknown.
            ValueError: If `method` has another value, a setting is out of range, a text does not
                have the word, or `method="attention"` and `word` is given or the encoder has no
                attention.
        """
        results = self.results(checked_texts(texts), use)
        given = TextWords(self.words, use.split).encode(texts)
        rows = self.rows(np, given)
        every, numbers = row_lists(rows), [tagged.number_of(word) for tagged in results]
        begins = np.cumsum(given["words"]) - given["words"]
        some = [(i, begins[i], n) for i, n in enumerate(numbers) if n is not None]
        at = [begin + n for _, begin, n in some]
        labels = [self.labels.index(results[i].labels[n]) for i, _, n in some]
        taken = [every[rows["row"][word]] for word in at]
        index = np.array([*zip(rows["column"][at], labels, strict=True)], "int32").reshape(-1, 2)
        weights = self.gradients(taken, label_log_odds, index, use.batch_size, use.method)
        tables = self.compute(taken, use.batch_size, self.scores)
        found = [Explanation(text, [], [], np.zeros(0)) for text in texts]
        for (i, begin, n), (column, label), of_row, table in zip(
            some, index, weights, tables, strict=True
        ):
            words = slice(begin, begin + len(results[i].words))
            first = rows["word_pieces"][words] - rows["row_starts"][rows["row"][begin + n]] + 1
            ends = np.clip([first, first + given["pieces"][words]], 1, len(of_row) - 1)  # (2, W)
            read = np.flatnonzero(ends[0] < ends[1])
            places = given["word_starts"][words][read], given["word_ends"][words][read]
            found[i] = Explanation(
                texts[i],
                [results[i].words[k] for k in read],
                [*zip(*(place.tolist() for place in places), strict=True)],
                np.array([of_row[slice(*ends[:, k])].sum() for k in read]),
                self.labels[label],
                dict(zip(self.labels, map(float, table["tokens"][column]), strict=True)),
                f"{METHOD_NAMES[use.method]}, for the word {results[i].words[n]!r}",
            )
        return found

    def checked_use(self, use: TaggingUse) -> TaggingUse:
        """Returns the settings of an export unchanged; raises a ValueError for `split=False`,
        because the SavedModel always splits the texts of `serving_default` into words."""
        if not use.split:
            raise ValueError(
                "A SavedModel always splits texts into words. Received: split=False. Leave "
                "it out, and call the signature `words` with words."
            )
        return use

    def export_examples(self) -> dict[str, Any]:
        """Returns a dict of `text`, ordinary and unusual texts for checking an export, and `words`,
        lists of their words, padded with `""`."""
        texts = [*ODD_TEXTS, "U.S. shares (3.5%) fell", "x\x01y \x01 z", "ab" * 300]
        words = [[word.text for word in split_words(text)] for text in texts]
        most = max(map(len, words))
        return {"text": texts, "words": [[*row, *[""] * (most - len(row))] for row in words]}

    def predicted_columns(self, given: object) -> Mapping[str, object]:
        """Returns the columns of the output, a dict from name to type: the columns in `predicts`,
        without `words` if the inputs are lists of words.

        Args:
            given: One of the inputs: a string or a list of words.
        """
        return {
            x: kind for x, kind in self.predicts.items() if x != "words" or isinstance(given, str)
        }

    def cells(self, result: TaggedWords) -> dict[str, object]:
        """Returns a dict of `words`, `labels`, `probabilities` and `entities`, with the values that
        `readable` writes as JSON."""
        return json.loads(self.readable(result))

    @staticmethod
    def readable(result: TaggedWords) -> str:
        """Returns a result as the command writes it: a JSON object with `words`, `labels`,
        `probabilities`, rounded to 6 digits, and `entities`."""
        rounded = [round(p, 6) for p in result.probabilities]
        entities = [entity._asdict() for entity in result.entities]
        found = {"words": result.words, "labels": result.labels, "probabilities": rounded}
        return json.dumps({**found, "entities": entities}, ensure_ascii=False)
