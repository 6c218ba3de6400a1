"""The SavedModel of a translator: strings in, strings out."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_attn.export import check_place, export_text_functions
from keras_attn.tasks.alignment import END
from keras_attn.tasks.translation_decoding import (
    NBestTranslations,
    TranslationSearch,
    most_tokens,
)

# What every export is tried with: the odd beside the ordinary.
EXPORT_EXAMPLES = [
    "Hello, world!",
    "A second, somewhat longer sentence: 42.",
    "",
    "   ",
    "one\ntwo\r\n\tthree",
    "a \x00 b\x01",
    "👩\u200d👧 ☕\ufe0f",
    "שלום, عالم",
    "Cafe\u0301 n\u0303",
]


def export_translation(
    search: TranslationSearch,
    path: str | os.PathLike,
    beams: int,
    alpha: float,
    count: int,
    overwrite: bool = False,
) -> None:
    """Exports a search as a SavedModel, and compares both of its signatures with it.

    Args:
        search: Searches the translations.
        path: Folder of the SavedModel.
        beams: Width of the beam search.
        alpha: Exponent of the length penalty.
        count: Number R of translations that `details` gives.
        overwrite: Whether a SavedModel that is there is replaced.

    Raises:
        FileExistsError: As `export_text_functions`.
        PermissionError: As `export_text_functions`.
        RuntimeError: As `export_text_functions`.
    """
    check_place(path, overwrite)  # before the work
    size = len(EXPORT_EXAMPLES)
    best = search.best(search.read(EXPORT_EXAMPLES)[0], beams, alpha, size)
    n_best = search.n_best(EXPORT_EXAMPLES, beams, alpha, count, size)
    half = search.layers.encoder.compute_dtype != "float32"
    export_text_functions(
        path,
        lambda tf: graph_functions(search, tf, beams, alpha, count),
        search.model.variables,
        {"text": EXPORT_EXAMPLES},
        {
            "serving_default": {"translation": search.target_tokenizer.decode(best)},
            "details": stacked(n_best),
        },
        tolerance=3e-2 if half else 1e-4,
        overwrite=overwrite,
    )


def graph_functions(
    search: TranslationSearch, tf: Any, beams: int, alpha: float, count: int
) -> tuple[dict[str, Callable], list[Any]]:
    """Makes the functions of the SavedModel, from strings `(B,)` to dicts of tensors.

    Args:
        search: Searches the translations.
        tf: The module `tensorflow`.
        beams: Width of the beam search.
        alpha: Exponent of the length penalty.
        count: Number R of translations that `details` gives.

    Returns:
        The functions by the names of their signatures, and the `tf.Module`s they use.
    """
    source = search.source_tokenizer.to_graph()
    same = search.target_tokenizer is search.source_tokenizer
    target = source if same else search.target_tokenizer.to_graph()
    most = search.max_source_length - 1

    def read(text):
        # Loops want a row: an empty batch gets one, which is dropped.
        text = tf.concat([text, tf.fill([tf.cast(tf.size(text) == 0, tf.int32)], "")], axis=0)
        ids = source.encode_start(text, most + 1)
        end = tf.fill([tf.shape(text)[0], 1], source.end_id)
        cut = ids.row_lengths() > most
        return tf.concat([ids[:, :most], end], axis=1).to_tensor(source.pad_id), cut

    def labels(graph, ids):
        tokens = tf.where(ids == graph.end_id, END, graph.tokens(ids))
        return tf.where(ids == graph.pad_id, "", tokens)

    def serve(text):
        ids, _ = read(text)
        found = search.search(ids, most_tokens(tf.shape(ids)[1]), beams, alpha)
        return {"translation": target.decode(found.tokens[: tf.size(text), 0])}

    def details(text):
        ids, cut = read(text)
        found, weights = search.search_and_align(
            ids, most_tokens(tf.shape(ids)[1]), beams, alpha, count
        )
        outputs = {
            "translations": target.decode(found.tokens),
            "scores": found.scores,
            "truncated": tf.logical_not(found.finished),
            "source_truncated": cut,
            "source_tokens": labels(source, ids),
            "target_tokens": labels(target, found.tokens),
            "alignments": weights,
        }
        return {name: output[: tf.size(text)] for name, output in outputs.items()}

    return {"serving_default": serve, "details": details}, [source, target]


def stacked(results: Sequence[NBestTranslations]) -> dict[str, np.ndarray]:
    """Returns the n best of several texts as the arrays that the SavedModel's `details` gives.

    Args:
        results: At least one, all with the same number R of translations.

    Returns:
        `translations`, `scores`, `truncated` `(B, R)`, `source_truncated` `(B,)`, `source_tokens`
        `(B, S)`, `target_tokens` `(B, R, T)` and `alignments` `(B, R, T, S)`, padded with `""` and
        zeros. Strings are Python's, in arrays of objects.
    """
    R = len(results[0].translations)
    S = max(len(result.alignments[0].source_tokens) for result in results)
    T = max(len(a.target_tokens) for result in results for a in result.alignments)
    source_tokens = np.full((len(results), S), "", object)
    target_tokens = np.full((len(results), R, T), "", object)
    alignments = np.zeros((len(results), R, T, S), "float32")
    for b, result in enumerate(results):
        for r, alignment in enumerate(result.alignments):
            t, s = alignment.weights.shape
            source_tokens[b, :s] = alignment.source_tokens
            target_tokens[b, r, :t] = alignment.target_tokens
            alignments[b, r, :t, :s] = alignment.weights
    return {
        "translations": np.array([result.translations for result in results], object),
        "scores": np.array([result.scores for result in results], "float32"),
        "truncated": np.array([result.truncated for result in results]),
        "source_truncated": np.array([result.source_truncated for result in results]),
        "source_tokens": source_tokens,
        "target_tokens": target_tokens,
        "alignments": alignments,
    }
