"""Contextual vectors of one word in many sentences, compared with its static vector."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import keras
import numpy as np
from keras import ops

from keras_attn.explain.encoder_study import EncoderStudy, study_texts
from keras_attn.fields import EncoderInput, checked_texts
from keras_attn.metrics import Neighbour, WordSpace
from keras_attn.metrics.word_characters import word_characters
from keras_attn.models import hidden_states
from keras_attn.visualize import contextual_page

_BATCH = 32
_EQUAL = 1e-6  # cosines that differ by less are equal, except for rounding


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ContextualView:
    """The vectors of one word in many sentences, from `contextual_view`.

    Layer 0 is the output of the embedding layer, which includes positions; layer l is the output of
    block l, for l = 1 ... L.

    Args:
        word: The word.
        sentences: The S sentences.
        senses: The sense of the word in each sentence; None if the senses are unknown.
        vectors: The vector of the word in each layer and sentence, averaged over its tokens,
            float32 `(L + 1, S, D)`, for vectors of width D.
        neighbours: The words nearest to the static vector of the word, `Neighbour`s.
        places: Indices of the first and last token of the word in each sentence, counting `[CLS]`.
        study: The attention of the encoder for these sentences, an `EncoderStudy`. If None, the
            view has no attention weights and no page.

    Example:

    >>> vectors = np.array([[[1, 0], [0, 1], [1, 0.1], [0.1, 1]]])
    >>> sentences, senses = ["a x", "b x", "c x", "d x"], ["one", "two", "one", "two"]
    >>> view = ContextualView("x", sentences, senses, vectors, [], [(2, 2)] * 4, None)
    >>> view.accuracies.tolist(), round(view.chance, 3)
    ([1.0], 0.333)
    """

    word: str
    sentences: Sequence[str]
    senses: Sequence[str] | None
    vectors: np.ndarray
    neighbours: Sequence[Neighbour]
    places: Sequence[tuple[int, int]]
    study: EncoderStudy | None

    @property
    def cosines(self) -> np.ndarray:
        """Cosines of the word's vectors in all pairs of sentences, float64 `(L + 1, S, S)`."""
        vectors = self.vectors.astype("float64")
        lengths = np.sqrt(np.square(vectors).sum(axis=-1, keepdims=True))
        units = vectors / np.where(lengths > 0, lengths, 1.0)
        return units @ units.transpose(0, 2, 1)

    @property
    def accuracies(self) -> np.ndarray:
        """In each layer, the fraction of sentences whose nearest sentence has the same sense.

        This is the leave-one-out accuracy of a nearest-neighbour classifier, float64 `(L + 1,)`. If
        several sentences are equally near (their cosines differ by less than 1e-6), the sentence
        counts with the fraction of them that has the same sense. Such ties occur in layer 0, where
        the vector of the word depends only on its position.

        Raises:
            ValueError: If the senses are unknown, there are fewer than two senses, or no sense
                has two or more sentences.
        """
        same = self._same()
        cosines = self.cosines
        rows = np.arange(len(self.sentences))
        cosines[:, rows, rows] = -np.inf
        nearest = cosines >= cosines.max(axis=-1, keepdims=True) - _EQUAL
        return ((nearest & same).sum(axis=-1) / nearest.sum(axis=-1)).mean(axis=-1)

    @property
    def chance(self) -> float:
        """The accuracy expected by chance, that is, if all other sentences were equally near.

        Raises:
            ValueError: If the senses are unknown, there are fewer than two senses, or no sense
                has two or more sentences.
        """
        same = self._same()
        return float((same.sum(axis=-1) - 1).mean() / (len(same) - 1))

    @property
    def margins(self) -> np.ndarray:
        """Mean cosine within a sense minus mean cosine between senses, in each layer, `(L + 1,)`.

        The means are over pairs of different sentences.

        Raises:
            ValueError: If the senses are unknown, there are fewer than two senses, or no sense
                has two or more sentences.
        """
        same = self._same()
        others = ~np.eye(len(same), dtype=bool)
        cosines = self.cosines
        return cosines[:, same & others].mean(axis=-1) - cosines[:, ~same].mean(axis=-1)

    @property
    def parting_layer(self) -> int:
        """The layer with the highest accuracy; with equal accuracies, the largest margin decides.

        Raises:
            ValueError: If the senses are unknown, there are fewer than two senses, or no sense
                has two or more sentences.
        """
        order = np.lexsort((self.margins, self.accuracies))
        return int(order[-1])

    def _studied(self) -> EncoderStudy:
        if self.study is None:
            raise ValueError(
                "This ContextualView has no attention weights, because it has no `study`. "
                "Received: study=None. Create the view with `contextual_view`."
            )
        return self.study

    def attention(self, sentence: int) -> list[np.ndarray]:
        """Returns the attention weights of the word in one sentence.

        Args:
            sentence: Index of the sentence, from 0.

        Returns:
            A list with an array `(heads, T)` for each block: the attention weights from the word to
            the T tokens of the sentence. If the word has several tokens, their weights are
            averaged.

        Raises:
            ValueError: If the view has no `study`.
        """
        first, last = self.places[sentence]
        layers = self._studied().views[sentence].parts[0].weights
        return [np.asarray(layer)[:, first : last + 1].mean(axis=1) for layer in layers]

    def html(self, title: str = "") -> str:
        """Returns an HTML page of the word's vectors and attention in all sentences.

        The page is made by `keras_attn.visualize.contextual_page`.

        Args:
            title: Heading of the page; if empty, the heading names the word.

        Returns:
            The page as an HTML string; write it as UTF-8.

        Raises:
            ValueError: If the view has no `study`.
        """
        known = self.senses is not None and self._compared()
        return contextual_page(
            self.word,
            self.sentences,
            self.vectors,
            self._studied().views,
            [first for first, _ in self.places],
            senses=self.senses,
            accuracies=self.accuracies if known else None,
            chance=self.chance if known else None,
            neighbours=self.neighbours,
            title=title,
        )

    def _same(self) -> np.ndarray:
        if self.senses is None:
            raise ValueError(
                "Expected sentences with known senses: a dict from each sense to a list of "
                "sentences. Received: a plain list."
            )
        if not self._compared():
            raise ValueError(
                "Expected at least two senses, and at least one sense with two or more "
                f"sentences. Received: {dict(Counter(self.senses))}."
            )
        senses = np.asarray(self.senses)
        return senses[:, None] == senses[None, :]

    def _compared(self) -> bool:
        """Whether there are neighbours of the same sense and of another."""
        counts = Counter(self.senses).values()
        return len(counts) > 1 and max(counts) > 1

    def __repr__(self) -> str:
        layers = len(self.vectors) - 1
        return (
            f"<ContextualView of {self.word!r} in {len(self.sentences)} sentences, {layers} layers>"
        )


