"""Plain text made into ids, in memory or once and for all in a folder."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_attn.batches import Shard, ShardWriter, open_shards
from keras_attn.corpora import load_movie_reviews
from keras_attn.files import atomic_folder
from keras_attn.folder_headers import read_header, write_header
from keras_attn.inputs import check_listed
from keras_attn.records import Documents
from keras_attn.settings import WrongUse, read_settings, write_settings
from keras_attn.tasks.base.backbones import read_backbone
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.special_tokens import say_written
from keras_attn.tasks.pretraining.settings import PretrainingData
from keras_attn.text import WordPieceTokenizer, split_sentences
from keras_attn.text.special_tokens import written_special_tokens

PREPARED_VERSION = 2
_HEADER, _SETTINGS = "prepared.json", "settings.toml"
_AT_A_TIME = 4096
_OF_TEXTS = (
    "key", "on_error", "dev_share", "split_seed", "vocabulary_size", "vocabulary_file", "lowercase",
)  # fmt: skip
_VOCABULARY_CHARACTERS = 50_000_000
"""Number of characters from which a vocabulary is made."""

Log = Callable[[str], Any]


@dataclass(frozen=True)
class PretrainingLearned(Learned):
    """What pretraining learned beside its weights: the tokenizer.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If its vocabulary has no `[MASK]`.
    """

    tokenizer: WordPieceTokenizer

    def __post_init__(self) -> None:
        super().__post_init__()
        tokenizer = self.tokenizer
        if not isinstance(tokenizer, WordPieceTokenizer):
            raise TypeError(
                f"`tokenizer` must be a WordPieceTokenizer. Received: {type(tokenizer).__name__}. "
                "Make one with WordPieceTokenizer.train(texts, ..., mask_in_text=True)."
            )
        if not tokenizer.mask_in_text:
            raise ValueError(
                '`tokenizer` must read "[MASK]" in a text as a token. Received: one with '
                f"mask_in_text=False{'' if tokenizer.mask_id else ', without [MASK]'}. "
                "Make it with mask_in_text=True."
            )


@dataclass(frozen=True, eq=False)
class SentenceIds:
    """Ids of the sentences of documents, with their tokenizer: what an encoder is pretrained on.

    Args:
        tokenizer: The tokenizer.
        shards: The ids.
        fingerprint: Names the ids.

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
        """Returns how much there is."""
        sentences = sum(len(shard.sentences) - 1 for shard in self.shards)
        tokens = sum(len(shard.ids) for shard in self.shards)
        return f"{len(self):,} documents, {sentences:,} sentences, {tokens:,} tokens"

    @classmethod
    def encoded(
        cls, documents: Iterable[Sequence[str]], tokenizer: WordPieceTokenizer
    ) -> SentenceIds:
        """Encodes documents in memory.

        Args:
            documents: Lists of sentences.
            tokenizer: The tokenizer.

        Returns:
            A `SentenceIds`.

        Raises:
            TypeError: If a document is a string, or a sentence is none.
            ValueError: If there is no token.
        """
        check_listed(documents, "documents, lists of sentences")
        writer = ShardWriter(tokenizer.vocabulary_size)
        for rows, _ in _encoded(((document, None) for document in documents), tokenizer):
            writer.add(rows)
        shards = writer.close()
        if not shards:
            raise ValueError("Expected documents with at least one token. Received: none.")
        return cls(tokenizer, shards, writer.digest)


def read_sentences(settings: PretrainingData) -> tuple[SentenceIds, SentenceIds]:
    """Reads texts and encodes them, in memory; or opens what `prepare` wrote.

    Args:
        settings: Which texts, and what is made of them.

    Returns:
        Training and held-out documents.

    Raises:
        FileNotFoundError: If there are no such files.
        ValueError: If a line is bad, or there is too little text.
    """
    if settings.prepared:
        if settings.text or settings.dev:
            raise WrongUse("Give either --text (and --dev) or --prepared.")
        made = load_prepared(settings.prepared)
        _check_prepared(settings)
        return made
    return _make(settings, None, lambda text: None)


