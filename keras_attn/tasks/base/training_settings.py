"""Training settings of all tasks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sized
from typing import Any

from keras_attn.settings import RunDefault, Settings, setting
from keras_attn.training.devices import check_devices

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
SCHEDULES = ("cosine", "constant")
OF_OPTIMIZER = (
    "learning_rate", "schedule", "warmup_steps", "weight_decay", "clip_norm", "ema_momentum",
    "gradient_accumulation", "last_learning_rate", "row_steps",
)  # fmt: skip
"""The settings of a task's optimizer, which do not apply to an optimizer that the user creates."""
COMPILED = (
    *OF_OPTIMIZER, "steps_per_execution", "label_smoothing", "negatives", "layer_decay",
    "frozen_layers", "lora_rank", "loss_kind",
)  # fmt: skip
"""The settings that `Task.compile` reads."""
FEWEST_UPDATES, MOST_EPOCHS = 1000, 100
"""Minimum number of updates and maximum number of epochs if `epochs` is not given."""


def default_epochs(epochs: int, **cases: int) -> RunDefault:
    """Returns a default number of epochs, which `enough_epochs` increases for few examples."""
    note = f"more if these are fewer than {FEWEST_UPDATES} updates (at most {MOST_EPOCHS})"
    return RunDefault(epochs, note, **cases)


def enough_epochs(epochs: int, updates: float) -> int:
    """Returns `epochs`, or more (up to `MOST_EPOCHS`) if these are fewer than `FEWEST_UPDATES`.

    Args:
        epochs: The default number of epochs.
        updates: Number of updates in an epoch.
    """
    needed = math.ceil(FEWEST_UPDATES / max(updates, 1e-9))
    return max(epochs, min(MOST_EPOCHS, needed))


def long_enough(training: Any, batches: Sized, log: Callable[[str], object]) -> Any:
    """Returns the settings with `epochs` increased by `enough_epochs`, and logs the change."""
    updates = len(batches) / getattr(training, "gradient_accumulation", 1)
    epochs = enough_epochs(training.epochs, updates)
    if epochs == training.epochs:
        return training
    log(
        f"Training for {epochs} epochs, because the default of {training.epochs} would make "
        f"only {math.ceil(training.epochs * updates):,} updates. Set `epochs` (--epochs) to "
        "change this."
    )
    return dataclasses.replace(training, epochs=epochs)


@dataclasses.dataclass(frozen=True)
class RunSettings(Settings):
    """Settings of the length, the checkpoints and the device of a training run."""

    epochs: int | None = setting(
        default_epochs(10), "passes over the training examples", at_least=1
    )
    learning_rate: float | None = setting(
        RunDefault(1e-3, backbone=1e-4), "peak learning rate", above=0
    )
    seed: int = setting(
        0,
        "seed of dropout and the order of the data; also of the weights, if the run creates the "
        "model, as the command does",
        at_least=0,
    )
    steps_per_execution: int = setting(
        1,
        "batches between two calls of callbacks and checks of signals, always 1 on PyTorch; "
        "larger values speed up small models",
        at_least=1,
        shapes_result=False,
    )
    checkpoint_steps: int = setting(
        500, "batches between two checkpoints within an epoch", at_least=1, shapes_result=False
    )
    tensorboard: bool = setting(False, "also write logs for TensorBoard", shapes_result=False)
    device: str = setting(
        "auto", "where to train", choices=("auto", "cpu", "gpu"), shapes_result=False
    )


@dataclasses.dataclass(frozen=True)
class TrainingSettings(RunSettings):
    """Settings for training with Adam.

    Example:

    >>> TrainingSettings(epochs=3).clip_norm
    1.0
    """

    patience: int = setting(
        0,
        "epochs without a better development score after which training ends; 0 never ends "
        "it early",
        at_least=0,
    )
    schedule: str = setting(
        "cosine", "learning rate after the warm-up: falls to zero over the epochs, or is constant, "
        "so that a finished run can be extended by more epochs",
        choices=SCHEDULES,
    )  # fmt: skip
    warmup_steps: int | None = setting(
        None,
        "updates until the learning rate peaks; if none, a twentieth of all, and at most 1000",
        kind=int,
        at_least=0,
    )
    weight_decay: float | None = setting(0.0, "weight decay of AdamW; 0 is plain Adam", at_least=0)
    clip_norm: float = setting(1.0, "maximum norm of the gradient; 0 does not clip", at_least=0)
    ema_momentum: float | None = setting(
        0.0, "momentum of the moving average of the weights; 0 for no average", at_least=0,
        below=1,
    )  # fmt: skip
    precision: str = setting("float32", "precision of the computation", choices=PRECISIONS)
    devices: str = setting(
        "1",
        "number of devices that train together, each on a part of a batch; a number, or all",
        shapes_result=False,
        check=check_devices,
    )
