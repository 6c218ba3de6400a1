"""Entities that BIO labels mark: repaired labels, and the entities that they mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_attn.arrays.modules import Array, ArrayModule
from keras_attn.arrays.rows import kept, places_in_rows


class LabelTables(NamedTuple):
    """What each label says, `(C,)` each.

    Example:

    >>> label_tables(["O", "B-X", "I-X"]).kinds
    ['X']
    """

    kind: Array
    """The type of its entity, from 1; 0: none."""
    begins: Array
    """Whether it begins an entity."""
    inside: Array
    """Whether it continues an entity."""
    repaired: Array
    """The label in its place where it continues no entity."""
    kinds: list[str]
    """Names of the types, from 1."""


def label_tables(labels: Sequence[str], bio: bool = True) -> LabelTables:
    """Reads the names of labels.

    Args:
        labels: `O`, `B-X` and `I-X`. A type may lack its `B-X`; its `I-X` stays as it is then.
        bio: Whether the labels mark entities.

    Returns:
        The `LabelTables`.

    Example:

    >>> label_tables(["O", "B-X", "I-X"]).repaired.tolist()
    [0, 1, 1]
    """
    number = {label: i for i, label in enumerate(labels)}
    kinds = sorted({label[2:] for label in labels if label != "O"}) if bio else []
    kind = [kinds.index(label[2:]) + 1 if bio and label != "O" else 0 for label in labels]
    return LabelTables(
        np.array(kind, "int32"),
        np.array([bio and label.startswith("B-") for label in labels]),
        np.array([bio and label.startswith("I-") for label in labels]),
        np.array([number.get(f"B-{label[2:]}", i) for i, label in enumerate(labels)], "int32"),
        kinds,
    )


def entities(
    xp: ArrayModule, labels: Array, lengths: Array, tables: LabelTables
) -> dict[str, Array]:
    """Finds the entities that labels mark.

    Args:
        xp: `numpy` or `keras.ops`.
        labels: Labels of words, int32 `(W,)`, sentence after sentence.
        lengths: Number of words of each sentence, int32 `(B,)`.
        tables: What `label_tables` returns.

    Returns:
        `labels`, repaired, `(W,)`; `entities`, the number of entities of each sentence, `(B,)`; for
        each entity `kinds`, the numbers `first` and `behind` in its sentence, and the places
        `first_word` and `last_word` among all words, `(E,)`. All int32.

    Example:

    >>> tables = label_tables(["O", "B-X", "I-X"])
    >>> words = np.array([0, 2, 2, 1], "int32"), np.array([3, 1], "int32")
    >>> found = entities(np, *words, tables)
    >>> found["first"].tolist(), found["behind"].tolist(), found["entities"].tolist()
    ([1, 0], [3, 1], [1, 1])
    """
    _, place = places_in_rows(xp, lengths)
    kind = xp.take(tables.kind, labels, axis=0)
    inside = xp.take(tables.inside, labels, axis=0)
    before = xp.where(place > 0, xp.pad(kind, [[1, 0]])[:-1], 0)
    wrong = inside & (before != kind)
    labels = xp.where(wrong, xp.take(tables.repaired, labels, axis=0), labels)
    begins = xp.take(tables.begins, labels, axis=0) | wrong  # `repaired` may still be an I-X
    # A word is the last one of an entity unless the next word continues it.
    continues = xp.array(inside & ~wrong, dtype="int32")
    ends = (kind > 0) & (xp.pad(continues, [[0, 1]])[1:] == 0)
    first, counts = kept(xp, begins, lengths)
    last, _ = kept(xp, ends, lengths)
    return {
        "labels": labels,
        "entities": counts,
        "kinds": xp.take(kind, first, axis=0),
        "first": xp.take(place, first, axis=0),
        "behind": xp.take(place, last, axis=0) + 1,
        "first_word": first,
        "last_word": last,
    }
