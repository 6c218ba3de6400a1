"""Training settings that several tasks share.

Help texts have words in braces, which a task replaces; see `keras_attn.settings.with_defaults`.
"""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.base.training_settings import TrainingSettings


@dataclass(frozen=True)
class BatchTraining(TrainingSettings):
    """Settings of training with batches of a fixed number of rows."""

    batch_size: int = setting(32, "{rows} of a batch", at_least=1)


@dataclass(frozen=True)
class LabelSmoothing(Settings):
    """Settings of label smoothing."""

    label_smoothing: float = setting(
        0.1, "share of the target's probability spread over the {classes}", at_least=0, below=1
    )


@dataclass(frozen=True)
@with_defaults(words={"classes": "vocabulary"})
class TokenBatches(LabelSmoothing, TrainingSettings):
    """Settings of training with batches that each have about the same number of tokens."""

    tokens_per_batch: int = setting(4096, "{tokens}", at_least=1)


@dataclass(frozen=True)
class RegionCache(Settings):
    """Settings of the folder that stores regions of images."""

    cache_dir: str = setting(
        "", "folder for the regions of an encoder that is not trained; if empty, a folder in "
            "the cache",
        shapes_result=False,
    )  # fmt: skip
