"""Ids of the words of texts, without rare words."""

from __future__ import annotations

import collections
import hashlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_attn.inputs import check_listed
from keras_attn.settings import Settings, setting
from keras_attn.text import WordTokenizer
from keras_attn.text.words import SPECIAL_TOKENS


@dataclass(frozen=True)
class WordChoice(Settings):
    """Settings that determine which words get an id.

    Args:
        min_frequency: Minimum number of occurrences of a word that gets an id.
        vocabulary_size: Maximum number of words, including 4 special tokens; the most frequent
            words get an id. No limit if None.
        lowercase: Whether letters are lower-cased.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range.

    Example:

    >>> WordIds.counted(["a b a", "b a c"], WordChoice(min_frequency=2)).tokenizer.vocabulary[4:]
    ('a', 'b')
    """

    min_frequency: int = setting(
        5, "minimum number of occurrences of a word that gets a vector", at_least=1
    )
    vocabulary_size: int | None = setting(
        None, "maximum number of words, including 4 special tokens; no limit if none", kind=int,
        at_least=6,
    )  # fmt: skip
    lowercase: bool = setting(True, "lower-case all letters")


@dataclass(frozen=True, eq=False)
class WordIds:
    """Ids and counts of the words of texts, without rare words.

    Args:
        tokenizer: Tokenizer with the words that have an id.
        ids: The concatenated ids of all texts, int32 `(n,)`.
        lengths: Number of ids of each text, integers `(texts,)`.
        counts: Number of occurrences of each id of the tokenizer, integers `(V,)`.
        words_read: Total number of words, including rare words.

    Example:

    >>> ids = WordIds.counted(["a b a", "b a c"], {"min_frequency": 2})
    >>> ids.tokenizer.vocabulary[4:], ids.ids.tolist(), ids.lengths.tolist()
    (('a', 'b'), [4, 5, 4, 5, 4], [3, 2])
    """

    tokenizer: WordTokenizer
    ids: np.ndarray = field(repr=False)
    lengths: np.ndarray = field(repr=False)
    counts: np.ndarray = field(repr=False)
    words_read: int

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def fingerprint(self) -> str:
        """A digest of the words and the texts."""
        digest = hashlib.sha256("\n".join(self.tokenizer.vocabulary).encode("utf-8", "replace"))
        for numbers in (self.ids, self.lengths.astype("int64")):
            digest.update(np.ascontiguousarray(numbers).tobytes())
        return digest.hexdigest()[:16]

    def summary(self) -> str:
        """Returns a text with the numbers of texts, words, and different words with an id."""
        return (
            f"{len(self):,} texts, {self.words_read:,} words, of which {len(self.ids):,} are one of"
            f" {len(self.tokenizer.vocabulary) - len(SPECIAL_TOKENS):,} with a vector"
        )

    @classmethod
    def counted(
        cls, texts: Iterable[str], data: WordChoice | Mapping[str, Any] | None = None
    ) -> WordIds:
        """Counts the words of texts, and assigns an id to each word that is frequent enough.

        Args:
            texts: Strings.
            data: Settings of the vocabulary: a `WordChoice`, or a dict of some of its settings.

        Returns:
            A `WordIds`.

        Raises:
            TypeError: If `texts` is a string, dict, set or table, contains something other than
                strings, or a setting is unknown or has the wrong type.
            ValueError: If the words that are frequent enough occur fewer than two times in total,
                or a setting is out of range.
        """
        data = data if isinstance(data, WordChoice) else WordChoice.made(data or {})
        cutter = WordTokenizer([*SPECIAL_TOKENS], data.lowercase)
        numbers: collections.defaultdict[str, int] = collections.defaultdict()
        numbers.default_factory = numbers.__len__
        ids, lengths = _read(texts, lambda text: [numbers[word] for word in cutter.words(text)])
        counts, words = np.bincount(ids, minlength=len(numbers)), list(numbers)
        often = np.flatnonzero(counts >= data.min_frequency).tolist()
        kept = sorted(often, key=lambda i: (-counts[i], words[i]))
        if data.vocabulary_size is not None:
            kept = kept[: data.vocabulary_size - len(SPECIAL_TOKENS)]
        tokenizer = WordTokenizer([*SPECIAL_TOKENS, *(words[i] for i in kept)], data.lowercase)
        places = np.full(len(words), -1, "int32")
        places[kept] = np.arange(len(kept)) + len(SPECIAL_TOKENS)
        return cls._of(tokenizer, places[ids], lengths, data)

    @classmethod
    def encoded(cls, texts: Iterable[str], tokenizer: WordTokenizer) -> WordIds:
        """Encodes texts with the words of a tokenizer.

        Args:
            texts: Strings.
            tokenizer: The tokenizer; words that it does not know are left out.

        Returns:
            A `WordIds`.

        Raises:
            TypeError: If `texts` is a string, dict, set or table, or contains something other than
                strings.
            ValueError: If words of the tokenizer's vocabulary occur fewer than two times in total.
        """
        ids, lengths = _read(texts, tokenizer.encode)
        ids = np.where(ids == tokenizer.unknown_id, -1, ids)
        return cls._of(tokenizer, ids, lengths)

    @classmethod
    def _of(
        cls,
        tokenizer: WordTokenizer,
        ids: np.ndarray,
        lengths: np.ndarray,
        data: WordChoice | None = None,
    ) -> WordIds:
        known = ids >= 0
        sums = np.concatenate([[0], np.cumsum(known)])
        ends = np.cumsum(lengths)
        if known.sum() < 2:
            often = f" that occur {data.min_frequency} times (`min_frequency`)" if data else ""
            raise ValueError(
                f"Expected texts with words{often}. Received: {len(lengths):,} texts with "
                f"{len(ids):,} words, of which {int(known.sum())} are frequent enough. Use more "
                "text."
            )
        kept = ids[known].astype("int32")
        counts = np.bincount(kept, minlength=len(tokenizer.vocabulary))
        return cls(tokenizer, kept, sums[ends] - sums[ends - lengths], counts, len(ids))


def _read(
    texts: Iterable[str], ids_of: Callable[[str], Sequence[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """The ids of texts, int32 `(n,)`, and the number of ids of each text."""
    check_listed(texts, "texts")
    read, lengths = array("i"), array("q")
    for text in texts:
        ids = ids_of(text)
        read.extend(ids)
        lengths.append(len(ids))
    every = np.frombuffer(read, "int32") if read else np.zeros(0, "int32")
    return every, np.array(lengths, "int64")
