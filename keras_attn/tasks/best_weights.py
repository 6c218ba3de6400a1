"""The weights that score best are kept, the same for all tasks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keras

_WORST = float("-inf")


class BestWeights(keras.callbacks.Callback):
    """Keeps the weights of the epoch that scored best: the base of callbacks that score a task.

    A score is a tuple, and the greater one is better: the first figure decides, of equal ones the
    next. Figures of which less is better, such as a loss, stand in it negated, and as they are in
    a checkpoint: `signs` says which. Subclasses make the score in their `on_epoch_end`, and give it
    to `keep`.

    Args:
        task: Whose model is trained; its `save` writes the weights.
        path: Where the best weights are saved, for the task's `load`.

    Example:

    >>> class LowestLoss(BestWeights):
    ...     signs = (-1,)
    ...     def on_epoch_end(self, epoch, logs=None):
    ...         self.keep((-logs["loss"],), epoch)
    >>> import tempfile
    >>> generator = TextGenerator(CharacterTokenizer.train(["ab"]), {"units": 8}, 16)
    >>> callback = LowestLoss(generator, tempfile.mkdtemp() + "/best.task")
    >>> for epoch, loss in enumerate([3.0, 1.0, 2.0]):
    ...     callback.on_epoch_end(epoch, {"loss": loss})
    >>> callback.best, callback.best_epoch, callback.memory()
    ((-1.0,), 2, {'best': [1.0, 2]})
    """

    signs: tuple[int, ...] = (1, 1)
    """Of each figure of a score: -1 where it is negated."""

    def __init__(self, task: Any, path: str | os.PathLike):
        super().__init__()
        self.task = task
        self.path = Path(path)
        self.best: tuple[float, ...] = ()
        """The best score; empty while there is none."""
        self.best_epoch = 0
        """The epoch (from 1) after which the weights were kept; 0: none was."""

    @property
    def best_score(self) -> float:
        """The first figure of the best score; -inf while there is none."""
        return self.best[0] if self.best else _WORST

    def memory(self) -> dict[str, Any]:
        """Returns what belongs into a checkpoint."""
        if not self.best_epoch:
            return {"best": []}
        return {"best": [*self._signed(self.best), self.best_epoch]}

    def remember(self, memory: dict[str, Any]) -> None:
        """Takes back what `memory` returned."""
        if memory["best"]:
            *best, self.best_epoch = memory["best"]
            self.best = self._signed(best)

    def _signed(self, figures: Any) -> tuple[float, ...]:
        return tuple(sign * figure for sign, figure in zip(self.signs, figures, strict=True))

    def keep(self, score: tuple[float, ...], epoch: int, always: bool = False) -> None:
        """Saves the task if its score is better than the best.

        Args:
            score: As many figures as `signs`. It is not better if its first figure is NaN.
            epoch: As Keras counts, from 0.
            always: Whether it is saved whatever the scores.
        """
        if always or score > (self.best or (_WORST,) * len(score)):
            self.task.save(self.path)
            self.best, self.best_epoch = score, epoch + 1