class HasVectors(Protocol):
    """An object with words and their vectors: `WordVectors` or a `WordSpace`."""

    @property
    def words(self) -> Sequence[str]:
        """The words."""

    @property
    def vectors(self) -> np.ndarray:
        """The vectors of the words, `(V, D)`."""


def contextual_view(
    encoder: object,
    sentences: Sequence[str] | Mapping[str, Sequence[str]],
    word: str,
    static: HasVectors | None = None,
    top_k: int = 10,
) -> ContextualView:
    """Compares a word in many sentences, layer by layer, with its static vector.

    Args:
        encoder: A task with an encoder, such as a `Pretrainer` or a `SimilarityScorer`, or a tuple
            of a model built by `BertConfig` and its tokenizer.
        sentences: A list of strings, each of which contains the word exactly once, in upper or
            lower case; or a dict of lists of strings, keyed by sense, such as
            `WORD_SENSES["spring"]` of `examples/word_senses.py`.
        word: The word.
        static: Static vectors of words: a `WordSpace`, or an object with `words` and `vectors`,
            such as `WordVectors`. If None, the static vector is the mean of the word's token
            embeddings in the encoder, without positions.
        top_k: Maximum number of words nearest to the static vector that are returned.

    Returns:
        A `ContextualView`.

    Raises:
        TypeError: If `encoder` is neither a task with an encoder nor a tuple of a model and its
            tokenizer, or a sentence is not a string.
        ValueError: If there is no sentence; if a sentence does not contain the word exactly once,
            or is truncated before the end of the word; or if the word has no static vector.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "hot", "spring"])
    >>> model = BertConfig(7, dim=16, num_layers=2, num_heads=2, intermediate_dim=32).build()
    >>> view = contextual_view((model, tokenizer), ["a spring", "a hot spring"], "spring", top_k=2)
    >>> view, view.vectors.shape, view.places
    (<ContextualView of 'spring' in 2 sentences, 2 layers>, (3, 2, 16), [(2, 2), (3, 3)])
    """
    model, field = _parts(encoder)
    senses = None
    if isinstance(sentences, Mapping):
        senses = [sense for sense, rows in sentences.items() for _ in rows]
        sentences = [sentence for rows in sentences.values() for sentence in rows]
    sentences = checked_texts(sentences)
    if not sentences:
        raise ValueError("Expected at least one sentence. Received: none.")
    places = [_place(field, sentence, word) for sentence in sentences]
    vectors = [
        _vectors(model, field, sentences[i : i + _BATCH], places[i : i + _BATCH])
        for i in range(0, len(sentences), _BATCH)
    ]
    return ContextualView(
        word,
        sentences,
        senses,
        np.concatenate(vectors, axis=1),
        _neighbours(model, field, word, static, top_k),
        places,
        study_texts(model, field, sentences),
    )


