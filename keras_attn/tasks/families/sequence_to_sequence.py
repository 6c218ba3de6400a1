"""Base class of tasks that generate a text from a source."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attn.arrays import Array, ArrayModule
from keras_attn.fields import checked_texts
from keras_attn.generation import (
    CompiledFunction,
    Decoder,
    Generation,
    beam_search,
    length_penalty,
)
from keras_attn.generation.numbers import columns, is_tensor
from keras_attn.hints import Tensor
from keras_attn.inputs import listed
from keras_attn.layers import RecurrentEncoder, attention_maps
from keras_attn.layers.collect import AttentionMaps
from keras_attn.models import SequenceDecoder, target_log_probabilities
from keras_attn.ops.compilers import compiler
from keras_attn.settings import Choice, Settings
from keras_attn.tasks.base.constructed import Given
from keras_attn.tasks.base.served_numbers import own_numbers
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.families.decoding_batches import DecodingBatch, DecodingBatches
from keras_attn.text.registry import TextTokenizer

Prompt = tuple[Decoder, Tensor, Tensor | None, Tensor | None, Tensor | None]
"""A decoder, the ids it reads first and their mask, and the memory of the encoder and its mask."""

Source = Array | Sequence[int]
"""A source as the model reads it, without the batch axis."""

RESULTS = ("best", "tokens", "lengths", "scores", "truncated", "weights")
"""Names of the results of a search."""


class TargetScore(NamedTuple):
    """The probability of a target, given its source.

    Example:

    >>> TargetScore(-4.0, 2, -2.0).length
    2
    """

    log_probability: float
    """Log-probability of the target, including the end token."""
    length: int
    """Number of tokens, including the end token."""
    score: float
    """The log-probability divided by the length penalty, by which beam search ranks sequences."""


class SequenceToSequence(Task[Given]):
    """Base class of tasks that generate a text from a source, which is a text or an image.

    `run` performs the search in predictions and in the SavedModel. If `num_return_sequences` is
    given, the search returns this number of sequences and their attention to the source; otherwise,
    it returns only the best sequence. A subclass defines how its model reads a source. By default,
    an encoder-decoder reads rows of ids.
    """

    source: ClassVar[str] = "source_ids"
    """Name of the input of the model that receives the source."""
    source_form: ClassVar[Mapping[str, Any]] = {"dtype": "int32", "rank": 2}
    """Dtype and rank of a batch of sources, for `CompiledFunction`."""

    # What a subclass says

    @property
    def source_tokenizer(self) -> TextTokenizer:
        """The tokenizer of source texts."""
        return self.target_tokenizer

    @property
    def target_tokenizer(self) -> TextTokenizer:
        """The tokenizer of target texts."""
        raise NotImplementedError

    def longest(self, length: Any) -> Any:
        """Returns the maximum number of tokens of a target, including the end token.

        Args:
            length: Number of tokens of the source, an integer or a tensor of integers.

        Returns:
            An integer, or a tensor like `length`.
        """
        raise NotImplementedError

    @property
    def generator(self) -> keras.Model:
        """The model from sources and targets to logits."""
        return self.model

    @property
    def decoding(self) -> SequenceDecoder:
        """The parts of the model that encode sources and decode targets, a `SequenceDecoder`."""
        return self.kept(lambda: SequenceDecoder(self.generator), "decoding")

    def encode(self, sources: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the states `(B, S, D)` that the encoder computes for a batch of sources, and
        their mask `(B, S)`."""
        return self.decoding.encode(sources)

    def source_batches(
        self, sources: Sequence[Any], batch_size: int, jit_compile: bool | None
    ) -> Iterable[DecodingBatch]:
        """Yields a list of sources in batches of similar lengths.

        Args:
            sources: The sources, without the batch axis.
            batch_size: Maximum number of sources of a batch.
            jit_compile: Whether TensorFlow uses XLA; None to use it where it pays off.
        """
        return self._batches(sources, batch_size, jit_compile)

    def configured(self, model: Any) -> Any:
        """Returns the settings object of the model, with `right_padding` if the model has it."""
        if isinstance(model, Choice):
            model = {self.kinds.key: model.name, **model.values}
        if model is None or isinstance(model, Mapping):
            kind = (model or {}).get(self.kinds.key, self.kinds.default)
            if hasattr(self.kinds.get(kind), "right_padding"):
                model = {"right_padding": True, **(model or {})}
        return super().configured(model)

    # The search

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """Ids that are never generated: padding and the start token."""
        return self.target_tokenizer.pad_id, self.target_tokenizer.start_id

    def prompt(self, sources: Tensor) -> Prompt:
        """Returns the beginning of a search for a batch of sources.

        Args:
            sources: A batch of sources.

        Returns:
            The decoder; the first ids `(B, 1)` and their mask, which may be None; and the encoded
            sources `(B, S, D)` and their mask `(B, S)`.
        """
        memory, mask = self.encode(sources)
        start = ops.zeros_like(mask[:, :1], dtype="int32") + self.target_tokenizer.start_id
        return self.decoding.decoder, start, None, memory, mask

    def search(
        self, prompt: Prompt, tensors: Mapping[str, Any], use: Any, count: int
    ) -> Generation:
        """Finds the best sequences by a beam search.

        Args:
            prompt: The result of `prompt`.
            tensors: A dict of the batch of sources. It may also have `max_length`; numbers `(B,)`
                that replace the settings `alpha` and `min_length`; and `beginning`, see `rules`.
            use: Settings of class `Use`.
            count: Number of sequences for each source.

        Returns:
            The `Generation` of `keras_attn.generation.beam_search`.
        """
        decoder, first, first_mask, memory, mask = prompt
        if "max_length" in tensors:
            max_length = tensors["max_length"]
        else:
            max_length = self.longest(ops.shape(tensors[self.source])[1])
        limits = mask if mask is None else self.longest(ops.sum(ops.cast(mask, "int32"), axis=1))
        return beam_search(
            decoder,
            first,
            first_mask,
            memory,
            mask,
            num_beams=use.beams,
            max_length=max_length,
            max_lengths=limits if is_tensor(limits) else None,
            num_return_sequences=count,
            alpha=tensors.get("alpha", use.alpha),
            **use.ranking(),
            **self.rules(tensors, use, max_length if limits is None else limits),
        )

    def rules(self, tensors: Mapping[str, Any], use: Any, limits: Any) -> dict[str, Any]:
        """Returns the arguments of `beam_search` that restrict the tokens, keyed by name.

        Args:
            tensors: A dict that may have `min_length (B,)`, and `beginning`, int32 `(B, P)`: the
                padded ids of the beginnings of results.
            use: Settings of class `Use`.
            limits: The maximum number of tokens, an integer or a number for each row `(B,)`.
        """
        tokenizer = self.target_tokenizer
        rules = {n: getattr(use, n) for n in ("forced_first_id", "forced_last_id")}
        least = tensors.get("min_length", use.min_length)
        if is_tensor(least) or is_tensor(limits):
            least = ops.minimum(least, limits) if is_tensor(least) or least else 0
        else:
            least = min(least, limits)
        ids = tensors.get("beginning")
        if ids is None and any(use.beginning):
            (row,) = self.beginnings(use, 1)
            ids = ops.zeros_like(tensors[self.source], dtype="int32")
            ids = ops.reshape(ids, (ops.shape(ids)[0], -1))[:, :1] + ops.convert_to_tensor([row])
        return {
            **rules,
            "end_id": tokenizer.end_id,
            "pad_id": tokenizer.pad_id,
            "suppressed_ids": (*self.suppressed_ids, *use.suppressed_ids),
            "min_length": least,
            "no_repeat_ngram_size": use.no_repeat_ngram_size,
            "beginning": ids,
            "beginning_mask": None if ids is None else ops.not_equal(ids, tokenizer.pad_id),
        }

    def beginnings(self, use: Any, count: int) -> list[list[int]]:
        """Returns the ids of the text that each of `count` results begins with.

        Raises:
            ValueError: If the setting `beginning` has neither one string nor `count` strings.
        """
        given = checked_texts(use.beginning)
        if len(given) not in (1, count):
            raise ValueError(
                f"`beginning` must have one string, or one for each of the {count} inputs. "
                f"Received: {len(given)} strings."
            )
        ids = self.target_tokenizer.encode(given)
        return ids * count if len(ids) == 1 else ids

    def of_each(self, use: Any, count: int) -> list[Any]:
        """Returns the settings `use` of each of `count` inputs, with its own `beginning`.

        Raises:
            ValueError: If the setting `beginning` has several strings, but not `count`.
        """
        if use.beginning:
            self.beginnings(use, count)
        return [use.of_inputs([i]) for i in range(count)]

    def run(self, xp: ArrayModule, tensors: Mapping[str, Any], use: Any) -> dict[str, Tensor]:
        """Finds the best sequences for a batch of sources.

        Args:
            xp: The array module, `keras.ops`.
            tensors: A dict of the batch of sources and further tensors; see `search`.
            use: Settings of class `Use`.

        Returns:
            A dict of the R best sequences of each source, the best first: `tokens (B, R, T)`;
            `lengths`, `scores` and `truncated` `(B, R)`; and `best (B, T)`, the first sequence. R
            is `num_return_sequences`, or 1 if it is None. If it is not None and the model has
            attention, the dict also has `weights (B, R, T, S)`, the attention to the source; see
            `SequenceDecoder.align_found`.
        """
        prompt = self.prompt(tensors[self.source])
        *_, memory, mask = prompt
        found = self.search(prompt, tensors, use, use.num_return_sequences or 1)
        if use.num_return_sequences is None or memory is None or mask is None:
            return results(found)
        if compiler() != "xla":  # where shapes are those of the longest
            found = found._replace(tokens=found.tokens[:, :, : ops.max(found.lengths)])
        start = self.target_tokenizer.start_id
        return {**results(found), "weights": self.decoding.align_found(memory, mask, found, start)}

    def parted(self, use: Any) -> tuple[Settings, dict[str, Any], dict[str, Any]]:
        """Splits settings for a compiled search.

        Args:
            use: Settings of class `Use`.

        Returns:
            The settings that are constants of the compiled function; a dict of the numbers that
            are its inputs; and a dict of further constants for `tensors` of `run`.
        """
        numbers = {"alpha": use.alpha}
        if use.min_length:
            numbers["min_length"] = use.min_length
        same = {"alpha": 1.0, "min_length": 0, "beginning": (), "batch_size": 1}
        return dataclasses.replace(use, **same), numbers, {}

    def computed(
        self, tensors: Mapping[str, Any], use: Any, jit_compile: bool | None = None
    ) -> dict[str, Any]:
        """Computes the result of `run` in Python, in batches of sources of similar lengths.

        Args:
            tensors: A dict with the list of sources.
            use: Settings of class `Use`.
            jit_compile: Whether TensorFlow uses XLA; None to use it where it pays off.

        Returns:
            A dict from the name of a result to a list with an array for each source, without the
            batch axis. Arrays of tokens and weights are cut to the longest sequence of the source.
        """
        sources = tensors[self.source]
        kind, numbers, fixed = self.parted(use)
        begin = self.beginnings(use, len(sources)) if any(use.beginning) and sources else []
        names = (*numbers, "beginning") if begin else tuple(numbers)

        def search(batch: Tensor, length: Any, *values: Tensor) -> dict[str, Tensor]:
            given = {self.source: batch, "max_length": length, **fixed}
            return self.run(ops, {**given, **dict(zip(names, values, strict=True))}, kind)

        found: dict[str, list[Any]] = {} if sources else {name: [] for name in RESULTS}
        for rows, batch, compiled in self.source_batches(sources, use.batch_size, jit_compile):
            make = functools.partial(
                CompiledFunction, search, self.generator, compiled, **self.source_form
            )
            function = self.kept(make, "search", kind, names, tuple(fixed.items()), compiled)
            length = self.longest(batch.shape[1])
            inputs = columns(numbers, len(batch))
            if begin:
                inputs.append(self._padded([begin[i] for i in rows], len(batch)))
            outputs = function(batch, length, *inputs)
            for name, values in outputs.items():
                column = found.setdefault(name, [None] * len(sources))
                for r, i in enumerate(rows):
                    longest = outputs["lengths"][r].max()
                    if name in ("best", "tokens"):
                        column[i] = values[r, ..., :longest]
                    elif name == "weights":  # a copy, without the rest of the batch
                        column[i] = values[r, :, :longest, : len(sources[i])].copy()
                    else:
                        column[i] = values[r]
        return found

    def _padded(self, rows: Sequence[Sequence[int]], count: int) -> np.ndarray:
        """Ids of targets as `count` rows; JAX compiles for each of their widths."""
        width = max(map(len, rows), default=0) or 1
        if keras.backend.backend() == "jax":
            width = -(-width // 8) * 8
        padded = np.full((count, width), self.target_tokenizer.pad_id, "int32")
        for r, row in enumerate(rows):
            padded[r, : len(row)] = row
        return padded

    # Given targets

    def token_log_probabilities(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Returns the log-probability of each token of targets, float32 `(B, T)`.

        Args:
            sources: A batch of sources.
            targets: Ids of the targets with their end token, int32 `(B, T)`.
        """
        start = self.target_tokenizer.start_id
        return target_log_probabilities(self.generator, sources, targets, start, source=self.source)

    def source_rows(self, inputs: list[Any], use: Any) -> Sequence[Any]:
        """Returns the source of each input, as the model reads it.

        Args:
            inputs: Checked inputs.
            use: Settings of class `Use`.
        """
        return self.signatures(use)["serving_default"].field.encode(inputs)[self.source]

    def log_probabilities(
        self,
        sources: Sequence[Any],
        targets: Sequence[Sequence[int]],
        batch_size: int,
        given: int | None = None,
    ) -> np.ndarray:
        """Returns the log-probability of each target, float64 `(N,)`.

        Args:
            sources: The sources, without the batch axis.
            targets: Ids of the target of each source, including the end token.
            batch_size: Number of targets that are computed at once.
            given: Id of a token that does not count where it is the first token of a target.
        """
        found = np.zeros(len(sources), "float64")
        function = self.kept(
            lambda: CompiledFunction(
                lambda rows, length, given: self.token_log_probabilities(rows, given),
                self.generator,
                **self.source_form,
            ),
            "log_probabilities",
        )
        batches = self.source_batches(sources, batch_size, jit_compile=False) if found.size else ()
        for rows, batch, _ in batches:
            ids = self._padded([targets[i] for i in rows], len(batch))
            for i, row in zip(rows, function(batch, 1, ids), strict=False):
                first = int(targets[i][0] == given)
                found[i] = row[first : len(targets[i])].sum(dtype="float64")
        return found

    def score_targets(self, pairs: Iterable[Any], **settings: Any) -> list[TargetScore]:
        """Computes the probabilities of given targets, to rank candidates or to clean a corpus.

        A target that the search finds has the same score here, unless a token was forced at the
        maximum length or the search had a `beginning`. A `forced_first_id` never changes the score.
        Targets may be longer than the maximum length of results.

        Args:
            pairs: Tuples of an input, as in `predict`, and a target string.
            **settings: Settings of class `Use`: `alpha` and `length_penalty_kind` define the score,
                and `batch_size` is the number of pairs that are computed at once.

        Returns:
            A `TargetScore` for each pair, in the same order.

        Raises:
            TypeError: If an element is not a pair, or a target is not a string.
            ValueError: If a setting is out of range.

        Example:

        >>> tokenizer = BytePairTokenizer.train(["one dog", "ein Hund"], 259)
        >>> translator = Translator(tokenizer, model={"dim": 16, "num_layers": 1})
        >>> (best,) = translator.score_targets([("one dog", "ein Hund")])
        >>> best.length, best.score > best.log_probability
        (9, True)
        """
        use = self.used(settings)
        given = listed(pairs, "pairs of an input and its target")
        for number, pair in enumerate(given):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise TypeError(
                    "Expected pairs of an input and its target. Received: "
                    f"{pair!r:.100} at position {number}."
                )
        if not given:
            return []
        inputs, texts = ([pair[side] for pair in given] for side in (0, 1))
        targets = self.target_tokenizer.encode(checked_texts(texts), add_end=True)
        sources = self.source_rows(self.asked(inputs), use)
        sums = self.log_probabilities(sources, targets, use.batch_size, use.forced_first_id)
        lengths = np.array([len(row) for row in targets])
        penalty = length_penalty(lengths, use.alpha, use.length_penalty_kind)
        ranked = sums / np.asarray(ops.convert_to_numpy(penalty), "float64")
        return [
            TargetScore(*values)
            for values in zip(sums.tolist(), lengths.tolist(), ranked.tolist(), strict=True)
        ]

    @property
    def _batches(self) -> DecodingBatches:
        tokenizer = self.source_tokenizer
        recurrent = any(isinstance(layer, RecurrentEncoder) for layer in self.generator.layers)
        return self.kept(
            lambda: DecodingBatches(tokenizer.pad_id, tokenizer.end_id, recurrent), "batches"
        )

    # Attention

    def read_along(self, source: Source, target: Sequence[int]) -> AttentionMaps:
        """Returns all attention weights of the model for a source and a given target.

        Args:
            source: The source, without the batch axis.
            target: Ids of the target, including the end token.
        """
        inputs = {
            self.source: np.asarray(source, self.source_form["dtype"])[None],
            "target_ids": np.array([[self.target_tokenizer.start_id, *target[:-1]]], "int32"),
        }
        return attention_maps(self.generator, inputs)

    def source_maps(self, source: Source, target: Sequence[int]) -> list[np.ndarray]:
        """Returns the attention weights of a target to the source, one array for each layer:
        `(1, T, S)`, or `(1, N, T, S)` with N heads; empty if the model has no attention."""
        if not self.decoding.num_attentions:
            return []
        return self.read_along(source, target).select(role="cross")

    def source_weights(self, source: Source, target: Sequence[int], layer: int) -> np.ndarray:
        """Returns the attention weights of a target to the source in a layer, float32 `(T, S)`.

        Args:
            source: The source, without the batch axis.
            target: Ids of the target, including the end token.
            layer: Index of the cross-attention; a negative index counts from the end. The result is
                the mean over its heads.
        """
        maps = self.source_maps(source, target)
        if not maps:
            raise ValueError("Expected a model with attention. Received: attention='none'.")
        count = len(maps)
        if not isinstance(layer, int) or not -count <= layer < count:
            raise ValueError(
                f"`layer` must be the number of one of the {count} cross-attentions, {-count} to "
                f"{count - 1}. Received: {layer!r}."
            )
        weights = maps[layer][0]
        return weights.mean(axis=0) if weights.ndim == 3 else weights

    # Export

    def served_numbers(self, use: Any) -> dict[str, tuple[Any, Any]]:
        """Returns a dict of the setting `alpha`: its value in `use`, and another value for checking
        an export."""
        return own_numbers(use, {"alpha": 0.0 if use.alpha else 1.0})


def results(found: Generation) -> dict[str, Tensor]:
    """Returns the tensors of a search result, keyed by `RESULTS` except `weights`."""
    return {
        "best": found.tokens[:, 0],
        "tokens": found.tokens,
        "lengths": found.lengths,
        "scores": found.scores,
        "truncated": ops.logical_not(found.finished),
    }
