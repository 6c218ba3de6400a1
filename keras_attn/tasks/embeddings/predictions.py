"""What word embeddings are asked: neighbours, analogies, scores, files of vectors, a page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from keras import ops

from keras_attn.arrays import ArrayModule
from keras_attn.fields import Names, Numbers, WordSum
from keras_attn.generation.numbers import rounded_count
from keras_attn.inputs import listed
from keras_attn.interop import WordVectors, write_word_vectors
from keras_attn.metrics import AnalogyReport, Neighbour, WordPairReport, WordSpace
from keras_attn.records import read_analogies, read_word_pairs
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.embeddings.settings import EmbeddingsTest, EmbeddingsUse
from keras_attn.text import WordTokenizer
from keras_attn.text.words import SPECIAL_TOKENS
from keras_attn.visualize import word_map_page

_SPECIAL = len(SPECIAL_TOKENS)


class WordTests(NamedTuple):
    """Files of questions that word embeddings are measured on.

    Example:

    >>> WordTests({"family": [("man", "woman", "king", "queen")]}, {}).summary()
    '1 analogies, 0 pairs of words'
    """

    analogies: Mapping[str, Sequence[tuple[str, str, str, str]]]
    """Questions by sections."""
    pairs: Mapping[str, Sequence[tuple[str, str, float]]]
    """Pairs of words with scores, by the name of their file."""

    @classmethod
    def read(cls, test: EmbeddingsTest) -> WordTests:
        """Reads the files.

        Args:
            test: Their paths.
        """
        test.check()
        analogies = read_analogies(test.analogies) if test.analogies else {}
        names = [Path(path).name for path in test.pairs]
        if len(set(names)) < len(names):
            names = list(test.pairs)
        read = map(read_word_pairs, test.pairs)
        return cls(analogies, dict(zip(names, read, strict=True)))

    def summary(self) -> str:
        """Returns how much there is."""
        asked = sum(map(len, self.analogies.values()))
        return f"{asked:,} analogies, {sum(map(len, self.pairs.values())):,} pairs of words"


class EmbeddingsReport(NamedTuple):
    """Scores of word embeddings. `print` shows them.

    Example:

    >>> print(EmbeddingsReport(None, {"wordsim353.tsv": WordPairReport(0.5, 20, 3)}))
    wordsim353.tsv: Spearman 0.5000 over 20 pairs; 3 more have a word without a vector
    """

    analogies: AnalogyReport | None
    """None if there were no questions."""
    pairs: dict[str, WordPairReport]
    """By the name of the file."""

    def __str__(self) -> str:
        lines = [] if self.analogies is None else [f"Analogies: {self.analogies}"]
        return "\n".join([*lines, *(f"{name}: {found}" for name, found in self.pairs.items())])

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as a JSON-safe dict."""
        found: dict[str, Any] = {name: x.to_dict() for name, x in self.pairs.items()}
        return found if self.analogies is None else {"analogies": self.analogies.to_dict(), **found}


@dataclass(frozen=True)
class EmbeddingsLearned(Learned):
    """What an embedder learned beside its vectors: the words.

    Raises:
        TypeError: If the tokenizer is of another class, or has hash buckets.
    """

    tokenizer: WordTokenizer

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tokenizer, WordTokenizer) or self.tokenizer.hash_buckets:
            raise TypeError(
                "`tokenizer` must be a WordTokenizer without hash buckets. Received: "
                f"{type(self.tokenizer).__name__}."
            )


