"""Base class of tasks that read a text or a pair of texts as one row of tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from keras import ops

from keras_attn.arrays import Array
from keras_attn.batches import EncoderBatches, TextBatches
from keras_attn.explain import study_texts
from keras_attn.explain.attributions import has_attention, has_self_attention
from keras_attn.explain.methods import checked_method, path_of, weighed_tokens
from keras_attn.fields import (
    ODD_TEXTS,
    EncoderInput,
    PaddedNumbers,
    Signature,
    TextRows,
    Tokens,
    checked_inputs,
)  # fmt: skip
from keras_attn.fields.encoder_input import ReadText
from keras_attn.fields.signature import OutputField
from keras_attn.fields.text import sides_of
from keras_attn.hints import Tensor
from keras_attn.models import TEXT_CLASSIFIERS
from keras_attn.models.text_classifier import classifier_config
from keras_attn.records.labelled_texts import Input
from keras_attn.settings import setting
from keras_attn.tasks.base.backbones import BackboneData, refuse_new_tokenizer, sizes_of
from keras_attn.tasks.base.checks import check_padding
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.word_vectors import train_words
from keras_attn.tasks.families.beginnings import beginning
from keras_attn.tasks.families.data_settings import LimitedFiles, NearDuplicates, Tables, column
from keras_attn.tasks.families.encoder_task import row_lists
from keras_attn.tasks.families.frozen_head import fit_layer
from keras_attn.tasks.families.row_predictions import RowPredictions
from keras_attn.tasks.families.use_settings import WeighedUse
from keras_attn.text import TOKENIZERS
from keras_attn.text.registry import train_pieces
from keras_attn.text.truncation import TRUNCATIONS, checked_truncation
from keras_attn.training.token_statistics import TOKEN_WEIGHTS, set_token_weights


@dataclass(frozen=True)
class TextRowsData(BackboneData, Tables, NearDuplicates, LimitedFiles):
    """Settings of the files of texts, and of the tokens that are read."""

    text: str = column("text", "texts")
    text_pair: str = column("", "second texts, to classify pairs of texts")
    tokenizer: str = setting(
        "word_piece", "kind of tokenizer, without --backbone", choices=tuple(TOKENIZERS)
    )
    vocabulary_file: str = setting(
        "", "vocab.txt of BERT, which is used instead of a new vocabulary; without --backbone",
        shapes_result=False, path="file",
    )  # fmt: skip
    max_length: int = setting(256, "largest number of tokens of a text", at_least=2)
    truncation: str | None = setting(
        None, "part of a long text that is kept; if none, head_tail. If a pair is too long, "
            "the end of its longer text is cut off",
        kind=str, choices=TRUNCATIONS,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word_vectors and self.tokenizer != "words":
            raise ValueError(
                "`word_vectors` require whole words: tokenizer='words' (--tokenizer words). "
                f"Received: tokenizer={self.tokenizer!r}."
            )
        if self.vocabulary_file and self.tokenizer != "word_piece":
            raise ValueError(
                "`vocabulary_file` is only used with tokenizer='word_piece'. Received: "
                f"`vocabulary_file` with tokenizer={self.tokenizer!r}."
            )
        refuse_new_tokenizer(self, "tokenizer", "vocabulary_size", "vocabulary_file")


class TextRowsTask(RowPredictions):
    """Base class of tasks that read a text, or a pair of texts, as one row of tokens.

    `.model` is one of `TEXT_CLASSIFIERS`, whose layer `head` has `num_outputs` outputs. A subclass
    defines the meaning of these outputs, and the `targets` to which they are fitted.
    """

    kinds = TEXT_CLASSIFIERS
    examples_are = "texts"
    reads = "pairs"
    input_columns: ClassVar = {"text": "text", "text_pair": ""}
    backbone: ClassVar = {
        "embedding": ("source_embedding",), "positions": (), "encoder": (), "pooler": (),
        "pooler_norm": (),
    }  # fmt: skip
    data: Any

    # What a task writes

    @property
    def num_outputs(self) -> int:
        """Number of outputs of the model."""
        raise NotImplementedError

    @property
    def temperature(self) -> float:
        """Number that divides the logits; 1 for tasks without probabilities."""
        return 1.0

    @property
    def multi_label(self) -> bool:
        """Whether each output is an independent number, instead of one class among several."""
        return True

    def of_classes(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Returns the checked examples from which the model learns; by default all of them."""
        return examples

    def targets(self, examples: Sequence[Any]) -> np.ndarray:
        """Returns the targets of the outputs for examples: classes `(n,)`, labels `(n, C)` of 0 and
        1, or numbers `(n,)`."""
        raise NotImplementedError

    def weights_for(self, targets: np.ndarray, training: Any) -> np.ndarray | None:
        """Returns the weight of each example in the loss, `(n,)`, or None for equal weights.

        Args:
            targets: The result of `targets`.
            training: Settings of class `Training`.
        """
        return None

    def token_classes(self, examples: Sequence[Any]) -> np.ndarray:
        """Returns the class of each checked example, from which token weights are initialized."""
        raise NotImplementedError

    # What is written once

    @property
    def pairs(self) -> bool:
        """Whether the task reads pairs of texts."""
        return self.learned.pairs

    @property
    def truncation(self) -> str:
        """Which part of a long text is kept: `"head"`, `"tail"` or `"head_tail"`."""
        return checked_truncation(self.data.truncation, self.pairs)

    @property
    def field(self) -> EncoderInput:
        """The field that converts texts, or pairs of texts, to rows of ids."""
        ends = getattr(self.config, "special_tokens", False)
        return EncoderInput(
            self.tokenizer,
            self.max_length,
            start=ends or getattr(self.config, "pooling", None) == "first",
            end=ends,
            between=getattr(self.config, "ends_between", 1),
            truncation=self.truncation,
        )

    def exported_rows(self) -> tuple[EncoderInput, Mapping[str, np.ndarray]]:
        """Returns the field that encodes texts, and a dict of inputs of `model` for checking an
        export: ordinary and unusual texts, encoded by the field."""
        return self.field, {self.model.input.name: self.field.encode(self.field.examples)[0]}

    def configured(self, model: Any) -> Any:
        """Returns the settings object of the model, with positions for `max_length` tokens."""
        learned, max_length = self.learned, self.max_length
        self.reads = "only_pairs" if learned.pairs else "lines"
        sizes = {**sizes_of(learned.tokenizer), "num_classes": self.num_outputs}
        separator_id = learned.tokenizer.end_id if learned.pairs else None
        config = classifier_config(model, max_length, separator_id, **sizes)
        if getattr(config, "first_position", None) is None and not hasattr(config, "pad_id"):
            check_padding(learned.tokenizer)
        self.config = config  # the field depends on it
        if learned.pairs and self.field.room < 2 + len(self.field.between):
            raise ValueError(
                "`max_length` must leave room for a token of each text and the separator. "
                f"Received: {max_length}."
            )
        return config

    def facts(self) -> list[str]:
        """Returns texts for the `repr`, including whether the task reads pairs of texts."""
        kind, *facts = super().facts()
        return [kind, *(["pairs of texts"] if self.pairs else []), *facts]

    @classmethod
    def unlike(cls, learned: Any, examples: Any, data: Any) -> str:
        """Returns whether examples are pairs of texts, and a saved task reads single texts, or the
        reverse; empty otherwise."""
        pairs = cls.checked(examples)[0].second is not None
        kinds = "single texts", "pairs of texts"
        return "" if pairs == learned.pairs else f"{kinds[pairs]}, instead of {kinds[not pairs]}"

    @classmethod
    def begin_with(
        cls, examples: Sequence[Any], data: Any, model: Any, learn: Callable[[Any], Learned]
    ) -> Beginning:
        """Returns the `Beginning` of a new task: tokenizer, learned values and model.

        Args:
            examples: Checked training examples.
            data: Settings of class `Data`.
            model: Settings of the model, as for `create`.
            learn: Function that returns the learned values for a tokenizer.
        """

        def texts() -> list[str]:
            return [text for x in examples for text in (x.text, x.second) if text is not None]

        def train(texts: list[str]) -> Any:
            size = data.vocabulary_size
            if data.tokenizer == "words":
                return train_words(texts, size, data)
            return train_pieces(data.tokenizer, texts, size, data.vocabulary_file)

        return beginning(cls, data, model, texts, train, learn)

    def created(self, examples: Sequence[Any]) -> None:
        """Initializes token weights from statistics of texts, if the model has token weights."""
        weights = getattr(self.config, "token_weights", None)
        if weights in TOKEN_WEIGHTS:
            self.initialize_token_weights(examples, weights)

    def initialize_token_weights(
        self, examples: Iterable[object], kind: str = "association"
    ) -> None:
        """Initializes the learned token and pair weights of a bag from statistics of texts.

        Args:
            examples: Training texts with their labels.
            kind: `"association"`: the association of a token with the class (see
                `keras_attn.training.token_statistics.class_association`) or, in regression, with
                numbers above the median. `"idf"`: TF-IDF weights.

        Raises:
            ValueError: If `kind` is unknown, or the model has no token weights.
        """
        checked = self.of_classes(self.checked(examples))
        sides = map(self.tokenizer.encode, sides_of(self.asked(self.inputs_of(checked))))
        rows = [ids for ids, _ in self.field.rows(*sides)]  # a bag reads no special tokens
        set_token_weights(self.model, rows, self.token_classes(checked), kind)

    def inputs_of(self, examples: Sequence[Any]) -> list[Input]:
        """Returns the texts, or the pairs of texts, of checked examples."""
        return [example.input for example in examples]

    def asked(self, inputs: Any) -> list[Input]:
        """Checks inputs, and returns them as a list of texts, or of pairs of texts."""
        return checked_inputs(inputs, self.pairs)

    def labelled_batches(
        self, inputs: list[Input], labels: np.ndarray, weights: np.ndarray | None, **settings: Any
    ) -> TextBatches:
        """Returns training batches of texts, or of pairs that are joined to one row each.

        Args:
            inputs: Texts, or pairs of texts.
            labels: Labels as numbers, `(n,)`, or `(n, C)` of 0 and 1.
            weights: The weights of examples in the loss, or None.
            **settings: Settings of the batches, such as `batch_size`.
        """
        field, sides = self.field, [self.tokenizer.encode(side) for side in sides_of(inputs)]
        first, last = len(field.start), len(field.end)
        rows = [ids[first : len(ids) - last] for ids, _ in field.rows(*sides)]
        between = len(field.between) * (len(sides) - 1)
        settings = {
            "max_length": self.max_length,
            "given_lengths": [between + sum(map(len, x)) for x in zip(*sides, strict=True)],
            "start_id": self.tokenizer.start_id if first else None,
            "end_id": self.tokenizer.end_id if last else None,
            "pad_id": self.tokenizer.pad_id,
            **settings,
        }
        return TextBatches(rows, labels, weights, **settings)

    def describe(self, batches: TextBatches) -> list[str]:
        """Returns lines for the log about the model, the batches and the cut texts."""
        lines = super().describe(batches)
        if batches.truncated:
            lines.append(
                f"{batches.truncated:,} texts are longer than {self.max_length} tokens and "
                f"shortened ({self.truncation}): {batches.lost_share:.1%} of all tokens are not "
                "read."
            )
        return lines

    def cases(self, training: Any) -> list[str]:
        """Returns the cases of `RunDefault` for a training run, such as `"head"`."""
        head = getattr(training, "tune", "all") == "head"
        return [*super().cases(training), *(["head"] if head else [])]

    def prepare(
        self, examples: Sequence[Any], dev: Sequence[Any], training: Any, log: Callable[[str], Any]
    ) -> None:
        """Fits the layer `head` before the first epoch, unless `training.tune` is `"all"`."""
        super().prepare(examples, dev, training, log)
        if getattr(training, "tune", "all") == "all":
            return
        settings: dict[str, Any] = {"shuffle": False, "batch_size": self.Use.batch_size}
        targets, *held = (self.targets(side) for side in (examples, dev) if len(side))
        sides = [(self.dataset(examples, **settings), targets)]
        sides += [(self.dataset(dev, **settings), x) for x in held]
        weights = self.weights_for(targets, training)
        log(fit_layer(self.model, sides, weights, training.seed))

    def rows_of(self, tensors: Mapping[str, Any], **settings: Any) -> EncoderBatches:
        """Returns batches of encoded inputs; `settings` are settings of `EncoderBatches`."""
        sizes = {"pad_id": self.tokenizer.pad_id, "max_length": self.max_length}
        return EncoderBatches(row_lists(tensors), **sizes, **settings)

    def arrays_of(
        self, inputs: Mapping[str, np.ndarray], members: np.ndarray, tensors: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """Returns a dict of `row_ids (B, T)`, and of `row_seconds (B,)`, the positions where the
        second segments begin."""
        seconds = tensors["row_seconds"][members]
        return {"row_ids": inputs["token_ids"], "row_seconds": seconds}

    def weighed(
        self, tensors: Mapping[str, Array], method: str | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Computes logits and, with a method, the weights of tokens.

        Args:
            tensors: A dict of `row_ids (B, T)`, `row_seconds (B,)`, and optionally `explained
                (B,)`, the indices of the outputs whose gradients are computed.
            method: One of `keras_attn.explain.methods.METHODS`, or None.

        Returns:
            The logits `(B, C)`, and a dict, which is empty if `method` is None. Otherwise, the dict
            has `ids`, `weights` and `segments`, an array each with a row for each of the B rows,
            without special tokens, and `sizes (B,)`, the number of ids of each row.
        """
        rows = ops.convert_to_tensor(tensors["row_ids"])
        if method is None:
            return self.model(rows, training=False), {}
        classes = tensors.get("explained")
        path = path_of(method, self.tokenizer, self.field)
        settings = (self.multi_label, classes, path, self.temperature)
        logits, weights = weighed_tokens(self.model, rows, method, *settings)
        weights = ops.cast(weights, "float32")
        places = ops.cumsum(ops.ones_like(rows), axis=1) - 1
        segments = ops.cast(places >= ops.expand_dims(tensors["row_seconds"], 1), "int32")
        sizes, ids, weights, segments = self.field.between_ends(rows, weights, segments)
        return logits, {"ids": ids, "sizes": sizes, "weights": weights, "segments": segments}

    def checked_method(self, method: str | None) -> str:
        """Returns `method`, or the default of the model if None; raises a ValueError if the model
        does not support it."""
        if method == "attention" and has_self_attention(self.model):
            return method
        return checked_method(self.model, method)

    def shown(self, inputs: Sequence[Input], use: WeighedUse) -> Any:
        """Returns an `Explanation` with the weights of the tokens for each input, or an
        `EncoderStudy` for `method="attention"` if the model has only self-attention."""
        if use.method == "attention" and not has_attention(self.model):
            return study_texts(self.model, self.field, inputs)
        return super().shown(inputs, use)

    def read_off(
        self, inputs: Sequence[Input], found: Mapping[str, Any]
    ) -> Iterator[tuple[ReadText, np.ndarray]]:
        """Yields the tokens of each text or pair, and the weights of the tokens `(T,)`."""
        for i, read in enumerate(self.field.read(inputs)):
            yield read, found["weights"][i][: len(read.tokens)]

    def with_tokens(self, outputs: Mapping[str, OutputField]) -> Signature:
        """Returns the signature from texts to `outputs`, the tokens and the weights of tokens."""
        field = self.field
        tokens: dict[str, OutputField] = {
            "tokens": Tokens(field, "ids", "sizes"),
            "weights": PaddedNumbers("weights", "sizes"),
        }
        if self.pairs:
            tokens["segments"] = PaddedNumbers("segments", "sizes")
        names = ("text", "second") if self.pairs else ("text",)
        return Signature(names, TextRows(field), {**outputs, **tokens})

    def export_examples(self) -> dict[str, Any]:
        """Returns ordinary and unusual texts for checking an export, keyed by input."""
        second = {"second": ODD_TEXTS[3:] + ODD_TEXTS[:3]} if self.pairs else {}
        return {"text": ODD_TEXTS, **second}

    def checked_use(self, use: WeighedUse) -> WeighedUse:
        """Returns the settings of an export. If `method` is None, it becomes `"attention"` if the
        pooling has weights, else `"gradient"`: a SavedModel computes the weights in each call."""
        default = "attention" if has_attention(self.model) else "gradient"
        return dataclasses.replace(use, method=checked_method(self.model, use.method or default))
