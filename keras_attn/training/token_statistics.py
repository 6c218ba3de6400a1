"""Initial token weights from statistics of labelled texts."""

from collections.abc import Iterable, Sequence

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_attn.batches import TextBatches

Row = Sequence[int] | np.ndarray
"""The ids of a text."""
LEAST_WEIGHT = 0.01
TOKEN_WEIGHTS = ("association", "idf")


def inverse_document_frequency(ids: Iterable[Row], num_ids: int) -> np.ndarray:
    """Computes the inverse document frequency of each token, `(num_ids,)`, as in TF-IDF.

        idf[t] = log((1 + n) / (1 + n[t])) + 1

    for n texts, of which n[t] contain token t (smoothed as in scikit-learn).
    """
    count, found = 0, np.zeros(num_ids)
    for row in ids:
        count += 1
        found[np.unique(np.asarray(row, "int64"))] += 1
    return np.log((1 + count) / (1 + found)) + 1


def class_association(
    ids: Iterable[Row],
    labels: npt.ArrayLike,
    num_ids: int,
    smoothing: float = 1.0,
) -> np.ndarray:
    """Computes how much each token says about the class, by log-count ratios of naive Bayes.

        r[t, c] = log(p(t | c) / p(t | not c))
        p(t | c) = (s + n[t, c]) / sum_t (s + n[t, c])
        w[t] = max(0.01, max_c |r[t, c]|)

    where n[t, c] is the number of texts of class c with token t. Wang and Manning, 2012
    ("Baselines and Bigrams") multiply the features of a linear classifier by r. Tokens that occur
    mainly in one class get large weights, and tokens that occur in all classes get small weights.
    """
    classes, rows = np.asarray(labels), list(ids)
    if classes.ndim == 1 and classes.size:
        classes = np.eye(int(classes.max()) + 1)[classes]
    if len(classes) != len(rows):
        raise ValueError(
            f"Expected a label for each of the {len(rows)} texts. Received: {len(classes)}."
        )
    most = np.zeros(num_ids)
    unique = [np.unique(np.asarray(row, "int64")) for row in rows]
    sizes = [len(row) for row in unique]
    flat = np.concatenate(unique) if unique else np.zeros(0, "int64")
    total = np.bincount(flat, minlength=num_ids).astype("float64")
    for members in classes.T:
        inside = np.bincount(flat, np.repeat(members, sizes), minlength=num_ids) + smoothing
        outside = total + 2 * smoothing - inside
        ratio = np.log(inside / inside.sum()) - np.log(outside / outside.sum())
        most = np.maximum(most, np.abs(ratio))
    return np.maximum(most, LEAST_WEIGHT)


def set_token_weights(
    model: keras.Model,
    ids: Sequence[Sequence[int]],
    labels: npt.ArrayLike,
    kind: str = "association",
) -> None:
    """Sets the weights of tokens and pairs to `class_association` or IDF of training texts."""
    if kind not in TOKEN_WEIGHTS:
        raise ValueError(f"`kind` must be one of {list(TOKEN_WEIGHTS)}. Received: {kind!r}.")
    layers = {layer.name: layer for layer in model.layers}
    if "weighting" not in layers:
        raise ValueError(
            f"Expected a bag model with token weights. Received: {model.name}, which has no "
            "token weights."
        )
    of_layers: dict[str, Sequence[Row]] = {"weighting": ids}
    if "pairs" in layers:
        of_layers["pair_weighting"] = _pairs(layers["pairs"], ids)
    for name, rows in of_layers.items():
        size = layers[name].vocabulary_size
        if kind == "idf":
            weights = inverse_document_frequency(rows, size)
        else:
            weights = class_association(rows, labels, size)
        layers[name].set_token_weights(weights)


def _pairs(layer: keras.layers.Layer, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The ids of the pairs of each text."""
    batches = TextBatches(rows, batch_size=256, shuffle=False, multiple=64)
    found = batches.computed(
        lambda ids, _: {"pairs": ops.convert_to_numpy(layer(ops.convert_to_tensor(ids)))}
    )
    both = zip(found, rows, strict=True)
    return [of_row["pairs"][: max(len(ids) - 1, 0)] for of_row, ids in both]
