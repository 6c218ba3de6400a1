"""A talker as TensorFlow ops, for its SavedModel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attn.tasks.conversation.decoding import AnswerSearch
from keras_attn.tasks.conversation.settings import ConversationUse
from keras_attn.text.ragged_rows import row_numbers
from keras_attn.white_space import normalize_white_space_in_graph


def graph_functions(
    search: AnswerSearch, tf: Any, use: ConversationUse
) -> tuple[dict[str, Callable], list[Any]]:
    """Makes the function of the SavedModel, from turns `(B, T)` to answers `(B,)`.

    Args:
        search: Searches the answers.
        tf: The module `tensorflow`.
        use: How.

    Returns:
        The functions by the names of their signatures, and the `tf.Module`s they use.
    """
    tokenizer = search.tokenizer.to_graph()
    room = search.max_context - 1

    def read(turns):
        """Ids `(B, S)`, as `AnswerSearch.read`; and whether there is a turn with a word."""
        shape = tf.shape(turns)
        words = normalize_white_space_in_graph(tf, tf.reshape(turns, [-1])) != ""
        turns = tf.ragged.boolean_mask(turns, tf.reshape(words, shape))[:, -search.max_turns :]
        back = tf.reverse(tf.ragged.range(turns.row_lengths()), [1])  # 0: the last turn
        own = back.flat_values % 2 == 1
        marks = tf.where(own, search.self_id, search.other_id)[:, None]
        ids = tf.concat([marks, tokenizer.encode(turns.flat_values)], axis=1)
        mark_of = tf.gather(marks[:, 0], row_numbers(tf, ids))
        splits = tf.gather(ids.row_splits, tf.cast(turns.row_splits, tf.int64))
        ids = tf.RaggedTensor.from_row_splits(ids.flat_values, splits)[:, -room:]
        mark_of = tf.RaggedTensor.from_row_splits(mark_of, splits)[:, -room:]
        last = tf.fill([shape[0], 1], search.self_id)
        row = tf.concat([mark_of[:, :1], ids[:, 1:], last], axis=1)
        return row.to_tensor(tokenizer.pad_id), turns.row_lengths() > 0

    def serve(turns):
        ids, some = read(turns)
        found = search.search(ids, use)
        return {"answer": tf.where(some, tokenizer.decode(found.tokens), "")}

    return {"serving_default": serve}, [tokenizer]
