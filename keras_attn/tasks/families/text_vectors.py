"""Vectors of texts, for tasks that read each text alone and compare vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Self

import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from keras_attn.arrays import unit_length
from keras_attn.batches import ScoredPairBatches
from keras_attn.explain import Explanation
from keras_attn.explain.attributions import cosine
from keras_attn.explain.word_weights import weighted_words
from keras_attn.fields import Numbers, Signature, TextRows, checked_texts
from keras_attn.tasks.families.encoder_settings import EncoderLearned, EncoderTokenizer
from keras_attn.tasks.families.encoder_task import EncoderTask, Row, row_lists
from keras_attn.text.offsets import ids_and_places

Pair = tuple[str, str]
Weights = Sequence[np.ndarray]


class TextVectors(EncoderTask):
    """Vectors of texts: a base class of tasks whose model is a `sentence_encoder`."""

    @classmethod
    def untrained(
        cls, data: Any, dtype: Any, learn: Callable[[EncoderTokenizer], EncoderLearned]
    ) -> Self:
        """Makes a task of the encoder `data.backbone`; `learn` says what it learned."""
        return cls.begun(cls.start(list, data, None, learn), data, dtype)

    def pair_batches(
        self, pairs: Sequence[Pair], targets: ArrayLike, **settings: Any
    ) -> ScoredPairBatches:
        """Makes batches of pairs of texts, each of which is read alone.

        Args:
            pairs: Pairs of strings.
            targets: As in `ScoredPairBatches`.
            **settings: Of `ScoredPairBatches`.
        """
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        rows = self.field.rows(self.tokenizer.encode(texts))
        row = {text: ids for text, (ids, _) in zip(texts, rows, strict=True)}
        firsts, seconds = ([row[pair[side]] for pair in pairs] for side in (0, 1))
        return ScoredPairBatches(firsts, seconds, targets, **{**self.layout, **settings})

    def outputs_of(self, rows: Sequence[Row], batch_size: int) -> dict[str, np.ndarray]:
        """Computes the outputs of a model that has none of single tokens, float32 `(R, ...)`.

        Args:
            rows: As in `row_batches`.
            batch_size: Rows computed at a time.
        """
        values = self.compute(rows, batch_size)
        return {
            name: np.array([x[name] for x in values], "float32").reshape(-1, *output.shape[1:])
            for name, output in self.model.output.items()
        }

    def computed(self, tensors: Mapping[str, Any], use: Any) -> dict[str, Any]:
        """Computes in Python what `run` returns of the outputs for the rows of `TextRows`."""
        outputs = self.outputs_of(row_lists(tensors), use.batch_size)
        return self.run(np, {**tensors, **outputs}, use)

    def computed_graph(
        self, tf: ModuleType, tensors: Mapping[str, Any], use: Any
    ) -> dict[str, Any]:
        """Computes the same as TensorFlow ops."""
        return self.run(ops, {**tensors, **self.logits(self.row_inputs(tensors))}, use)

    @property
    def embed_signature(self) -> Signature:
        """The signature that gives vectors of texts."""
        return Signature(("text",), TextRows(self.field), {"vectors": Numbers("vectors")})

    def embed(
        self,
        texts: str | Iterable[str],
        batch_size: int = 64,
        normalize: bool = False,
    ) -> np.ndarray:
        """Computes vectors of texts.

        Args:
            texts: Strings; one string is a list of one.
            batch_size: Texts computed at a time.
            normalize: Whether the vectors have the length 1, so that their products are cosines.

        Returns:
            float32 `(n, D)`.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If the task has no vectors of single texts.
        """
        self.check_embeds()
        texts = checked_texts([texts] if isinstance(texts, str) else texts)
        rows = self.field.rows(self.tokenizer.encode(texts))
        vectors = self.outputs_of(rows, batch_size)["vectors"]
        return unit_length(np, vectors) if normalize else vectors

    def check_embeds(self) -> None:
        """Raises a ValueError if the task has no vectors of single texts."""

    # Explanations of scores of pairs

    def cosine_weights(self, pairs: Sequence[Pair], batch_size: int) -> tuple[Weights, Weights]:
        """The weights of the pieces of the first and the second texts for their cosines."""
        # The cosine is linear in each of the two vectors of length 1: the gradient of the one needs
        # the other as it is.
        texts = [[pair[side] for pair in pairs] for side in (0, 1)]
        others = [self.embed(side, batch_size, normalize=True) for side in texts[::-1]]
        weights = []
        for side in (0, 1):
            rows = self.field.rows(self.tokenizer.encode(texts[side]))
            of_rows = self.gradients(rows, cosine, others[side], batch_size)
            weights.append([row[1:-1] for row in of_rows])
        return weights[0], weights[1]

    def explanations(
        self,
        pairs: Sequence[Pair],
        scores: Sequence[float],
        weights: tuple[Weights, Weights],
        spread: float = 1.0,
    ) -> list[Explanation]:
        """Explains scores of pairs by the words of both texts.

        Args:
            pairs: Pairs of texts.
            scores: Their scores.
            weights: The weights of the pieces of the first and the second texts, as far as they
                are read.
            spread: How much greater a score is than the number that the weights are of.
        """
        sides = ([pair[side] for pair in pairs] for side in (0, 1))
        places = [ids_and_places(self.tokenizer, side)[1] for side in sides]
        found = []
        for i, (pair, score) in enumerate(zip(pairs, scores, strict=True)):
            first, second = (
                weighted_words(pair[side], places[side][i], weights[side][i] * spread)
                for side in (0, 1)
            )
            words = [*first, *second]
            found.append(
                Explanation(
                    pair[0],
                    [word.text for word in words],
                    [word.place for word in words],
                    np.array([word.weight for word in words], "float64"),
                    f"score {score:.2f}",
                    {},
                    "gradient x input, for the score",
                    pair[1],
                    [0] * len(first) + [1] * len(second),
                )
            )
        return found
