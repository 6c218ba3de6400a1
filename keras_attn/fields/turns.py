"""Turns of a conversation as inputs, with speaker marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from keras_attn.fields.signature import Encode
from keras_attn.fields.text import checked_texts
from keras_attn.inputs import listed
from keras_attn.text.ragged_rows import row_numbers
from keras_attn.text.registry import PieceTokenizer
from keras_attn.white_space import normalize_white_space_in_graph

MARKS = ("<other>", "<self>")
"""Speaker marks: special tokens before the turns of others and of the answering speaker."""


def with_marks(tokenizer: PieceTokenizer) -> PieceTokenizer:
    """Returns a copy of a tokenizer with the speaker marks `MARKS` as additional special tokens.

    Args:
        tokenizer: A byte-pair or SentencePiece tokenizer.

    Example:

    >>> from keras_attn.text import BytePairTokenizer
    >>> with_marks(BytePairTokenizer.train(["<other>"], 259)).vocabulary[-2:]
    ('<other>', '<self>')
    """
    return tokenizer.from_config(
        {
            **tokenizer.get_config(),
            "vocabulary": [*tokenizer.vocabulary, *MARKS],
            "special_tokens": [*tokenizer.special_tokens, *MARKS],
        }
    )


def spoken(turns: Sequence[str], max_turns: int) -> list[str]:
    """Returns the last turns that are not blank.

    Args:
        turns: The turns of a conversation, from old to new.
        max_turns: Maximum number of turns to return, at least 1.

    Example:

    >>> spoken(["Hi.", " ", "Hello!", "Who is there?"], max_turns=2)
    ['Hello!', 'Who is there?']
    """
    return [turn for turn in turns if turn.strip()][-max_turns:]


def checked_conversations(conversations: Iterable[Any]) -> list[tuple[str, ...]]:
    """Checks conversations, and returns a tuple of turns for each of them."""
    return [
        tuple(checked_texts([turns] if isinstance(turns, str) else turns))
        for turns in listed(conversations, "a string, a tuple of strings, or a list of these")
    ]


class TurnRows:
    """Converts the turns of a conversation to one row of ids.

    Turns are ordered from old to new, each after the mark of its speaker. A final mark requests the
    answer:

        ... <self> ids of a turn <other> ids of the last turn <self>

    If a row is too long, the oldest ids are removed; a truncated turn keeps its mark and its last
    ids.

    Args:
        tokenizer: A byte-pair or SentencePiece tokenizer with the special tokens `MARKS`.
        max_turns: Maximum number of turns in a row.
        max_context: Maximum number of ids of a row, including the marks.
        graph: Function that returns the tokenizer's graph, which other fields may share;
            `tokenizer.to_graph` if None.

    Raises:
        ValueError: If the tokenizer lacks one of `MARKS`.

    Example:

    >>> from keras_attn.text import BytePairTokenizer
    >>> tokenizer = with_marks(BytePairTokenizer.train(["one dog"], 259))
    >>> field = TurnRows(tokenizer, max_turns=2, max_context=8)
    >>> tokenizer.tokens(field.encode([["Hi.", "So?"]])["source_ids"][0])
    ['<self>', 'i', '.', '<other>', 'S', 'o', '?', '<self>']
    """

    def __init__(
        self,
        tokenizer: PieceTokenizer,
        max_turns: int,
        max_context: int,
        graph: Callable[[], Any] | None = None,
    ):
        self.tokenizer = tokenizer
        self.graph = graph or tokenizer.to_graph
        self.other_id, self.self_id = map(tokenizer.vocabulary.index, MARKS)
        self.max_turns = max_turns
        self.max_context = max_context

    def encode(self, conversations: Iterable[Any]) -> dict[str, Any]:
        """Returns a row of ids for each conversation. Blank turns are left out.

        Args:
            conversations: For each of B conversations, its turns: a string for a single turn, or a
                tuple or list of strings.

        Returns:
            A dict with `source_ids`, a list with the list of ids of each conversation, and `some`,
            boolean `(B,)`, False for conversations whose turns are all blank.

        Raises:
            TypeError: If a turn is not a string.
        """
        turns = [spoken(x, self.max_turns) for x in checked_conversations(conversations)]
        flat = iter(self.tokenizer.encode([turn for some in turns for turn in some]))
        marks = self.other_id, self.self_id
        rows = []
        for some in turns:
            row = [self.self_id]
            for back, ids in enumerate(reversed([next(flat) for _ in some])):
                room = self.max_context - len(row) - 1
                if room < 0:
                    break
                row = [marks[back % 2], *ids[max(len(ids) - room, 0) :], *row]
            rows.append(row)
        return {"source_ids": rows, "some": np.array([bool(some) for some in turns], bool)}

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops, and its `tf.Module`s.

        The function is called with the turns as strings `(B, T)`, padded with `""`. It returns a
        dict as in `encode`, with `source_ids` as a table of ids, padded on the right.

        Args:
            tf: The module `tensorflow`.
        """
        tokenizer, room = self.graph(), self.max_context - 1

        def encode(turns):
            shape = tf.shape(turns)
            words = normalize_white_space_in_graph(tf, tf.reshape(turns, [-1])) != ""
            turns = tf.ragged.boolean_mask(turns, tf.reshape(words, shape))[:, -self.max_turns :]
            back = tf.reverse(tf.ragged.range(turns.row_lengths()), [1])  # 0: the last turn
            own = back.flat_values % 2 == 1
            marks = tf.where(own, self.self_id, self.other_id)[:, None]
            ids = tf.concat([marks, tokenizer.encode(turns.flat_values)], axis=1)
            mark_of = tf.gather(marks[:, 0], row_numbers(tf, ids))
            splits = tf.gather(ids.row_splits, tf.cast(turns.row_splits, tf.int64))
            ids = tf.RaggedTensor.from_row_splits(ids.flat_values, splits)[:, -room:]
            mark_of = tf.RaggedTensor.from_row_splits(mark_of, splits)[:, -room:]
            last = tf.fill([shape[0], 1], self.self_id)
            row = tf.concat([mark_of[:, :1], ids[:, 1:], last], axis=1)
            some = turns.row_lengths() > 0
            return {"source_ids": row.to_tensor(tokenizer.pad_id), "some": some}

        return encode, [tokenizer]
