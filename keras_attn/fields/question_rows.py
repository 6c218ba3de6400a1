"""Questions and long texts as inputs of an encoder, in windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from types import ModuleType
from typing import Any, cast

import numpy as np

from keras_attn.arrays import Array, ArrayModule, Windows, joined, starts_of, windows
from keras_attn.fields.signature import Encode
from keras_attn.fields.word_rows import int32_of
from keras_attn.text.offsets import ids_and_places, leading_blanks_graph
from keras_attn.text.tokenizer import OffsetTokenizer


class QuestionRows:
    """Converts questions and texts to rows of ids, in Python and in a TensorFlow graph.

    Each text is split into overlapping windows (`keras_attn.arrays.windows`). A window becomes a
    row `[CLS] question [SEP] part of the text [SEP]`.

    Args:
        tokenizer: A tokenizer with `encode`, `encode_with_offsets`, `pad_id`, `start_id`, `end_id`
            and `to_graph`, such as a `WordPieceTokenizer`.
        max_length: Maximum number of ids of a row, special tokens included.
        max_question_length: Maximum number of pieces of a question; longer questions are cut.
        overlap: Number of pieces that consecutive windows share; an odd number is rounded down. If
            only n pieces of the text fit in a window, at most n / 2 pieces are shared. The last
            window may share more.
        between: Number of end tokens (`[SEP]`) between question and text.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
    >>> rows = QuestionRows(tokenizer, max_length=6, max_question_length=1, overlap=0)
    >>> given = rows.encode(["b"], ["a b a"])
    >>> rows.rows(np, given)["row_ids"].tolist()
    [[2, 5, 3, 4, 5, 3], [2, 5, 3, 5, 4, 3]]
    """

    def __init__(
        self,
        tokenizer: OffsetTokenizer,
        max_length: int,
        max_question_length: int,
        overlap: int,
        between: int = 1,
    ):
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.max_question_length = max_question_length
        self.overlap = overlap
        self.between = between

    def encode(self, questions: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
        """Returns the pieces of questions and texts, and the positions of the texts' pieces.

        Args:
            questions: Strings.
            texts: A text for each question.

        Returns:
            A dict with the texts as `text`, and int32 arrays. `question`: the concatenated ids of
            all questions after truncation. `questions` and `asked`: the number of ids of each
            question after and before truncation. `ids`: the concatenated ids of all distinct texts.
            `begins` and `pieces`: for each text, the index in `ids` of its first id, and its number
            of ids. `piece_starts` and `piece_ends`: for each of the `ids`, the character positions
            in its text where the piece starts and ends.
        """
        different = list(dict.fromkeys(texts))
        ids, places = ids_and_places(self.tokenizer, different)
        number = {text: i for i, text in enumerate(different)}
        of_texts = int32_of([number[text] for text in texts])
        counts = int32_of([*map(len, ids)])
        asked = cast("list[list[int]]", self.tokenizer.encode(list(questions)))
        cut = [row[: self.max_question_length] for row in asked]
        flat = np.array([*chain.from_iterable(places)], "int32").reshape(-1, 2)
        return {
            "text": texts,
            "question": int32_of([*chain.from_iterable(cut)]),
            "questions": int32_of([*map(len, cut)]),
            "asked": int32_of([*map(len, asked)]),
            "ids": int32_of([*chain.from_iterable(ids)]),
            "begins": starts_of(np, counts)[of_texts],
            "pieces": counts[of_texts],
            "piece_starts": flat[:, 0],
            "piece_ends": flat[:, 1],
        }

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes the result of `encode` with TensorFlow ops.

        The dict that the function returns has no `asked`, its positions are in bytes, and `ids`
        has the ids of a repeated text again. Bytes that are not UTF-8 are read as U+FFFD.

        Args:
            tf: The module `tensorflow`.

        Returns:
            A function from questions and texts, both string tensors `(B,)`, to a dict as in
            `encode`; and a list of the `tf.Module`s that the function uses.
        """
        tokenizer = self.tokenizer.to_graph()

        def encode(question, text):
            text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
            asked = tf.cast(tokenizer.encode(question), tf.int32)[:, : self.max_question_length]
            ids, starts, ends = tokenizer.encode_with_offsets(text)
            # Not the sum of ragged tensors, whose check makes a table of all texts and pieces.
            blanks = leading_blanks_graph(tf, self.tokenizer, ids).flat_values
            return {
                "text": text,
                "question": asked.flat_values,
                "questions": tf.cast(asked.row_lengths(), tf.int32),
                "ids": tf.cast(ids.flat_values, tf.int32),
                "begins": tf.cast(ids.row_starts(), tf.int32),
                "pieces": tf.cast(ids.row_lengths(), tf.int32),
                "piece_starts": tf.cast(starts.flat_values, tf.int32) + tf.cast(blanks, tf.int32),
                "piece_ends": tf.cast(ends.flat_values, tf.int32),
            }

        return encode, [tokenizer]

    def rows(self, xp: ArrayModule, given: Mapping[str, Array]) -> dict[str, Array]:
        """Creates the rows of ids that an encoder reads, one for each window of a text.

        Args:
            xp: The array module, `numpy` or `keras.ops`.
            given: The result of `encode`, or of the function that `to_graph` returns, for B
                questions.

        Returns:
            A dict of int32 arrays for R rows. `row_ids (R, T)`: the ids, padded on the right.
            `row_sizes (R,)`: the number of ids of each row. `row_seconds (R,)`: the index in each
            row where the text starts. `rooms (B,)`: how many pieces of the text fit in a window of
            each question. `margins (B,)`: half of the number of pieces that windows share.
            `window_owner`, `window_start` and so on: a key for each field of the windows that
            `keras_attn.arrays.windows` returns.
        """
        room = self.max_length - 2 - self.between - given["questions"]
        margin = xp.minimum(self.overlap // 2, room // 4)
        found = windows(xp, given["pieces"], room, margin)
        owner = found.owner
        none = xp.zeros_like(owner)
        question = xp.take(starts_of(xp, given["questions"]), owner, axis=0)
        asked = xp.take(given["questions"], owner, axis=0)
        begin = xp.take(given["begins"], owner, axis=0) + found.start
        start, end = self.tokenizer.start_id, self.tokenizer.end_id
        parts = [
            (int32_of([start]), none, none + 1),
            (given["question"], question, asked),
            (int32_of([end] * self.between), none, none + self.between),
            (given["ids"], begin, found.size),
            (int32_of([end]), none, none + 1),
        ]
        ids, sizes = joined(xp, parts, self.tokenizer.pad_id)
        return {
            "row_ids": ids,
            "row_sizes": sizes,
            "row_seconds": asked + 1 + self.between,
            "rooms": room,
            "margins": margin,
            **{f"window_{name}": values for name, values in found._asdict().items()},
        }


def windows_of(rows: Mapping[str, Array]) -> Windows:
    """Returns the `Windows` in the result of `QuestionRows.rows`."""
    return Windows(**{name: rows[f"window_{name}"] for name in Windows._fields})
