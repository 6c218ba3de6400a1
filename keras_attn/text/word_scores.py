"""Scores of texts by the words that they share with a question (BM25)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from keras_attn.packages import needed
from keras_attn.text.bytes_of_text import SYMBOL_RANGES, UNSPACED_RANGES
from keras_attn.text.normalization import normalize_text


def _class(ranges: Sequence[tuple[int, int]]) -> str:
    return "".join(rf"\U{low:08x}-\U{high:08x}" for low, high in ranges)


_WORD = re.compile(
    f"[^ {_class(SYMBOL_RANGES)}{_class(UNSPACED_RANGES)}]+|[{_class(UNSPACED_RANGES)}]"
)


def search_words(text: str) -> list[str]:
    """Splits a text into search words.

    Words are case-folded runs of letters, digits and marks of any script. In scripts without
    spaces, such as Chinese or Thai, each character is a word. Stop words are not removed, and words
    are not stemmed.

    Args:
        text: A string.

    Returns:
        The words.

    Example:

    >>> search_words("Where's the Café, 3rd floor? 東京")
    ['where', 's', 'the', 'café', '3rd', 'floor', '東', '京']
    """
    return _WORD.findall(normalize_text(text).casefold())


class WordScores:
    """Scores texts by the words of a question, with BM25, computed by the library `bm25s`.

        score = sum_w log(1 + (N - n_w + 0.5) / (n_w + 0.5)) f_w / (f_w + k1 (1 - b + b l / L))

    The sum is over the words w of the question. N is the number of texts, n_w the number of texts
    that contain w, L the average length, and l the length of the text, in which w occurs f_w times.
    The constants are k1 = 1.5 and b = 0.75. A call with a question returns the score of each text,
    float32 `(N,)`.

    References:
        - [Robertson and Zaragoza, 2009](https://doi.org/10.1561/1500000019): BM25 and beyond.
        - [Kamphuis et al., 2020](https://doi.org/10.1007/978-3-030-45442-5_4): this variant, which
          Lucene uses.

    Args:
        texts: The texts, at least one.

    Raises:
        ImportError: If `bm25s` is not installed.

    Example:

    >>> scores = WordScores(["a red dog", "a blue bird", "a cat"])
    >>> int(scores("the blue car").argmax())
    1
    """

    def __init__(self, texts: Sequence[str]):
        with needed("A search by words", 'Or search by="vectors" (--by vectors).'):
            import bm25s
        self._numbers: dict[str, int] = {}
        numbers = self._numbers
        texts_of = [
            [numbers.setdefault(word, len(numbers)) for word in search_words(text)]
            for text in texts
        ]
        self._count = len(texts_of)
        if numbers:
            self._index = bm25s.BM25()
            self._index.index((texts_of, numbers), create_empty_token=False, show_progress=False)

    def __call__(self, question: str) -> np.ndarray:
        """Returns a score for each text, float32 `(n,)`."""
        words = [self._numbers[w] for w in search_words(question) if w in self._numbers]
        if not words:
            return np.zeros(self._count, "float32")
        return self._index.get_scores_from_ids(words)
