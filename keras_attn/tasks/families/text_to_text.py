"""Base class of tasks that generate a text from a text."""

from __future__ import annotations

import dataclasses
import functools
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attn.batches import TokenBatches
from keras_attn.explain import Alignment
from keras_attn.explain.translations import aligned
from keras_attn.fields import (
    ODD_TEXTS,
    AttentionWeights,
    GeneratedText,
    Numbers,
    ReadableTokens,
    Signature,
    SourceText,
    checked_texts,
)
from keras_attn.fields.signature import OutputField
from keras_attn.models import ENCODER_DECODERS, RecurrentEncoderDecoderConfig
from keras_attn.settings import Settings, setting
from keras_attn.tasks.base.checks import Pairs, check_padding, checked_pairs
from keras_attn.tasks.base.served_numbers import own_numbers
from keras_attn.tasks.base.steps import step
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.families.from_others import FromOthers
from keras_attn.tasks.families.served_xla import with_xla
from keras_attn.tasks.families.use_settings import TextSearchUse
from keras_attn.text.readable import readable_tokens
from keras_attn.text.registry import TextTokenizer, vocabulary_digest
from keras_attn.training import MaskedCrossEntropy, num_data_shards
from keras_attn.training.token_means import token_means
from keras_attn.visualize import AttentionView, attention_viewer


@dataclass(frozen=True)
class WrittenScores(Settings):
    """Settings of the scores of texts that the model generates after epochs."""

    score_epochs: int = setting(1, "epochs between two scores of the development set", at_least=1)
    score_pairs: int = setting(
        500, "development pairs that are {written} for each of these scores", at_least=1
    )
    score_beams: int = setting(
        1, "width of the beam search for these scores; 1 is greedy", at_least=1
    )


