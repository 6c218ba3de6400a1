"""The settings of text generation: its data, training, use and test."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.generation.sampling import check_sampling
from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.training_settings import TrainingSettings

_TEXT = ("fit", "evaluate")
_SAMPLING = ("predict", "export")


@dataclass(frozen=True)
class TextGenerationData(Settings):
    """Which text is read, how it is split, and how it becomes windows.

    Example:

    >>> TextGenerationData().dev_share
    0.05
    """

    text: str = setting(
        "", "text file; Shakespeare's works if empty", shapes_result=False, steps=_TEXT
    )
    dev: str = setting(
        "", "text file to score after each epoch, instead of a part of --text", shapes_result=False
    )
    dev_share: float = setting(
        0.05, "share of the text, before the test, that is scored after each epoch", at_least=0,
        below=1, steps=_TEXT,
    )  # fmt: skip
    test_share: float = setting(
        0.1, "share at the end of the text that is left for the test", at_least=0, below=1,
        steps=_TEXT,
    )  # fmt: skip
    vocabulary_size: int | None = setting(
        None, "largest number of characters, the commonest, with 4 special ones", kind=int,
        at_least=5,
    )  # fmt: skip
    sequence_length: int = setting(256, "characters of a window", at_least=2)


@dataclass(frozen=True)
@with_defaults(TrainingSettings, learning_rate=2e-3, checkpoint_steps=200)
class TextGenerationTraining(TrainingSettings):
    """How a text generator is trained. The help texts say what each setting does.

    Example:

    >>> TextGenerationTraining(epochs=3).learning_rate
    0.002
    """

    batch_size: int = setting(64, "windows of a batch", at_least=1)


@dataclass(frozen=True)
class TextGenerationUse(Settings):
    """How texts are sampled. The help texts say what each setting does.

    Example:

    >>> TextGenerationUse(top_k=5).temperature
    0.8
    """

    num_characters: int = setting(
        500, "number of new characters of each text", at_least=1, steps=("predict",)
    )
    temperature: float = setting(
        0.8, "temperature: below 1 more sober, above 1 wilder", above=0, steps=_SAMPLING
    )
    top_k: int | None = setting(
        None, "number of most probable characters that may come", kind=int, at_least=1,
        steps=_SAMPLING,
    )  # fmt: skip
    top_p: float | None = setting(
        None, "total probability of the characters that may come", kind=float, above=0,
        steps=_SAMPLING,
    )  # fmt: skip
    min_p: float | None = setting(
        None, "smallest probability that may come, as a share of the greatest", kind=float,
        at_least=0, below=1, steps=_SAMPLING,
    )  # fmt: skip
    repetition_penalty: float = setting(
        1.0, "above 1, characters that were there come less often", above=0, steps=_SAMPLING
    )
    no_repeat_ngram_size: int = setting(
        0, "length of a sequence of characters that never comes twice; 0 allows all", at_least=0,
        steps=_SAMPLING,
    )  # fmt: skip
    seed: int = setting(0, "seed of the samples", at_least=0, steps=("predict",))
    batch_size: int = setting(
        64, "texts, or windows, computed at a time", at_least=1, steps=("predict", "evaluate")
    )

    def __post_init__(self):
        super().__post_init__()
        check_sampling(**self.sampling())

    def sampling(self) -> dict[str, float | None]:
        """Returns the arguments of `keras_attn.generation.sample`."""
        names = (
            "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "no_repeat_ngram_size"
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class TextGenerationTest(Settings):
    """What a text generator is measured on. The help texts say what each setting does.

    Example:

    >>> TextGenerationTest().split
    'test'
    """

    split: str = setting(
        "test", "which part of the text, by the shares given to `fit`",
        choices=("test", "dev", "all"),
    )  # fmt: skip
    context: int | None = setting(
        None, "characters before each one that it is predicted from at least", kind=int, at_least=0
    )
