"""Predictions of a model without each of its attention heads, for the viewer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Outcome(NamedTuple):
    """A prediction of a model as a text, and its probability.

    Example:

    >>> Outcome("good", 0.75).text
    'good'
    """

    text: str
    """The prediction as text, such as a class name or a translation."""
    probability: float | None = None
    """Probability of the prediction; None if it is unknown."""


@dataclasses.dataclass(frozen=True)
class HeadOutcomes:
    """The prediction of a whole model, and its predictions with one head switched off.

    Args:
        whole: The prediction with all heads.
        without: For each multi-head layer, a list of the predictions without each of its heads,
            keyed by the path of the layer.

    Example:

    >>> outcomes = HeadOutcomes(Outcome("good"), {"attend": [Outcome("good"), Outcome("bad")]})
    >>> outcomes.changed()
    [('attend', 1)]
    """

    whole: Outcome
    without: Mapping[str, Sequence[Outcome]]

    def changed(self) -> list[tuple[str, int]]:
        """Lists the heads, as tuples (path, index), without which the predicted text changes."""
        return [
            (path, number)
            for path, answers in self.without.items()
            for number, answer in enumerate(answers)
            if answer.text != self.whole.text
        ]
