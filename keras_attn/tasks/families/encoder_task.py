"""Base class of tasks with heads on a text encoder, such as a pretrained BERT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from keras import ops

from keras_attn.batches import EncoderBatches
from keras_attn.explain import Explanation, study_texts
from keras_attn.explain.attributions import encoder_gradient_function
from keras_attn.explain.methods import path_of
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
    `.model` is the plain Keras model, which returns a dict of logits, keyed by head.

    Args:
        tokenizer: A `WordPieceTokenizer`, a `SentencePieceTokenizer`, a `BytePairTokenizer` with
            `normalize=False`, as for RoBERTa, or a `WordTokenizer`.
        model: The encoder: the name of one of `keras_attn.models.ENCODERS`, its settings object,
            such as a `BertConfig`, a dict of settings, or None for the defaults of BERT. The
            tokenizer determines the vocabulary size and the padding id.
        data: Settings of the data, such as `max_length`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Attributes:
        heads: Names of the heads, as in `keras_attn.models.with_heads`.

    Raises:
        TypeError: If the class of the tokenizer is not supported, a setting has the wrong type, or
            a setting in `data` is unknown.
        ValueError: If a setting in `model` is unknown, a setting is out of range, the encoder has
            fewer positions than `max_length`, or the tokenizer normalizes texts.
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
        """Returns a dict of the `vocabulary_size`, `pad_id` and `first_position` of the encoder,
        which depend on the tokenizer."""
        return sizes_of(self.tokenizer)

    def configured(self, model: Any) -> Any:
        """Returns the settings object of the encoder, including its sizes; called by the
        constructor.

        Args:
            model: The argument of the constructor: a name, a dict, a settings object or None.

        Raises:
            TypeError: If a setting has the wrong type.
            ValueError: If a setting is unknown or out of range, or `max_length` is greater than
                the encoder's number of positions.
        """
        config = super().configured(model)
        if config.sequence_length < self.max_length:
            raise ValueError(
                f"`max_length` must be at most {config.sequence_length}, the number of "
                f"positions of the encoder. Received: {self.max_length}."
            )
        return config

    def build(self, dtype: Any) -> None:
        """Builds the encoder with its `heads`, and assigns the Keras model to `.model`; called by
        the constructor.

        Args:
            dtype: Dtype or policy of the layers.
        """
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
        """Returns the texts that the `repr` shows: the name of the architecture, the vocabulary
        size, and the number and width of the layers."""
        return [
            self.kinds.name_of(self.config),
            f"{self.tokenizer.vocabulary_size:,} tokens",
            f"{self.config.num_layers} layers of {self.config.dim}",
        ]

    # What it starts from

    @classmethod
    def texts_of(cls, examples: Any, data: Any) -> Iterable[str]:
        """Returns the texts of examples, on which a new tokenizer is trained.

        `begin` calls this method if there is no backbone. A subclass must override it.

        Args:
            examples: Checked training examples.
            data: Settings of class `Data`.
        """
        raise NotImplementedError

    @classmethod
    def learn_beside(cls, tokenizer: EncoderTokenizer, examples: Any, data: Any) -> EncoderLearned:
        """Returns the learned values of a new task, an instance of `Learned`; called by `begin`.

        By default, the only learned value is the tokenizer. A subclass may add others, such as
        labels.

        Args:
            tokenizer: The tokenizer of the backbone or of the word vectors, or a tokenizer trained
                on the texts.
            examples: Checked training examples.
            data: Settings of class `Data`.
        """
        return cls.Learned(tokenizer)

    @classmethod
    def begin(cls, examples: Any, data: Any, model: Any, dtype: Any, **parts: Any) -> Beginning:
        """Returns the `Beginning` of a new task: its learned values, the settings of its encoder,
        and the backbone or word vectors that it starts from. Called by `create`.

        Args:
            examples: Training examples.
            data: Settings of class `Data`.
            model: Settings of the encoder, as for `create`.
            dtype: Not used.
            **parts: Not used.
        """
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
        """Chooses the tokenizer and the encoder of a new task; called by `begin`.

        Args:
            texts: Function that returns the training texts. It is called only if there is no
                backbone.
            data: Settings of class `Data`.
            model: Settings of the encoder, as for `create`.
            learn: Function that receives the tokenizer and returns the learned values, an instance
                of `Learned`.

        Returns:
            A `Beginning`: the learned values, the settings of the encoder, and the backbone or word
            vectors that the task starts from.
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
        """Returns what `export` needs for ONNX and LiteRT files.

        Returns:
            The field that encodes texts; and a dict of inputs of `model` for checking the export:
            ordinary and unusual texts, encoded by the field.
        """
        ids, segments = self.field.encode(self.field.examples)
        tensors = self.encoded(ids, segments)
        return self.field, {name: ops.convert_to_numpy(x) for name, x in tensors.items()}

    # Explanations

    def studied(self, inputs: list[Any]) -> list[Any]:
        """Returns the texts or pairs of texts whose attention `explain` shows with
        `method="attention"`; by default, the inputs.

        Args:
            inputs: Checked inputs.
        """
        return inputs

    def reasons(self, inputs: list[Any], use: Any) -> list[Explanation]:
        """Explains results by gradients or integrated gradients; called by `explain` unless
        `use.method` is `"attention"`.

        A subclass must override it. `explain` has the docstring of the override, and accepts its
        keyword-only arguments.

        Args:
            inputs: Checked inputs, at least one.
            use: Settings of class `Use`.

        Returns:
            An `Explanation` for each input.
        """
        raise NotImplementedError

    def explained(self, inputs: list[Any], use: Any, **more: Any) -> Any:
        """Computes the result of `explain` for a list of inputs: with `use.method="attention"`, the
        attention of all heads; otherwise, the result of `reasons`.

        Args:
            inputs: Checked inputs.
            use: Settings of class `Use`.
            **more: Keyword-only arguments of `reasons`. With `use.method="attention"`, they must be
                None.

        Returns:
            With `use.method="attention"`, an `EncoderStudy` of the texts in `studied(inputs)`;
            otherwise a list with an `Explanation` for each input.

        Raises:
            ValueError: If `use.method` is `"attention"`, and an argument in `more` is not None,
                there is no input, or the encoder has no attention.
        """
        if use.method != "attention":
            return self.reasons(inputs, use, **more) if inputs else []
        for name, value in more.items():
            if value is not None:
                raise ValueError(
                    f"`{name}` is only used with method='gradient' or "
                    f"method='integrated_gradients'. Received: {name}={value!r} with "
                    "method='attention'."
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
        """Creates batches of rows for training or prediction.

        Args:
            rows: For each row, a tuple of its ids, including special tokens, and the index where
                its second segment starts.
            labels: A dict of the labels of all rows, keyed by head; None for batches of inputs
                only.
            weights: Weight of each row in the loss, `(R,)` for R rows; 1 if None.
            **settings: Settings of `EncoderBatches`, such as `batch_size`, which override
                `layout`.

        Returns:
            An `EncoderBatches`.
        """
        token_labels = self.token_labels if labels else ()
        settings = {"token_labels": token_labels, **self.layout, **settings}
        return EncoderBatches(rows, labels, weights, **settings)

    def compute(
        self, rows: Sequence[Row], batch_size: int, function: Any = None
    ) -> list[dict[str, np.ndarray]]:
        """Computes the outputs of a function for rows, in batches of rows of similar lengths.

        Args:
            rows: For each row, a tuple of its ids, including special tokens, and the index where
                its second segment starts.
            batch_size: Number of rows that are computed at once.
            function: Function from a dict of the inputs of the model to a dict of batch-first
                tensors; None for `logits`. It is compiled once for each function object, so pass
                the same object in each call.

        Returns:
            For each row, a dict of arrays without the batch axis, keyed as in the result of
            `function`. Arrays with an entry for each token include padding.
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
        method: str = "gradient",
    ) -> list[np.ndarray]:
        """Computes the contribution of each token to a number for each row.

        Args:
            rows: For each row, a tuple of its ids, including special tokens, and the index where
                its second segment starts.
            pick: Function that receives the logits of B rows, a dict keyed by head, and the entries
                of `index` for these rows. It returns the numbers to explain, `(B,)`. It is compiled
                once for each function object, so pass the same object in each call.
            index: Array of numbers with an entry for each row; converted to float32 if the numbers
                are floats, otherwise to int32.
            batch_size: Number of rows that are computed at once.
            method: `"gradient"` for gradient times input, or `"integrated_gradients"`.

        Returns:
            A list with the contributions of the tokens of each row, float32 `(T,)` for a row of T
            ids.
        """

        path = path_of(method, self.tokenizer, self.field)

        def make() -> CompiledFunction:
            ask = encoder_gradient_function(self.model, pick, path)
            return CompiledFunction(
                lambda ids, length, segments, index: {
                    "weights": ask(self.encoded(ids, segments), index)[1]
                },
                self.model,
            )

        index = np.asarray(index)
        index = index.astype("float32" if index.dtype.kind == "f" else "int32")
        run = self.kept(make, method, pick)
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
        """Returns a dict of the inputs of the model for R rows, each `(R, T)`; see `encoded`.

        Args:
            rows: A dict with `row_ids (R, T)`, the padded ids; `row_sizes (R,)`, the number of ids
                of each row; and `row_seconds (R,)`, the index where its second segment starts.
        """
        columns = ops.arange(ops.shape(rows["row_ids"])[1], dtype="int32")
        second = columns >= rows["row_seconds"][:, None]
        second = ops.logical_and(second, columns < rows["row_sizes"][:, None])
        return self.encoded(rows["row_ids"], ops.cast(second, "int32"))

    def encoded(self, ids: Tensor, segments: Tensor) -> dict[str, Tensor]:
        """Returns a dict of the inputs of the model for a batch of rows.

        Args:
            ids: Ids, int32 `(B, T)`, padded on the right.
            segments: Segment of each id, 0 or 1, int32 `(B, T)`.

        Returns:
            A dict with `token_ids`, `padding_mask` (True for ids other than padding) and
            `segment_ids`, each `(B, T)`, without those that the model does not have.
        """
        ids = ops.convert_to_tensor(ids)  # Keras refuses dicts of tensors and arrays
        inputs = {
            "token_ids": ids,
            "segment_ids": ops.convert_to_tensor(segments),
            "padding_mask": ops.not_equal(ids, self.tokenizer.pad_id),
        }
        return {name: value for name, value in inputs.items() if name in self.model.input}

    def logits(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes the logits of each head for a batch of inputs of the model.

        Args:
            inputs: A dict of the inputs of the model, such as the result of `encoded`.

        Returns:
            A dict of float32 tensors, keyed by head. `keras_attn.models.with_heads` describes their
            shapes.
        """
        found = self.model(dict(inputs), training=False)
        return {name: ops.cast(values, "float32") for name, values in found.items()}


def row_lists(rows: Mapping[str, np.ndarray]) -> list[Row]:
    """Converts the arrays of `TextRows` to a list of rows for `EncoderTask.row_batches`."""
    columns = (rows[name] for name in ("row_ids", "row_sizes", "row_seconds"))
    return [(ids[:size], int(second)) for ids, size, second in zip(*columns, strict=True)]
