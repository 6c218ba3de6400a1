"""Folders of tokenized sentence pairs, for training on any backend."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from keras_attn.archives import open_archive
from keras_attn.batches.sentence_shards import check_ids
from keras_attn.files import atomic_folder
from keras_attn.folder_headers import read_header, write_header
from keras_attn.input_files import refuse_damaged
from keras_attn.records import (
    ParallelText,
    TranslationPair,
    read_json_lines,
    read_pairs,
    remove_overlap,
    split_pairs,
)
from keras_attn.records.readers import pair_columns
from keras_attn.settings import Settings, read_settings, write_settings
from keras_attn.text.language_marks import encode_marked, ended
from keras_attn.text.registry import PIECES, TextTokenizer, load_tokenizer
from keras_attn.text.special_tokens import say_written, written_special_tokens

PREPARED_VERSION = 2
_HEADER, _SETTINGS, _IDS = "prepared.json", "settings.toml", "train.npz"
_OF_IDS = "an archive of ids"
Row = Sequence[int]


@dataclass(frozen=True, eq=False)
class PreparedPairs:
    """Tokenized training, development and test pairs in a folder, which `prepare` writes.

    A subclass defines the class `Data` of its settings: the files, `dev_size`, `test_size`,
    `split_seed`, `tokenizer`, `vocabulary_size`, `separate_vocabularies` and `max_length`. The ids
    of sources include the end token if the model reads it; the ids of targets include neither a
    start token nor an end token.
    """

    Data: ClassVar[type[Settings]]

    settings: Any
    source_tokenizer: TextTokenizer
    target_tokenizer: TextTokenizer
    sources: list[Row]
    targets: list[Row]
    dev: list[TranslationPair]
    test: list[TranslationPair]
    fingerprint: str
    counts: dict[str, int]

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def prepare(
        cls,
        settings: Any,
        folder: str | os.PathLike,
        log: Callable[[str], Any] = lambda text: None,
    ) -> Self:
        """Reads and splits pairs, trains the tokenizers, and writes ids and tokenizers to a folder.

        Training pairs whose source or target occurs in a development or test pair (ignoring case,
        digits and punctuation) are left out.

        Args:
            settings: The files of the pairs, and how they are split and tokenized.
            folder: The folder, which must be new or empty. It is written atomically.
            log: Function that is called with a message about each step.

        Returns:
            The pairs, as loaded by `load`.

        Raises:
            FileExistsError: If the folder exists and is not empty.
            ValueError: If a file has bad lines, or there are too few pairs.
            OSError: If a file cannot be read, or the folder cannot be written.
        """
        with atomic_folder(folder) as building:
            train, dev, test, removed = _read(settings, log)
            say_written(written_special_tokens(train), None, log)
            source, target, ends = cls.tokenizers(settings, [pair[:2] for pair in train])
            tokenizers = [source, target]
            sources, targets, too_long = _short_enough(
                encode_sources(source, [pair.source for pair in train], ends),
                target.encode([pair.target for pair in train]),
                settings.max_length,
            )
            counts = {
                "train": len(sources),
                "dev": len(dev),
                "test": len(test),
                "like_dev_or_test": removed,
                "too_long": too_long,
            }
            log(", ".join(f"{name}: {count:,}" for name, count in counts.items()))
            sizes = " and ".join(f"{t.vocabulary_size:,}" for t in dict.fromkeys(tokenizers))
            tokens = sum(map(len, sources)), sum(len(row) + 1 for row in targets)
            log(f"{sizes} different tokens; {tokens[0]:,} of sources and {tokens[1]:,} of targets")
            _write(building, settings, tokenizers, sources, targets, dev, test, counts)
        return cls.load(folder)

    @classmethod
    def tokenizers(
        cls, settings: Any, pairs: Sequence[Any]
    ) -> tuple[TextTokenizer, TextTokenizer, bool]:
        """Trains the tokenizers of the sources and of the targets.

        Returns:
            Both tokenizers, which may be the same object, and whether sources have the end token.
        """
        return (*make_tokenizers(settings, pairs), True)

    @classmethod
    def load(cls, folder: str | os.PathLike) -> Self:
        """Loads a folder that `prepare` wrote.

        Args:
            folder: The folder.

        Raises:
            FileNotFoundError: If there is no such folder.
            ValueError: If the folder has a different format version, or a file is damaged.
        """
        folder = Path(folder).expanduser()
        if not (folder / _HEADER).exists():
            raise FileNotFoundError(
                f"Expected a folder of prepared data. Received: {folder}, which has no {_HEADER}. "
                "Make one with `keras-attn translation prepare`."
            )
        header = read_header(
            folder / _HEADER, PREPARED_VERSION, "prepared data", "Prepare the data again."
        )
        if not {"fingerprint", "counts"} <= header.keys():
            raise ValueError(
                f"Expected prepared data in {folder}. Received: a {_HEADER} of another kind."
            )
        source = load_tokenizer(folder / "source_tokenizer")
        target = source
        if (folder / "target_tokenizer").is_dir():
            target = load_tokenizer(folder / "target_tokenizer")
        sources, targets = _read_rows(folder / _IDS, source, target)
        return cls(
            cls.Data(**read_settings(folder / _SETTINGS, {"data": cls.Data})["data"]),
            source,
            target,
            sources,
            targets,
            _read_text(folder / "dev.jsonl"),
            _read_text(folder / "test.jsonl") if header["counts"]["test"] else [],
            header["fingerprint"],
            header["counts"],
        )


def _read(
    settings: Any, log: Callable[[str], Any]
) -> tuple[list[TranslationPair], list[TranslationPair], list[TranslationPair], int]:
    """Returns training, development and test pairs, and the number of pairs left out as too
    similar."""
    if not settings.train:
        raise ValueError("Expected `train`, a file or a folder of pairs. Received: none.")

    def read(path: str, target_path: str, **more: Any) -> list[TranslationPair]:
        text: ParallelText = read_pairs(
            os.path.expanduser(path),
            os.path.expanduser(target_path) or None,
            format=settings.format,
            **pair_columns(settings.source, settings.target, settings.delimiter),
            on_error=settings.on_error,
            max_characters=settings.max_characters,
            **more,
        )
        log(text.summary())
        return list(text)

    given: dict[str, list[TranslationPair]] = {}
    folder = Path(settings.train).expanduser()
    splits_of_folder = {
        name: split
        for name, split in (("dev", "val"), ("test", "test_2016_flickr"))
        if folder.is_dir() and not getattr(settings, name) and any(folder.glob(f"{split}.*"))
    }
    all_given = all(getattr(settings, n) or n in splits_of_folder for n in ("dev", "test"))
    # Sets that are drawn are drawn from pairs that occur once.
    train = read(settings.train, settings.train_target, unique=not all_given)
    for name in ("dev", "test"):
        path = getattr(settings, name)
        if path:
            given[name] = read(path, getattr(settings, f"{name}_target"))
        elif name in splits_of_folder:
            given[name] = read(settings.train, "", split=splits_of_folder[name])
    removed = 0
    if given:
        train, removed = remove_overlap(train, *given.values())
    if len(given) < 2:
        splits = split_pairs(
            train,
            test_size=0 if "test" in given else settings.test_size,
            validation_size=0 if "dev" in given else settings.dev_size,
            seed=settings.split_seed,
        )
        train = splits.train
        given = {"dev": splits.validation, "test": splits.test, **given}
    return train, given["dev"], given["test"], removed


def make_tokenizers(
    settings: Any, pairs: Sequence[Sequence[str]]
) -> tuple[TextTokenizer, TextTokenizer]:
    """Trains the tokenizers of the sources and the targets, which may be the same object."""
    kind, size = PIECES[settings.tokenizer], settings.vocabulary_size
    sides = [[pair[0] for pair in pairs], [pair[1] for pair in pairs]]
    if settings.separate_vocabularies:
        source, target = (kind.train(side, size, allow_fewer=True) for side in sides)
        return source, target
    both = kind.train([*sides[0], *sides[1]], size, allow_fewer=True)
    return both, both


def encode_sources(
    tokenizer: TextTokenizer, texts: Sequence[str], ends: bool = True
) -> list[list[int]]:
    """Returns the ids of source texts, in which a leading language mark is one token.

    Args:
        tokenizer: Tokenizer of the sources.
        texts: Strings.
        ends: Whether an end token is added to each text. If False, it is only added to empty texts.
    """
    return [ended(row, tokenizer.end_id, ends) for row in encode_marked(tokenizer, texts)]


def _short_enough(
    sources: Sequence[Row], targets: Sequence[Row], most: int
) -> tuple[list[Row], list[Row], int]:
    """Returns the pairs with at most `most` ids, and the number of longer ones."""
    rows = zip(sources, targets, strict=True)
    kept = [(s, t) for s, t in rows if len(s) <= most and len(t) < most]
    if not kept:
        raise ValueError(
            f"No training pair has at most `max_length`={most} tokens on each side. Raise "
            "`max_length`, or split the texts into sentences."
        )
    return [s for s, _ in kept], [t for _, t in kept], len(sources) - len(kept)


def _write(
    folder: Path,
    settings: Any,
    tokenizers: list[TextTokenizer],
    sources: list[Row],
    targets: list[Row],
    dev: list[TranslationPair],
    test: list[TranslationPair],
    counts: dict[str, int],
) -> None:
    tokenizers[0].save_assets(folder / "source_tokenizer")
    if tokenizers[1] is not tokenizers[0]:
        tokenizers[1].save_assets(folder / "target_tokenizer")
    arrays = {}
    for side, rows in (("source", sources), ("target", targets)):
        arrays[f"{side}_lengths"] = np.array([len(row) for row in rows], "int32")
        arrays[f"{side}_ids"] = np.concatenate([np.asarray(row, "int32") for row in rows])
    np.savez(
        folder / _IDS,
        source_lengths=arrays["source_lengths"],
        source_ids=arrays["source_ids"],
        target_lengths=arrays["target_lengths"],
        target_ids=arrays["target_ids"],
    )
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    for tokenizer in tokenizers:
        digest.update(json.dumps(tokenizer.get_config(), sort_keys=True).encode())
    for name, pairs in (("dev", dev), ("test", test)):
        texts = [{"source": pair.source, "target": pair.target} for pair in pairs]
        lines = [json.dumps(row, ensure_ascii=False) for row in texts]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        digest.update(f"{name}: {lines}".encode())
    write_settings(folder / _SETTINGS, {"data": settings})
    named = {"fingerprint": digest.hexdigest()[:32], "counts": counts}
    write_header(folder / _HEADER, PREPARED_VERSION, files=True, **named)


def _read_rows(
    path: Path, source: TextTokenizer, target: TextTokenizer
) -> tuple[list[Row], list[Row]]:
    """The ids of sources and targets, split into rows."""
    rows: list[Any] = []
    with open_archive(path, _OF_IDS) as archive:
        for side, tokenizer in (("source", source), ("target", target)):
            ids, lengths = archive.array(f"{side}_ids"), archive.array(f"{side}_lengths")
            if any(array.dtype != np.int32 or array.ndim != 1 for array in (ids, lengths)):
                refuse_damaged(path, f"its {side} rows are no lists of int32", _OF_IDS)
            # Targets have neither start nor end here, and may be empty.
            if lengths.min(initial=0) < 0 or lengths.sum(dtype="int64") != len(ids):
                refuse_damaged(
                    path, f"the lengths of the {side} rows are not those of its ids", _OF_IDS
                )
            check_ids(ids, tokenizer.vocabulary_size, path, _OF_IDS)
            rows.append(np.split(ids, np.cumsum(lengths)[:-1]))
    if len(rows[0]) != len(rows[1]):
        refuse_damaged(path, f"{len(rows[0]):,} sources and {len(rows[1]):,} targets", _OF_IDS)
    return rows[0], rows[1]


def _read_text(path: Path) -> list[TranslationPair]:
    return list(read_json_lines(path, normalize_spaces=False))
