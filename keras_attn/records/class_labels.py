"""Checks of labels, and their conversion to class numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from keras_attn.inputs import listed
from keras_attn.records.labelled_texts import (
    Label,
    LabelledText,
    as_labelled,
    check_alike,
    label_names,
)


def checked_labelled(examples: Iterable[object]) -> list[LabelledText]:
    """Checks labelled texts, which must all be single texts or all be pairs, and returns them."""
    given = listed(examples, "labelled texts", 2, "keras_attn.records.read_labelled(path)")
    checked = [as_labelled(example) for example in given]
    if not checked:
        raise ValueError("Expected at least one labelled text. Received: none.")
    check_alike([example.second for example in checked])
    return checked


def checked_class_names(names: Iterable[str]) -> tuple[str, ...]:
    """Checks the names of the classes, and returns them as a tuple."""
    names = listed(names, "names")
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise ValueError(f"Expected class names that are different strings. Received: {names}.")
    if len(names) < 2:
        raise ValueError(f"Expected at least two classes. Received: {names}.")
    return tuple(names)


def class_names_of(labels: Iterable[Label]) -> tuple[str, ...]:
    """Returns the names of the classes that occur in labels, in alphabetical order."""
    labels = list(labels)
    names = sorted({name for label in labels for name in label_names(label)})
    if len(names) < 2:
        raise ValueError(
            f"Expected texts of at least two classes. Received: {len(labels):,} texts with "
            f"the classes {names}. Check that the right column has the labels. If it does, "
            "add texts of other classes."
        )
    return checked_class_names(names)


def label_numbers(
    labels: Sequence[Label], class_names: Sequence[str], multi_label: bool = False
) -> np.ndarray:
    """Returns labels as int32 `(n,)`, or if `multi_label`, as float32 zeros and ones `(n, C)`."""
    number = {name: i for i, name in enumerate(class_names)}
    unknown = Counter(n for label in labels for n in label_names(label) if n not in number)
    if unknown:
        found = ", ".join(f"{name!r:.60} ({n} texts)" for name, n in unknown.most_common(5))
        more = f", {len(unknown) - 5:,} more" if len(unknown) > 5 else ""
        known = f"{list(class_names[:20])}"[:600]
        rest = ", ..." if len(class_names) > 20 or len(known) == 600 else ""
        whole = [name for name in unknown if name.removesuffix(".0") in number]
        hint = "Is it the column of the labels?"
        if whole:
            hint = f"Write whole numbers as such: {whole[0].removesuffix('.0')!r} for {whole[0]!r}."
        raise ValueError(
            f"Expected labels among the {len(class_names):,} classes {known}{rest}. Received: "
            f"{found}{more}. {hint}"
        )
    if multi_label:
        rows = np.zeros((len(labels), len(number)), "float32")
        for row, label in zip(rows, labels, strict=True):
            row[[number[name] for name in label_names(label)]] = 1.0
        return rows
    names = [label for label in labels if isinstance(label, str)]
    several = [label for label in labels if not isinstance(label, str)]
    if several:
        raise ValueError(
            "Expected one label, a string, for each text. Received: "
            f"{several[0]!r}. Classifiers with multi_label=True take several."
        )
    return np.array([number[name] for name in names], "int32")