class TextToText(FromOthers):
    """Base class of tasks that read a text and write a text, with an encoder-decoder of
    `ENCODER_DECODERS`.

    Its examples are (source, target) pairs. A subclass defines the name and the maximum length of a
    target.
    """

    kinds = ENCODER_DECODERS
    gives: ClassVar[tuple[str, str]]
    """Name of a generated text in singular and plural, such as `("summary", "summaries")`."""
    written_by: ClassVar[str] = ""
    """Name of the score of generated texts by which the best weights are chosen."""
    long_sources: ClassVar[str] = "Split them."
    """Advice in the warning about texts that are longer than the model reads."""
    examples_are = "pairs"
    inputs_are = "a string or a list of strings"
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    page: Any = staticmethod(attention_viewer)
    main_layer = "encoder"

    # What it reads

    @property
    def target_tokenizer(self) -> TextTokenizer:
        """The tokenizer of target texts, which may be the tokenizer of source texts."""
        return getattr(self.learned, "target_tokenizer", None) or self.learned.tokenizer

    @property
    def max_source_length(self) -> int:
        """Maximum number of tokens of a source; longer sources are cut."""
        return self.data.max_length

    def source_field(self, graph: Callable[[], Any] | None = None) -> SourceText:
        """Returns the field that converts texts to rows of ids.

        Args:
            graph: Function that returns the tokenizer in a TensorFlow graph, so that several fields
                can share it.
        """
        ends = self.learned.source_ends
        return SourceText(self.source_tokenizer, self.max_source_length, graph, ends=ends)

    @property
    def field(self) -> SourceText:
        """The field that converts texts to rows of ids with the default settings."""
        return self.field_of(self.used({}))

    def field_of(self, use: Any, graph: Callable[[], Any] | None = None) -> SourceText:
        """Returns the field that converts texts to rows of ids with settings of class `Use`.

        Args:
            use: Settings of class `Use`, which subclasses may read.
            graph: As in `source_field`.
        """
        return self.source_field(graph)

    def model_sizes(self) -> dict[str, Any]:
        """Returns the vocabulary sizes, the padding id, and whether targets start with padding,
        keyed by their names in the settings of the model."""
        source, target = self.source_tokenizer, self.target_tokenizer
        sizes = {
            "source_vocabulary_size": source.vocabulary_size,
            "target_vocabulary_size": None if target is source else target.vocabulary_size,
            "pad_id": target.pad_id,
            "starts_with_padding": target.start_id == target.pad_id,
        }
        if target is not source and source.vocabulary == target.vocabulary:
            del sizes["target_vocabulary_size"]  # the model says whether embeddings are shared
        return sizes

    def configured(self, model: Any) -> Any:
        """Returns the settings object of the model; raises a ValueError if the model requires
        padding id 0, but a tokenizer has another padding id."""
        config = super().configured(model)
        if not hasattr(config, "pad_id"):
            check_padding(self.source_tokenizer)
            check_padding(self.target_tokenizer)
        return config

    # Training

    def _id_batches(
        self, kind: type, sources: list[list[int]], targets: list[list[int]], /, **settings: Any
    ) -> Any:
        tokenizer = self.target_tokenizer
        return kind(
            sources,
            targets,
            start_id=tokenizer.start_id,
            end_id=tokenizer.end_id,
            pad_id=tokenizer.pad_id,
            **{"rows_multiple_of": num_data_shards(), **settings},
        )

    def batches(self, examples: Pairs, training: Any, shuffle: bool = True) -> TokenBatches:
        """Creates the batches of a training run with `dataset`; each batch has about
        `training.tokens_per_batch` tokens."""
        tokens, seed = training.tokens_per_batch, training.seed
        return self.dataset(examples, tokens_per_batch=tokens, seed=seed, shuffle=shuffle)

    def objective(self, training: Any) -> dict[str, Any]:
        """Returns a dict with the `loss`: the cross-entropy of real tokens with label smoothing."""
        pad_id = self.target_tokenizer.pad_id
        return {"loss": MaskedCrossEntropy(training.label_smoothing, ignore_id=pad_id)}

    def scored_by(self, training: Any) -> tuple[str, int]:
        """Returns the name of the score of generated texts, and 1, because higher is better."""
        return self.written_by, 1

    def score_of(
        self, written: list[str], pairs: list[tuple[str, str]], training: Any
    ) -> tuple[str, float]:
        """Scores generated texts.

        Args:
            written: The generated texts.
            pairs: The development pairs, whose targets are the references.
            training: Settings of class `Training`.

        Returns:
            The name and the value of the score by which the best weights are chosen.
        """
        raise NotImplementedError

    def scorer(self, dev: Pairs, training: Any) -> Callable[[keras.Model], Scored]:
        """Returns a function that scores generated texts for the first `training.score_pairs`
        development pairs, and computes the loss of all pairs.

        If scores are equal, the weights with the lower loss are better, because BLEU is 0 as long
        as no four consecutive words are right.
        """
        pairs = checked_pairs(dev)
        batches = self.batches(pairs, training, shuffle=False)
        some = pairs[: training.score_pairs]

        def score(model: keras.Model) -> Scored:
            loss = token_means(model, batches)["loss"]
            sources = [source for source, _ in some]  # the batches have said which are cut
            written = self._written(sources, self.used({"beams": training.score_beams}))
            name, value = self.score_of(written, some, training)
            return Scored((value, -loss), {"val_loss": loss, f"val_{name}": value})

        return score

    def describe(self, batches: Any) -> list[str]:
        """Returns lines for the log about the model, the batches and pairs that are left out."""
        lines = super().describe(batches)
        if batches.dropped:
            lines.append(f"{batches.dropped:,} pairs are longer than a row and left out.")
        return lines

    # Measuring

    @classmethod
    def checked(cls, pairs: Pairs) -> list[tuple[str, str]]:
        """Checks examples, and returns them as a list of (source, target) pairs of strings."""
        return checked_pairs(pairs)

    def inputs_of(self, pairs: list[tuple[str, str]]) -> list[str]:
        """Returns the source texts of pairs."""
        return [source for source, _ in pairs]

    def measured(self, pairs: list[tuple[str, str]], use: Any) -> tuple[list[str], Any]:
        """Generates a text for each source; returns the texts and the settings `use`."""
        return super().measured(pairs, use), use

    # Predictions

    def results(self, texts: list[str], use: Any, *, jit_compile: bool | None = None) -> list[str]:
        """Generates a text for each input text.

        Args:
            texts: A string or a list of strings.
            use: Settings of class `Use`.
            jit_compile: Whether TensorFlow uses XLA, which takes seconds to compile each shape of
                batches and is then faster. If None, TensorFlow uses it where it is worthwhile; see
                docs/speed.md. JAX always uses XLA, and PyTorch never does.

        Returns:
            A string for a string, or a list of strings for a list, in the order of `texts`.

        Raises:
            TypeError: If an input is not a string, or a setting is unknown or has the wrong type.
            ValueError: If a setting is out of range.
        """
        return self._written(texts, use, jit_compile, stacklevel=7)

    def _written(
        self, texts: list[str], use: Any, jit_compile: bool | None = None, stacklevel: int = 0
    ) -> list[str]:
        """The texts that are written for texts; with a `stacklevel`, those cut are warned of."""
        signature = self.signatures(use)["serving_default"]
        rows = signature.field.encode(texts)
        if stacklevel:
            self._warn_of_cut(rows["cut"], stacklevel)
        rows |= self.computed(rows, signature.use, jit_compile)
        return signature.outputs[self.gives[0]].decode(rows)

    def source_rows(self, inputs: list[str], use: Any) -> Sequence[Any]:
        """Returns the ids of each text, with a warning about texts that are cut."""
        rows = self.field.encode(inputs)
        self._warn_of_cut(rows["cut"], stacklevel=4)
        return rows["source_ids"]

    def _alignment(
        self, text: str, source: list[int], target: list[int], weights: np.ndarray
    ) -> Alignment:
        read = self.field.read(text)
        return aligned(self.source_tokenizer, source, self.target_tokenizer, target, weights, read)

    def align(self, source: str, target: str | None = None, layer: int = -1) -> Alignment:
        """Returns the attention weights of each target token to the source tokens.

        Args:
            source: The source text.
            target: The text that is aligned with `source`; if None, the model generates it.
            layer: Index of the cross-attention (a Transformer has one in each decoder block),
                counted from 0; negative indices count from the end.

        Returns:
            An `Alignment` of readable tokens and weights `(T, S)`, with T target tokens and S
            source tokens. Each target token, including the end token, is aligned at the step that
            predicts it.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If the model has no cross-attention with the index `layer`, or the target
                exceeds the maximum length of generated texts.
        """
        read, ids = self._read_and_written(source, target, self.used({}), stacklevel=4)
        most = self.longest(self.max_source_length)
        if len(ids) > most:
            raise ValueError(
                f"`target` must have at most {most} tokens, including the end: the maximum of a "
                f"{self.gives[0]} with `max_source_length`={self.max_source_length}. Received: "
                f"{len(ids)} tokens."
            )
        weights = self.source_weights(read, ids, layer)
        return self._alignment(source, read, ids, weights)

    def _read_and_written(
        self, source: str, target: str | None, use: Any, stacklevel: int
    ) -> tuple[list[int], list[int]]:
        """Ids of a source, and of a target with its end; None: what is written for it."""
        rows = self.field.encode([source])
        self._warn_of_cut(rows["cut"], stacklevel)
        (read,) = rows["source_ids"]
        if target is None and not rows["some"][0]:
            target = ""  # as `predict` gives for a source without text
        if target is None:
            return read, self.computed(rows, use)["best"][0].tolist()
        (ids,) = self.target_tokenizer.encode(checked_texts([target]), add_end=True)
        return read, ids

    def _warn_of_cut(self, cut: Sequence[bool], stacklevel: int) -> None:
        if any(cut):
            warnings.warn(
                f"{sum(cut)} of {len(cut)} texts are longer than `max_source_length`="
                f"{self.max_source_length} tokens and were cut. {self.long_sources}",
                stacklevel=stacklevel,
            )

    @step(
        "score",
        takes={"use": ("alpha", "length_penalty_kind", "batch_size")},
        reads="only_pairs",
        writes="lines",
        to="file of the scores; standard output if none",
        device=True,
    )
    def _score_lines(self, inputs: Iterable[list[tuple[str, str]]], use: Any) -> Iterator[str]:
        """Score given targets: how probable the model finds the second text of each pair.

        It writes a line of JSON for each pair, in their order, with the log-probability of the
        target, its length in tokens, and its score: the log-probability divided by the length
        penalty. Use it to rank candidates, or to find pairs in a corpus that do not match.
        """
        for pairs in inputs:
            for (source, target), score in zip(
                pairs, self.score_targets(pairs, **use.to_dict()), strict=True
            ):
                line = {"source": source, "target": target, **score._asdict()}
                yield json.dumps(line, ensure_ascii=False)

    # Explaining

    def explained(self, texts: list[str], use: TextSearchUse) -> list[AttentionView]:
        """Generates a text for each input text, and returns views of the attention.

        Args:
            texts: A string or a list of strings.
            use: Settings of class `Use`.

        Returns:
            An `AttentionView` for each text, of the cross-attention and, for a Transformer, the
            self-attention. `page` creates an HTML page from the views.

        Raises:
            TypeError: If an input is not a string, or a setting is unknown.
            ValueError: If the model has no attention, or a setting is out of range.
        """
        uses = self.of_each(use, len(texts))
        return [self.view(text, None, own) for text, own in zip(texts, uses, strict=True)]

    def view(self, text: str, target: str | None = None, use: Any = None) -> AttentionView:
        """Returns a view of the attention of the model for a text, for `attention_viewer`.

        Args:
            text: The source text.
            target: The text that the decoder reads and predicts; if None, the model generates it.
            use: Settings of class `Use` for generating the text; the settings in `own_use` if None.

        Returns:
            An `AttentionView` of the cross-attention and, for a Transformer, the self-attention.

        Raises:
            TypeError: If the text or the target is not a string.
            ValueError: If the model has no attention.
        """
        config = self.config
        if isinstance(config, RecurrentEncoderDecoderConfig) and config.attention == "none":
            raise ValueError("Expected a model with attention to show. Received: attention='none'.")
        (text,) = checked_texts([text])
        use = self.used({}) if use is None else use
        source, ids = self._read_and_written(text, target, use, stacklevel=4)
        tokenizer = self.target_tokenizer
        return AttentionView.from_maps(
            self.read_along(source, ids),
            readable_tokens(self.source_tokenizer, source),
            readable_tokens(tokenizer, ids),
            input_tokens=tokenizer.tokens([tokenizer.start_id, *ids[:-1]]),
            title=f"{text} → {tokenizer.decode(ids)}",
        )

    # Files and export

    backbone: ClassVar = {
        "source_embedding": ("embedding",),
        "target_embedding": (),
        "encoder": (),
        "decoder": (),
    }

    def vocabularies(self) -> dict[str, str]:
        """Returns digests of the source and the target vocabulary, keyed by embedding."""
        names = ("source_embedding", "target_embedding")
        tokenizers = (self.source_tokenizer, self.target_tokenizer)
        return dict(zip(names, map(vocabulary_digest, tokenizers), strict=True))

    def signatures(self, use: Any) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The input of `serving_default` is `text: string (B,)`, and its output is the generated text,
        `string (B,)`, as in `predict`. The signature `details` has the same input and returns the R
        best texts, padded with `""` and zeros:

        - the texts, their `scores`, and `truncated`, whether a text was cut at the maximum length,
          `(B, R)`, the best text first;
        - `source_truncated` `(B,)`, whether the source was longer than `max_source_length` and was
          cut;
        - `source_tokens` `(B, S)`, `target_tokens` `(B, R, T)` and `alignments` `(B, R, T, S)`,
          which are zeros for a model without attention.

        The signature `with_settings` also has the inputs `alpha: float32 (B,)` and `min_length:
        int32 (B,)`, and returns the generated text.

        Args:
            use: Settings of class `Use`.
        """
        source, target = self.source_tokenizer, self.target_tokenizer
        source_graph = functools.cache(source.to_graph)
        graph = source_graph if target is source else functools.cache(target.to_graph)
        text = self.field_of(use, source_graph)
        best = GeneratedText(target, "best", some="some", graph=graph)
        details: dict[str, OutputField] = {
            self.gives[1]: GeneratedText(target, some="some", graph=graph),
            "scores": Numbers("scores"),
            "truncated": Numbers("truncated"),
            "source_truncated": Numbers("cut"),
            "source_tokens": ReadableTokens(source, "source_ids", source_graph),
            "target_tokens": ReadableTokens(target, graph=graph),
            "alignments": AttentionWeights("weights"),
        }
        one = dataclasses.replace(use, num_return_sequences=None)
        count = use.num_return_sequences or use.beams
        several = dataclasses.replace(use, num_return_sequences=count)
        return {
            "serving_default": Signature(("text",), text, {self.gives[0]: best}, one),
            "details": Signature(("text",), text, details, several),
        }

    def served_numbers(self, use: Any) -> dict[str, tuple[Any, Any]]:
        """Returns a dict of the settings `alpha` and `min_length`: their values in `use`, and other
        values for checking an export."""
        numbers = super().served_numbers(use)
        return {**numbers, **own_numbers(use, {"min_length": use.min_length + 3})}

    def computed_graph(
        self, tf: ModuleType, tensors: Mapping[str, Any], use: Any
    ) -> Mapping[str, Any]:
        """Computes the result of `run` with TensorFlow ops, compiled by XLA if `use.xla`."""
        numbers = {"alpha", "min_length", self.source}
        given = {name: x for name, x in tensors.items() if name in numbers}

        def compute(given: Mapping[str, Any]) -> Mapping[str, Any]:
            return self.run(ops, given, use)

        if not use.xla:
            return compute(given)
        tokenizer = self.source_tokenizer
        most = use.batch_size, self.max_source_length
        ids = tokenizer.pad_id, tokenizer.end_id
        found = {**with_xla(tf, compute, self.source, *ids, most)(given)}
        if "weights" in found:  # of the shape that a search has without XLA
            longest, read = tf.reduce_max(found["lengths"]), tf.shape(given[self.source])[1]
            found["tokens"] = found["tokens"][:, :, :longest]
            found["weights"] = found["weights"][:, :, :longest, :read]
        return found

    def export_examples(self) -> dict[str, Any]:
        """Returns ordinary and unusual texts for checking an export, as the input `text`."""
        return {"text": [text for text in ODD_TEXTS if len(text) < 100]}
