"""A talker as TensorFlow ops, for its SavedModel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attn.tasks.base.served_numbers import SAMPLED, WITH_SETTINGS, checked_numbers
from keras_attn.tasks.conversation.decoding import AnswerSearch
from keras_attn.tasks.conversation.settings import ConversationUse
from keras_attn.text.ragged_rows import row_numbers
from keras_attn.white_space import normalize_white_space_in_graph


def graph_functions(
    search: AnswerSearch, tf: Any, use: ConversationUse
) -> tuple[dict[str, Callable], list[Any]]:
    """Makes the functions of the SavedModel, from turns `(B, T)` to answers `(B,)`.

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

    def serve(turns, **numbers):
        ids, some = read(turns)
        found = search.search(ids, use, checked_numbers(tf, numbers))
        return {"answer": tf.where(some, tokenizer.decode(found.tokens), "")}

    return {"serving_default": serve, WITH_SETTINGS: serve}, [tokenizer]


def tried_numbers(use: ConversationUse) -> dict[str, float]:
    """Returns the numbers that `with_settings` takes, with values that an export is tried with.

    A beam search has `alpha`, and `mutual_information` if the export sets it. A sample has
    `temperature`, `top_k`, where 0 keeps all, `top_p`, `min_p`, `repetition_penalty` and `seed`.

    Args:
        use: Settings of the export.

    Example:

    >>> tried_numbers(ConversationUse(alpha=0.5))
    {'alpha': 0.0}
    """
    if use.search == "sample":
        return {**SAMPLED, "seed": 7}
    tried = {"alpha": 0.0 if use.alpha else 1.0}
    return (
        {**tried, "mutual_information": use.mutual_information / 2}
        if use.mutual_information
        else tried
    )
