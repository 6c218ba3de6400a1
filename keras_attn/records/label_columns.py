"""Detection of columns that cannot be labels, such as numbers, names or texts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

_FEW = 10
"""Smaller data are not checked, because a toy may have almost as many classes as texts."""


def check_label_counts(counts: Mapping[str, int], things: str, setting: str = "label") -> None:
    """Checks that the values of a label column occur several times.

    If more than half of the labels have only one text, it raises a ValueError. Otherwise, if labels
    have at most two texts on average, it warns. `things` names the labelled things, such as
    "texts", and `setting` is the setting that names the column.
    """
    total, single = sum(counts.values()), [name for name, n in counts.items() if n == 1]
    option = f"--{setting.replace('_', '-')}"
    if total < _FEW or 2 * len(counts) < total:
        return
    if 2 * len(single) > len(counts):
        each = f"each of the {len(counts):,} classes has"
        if len(single) < len(counts):
            each = f"{len(single):,} of the {len(counts):,} classes have"
        raise ValueError(
            f"Expected labels that several {things} share. Received: {each} one of the "
            f"{things}, such as {', '.join(map(repr, single[:3]))}. If another column has "
            f"the labels, name it with `{setting}` ({option})."
        )
    warnings.warn(
        f"There are {len(counts):,} classes for {total:,} {things}, such as "
        f"{', '.join(map(repr, list(counts)[:3]))}. If another column has the labels, name "
        f"it with `{setting}` ({option}).",
        stacklevel=3,
    )
