"""Entities of words with BIO labels, and their scores."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from keras_attn.metrics.reports import Interval, Report, draw_samples, interval_of


class Entity(NamedTuple):
    """An entity: consecutive words with one meaning.

    Example:

    >>> Entity("PER", 0, 2).kind
    'PER'
    """

    kind: str
    """Its type, such as `"PER"`."""
    first: int
    """Number of its first word, from 0."""
    behind: int
    """Number of its last word, plus 1."""


def is_bio(labels: Sequence[str]) -> bool:
    """Checks whether labels mark entities: each is `O`, `B-X` or `I-X`, and not all are `O`.

    Args:
        labels: The different labels.

    Example:

    >>> is_bio(["O", "B-PER", "I-PER"]), is_bio(["NN", "VB"]), is_bio(["B-PER", "E-PER"])
    (True, False, False)
    """
    marks = [label for label in labels if label != "O"]
    return bool(marks) and all(label[:2] in ("B-", "I-") and len(label) > 2 for label in marks)


def repair_bio(labels: Sequence[str]) -> tuple[list[str], int]:
    """Makes labels a valid BIO sequence: an `I-X` that does not continue an entity becomes `B-X`.

    This also converts the older scheme, in which `B-X` marks only an entity directly after another
    one of its type.

    Args:
        labels: The labels of a sentence.

    Returns:
        The labels, and the number of changed labels.

    Example:

    >>> repair_bio(["I-PER", "I-PER", "O", "B-LOC", "I-ORG"])
    (['B-PER', 'I-PER', 'O', 'B-LOC', 'B-ORG'], 2)
    """
    found, changed = [], 0
    before = "O"
    for label in labels:
        if label.startswith("I-") and before[2:] != label[2:]:
            label, changed = f"B-{label[2:]}", changed + 1
        found.append(label)
        before = label
    return found, changed


def entities_of(labels: Sequence[str]) -> list[Entity]:
    """Returns the entities of a valid BIO sequence.

    Args:
        labels: The labels of a sentence, as `repair_bio` returns them.

    Example:

    >>> entities_of(["B-PER", "I-PER", "O", "B-LOC"])
    [Entity(kind='PER', first=0, behind=2), Entity(kind='LOC', first=3, behind=4)]
    """
    found: list[Entity] = []
    for i, label in enumerate(labels):
        if label.startswith("B-"):
            found.append(Entity(label[2:], i, i + 1))
        elif label.startswith("I-") and found and found[-1].behind == i:
            found[-1] = found[-1]._replace(behind=i + 1)
    return found


@dataclass(frozen=True)
class TaggingReport(Report):
    """Scores of the labels of words.

    Example:

    >>> print(score_tags([["B-PER", "O"]], [["B-PER", "O"]]))
    accuracy 100.0 % of 2 words
    entities: F1 100.0 %, precision 100.0 %, recall 100.0 % of 1
      PER          F1 100.0 %, precision 100.0 %, recall 100.0 % of 1
    """

    accuracy: float
    """Share of the words whose label is right."""
    words: int
    """Number of words."""
    f1: float | None = None
    """Micro-averaged F1 of entities; None if the labels do not mark entities."""
    precision: float | None = None
    """Share of the found entities that are right."""
    recall: float | None = None
    """Share of the entities that are found."""
    entities: int = 0
    """Number of entities."""
    of_kinds: dict[str, dict[str, float]] = field(default_factory=dict)
    """`f1`, `precision`, `recall` and `entities` of each type."""
    interval: Interval | None = None
    """95 % interval of F1, or of the accuracy without entities, by resampling sentences."""

    def __str__(self) -> str:
        lines = [f"accuracy {self.accuracy:.1%} of {self.words:,} words"]
        if self.f1 is not None:
            lines.append(f"entities: {_figures(vars(self))}")
            lines += [f"  {kind:<12} {_figures(row)}" for kind, row in self.of_kinds.items()]
        if self.interval is not None:
            low, high = self.interval
            what = "accuracy" if self.f1 is None else "F1"
            lines.insert(min(2, len(lines)), f"95 % interval of {what}: {low:.1%} to {high:.1%}")
        return "\n".join(lines).replace("%", " %").replace("95  %", "95 %")


def score_tags(
    truth: Sequence[Sequence[str]],
    found: Sequence[Sequence[str]],
    num_bootstrap: int = 0,
    seed: int = 0,
    entities: bool | None = None,
) -> TaggingReport:
    """Compares labels: accuracy, and precision, recall and F1 of entities by `seqeval`.

    An entity is right if its type, its first and its last word are right. Both sides are first
    repaired by `repair_bio`, which does not change the counts of `seqeval`.

    Args:
        truth: The right labels of each sentence.
        found: The labels to measure.
        num_bootstrap: Samples of sentences for the interval; 0 computes none.
        seed: Seed of these samples.
        entities: Whether the labels mark entities. Labels other than `B-X` and `I-X` are then in no
            entity. If None, `is_bio` of the labels of both sides decides.

    Returns:
        A `TaggingReport`.

    Raises:
        ValueError: If there are no sentences, or their labels are not equally many.

    Example:

    >>> report = score_tags([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]])
    >>> report.f1, round(report.accuracy, 3)
    (0.0, 0.667)
    """
    truth, found = [list(row) for row in truth], [list(row) for row in found]
    if not truth or list(map(len, truth)) != list(map(len, found)):
        raise ValueError(
            "Expected the same number of labels on both sides, and at least one sentence. "
            f"Received: {len(truth)} and {len(found)} sentences of {sum(map(len, truth))} and "
            f"{sum(map(len, found))} labels."
        )
    if entities is None:
        entities = is_bio(sorted({label for row in (*truth, *found) for label in row}))
    if entities:
        truth, found = ([repair_bio(row)[0] for row in side] for side in (truth, found))
    pairs = list(zip(truth, found, strict=True))
    right = np.array([sum(a == b for a, b in zip(*rows, strict=True)) for rows in pairs])
    sizes = np.array([len(row) for row in truth])
    accuracy = float(right.sum() / max(1, sizes.sum()))
    samples = draw_samples(len(truth), num_bootstrap, seed)
    report = TaggingReport(accuracy, int(sizes.sum()))
    if not entities:
        spread = right[samples].sum(1) / np.maximum(1, sizes[samples].sum(1))
        return replace(report, interval=interval_of(spread))
    truth, found = ([_bio(row) for row in side] for side in (truth, found))
    from seqeval.metrics import classification_report

    with warnings.catch_warnings():  # types that were never found have no precision
        warnings.simplefilter("ignore")
        rows = classification_report(truth, found, output_dict=True, zero_division=0)
    of_kinds = {kind: _row(figures) for kind, figures in rows.items() if not kind.endswith(" avg")}
    whole = _row(rows["micro avg"])
    # The counts of each sentence, so that samples need no second search for entities.
    counts = np.array(
        [
            (len({*entities_of(a)} & {*entities_of(b)}), len(entities_of(a)), len(entities_of(b)))
            for a, b in zip(truth, found, strict=True)
        ]
    )
    hits, there, guessed = np.moveaxis(counts[samples].sum(1), -1, 0)
    spread = 2 * hits / np.maximum(1, there + guessed)
    return replace(
        report,
        f1=whole["f1"],
        precision=whole["precision"],
        recall=whole["recall"],
        entities=int(whole["entities"]),
        of_kinds=of_kinds,
        interval=interval_of(spread),
    )


def _bio(labels: Sequence[str]) -> list[str]:
    return repair_bio([label if is_bio([label]) else "O" for label in labels])[0]


def _row(figures: Mapping[str, float]) -> dict[str, float]:
    names = {"f1": "f1-score", "precision": "precision", "recall": "recall"}
    row = {name: float(figures[theirs]) for name, theirs in names.items()}
    return {**row, "entities": int(figures["support"])}


def _figures(row: Mapping[str, float]) -> str:
    return (
        f"F1 {row['f1']:.1%}, precision {row['precision']:.1%}, recall {row['recall']:.1%} of "
        f"{row['entities']:,}"
    )
