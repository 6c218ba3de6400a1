"""Splits of documents into chunks that fit into rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keras_attn.batches.sentence_shards import Shard


class Chunks(NamedTuple):
    """Chunks of documents: consecutive sentences of one document that fit into a row."""

    units: np.ndarray
    """The start of each unit (a sentence, or a piece of a long one) in the ids."""
    starts: np.ndarray
    """Index of the first unit of each chunk."""
    ends: np.ndarray
    """Index of the unit after each chunk."""
    documents: np.ndarray
    """Index of the document of each chunk."""
    left_out: int
    """Number of ids that are in no chunk."""

    @property
    def lengths(self) -> np.ndarray:
        """Number of ids of each chunk."""
        return self.units[self.ends] - self.units[self.starts]


def chunk_sentences(shard: Shard, room: int, least: int) -> Chunks:
    """Splits documents into chunks of at most `room` ids, with as many whole sentences as fit.

    A unit is a sentence, or a piece of `room // least` ids of a longer sentence, so that `least`
    units (1 or 2) fit in a chunk. If the last chunk of a document has fewer units, it gets units
    from the previous chunk if possible; otherwise, it is left out.
    """
    units, first = _units(shard, room // least)
    # All documents at once: in each round the next chunk of those that are not at their end.
    start, last = first[:-1], first[1:]
    number = np.arange(len(start))
    found = []
    while len(start):
        end = np.searchsorted(units, units[start] + room, side="right") - 1
        end = np.minimum(end, last)
        found.append(np.stack([start, end, number]))
        going = end < last
        start, last, number = end[going], last[going], number[going]
    starts, ends, documents = np.concatenate(found, axis=1)
    order = np.argsort(starts, kind="stable")
    starts, ends, documents = starts[order], ends[order], documents[order]
    if least > 1:
        short = np.flatnonzero(ends - starts < least)
        short = short[short > 0]
        before = short - 1
        spares = (documents[before] == documents[short]) & (ends[before] - starts[before] > least)
        fits = units[ends[short]] - units[starts[short] - 1] <= room
        moved = short[spares & fits]
        starts[moved] -= 1
        ends[moved - 1] -= 1
        kept = ends - starts >= least
        starts, ends, documents = starts[kept], ends[kept], documents[kept]
    used = int((units[ends] - units[starts]).sum())
    return Chunks(units, starts, ends, documents, len(shard.ids) - used)


def _units(shard: Shard, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """The starts of units and the end; the first unit of each document and the number of units."""
    sentences = np.asarray(shard.sentences)
    sizes = np.diff(sentences)
    pieces = -(-sizes // longest)
    starts = np.repeat(sentences[:-1], pieces)
    before = np.cumsum(pieces) - pieces  # units before each sentence
    within = np.arange(len(starts)) - np.repeat(before, pieces)
    units = np.append(starts + within * longest, sentences[-1])
    first = np.append(before, len(starts))[np.asarray(shard.documents)]
    return units, first
