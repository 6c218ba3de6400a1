"""Ids of the sentences of documents, in memory or in a folder."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from keras_attn.batches.sentence_shards import Shard, ShardWriter, open_shards
from keras_attn.folder_headers import read_header, write_header
from keras_attn.inputs import check_listed
from keras_attn.text import WordPieceTokenizer

PREPARED_VERSION = 2
_HEADER = "prepared.json"
_AT_A_TIME = 4096
_Mark = TypeVar("_Mark")


@dataclass(frozen=True, eq=False)
class SentenceIds:
    """Ids of the sentences of documents, with their tokenizer, for pretraining an encoder.

    `len(...)` is the number of documents.

    Args:
        tokenizer: The tokenizer that encoded the sentences.
        shards: The ids, in memory or in memory-mapped files.
        fingerprint: Digest that identifies the ids.

    Example:

    >>> tokenizer = WordPieceTokenizer.train(["a b c d e"], 15)
    >>> ids = SentenceIds.encoded([["a b", "c"], ["d"]], tokenizer)
    >>> len(ids), ids.summary()
    (2, '2 documents, 3 sentences, 4 tokens')
    """

    tokenizer: WordPieceTokenizer
    shards: list[Shard] = field(repr=False)
    fingerprint: str

    def __len__(self) -> int:
        return sum(len(shard.documents) - 1 for shard in self.shards)

    def summary(self) -> str:
        """Returns the numbers of documents, sentences and tokens as text."""
        sentences = sum(len(shard.sentences) - 1 for shard in self.shards)
        tokens = sum(len(shard.ids) for shard in self.shards)
        return f"{len(self):,} documents, {sentences:,} sentences, {tokens:,} tokens"

    def documents_of(self, least: int) -> int:
        """Returns the number of documents that have at least `least` sentences."""
        counts = (shard.documents[1:] - shard.documents[:-1] for shard in self.shards)
        return sum(int((sentences >= least).sum()) for sentences in counts)

    @classmethod
    def encoded(
        cls, documents: Iterable[Sequence[str]], tokenizer: WordPieceTokenizer
    ) -> SentenceIds:
        """Encodes documents, and keeps their ids in memory.

        Args:
            documents: For each document, a list of its sentences, which are strings.
            tokenizer: The tokenizer that encodes the sentences.

        Returns:
            A `SentenceIds`. Sentences and documents without tokens are left out.

        Raises:
            TypeError: If `documents` is a string, dict, set or table, a document is a string, or a
                sentence is not a string.
            ValueError: If the documents have no token.
        """
        check_listed(documents, "documents, lists of sentences")
        writer = ShardWriter(tokenizer.vocabulary_size)
        for rows, _ in encoded_documents(((document, None) for document in documents), tokenizer):
            writer.add(rows)
        shards = writer.close()
        if not shards:
            raise ValueError("Expected documents with at least one token. Received: none.")
        return cls(tokenizer, shards, writer.digest)

    @classmethod
    def of_sides(
        cls,
        documents: Iterable[tuple[Sequence[str], bool]],
        tokenizer: WordPieceTokenizer,
        folder: Path | None = None,
    ) -> tuple[SentenceIds, SentenceIds]:
        """Encodes training documents and held-out documents.

        Args:
            documents: Tuples (sentences, held out): a list of strings, and whether the document is
                held out.
            tokenizer: The tokenizer that encodes the sentences.
            folder: Folder in whose subfolders `train` and `dev` the ids are written; None to keep
                them in memory.

        Returns:
            A tuple of two `SentenceIds`: the training documents and the held-out documents.

        Raises:
            TypeError: If the sentences of a document are a string, or a sentence is not a string.
        """
        writers = [
            ShardWriter(tokenizer.vocabulary_size, None if folder is None else folder / name)
            for name in ("train", "dev")
        ]
        for rows, is_dev in encoded_documents(documents, tokenizer):
            writers[is_dev].add(rows)
        train, dev = (cls(tokenizer, writer.close(), writer.digest) for writer in writers)
        return train, dev


def shard_of(text: str) -> tuple[int, int]:
    """Parses a shard such as `"0/4"`: its number and the number of shards; `(0, 1)` if empty."""
    parts = text.split("/") if text else ["0", "1"]
    if len(parts) == 2 and all(part.isascii() and part.isdecimal() for part in parts):
        number, of = map(int, parts)
        if number < of:
            return number, of
    raise ValueError(
        "`shard` must be a number from 0, and the number of shards, such as 0/4 to 3/4. "
        f"Received: {text!r}."
    )


def shard_folder(folder: str | os.PathLike, shard: tuple[int, int]) -> Path:
    """Returns the subfolder of a shard, or the folder itself if there is only one shard."""
    number, of = shard
    return Path(folder).expanduser() / (f"shard-{number}-of-{of}" if of > 1 else "")


def describe_prepared(
    folder: Path, sides: Sequence[SentenceIds], shard: tuple[int, int] = (0, 1)
) -> None:
    """Writes the metadata of a folder of prepared ids, for `load_prepared`."""
    sides[0].tokenizer.save_assets(folder / "tokenizer")
    fingerprints = [side.fingerprint for side in sides]
    write_header(
        folder / _HEADER, PREPARED_VERSION, files=True, fingerprints=fingerprints, shard=shard
    )


def prepared_folders(folder: str | os.PathLike) -> list[Path]:
    """Returns a folder of prepared ids in a list, or its subfolders if they are shards."""
    folder = Path(folder).expanduser()
    if (folder / _HEADER).exists():
        return [folder]
    found = sorted(header.parent for header in folder.glob(f"shard-*/{_HEADER}"))
    if not found:
        raise FileNotFoundError(
            f"Expected a folder of prepared ids. Received: {folder}, which has no {_HEADER}. "
            "Make one with `keras-attn pretraining prepare`."
        )
    return found


def load_prepared(folder: str | os.PathLike) -> tuple[SentenceIds, SentenceIds]:
    """Opens prepared ids as memory-mapped files.

    All files are read once to verify their checksums. Shards in one folder are opened in the order
    of their numbers. Returns the training documents and the held-out documents.
    """
    headers = {
        place: read_header(
            place / _HEADER, PREPARED_VERSION, "prepared ids", "Prepare the texts again."
        )
        for place in prepared_folders(folder)
    }
    for place, header in headers.items():
        if len(header.get("fingerprints", ())) != 2:
            raise ValueError(
                f"Expected prepared ids in {place}. Received: a {_HEADER} of another kind."
            )
    shards = _checked_shards(Path(folder), headers)
    tokenizer = WordPieceTokenizer.load_assets(shards[0] / "tokenizer")
    train, dev = (
        _side(tokenizer, [place / name for place in shards], [headers[x] for x in shards], number)
        for number, name in enumerate(("train", "dev"))
    )
    return train, dev


def _side(
    tokenizer: WordPieceTokenizer, folders: list[Path], headers: list[dict[str, Any]], number: int
) -> SentenceIds:
    fingerprints = [header["fingerprints"][number] for header in headers]
    if len(folders) > 1:  # a shard may have no document of a side
        folders = [folder for folder in folders if any(folder.glob("*.npy"))]
        fingerprints = [hashlib.sha256("\n".join(fingerprints).encode()).hexdigest()[:32]]
    size = tokenizer.vocabulary_size
    opened = [shard for folder in folders for shard in open_shards(folder, size)]
    return SentenceIds(tokenizer, opened, fingerprints[0])


def _checked_shards(folder: Path, headers: Mapping[Path, dict[str, Any]]) -> list[Path]:
    """Returns the folders of the shards in their order, if each is there once."""
    found: dict[int, Path] = {}
    first, *_ = headers
    of = headers[first].get("shard", [0, 1])[1]
    for place, header in headers.items():
        number, others = header.get("shard", [0, 1])
        kept = [{k: v for k, v in x["files"].items() if "tokenizer/" in k}
                for x in (header, headers[first])]  # fmt: skip
        if others != of or kept[0] != kept[1]:
            raise ValueError(
                f"All shards in {folder} must be prepared with the same texts, settings and number "
                f"of shards. Received: {place.name}, one of {others} shards, and {first.name}, one "
                f"of {of}{'' if others != of else ' with another vocabulary'}. Prepare one of them "
                "again."
            )
        if number in found:
            raise ValueError(
                f"Expected each shard once in {folder}. Received: shard {number}/{of} twice, in "
                f"{found[number].name} and {place.name}. Remove one of them."
            )
        found[number] = place
    missing = [f"{number}/{of}" for number in range(of) if number not in found]
    if missing:
        raise ValueError(
            f"Expected all {of} shards in {folder}. Received: none for {', '.join(missing)}. "
            "Prepare the missing ones with --shard, with the same settings and --to, or give the "
            "folder that holds all of them."
        )
    return [found[number] for number in range(of)]


def encoded_documents(
    documents: Iterable[tuple[Sequence[str], _Mark]], tokenizer: WordPieceTokenizer
) -> Iterator[tuple[list[list[int]], _Mark]]:
    """Encodes documents in groups on all cores, while the next documents are read.

    Each document has a mark, which is yielded with the ids of its sentences.
    """
    with ThreadPoolExecutor(1) as pool:
        waiting: deque[tuple[list[tuple[Sequence[str], _Mark]], Future]] = deque()
        for part in _parts(documents):
            sentences = [sentence for document, _ in part for sentence in document]
            waiting.append((part, pool.submit(tokenizer.encode, sentences)))
            if len(waiting) > 2:
                yield from _regrouped(*waiting.popleft())
        while waiting:
            yield from _regrouped(*waiting.popleft())


def _regrouped(
    part: list[tuple[Sequence[str], _Mark]], encoded: Future[Any]
) -> Iterator[tuple[list[list[int]], _Mark]]:
    ids = iter(encoded.result())
    for document, mark in part:
        yield [next(ids) for _ in document], mark


def _parts(
    documents: Iterable[tuple[Sequence[str], _Mark]],
) -> Iterator[list[tuple[Sequence[str], _Mark]]]:
    """Groups documents with a few thousand sentences in total."""
    part: list[tuple[Sequence[str], _Mark]] = []
    count = 0
    for document, mark in documents:
        if isinstance(document, str):
            raise TypeError(
                "Expected documents, lists of sentences. Received: a string. Cut it with "
                "keras_attn.text.split_sentences."
            )
        part.append((document, mark))
        count += len(document)
        if count >= _AT_A_TIME:
            yield part
            part, count = [], 0
    yield part
