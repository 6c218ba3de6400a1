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
        `function(text (B,)) -> dict` for one row at least, and the tokenizer, a `tf.Module`.
    """
    tokenizer = classifier.tokenizer.to_graph()
    names = tf.constant(list(classifier.class_names))
    start, pad = classifier.start_id, classifier.tokenizer.pad_id
    first = int(start is not None)
    room = classifier.max_length - first
    look = attention_function(classifier.model) if method == "attention" else None
    ask = gradient_function(classifier.model, classifier.multi_label)

    def serve(text):
        rows = tf.size(text)
        kept = truncate_ragged(tf, tokenizer.encode(text), room, classifier.truncation)
        width = tf.cast(tf.reduce_max(kept.row_lengths()), tf.int32)
        ids = tf.cast(kept.to_tensor(pad, shape=[None, room])[:, : tf.maximum(width, 1)], tf.int32)
        read = ids
        if start is not None:
            read = tf.concat([tf.fill([rows, 1], start), ids], axis=1)
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
            "weights": (tf.cast(weights[:, first:], tf.float32) * real)[:, :width],
        }
        if not classifier.multi_label:
            outputs["label"] = tf.gather(names, tf.argmax(probabilities, axis=1))
        return outputs

    return serve, tokenizer


def truncate_ragged(tf: Any, ids: Any, room: int, strategy: str) -> Any:
    """As `keras_attn.batches.classification_batches.truncate`, of a ragged tensor."""
    head = {"head": room, "tail": 0, "head_tail": room // 4}[strategy]
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    place = tf.ragged.range(lengths)
    behind = tf.expand_dims(tf.maximum(lengths - (room - head), head), 1)
    keep = tf.logical_or(place < head, place >= behind)
    return tf.ragged.boolean_mask(ids, keep)
