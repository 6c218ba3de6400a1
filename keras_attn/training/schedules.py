"""Learning rate schedules with warm-up."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Size, Tensor


def _check(owner: str, positive: dict[str, float], not_negative: dict[str, float]) -> None:
    for name, value in positive.items():
        if not value > 0 or not math.isfinite(value):
            raise ValueError(f"{owner}: `{name}` must be above 0. Received: {value!r}")
    for name, value in not_negative.items():
        if not value >= 0 or not math.isfinite(value):
            raise ValueError(f"{owner}: `{name}` must be at least 0. Received: {value!r}")
    for name, value in {**positive, **not_negative}.items():
        if name.endswith("_steps") and value != int(value):
            raise ValueError(f"{owner}: `{name}` must be a whole number. Received: {value!r}")


@keras.saving.register_keras_serializable(package="keras_attn")
class InverseSquareRootSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then decay with the inverse square root of the step.

        s  = step + 1                     (the optimizer counts from 0, the paper from 1)
        lr = peak_learning_rate * min(s / warmup_steps, sqrt(warmup_steps / s))

    Equation 3 of Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, is the same curve with a
    peak that depends on the width of the model: `InverseSquareRootSchedule.noam`.

    Args:
        peak_learning_rate: Peak learning rate, reached at update number `warmup_steps`.
        warmup_steps: Number of updates of the warm-up, at least 1.
        name: Name of the schedule.

    Call arguments:
        step: Number of completed updates, a number or a scalar tensor.

    Returns:
        The learning rate, a float32 scalar tensor.

    Raises:
        ValueError: If a setting is out of range.

    Example:

    >>> schedule = InverseSquareRootSchedule(1.0, warmup_steps=4)
    >>> [float(schedule(step)) for step in (0, 3, 15)]
    [0.25, 1.0, 0.5]
    """

    def __init__(
        self,
        peak_learning_rate: float,
        warmup_steps: int,
        name: str = "inverse_square_root_schedule",
    ):
        super().__init__()
        owner = type(self).__name__
        _check(owner, {"peak_learning_rate": peak_learning_rate, "warmup_steps": warmup_steps}, {})
        self.peak_learning_rate = float(peak_learning_rate)
        self.warmup_steps = int(warmup_steps)
        self.name = name

    @classmethod
    def noam(
        cls,
        model_dim: int,
        warmup_steps: int,
        factor: float = 1.0,
        name: str = "inverse_square_root_schedule",
    ) -> InverseSquareRootSchedule:
        """Returns the schedule of "Attention Is All You Need".

            lr = factor * model_dim^-0.5 * min(s^-0.5, s * warmup_steps^-1.5),   s = step + 1

        Args:
            model_dim: Width D of the model.
            warmup_steps: Number of updates of the warm-up (4,000 in the paper).
            factor: Factor of the learning rate (1 in the paper).
            name: Name of the schedule.

        Returns:
            A schedule whose peak is `factor / sqrt(model_dim * warmup_steps)`.

        Raises:
            ValueError: If an argument is not above 0, or `warmup_steps` is not a whole number.

        Example:

        >>> schedule = InverseSquareRootSchedule.noam(512, 4000)
        >>> round(schedule.peak_learning_rate, 8)
        0.00069877
        """
        values = {"model_dim": model_dim, "warmup_steps": warmup_steps, "factor": factor}
        _check(f"{cls.__name__}.noam", values, {})
        return cls(factor / math.sqrt(model_dim * warmup_steps), warmup_steps, name=name)

    def __call__(self, step: Size) -> Tensor:
        """Returns the learning rate for the update after `step` updates."""
        number = ops.cast(step, "float32") + 1.0
        warmup = float(self.warmup_steps)
        rise = number / warmup
        fall = ops.sqrt(warmup / number)
        return self.peak_learning_rate * ops.minimum(rise, fall)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "warmup_steps": self.warmup_steps,
            "name": self.name,
        }


@keras.saving.register_keras_serializable(package="keras_attn")
class WarmupCosineSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then decay with half a cosine to the final learning rate.

        s  = step + 1
        lr = peak * s / warmup_steps                                       s <= warmup_steps
        p  = min(1, (s - warmup_steps) / (total_steps - warmup_steps))
        lr = final + (peak - final) * (1 + cos(pi p)) / 2                  afterwards

    `peak` and `final` are `peak_learning_rate` and `final_learning_rate`. The schedule follows
    Loshchilov and Hutter 2017, https://arxiv.org/abs/1608.03983, without restarts and with the
    warm-up of the GPT papers. The learning rate reaches its final value at update number
    `total_steps`, and then stays constant.

    Args:
        peak_learning_rate: Peak learning rate, reached at update number `warmup_steps`.
        warmup_steps: Number of updates of the warm-up; 0 for none.
        total_steps: Total number of updates, more than `warmup_steps`.
        final_learning_rate: Learning rate at the end, at most the peak.
        name: Name of the schedule.

    Call arguments:
        step: Number of completed updates, a number or a scalar tensor.

    Returns:
        The learning rate, a float32 scalar tensor.

    Raises:
        ValueError: If a setting is out of range.

    Example:

    >>> schedule = WarmupCosineSchedule(1.0, warmup_steps=4, total_steps=12)
    >>> [round(float(schedule(step)), 4) for step in (0, 3, 7, 11, 20)]
    [0.25, 1.0, 0.5, 0.0, 0.0]
    """

    def __init__(
        self,
        peak_learning_rate: float,
        warmup_steps: int,
        total_steps: int,
        final_learning_rate: float = 0.0,
        name: str = "warmup_cosine_schedule",
    ):
        super().__init__()
        owner = type(self).__name__
        _check(
            owner,
            {"peak_learning_rate": peak_learning_rate, "total_steps": total_steps},
            {"warmup_steps": warmup_steps, "final_learning_rate": final_learning_rate},
        )
        if total_steps <= warmup_steps:
            raise ValueError(
                f"{owner}: `total_steps` must be more than `warmup_steps`. "
                f"Received: total_steps={total_steps}, warmup_steps={warmup_steps}"
            )
        if final_learning_rate > peak_learning_rate:
            raise ValueError(
                f"{owner}: `final_learning_rate` must be at most `peak_learning_rate`. Received: "
                f"{final_learning_rate} and {peak_learning_rate}"
            )
        self.peak_learning_rate = float(peak_learning_rate)
        self.warmup_steps = int(warmup_steps)
        self.total_steps = int(total_steps)
        self.final_learning_rate = float(final_learning_rate)
        self.name = name

    def __call__(self, step: Size) -> Tensor:
        """Returns the learning rate for the update after `step` updates."""
        number = ops.cast(step, "float32") + 1.0
        warmup = float(self.warmup_steps)
        rise = self.peak_learning_rate * number / max(warmup, 1.0)
        share = (number - warmup) / (self.total_steps - warmup)
        share = ops.clip(share, 0.0, 1.0)
        span = self.peak_learning_rate - self.final_learning_rate
        fall = self.final_learning_rate + span * 0.5 * (1.0 + ops.cos(math.pi * share))
        return ops.where(number <= warmup, rise, fall)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            "peak_learning_rate": self.peak_learning_rate,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "final_learning_rate": self.final_learning_rate,
            "name": self.name,
        }
