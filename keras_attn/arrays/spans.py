"""Best spans of texts in windows, and the sum over all spans."""

from __future__ import annotations

from typing import NamedTuple

from keras_attn.arrays.modules import Array, ArrayModule
from keras_attn.arrays.rows import order, padded
from keras_attn.arrays.windows import Windows

_LOWEST = float("-inf")


class BestSpans(NamedTuple):
    """The n best spans of each of R windows or R texts, the best first.

    Example:

    >>> starts, ends = np.array([[1.0, 2.0]], "float32"), np.array([[0.5, 0.25]], "float32")
    >>> found = best_spans(np, starts, ends, np.array([[True, True]]), longest=2, n_best=3)
    >>> found.scores.tolist(), found.first.tolist(), found.last.tolist()
    ([[2.25, 1.5, 1.25]], [[1, 0, 0]], [[1, 0, 1]])
    """

    scores: Array
    """Scores of the spans, float32 `(R, n)`; minus infinity if there are fewer spans."""
    first: Array
    """First positions of the spans, int32 `(R, n)`."""
    last: Array
    """Last positions of the spans, int32 `(R, n)`."""
    whole: Array
    """The logarithm of the sum of the exponentials of the scores of all spans, `(R,)`."""


class TextSpans(NamedTuple):
    """The best spans of each of B texts, and the score that a text contains no answer.

    Example:

    >>> from keras_attn.arrays import windows
    >>> parts = windows(np, np.array([2], "int32"), room=8, margin=1)
    >>> starts, ends = np.array([[1.0, 2.0]], "float32"), np.array([[0.5, 0.25]], "float32")
    >>> best = best_spans(np, starts, ends, np.array([[True, True]]), longest=2, n_best=3)
    >>> spans_of_texts(np, best, np.array([0.5], "float32"), parts).none.tolist()
    [0.5]
    """

    best: BestSpans
    none: Array
    """The minimum score of no answer over all windows, `(B,)`."""
    doubtful: Array
    """The window with the minimum score of no answer, int32 `(B,)`."""


def log_sum(xp: ArrayModule, scores: Array) -> Array:
    """Computes the logarithm of the sum of the exponentials of the scores in each row.

    Args:
        xp: `numpy` or `keras.ops`.
        scores: Scores, float32 `(R, M)`, with M at least 1; scores of minus infinity are ignored.

    Returns:
        The logarithms, float32 `(R,)`; minus infinity for rows whose scores are all ignored.

    Example:

    >>> log_sum(np, np.array([[0.0, 0.0], [-np.inf, 3.0]], "float32")).round(4).tolist()
    [0.6930999755859375, 3.0]
    """
    highest = xp.max(scores, axis=1)
    highest = xp.where(highest > _LOWEST, highest, xp.zeros_like(highest))
    total = xp.sum(xp.exp(scores - xp.expand_dims(highest, 1)), axis=1)
    return xp.where(total > 0, xp.log(xp.where(total > 0, total, 1.0)), _LOWEST) + highest


