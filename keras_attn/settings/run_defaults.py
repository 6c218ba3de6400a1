"""Defaults that depend on the training run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CASES = {
    "head": "with tune='head'",
    "lora": "with LoRA",
    "backbone": "with a backbone",
    "encoder": "for bert, roberta and modern_bert without a backbone",
}
"""The cases that a default may depend on, and their descriptions in help texts. If several cases
apply, the first of them determines the default."""


class RunDefault:
    """A default that is chosen when training begins; until then, the setting is None.

    Args:
        value: The default if none of the given `cases` applies.
        note: Text that help texts show after the defaults.
        **cases: Defaults for some of the cases `head` (only the head is trained), `lora` (LoRA is
            trained), `backbone` (training starts from a backbone) and `encoder` (a Transformer
            encoder is trained without a backbone). If several cases apply, the first in this order
            determines the default.

    Raises:
        ValueError: If a case is unknown.

    Example:

    >>> rate = RunDefault(3e-3, backbone=1e-4)
    >>> rate.chosen(["backbone"]), rate.chosen(["lora", "backbone"]), rate.chosen([])
    (0.0001, 0.0001, 0.003)
    >>> print(rate)
    0.003; 0.0001 with a backbone
    """

    def __init__(self, value: object, note: str = "", **cases: object):
        unknown = [case for case in cases if case not in CASES]
        if unknown:
            raise ValueError(f"Expected cases from {list(CASES)}. Received: {unknown[0]!r}.")
        self.value = value
        self.note = note
        self.cases: Mapping[str, Any] = {case: cases[case] for case in CASES if case in cases}

    def chosen(self, given: Iterable[str]) -> Any:
        """Returns the default for a training run: `value` if none of the `cases` applies.

        Args:
            given: Names of the cases that apply to the run, such as `"backbone"`.
        """
        given = set(given)
        return next((value for case, value in self.cases.items() if case in given), self.value)

    def __str__(self) -> str:
        others = [f"{value} {CASES[case]}" for case, value in self.cases.items()]
        return "; ".join([str(self.value), *others, *filter(None, [self.note])])

    def __repr__(self) -> str:
        cases = "".join(f", {case}={value!r}" for case, value in self.cases.items())
        note = f", {self.note!r}" if self.note else ""
        return f"RunDefault({self.value!r}{note}{cases})"
