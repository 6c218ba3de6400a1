"""Class weights in a loss: setting, checks and arrays."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from keras_attn.batches.classification_batches import class_weights
from keras_attn.records.labelled_texts import Label, label_names
from keras_attn.settings import Settings, setting, with_defaults

ClassWeight = str | Mapping[str, float] | None

_UNEVEN = 10


def check_class_weight(value: object) -> None:
    """Raises a ValueError if a value is not a class weight."""
    if value is None or value == "balanced":
        return
    numbers = list(value.values()) if isinstance(value, Mapping) else [None]
    if not all(isinstance(n, int | float) and math.isfinite(n) and n >= 0 for n in numbers):
        raise ValueError(
            "`class_weight` must be None, 'balanced' or a table from the names of classes to their "
            "weights, finite numbers >= 0, such as {'good': 2.0} (in a shell '{good = 2.0}'). "
            f"Received: {value!r}."
        )


@dataclass(frozen=True)
class ClassWeights(Settings):
    """Settings of the weights of classes in the loss."""

    class_weight: str | Mapping[str, float] | None = setting(
        None,
        "balanced gives all {classes} the same weight; a table such as '{good = 2, bad = 0.5}' "
        "gives each its weight, 1 if it is not listed; if none, all {examples} weigh the same",
        kind=object,
        check=check_class_weight,
    )


@dataclass(frozen=True)
@with_defaults(words={"classes": "classes"})
class ClassTraining(ClassWeights):
    """Settings of training that all classifiers of texts and of pairs have."""

    score: str = setting(
        "accuracy", "figure by which the best weights are chosen", choices=("accuracy", "macro_f1")
    )


def weights_of_classes(
    labels: Sequence[int] | np.ndarray, names: Sequence[str], class_weight: str | Mapping
) -> np.ndarray:
    """Returns the weight of each class in the loss, float32 `(C,)`; 1 for classes without a weight.

    For labels of 0 and 1, `(n, C)`, the weight of a class applies to the examples that have it.
    """
    check_class_weight(class_weight)
    if isinstance(class_weight, str):  # "balanced"
        labels = np.asarray(labels)
        return pos_weights(labels) if labels.ndim == 2 else class_weights(labels, len(names))
    unknown = [name for name in class_weight if name not in names]
    if unknown:
        raise ValueError(
            f"`class_weight` must name classes among {list(names)}. Received: "
            f"{', '.join(map(repr, unknown))}. Correct the name, or leave it out."
        )
    return np.array([class_weight.get(name, 1.0) for name in names], "float32")


def pos_weights(labels: np.ndarray) -> np.ndarray:
    """Returns the number of negative examples of each label divided by the number of positive ones.

    The labels are 0 and 1, `(n, C)`; a number of 0 examples is replaced by 1.

    Example:

    >>> pos_weights(np.array([[1, 0], [0, 0], [0, 0], [0, 1]])).tolist()
    [3.0, 3.0]
    """
    positive = labels.sum(axis=0)
    return (np.maximum(len(labels) - positive, 1) / np.maximum(positive, 1)).astype("float32")


def example_weights(
    labels: np.ndarray, names: Sequence[str], class_weight: ClassWeight
) -> np.ndarray | None:
    """Returns the weight of each example in the loss, float32 `(n,)`; None without `class_weight`.

    For labels of 0 and 1, `(n, C)`, the result has a weight of each label, `(n, C)`.
    """
    if class_weight is None:
        return None
    weights = weights_of_classes(labels, names, class_weight)
    return np.where(labels > 0, weights, 1.0) if labels.ndim == 2 else weights[labels]


def warn_of_imbalance(labels: Sequence[Label], class_names: Sequence[str]) -> None:
    """Warns, with all counts, if a class has less than a tenth of the examples of another class."""
    counts = Counter(name for label in labels for name in label_names(label))
    few = min(counts[name] for name in class_names)
    if few * _UNEVEN < max(counts[name] for name in class_names):
        shown = ", ".join(f"{name}: {counts[name]:,}" for name in class_names)
        warnings.warn(
            f"The classes are uneven ({shown}). A model may do well by never naming the rare ones: "
            "look at macro F1, and consider class_weight='balanced' (`fit --class-weight "
            "balanced`).",
            stacklevel=6,  # who called `fit`
        )
