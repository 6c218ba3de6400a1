"""The base of all batches for `fit`: epochs whose order follows from a seed."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np


class EpochBatches(keras.utils.PyDataset):
    """Base of the datasets whose order follows from a seed and the number of the epoch alone.

    A subclass makes the plan of an epoch; its last part says which batches were taken.
    """

    _plan: tuple[Any, ...]

    def __init__(self, shuffle: bool, seed: int, workers: int = 1, max_queue_size: int = 10):
        super().__init__(workers=workers, max_queue_size=max_queue_size)
        check_least(seed=(seed, 0))
        self.shuffle = shuffle
        self.seed = seed

    @property
    def padded_share(self) -> float:
        """Share of the tokens that are padding; none unless a subclass says otherwise."""
        return 0.0

    def _make_plan(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _taken(self, index: int) -> tuple[int, tuple[Any, ...]]:
        """Takes a batch: its number from 0, and the plan of the epoch."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"Batch {index} of {len(self)}")
        plan, index = self._plan, index % len(self)
        plan[-1][index] = True
        return index, plan

    def set_epoch(self, epoch: int) -> None:
        """Takes the order of epoch `epoch` (from 0), for the next `fit` or loop.

        Args:
            epoch: Number of the epoch, >= 0.

        Raises:
            ValueError: A negative epoch.
        """
        check_least(epoch=(epoch, 0))
        self.epoch = int(epoch)
        self._begun = False
        self._plan = self._make_plan()  # replaced at once: workers read it from other threads

    def state(self) -> dict[str, int]:
        """Returns what the order of the batches follows from: `{"epoch", "seed"}`."""
        return {"epoch": self.epoch, "seed": self.seed}

    def on_epoch_begin(self) -> None:
        """Called by Keras: an epoch has begun."""
        self._begun = True

    def on_epoch_end(self) -> None:
        """Called by Keras: takes the order of the next epoch, if this one is at its end.

        `fit` also calls this before its first epoch, after it took a batch or two to see their
        shapes. Nothing may change then.
        """
        if self._begun and np.all(self._plan[-1]):
            self.set_epoch(self.epoch + 1)


def check_least(**settings: tuple[float | None, int]) -> None:
    """Refuses settings below their least values; each is (value, least), and None passes."""
    for name, (value, least) in settings.items():
        if value is not None and value < least:
            raise ValueError(f"`{name}` must be >= {least}. Received: {value!r}")
