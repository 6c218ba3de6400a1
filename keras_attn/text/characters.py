"""Tokenizer with one id for each character."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import keras

from keras_attn.inputs import check_listed
from keras_attn.packages import needed
from keras_attn.text.checks import readable, well_formed
from keras_attn.text.row_tokenizer import Rows, RowTokenizer

if TYPE_CHECKING:
    from keras_attn.text.characters_graph import GraphCharacters

SPECIAL_TOKENS = ("<pad>", "<start>", "<end>", "<unknown>")
UNKNOWN = "\ufffd"


@keras.saving.register_keras_serializable(package="keras_attn")
class CharacterTokenizer(RowTokenizer):
    """Tokenizer with one id for each Unicode character (code point).

    Ids 0 to 3 are `<pad>`, `<start>`, `<end>` and `<unknown>`. If a text contains these strings,
    they are not read as special tokens. Characters are neither lower-cased nor normalized, so `e`
    and its combining accent are two characters. A character that is not in the vocabulary becomes
    `<unknown>`, which is decoded as U+FFFD.

    Args:
        vocabulary: The tokens in the order of their ids: the four special tokens, then single
            characters.

    Raises:
        ValueError: If the vocabulary is invalid.

    Example:

    >>> from keras_attn.text import CharacterTokenizer
    >>> tokenizer = CharacterTokenizer.train(["to be or not to be"])
    >>> tokenizer.vocabulary[4:]
    (' ', 'o', 't', 'b', 'e', 'n', 'r')
    >>> tokenizer.encode("not me")
    [9, 5, 6, 4, 3, 8]
    >>> tokenizer.decode([9, 5, 6, 4, 3, 8])
    'not \ufffde'
    """

    pad_id = 0
    start_id = 1
    end_id = 2
    unknown_id = 3

    assets_name = "characters"

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.vocabulary = _checked_vocabulary(vocabulary)
        special = len(SPECIAL_TOKENS)
        self._ids_of = {c: i for i, c in enumerate(self.vocabulary) if i >= special}
        self._text_of = ("", "", "", UNKNOWN, *self.vocabulary[special:])

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary_size: int | None = None) -> CharacterTokenizer:
        """Collects the characters of texts, the most frequent first, then by code point.

        Args:
            texts: The training texts, such as a list of strings or a generator of lines.
            vocabulary_size: Maximum number of ids, including the 4 special tokens; no limit if
                None.

        Returns:
            A `CharacterTokenizer`, which has fewer than `vocabulary_size` ids if the texts have
            fewer characters.

        Raises:
            TypeError: If an element of `texts` is not a string.
            ValueError: If there is no character, or `vocabulary_size` is smaller than 5.

        Example:

        >>> from keras_attn.text import CharacterTokenizer
        >>> CharacterTokenizer.train(["banana"], vocabulary_size=6).vocabulary[4:]
        ('a', 'n')
        """
        check_listed(texts, "texts")
        smallest = len(SPECIAL_TOKENS) + 1
        if vocabulary_size is not None and vocabulary_size < smallest:
            raise ValueError(
                f"`vocabulary_size` must be at least {smallest} ({len(SPECIAL_TOKENS)} special "
                f"tokens and a character), or None. Received: {vocabulary_size!r}."
            )
        counts: collections.Counter[str] = collections.Counter()
        for text in texts:
            counts.update(well_formed(text))
        if not counts:
            raise ValueError(
                "`texts` must contain at least one character. Received: none. Check the data; a "
                "generator can be read only once."
            )
        ordered = sorted(counts, key=lambda character: (-counts[character], character))
        most = None if vocabulary_size is None else vocabulary_size - len(SPECIAL_TOKENS)
        return cls([*SPECIAL_TOKENS, *ordered[:most]])

    def _rows(self, texts: list[str]) -> Rows:
        ids_of, unknown = self._ids_of, self.unknown_id
        return [[ids_of.get(c, unknown) for c in well_formed(text)] for text in texts]

    def _text(self, ids: list[int]) -> str:
        return "".join([self._text_of[i] for i in ids])

    def _pieces(self, ids: list[int]) -> list[str]:
        special = len(SPECIAL_TOKENS)
        return [
            self.vocabulary[i] if i < special else readable(self.vocabulary[i].encode("utf-8"))
            for i in ids
        ]

    def to_graph(self) -> GraphCharacters:
        """Returns the tokenizer as a `tf.Module` of core TensorFlow ops.

        Returns:
            A `GraphCharacters`, for `tf.data` pipelines and SavedModels.

        Raises:
            ImportError: If TensorFlow is not installed.

        Example:

        >>> import tensorflow as tf
        >>> from keras_attn.text import CharacterTokenizer
        >>> graph = CharacterTokenizer.train(["banana"]).to_graph()
        >>> graph.encode(tf.constant(["ban", ""])).to_list()
        [[6, 4, 5], []]
        """
        with needed("A tokenizer in a graph"):
            from keras_attn.text.characters_graph import GraphCharacters

        return GraphCharacters(self)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__` as JSON-compatible values."""
        return {"vocabulary": list(self.vocabulary)}


def _checked_vocabulary(vocabulary: Sequence[str]) -> tuple[str, ...]:
    tokens = tuple(vocabulary)
    expected = f"`vocabulary` must be {list(SPECIAL_TOKENS)} and single characters."
    train = "Make one with `CharacterTokenizer.train`."
    special = len(SPECIAL_TOKENS)
    if tokens[:special] != SPECIAL_TOKENS:
        raise ValueError(
            f"{expected} Received: a vocabulary that begins with {tokens[:special]}. {train}"
        )
    for token in tokens[special:]:
        if not isinstance(token, str) or len(token) != 1 or 0xD800 <= ord(token) < 0xE000:
            raise ValueError(f"{expected} Received: the token {token!r}. {train}")
    for token, count in collections.Counter(tokens).items():
        if count > 1:
            raise ValueError(f"{expected} Received: the token {token!r} {count} times. {train}")
    if len(tokens) == special:
        raise ValueError(f"{expected} Received: no character at all. {train}")
    return tokens
