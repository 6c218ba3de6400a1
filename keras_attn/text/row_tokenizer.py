"""Base classes of tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_attn.hints import TensorLike
from keras_attn.inputs import listed
from keras_attn.text.assets import SavedTokenizer
from keras_attn.text.checks import checked_ids, for_each_row
from keras_attn.text.offsets import Offsets

Rows = list[list[int]]


class RowTokenizer(SavedTokenizer):
    """Base class of tokenizers, which convert texts to ids and back.

    A subclass defines `vocabulary`, `pad_id`, `start_id` and `end_id`, and implements `_rows` and
    `_text`.
    """

    exported_with: tuple[str, ...] = ("tensorflow",)
    """Modules to import before a SavedModel with this tokenizer is loaded."""

    vocabulary: tuple[str, ...]
    start_id: int
    end_id: int

    def _rows(self, texts: list[str]) -> Rows:
        """The ids of each text as a list; raises a TypeError if a text is not a string."""
        raise NotImplementedError

    def _text(self, ids: list[int]) -> str:
        """The text of a row of ids."""
        raise NotImplementedError

    def _pieces(self, ids: list[int]) -> list[str]:
        """The readable piece of each id of a row."""
        return [self.vocabulary[i] for i in ids]

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, including special tokens."""
        return len(self.vocabulary)

    def encode(
        self, texts: str | Sequence[str], add_start: bool = False, add_end: bool = False
    ) -> Any:
        """Converts texts to ids.

        Args:
            texts: A string, or a sequence of strings. A lone surrogate, which UTF-8 cannot encode,
                is read as three U+FFFD; WordPiece drops it.
            add_start: Whether to put `start_id` before the ids of each text.
            add_end: Whether to put `end_id` after the ids of each text.

        Returns:
            A list of ids for a string; a list with the list of ids of each text for a sequence.

        Raises:
            TypeError: If an element of `texts` is not a string.

        Example:

        >>> from keras_attn.text import CharacterTokenizer
        >>> CharacterTokenizer.train(["banana"]).encode(["ban", ""], add_end=True)
        [[6, 4, 5, 2], [2]]
        """
        one = isinstance(texts, str)
        rows = self._rows([texts] if isinstance(texts, str) else listed(texts, "strings"))
        rows = [self._with_ends(row, add_start, add_end) for row in rows]
        return rows[0] if one else rows

    def _with_ends(self, row: list[int], add_start: bool, add_end: bool) -> list[int]:
        return [self.start_id] * bool(add_start) + row + [self.end_id] * bool(add_end)

    def decode(self, ids: TensorLike) -> Any:
        """Converts ids to texts.

        Padding, start and end tokens are skipped. Words and WordPiece tokens are joined with
        spaces; byte pairs and characters contain the original spaces. Bytes that are not UTF-8, and
        unknown characters, become U+FFFD.

        Args:
            ids: One row of ids, or any nested structure of rows: lists, NumPy arrays, tensors. An
                empty list is one empty row.

        Returns:
            A string for one row; nested lists of strings for several rows.

        Raises:
            TypeError: If `ids` are not integers.
            ValueError: If an id is not in the vocabulary.

        Example:

        >>> from keras_attn.text import CharacterTokenizer
        >>> CharacterTokenizer.train(["banana"]).decode([[1, 6, 4, 5, 2], [2, 0, 0, 0, 0]])
        ['ban', '']
        """
        return for_each_row(ids, lambda row: self._text(checked_ids(row, self.vocabulary_size)))

    def tokens(self, ids: TensorLike) -> Any:
        """Converts each id to a readable piece, for example for the labels of a plot.

        Args:
            ids: One row of ids, or any nested structure of rows: lists, NumPy arrays, tensors.

        Returns:
            A list of readable pieces, such as words or word pieces, for each row. For characters
            and byte pairs, a space is shown as `▁`, and a control character or a part of a
            character as its bytes, such as `<0x0A>`.

        Raises:
            TypeError: If `ids` are not integers.
            ValueError: If an id is not in the vocabulary.

        Example:

        >>> from keras_attn.text import CharacterTokenizer
        >>> CharacterTokenizer.train(["a b"]).tokens([1, 5, 4, 6, 2])
        ['<start>', 'a', '▁', 'b', '<end>']
        """
        return for_each_row(ids, lambda row: self._pieces(checked_ids(row, self.vocabulary_size)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} vocabulary_size={self.vocabulary_size}>"


class PlacedTokenizer(RowTokenizer):
    """Base class of tokenizers that can return the character span of each id."""

    def _placed_rows(self, texts: list[str]) -> tuple[Rows, list[Offsets]]:
        """The ids of each text, and the characters of each id."""
        raise NotImplementedError

    def encode_with_offsets(
        self, texts: str | Sequence[str], add_start: bool = False, add_end: bool = False
    ) -> tuple[Any, Any]:
        """Converts texts to ids and the character span of each id.

        Args:
            texts: A string, or a sequence of strings, as in `encode`.
            add_start: Whether to put `start_id` before the ids of each text, with the span
                `(0, 0)`.
            add_end: Whether to put `end_id` after the ids of each text, with the span `(n, n)` in a
                text of length n.

        Returns:
            A tuple `(ids, offsets)`: the ids of `encode`, and the span `(start, end)` of each id,
            which stands for `text[start:end]` in the original string. All pieces of one character,
            such as an emoji or a Korean syllable, have the span of the whole character. Spans of
            byte pairs leave no gaps. Combining accents that WordPiece removes belong to the
            preceding piece.

        Raises:
            TypeError: If an element of `texts` is not a string.

        Example:

        >>> from keras_attn.text import WordTokenizer
        >>> WordTokenizer.train(["do not"]).encode_with_offsets("So  don't")
        ([3, 4, 3], [(0, 2), (4, 6), (6, 9)])
        """
        one = isinstance(texts, str)
        given = [texts] if isinstance(texts, str) else listed(texts, "strings")
        rows, offsets = self._placed_rows(given)
        rows = [self._with_ends(row, add_start, add_end) for row in rows]
        start = [(0, 0)] * bool(add_start)
        places = [
            [*start, *own, *[(len(text), len(text))] * bool(add_end)]
            for text, own in zip(given, offsets, strict=True)
        ]
        return (rows[0], places[0]) if one else (rows, places)
