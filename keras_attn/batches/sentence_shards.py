"""Ids of the sentences of documents, in memory-mapped files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attn.archives import map_array
from keras_attn.input_files import refuse_damaged

_PARTS = ("ids", "sentences", "documents")
_DTYPES = (("uint16", "uint32"), ("int64",), ("int64",))
_EXPECTED = "a whole file of ids"
_AT_A_TIME = 1 << 22


class Shard(NamedTuple):
    """The concatenated ids of documents, and where their sentences begin.

    Example:

    >>> shard = make_shard([[[5, 6], [7]], [[8]]])
    >>> shard.ids.tolist(), shard.sentences.tolist(), shard.documents.tolist()
    ([5, 6, 7, 8], [0, 2, 3, 4], [0, 2, 3])
    """

    ids: np.ndarray
    """All ids."""
    sentences: np.ndarray
    """The start of each sentence in `ids`, and finally the number of ids."""
    documents: np.ndarray
    """The first sentence of each document, and finally the number of sentences."""


def make_shard(documents: Sequence[Sequence[Sequence[int]]], dtype: str = "int32") -> Shard:
    """Creates a `Shard` in memory from the ids of documents.

    Args:
        documents: The ids of each sentence of each document.
        dtype: Dtype of the array `ids` of the shard.

    Returns:
        A `Shard`, without empty sentences and documents.

    Raises:
        ValueError: If there is no id.

    Example:

    >>> make_shard([[[5, 6], []], [[]]]).documents.tolist()
    [0, 1]
    """
    parts = [part for part in (_flat(rows, dtype) for rows in documents) if len(part[0])]
    if not parts:
        raise ValueError("Expected documents with at least one token. Received: none.")
    return _joined(parts)


def _flat(document: Sequence[Sequence[int]], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """The ids of a document, and the sizes of its non-empty sentences."""
    sizes = np.array([len(row) for row in document if len(row)], "int64")
    return np.fromiter(chain.from_iterable(document), dtype, int(sizes.sum())), sizes


def _joined(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Shard:
    sizes = np.concatenate([sizes for _, sizes in parts])
    counts = np.array([len(sizes) for _, sizes in parts], "int64")
    return Shard(
        np.concatenate([ids for ids, _ in parts]),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate([[0], np.cumsum(counts)]),
    )


class ShardWriter:
    """Collects the ids of documents in shards, in memory or in files.

    Args:
        vocabulary_size: Number of ids of the vocabulary. Ids are stored as uint16 if it is at most
            65,536, otherwise as uint32.
        folder: Folder of the files, which is created; None to keep the shards in memory.
        shard_tokens: Number of tokens after which a new shard begins, at the next document.

    Attributes:
        counts: A dict of the numbers of `documents`, `sentences`, `tokens` and `shards` in all
            finished shards, which are all shards after `close`.

    Example:

    >>> import tempfile
    >>> writer = ShardWriter(vocabulary_size=10, folder=tempfile.mkdtemp())
    >>> writer.add([[5, 6], [7]])
    >>> writer.add([[8]])
    >>> [shard.ids.tolist() for shard in writer.close()], writer.counts["sentences"]
    ([[5, 6, 7, 8]], 3)
    """

    def __init__(
        self,
        vocabulary_size: int,
        folder: str | os.PathLike | None = None,
        shard_tokens: int = 1 << 24,
    ):
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        self.shard_tokens = shard_tokens
        self.counts = dict.fromkeys(("documents", "sentences", "tokens", "shards"), 0)
        self._dtype = "uint16" if vocabulary_size <= 1 << 16 else "uint32"
        self._digest = hashlib.sha256()
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._tokens = 0
        self._shards: list[Shard] = []

    def add(self, document: Sequence[Sequence[int]]) -> None:
        """Adds the ids of a document; a document without ids is left out.

        Args:
            document: The ids of each sentence; sentences without ids are left out.
        """
        part = _flat(document, self._dtype)
        if not len(part[0]):
            return
        self._waiting.append(part)
        self._tokens += len(part[0])
        if self._tokens >= self.shard_tokens:
            self._write()

    def _write(self) -> None:
        shard = _joined(self._waiting)
        for name, array in zip(_PARTS, shard, strict=True):
            self._digest.update(array.tobytes())
            if self.folder is not None:
                np.save(self.folder / f"{self.counts['shards']:05d}.{name}.npy", array)
        if self.folder is None:
            self._shards.append(shard)
        self.counts["documents"] += len(shard.documents) - 1
        self.counts["sentences"] += len(shard.sentences) - 1
        self.counts["tokens"] += len(shard.ids)
        self.counts["shards"] += 1
        self._waiting, self._tokens = [], 0

    def close(self) -> list[Shard]:
        """Finishes the last shard with the remaining ids, and returns all shards.

        Returns:
            A list of `Shard`s, which are memory-mapped if the writer has a folder; empty if no ids
            were added.
        """
        if self._waiting:
            self._write()
        if self.folder is None or not self.counts["shards"]:
            return self._shards
        return open_shards(self.folder)

    @property
    def digest(self) -> str:
        """Hexadecimal digest of all finished shards, which are all shards after `close`."""
        return self._digest.hexdigest()[:32]


def check_ids(
    ids: np.ndarray, vocabulary_size: int, path: str | os.PathLike, expected: str
) -> None:
    """Reads ids in parts, and raises a ValueError if an id is outside the vocabulary."""
    for start in range(0, len(ids), _AT_A_TIME):
        part = ids[start : start + _AT_A_TIME]
        wrong = np.flatnonzero((part < 0) | (part >= vocabulary_size))
        if len(wrong):
            place = int(wrong[0])
            refuse_damaged(
                path,
                f"the id {part[place]} at place {start + place:,}, for a vocabulary of "
                f"{vocabulary_size:,}",
                expected,
            )


def open_shards(folder: str | os.PathLike, vocabulary_size: int | None = None) -> list[Shard]:
    """Opens the files of a `ShardWriter`, memory-mapped.

    Args:
        folder: The folder that the writer filled.
        vocabulary_size: Number of ids of the vocabulary. If given, all ids are read once and
            checked against it.

    Returns:
        A list of `Shard`s. Their arrays are loaded into memory only when they are read, and the
        system can release this memory at any time.

    Raises:
        FileNotFoundError: If there is no shard, or a file of a shard is missing.
        ValueError: If a file is damaged, the files of a shard contradict each other, or an id is
            outside the vocabulary.

    Example:

    >>> import tempfile
    >>> writer = ShardWriter(vocabulary_size=10, folder=tempfile.mkdtemp())
    >>> writer.add([[5, 6], [7]])
    >>> _ = writer.close()
    >>> [shard.ids.tolist() for shard in open_shards(writer.folder)]
    [[5, 6, 7]]
    """
    folder = Path(folder)
    names = sorted(file.name.split(".")[0] for file in folder.glob("*.ids.npy"))
    if not names:
        raise FileNotFoundError(f"Expected shards of ids, *.ids.npy, in {folder}. There are none.")
    return [_open(folder, name, vocabulary_size) for name in names]


def _open(folder: Path, name: str, vocabulary_size: int | None) -> Shard:
    paths = [folder / f"{name}.{part}.npy" for part in _PARTS]
    shard = Shard(*(map_array(path, _EXPECTED) for path in paths))
    for array, path, dtypes in zip(shard, paths, _DTYPES, strict=True):
        if array.ndim != 1 or array.dtype.name not in dtypes or not len(array):
            refuse_damaged(path, f"{array.dtype} values of shape {array.shape}", _EXPECTED)
    for offsets, path in zip(shard[1:], paths[1:], strict=True):
        if offsets[0] != 0 or (np.diff(offsets) < 1).any():
            refuse_damaged(path, "its offsets do not rise from 0", _EXPECTED)
    ends = int(shard.sentences[-1]), int(shard.documents[-1])
    if ends != (len(shard.ids), len(shard.sentences) - 1):
        raise ValueError(
            f"Expected files that belong to the same shard in {folder}. Received: shard "
            f"{name} with {len(shard.ids):,} ids instead of {ends[0]:,}, and "
            f"{len(shard.sentences) - 1:,} sentences instead of {ends[1]:,}. Prepare the "
            "data again."
        )
    if vocabulary_size is not None:
        check_ids(shard.ids, vocabulary_size, paths[0], _EXPECTED)
    return shard
