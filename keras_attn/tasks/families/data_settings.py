"""Settings of training files.

Help texts have words in braces, which a task replaces; see `keras_attn.settings.with_defaults`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_attn.records.tables import check_delimiter
from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.text.registry import PIECES

READ = ("fit", "evaluate")
"""The steps that read files of examples."""
FORMATS = ("auto", "csv", "tsv", "json_lines")
COLUMN_OR_NUMBER = "; or its number from 0, if the file has no header"
COLUMN_OF_FORMAT = "; if empty, the usual column of the format"


def column(default: str, what: str, otherwise: str = "", steps: Sequence[str] = READ) -> Any:
    """Declares a setting that names a column of the files, or a key of JSON lines."""
    return setting(default, f"column, or JSON key, of the {what}{otherwise}", steps=steps)


@dataclass(frozen=True)
class BadLines(Settings):
    """Settings for handling bad lines of files."""

    on_error: str = setting(
        "error", "what to do with a bad line", choices=("error", "skip"), steps=READ
    )


@dataclass(frozen=True)
class TrainingFile(Settings):
    """Settings of the training file."""

    train: str = setting(
        "", "{examples} to learn from", required=True, shapes_result=False, path="examples"
    )


@dataclass(frozen=True)
class HeldOut(Settings):
    """Settings of the development examples: a file, or a part of the training examples."""

    dev: str = setting(
        "", "{examples} that determine the best weights, instead of a part of --train",
        shapes_result=False, path="examples",
    )  # fmt: skip
    dev_share: float = setting(
        0.1, "fraction of the {examples} to hold out, without --dev", above=0, below=1
    )
    split_seed: int = setting(0, "seed of that split", at_least=0)


@dataclass(frozen=True)
class Files(BadLines, HeldOut, TrainingFile):
    """Settings of training and development files."""


@dataclass(frozen=True)
class NearDuplicates(Settings):
    """Settings for nearly equal examples in a split."""

    near_duplicates: str = setting(
        "apart",
        "near-duplicates among the {examples}: kept in the same split, or anywhere, with a warning",
        choices=("apart", "anywhere"),
    )


@dataclass(frozen=True)
@with_defaults(help={"split_seed": "seed of that split, and of --limit"})
class LimitedFiles(Files):
    """Settings of files with a limit on the number of examples."""

    limit: int | None = setting(
        None, "maximum number of {examples}, drawn at random", kind=int, at_least=1
    )


@dataclass(frozen=True)
class FileFormat(Settings):
    """Settings of the format of the files."""

    format: str = setting("auto", "format of the files", choices=FORMATS, steps=READ)


@dataclass(frozen=True)
class Tables(FileFormat):
    """Settings of files that may be tables."""

    delimiter: str = setting(
        "", "csv, tsv: character between columns; if empty, inferred from their names",
        check=check_delimiter, steps=READ,
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(
    help={"delimiter": "csv: character between columns; if empty, inferred from their names"}
)
class ImageFiles(Tables):
    """Settings of files that name images."""

    image_dir: str = setting(
        "", "folder of the images, if it is not the folder of the file", shapes_result=False,
        steps=READ, path="folder",
    )  # fmt: skip
    dev_image_dir: str = setting(
        "",
        "folder of the images of --dev, if it differs",
        shapes_result=False,
        path="folder",
    )
    image: str = setting("image", "csv: column of the images", steps=READ)
    cache_dtype: str = setting(
        "float16", "dtype of the stored regions of an encoder that is not trained",
        choices=("float16", "float32"),
    )  # fmt: skip


@dataclass(frozen=True)
class Pieces(Settings):
    """Settings of the tokenizer of a generating model."""

    tokenizer: str = setting("byte_pair", "kind of tokenizer", choices=tuple(PIECES))


@dataclass(frozen=True)
class RunningTexts(Settings):
    """Settings of running text: plain files, or the texts of JSON lines or Parquet."""

    text: str = setting("", "{texts}", shapes_result=False, path="examples")
    key: str = setting("text", "JSON key, or column, of the texts", steps=READ)


@dataclass(frozen=True)
class HeldOutShares(Settings):
    """Settings of the fractions of held-out examples."""

    dev_share: float = setting(
        0.05, "share of the {examples} that determines the best weights", at_least=0, below=1,
        steps=READ,
    )  # fmt: skip
    test_share: float = setting(
        0.1,
        "share of the {examples} that is held out for the test",
        at_least=0,
        below=1,
        steps=READ,
    )
