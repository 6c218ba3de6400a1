"""Trainings that end no better than a constant guess, or worse than they began."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from keras_attn.tasks.base.task_run import TrainingRun


def doubt_of(run: TrainingRun, guess: float, guessing: str) -> str:
    """Says so if the loss of a training did not fall below that of a guess.

    That of an only epoch proves nothing: it is a mean that begins with random weights.

    Args:
        run: The run, which is at its end.
        guess: The loss of the guess.
        guessing: What the guess does.

    Returns:
        A sentence without its full stop; empty if the loss is less.

    Example:

    >>> from types import SimpleNamespace
    >>> run = SimpleNamespace(history={"loss": [0.9, 0.7]})
    >>> doubt_of(run, 0.8, "guessing"), doubt_of(run, 0.6, "guessing").split(":")[0]
    ('', 'the training loss of 0.700 is not below 0.600, that of guessing')
    """
    *before, loss = run.history.get("loss", [0.0])
    if not before or loss < guess:
        return ""
    return (
        f"the training loss of {loss:.3f} is not below {guess:.3f}, that of {guessing}: nothing "
        "was learned. Try another seed, a smaller learning_rate, more warmup_steps, or more epochs"
    )


def doubt_of_rise(first: float | None, losses: Sequence[float]) -> str:
    """Says so if the loss of a training rose above the loss of its first steps.

    Args:
        first: The mean loss of the first steps; None if this process did not see them.
        losses: The mean loss of each epoch.

    Returns:
        A sentence without its full stop; empty if the loss did not rise, or nothing can be said.

    Example:

    >>> doubt_of_rise(0.7, [0.6, 0.5]), doubt_of_rise(None, [0.6])
    ('', '')
    >>> doubt_of_rise(0.7, [0.75, 0.8]).split(":")[0]
    'the training loss rose from 0.700 in the first steps to 0.800 in the last epoch'
    """
    begin = "steps"
    if first is None:
        first, begin = (losses[0] if losses else 0.0), "epoch"
    if not losses or losses[-1] <= first:
        return ""
    return (
        f"the training loss rose from {first:.3f} in the first {begin} to {losses[-1]:.3f} in the "
        "last epoch: the steps are too large. Try a smaller learning_rate, or more warmup_steps"
    )


def doubt_of_guesses(guesses: Sequence[Hashable], true: Sequence[Hashable], what: str) -> str:
    """Says so if all development examples are guessed to be the same, which they are not.

    Args:
        guesses: The guess for each example.
        true: What each example is.
        what: What the examples are: `"texts"`.

    Returns:
        A sentence without its full stop; empty if the guesses differ, or the examples do not.

    Example:

    >>> doubt_of_guesses(["a", "a"], ["a", "a"], "texts"), doubt_of_guesses("ab", "aa", "texts")
    ('', '')
    >>> doubt_of_guesses(["a", "a"], ["a", "b"], "texts").split(":")[0]
    "all 2 development texts are guessed to be 'a', and 1 of them are"
    """
    if len(set(guesses)) != 1 or len(set(true)) < 2:
        return ""
    return (
        f"all {len(guesses):,} development {what} are guessed to be {guesses[0]!r}, and "
        f"{list(true).count(guesses[0]):,} of them are: the model does not tell the classes "
        "apart. Try more epochs or examples, another learning_rate, or class_weight='balanced'"
    )


def loss_of_shares(batches: Any) -> float:
    """Returns the least cross-entropy of a guess that is the same for all rows, in nats.

        -sum_c share_c log share_c

    times the mean weight of a row. For labels `(B, C)` of 0 and 1 it is the mean of the binary one
    over the classes.

    Args:
        batches: Batches `(inputs, labels, weights)` of a classifier. A pass is made over them.

    Example:

    >>> batches = [(None, np.array([0, 1]), np.ones(2)), (None, np.array([2, 3]), np.ones(2))]
    >>> round(loss_of_shares(batches), 4)  # log 4
    1.3863
    """
    labels, weights = rows_of(batches)
    if labels.ndim == 1:
        shares = np.bincount(labels, weights)[:, None]
    else:
        of_one = weights @ labels
        shares = np.stack([of_one, weights.sum() - of_one])
    shares = shares / max(weights.sum(), 1e-9)
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return float(weights.mean() * -(shares * logs).sum(axis=0).mean())


def rows_of(batches: Any, name: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Returns the labels of all rows, and the weights of the rows.

    Args:
        batches: Batches `(inputs, labels, weights)`. A pass is made over them.
        name: Whose labels, of batches with labels for several outputs.

    Example:

    >>> labels, weights = rows_of([(None, {"a": np.array([3])}, {"a": np.array([0.5])})], "a")
    >>> labels.tolist(), weights.tolist()
    ([3], [0.5])
    """
    found = [batches[i][1:] for i in range(len(batches))]
    if name is not None:
        found = [(labels[name], weights[name]) for labels, weights in found]
    labels, weights = (np.concatenate(part) for part in zip(*found, strict=True))
    return labels, weights
