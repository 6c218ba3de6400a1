"""Labels that are none: a column of numbers, names or texts that was taken for the labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

_FEW = 10
"""With fewer labelled things nothing is said: a toy may have as many classes."""


def check_label_counts(counts: Mapping[str, int], things: str, setting: str = "label") -> None:
    """Refuses a column whose values hardly ever occur twice, which no classifier can learn.

    If more than half of the labels have one text each, that is an error; if there are two texts for
    a label or fewer on average, a warning. `things` says what the labels are of, such as "texts",
    and `setting` is the setting that names the column.
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
            f"Expected labels that several {things} share. Received: {each} one of the {things}, "
            f"such as {', '.join(map(repr, single[:3]))}. Is this the column of the labels? Name "
            f"another one by `{setting}` ({option})."
        )
    warnings.warn(
        f"There are {len(counts):,} classes for {total:,} {things}, such as "
        f"{', '.join(map(repr, list(counts)[:3]))}. Is this the column of the labels (`{setting}`, "
        f"{option})?",
        stacklevel=3,
    )
