"""Base class of all batches for `fit`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np


class EpochBatches(keras.utils.PyDataset):
    """Base class of datasets whose order depends only on a seed and the index of the epoch.

    A subclass creates the plan of an epoch; its last part marks the batches that were read.
    """

    _plan: tuple[Any, ...]

    def __init__(self, shuffle: bool, seed: int, workers: int = 1, max_queue_size: int = 10):
        super().__init__(workers=workers, max_queue_size=max_queue_size)
        check_least(seed=(seed, 0))
        self.shuffle = shuffle
        self.seed = seed

    @property
    def padded_share(self) -> float:
        """Fraction of the tokens that are padding; 0 unless a subclass overrides it."""
        return 0.0

    def _make_plan(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _taken(self, index: int) -> tuple[int, tuple[Any, ...]]:
        """Marks a batch as taken, and returns its index and the plan of the epoch."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"Batch {index} of {len(self)}")
        plan, index = self._plan, index % len(self)
        plan[-1][index] = True
        return index, plan

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch whose order the next `fit` or loop uses.

        Args:
            epoch: Index of the epoch, from 0.

        Raises:
            ValueError: If the epoch is negative.
        """
        check_least(epoch=(epoch, 0))
        self.epoch = int(epoch)
        self._begun = False
        self._plan = self._make_plan()  # replaced at once: workers read it from other threads

    def state(self) -> dict[str, int]:
        """Returns the values that determine the order: `{"epoch", "seed"}`."""
        return {"epoch": self.epoch, "seed": self.seed}

    def on_epoch_begin(self) -> None:
        """Records that an epoch has begun; called by Keras."""
        self._begun = True

    def on_epoch_end(self) -> None:
        """Switches to the order of the next epoch if this epoch is complete; called by Keras.

        `fit` also calls this method before its first epoch, after it has read one or two batches to
        determine their shapes. The order does not change then.
        """
        if self._begun and np.all(self._plan[-1]):
            self.set_epoch(self.epoch + 1)


def check_least(**settings: tuple[float | None, int]) -> None:
    """Raises a ValueError if a setting `(value, least)` is below `least`; None is accepted."""
    for name, (value, least) in settings.items():
        if value is not None and value < least:
            raise ValueError(f"`{name}` must be >= {least}. Received: {value!r}")