def sense_layer(views: Sequence[ContextualView]) -> int:
    """Chooses the layer that best separates the senses of several words.

    Args:
        views: `ContextualView`s of words with known senses, all from the same encoder.

    Returns:
        Index of the layer with the highest mean accuracy, from 0 (the embeddings). With equal
        accuracies, the largest mean margin decides.

    Raises:
        ValueError: If a view has no senses, fewer than two senses, or no sense with two or more
            sentences.

    Example:

    >>> vectors = np.array([[[1, 0], [1, 0], [1, 0], [1, 0]], [[1, 0], [0, 1], [1, 0], [0, 1]]])
    >>> senses = ["one", "two", "one", "two"]
    >>> view = ContextualView("x", ["x"] * 4, senses, vectors, [], [(1, 1)] * 4, None)
    >>> sense_layer([view])
    1
    """
    accuracies = np.mean([view.accuracies for view in views], axis=0)
    margins = np.mean([view.margins for view in views], axis=0)
    return int(np.lexsort((margins, accuracies))[-1])


def _parts(encoder: object) -> tuple[keras.Model, EncoderInput]:
    if isinstance(encoder, tuple) and len(encoder) == 2:
        model, tokenizer = encoder
        return model, EncoderInput(tokenizer, model.get_layer("embedding").sequence_length)
    field = getattr(encoder, "field", None)
    if isinstance(field, EncoderInput) and hasattr(encoder, "model"):
        return encoder.model, field
    raise TypeError(
        "Expected a task with an encoder, such as a Pretrainer, or a model and its tokenizer as a "
        f"tuple. Received: {type(encoder).__name__}."
    )


def _place(field: EncoderInput, sentence: str, word: str) -> tuple[int, int]:
    """The first and the last token of the word in the row of a sentence."""
    of_words = word_characters()
    whole = rf"(?<![{of_words}]){re.escape(word)}(?![{of_words}])"
    found = list(re.finditer(whole, sentence, re.IGNORECASE))
    if len(found) != 1 or not word:
        raise ValueError(
            f"Expected the word {word!r} once in each sentence. Received: {len(found)} times in "
            f"{sentence!r}."
        )
    start, end = found[0].span()
    _, offsets = field.tokenizer.encode_with_offsets(sentence)
    tokens = [i for i, (a, b) in enumerate(offsets) if a < end and b > start]
    first = len(field.start)
    if not tokens or tokens[-1] >= field.room:
        raise ValueError(
            f"Expected {word!r} within the first {field.room} tokens of each sentence, because the "
            f"encoder reads no more. Received: {sentence!r}."
        )
    return tokens[0] + first, tokens[-1] + first


def _vectors(
    model: keras.Model,
    field: EncoderInput,
    sentences: Sequence[str],
    places: Sequence[tuple[int, int]],
) -> np.ndarray:
    """The vectors of the word in each layer and sentence, `(L + 1, S, D)`."""
    ids, segments = field.encode(sentences)
    inputs = {
        "token_ids": ids,
        "segment_ids": segments,
        "padding_mask": ids != field.tokenizer.pad_id,
    }
    states = hidden_states(
        model, {key: ops.convert_to_tensor(x) for key, x in inputs.items() if key in model.input}
    )
    layers = [np.asarray(ops.convert_to_numpy(ops.cast(x, "float32"))) for x in states]
    return np.array(
        [
            [row[a : b + 1].mean(axis=0) for row, (a, b) in zip(layer, places, strict=True)]
            for layer in layers
        ]
    )


def _neighbours(
    model: keras.Model, field: EncoderInput, word: str, static: HasVectors | None, top_k: int
) -> list[Neighbour]:
    if static is not None:
        space = static if isinstance(static, WordSpace) else WordSpace(static.words, static.vectors)
        return space.nearest(word, top_k=top_k)
    layer = model.get_layer("embedding").token_embedding.embedding
    table = np.asarray(ops.convert_to_numpy(layer.embeddings), "float32")
    words = field.tokenizer.vocabulary
    space, ids = WordSpace(words, table[: len(words)]), field.tokenizer.encode(word)
    names = ("pad_id", "unknown_id", "start_id", "end_id", "mask_id")
    special = {getattr(field.tokenizer, name, None) for name in names} - {None}
    if not ids or getattr(field.tokenizer, "unknown_id", None) in ids:
        raise ValueError(
            f"Expected a word that the tokenizer of the encoder knows. Received: {word!r}."
        )
    return space.near(
        table[ids].mean(axis=0), top_k, {*ids, *(i for i in special if i is not None)}
    )
