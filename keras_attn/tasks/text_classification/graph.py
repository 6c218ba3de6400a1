"""A text classifier as TensorFlow ops, for its SavedModel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from keras_attn.explain.attributions import attention_function, gradient_function


def graph_function(classifier: Any, tf: Any, method: str) -> tuple[Callable, Any]:
    """Makes the function from strings to classes and weights of tokens.

    Args:
        classifier: A `TextClassifier`.
        tf: The module `tensorflow`.
        method: How tokens are weighed: `"attention"` or `"gradient"`.

    Returns:
        `function(text (B,)) -> dict`, or for pairs `function(text (B,), second (B,)) -> dict`, for
        one row at least; and the tokenizer, a `tf.Module`.
    """
    encode, (tokenizer,) = classifier.field.to_graph(tf)
    names = tf.constant(list(classifier.class_names))
    start, end, pad = classifier.start_id, classifier.end_id, classifier.tokenizer.pad_id
    first, room = int(start is not None), classifier.room
    look = attention_function(classifier.model) if method == "attention" else None
    ask = gradient_function(classifier.model, classifier.multi_label)

    def serve(text):
        return answer(truncate_ragged(tf, tokenizer.encode(text), room, classifier.truncation))

    def serve_pairs(text, second):
        ids, segments = encode(text, second)
        lengths = tf.reduce_sum(tf.cast(ids != pad, tf.int64), axis=1)
        outputs = answer(tf.RaggedTensor.from_tensor(ids, lengths))
        return {**outputs, "segments": segments}

    def answer(kept):
        rows = kept.nrows(tf.int32)
        width = tf.cast(tf.reduce_max(kept.row_lengths()), tf.int32)
        ids = tf.cast(kept.to_tensor(pad, shape=[None, room])[:, : tf.maximum(width, 1)], tf.int32)
        read = ids
        if end is not None:
            closed = tf.concat([kept, tf.fill([rows, 1], tf.cast(end, kept.dtype))], axis=1)
            read = tf.cast(closed.to_tensor(pad, shape=[None, room + 1]), tf.int32)
            read = read[:, : tf.maximum(width, 1) + 1]
        if start is not None:
            read = tf.concat([tf.fill([rows, 1], start), read], axis=1)
        if look is not None:
            logits, weights = look(read)
        else:
            logits, weights = ask(read, tf.fill([rows], -1))
        logits = tf.cast(logits, tf.float32) / classifier.temperature
        make = keras.ops.sigmoid if classifier.multi_label else keras.ops.softmax
        probabilities = make(logits)
        real = tf.cast(ids != pad, tf.float32)
        outputs = {
            "probabilities": probabilities,
            "classes": tf.tile(names[None], [rows, 1]),
            "tokens": tf.where(ids == pad, "", tokenizer.tokens(ids))[:, :width],
            "weights": (tf.cast(weights[:, first:], tf.float32)[:, : tf.shape(ids)[1]] * real)[
                :, :width
            ],
        }
        if not classifier.multi_label:
            outputs["label"] = tf.gather(names, tf.argmax(probabilities, axis=1))
        return outputs

    return (serve_pairs if classifier.pairs else serve), tokenizer


def truncate_ragged(tf: Any, ids: Any, room: int, strategy: str) -> Any:
    """As `keras_attn.batches.classification_batches.truncate`, of a ragged tensor."""
    head = {"head": room, "tail": 0, "head_tail": room // 4}[strategy]
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    place = tf.ragged.range(lengths)
    behind = tf.expand_dims(tf.maximum(lengths - (room - head), head), 1)
    keep = tf.logical_or(place < head, place >= behind)
    return tf.ragged.boolean_mask(ids, keep)
