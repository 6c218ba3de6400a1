"""Embeddings initialized with word vectors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attn.interop import WordVectors, read_word_vectors, word_vector_width
from keras_attn.layers import TokenEmbedding
from keras_attn.settings import Choice, Kinds, Settings, declared_fields, setting
from keras_attn.text import WordTokenizer


class VectorStart(NamedTuple):
    """The initial word vectors of an embedding."""

    place: str
    """Path of the file of vectors."""
    found: int
    """Number of words of the vocabulary with a vector."""
    missing: list[str]
    """Words of the vocabulary without a vector, except special tokens."""
    frozen: bool
    """Whether the embedding is frozen."""

    def __str__(self) -> str:
        words = self.found + len(self.missing)
        text = (
            f"Word vectors of {self.place}: {self.found:,} of {words:,} words "
            f"({self.found / words:.1%}) start from theirs"
            f"{', and are frozen' if self.frozen else ''}. The others start at random, with their "
            "mean and deviation; <unknown> starts at their mean."
        )
        return (
            f"{text} Words without a vector: {', '.join(self.missing[:8])}."
            if self.missing
            else text
        )


@dataclass(frozen=True)
class WordVectorData(Settings):
    """Settings of word vectors for the embedding."""

    word_vectors: str = setting(
        "",
        "{when}file of word vectors that the embedding starts from: GloVe, word2vec or NumPy{then}",
        path="file",
    )
    freeze_word_vectors: bool = setting(False, "do not train the embedding")
    vector_words: int = setting(
        0, "number of first words of --word-vectors that are added to the vocabulary", at_least=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("freeze_word_vectors", "vector_words"):
            if getattr(self, name) and not self.word_vectors:
                raise ValueError(
                    f"`{name}` requires `word_vectors`. Received: "
                    f"{name}={getattr(self, name)} without `word_vectors`."
                )
        if self.word_vectors and getattr(self, "backbone", ""):
            raise ValueError(
                "`word_vectors` and `backbone` both initialize the embedding. Received: both. "
                "Leave one out."
            )


def train_words(texts: Iterable[str], vocabulary_size: int, data: Any) -> WordTokenizer:
    """Trains a word tokenizer for a task.

    A word that occurs only once gets an id only if there are word vectors; otherwise `<unknown>`
    would not occur in training, and would learn nothing.
    """
    least, lowercase = 1 if data.word_vectors else 2, getattr(data, "lowercase", True)
    return WordTokenizer.train(texts, vocabulary_size, lowercase, min_frequency=least)


def sized_by_vectors(kinds: Kinds, chosen: Choice, place: str) -> Choice:
    """Returns the settings of a model, with the width of the vectors as `dim`."""
    takes = [name for name, kind in kinds.items() if _takes_vectors(kind)]
    if chosen.name not in takes:
        raise ValueError(
            "`word_vectors` require a model with a word embedding: "
            f"{kinds.key}={' or '.join(map(repr, takes))}. Received: "
            f"{kinds.key}={chosen.name!r}."
        )
    width = word_vector_width(place)
    if chosen.values.get("dim", width) != width:
        raise ValueError(
            f"`dim` is the width of the word vectors, {width} in {place}. Received: "
            f"dim={chosen.values['dim']}. Leave it out."
        )
    try:
        return kinds.made({kinds.key: chosen.name, **chosen.values, "dim": width})
    except ValueError as error:
        raise ValueError(
            f"The vectors of {place} are {width} wide: {error} Use dim={width}, and settings that "
            "match it."
        ) from error


def _takes_vectors(kind: type[Settings]) -> bool:
    """Whether the embedding of an architecture supports word vectors."""
    names = {field.name for field in declared_fields(kind)}
    return "dim" in names and getattr(kind, "reads_words", True)


def read_vectors(tokenizer: WordTokenizer, data: Any) -> tuple[WordTokenizer, WordVectors]:
    """Reads the vectors of a vocabulary, optionally extended by frequent words of the file."""
    vectors = read_word_vectors(data.word_vectors, tokenizer.vocabulary, data.vector_words)
    known = set(tokenizer.vocabulary)
    more = [word for word in vectors.words if word not in known]
    if not known.intersection(vectors.words):
        raise ValueError(
            "Expected a file with vectors for words of the training texts. Received: "
            f"{data.word_vectors}, which has none of their {len(known):,} words. Check that the "
            "file has the right language and case."
        )
    if more:
        words = [*tokenizer.vocabulary, *more]
        tokenizer = WordTokenizer(words, tokenizer.lowercase, tokenizer.hash_buckets)
    return tokenizer, vectors


def named_embedding(model: keras.Model) -> keras.layers.Layer:
    """Returns the layer named `embedding`, which can be frozen or start from word vectors."""
    layers = {layer.name: layer for layer in model.layers}
    if "embedding" not in layers:
        raise ValueError(
            "Word vectors, and embeddings that are not trained, need a model with a layer named "
            f"'embedding'. Received: {model.name!r} with {sorted(layers)}. Use this name in "
            "`build`."
        )
    return layers["embedding"]


def embedding_of_words(model: keras.Model) -> TokenEmbedding:
    """Finds the `TokenEmbedding`, which may be inside an `InputEmbedding`."""
    layer = named_embedding(model)
    found = getattr(layer, "token_embedding", layer)
    if not isinstance(found, TokenEmbedding):
        raise ValueError(
            "Word vectors need a `keras_attn.layers.TokenEmbedding`. Received: the layer "
            f"{layer.name!r} of {model.name!r}, of type {type(layer).__name__}."
        )
    return found


def start_from_vectors(
    model: keras.Model, tokenizer: WordTokenizer, vectors: WordVectors, place: str, freeze: bool
) -> VectorStart:
    """Initializes the embedding of a model with word vectors."""
    layer = embedding_of_words(model)
    weight = layer.embedding.embeddings
    table = np.array(keras.ops.convert_to_numpy(weight), "float64")
    words = tokenizer.vocabulary[4:]
    rows = [i for i, word in enumerate(words, start=4) if word in vectors]
    found = np.stack([vectors[tokenizer.vocabulary[i]] for i in rows]).astype("float64")
    # The random numbers are those that the layer was made with, so they follow the seed.
    table = (table - table.mean()) / table.std() * found.std(axis=0) + found.mean(axis=0)
    table[tokenizer.pad_id] = 0.0
    table[tokenizer.unknown_id] = found.mean(axis=0)
    table[rows] = found
    weight.assign(table / (layer.dim**0.5 if layer.scale else 1.0))
    layer.trainable = not freeze
    missing = [word for word in words if word not in vectors]
    return VectorStart(place, len(rows), missing, freeze)
