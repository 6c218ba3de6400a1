"""Entities in labels of words, and their scores."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from keras_attn.arrays import entities, label_tables, scheme_of
from keras_attn.arrays.entities import marks_of
from keras_attn.metrics.reports import Interval, Report, draw_samples, interval_of
from keras_attn.packages import needed


class Entity(NamedTuple):
    """A named entity: consecutive words with a type.

    Example:

    >>> Entity("PER", 0, 2).kind
    'PER'
    """

    kind: str
    """Type of the entity, such as `"PER"`."""
    first: int
    """Index of the entity's first word."""
    behind: int
    """Index after the entity's last word."""


def repair_labels(labels: Sequence[str], scheme: str = "BIO") -> tuple[list[str], int]:
    """Changes the prefixes of labels so that they follow their scheme.

    The entities are those that `entities_of` finds. In BIO, an `I-X` that does not continue an
    entity becomes `B-X`. This also converts the older IOB1 scheme, in which an entity begins with
    `B-X` only if it directly follows another entity of its type. In BIOES and BILOU, the first, the
    last and the only word of an entity get the prefixes that the scheme requires. Labels without a
    prefix of the scheme are not changed.

    Args:
        labels: The labels of a sentence.
        scheme: `"BIO"`, `"BIOES"` or `"BILOU"`.

    Returns:
        A tuple of the list of repaired labels and the number of labels that were changed.

    Raises:
        ValueError: If `scheme` is unknown.

    Example:

    >>> repair_labels(["I-PER", "I-PER", "O", "B-LOC", "I-ORG"])
    (['B-PER', 'I-PER', 'O', 'B-LOC', 'B-ORG'], 2)
    >>> repair_labels(["I-PER", "I-PER", "O", "B-LOC"], "BIOES")
    (['B-PER', 'E-PER', 'O', 'S-LOC'], 3)
    """
    ((repaired, _),) = _read([labels], scheme)
    return repaired, sum(a != b for a, b in zip(labels, repaired, strict=True))


def entities_of(labels: Sequence[str], scheme: str = "BIO") -> list[Entity]:
    """Finds the entities that the labels of a sentence mark.

    A word continues the entity of the previous word if both labels have the same type, unless the
    prefix of the word begins an entity or the prefix of the previous word ends one. Therefore,
    labels need not follow their scheme: in BIO, an `I-X` after `O` begins an entity. Labels without
    a prefix of the scheme belong to no entity.

    Args:
        labels: The labels of a sentence.
        scheme: `"BIO"`, `"BIOES"` or `"BILOU"`.

    Returns:
        A list of `Entity`s, in the order of the words.

    Raises:
        ValueError: If `scheme` is unknown.

    Example:

    >>> entities_of(["B-PER", "I-PER", "O", "B-LOC"])
    [Entity(kind='PER', first=0, behind=2), Entity(kind='LOC', first=3, behind=4)]
    """
    ((_, found),) = _read([labels], scheme)
    return found


def _read(rows: Sequence[Sequence[str]], scheme: str) -> list[tuple[list[str], list[Entity]]]:
    """The repaired labels of each sentence, and its entities."""
    given = {label for row in rows for label in row}
    marks = marks_of(scheme)
    kinds = sorted({x[2:] for x in given if x[:1] in marks and x[1:2] == "-"} - {""})
    own = {f"{mark}-{kind}" for kind in kinds for mark in marks}
    names = sorted(given | own)
    number, tables = {x: i for i, x in enumerate(names)}, label_tables(names, scheme)
    numbers = np.array([number[label] for row in rows for label in row], "int32")
    found = entities(np, numbers, np.array([*map(len, rows)], "int32"), tables)
    labels = iter([names[i] for i in found["labels"]])
    columns = (found[name].tolist() for name in ("kinds", "first", "behind"))
    every = iter([Entity(tables.kinds[k - 1], *at) for k, *at in zip(*columns, strict=True)])
    return [
        ([*islice(labels, len(row))], [*islice(every, count)])
        for row, count in zip(rows, found["entities"].tolist(), strict=True)
    ]


