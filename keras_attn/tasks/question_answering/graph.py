"""Question answering as TensorFlow ops, for its SavedModel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attn.export import in_parts
from keras_attn.text import character_places_graph
from keras_attn.text.offsets import leading_blanks_graph
from keras_attn.text.places import cut_texts_graph


def answer_function(answerer: Any, tf: Any, use: Any) -> tuple[dict[str, Callable], list[Any]]:
    """Makes the function from questions and texts to answers.

    Args:
        answerer: A `QuestionAnswerer`.
        tf: The module `tensorflow`.
        use: Settings `Use`.

    Returns:
        The function by the name of its signature, and the `tf.Module`s that it uses.
    """
    tokenizer = answerer.tokenizer.to_graph()
    special = answerer.tokenizer
    longest, n_best = use.max_answer_length, use.n_best
    lowest = tf.constant(float("-inf"))

    def score(
        ids: Any, segments: Any, before: Any, first: Any, kept: Any, begin: Any, behind: Any
    ) -> dict[str, Any]:
        """The best spans of windows, and the sum of all; a span is `piece * longest + length - 1`.

        The pieces of the text are behind `before` tokens; they are `kept` pieces from `first` on.
        """
        logits = answerer.logits(answerer.encoded(ids, segments))["spans"]  # (R, T, 2)
        width = tf.maximum(tf.reduce_max(kept), 1)
        columns = tf.range(width)[None]
        inside = columns < kept[:, None]
        taken = tf.minimum(before[:, None] + columns, tf.shape(ids)[1] - 1)
        values = tf.gather(logits, taken, batch_dims=1)
        values = tf.where(inside[..., None], values, lowest)
        at = first[:, None] + columns
        middle = (at >= begin[:, None]) & (at < behind[:, None])
        last = tf.pad(values[..., 1], [[0, 0], [0, longest]], constant_values=float("-inf"))
        last = tf.gather(last, tf.range(width)[:, None] + tf.range(longest), axis=1)
        scores = tf.where(middle, values[..., 0], lowest)[..., None] + last  # (R, K, L)
        scores = tf.reshape(scores, [tf.shape(ids)[0], width * longest])
        padded = tf.pad(scores, [[0, 0], [0, n_best]], constant_values=float("-inf"))
        best, which = tf.math.top_k(padded, n_best)
        return {
            "scores": best,
            "spans": which + first[:, None] * longest,
            "whole": tf.reduce_logsumexp(scores, axis=1),
            "none": tf.reduce_sum(logits[:, 0], axis=-1),
        }

    def serve(question: Any, text: Any) -> dict[str, Any]:
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        asked = tf.cast(tokenizer.encode(question), tf.int32)[:, : answerer.max_question_length]
        ids, starts, ends = tokenizer.encode_with_offsets(text)
        starts = starts + leading_blanks_graph(tf, special, ids)
        pieces = tf.cast(ids.row_lengths(), tf.int32)
        bounds = tf.cast(ids.row_splits, tf.int32)
        of_question = tf.cast(asked.row_lengths(), tf.int32)
        windows = answerer.windows(of_question, tf.minimum)
        parts = windows.graph(tf, pieces)
        owner, first, kept = parts.owner, parts.start, parts.size
        begin = tf.gather(bounds, owner) + first
        part = tf.ragged.range(begin, begin + kept)
        part = part.with_flat_values(tf.gather(ids.flat_values, part.flat_values))
        part = part.with_row_splits_dtype(tf.int64)
        count = tf.size(owner)
        around = tf.fill([count, 1], special.start_id), tf.fill([count, 1], special.end_id)
        between = tf.fill([count, len(answerer.field.between)], special.end_id)
        asked = tf.gather(asked, owner)
        row = tf.concat([around[0], asked, between, part, around[1]], axis=1)
        row = row.to_tensor(special.pad_id)
        before = tf.gather(of_question, owner) + 1 + len(answerer.field.between)
        place = tf.range(tf.shape(row)[1])[None]
        segments = tf.cast((place >= before[:, None]) & (row != special.pad_id), tf.int32)
        taken = {"ids": row, "segments": segments, "before": before}
        taken |= {"first": first, "kept": kept, "begin": parts.first, "behind": parts.behind}
        found = in_parts(tf, score, use.batch_size)(**taken)

        # The best spans of all windows of a text in one row.
        rows = tf.size(text)
        scores, spans = (
            tf.RaggedTensor.from_value_rowids(found[name], owner, nrows=rows).to_tensor(value)
            for name, value in (("scores", lowest), ("spans", 0))
        )  # (B, W, n)
        scores = tf.reshape(scores, [rows, tf.shape(scores)[1] * n_best])
        best, which = tf.math.top_k(scores, n_best)
        none = tf.math.unsorted_segment_min(found["none"], owner, rows)
        whole = tf.RaggedTensor.from_value_rowids(found["whole"], owner, nrows=rows)
        whole = tf.reduce_logsumexp(whole.to_tensor(lowest), axis=1)
        if answerer.unanswerable:
            whole = tf.reduce_logsumexp(tf.stack([whole, none], 1), axis=1)
        there = best > lowest
        p = tf.where(there, tf.exp(best - whole[:, None]), 0.0)
        p_none = tf.exp(none - whole) if answerer.unanswerable else tf.zeros_like(none)

        # Where they stand in the text.
        span = tf.gather(tf.reshape(spans, tf.shape(scores)), which, batch_dims=1)
        piece = span // longest + bounds[:-1, None]
        start = tf.where(there, _gather(tf, starts.flat_values, piece), 0)
        end = tf.where(there, _gather(tf, ends.flat_values, piece + span % longest), 0)
        shape = tf.shape(start)
        flat = tf.reshape(start, [-1]), tf.reshape(end, [-1])
        of_text = tf.reshape(tf.range(rows)[:, None] + tf.zeros_like(start), [-1])
        answers = tf.reshape(cut_texts_graph(tf, text, of_text, *flat), shape)
        characters = [tf.reshape(character_places_graph(tf, text, x, of_text), shape) for x in flat]
        refused = ~there[:, 0]
        if answerer.unanswerable:
            refused |= none - best[:, 0] > use.threshold
        return {
            "answer": tf.where(refused, "", answers[:, 0]),
            "probability": tf.where(refused, p_none, p[:, 0]),
            "answers": answers,
            "probabilities": p,
            "starts": start,
            "ends": end,
            "start_characters": characters[0],
            "end_characters": characters[1],
            "no_answer": p_none,
        }

    return {"serving_default": serve}, [tokenizer]


def _gather(tf: Any, values: Any, places: Any) -> Any:
    """Values at places, 0 where there are none at all."""
    values = tf.pad(values, [[0, 1]])
    return tf.gather(values, tf.minimum(places, tf.size(values) - 1))
