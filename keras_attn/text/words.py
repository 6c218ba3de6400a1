"""Tokenizer with one id for each word."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import keras

from keras_attn.inputs import check_listed, listed
from keras_attn.packages import needed
from keras_attn.text.checks import well_formed
from keras_attn.text.normalization import normalize_text, normalize_with_offsets
from keras_attn.text.offsets import Offsets, original_offsets
from keras_attn.text.row_tokenizer import PlacedTokenizer, Rows
from keras_attn.text.word_cutting import cut_words

if TYPE_CHECKING:
    from keras_attn.text.words_graph import GraphWords

SPECIAL_TOKENS = ("<pad>", "<start>", "<end>", "<unknown>")
_HASHED = 64  # characters of a word that its bucket depends on


@keras.saving.register_keras_serializable(package="keras_attn")
class WordTokenizer(PlacedTokenizer):
    """Tokenizer with one id for each word and punctuation mark.

    Use this tokenizer with word vectors such as GloVe and word2vec, and for explanations at word
    level. A text is normalized (white space becomes single spaces, combining marks are composed
    with their letters) and split by rules similar to the rules of the Penn Treebank, which most
    vocabularies of word vectors follow:

    - A run of letters and digits is a word. Periods, commas and colons between digits belong to the
      word (`3.5`, `1,000`, `10:30`), and so do hyphens and apostrophes between letters
      (`well-known`, `o'clock`).
    - English contractions are separate words: `don't` is split into `do` and `n't`, and `she's`
      into `she` and `'s`; `'m`, `'d`, `'re`, `'ve` and `'ll` are also separate. A typographic
      apostrophe in a word becomes `'`.
    - Two or more single letters that are each followed by a period are one word: `u.s.`, `e.g.`
    - `...`, `--`, two backticks and two apostrophes are single marks. Any other symbol is a
      separate mark, and so is each character of a script without spaces, such as Chinese or Thai.

    A word that is not in the vocabulary becomes `<unknown>`. If `hash_buckets` is above 0, an
    unknown word gets one of `hash_buckets` additional ids instead, chosen by a hash of its letters,
    so that two unknown words seldom have the same id.

    Ids 0 to 3 are `<pad>`, `<start>`, `<end>` and `<unknown>`. If a text contains these strings,
    they are not read as special tokens, because `<` and `>` are split off.

    Args:
        vocabulary: The words in the order of their ids, beginning with the four special tokens.
            Words that the rules never produce, such as `New York`, or words with capitals if
            `lowercase` is True, are never found in a text.
        lowercase: Whether letters are lower-cased.
        hash_buckets: Number of additional ids for words that are not in the vocabulary. If 0, all
            such words become `<unknown>`.

    Raises:
        TypeError: If a word is not a string.
        ValueError: If the vocabulary is invalid, or `hash_buckets` is out of range.

    Example:

    >>> from keras_attn.text import WordTokenizer
    >>> tokenizer = WordTokenizer.train(["A dog runs.", "A dog doesn't run."])
    >>> tokenizer.vocabulary[4:]
    ('.', 'a', 'dog', 'does', "n't", 'run', 'runs')
    >>> ids = tokenizer.encode("The dog didn't run")
    >>> tokenizer.tokens(ids)
    ['<unknown>', 'dog', '<unknown>', "n't", 'run']
    """

    pad_id = 0
    start_id = 1
    end_id = 2
    unknown_id = 3
    hash_modulus = 2**31 - 1
    """The prime modulus of the hash for `hash_buckets`."""
    hash_factors = tuple(pow(48_271, i + 1, 2**31 - 1) for i in range(_HASHED))
    """The multiplier of the hash for `hash_buckets`."""

    assets_name = "words"

    def __init__(
        self, vocabulary: Sequence[str], lowercase: bool = True, hash_buckets: int = 0
    ) -> None:
        self.vocabulary = _checked_vocabulary(vocabulary)
        self.lowercase = bool(lowercase)
        if isinstance(hash_buckets, bool) or not isinstance(hash_buckets, int) or hash_buckets < 0:
            raise ValueError(
                f"`hash_buckets` must be an integer of at least 0. Received: {hash_buckets!r}."
            )
        self.hash_buckets = hash_buckets
        self._ids_of = {word: i for i, word in enumerate(self.vocabulary)}

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocabulary_size: int | None = None,
        lowercase: bool = True,
        min_frequency: int = 1,
        allow_fewer: bool = True,
        hash_buckets: int = 0,
    ) -> WordTokenizer:
        """Collects the words of texts, the most frequent first, then in alphabetical order.

        Args:
            texts: The training texts, such as a list of strings or a generator of lines.
            vocabulary_size: Maximum number of ids, including the 4 special tokens and
                `hash_buckets`; no limit if None.
            lowercase: Whether letters are lower-cased.
            min_frequency: Minimum number of occurrences of a word that gets an id. Rarer words are
                not in the vocabulary.
            allow_fewer: Whether the result may have fewer ids than `vocabulary_size` if the texts
                do not have enough words.
            hash_buckets: Number of additional ids for words that are not in the vocabulary.

        Returns:
            A `WordTokenizer`.

        Raises:
            TypeError: If an element of `texts` is not a string.
            ValueError: If no word occurs `min_frequency` times, a number is out of range, or, with
                `allow_fewer=False`, the texts do not have enough words.

        Example:

        >>> from keras_attn.text import WordTokenizer
        >>> WordTokenizer.train(["to be or not to be"], vocabulary_size=6).vocabulary[4:]
        ('be', 'to')
        """
        check_listed(texts, "texts")
        smallest = len(SPECIAL_TOKENS) + 1 + hash_buckets
        if vocabulary_size is not None and vocabulary_size < smallest:
            raise ValueError(
                f"`vocabulary_size` must be at least {smallest} ({len(SPECIAL_TOKENS)} special "
                f"tokens, {hash_buckets} hash buckets and a word), or None. Received: "
                f"{vocabulary_size!r}."
            )
        if min_frequency < 1:
            raise ValueError(f"`min_frequency` must be at least 1. Received: {min_frequency!r}.")
        empty = cls([*SPECIAL_TOKENS], lowercase)
        counts: collections.Counter[str] = collections.Counter()
        for text in texts:
            counts.update(empty._words(text))
        kept = [word for word, count in counts.items() if count >= min_frequency]
        if not kept:
            raise ValueError(
                f"`texts` must hold a word that occurs {min_frequency} times or more. "
                f"Received: {len(counts)} different words, none of which is so frequent. "
                "Check the data; a generator that was read before is empty."
            )
        ordered = sorted(kept, key=lambda word: (-counts[word], word))
        if vocabulary_size is not None:
            most = vocabulary_size - len(SPECIAL_TOKENS) - hash_buckets
            if len(ordered) < most and not allow_fewer:
                raise ValueError(
                    f"The texts contain only {len(ordered)} words that can be used. "
                    f"Received: vocabulary_size={vocabulary_size}, which requires {most}. "
                    "Use allow_fewer=True, or a smaller vocabulary."
                )
            ordered = ordered[:most]
        return cls([*SPECIAL_TOKENS, *ordered], lowercase, hash_buckets)

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, including special tokens and hash buckets."""
        return len(self.vocabulary) + self.hash_buckets

    @property
    def lower_case(self) -> dict[int, str]:
        """The lower-case form of each code point that `lowercase` changes."""
        return _lower_case()

    def words(self, texts: str | Sequence[str]) -> Any:
        """Splits texts into the words that are looked up in the vocabulary.

        Args:
            texts: A string, or a sequence of strings.

        Returns:
            A list of words for a string; a list with the words of each text for a sequence. Words
            are lower-cased if `lowercase` is True.

        Raises:
            TypeError: If an element of `texts` is not a string.

        Example:

        >>> from keras_attn.text import WordTokenizer
        >>> WordTokenizer.train(["a"]).words("I can't, at 10:30!")
        ['i', 'ca', "n't", ',', 'at', '10:30', '!']
        """
        single = isinstance(texts, str)
        found = [
            self._words(text)
            for text in ([texts] if isinstance(texts, str) else listed(texts, "strings"))
        ]
        return found[0] if single else found

    def _rows(self, texts: list[str]) -> Rows:
        return [[*map(self._id, self._words(text))] for text in texts]

    def _placed_rows(self, texts: list[str]) -> tuple[Rows, list[Offsets]]:
        offsets = []
        for text in texts:
            normal, places = normalize_with_offsets(well_formed(text))
            spans = [(places[s][0], places[e - 1][1]) for s, e in cut_words(normal)]
            offsets.append(original_offsets(text, spans))
        return self._rows(texts), offsets

    def _text(self, ids: list[int]) -> str:
        skipped = (self.pad_id, self.start_id, self.end_id)
        return " ".join(self._pieces([i for i in ids if i not in skipped]))

    def _pieces(self, ids: list[int]) -> list[str]:
        known = len(self.vocabulary)
        return [self.vocabulary[i] if i < known else f"<unknown {i - known + 1}>" for i in ids]

    def to_graph(self) -> GraphWords:
        """Returns the tokenizer as a `tf.Module` of core TensorFlow ops.

        Returns:
            A `GraphWords`, for `tf.data` pipelines and SavedModels.

        Raises:
            ImportError: If TensorFlow is not installed.

        Example:

        >>> import tensorflow as tf
        >>> from keras_attn.text import WordTokenizer
        >>> graph = WordTokenizer.train(["to be"]).to_graph()
        >>> graph.encode(tf.constant(["To be!", ""])).to_list()
        [[5, 4, 3], []]
        """
        with needed("A tokenizer in a graph"):
            from keras_attn.text.words_graph import GraphWords

        return GraphWords(self)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__` as JSON-compatible values."""
        return {
            "vocabulary": list(self.vocabulary),
            "lowercase": self.lowercase,
            "hash_buckets": self.hash_buckets,
        }

    def _words(self, text: str) -> list[str]:
        text = normalize_text(well_formed(text))
        words = [text[start:end] for start, end in cut_words(text)]
        if "\u2019" in text:
            words = [word.replace("\u2019", "'") if len(word) > 1 else word for word in words]
        return [_lowered(word) for word in words] if self.lowercase else words

    def _id(self, word: str) -> int:
        found = self._ids_of.get(word)
        if found is not None:
            return found
        if not self.hash_buckets:
            return self.unknown_id
        total = sum(ord(c) * f for c, f in zip(word, self.hash_factors, strict=False))
        return len(self.vocabulary) + total % self.hash_modulus % self.hash_buckets


@functools.cache
def _lower_case() -> dict[int, str]:
    """Maps single code points, because `str.lower` of a Greek sigma depends on its context."""
    every = (c for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    return {code: low for code in every if (low := chr(code).lower()) != chr(code)}


def _lowered(word: str) -> str:
    return word.lower() if word.isascii() else word.translate(_lower_case())


def _checked_vocabulary(vocabulary: Sequence[str]) -> tuple[str, ...]:
    words = tuple(vocabulary)
    expected = f"`vocabulary` must be {list(SPECIAL_TOKENS)} and words."
    train = "Make one with `WordTokenizer.train`."
    special = len(SPECIAL_TOKENS)
    if words[:special] != SPECIAL_TOKENS:
        raise ValueError(
            f"{expected} Received: a vocabulary that begins with {words[:special]}. {train}"
        )
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"{expected} Received: {word!r} of type {type(word).__name__}.")
        if not word or well_formed(word) != word:
            raise ValueError(f"{expected} Received: the word {word!r}. {train}")
    if len(set(words)) < len(words):
        word, count = collections.Counter(words).most_common(1)[0]
        raise ValueError(f"{expected} Received: the word {word!r} {count} times. {train}")
    return words
