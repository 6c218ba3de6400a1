"""A translator as TensorFlow ops, for its SavedModel."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_attn.explain.alignment import END
from keras_attn.tasks.base.served_numbers import WITH_SETTINGS, checked_numbers
from keras_attn.tasks.translation.decoding import (
    NBestTranslations,
    TranslationSearch,
    most_tokens,
)
from keras_attn.white_space import normalize_white_space_in_graph


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
        ids = source.encode_start(text, most + 1)
        end = tf.fill([tf.shape(text)[0], 1], source.end_id)
        cut = ids.row_lengths() > most
        some = normalize_white_space_in_graph(tf, text) != ""
        return tf.concat([ids[:, :most], end], axis=1).to_tensor(source.pad_id), cut, some

    def labels(graph, ids):
        tokens = tf.where(ids == graph.end_id, END, graph.tokens(ids))
        return tf.where(ids == graph.pad_id, "", tokens)

    def serve(text, **numbers):
        ids, _, some = read(text)
        given = {"alpha": alpha, **checked_numbers(tf, numbers)}
        found = search.search(ids, most_tokens(tf.shape(ids)[1]), beams, **given)
        return {"translation": tf.where(some, target.decode(found.tokens[:, 0]), "")}

    def details(text):
        ids, cut, some = read(text)
        found, weights = search.search_and_align(
            ids, most_tokens(tf.shape(ids)[1]), beams, alpha, count
        )
        return {
            "translations": tf.where(some[:, None], target.decode(found.tokens), ""),
            "scores": found.scores,
            "truncated": tf.logical_not(found.finished),
            "source_truncated": cut,
            "source_tokens": labels(source, ids),
            "target_tokens": labels(target, found.tokens),
            "alignments": weights,
        }

    functions = {"serving_default": serve, "details": details, WITH_SETTINGS: serve}
    return functions, [source, target]


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
