"""Predictions and explanations of tasks whose model reads rows of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from keras_attn.arrays import Array
from keras_attn.batches import BucketedBatches, TextBatches
from keras_attn.explain import Explanation
from keras_attn.explain.methods import METHOD_NAMES
from keras_attn.fields.aligned_tokens import stacked
from keras_attn.fields.encoder_input import ReadText
from keras_attn.fields.text import sides_of
from keras_attn.hints import Tensor
from keras_attn.records.labelled_texts import Input
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.families.use_settings import WeighedUse


class RowPredictions(Task):
    """Base class of tasks whose model reads texts, or pairs of texts, as rows of tokens.

    A subclass makes batches of inputs in `rows_of`, computes the outputs of the model in `weighed`,
    and returns the tokens that `explain` shows in `read_off`.
    """

    Use: ClassVar[type[WeighedUse]] = WeighedUse
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    decide_nothing: ClassVar[tuple[str, ...]] = ("loaded", "word_vectors")

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that converts texts to ids."""
        return self.learned.tokenizer

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text; longer texts are cut."""
        return self.data.max_length

    # What a task writes

    def labelled_batches(
        self, inputs: list[Input], labels: np.ndarray, weights: np.ndarray | None, **settings: Any
    ) -> TextBatches:
        """Returns the training batches of labelled inputs.

        Args:
            inputs: Texts, or pairs of texts.
            labels: Labels as numbers, `(n,)`, or `(n, C)` of 0 and 1.
            weights: The weights of examples in the loss, or None.
            **settings: Settings of the batches, such as `batch_size`.
        """
        raise NotImplementedError

    def rows_of(self, tensors: Mapping[str, Any], **settings: Any) -> BucketedBatches:
        """Returns batches of encoded inputs; called by `computed`.

        Args:
            tensors: The result of `encoded`.
            **settings: Settings of the batches, such as `batch_size`.
        """
        raise NotImplementedError

    def arrays_of(
        self, inputs: Mapping[str, np.ndarray], members: np.ndarray, tensors: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """Returns the arrays that `weighed` receives for a batch.

        Args:
            inputs: A batch of `rows_of`.
            members: The index in `tensors` of the input of each row, `(B,)`.
            tensors: The result of `encoded` for all inputs.
        """
        return dict(inputs)

    def weighed(
        self, tensors: Mapping[str, Array], method: str | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Computes logits on every backend, and token weights if `method` is given.

        Args:
            tensors: The result of `arrays_of`, which may also have `explained (B,)`: the indices of
                the outputs whose gradients are computed.
            method: One of `keras_attn.explain.methods.METHODS`, or None.

        Returns:
            The logits `(B, C)`, and a dict of tensors for `read_off`, which is empty if `method` is
            None.
        """
        raise NotImplementedError

    def read_off(
        self, inputs: Sequence[Input], found: Mapping[str, Any]
    ) -> Iterator[tuple[ReadText, np.ndarray]]:
        """Yields the tokens and the weights of the tokens `(T,)` of each input.

        Args:
            inputs: Texts, or pairs of texts.
            found: The encoded inputs and the result of `run`.
        """
        raise NotImplementedError

    def checked_method(self, method: str | None) -> str:
        """Returns `method`, or the default method of the model if `method` is None."""
        raise NotImplementedError

    def said(self, found: Mapping[str, Any], number: int, use: Any) -> tuple[str, dict[str, float]]:
        """Returns the title of an explanation, and the probabilities that it shows.

        Args:
            found: The encoded inputs and the result of `run`.
            number: Index of the input.
            use: Settings of class `Use`.

        Returns:
            The title, and a dict of probabilities keyed by class, which may be empty.
        """
        raise NotImplementedError

    def explained_class(self, use: Any) -> int:
        """Returns the index of the output whose gradients are computed; -1 for the largest."""
        return -1

    # What is written once

    @staticmethod
    def is_one(inputs: object) -> bool:
        """Returns whether the argument is a single text or a single pair of texts."""
        pair = isinstance(inputs, tuple) and all(isinstance(x, str) for x in inputs)
        return pair or isinstance(inputs, str)

    def encoded(self, inputs: Sequence[Input]) -> dict[str, Any]:
        """Returns inputs encoded by the field of `serving_default`, a dict of arrays."""
        return self.signatures(self.Use())["serving_default"].field.encode(*sides_of(inputs))

    def computed(self, tensors: Mapping[str, Any], use: WeighedUse) -> dict[str, Any]:
        """Computes the result of `run` in Python, in batches of inputs of similar lengths."""
        number = self.explained_class(use)

        def compute(inputs: Mapping[str, np.ndarray], members: np.ndarray) -> Any:
            arrays = self.arrays_of(inputs, members, tensors)
            explained = np.full(len(next(iter(arrays.values()))), number, "int32")
            return self._run_compiled({**arrays, "explained": explained}, use, use.method)

        rows = self.rows_of(tensors, batch_size=use.batch_size, shuffle=False).computed(
            compute, self.examples_are
        )
        return {name: stacked([row[name] for row in rows], 0) for name in rows[0]}

    def predicted(self, inputs: Sequence[Input], use: Any) -> dict[str, Any]:
        """Returns a dict of the encoded arrays and the result of `run` for checked inputs."""
        tensors = self.encoded(inputs)
        return {**tensors, **self.computed(tensors, use)}

    def shown(self, inputs: Sequence[Input], use: Any) -> Any:
        """Returns an `Explanation` with the weights of the tokens for each input.

        Args:
            inputs: Checked texts, or pairs of texts.
            use: Settings of class `Use`, with a `method`.
        """
        if not inputs:
            return []
        found = self.predicted(inputs, use)
        explanations = []
        for i, (read, weights) in enumerate(self.read_off(inputs, found)):
            given = inputs[i]
            first, second = (given, None) if isinstance(given, str) else given
            method = METHOD_NAMES[use.method or ""]
            tokens = (read.tokens, read.offsets, weights, *self.said(found, i, use))
            explanations.append(Explanation(first, *tokens, method, second, read.segments))
        return explanations