def prepare(settings: PretrainingData, folder: str | os.PathLike, log: Log = print) -> None:
    """Reads texts, makes a vocabulary, and writes ids to a new folder, for `--prepared`.

    The texts are read twice and may be larger than memory.

    Args:
        settings: Which texts, and what is made of them.
        folder: The folder; it must not be there, or be empty. It appears when it is whole.
        log: Called with a line about each step.

    Raises:
        FileExistsError: If the folder is there and not empty.
        FileNotFoundError: If there are no such files.
        ValueError: If a line is bad, or there is too little text.

    Example:

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("One dog.\\nTwo cats.\\n\\nRed.\\nBlue.\\n")
    >>> _ = (folder / "b.txt").write_text("A dog.\\nIt.\\n\\nA cat.\\nIt.\\n")
    >>> texts = {"text": str(folder / "a.txt"), "dev": str(folder / "b.txt")}
    >>> prepare(PretrainingData(**texts), folder / "prepared", log=lambda text: None)
    >>> train, dev = load_prepared(folder / "prepared")
    >>> len(train), len(dev)
    (2, 2)
    """
    with atomic_folder(folder) as building:
        train, dev = _make(settings, building, log)
        train.tokenizer.save_assets(building / "tokenizer")
        write_settings(building / _SETTINGS, {"data": settings})
        fingerprints = [train.fingerprint, dev.fingerprint]
        write_header(building / _HEADER, PREPARED_VERSION, files=True, fingerprints=fingerprints)


def load_prepared(folder: str | os.PathLike) -> tuple[SentenceIds, SentenceIds]:
    """Opens what `prepare` wrote; the ids are mapped into memory, not loaded.

    All files are read once, to compare their checksums.

    Args:
        folder: The folder.

    Returns:
        Training and held-out documents.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If it is of another format version, or a file is damaged.
    """
    folder = Path(folder).expanduser()
    if not (folder / _HEADER).exists():
        raise FileNotFoundError(
            f"Expected a folder of prepared ids. Received: {folder}, which has no {_HEADER}. "
            "Make one with `keras-attn pretraining prepare`."
        )
    header = read_header(
        folder / _HEADER, PREPARED_VERSION, "prepared ids", "Prepare the texts again."
    )
    if len(header.get("fingerprints", ())) != 2:
        raise ValueError(f"Expected prepared ids in {folder}. Received: another {_HEADER}.")
    tokenizer = WordPieceTokenizer.load_assets(folder / "tokenizer")
    size = tokenizer.vocabulary_size
    train, dev = (
        SentenceIds(tokenizer, open_shards(folder / name, size), fingerprint)
        for name, fingerprint in zip(("train", "dev"), header["fingerprints"], strict=True)
    )
    return train, dev


def _check_prepared(settings: PretrainingData) -> None:
    """Refuses what was chosen of the texts, unless they were prepared with it."""
    file = Path(settings.prepared).expanduser() / _SETTINGS
    was = read_settings(file, {"data": PretrainingData})["data"]
    for option in _OF_TEXTS:
        default = PretrainingData.__dataclass_fields__[option].default
        value = getattr(settings, option)
        if value not in (default, was.get(option)):
            raise WrongUse(
                f"The texts were prepared with {option}={was.get(option)!r}. Received: {value!r}. "
                "Give it to `keras-attn pretraining prepare`."
            )


def make_tokenizer(texts: Iterable[str], settings: PretrainingData) -> WordPieceTokenizer:
    """Makes the tokenizer of training texts.

    Args:
        texts: The texts, which can be read twice.
        settings: `vocabulary_size`, `vocabulary_file` and `lowercase`.

    Returns:
        A `WordPieceTokenizer` for which "[MASK]" in a text is a token.
    """
    if settings.vocabulary_file:
        return WordPieceTokenizer.from_vocabulary_file(
            settings.vocabulary_file, settings.lowercase, mask_in_text=True
        )
    return WordPieceTokenizer.train(
        texts, settings.vocabulary_size, settings.lowercase, allow_fewer=True, mask_in_text=True
    )


class _Beginning:
    """The first sentences of the training documents, for a vocabulary; can be read again."""

    def __init__(self, documents: Callable[[], Iterator[tuple[Sequence[str], bool]]]):
        self.documents = documents

    def __iter__(self) -> Iterator[str]:
        left = _VOCABULARY_CHARACTERS
        for document, is_dev in self.documents():
            if is_dev:
                continue
            for sentence in document:
                yield sentence
                left -= len(sentence)
            if left <= 0:
                return


