"""Base class of tasks with heads on a text encoder, such as a pretrained BERT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from keras import ops

from keras_attn.batches import EncoderBatches
from keras_attn.explain import Explanation, study_texts
from keras_attn.explain.attributions import encoder_gradient_function
from keras_attn.fields import EncoderInput
from keras_attn.generation import CompiledFunction
from keras_attn.models import ENCODERS, with_heads
from keras_attn.settings import Settings
from keras_attn.tasks.base.backbones import (
    sizes_of,
)
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.fine_tuning import EncoderTraining
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.base.training_settings import RunSettings
from keras_attn.tasks.families.beginnings import beginning
from keras_attn.tasks.families.encoder_settings import (
    MAX_LENGTH,
    EncoderData,
    EncoderLearned,
    EncoderTokenizer,
    HasRows,
)
from keras_attn.text import SentencePieceTokenizer, WordPieceTokenizer
from keras_attn.training import num_data_shards

Tensor = Any
Row = tuple[Sequence[int] | np.ndarray, int]
"""The ids of a row with their special tokens, and where its second segment begins."""


class EncoderTask(Task):
    """Base class of tasks with heads on a text encoder, which may be pretrained.

    A subclass defines its `heads`, creates rows of ids with labels, and interprets the logits.
    `.model` is the plain Keras model from ids to a dict of the logits of each head.

    Args:
        tokenizer: A `WordPieceTokenizer`, a `SentencePieceTokenizer`, a `BytePairTokenizer` with
            `normalize=False`, as for RoBERTa, or a `WordTokenizer`.
        model: Settings of the encoder: a `BertConfig` or `RobertaConfig`, a dict of its settings,
            or None for the defaults of BERT. The tokenizer determines the vocabulary size and the
            padding id.
        data: Settings of the data, such as `max_length`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Attributes:
        heads: Names of the heads, as in `keras_attn.models.with_heads`.

    Raises:
        TypeError: If the class of the tokenizer is not supported.
        ValueError: If a setting is unknown or out of range, the encoder has fewer positions than
            `max_length`, or the tokenizer normalizes texts.
    """

    kinds = ENCODERS
    heads: ClassVar[tuple[str, ...]]
    token_labels: ClassVar[tuple[str, ...]] = ()
    """Names of the heads that have a label for each token."""
    Data: ClassVar[type[Settings]] = EncoderData
    Learned: ClassVar[type[EncoderLearned]] = EncoderLearned
    data: HasRows
    learned: EncoderLearned
    Training: ClassVar[type[RunSettings]] = EncoderTraining
    main_layer = "encoder"
    decide_nothing: ClassVar[tuple[str, ...]] = ("loaded", "word_vectors")
    backbone: ClassVar = {"embedding": (), "encoder": (), "pooler": (), "pooler_norm": ()}
    hooks: ClassVar = {**Task.hooks, "explain": "reasons"}

    @property
    def tokenizer(self) -> EncoderTokenizer:
        """The tokenizer that converts texts to ids."""
        return self.learned.tokenizer

    @property
    def max_length(self) -> int:
        """Maximum number of ids of a row, including special tokens."""
        return self.data.max_length or MAX_LENGTH

    @property
    def num_classes(self) -> int | None:
        """Number of classes of the head `"classes"` or `"tags"`; None without these heads."""
        return None

    def model_sizes(self) -> dict[str, Any]:
        """Returns the vocabulary size, padding id and first position of the encoder, keyed by their
        names in the settings of the model."""
        return sizes_of(self.tokenizer)

    def configured(self, model: Any) -> Any:
        """Returns the settings object of the encoder; raises a ValueError for a `max_length` above
        its number of positions."""
        config = super().configured(model)
        if config.sequence_length < self.max_length:
            raise ValueError(
                f"`max_length` must be at most {config.sequence_length}, the number of "
                f"positions of the encoder. Received: {self.max_length}."
            )
        return config

    def build(self, dtype: Any) -> None:
        """Builds the encoder with its heads, and assigns the Keras model to `.model`."""
        self.model = with_heads(
            self.config, self.heads, self.num_classes, dtype=dtype, name=self.name
        )

    @property
    def field(self) -> EncoderInput:
        """The field that converts texts to rows of ids."""
        return self.kept(
            lambda: EncoderInput(self.tokenizer, self.max_length, between=self.config.ends_between),
            "field",
        )

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the architecture, the vocabulary size and the layers."""
        return [
            self.kinds.name_of(self.config),
            f"{self.tokenizer.vocabulary_size:,} tokens",
            f"{self.config.num_layers} layers of {self.config.dim}",
        ]

    # What it starts from

    @classmethod
    def texts_of(cls, examples: Any, data: Any) -> Iterable[str]:
        """Returns the texts of examples, from which a tokenizer is trained without a backbone.

        Args:
            examples: Checked training examples.
            data: Settings of class `Data`.
        """
        raise NotImplementedError

    @classmethod
    def learn_beside(cls, tokenizer: EncoderTokenizer, examples: Any, data: Any) -> EncoderLearned:
        """Returns the learned values of a new task: its tokenizer and, in subclasses, its labels.

        Args:
            tokenizer: The tokenizer of the backbone, or one trained on the texts.
            examples: Checked training examples.
            data: Settings of class `Data`.
        """
        return cls.Learned(tokenizer)

    @classmethod
    def begin(cls, examples: Any, data: Any, model: Any, dtype: Any, **parts: Any) -> Beginning:
        """Returns the `Beginning` of a new task: tokenizer, learned values and encoder."""
        examples = cls.checked(examples)
        return cls.start(
            lambda: cls.texts_of(examples, data),
            data,
            model,
            lambda tokenizer: cls.learn_beside(tokenizer, examples, data),
        )

    @classmethod
    def start(
        cls,
        texts: Callable[[], Iterable[str]],
        data: EncoderData,
        model: Any,
        learn: Callable[[EncoderTokenizer], EncoderLearned],
    ) -> Beginning:
        """Returns the `Beginning` of a new task: tokenizer, learned values and encoder.

        Args:
            texts: Function that returns the training texts, from which a tokenizer is trained if
                there is no backbone.
            data: Settings of class `Data`.
            model: Settings of the encoder, as for `create`.
            learn: Function that returns the learned values for a tokenizer.
        """

        def train(given: list[str]) -> EncoderTokenizer:
            size = data.vocabulary_size
            if data.tokenizer == "sentence_piece":
                return SentencePieceTokenizer.train(given, size, allow_fewer=True)
            return WordPieceTokenizer.train(given, size, data.lowercase, allow_fewer=True)

        start = beginning(cls, data, model, texts, train, learn)
        if data.backbone:
            return start
        config = cls.kinds.make(start.model, sequence_length=data.max_length, vocabulary_size=2)
        return start._replace(model=config)

    def exported_rows(self) -> tuple[EncoderInput, Mapping[str, np.ndarray]]:
        """Returns the field that encodes texts, and a dict of inputs of `model` for checking an
        export: ordinary and unusual texts, encoded by the field."""
        ids, segments = self.field.encode(self.field.examples)
        tensors = self.encoded(ids, segments)
        return self.field, {name: ops.convert_to_numpy(x) for name, x in tensors.items()}

    # Explanations

    def studied(self, inputs: list[Any]) -> list[Any]:
        """Returns the texts, or pairs of texts, whose attention `explain` shows.

        Args:
            inputs: Checked inputs.
        """
        return inputs

    def reasons(self, inputs: list[Any], use: Any) -> list[Explanation]:
        """Explains results by gradients; `explain` has the docstring and arguments of this hook.

        Args:
            inputs: Checked inputs, at least one.
            use: Settings of class `Use`.

        Returns:
            An `Explanation` for each input.
        """
        raise NotImplementedError

    def explained(self, inputs: list[Any], use: Any, **more: Any) -> Any:
        """Returns the result of `reasons` or, with `method="attention"`, a study of all heads.

        Args:
            inputs: Checked inputs.
            use: Settings of class `Use`.
            **more: Keyword-only arguments of `reasons`, which are allowed only with
                `method="gradient"`.

        Returns:
            With `method="attention"`, an `EncoderStudy`; otherwise a list of `Explanation`s.

        Raises:
            ValueError: If an argument in `more` is given with `method="attention"`.
        """
        if use.method != "attention":
            return self.reasons(inputs, use, **more) if inputs else []
        for name, value in more.items():
            if value is not None:
                raise ValueError(
                    f"`{name}` is only used with method='gradient'. Received: "
                    f"{name}={value!r} with method='attention'."
                )
        return study_texts(self.model, self.field, self.studied(inputs))

    # Rows

    @property
    def layout(self) -> dict[str, Any]:
        """The settings of `EncoderBatches` that the encoder determines, keyed by name."""
        return {
            "segments": self.config.reads_segments,
            "pad_id": self.tokenizer.pad_id,
            "max_length": self.max_length,
            "rows_multiple_of": num_data_shards(),
        }

    def row_batches(
        self, rows: Sequence[Any], labels: Any = None, weights: Any = None, **settings: Any
    ) -> EncoderBatches:
        """Returns batches of rows for the model.

        Args:
            rows: For each row, its ids with special tokens and the position where its second
                segment begins.
            labels: A dict of the labels of each head, or None.
            weights: A dict of the weights of labels in the loss, or None.
            **settings: Settings of `EncoderBatches`, such as `batch_size`.
        """
        token_labels = self.token_labels if labels else ()
        settings = {"token_labels": token_labels, **self.layout, **settings}
        return EncoderBatches(rows, labels, weights, **settings)

    def compute(
        self, rows: Sequence[Row], batch_size: int, function: Any = None
    ) -> list[dict[str, np.ndarray]]:
        """Computes the outputs of a function for rows, in batches of rows of similar lengths.

        Args:
            rows: For each row, its ids with special tokens and the position where its second
                segment begins.
            batch_size: Number of rows that are computed at once.
            function: Function from the inputs of the model to a dict of batch-first tensors; None
                for `logits`. It is compiled once for each function object, so pass the same
                object in each call.

        Returns:
            A dict of arrays for each row. Arrays with an entry for each token include padding.
        """
        function = self.logits if function is None else function

        def make() -> CompiledFunction:
            return CompiledFunction(
                lambda ids, length, segments: function(self.encoded(ids, segments)), self.model
            )

        return self._in_batches(rows, batch_size, self.kept(make, "compute", function))

    def gradients(
        self,
        rows: Sequence[Row],
        pick: Callable[[dict[str, Tensor], Tensor], Tensor],
        index: Any,
        batch_size: int = 32,
    ) -> list[np.ndarray]:
        """Computes the contribution (gradient times input) of each token to a number for each row.

        Args:
            rows: For each row, its ids with special tokens and the position where its second
                segment begins.
            pick: Function of the logits of a batch and its part of `index`, which returns the
                numbers to explain, `(B,)`. It is compiled once for each function object.
            index: Values for `pick`, with an entry for each row; converted to int32 or float32.
            batch_size: Number of rows that are computed at once.

        Returns:
            The contributions of the tokens of each row, a list of float32 `(T,)`.
        """

        def make() -> CompiledFunction:
            ask = encoder_gradient_function(self.model, pick)
            return CompiledFunction(
                lambda ids, length, segments, index: {
                    "weights": ask(self.encoded(ids, segments), index)[1]
                },
                self.model,
            )

        index = np.asarray(index)
        index = index.astype("float32" if index.dtype.kind == "f" else "int32")
        run = self.kept(make, "gradients", pick)
        values = self._in_batches(rows, batch_size, run, index)
        return [x["weights"][: len(ids)] for x, (ids, _) in zip(values, rows, strict=True)]

    def _in_batches(
        self, rows: Sequence[Row], batch_size: int, run: CompiledFunction, *columns: np.ndarray
    ) -> list[dict[str, np.ndarray]]:
        """Calls a function of ids, segments and columns, with rows of similar lengths together."""
        if not len(rows):
            return []

        def compute(inputs: Mapping[str, np.ndarray], members: np.ndarray) -> Any:
            own = [column[members] for column in columns]
            return run(inputs["token_ids"], 1, inputs["segment_ids"], *own)

        settings = {"shuffle": False, "rows_multiple_of": 1, "segments": True}
        return self.row_batches(rows, batch_size=batch_size, **settings).computed(compute)

    def row_inputs(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns a dict of the inputs of the model for R rows.

        Args:
            rows: A dict with `row_ids (R, T)`, the padded ids; `row_sizes (R,)`, the number of ids
                of each row; and `row_seconds (R,)`, the index where its second segment starts.
        """
        columns = ops.arange(ops.shape(rows["row_ids"])[1], dtype="int32")
        second = columns >= rows["row_seconds"][:, None]
        second = ops.logical_and(second, columns < rows["row_sizes"][:, None])
        return self.encoded(rows["row_ids"], ops.cast(second, "int32"))

    def encoded(self, ids: Tensor, segments: Tensor) -> dict[str, Tensor]:
        """Returns a dict of the inputs of the model for ids and segments `(B, T)`."""
        ids = ops.convert_to_tensor(ids)  # Keras refuses dicts of tensors and arrays
        inputs = {
            "token_ids": ids,
            "segment_ids": ops.convert_to_tensor(segments),
            "padding_mask": ops.not_equal(ids, self.tokenizer.pad_id),
        }
        return {name: value for name, value in inputs.items() if name in self.model.input}

    def logits(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes the logits of each head, float32, keyed by head, for inputs of the model."""
        found = self.model(dict(inputs), training=False)
        return {name: ops.cast(values, "float32") for name, values in found.items()}


def row_lists(rows: Mapping[str, np.ndarray]) -> list[Row]:
    """Converts the arrays of `TextRows` to a list of rows for `EncoderTask.row_batches`."""
    columns = (rows[name] for name in ("row_ids", "row_sizes", "row_seconds"))
    return [(ids[:size], int(second)) for ids, size, second in zip(*columns, strict=True)]
