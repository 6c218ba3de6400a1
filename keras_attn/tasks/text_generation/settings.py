"""Settings of text generation: data, training, use and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_attn.generation.sampling import SAMPLING
from keras_attn.settings import RunDefault, Settings, WrongUse, setting, with_defaults
from keras_attn.tasks.base.backbones import BackboneStart
from keras_attn.tasks.base.checks import check_count
from keras_attn.tasks.base.fine_tuning import FineTuning
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.data_settings import READ, HeldOutShares
from keras_attn.tasks.families.use_settings import SamplingUse
from keras_attn.text import BytePairTokenizer, CharacterTokenizer
from keras_attn.text.pieces import checked_stops

TOKENIZERS = {"characters": CharacterTokenizer, "byte_pair": BytePairTokenizer}
"""The tokenizers of a text generator by their names."""
BYTE_PAIRS = 2000
"""How many byte pairs there are at most if nothing is said."""
SEQUENCE_LENGTH = 256
"""Tokens of a window if nothing is said."""
_SAMPLING = ("predict", "export")


@dataclass(frozen=True)
@with_defaults(
    help={
        "dev_share": "share of the text, before the test, that is scored after each epoch",
        "test_share": "share at the end of the text that is left for the test",
    },
    words={"backbones": "text generator", "tokens": "tokenizer"},
)
class TextGenerationData(BackboneStart, HeldOutShares):
    """The text that is read, its split, and its windows.

    Example:

    >>> TextGenerationData().dev_share
    0.05
    """

    text: str = setting(
        "", "text file; Shakespeare's works if empty", shapes_result=False, steps=READ
    )
    dev: str = setting(
        "", "text file to score after each epoch, instead of a part of --text",
        shapes_result=False, steps=READ,
    )  # fmt: skip
    tokenizer: str = setting(
        "characters", "what a token is, without --backbone: a character, or a byte pair",
        choices=tuple(TOKENIZERS),
    )  # fmt: skip
    vocabulary_size: int | None = setting(
        None,
        f"largest number of tokens: the commonest characters, with 4 special ones, all if not "
        f"given; or byte pairs, {BYTE_PAIRS} if not given", kind=int, at_least=5,
    )  # fmt: skip
    sequence_length: int | None = setting(
        None, f"tokens of a window; if not given, those of --backbone, or {SEQUENCE_LENGTH}",
        kind=int, at_least=2,
    )  # fmt: skip
    special_tokens: bool = setting(
        False, "read special tokens that are written in the text as tokens: those that --backbone "
        "has, or, without one, such as <|endoftext|> and </s> as the end of a text",
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(10, backbone=3),
    learning_rate=RunDefault(2e-3, lora=1e-3, backbone=1e-4),
    batch_size=RunDefault(64, backbone=8),
    checkpoint_steps=200,
    words={"rows": "windows"},
)
class TextGenerationTraining(FineTuning):
    """Settings of the training of a text generator.

    Example:

    >>> TextGenerationTraining().decided().learning_rate
    0.002
    """


@dataclass(frozen=True)
@with_defaults(
    temperature=0.8,
    words={"rows": "texts, or windows,", "sample": ""},
    steps={**dict.fromkeys(SAMPLING, _SAMPLING), "seed": ("predict",)},
)
class TextGenerationUse(SamplingUse):
    """Settings of sampled texts.

    Example:

    >>> TextGenerationUse(top_k=5).temperature
    0.8
    """

    num_characters: int = setting(
        500,
        "number of new tokens, such as characters, of each text",
        at_least=1,
        steps=("predict",),
    )
    stop: tuple[str, ...] = setting(
        (), "text at which a text ends, which is not written; may be repeated", kind=tuple,
        steps=_SAMPLING,
    )  # fmt: skip
    end_token: bool = setting(
        True, "end a text at the end token, if the model knows one, as GPT-2 does",
        steps=_SAMPLING,
    )  # fmt: skip
    min_length: int = setting(
        0, "number of new tokens before which a text has no end token", at_least=0,
        steps=_SAMPLING,
    )  # fmt: skip
    beams: int | None = setting(
        None, "width of a beam search for the most probable text, instead of a sample", kind=int,
        at_least=1, steps=_SAMPLING,
    )  # fmt: skip
    max_num_characters: int = setting(
        10_000, "largest number of new tokens of each text that a request to the SavedModel may "
        "ask for", at_least=1, steps=("export",),
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "stop", checked_stops(self.stop))
        check_beams(self.beams, self.sampling())

    def writing(self) -> dict[str, Any]:
        """Returns the arguments of `TextGenerator.generate` that an export has."""
        names = ("stop", "end_token", "min_length", "beams")
        return {**self.sampling(), **{name: getattr(self, name) for name in names}}


def check_beams(beams: int | None, sampling: Mapping[str, object]) -> None:
    """Refuses a beam search with settings of a sample.

    Args:
        beams: Width of the beam search, or None.
        sampling: Arguments of `keras_attn.generation.sample`.

    Raises:
        ValueError: If the width is not a positive integer, or a setting is not its default.

    Example:

    >>> check_beams(4, {"temperature": 0.8, "top_k": 5})
    Traceback (most recent call last):
        ...
    ValueError: `beams` searches for the most probable text, without a sample. Received: top_k=5. \
Leave one of them out.
    """
    if beams is None:
        return
    check_count("beams", beams)
    given = [f"{n}={x!r}" for n, x in sampling.items() if x != getattr(TextGenerationUse, n)]
    if given:
        raise ValueError(
            "`beams` searches for the most probable text, without a sample. Received: "
            f"{', '.join(given)}. Leave one of them out."
        )


@dataclass(frozen=True)
class TextGenerationTest(Settings):
    """Settings of the evaluation of a text generator.

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


@dataclass(frozen=True)
class Prompts(Settings):
    """What `predict` of the command continues, and how it shows the texts."""

    prompt: tuple[str, ...] = setting((), "beginning of a text; may be repeated", kind=tuple)
    count: int = setting(1, "number of texts for each prompt", at_least=1)
    stream: bool | None = setting(
        None, "show texts while they are written, one after the other; if none, only one text in a "
        "terminal",
        kind=bool,
    )  # fmt: skip


def check_prompts(files: Sequence[Path], predict: Prompts) -> None:
    """Refuses prompts of two kinds."""
    if predict.prompt and files:
        raise WrongUse(f"Give --prompt or FILES. Received: both, such as {files[0]}.")
