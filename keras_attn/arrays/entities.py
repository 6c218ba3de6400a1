"""Entities in labels of words, and repair of labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from keras_attn.arrays.modules import Array, ArrayModule
from keras_attn.arrays.rows import kept, places_in_rows

SCHEMES = {"BIO": "BIIB", "BIOES": "BIES", "BILOU": "BILU"}
"""For each scheme, the prefixes of the first, an inner, the last and the only word of an entity."""


def marks_of(scheme: str) -> str:
    """Returns the prefixes of a scheme, as in `SCHEMES`; raises a ValueError if it is unknown."""
    if scheme not in SCHEMES:
        raise ValueError(
            f"`scheme` must be one of {', '.join(map(repr, SCHEMES))}. Received: {scheme!r}."
        )
    return SCHEMES[scheme]


class LabelTables(NamedTuple):
    """Arrays with the entity type of each of C labels, and its position in an entity.

    `label_tables` creates the tables from the names of the labels.

    Example:

    >>> label_tables(["O", "B-X", "I-X"]).kinds
    ['X']
    """

    kind: Array
    """The entity type of each label, from 1; 0 for no entity."""
    begins: Array
    """Whether each label always begins an entity."""
    ends: Array
    """Whether each label always ends an entity."""
    repaired: Array
    """The labels of the same type with the four prefixes of `SCHEMES`, `(4 C,)`."""
    kinds: list[str]
    """Names of the types, of which the first has number 1."""


def scheme_of(labels: Iterable[str]) -> str:
    """Recognizes the labelling scheme of entities by the prefixes of their labels.

    The prefix of `B-X` is `B`; a prefix is one of the letters B, I, E, S, L and U before a hyphen.

    Args:
        labels: The different labels.

    Returns:
        The first of `"BIO"`, `"BIOES"` and `"BILOU"` that has all prefixes of the labels; `""` if a
        label other than `O` has no prefix, or there is no label other than `O`.

    Raises:
        ValueError: If all labels except `O` have prefixes, but no scheme has all of these prefixes.

    Example:

    >>> scheme_of(["O", "I-X"]), scheme_of(["B-X", "E-X"]), scheme_of(["U-X"]), scheme_of(["NN"])
    ('BIO', 'BIOES', 'BILOU', '')
    """
    marked = [label for label in labels if label != "O"]
    if not marked or not all(x[:1] in "BIESLU" and x[1:2] == "-" and x[2:] for x in marked):
        return ""
    marks = {label[0] for label in marked}
    for name, own in SCHEMES.items():
        if marks <= set(own):
            return name
    raise ValueError(
        f"Expected labels that mark entities by one scheme: {', '.join(SCHEMES)}. Received: "
        f"{', '.join(sorted(marked)[:8])}, with the marks {', '.join(sorted(marks))}. Rename "
        "the labels of the other scheme: E and S of BIOES are L and U in BILOU."
    )


def label_tables(labels: Sequence[str], scheme: str = "BIO") -> LabelTables:
    """Parses the names of labels into arrays of entity types and positions in an entity.

    Args:
        labels: The C labels, with a prefix of the scheme and a type, such as `B-X`; any other
            label, such as `O`, belongs to no entity. If a repair needs a label that does not exist,
            the original label is kept.
        scheme: One of `SCHEMES`, or `""` if the labels do not mark entities.

    Returns:
        A `LabelTables`; index c of its arrays `(C,)` belongs to `labels[c]`.

    Raises:
        ValueError: If `scheme` is unknown.

    Example:

    >>> label_tables(["O", "B-X", "I-X"]).repaired.reshape(4, 3).tolist()
    [[0, 1, 1], [0, 2, 2], [0, 2, 2], [0, 1, 1]]
    """
    number = {label: i for i, label in enumerate(labels)}
    marks = marks_of(scheme) if scheme else ""
    own = [x[2:] if marks and x[:1] in marks and x[1:2] == "-" else "" for x in labels]
    kinds = sorted({*own} - {""})

    def marked_by(some: str) -> Array:
        found = [bool(k) and x[0] in some for x, k in zip(labels, own, strict=True)]
        return np.array(found, bool)

    repaired = [
        number.get(f"{mark}-{kind}", i) if kind else i
        for mark in marks or " " * 4
        for i, kind in enumerate(own)
    ]
    return LabelTables(
        np.array([kinds.index(kind) + 1 if kind else 0 for kind in own], "int32"),
        marked_by("BSU"),
        marked_by("ESLU"),
        np.array(repaired, "int32"),
        kinds,
    )


def entities(
    xp: ArrayModule, labels: Array, lengths: Array, tables: LabelTables
) -> dict[str, Array]:
    """Finds the entities that the labels of words mark.

    A word continues the entity of the previous word of its sentence if both words have the same
    type, the prefix of the word does not begin an entity, and the prefix of the previous word does
    not end an entity. The entities are the same as in `seqeval` without strict mode. Labels are
    repaired so that strict mode finds the same entities.

    Args:
        xp: `numpy` or `keras.ops`.
        labels: For the W words of all sentences, the indices of their labels, int32 `(W,)`.
        lengths: Number of words of each sentence, int32 `(B,)`.
        tables: The result of `label_tables`.

    Returns:
        A dict of int32 arrays. `labels (W,)` are the repaired labels, and `entities (B,)` is the
        number of entities of each sentence. All other arrays have shape `(E,)`, with a value for
        each of the E entities:

        - `kinds`: the number of its type, from 1, as in `tables.kind`.
        - `first`: the position of its first word in the sentence.
        - `behind`: the position of its last word in the sentence, plus 1.
        - `first_word`, `last_word`: the indices of its first and last word among the W words.

    Example:

    >>> tables = label_tables(["O", "B-X", "I-X"])
    >>> words = np.array([0, 2, 2, 1], "int32"), np.array([3, 1], "int32")
    >>> found = entities(np, *words, tables)
    >>> found["first"].tolist(), found["behind"].tolist(), found["entities"].tolist()
    ([1, 0], [3, 1], [1, 1])
    """
    _, place = places_in_rows(xp, lengths)
    kind = xp.take(tables.kind, labels, axis=0)
    open_kind = xp.where(xp.take(tables.ends, labels, axis=0), 0, kind)  # may go on
    before = xp.where(place > 0, xp.pad(open_kind, [[1, 0]])[:-1], 0)
    begins = (kind > 0) & (xp.take(tables.begins, labels, axis=0) | (before != kind))
    # A word is the last one of an entity unless the next word continues it.
    continues = xp.array((kind > 0) & ~begins, dtype="int32")
    ends = (kind > 0) & (xp.pad(continues, [[0, 1]])[1:] == 0)
    places = xp.where(begins, xp.where(ends, 3, 0), xp.where(ends, 2, 1))
    of_place = xp.array(places, dtype="int32") * len(tables.kind)
    labels = xp.take(tables.repaired, of_place + labels, axis=0)
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
