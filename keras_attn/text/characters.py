"""Tokenizer with one id for each character."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import keras

from keras_attn.hints import TensorLike
from keras_attn.inputs import check_listed, listed
from keras_attn.text.assets import SavedTokenizer
from keras_attn.text.checks import checked_ids, for_each_row, readable, well_formed

if TYPE_CHECKING:
    from keras_attn.text.characters_graph import GraphCharacters

SPECIAL_TOKENS = ("<pad>", "<start>", "<end>", "<unknown>")
UNKNOWN = "\ufffd"


@keras.saving.register_keras_serializable(package="keras_attn")
class CharacterTokenizer(SavedTokenizer):
    """Tokenizer with one id for each Unicode character (code point).

    Ids 0 to 3 are `<pad>`, `<start>`, `<end>` and `<unknown>`. These words in a text are not read
    as special tokens. Characters are neither lower-cased nor normalized, so `e` with a combining
    accent is two characters. A character that is not in the vocabulary becomes `<unknown>`, which
    is decoded as U+FFFD.

    Args:
        vocabulary: The tokens in the order of their ids: the four special tokens, then single
            characters.

    Raises:
        ValueError: If the vocabulary is not of this kind.

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

    exported_with = ("tensorflow",)
    """Modules to import before a SavedModel with this tokenizer is loaded."""
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
        """Collects the characters of texts by frequency, equally frequent ones by code point.

        Args:
            texts: The training texts, such as a list of strings or a generator of lines.
            vocabulary_size: Maximum number of ids, with the 4 special tokens; no limit if None.

        Returns:
            A `CharacterTokenizer`. It has fewer ids if the texts have fewer characters.

        Raises:
            TypeError: If `texts` holds something that is not a string.
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
                "`texts` must hold at least one character. Received none. Check the data; a "
                "generator that was read before is empty."
            )
        ordered = sorted(counts, key=lambda character: (-counts[character], character))
        most = None if vocabulary_size is None else vocabulary_size - len(SPECIAL_TOKENS)
        return cls([*SPECIAL_TOKENS, *ordered[:most]])

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, with the special tokens."""
        return len(self.vocabulary)

    def encode(
        self, texts: str | Sequence[str], add_start: bool = False, add_end: bool = False
    ) -> Any:
        """Turns texts into ids.

        Args:
            texts: A string, or a sequence of strings. A lone surrogate, which UTF-8 cannot encode,
                is read as three U+FFFD.
            add_start: Whether to put `start_id` before the ids of each text.
            add_end: Whether to put `end_id` after them.

        Returns:
            A list of ids for a string; a list of such lists for a sequence.

        Raises:
            TypeError: If `texts` holds something that is not a string.

        Example:

        >>> from keras_attn.text import CharacterTokenizer
        >>> CharacterTokenizer.train(["banana"]).encode(["ban", ""], add_end=True)
        [[6, 4, 5, 2], [2]]
        """
        single = isinstance(texts, str)
        start = [self.start_id] if add_start else []
        end = [self.end_id] if add_end else []
        ids_of, unknown = self._ids_of, self.unknown_id
        ids = [
            [*start, *(ids_of.get(character, unknown) for character in well_formed(text)), *end]
            for text in ([texts] if isinstance(texts, str) else listed(texts, "strings"))
        ]
        return ids[0] if single else ids

    def decode(self, ids: TensorLike) -> Any:
        """Turns ids into texts. Pad, start and end are skipped; `<unknown>` becomes U+FFFD.

        Args:
            ids: One row of ids, or any nest of rows: lists, NumPy arrays, tensors. An empty list
                is one empty row.

        Returns:
            A string for one row; else a nest of lists of strings.

        Raises:
            TypeError: If `ids` are not integers.
            ValueError: If an id is not in the vocabulary.

        Example:

        >>> from keras_attn.text import CharacterTokenizer
        >>> CharacterTokenizer.train(["banana"]).decode([[1, 6, 4, 5, 2], [2, 0, 0, 0, 0]])
        ['ban', '']
        """
        return for_each_row(
            ids,
            lambda row: "".join([self._text_of[i] for i in checked_ids(row, self.vocabulary_size)]),
        )

    def tokens(self, ids: TensorLike) -> Any:
        """Turns each id into a readable piece, for the labels of a plot.

        Args:
            ids: One row of ids, or any nest of rows; see `decode`.

        Returns:
            A list of pieces for each row. A space is shown as `▁`, a special id by its name, and a
            control character as its bytes, such as `<0x0A>`.

        Raises:
            TypeError: If `ids` are not integers.
            ValueError: If an id is not in the vocabulary.

        Example:

        >>> from keras_attn.text import CharacterTokenizer
        >>> CharacterTokenizer.train(["a b"]).tokens([1, 5, 4, 6, 2])
        ['<start>', 'a', '▁', 'b', '<end>']
        """
        return for_each_row(ids, self._pieces)

    def to_graph(self) -> GraphCharacters:
        """Returns the tokenizer as a `tf.Module` of core TensorFlow ops. It needs TensorFlow.

        Returns:
            A `GraphCharacters`, for `tf.data` pipelines and SavedModels.

        Example:

        >>> import tensorflow as tf
        >>> from keras_attn.text import CharacterTokenizer
        >>> graph = CharacterTokenizer.train(["banana"]).to_graph()
        >>> graph.encode(tf.constant(["ban", ""])).to_list()
        [[6, 4, 5], []]
        """
        from keras_attn.text.characters_graph import GraphCharacters

        return GraphCharacters(self)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__` in a form for JSON."""
        return {"vocabulary": list(self.vocabulary)}

    def __repr__(self) -> str:
        return f"<CharacterTokenizer vocabulary_size={self.vocabulary_size}>"

    def _pieces(self, ids: list[Any]) -> list[str]:
        special = len(SPECIAL_TOKENS)
        return [
            self.vocabulary[i] if i < special else readable(self.vocabulary[i].encode("utf-8"))
            for i in checked_ids(ids, self.vocabulary_size)
        ]


def _checked_vocabulary(vocabulary: Sequence[str]) -> tuple[str, ...]:
    tokens = tuple(vocabulary)
    expected = f"`vocabulary` must be {list(SPECIAL_TOKENS)} and single characters."
    train = "Make one with `CharacterTokenizer.train`."
    special = len(SPECIAL_TOKENS)
    if tokens[:special] != SPECIAL_TOKENS:
        raise ValueError(f"{expected} Received one that begins with {tokens[:special]}. {train}")
    for token in tokens[special:]:
        if not isinstance(token, str) or len(token) != 1 or 0xD800 <= ord(token) < 0xE000:
            raise ValueError(f"{expected} Received the token {token!r}. {train}")
    for token, count in collections.Counter(tokens).items():
        if count > 1:
            raise ValueError(f"{expected} Received the token {token!r} {count} times. {train}")
    if len(tokens) == special:
        raise ValueError(f"{expected} Received no character at all. {train}")
    return tokens
