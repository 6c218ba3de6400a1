"""The SavedModel of a captioner: bytes of images in, captions out."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_attn.tasks.base.served_numbers import WITH_SETTINGS, checked_numbers
from keras_attn.tasks.captioning.decoding import Caption
from keras_attn.text.readable import END


def graph_functions(
    task: Any, tf: Any, use: Any, count: int
) -> tuple[dict[str, Callable], list[Any]]:
    """Makes the functions of the SavedModel: `count` captions in `details`."""
    search, tokenizer = task._search, task.tokenizer.to_graph()
    encode, _ = task.picture_input(use.max_pixels).to_graph(tf)

    def read(image):
        arrays = encode(image)
        return tf.gather(task.encode(arrays["pixels"]), arrays["number"])

    def serve(image, **numbers):
        given = {"alpha": use.alpha, **checked_numbers(tf, numbers)}
        found = search.search(read(image), search.max_length, use.beams, **given)
        return {"caption": tokenizer.decode(found.tokens[:, 0])}

    def details(image):
        found, weights = search.search_and_align(
            read(image), search.max_length, use.beams, use.alpha, count
        )
        tokens = tf.where(found.tokens == tokenizer.end_id, END, tokenizer.tokens(found.tokens))
        shape = tf.concat([tf.shape(weights)[:3], search.encoder.grid], axis=0)
        return {
            "captions": tokenizer.decode(found.tokens),
            "scores": found.scores,
            "truncated": tf.logical_not(found.finished),
            "tokens": tf.where(found.tokens == tokenizer.pad_id, "", tokens),
            "attention": tf.reshape(weights, shape),
        }

    functions = {"serving_default": serve, "details": details, WITH_SETTINGS: serve}
    return functions, [tokenizer]


def expected_outputs(
    task: Any, files: Sequence[bytes], use: Any, count: int
) -> dict[str, dict[str, Any]]:
    """Returns what the SavedModel must give for images, by signature and output."""
    arrays = task.picture_input().encode(files)
    regions = task._regions(arrays["pixels"], len(files))[arrays["number"]]
    best = task._search.best(regions, use.beams, use.alpha, len(files))
    n_best = task._search.n_best(regions, use.beams, use.alpha, count, len(files))
    return {
        "serving_default": {"caption": task.tokenizer.decode(best)},
        "details": stacked(n_best, task.encoder.grid),
    }


def stacked(results: Sequence[Sequence[Caption]], grid: tuple[int, int]) -> dict[str, np.ndarray]:
    """Returns the n best of several pictures as the arrays that the SavedModel's `details` gives.

    Args:
        results: At least one, all with the same number R of captions.
        grid: Rows and columns of the regions.

    Returns:
        `captions`, `scores`, `truncated` `(B, R)`, `tokens` `(B, R, T)` and `attention`
        `(B, R, T, rows, columns)`, padded with `""` and zeros.
    """
    R = len(results[0])
    T = max(len(caption.tokens) for captions in results for caption in captions)
    tokens = np.full((len(results), R, T), "", object)
    attention = np.zeros((len(results), R, T, *grid), "float32")
    for b, captions in enumerate(results):
        for r, caption in enumerate(captions):
            tokens[b, r, : len(caption.tokens)] = caption.tokens
            attention[b, r, : len(caption.tokens)] = caption.attention
    return {
        "captions": np.array([[c.text for c in captions] for captions in results], object),
        "scores": np.array([[c.score for c in captions] for captions in results], "float32"),
        "truncated": np.array([[c.truncated for c in captions] for captions in results]),
        "tokens": tokens,
        "attention": attention,
    }
