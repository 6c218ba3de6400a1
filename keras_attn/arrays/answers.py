"""Best answer spans of windows and of texts."""

from __future__ import annotations

from collections.abc import Mapping

from keras_attn.arrays.modules import Array, ArrayModule
from keras_attn.arrays.spans import BestSpans, best_spans, log_sum, spans_of_texts
from keras_attn.arrays.windows import Windows, window_numbers

Arrays = Mapping[str, Array]
WINDOW = "row_seconds", "window_start", "window_size", "window_first", "window_behind"
"""Names of the arrays `(R,)` that `window_spans` needs."""


def window_spans(xp: ArrayModule, tensors: Arrays, longest: int, n_best: int) -> dict[str, Array]:
    """Finds the `n_best` spans of each row, and the score of no answer of each row.

    `tensors` has the arrays named in `WINDOW`; `tokens (N, 2)`, the scores of all ids as the first
    and the last id of a span; and `token_starts (R,)`, the index of each row's first id in
    `tokens`. Returns the arrays `scores`, `first` and `last (R, n_best)` and `whole (R,)` of the
    `BestSpans`, and the scores of no answer, `none (R,)`.
    """
    starts = xp.expand_dims(tensors["token_starts"], 1)  # (R, 1)
    seconds, start, size, first, behind = (xp.expand_dims(tensors[name], 1) for name in WINDOW)
    columns = xp.expand_dims(xp.arange(xp.max(size, initial=1), dtype="int32"), 0)  # (1, K)
    inside = columns < size
    places = xp.where(inside, starts + seconds + columns, starts)
    scores = xp.take(tensors["tokens"], places, axis=0)  # (R, K, 2)
    scores = xp.where(xp.expand_dims(inside, 2), scores, float("-inf"))
    at = start + columns  # places in the text
    begin = (at >= first) & (at < behind)
    spans = best_spans(xp, scores[..., 0], scores[..., 1], begin, longest, n_best)
    none = xp.sum(xp.take(tensors["tokens"], tensors["token_starts"], axis=0), axis=1)
    found = {"scores": spans.scores, "first": spans.first + start, "last": spans.last + start}
    return {**found, "whole": spans.whole, "none": none}


def text_answers(
    xp: ArrayModule, tensors: Arrays, windows: Windows, threshold: float | None
) -> dict[str, Array]:
    """Finds the best answers of texts among the answers of their windows.

    `tensors` has the result of `window_spans`; `begins`, `pieces`, `rooms` and `margins (B,)`; and
    the `piece_starts` and `piece_ends` of all pieces. Returns a dict of arrays: `starts`, `ends`,
    `probabilities` and `there (B, n)`; and `answer_start`, `answer_end`, `probability`,
    `no_answer`, `refused`, `margin`, `window`, `first_piece` and `last_piece (B,)`.
    """
    spans = BestSpans(*(tensors[name] for name in ("scores", "first", "last", "whole")))
    found = spans_of_texts(xp, spans, tensors["none"], windows)
    best, none, whole = found.best, found.none, found.best.whole
    there = best.scores > float("-inf")  # (B, n)
    refused, margin = ~there[:, 0], none - best.scores[:, 0]
    if threshold is not None:
        whole = log_sum(xp, xp.stack([whole, none], axis=1))
        refused = refused | (margin > threshold)
    whole = xp.where(whole > float("-inf"), whole, 0.0)
    p = xp.where(there, xp.exp(best.scores - xp.expand_dims(whole, 1)), 0.0)
    p_none = xp.zeros_like(none) if threshold is None else xp.exp(none - whole)
    begins = xp.expand_dims(tensors["begins"], 1)
    start, end = (
        xp.where(there, xp.take(xp.pad(tensors[name], [[0, 1]]), places, axis=0), 0)
        for name, places in (
            ("piece_starts", xp.where(there, begins + best.first, 0)),
            ("piece_ends", xp.where(there, begins + best.last, 0)),
        )
    )
    first = xp.where(there, best.first, 0)
    cut = (tensors[name] for name in ("pieces", "rooms", "margins"))
    number = window_numbers(xp, first[:, 0], *cut)
    return {
        "answer_start": xp.where(refused, 0, start[:, 0]),
        "answer_end": xp.where(refused, 0, end[:, 0]),
        "probability": xp.where(refused, p_none, p[:, 0]),
        "probabilities": p,
        "starts": start,
        "ends": end,
        "no_answer": p_none,
        "there": there,
        "refused": refused,
        "margin": margin,
        "window": xp.where(refused, found.doubtful, windows.rows + number),
        "first_piece": first[:, 0],
        "last_piece": xp.where(there, best.last, 0)[:, 0],
    }
