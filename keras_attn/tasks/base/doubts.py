"""The end of training runs, with warnings if nothing was learned."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from keras_attn.tasks.base.task_run import TrainingRun
from keras_attn.training.distribution import in_own_process
from keras_attn.training.processes import is_first_process


def finished(task: Any, run: TrainingRun, batches: Any, held: Any, training: Any) -> TrainingRun:
    """Calls `finish` of the task, and returns the run with its note and with warnings."""
    with in_own_process(task.model, task.whole):
        note = task.finish(held, training)
        if note and run.best is not None and is_first_process():
            task.save(run.best)
        losses = run.history.get("loss", []) if getattr(task, "comparable_losses", True) else []
        rise = doubt_of_rise(run.first_loss, losses)
        notes = [note, rise, task.doubt(batches, run), task.doubt_guesses(held)]
    return run._replace(note="; ".join(filter(None, notes)))


def doubt_of(run: TrainingRun, guess: float, guessing: str) -> str:
    """Returns a warning if the training loss did not fall below the loss of a constant guess.

    The loss of a single epoch proves nothing, because it includes the first steps.
    """
    *before, loss = run.history.get("loss", [0.0])
    if not before or loss < guess:
        return ""
    return (
        f"the training loss of {loss:.3f} is not below {guess:.3f}, the loss of {guessing}: "
        "nothing was learned. Try another seed, a smaller learning_rate, more warmup_steps, or "
        "more epochs"
    )


def doubt_of_rise(first: float | None, losses: Sequence[float]) -> str:
    """Returns a warning if the loss rose above the loss of the first steps (None if unknown)."""
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
    """Returns a warning if all development examples wrongly have the same prediction."""
    if len(set(guesses)) != 1 or len(set(true)) < 2:
        return ""
    return (
        f"the model predicts {guesses[0]!r} for all {len(guesses):,} development {what}, "
        f"{list(true).count(guesses[0]):,} of which have this label: it does not tell the "
        "classes apart. Try more epochs or examples, another learning_rate, or "
        "class_weight='balanced'"
    )


def loss_of_shares(batches: Any, pos_weight: Sequence[float] | None = None) -> float:
    """Returns the least cross-entropy of a guess that is the same for all rows, in nats.

        -sum_c share_c log share_c

    times the mean weight of a row. For labels `(B, C)` of 0 and 1, the binary cross-entropy is
    averaged over the classes; `pos_weight` has a weight of the positive rows for each class.
    """
    labels, weights = rows_of(batches)
    if labels.ndim == 1:
        shares = np.bincount(labels, weights)[:, None]
    else:
        of_one = weights @ labels
        more = 1.0 if pos_weight is None else np.asarray(pos_weight)
        shares = np.stack([of_one * more, weights.sum() - of_one])
    total = np.maximum(shares.sum(axis=0), 1e-9)
    logs = np.log(np.where(shares > 0, shares / total, 1.0))
    return float(-(shares * logs).sum(axis=0).mean() / len(weights))


def rows_of(batches: Any, name: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Returns the labels of all rows (optionally of one output) and the weights of the rows."""
    found = [batches[i][1:] for i in range(len(batches))]
    if name is not None:
        found = [(labels[name], weights[name]) for labels, weights in found]
    labels, weights = (np.concatenate(part) for part in zip(*found, strict=True))
    return labels, weights