class EmbeddingsPredictions(Task):
    """What word embeddings are asked: a base class of `WordEmbedder`."""

    Learned = EmbeddingsLearned
    learned: EmbeddingsLearned
    Use = EmbeddingsUse
    signature_inputs: ClassVar = {"serving_default": ("words",)}

    @property
    def tokenizer(self) -> WordTokenizer:
        """The tokenizer, whose words have vectors."""
        return self.learned.tokenizer

    @property
    def vectors(self) -> WordVectors:
        """The words and their vectors, the commonest first."""
        return WordVectors(list(self.tokenizer.vocabulary[_SPECIAL:]), self._table())

    def _table(self) -> np.ndarray:
        table = ops.convert_to_numpy(self.model.get_layer("embedding").embeddings)
        return np.array(table, "float32")[_SPECIAL:]

    def space(self) -> WordSpace:
        """Returns the words as vectors of length 1, for many questions."""
        return WordSpace(self.tokenizer.vocabulary[_SPECIAL:], self._table())

    def nearest(self, text: str, top_k: int = EmbeddingsUse.top_k) -> list[Neighbour]:
        """Finds the words nearest to a word, or to a sum and difference of words.

        Args:
            text: A word, or words with plus and minus and white space between them:
                `"king - man + woman"`.
            top_k: Number of words.

        Returns:
            `Neighbour`s, the nearest first, without the words of `text`.

        Raises:
            ValueError: If a word has no vector.
        """
        plus: list[str] = []
        minus: list[str] = []
        side = plus
        for word in text.split():
            if word in ("+", "-"):
                side = plus if word == "+" else minus
            else:
                side.append(word)
                side = plus
        return self.space().nearest(plus, minus, top_k)

    def analogy(self, a: str, b: str, c: str, top_k: int = EmbeddingsUse.top_k) -> list[Neighbour]:
        """Answers "a is to b as c is to ...?": the words nearest to b - a + c.

        Args:
            a: A word, such as `"man"`.
            b: A word, such as `"woman"`.
            c: A word, such as `"king"`.
            top_k: Number of words.

        Returns:
            `Neighbour`s, the nearest first.

        Raises:
            ValueError: If a word has no vector.
        """
        return self.space().nearest([b, c], [a], top_k)

    def predict(
        self, texts: str | Sequence[str], top_k: int = EmbeddingsUse.top_k, batch_size: int = 64
    ) -> Any:
        """Finds the words nearest to words, or to sums and differences of them.

        Args:
            texts: A string such as `"king"` or `"king - man + woman"`, or a list of them.
            top_k: Number of words.
            batch_size: Texts computed at a time.

        Returns:
            A dict with `words` and their `similarities` (cosines), or a list of dicts. Both are
            empty if a word has no vector.

        Raises:
            TypeError: If an input is not a string.
        """
        one, top_k = isinstance(texts, str), self.Use(top_k=top_k).top_k
        use = self.Use(top_k=rounded_count(top_k))
        asked = [texts] if isinstance(texts, str) else listed(texts, "words")
        rows: list[dict[str, Any]] = []
        for i in range(0, len(asked), batch_size):
            found = self._computed({"words": asked[i : i + batch_size]}, use)
            for words, cosines in zip(found["words"], found["similarities"], strict=True):
                there = min(top_k, words.index("") if "" in words else len(words))
                rows.append({"words": words[:there], "similarities": cosines[:there]})
        return rows[0] if one else rows

    @property
    def inputs(self) -> dict[str, Any]:
        """The field of the input."""
        return {"words": WordSum(self.tokenizer.vocabulary, self.tokenizer.unknown_id)}

    @property
    def outputs(self) -> dict[str, Any]:
        """The fields of the outputs."""
        return {
            "words": Names(["", *self.tokenizer.vocabulary[1:]], "ids"),
            "similarities": Numbers("similarities"),
        }

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Any], use: EmbeddingsUse
    ) -> dict[str, Any]:
        """Computes the nearest words, on every backend and in the SavedModel."""
        signed = ops.cast(tensors["words"], "int32")
        table = ops.cast(self.model.get_layer("embedding").embeddings, "float32")
        lengths = ops.sqrt(ops.sum(ops.square(table), axis=-1, keepdims=True))
        units = table / ops.maximum(lengths, 1e-12)
        ids = ops.abs(signed)  # (B, T)
        # How often each word is added, less how often it is taken away, and how often it is there:
        # (B, V). Neither (B, T, D) nor (B, T, V) is made, which are large for long texts.
        rows = ops.cumsum(ops.ones_like(ids), axis=0) - 1
        at = ops.stack([ops.reshape(rows, (-1,)), ops.reshape(ids, (-1,))], axis=1)
        shape = ops.shape(ids)[0], self.tokenizer.vocabulary_size
        signs = ops.reshape(ops.cast(ops.sign(signed), "float32"), (-1,))
        wanted = ops.matmul(ops.scatter(at, signs, shape), units)  # (B, D)
        given = ops.scatter(at, ops.ones_like(signs), shape) > 0
        far = ops.maximum(ops.sqrt(ops.sum(ops.square(wanted), axis=-1, keepdims=True)), 1e-12)
        cosines = ops.matmul(wanted / far, ops.transpose(units))  # (B, V)
        places = ops.cumsum(ops.ones_like(cosines[:1], dtype="int32"), axis=1) - 1
        cosines = ops.where(ops.logical_or(given, places < _SPECIAL), -2.0, cosines)
        top_k = min(use.top_k, self.tokenizer.vocabulary_size)
        best, found = ops.top_k(cosines, top_k)
        unknown = ops.any(ids == self.tokenizer.unknown_id, axis=1, keepdims=True)
        none = ops.logical_or(unknown, ops.all(ids == 0, axis=1, keepdims=True))
        none = ops.logical_or(none, best < -1.5)
        return {
            "ids": ops.where(none, 0, ops.cast(found, "int32")),
            "similarities": ops.where(none, 0.0, best),
        }

    def evaluate(
        self,
        tests: WordTests | EmbeddingsTest | Mapping[str, Any],
        first: int | None = None,
    ) -> EmbeddingsReport:
        """Measures the vectors on analogies and on pairs of words.

        Args:
            tests: `WordTests`; or settings `Test`, or a dict of them, with the paths of files.
            first: Analogies: number of the commonest words that may be asked and answered; 0: all.
                If None, that of the settings.

        Returns:
            A `EmbeddingsReport`.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If a file is not as it must be.
        """
        own = EmbeddingsTest.first
        if not isinstance(tests, WordTests):
            given = tests if isinstance(tests, EmbeddingsTest) else EmbeddingsTest.made(tests)
            tests, own = WordTests.read(given), given.first
        first = own if first is None else first
        space = self.space()
        asked = any(tests.analogies.values())
        return EmbeddingsReport(
            space.analogies(tests.analogies, first) if asked else None,
            {name: space.word_pairs(pairs) for name, pairs in tests.pairs.items()},
        )

    def save_vectors(self, path: str | os.PathLike[str], format: str = "auto") -> None:
        """Writes the words and their vectors to a file that others read.

        Args:
            path: The file.
            format: As in `keras_attn.interop.write_word_vectors`: `"glove"`, `"word2vec"`,
                `"word2vec_binary"`, `"npy"` or `"npz"`; `"auto"` goes by the end of the name.
        """
        write_word_vectors(path, self.vectors, format)

    def word_page(
        self,
        words: int | Sequence[str] = 1000,
        top_k: int = EmbeddingsUse.top_k,
        title: str = "Words",
        seed: int = 0,
    ) -> str:
        """Writes a page with a map of words (t-SNE): search, and the neighbours on a click.

        Args:
            words: The words on the map, or the number of the commonest.
            top_k: Number of neighbours.
            title: Heading of the page.
            seed: Seed of the map.

        Returns:
            The page as a string of HTML, to be written as UTF-8.

        Raises:
            ImportError: If scikit-learn is not installed.
            ValueError: If a word has no vector, or there are fewer than five.
        """
        return word_map_page(self.space(), words, top_k=top_k, title=title, seed=seed)


def tokenizer_of(vectors: WordVectors) -> WordTokenizer:
    """Makes a tokenizer of the words of vectors.

    Args:
        vectors: The words and their vectors.

    Returns:
        A `WordTokenizer`, in lower case unless a word has a capital letter.

    Example:

    >>> tokenizer_of(WordVectors(["cat"], [[1.0]])).vocabulary[4:]
    ('cat',)
    """
    lowercase = all(word == word.lower() for word in vectors.words)
    return WordTokenizer([*SPECIAL_TOKENS, *vectors.words], lowercase)
