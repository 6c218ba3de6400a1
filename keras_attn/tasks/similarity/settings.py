"""The settings of similarity: its data, use and test."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.explain.methods import METHODS
from keras_attn.records.tables import check_delimiter
from keras_attn.settings import Settings, setting
from keras_attn.tasks.encoder_task import EncoderData

KINDS = ("bi", "cross")
POOLINGS = ("average", "first")
FORMATS = ("auto", "csv", "tsv", "json_lines")
_READ = ("fit", "evaluate")


@dataclass(frozen=True)
class SimilarityData(EncoderData):
    """Which pairs are read, and the encoder. The help texts say what each setting does.

    Example:

    >>> SimilarityData(train="pairs.csv").kind
    'bi'
    """

    train: str = setting(
        "", "pairs of texts with scores to learn from", required=True, shapes_result=False
    )
    dev: str = setting(
        "", "pairs by which the best weights are chosen, instead of a part of --train",
        shapes_result=False,
    )  # fmt: skip
    dev_share: float = setting(
        0.1, "share of the pairs that is held out, without --dev", above=0, below=1
    )
    near_duplicates: str = setting(
        "apart",
        "pairs of texts that are nearly the same: kept on one side of that split, or anywhere, "
        "with a warning",
        choices=("apart", "anywhere"),
    )
    split_seed: int = setting(0, "seed of that split", at_least=0)
    first: str = setting(
        "sentence1", "column, or JSON key, of the first texts; or its number from 0, if the file "
        "has no header",
        steps=_READ,
    )  # fmt: skip
    second: str = setting("sentence2", "the same of the second texts", steps=_READ)
    score: str = setting("score", "the same of the scores", steps=_READ)
    format: str = setting("auto", "format of the files", choices=FORMATS, steps=_READ)
    delimiter: str = setting(
        "", "csv, tsv: character between columns; if empty, a comma (tab in tsv)",
        check=check_delimiter, steps=_READ,
    )  # fmt: skip
    on_error: str = setting(
        "error", "what to do at a bad line", choices=("error", "skip"), steps=_READ
    )
    kind: str = setting(
        "bi", "bi reads each text alone and compares their vectors; cross reads both at once",
        choices=KINDS,
    )  # fmt: skip
    pooling: str | None = setting(
        None, "bi: which states of a text become its vector; if none, average", kind=str,
        choices=POOLINGS,
    )  # fmt: skip
    lowest: float | None = setting(
        None, "score of texts that have nothing in common; if none, the lowest of --train",
        kind=float,
    )  # fmt: skip
    highest: float | None = setting(
        None, "score of texts that say the same; if none, the highest of --train", kind=float
    )


@dataclass(frozen=True)
class SimilarityUse(Settings):
    """How similarity is used. The help texts say what each setting does.

    Example:

    >>> SimilarityUse().batch_size
    64
    """

    batch_size: int = setting(
        64,
        "texts computed at a time",
        at_least=1,
        steps=("predict", "explain", "evaluate", "embed", "export"),
    )
    normalize: bool = setting(False, "divide vectors by their lengths", steps=("embed", "export"))
    method: str = setting(
        "gradient", "what the page shows: both texts with the words that made them similar, or "
        "what each head looks at",
        choices=METHODS, steps=("explain",),
    )  # fmt: skip


@dataclass(frozen=True)
class SimilarityTest(Settings):
    """What similarity is measured on. The help texts say what each setting does.

    Example:

    >>> SimilarityTest(data="test.csv").num_bootstrap
    1000
    """

    data: str = setting("", "pairs with scores, as for fit", required=True)
    num_bootstrap: int = setting(1000, "samples for the intervals; 0 computes none", at_least=0)
