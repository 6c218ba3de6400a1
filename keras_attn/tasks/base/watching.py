"""Callbacks that report progress and stop training without a finite loss; checks of others."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras

_SETTERS = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)


def check_learning_rate(
    callbacks: Sequence[keras.callbacks.Callback], optimizer: keras.optimizers.Optimizer
) -> None:
    """Refuses Keras' callbacks that set the learning rate if it follows a schedule.

    Keras itself raises an error when a callback sets the rate, which may be many epochs later.
    """
    names = [type(callback).__name__ for callback in callbacks if isinstance(callback, _SETTERS)]
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    # The config is made only if it is needed: Keras imports TensorFlow to serialize a schedule.
    if names and isinstance(optimizer.get_config()["learning_rate"], dict):
        raise ValueError(
            f"{names[0]} sets the learning rate, and needs an optimizer with a constant one. "
            "Received: an optimizer whose learning rate follows a schedule. Leave the callback "
            "out, or pass an optimizer, such as optimizer=keras.optimizers.Adam(1e-3)."
        )


class ProgressLines(keras.callbacks.Callback):
    """Prints progress lines instead of a progress bar if the output is not a terminal."""

    def __init__(self, say: Callable[[str], Any], seconds: float = 30.0):
        super().__init__()
        self.say = say
        self.seconds = seconds
        self._epoch = 0
        self._began = self._last = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes the epoch and the time; called by Keras."""
        self._epoch = epoch
        self._began = self._last = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Prints a line if it is due; called by Keras."""
        now = time.monotonic()
        if now - self._last < self.seconds:
            return
        self._last, done, steps = now, batch + 1, self.params.get("steps") or 0
        before = self.params.get("first_batch", 0)  # of an epoch that is resumed
        logs = logs or {}
        losses = [name for name in logs if name == "loss" or name.endswith("_loss")]
        told = "".join(f", {n.replace('_', ' ')} {float(logs[n]):.4f}" for n in losses)
        left = ""
        if steps > done:
            left = f", {(now - self._began) / done * (steps - done):.0f} s left in the epoch"
        of = f" of {before + steps:,}" if steps else ""
        epochs = self.params.get("epochs")
        self.say(f"epoch {self._epoch + 1} of {epochs}, batch {before + done:,}{of}{told}{left}")


class FirstLoss(keras.callbacks.Callback):
    """Stores the loss that Keras reports after the first `steps` batches of a training run."""

    def __init__(self, steps: int = 10):
        super().__init__()
        self.steps = steps
        self.loss: float | None = None
        """The loss; None if the first epoch has fewer batches, or another process trained it."""
        self._first = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes whether this is the first epoch; called by Keras."""
        self._first = epoch == 0

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Stores the loss after `steps` batches of the first epoch; called by Keras."""
        logs = logs or {}
        if self._first and self.loss is None and batch + 1 >= self.steps and "loss" in logs:
            self.loss = float(logs["loss"])


class FiniteLoss(keras.callbacks.Callback):
    """Raises an error at the end of an epoch if its loss is not finite."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Raises a ValueError if the loss is not finite; called by Keras."""
        loss = float((logs or {}).get("loss", 0.0))
        if not math.isfinite(loss):
            raise ValueError(
                f"The loss of epoch {epoch + 1} is {loss}: the training has diverged. Use a lower "
                "learning rate, a longer warm-up or another seed, or clip the gradient "
                "(`clip_norm`)."
            )
