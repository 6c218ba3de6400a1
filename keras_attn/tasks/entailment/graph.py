"""A classifier of entailment as TensorFlow ops, for its SavedModel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from keras_attn.tasks.entailment.predictions import classify_and_align


def ids_and_words(tf: Any, tokenizer: Any, text: Any, most: int) -> tuple[Any, Any]:
    """Reads texts as TensorFlow ops.

    Args:
        tf: The module `tensorflow`.
        tokenizer: The graph of a `WordTokenizer`.
        text: Strings `(B,)`.
        most: Largest number of words of a text; the rest is not read.

    Returns:
        Ids and words `(B, S)`, padded with 0 and `""`, S at least 1.
    """
    pad = tokenizer.pad_id
    ids = tf.cast(tokenizer.encode_start(text, most).to_tensor(pad), tf.int32)
    words = tokenizer.words(text)[:, :most].to_tensor("")
    missing = [[0, 0], [0, tf.maximum(0, 1 - tf.shape(ids)[1])]]
    return tf.pad(ids, missing, constant_values=pad), tf.pad(words, missing)


def graph_function(classifier: Any, tf: Any) -> tuple[Callable, Any]:
    """Makes the function from two texts to their class and the alignment of their words.

    Args:
        classifier: An `EntailmentClassifier`.
        tf: The module `tensorflow`.

    Returns:
        `function(premise (B,), hypothesis (B,)) -> dict` for one row at least, and the tokenizer, a
        `tf.Module`.
    """
    tokenizer = classifier.tokenizer.to_graph()
    names = tf.constant(list(classifier.class_names))
    most = classifier.max_length

    def serve(premise, hypothesis):
        premise_ids, premise_words = ids_and_words(tf, tokenizer, premise, most)
        hypothesis_ids, hypothesis_words = ids_and_words(tf, tokenizer, hypothesis, most)
        logits, *weights = classify_and_align(classifier.model, premise_ids, hypothesis_ids)
        probabilities = keras.ops.softmax(logits / classifier.temperature)
        outputs = {
            "label": tf.gather(names, tf.argmax(probabilities, axis=1)),
            "probabilities": probabilities,
            "classes": tf.tile(names[None], [tf.size(premise), 1]),
            "premise_words": premise_words,
            "hypothesis_words": hypothesis_words,
        }
        return {**outputs, "alignment": weights[0]} if weights else outputs

    return serve, tokenizer
