"""Statistics of the tokens of labelled texts, as initial weights."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

LEAST_WEIGHT = 0.01


def inverse_document_frequency(ids: Iterable[Sequence[int]], num_ids: int) -> np.ndarray:
    """Returns the inverse document frequencies of TF-IDF.

        idf[t] = log((1 + n) / (1 + n[t])) + 1

    for n texts, of which n[t] have token t (smoothed as in scikit-learn).

    Args:
        ids: The ids of each text.
        num_ids: Number of ids.

    Returns:
        float64 `(num_ids,)`, at least 1.

    Example:

    >>> inverse_document_frequency([[1, 1, 2], [1]], num_ids=3).round(3).tolist()
    [2.099, 1.0, 1.405]
    """
    count, found = 0, np.zeros(num_ids)
    for row in ids:
        count += 1
        found[np.unique(np.asarray(row, "int64"))] += 1
    return np.log((1 + count) / (1 + found)) + 1


def class_association(
    ids: Iterable[Sequence[int]], labels: npt.ArrayLike, num_ids: int, smoothing: float = 1.0
) -> np.ndarray:
    """Returns how much each token tells about the class, by log-count ratios of naive Bayes.

        r[t, c] = log(p(t | c) / p(t | not c))
        p(t | c) = (s + n[t, c]) / sum_t (s + n[t, c])
        w[t] = max(0.01, max_c |r[t, c]|)

    where n[t, c] is the number of texts of class c with token t. Wang and Manning, 2012
    ("Baselines and Bigrams") multiply the features of a linear classifier by r. Tokens of one class
    get large weights from the start, and tokens of all classes small ones.

    Args:
        ids: The ids of each text.
        labels: Class numbers `(n,)`, or zeros and ones `(n, C)`.
        num_ids: Number of ids.
        smoothing: Number s added to each count.

    Returns:
        float64 `(num_ids,)`, at least 0.01.

    Raises:
        ValueError: If the numbers of labels and texts differ.

    Example:

    >>> class_association([[1, 2], [1, 3]], [0, 1], num_ids=4).round(3).tolist()
    [0.01, 0.01, 0.693, 0.693]
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