def _make(
    settings: PretrainingData, folder: Path | None, log: Log
) -> tuple[SentenceIds, SentenceIds]:
    texts = _documents(settings.text, settings)
    held_out = Documents(settings.dev, settings.key, settings.on_error) if settings.dev else None

    written: Counter[str] = Counter()  # special tokens in the texts

    def split() -> Iterator[tuple[Sequence[str], bool]]:
        written.clear()
        for document in texts:
            written.update(written_special_tokens(document))
            is_dev = held_out is None and _held_out(
                document, settings.dev_share, settings.split_seed
            )
            yield document, is_dev
        for document in held_out or ():
            yield document, True

    if settings.backbone:
        tokenizer = read_backbone(settings.backbone).tokenizer
    else:
        tokenizer = make_tokenizer(_Beginning(split), settings)
    log(f"{tokenizer.vocabulary_size:,} tokens in the vocabulary")
    size = tokenizer.vocabulary_size
    writers = [
        ShardWriter(size, None if folder is None else folder / name) for name in ("train", "dev")
    ]
    for rows, is_dev in _encoded(split(), tokenizer):
        writers[is_dev].add(rows)
    say_written(written, tokenizer, log)
    made = [SentenceIds(tokenizer, w.close(), w.digest) for w in writers]
    for name, ids in zip(("training", "held out"), made, strict=True):
        log(f"{name}: {ids.summary()}")
    skipped = sum(d.skipped for d in (texts, held_out) if isinstance(d, Documents))
    if skipped:
        log(f"{skipped:,} bad lines were left out")
    _check_enough(settings, *made)
    return made[0], made[1]


def _check_enough(settings: PretrainingData, train: SentenceIds, dev: SentenceIds) -> None:
    least = 2 if settings.next_sentence else 1
    pairs = " of two sentences, so that there are next ones" if settings.next_sentence else ""
    for name, ids in (("to learn from", train), ("to measure with", dev)):
        enough = sum(
            int((shard.documents[1:] - shard.documents[:-1] >= least).sum()) for shard in ids.shards
        )
        if enough < least:
            advice = (
                "Are documents parted by blank lines? `--no-next-sentence` reads single ones."
                if name == "to learn from"
                else "Bring more text, a greater --dev-share, or a file: --dev."
            )
            raise ValueError(
                f"Expected at least {least} documents{pairs}, {name}. Received: {enough} of "
                f"{len(ids)} documents. {advice}"
            )


def _documents(path: str, settings: PretrainingData) -> Iterable[Sequence[str]]:
    if path:
        return Documents(path, settings.key, settings.on_error)
    reviews = load_movie_reviews()
    return [split_sentences(review.text) for review in reviews]


def _held_out(document: Sequence[str], share: float, seed: int) -> bool:
    """Drawn by the words of a document, so that copies of it stay on one side."""
    digest = hashlib.sha256(f"{seed}\n".encode() + "\n".join(document).encode("utf-8", "replace"))
    return int.from_bytes(digest.digest()[:6], "big") < share * 2**48


def _encoded(
    documents: Iterable[tuple[Sequence[str], Any]], tokenizer: WordPieceTokenizer
) -> Iterator[tuple[list[list[int]], Any]]:
    """The ids of the sentences of each document.

    Many documents are encoded at a time, on all cores, while the next ones are read.
    """
    parts = _parts(iter(documents))
    with ThreadPoolExecutor(1) as pool:
        waiting: deque[tuple[list[tuple[Sequence[str], Any]], Future]] = deque()
        for part in parts:
            sentences = [sentence for document, _ in part for sentence in document]
            waiting.append((part, pool.submit(tokenizer.encode, sentences)))
            if len(waiting) > 2:
                yield from _regrouped(*waiting.popleft())
        while waiting:
            yield from _regrouped(*waiting.popleft())


def _regrouped(
    part: list[tuple[Sequence[str], Any]], encoded: Future
) -> Iterator[tuple[list[list[int]], Any]]:
    ids = iter(encoded.result())
    for document, mark in part:
        yield [next(ids) for _ in document], mark


def _parts(
    documents: Iterator[tuple[Sequence[str], Any]],
) -> Iterator[list[tuple[Sequence[str], Any]]]:
    """Documents with some thousand sentences together."""
    part: list[tuple[Sequence[str], Any]] = []
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
