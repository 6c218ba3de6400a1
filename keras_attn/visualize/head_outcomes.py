"""What a model answers without each of its attention heads, for the viewer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Outcome(NamedTuple):
    """The answer of a model.

    Example:

    >>> Outcome("good", 0.75).text
    'good'
    """

    text: str
    """A class, or a translation."""
    probability: float | None = None
    """Its probability, if there is one."""


@dataclasses.dataclass(frozen=True)
class HeadOutcomes:
    """The answer of a whole model, and its answers with one head switched off.

    Args:
        whole: The answer with all heads.
        without: For the path of each multi-head layer, the answer without each of its heads.

    Example:

    >>> outcomes = HeadOutcomes(Outcome("good"), {"attend": [Outcome("good"), Outcome("bad")]})
    >>> outcomes.changed()
    [('attend', 1)]
    """

    whole: Outcome
    without: Mapping[str, Sequence[Outcome]]

    def changed(self) -> list[tuple[str, int]]:
        """Lists the heads (path, number) without which the text of the answer is another one."""
        return [
            (path, number)
            for path, answers in self.without.items()
            for number, answer in enumerate(answers)
            if answer.text != self.whole.text
        ]
