"""A tagger as TensorFlow ops, for its SavedModel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_attn.export import in_parts, limited
from keras_attn.text import character_places_graph, split_words_graph
from keras_attn.text.places import cut_texts_graph
from keras_attn.text.ragged_rows import masked_rows, row_numbers


def tagging_functions(
    tagger: Any, tf: Any, batch_size: int, max_words: int
) -> tuple[dict[str, Callable], list[Any]]:
    """Makes the functions from texts, and from words, to labels and entities.

    Args:
        tagger: A `Tagger`.
        tf: The module `tensorflow`.
        batch_size: Windows computed at a time.
        max_words: Largest number of words of all texts, each as long as the longest.

    Returns:
        The functions by the names of their signatures, and the `tf.Module`s that they use.
    """
    tokenizer = tagger.tokenizer.to_graph()
    names = tf.constant(list(tagger.labels))
    kinds, begins, inside, repaired = map(tf.constant, _tables(tagger.labels, tagger.bio))
    kind_names = tf.constant(["", *_kinds(tagger.labels, tagger.bio)])

    def label(words: Any) -> tuple[dict[str, Any], Any, Any]:
        """Labels and entities of ragged words; which words begin and end entities."""
        table = probabilities(tagger, tf, tokenizer, words, batch_size)  # (W, C)
        best = tf.argmax(table, axis=-1, output_type=tf.int32)
        rows = tf.cast(row_numbers(tf, words), tf.int32)
        kind = tf.gather(kinds, best)
        same_row = tf.cast(rows[1:] == rows[:-1], tf.int32)
        same_row = tf.concat([tf.zeros_like(rows[:1]), same_row], 0)
        before = tf.concat([tf.zeros_like(kind[:1]), kind[:-1]], 0) * same_row
        wrong = tf.gather(inside, best) & (before != kind)
        best = tf.where(wrong, tf.gather(repaired, best), best)
        first = tf.gather(begins, best) | wrong  # some models have no "B-PER" beside "I-PER"
        goes_on = tf.gather(inside, best) & ~wrong
        goes_on = tf.concat([goes_on[1:], tf.zeros_like(goes_on[:1])], 0)
        after = tf.concat([same_row[1:], tf.zeros_like(same_row[:1])], 0) > 0
        last = (kind > 0) & ~(goes_on & after)
        p = tf.gather(table, best, batch_dims=1)
        number = words.with_flat_values(
            tf.range(tf.size(rows)) - tf.gather(tf.cast(words.row_splits, tf.int32), rows)
        )
        outputs = {
            "labels": words.with_flat_values(tf.gather(names, best)).to_tensor(""),
            "probabilities": words.with_flat_values(p).to_tensor(),
            "kinds": masked_rows(
                tf, words.with_flat_values(tf.gather(kind_names, kind)), first
            ).to_tensor(""),
            "first": masked_rows(tf, number, first).to_tensor(),
            "behind": masked_rows(tf, number + 1, last).to_tensor(),
        }
        return outputs, first, last

    def of_words(words):
        # Behind the last word that is not empty a row is filled.
        numbers = tf.where(words != "", tf.range(1, tf.shape(words)[1] + 1), 0)
        lengths = tf.reduce_max(numbers, axis=1)
        return label(tf.RaggedTensor.from_tensor(words, lengths=lengths))[0]

    def of_texts(text):
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        words, starts = split_words_graph(tf, text)
        longest = tf.reduce_max(words.row_lengths())
        checked = limited(
            tf, tf.size(text, tf.int64) * longest, max_words, "max_words",
            f"at most {max_words:,} words in all texts, each as long as the longest",
            "Send long texts in requests of their own", least=0,
        )  # fmt: skip
        with tf.control_dependencies([checked]):
            words = words.with_flat_values(tf.identity(words.flat_values))
        outputs, first, last = label(words)
        ends = starts + words.with_flat_values(tf.strings.length(words.flat_values))
        start, end = masked_rows(tf, starts, first), masked_rows(tf, ends, last)
        rows = row_numbers(tf, start)

        def characters(places: Any) -> Any:
            numbers = character_places_graph(tf, text, places.flat_values, rows)
            return places.with_flat_values(numbers).to_tensor()

        cut = cut_texts_graph(tf, text, rows, start.flat_values, end.flat_values)
        return {
            **outputs,
            "words": words.to_tensor(""),
            "word_starts": starts.to_tensor(),
            "word_ends": ends.to_tensor(),
            "entities": start.with_flat_values(cut).to_tensor(""),
            "entity_starts": start.to_tensor(),
            "entity_ends": end.to_tensor(),
            "entity_start_characters": characters(start),
            "entity_end_characters": characters(end),
        }

    return {"serving_default": of_texts, "words": of_words}, [tokenizer]


def probabilities(tagger: Any, tf: Any, tokenizer: Any, words: Any, batch_size: int) -> Any:
    """Computes the probabilities of the labels of ragged words.

    Args:
        tagger: A `Tagger`.
        tf: The module `tensorflow`.
        tokenizer: Its tokenizer as a `tf.Module`.
        words: Ragged strings `(B, None)`, W words in all.
        batch_size: Windows computed at a time.

    Returns:
        float32 `(W, C)`.
    """
    windows, reader = tagger.windows, tagger.tokenizer
    pieces = tf.cast(tokenizer.encode(tagger.lead + words.flat_values), tf.int32)  # (W, None)
    # A word of characters that the tokenizer removes still wants a label.
    none = tf.cast(pieces.row_lengths() == 0, tf.int64)
    filled = tf.fill(tf.reduce_sum(none)[None], tagger.unknown_id)
    unknown = tf.RaggedTensor.from_row_lengths(filled, none)
    pieces = tf.concat([pieces, unknown], axis=1)
    bounds = tf.cast(tf.gather(pieces.row_splits, words.row_splits), tf.int32)  # of each sentence
    counts = bounds[1:] - bounds[:-1]
    parts = windows.graph(tf, counts)
    owner = parts.owner
    begin = tf.gather(bounds, owner) + parts.start
    taken = tf.ragged.range(begin, begin + parts.size)
    ids = taken.with_flat_values(tf.gather(pieces.flat_values, taken.flat_values))
    count = tf.size(owner)
    around = tf.fill([count, 1], reader.start_id), tf.fill([count, 1], reader.end_id)
    ids = tf.concat([around[0], ids, around[1]], axis=1).to_tensor(reader.pad_id)

    def compute(ids: Any) -> dict[str, Any]:
        return tagger.probabilities(tagger.encoded(ids, tf.zeros_like(ids)))

    found = in_parts(tf, compute, batch_size)(ids=ids)["tags"]  # (R, T, C)
    sentence = tf.cast(row_numbers(tf, words), tf.int32)
    first = tf.cast(pieces.row_splits[:-1], tf.int32) - tf.gather(bounds, sentence)
    row = tf.gather(parts.rows, sentence) + windows.number_graph(
        tf, first, tf.gather(counts, sentence)
    )
    return tf.gather_nd(found, tf.stack([row, first - tf.gather(parts.start, row) + 1], axis=1))


def _kinds(labels: tuple[str, ...], bio: bool) -> list[str]:
    return sorted({label[2:] for label in labels if label != "O"}) if bio else []


def _tables(labels: tuple[str, ...], bio: bool) -> tuple[np.ndarray, ...]:
    """Type of each label (0: none), whether it begins or goes on, what it is repaired to."""
    number = {label: i for i, label in enumerate(labels)}
    kinds = {kind: i + 1 for i, kind in enumerate(_kinds(labels, bio))}
    of_kind = [kinds.get(label[2:], 0) if bio and label != "O" else 0 for label in labels]
    begins = [bio and label.startswith("B-") for label in labels]
    inside = [bio and label.startswith("I-") for label in labels]
    repaired = [number.get(f"B-{label[2:]}", i) for i, label in enumerate(labels)]
    return (
        np.array(of_kind, "int32"), np.array(begins), np.array(inside),
        np.array(repaired, "int32"),
    )  # fmt: skip