@dataclass(frozen=True)
class TaggingReport(Report):
    """Accuracy of labels and scores of entities, from `score_tags`. `print` shows them.

    Example:

    >>> print(score_tags([["B-PER", "O"]], [["B-PER", "O"]]))
    accuracy 100.0 % of 2 words
    entities: F1 100.0 %, precision 100.0 %, recall 100.0 % of 1
      PER          F1 100.0 %, precision 100.0 %, recall 100.0 % of 1
    """

    accuracy: float
    """Fraction of the words whose label is correct."""
    words: int
    """Number of words."""
    f1: float | None = None
    """Micro-averaged F1 of entities; None if the labels do not mark entities."""
    precision: float | None = None
    """Fraction of the predicted entities that are correct."""
    recall: float | None = None
    """Fraction of the true entities that are predicted."""
    entities: int = 0
    """Number of true entities."""
    of_kinds: dict[str, dict[str, float]] = field(default_factory=dict)
    """A dict with `f1`, `precision`, `recall` and `entities` for each type of entity."""
    interval: Interval | None = None
    """95 % interval of F1, or of the accuracy if the labels do not mark entities, from bootstrap
    samples of the sentences; None without bootstrap samples."""

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
    scheme: str | None = None,
) -> TaggingReport:
    """Computes the accuracy of labels and the precision, recall and F1 of entities (by `seqeval`).

    An entity is correct if its type, its first word and its last word are correct. If the labels
    mark entities, true and predicted labels are first changed by `repair_labels`, also for the
    accuracy. The repair does not affect the entities that `seqeval` counts in its default mode, and
    its strict mode then counts the same entities.

    Args:
        truth: The true labels of each sentence.
        found: The predicted labels of each sentence.
        num_bootstrap: Number of bootstrap samples of the sentences; 0 for no interval.
        seed: Seed of the bootstrap samples.
        scheme: The scheme of the labels, `"BIO"`, `"BIOES"` or `"BILOU"`; labels without a prefix
            of the scheme belong to no entity. `""` means that labels mark no entities. If None,
            `keras_attn.arrays.scheme_of` determines the scheme.

    Returns:
        A `TaggingReport`. If the labels mark no entities, it has only `accuracy`, `words` and
        `interval`.

    Raises:
        ImportError: If the labels mark entities, and `seqeval` is not installed.
        ValueError: If there are no sentences, the numbers of labels differ, `scheme` is unknown,
            or, with `scheme=None`, labels mix two schemes.

    Example:

    >>> report = score_tags([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]])
    >>> report.f1, round(report.accuracy, 3)
    (0.0, 0.667)
    """
    truth, found = [list(row) for row in truth], [list(row) for row in found]
    if not truth or list(map(len, truth)) != list(map(len, found)):
        raise ValueError(
            "Expected the same number of labels on both sides, and at least one sentence. "
            f"Received: {len(truth)} sentences with {sum(map(len, truth))} labels, and "
            f"{len(found)} sentences with {sum(map(len, found))} labels."
        )
    if scheme is None:
        scheme = scheme_of(sorted({label for row in (*truth, *found) for label in row}))
    every = _read([*truth, *found], scheme) if scheme else []
    if scheme:
        rows = [row for row, _ in every]
        truth, found = rows[: len(truth)], rows[len(truth) :]
    pairs = list(zip(truth, found, strict=True))
    right = np.array([sum(a == b for a, b in zip(*both, strict=True)) for both in pairs])
    sizes = np.array([len(row) for row in truth])
    accuracy = float(right.sum() / max(1, sizes.sum()))
    samples = draw_samples(len(truth), num_bootstrap, seed)
    report = TaggingReport(accuracy, int(sizes.sum()))
    if not scheme:
        spread = right[samples].sum(1) / np.maximum(1, sizes[samples].sum(1))
        return replace(report, interval=interval_of(spread))
    with needed("F1 of entities"):
        from seqeval.metrics import classification_report

    marked = [_marked(row_entities, len(row)) for row, row_entities in every]
    with warnings.catch_warnings():  # types that were never found have no precision
        warnings.simplefilter("ignore")
        figures = classification_report(
            marked[: len(truth)], marked[len(truth) :], output_dict=True, zero_division=0
        )
    of_kinds = {kind: _row(row) for kind, row in figures.items() if not kind.endswith(" avg")}
    whole = _row(figures["micro avg"])
    # The counts of each sentence, so that samples need no second search for entities.
    sets = [{*row_entities} for _, row_entities in every]
    both = list(zip(sets[: len(truth)], sets[len(truth) :], strict=True))
    counts = np.array([(len(a & b), len(a), len(b)) for a, b in both])
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


def _marked(entities: Sequence[Entity], size: int) -> list[str]:
    """Converts the labels of a sentence to BIO."""
    labels = ["O"] * size
    for kind, first, behind in entities:
        labels[first:behind] = [f"B-{kind}", *[f"I-{kind}"] * (behind - first - 1)]
    return labels


def _row(figures: Mapping[str, float]) -> dict[str, float]:
    names = {"f1": "f1-score", "precision": "precision", "recall": "recall"}
    row = {name: float(figures[theirs]) for name, theirs in names.items()}
    return {**row, "entities": int(figures["support"])}


def _figures(row: Mapping[str, float]) -> str:
    return (
        f"F1 {row['f1']:.1%}, precision {row['precision']:.1%}, recall {row['recall']:.1%} of "
        f"{row['entities']:,}"
    )
