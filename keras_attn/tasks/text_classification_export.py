"""The SavedModel of a text classifier: texts in, classes and the weights of tokens out."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_attn.export import check_place, export_text_functions
from keras_attn.models.classifier_explanations import attention_function, gradient_function

if TYPE_CHECKING:
    from keras_attn.tasks.text_classifier import TextClassifier

# What every export is tried with: the odd beside the ordinary.
EXPORT_TEXTS = [
    "A film to remember.",
    "",
    " \n\t ",
    "It was NOT good, I'd say: 2/10!",
    "naïve café 😀👩\u200d👧 שלום 漢字",
    "a \x00 b\x01",
    "word " * 700,
]


def export_text_classifier(
    classifier: TextClassifier, path: str | os.PathLike, method: str, overwrite: bool = False
) -> None:
    """Exports a classifier as a SavedModel, and compares it with the Python object.

    Args:
        classifier: What is exported, on the TensorFlow backend.
        path: Folder of the SavedModel.
        method: Of the weights: `"attention"` or `"gradient"`.
        overwrite: Whether a SavedModel that is there is replaced.

    Raises:
        FileExistsError: As `export_text_functions`.
        PermissionError: As `export_text_functions`.
        RuntimeError: As `export_text_functions`.
    """
    check_place(path, overwrite)  # before the work
    export_text_functions(
        path,
        lambda tf: graph_functions(classifier, tf, method),
        classifier.model.variables,
        {"text": EXPORT_TEXTS},
        {"serving_default": _expected(classifier, method)},
        overwrite=overwrite,
        requirements=classifier.tokenizer.exported_with,
    )


def _expected(classifier: TextClassifier, method: str) -> dict[str, Any]:
    """What the Python object gives, as the SavedModel is to give it."""
    explanations = classifier.explain(EXPORT_TEXTS, method)
    width = max(len(e.tokens) for e in explanations)
    tokens = [[*e.tokens, *[""] * (width - len(e.tokens))] for e in explanations]
    weights = [np.pad(e.weights, (0, width - len(e.weights))) for e in explanations]
    expected = {
        "probabilities": classifier.predict_probabilities(EXPORT_TEXTS),
        "classes": list(classifier.class_names),
        "tokens": tokens,
        "weights": np.array(weights, "float32"),
    }
    if not classifier.multi_label:
        expected["label"] = [prediction.label for prediction in classifier.predict(EXPORT_TEXTS)]
    return expected


def graph_functions(
    classifier: TextClassifier, tf: Any, method: str
) -> tuple[dict[str, Callable], list[Any]]:
    """Makes the function of the SavedModel, and the `tf.Module` that it uses.

    Args:
        classifier: What is exported.
        tf: The module `tensorflow`.
        method: `"attention"` or `"gradient"`.

    Returns:
        `{"serving_default": function}` with `function(text (B,)) -> dict`, and the tokenizer.
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
        # Some layers want a row: an empty batch gets one, which is dropped.
        text = tf.concat([text, tf.fill([tf.cast(rows == 0, tf.int32)], "")], axis=0)
        kept = _truncate(tf, tokenizer.encode(text), room, classifier.truncation)
        count = tf.maximum(tf.cast(tf.reduce_max(kept.row_lengths()), tf.int32), 1)
        ids = tf.cast(kept.to_tensor(pad, shape=[None, room])[:, :count], tf.int32)
        read = ids
        if start is not None:
            read = tf.concat([tf.fill([tf.shape(ids)[0], 1], start), ids], axis=1)
        if look is not None:
            logits, weights = look(read)
        else:
            logits, weights = ask(read, tf.fill([tf.shape(ids)[0]], -1))
        logits = tf.cast(logits, tf.float32) / classifier.temperature
        make = keras.ops.sigmoid if classifier.multi_label else keras.ops.softmax
        probabilities = make(logits)
        real = tf.cast(ids != pad, tf.float32)
        width = tf.cast(tf.reduce_max(kept.row_lengths()), tf.int32)
        outputs = {
            "probabilities": probabilities[:rows],
            "classes": names,
            "tokens": tf.where(ids == pad, "", tokenizer.tokens(ids))[:rows, :width],
            "weights": (tf.cast(weights[:, first:], tf.float32) * real)[:rows, :width],
        }
        if not classifier.multi_label:
            outputs["label"] = tf.gather(names, tf.argmax(probabilities, axis=1))[:rows]
        return outputs

    return {"serving_default": serve}, [tokenizer]


def _truncate(tf: Any, ids: Any, room: int, strategy: str) -> Any:
    """As `keras_attn.datasets.classification_batches.truncate`, of a ragged tensor."""
    head = {"head": room, "tail": 0, "head_tail": room // 4}[strategy]
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    place = tf.ragged.range(lengths)
    behind = tf.expand_dims(tf.maximum(lengths - (room - head), head), 1)
    keep = tf.logical_or(place < head, place >= behind)
    return tf.ragged.boolean_mask(ids, keep)
