"""Detection of texts of no class by a score and its threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from keras_attn.arrays import Array, ArrayModule
from keras_attn.metrics.unknown import evaluate_unknown, threshold_of
from keras_attn.settings import Settings, setting

SCORES = ("energy", "logit", "probability")
"""The scores for detecting texts of no class; of equally good scores, the first is chosen."""


@dataclass(frozen=True)
class UnknownTexts(Settings):
    """Settings for texts that belong to no class."""

    unknown: str = setting(
        "", "label of texts that belong to no class; a text gets it if its highest "
            "probability is below a threshold, which the development texts with this label "
            "determine; if empty, all texts have a class",
    )  # fmt: skip
    false_alarms: float = setting(
        0.05, "with --unknown: share of the development texts with a class that may get the "
            "label of --unknown",
        above=0, below=1,
    )  # fmt: skip


def check_one_label(unknown: str, several: str = "texts with several labels") -> None:
    """Raises a ValueError if the label `unknown` is given although texts may have several labels.

    A text that belongs to no class has no label then.
    """
    if unknown:
        raise ValueError(
            "Expected one label for each text with `unknown` (--unknown). Received: "
            f"{unknown!r} with {several}. Leave `unknown` out: a text that belongs to no class "
            "has no label."
        )


class Threshold(NamedTuple):
    """A score, and the threshold below which a text belongs to no class."""

    score: str
    at: float

    def __str__(self) -> str:
        return f"{self.score} below {self.at:.3g}"


def sureness(xp: ArrayModule, logits: Array, score: str) -> Array:
    """Computes scores `(n,)` from logits `(n, C)`; a low score suggests a text of no class.

    probability   max_c softmax(z)_c        (Hendrycks and Gimpel, 2017)
    logit         max_c z_c
    energy        log sum_c exp(z_c)        (Liu et al., 2020)
    """
    greatest = xp.max(logits, axis=-1)
    if score == "logit":
        return greatest
    powers = xp.sum(xp.exp(logits - xp.expand_dims(greatest, -1)), axis=-1)
    return 1 / powers if score == "probability" else greatest + xp.log(powers)


def choose_threshold(logits: np.ndarray, unknown: np.ndarray, false_alarms: float) -> Threshold:
    """Chooses the score with the greatest area under the ROC curve, and its threshold.

    Args:
        logits: Logits of development texts, `(n, C)`.
        unknown: Whether each text belongs to no class, `(n,)`.
        false_alarms: Fraction of the other texts that may be below the threshold.
    """
    scores = {name: sureness(np, logits, name) for name in SCORES}
    areas = {
        name: evaluate_unknown(values, unknown, 0.0, num_bootstrap=0).auc.value
        for name, values in scores.items()
    }
    best = max(areas, key=areas.__getitem__)
    return Threshold(best, threshold_of(scores[best][~unknown], false_alarms))
