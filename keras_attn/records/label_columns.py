"""Labels that are none: a column of numbers, names or texts that was taken for the labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

_FEW = 10
"""With fewer labelled things nothing is said: a toy may have as many classes."""


def check_label_counts(counts: Mapping[str, int], things: str, setting: str = "label") -> None:
    """Refuses a column whose values hardly ever come twice, which no classifier can learn.

    Args:
        counts: How many texts have each label.
        things: What the labels are of: `"texts"`.
        setting: The setting that names the column.

    Raises:
        ValueError: If more than half of the labels have one text each.

    Warns:
        UserWarning: If there are two texts for a label, or fewer, in the mean.

    Example:

    >>> check_label_counts({str(i): 1 for i in range(200)}, "texts")
    Traceback (most recent call last):
        ...
    ValueError: Expected labels that several texts share. Received: each of the 200 classes has \
one of the texts, such as '0', '1', '2'. Is this the column of the labels? Name another one by \
`label` (--label).
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