def best_spans(
    xp: ArrayModule, starts: Array, ends: Array, begin: Array, longest: int, n_best: int
) -> BestSpans:
    """Finds the spans of each window with the greatest scores; among equal scores, the first spans.

    The score of the span from position i to position j is `starts[i] + ends[j]`.

    Args:
        xp: `numpy` or `keras.ops`.
        starts: Scores of the K positions of R windows as the first position of a span, float32
            `(R, K)`, K at least 1; minus infinity outside the window.
        ends: Scores of the positions as the last position of a span, float32 `(R, K)`; minus
            infinity outside the window.
        begin: Whether a span may begin at a position, booleans `(R, K)`.
        longest: Maximum number of positions of a span.
        n_best: Number of spans to find in each window.

    Returns:
        A `BestSpans` with `scores`, `first` and `last` `(R, n_best)` and `whole (R,)`. If a window
        has fewer spans, the missing spans have the score minus infinity.

    Example:

    >>> starts, ends = np.array([[1.0, 2.0]], "float32"), np.array([[0.5, 0.25]], "float32")
    >>> best_spans(np, starts, ends, np.array([[True, False]]), 2, n_best=3).scores.tolist()
    [[1.5, 1.25, -inf]]
    """
    rows, width = xp.shape(starts)[0], xp.shape(starts)[1]
    places, more = xp.arange(width, dtype="int32"), xp.arange(longest, dtype="int32")
    ends = xp.pad(ends, [[0, 0], [0, longest]], constant_values=_LOWEST)
    ends = xp.take(ends, xp.expand_dims(places, 1) + more, axis=1)  # (R, K, L)
    scores = xp.expand_dims(xp.where(begin, starts, _LOWEST), 2) + ends  # (R, K, L)
    whole = log_sum(xp, xp.reshape(scores, (rows, width * longest)))
    # The n best spans begin at the n places whose best spans are best.
    heads = order(xp, -xp.max(scores, axis=2))[:, :n_best]
    heads = xp.sort(heads, axis=-1)  # (R, n): spans with equal scores stay in their order
    scores = xp.take_along_axis(scores, xp.expand_dims(heads, 2), axis=1)  # (R, n, L)
    scores = xp.reshape(scores, (rows, xp.shape(heads)[1] * longest))
    scores = xp.pad(scores, [[0, 0], [0, n_best]], constant_values=_LOWEST)
    best = xp.reshape(order(xp, -scores)[:, :n_best], (rows, n_best))  # a known n in a graph
    heads = xp.pad(heads, [[0, 0], [0, n_best]])
    first = xp.take_along_axis(heads, best // longest, axis=1)
    scores = xp.take_along_axis(scores, best, axis=1)
    return BestSpans(scores, first, first + best % longest, whole)


def spans_of_texts(xp: ArrayModule, spans: BestSpans, none: Array, windows: Windows) -> TextSpans:
    """Finds the best spans of texts among the spans of their windows.

    Args:
        xp: `numpy` or `keras.ops`.
        spans: The n best spans of each of R windows, a `BestSpans` with positions in the text.
        none: Score of each window that it contains no answer, float32 `(R,)`.
        windows: The `Windows` of the texts.

    Returns:
        A `TextSpans` with the n best spans of each of the B texts.

    Example:

    >>> from keras_attn.arrays import windows
    >>> parts = windows(np, np.array([2], "int32"), room=8, margin=1)
    >>> starts, ends = np.array([[1.0, 2.0]], "float32"), np.array([[0.5, 0.25]], "float32")
    >>> best = best_spans(np, starts, ends, np.array([[True, True]]), longest=2, n_best=3)
    >>> spans_of_texts(np, best, np.array([0.5], "float32"), parts).best.first.tolist()
    [[1, 0, 0]]
    """
    n = spans.scores.shape[1]
    scores, first, last = (xp.reshape(x, (-1,)) for x in spans[:3])  # (R * n,)
    owner = xp.reshape(xp.expand_dims(windows.owner, 1) + xp.zeros_like(spans.first), (-1,))
    best = order(xp, -scores)
    best = xp.take(best, order(xp, xp.take(owner, best, axis=0)), axis=0)  # text after text
    places = xp.expand_dims(windows.rows * n, 1) + xp.arange(n, dtype="int32")
    best = xp.take(best, places, axis=0)  # (B, n)
    found = [xp.take(x, best, axis=0) for x in (scores, first, last)]
    whole = log_sum(xp, padded(xp, spans.whole, windows.counts, _LOWEST, least=1))
    of_texts = padded(xp, none, windows.counts, float("inf"), least=1)  # (B, windows)
    doubtful = windows.rows + xp.array(xp.argmin(of_texts, axis=1), dtype="int32")
    return TextSpans(
        BestSpans(found[0], found[1], found[2], whole), xp.min(of_texts, axis=1), doubtful
    )
