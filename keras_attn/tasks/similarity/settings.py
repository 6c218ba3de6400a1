"""Settings of similarity: data, use and test."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.settings import setting, with_defaults
from keras_attn.tasks.families.data_settings import (
    COLUMN_OR_NUMBER,
    Files,
    NearDuplicates,
    Tables,
    column,
)
from keras_attn.tasks.families.encoder_task import EncoderData
from keras_attn.tasks.families.use_settings import BootstrapTest, PageUse

KINDS = ("bi", "cross")
POOLINGS = ("average", "first")


@dataclass(frozen=True)
@with_defaults(
    help={"train": "pairs of texts with scores to learn from"}, words={"examples": "pairs"}
)
class SimilarityData(EncoderData, Tables, NearDuplicates, Files):
    """The pairs that are read, and the encoder.

    Example:

    >>> SimilarityData(train="pairs.csv").kind
    'bi'
    """

    first: str = column("sentence1", "first texts", COLUMN_OR_NUMBER)
    second: str = column("sentence2", "second texts", COLUMN_OR_NUMBER)
    score: str = column("score", "scores", COLUMN_OR_NUMBER)
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
@with_defaults(
    words={
        "rows": "texts",
        "shown": "both texts with the words that made them similar, or what each head looks at",
    },
    steps={"batch_size": ("predict", "explain", "evaluate", "embed", "export")},
)
class SimilarityUse(PageUse):
    """Settings of predictions, vectors, pages and SavedModels of similarity.

    Example:

    >>> SimilarityUse().batch_size
    64
    """

    normalize: bool = setting(False, "divide vectors by their lengths", steps=("embed", "export"))


@dataclass(frozen=True)
@with_defaults(words={"examples": "pairs with scores, as for fit"})
class SimilarityTest(BootstrapTest):
    """Settings of the evaluation of similarity.

    Example:

    >>> SimilarityTest(data="test.csv").num_bootstrap
    1000
    """
