"""Settings of predictions, exports and evaluations.

Help texts have words in braces, which a task replaces; see `keras_attn.settings.with_defaults`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from keras_attn.explain.methods import DEFAULT, METHODS
from keras_attn.generation.decoders import integer
from keras_attn.generation.ranking import PENALTY_KINDS, check_ranking
from keras_attn.generation.rules import check_single
from keras_attn.generation.sampling import SAMPLING, check_sampling
from keras_attn.images.loading import MAX_PIXELS
from keras_attn.settings import Settings, setting, with_defaults


@dataclass(frozen=True)
class BatchUse(Settings):
    """Settings of the number of inputs that are computed at once."""

    batch_size: int = setting(
        64,
        "number of {rows} that are computed at once",
        at_least=1,
        steps=("predict", "evaluate", "export"),
    )


@dataclass(frozen=True)
class PageUse(BatchUse):
    """Settings of the page that `explain` writes."""

    method: str = setting(
        DEFAULT, "what the page shows: {shown}", choices=METHODS, steps=("explain",)
    )


@dataclass(frozen=True)
@with_defaults(steps={"batch_size": ("predict", "evaluate", "explain", "export")})
class WeighedUse(BatchUse):
    """Settings of the weights of tokens on the page of `explain`."""

    method: str | None = setting(
        None, "what the page shows: {shown}", kind=str, choices=METHODS, steps=("explain",)
    )


@dataclass(frozen=True)
class ClassUse(WeighedUse):
    """Settings of predictions and explanations of classes."""

    label: str | None = setting(
        None, "class whose gradients are computed; the most probable one if none", kind=str,
        steps=("explain",),
    )  # fmt: skip


@dataclass(frozen=True)
class ImageUse(Settings):
    """Settings of the limit on the size of images in a SavedModel."""

    max_pixels: int = setting(
        MAX_PIXELS, "maximum number of pixels of an image that the SavedModel decodes",
        at_least=1, steps=("export",),
    )  # fmt: skip


@dataclass(frozen=True)
class TokenRulesUse(Settings):
    """Settings of rules for generated tokens; see `keras_attn.generation.beam_search`."""

    min_length: int = setting(
        0, "minimum number of new tokens, including the end token", at_least=0
    )
    no_repeat_ngram_size: int = setting(
        0, "size of n-grams that may not repeat; 0 allows all", at_least=0
    )
    suppressed_ids: tuple[int, ...] = setting(
        (), "id of a token that is never generated; may be repeated", kind=tuple
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_single(self.suppressed_ids)
        ids = tuple(int(i) if str(i).isdecimal() else i for i in self.suppressed_ids)
        for i in ids:
            integer("suppressed_ids", i, 0)
        object.__setattr__(self, "suppressed_ids", ids)


@dataclass(frozen=True)
class AnswerRulesUse(TokenRulesUse):
    """Settings of rules for the tokens of the target of an encoder-decoder, or of an answer."""

    forced_first_id: int | None = setting(
        None, "id of the first token of every result, such as a language mark", kind=int,
        at_least=0,
    )  # fmt: skip
    forced_last_id: int | None = setting(
        None, "id of the token that is forced at the largest length, often the end token", kind=int,
        at_least=0,
    )  # fmt: skip
    beginning: tuple[str, ...] = setting(
        (), "text that every result begins with; or several, one for each input", kind=tuple
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        wrong = [x for x in self.beginning if not isinstance(x, str)]
        if wrong:
            raise TypeError(
                "`beginning` must be a string, or a list with a string for each input. Received: "
                f"{wrong[0]!r}, of type {type(wrong[0]).__name__}."
            )

    def of_inputs(self, numbers: Iterable[int]) -> Self:
        """Returns the settings for some of the inputs. If `beginning` has a string for each input,
        only the strings of these inputs are kept.

        Args:
            numbers: Indices of the inputs.
        """
        if len(self.beginning) < 2:
            return self
        return dataclasses.replace(self, beginning=tuple(self.beginning[i] for i in numbers))


@dataclass(frozen=True)
class RankingUse(Settings):
    """Settings of a beam search: how sequences are ranked, and when the search stops."""

    alpha: float = setting(1.0, "{beam}exponent of the length penalty")
    length_penalty_kind: str = setting(
        "gnmt", "{beam}length penalty of n tokens: ((5 + n) / 6) ** alpha, or n ** alpha as in "
        "transformers and CTranslate2", choices=PENALTY_KINDS,
    )  # fmt: skip
    early_stopping: bool | str | None = setting(
        None, "{beam}when to stop, as in transformers: true, false or never; if none, finished "
        "results keep their place in the beam until no open one can overtake them", kind=object,
    )  # fmt: skip
    renormalize: bool = setting(
        False, "{beam}compute probabilities among the tokens that the rules allow, as CTranslate2 "
        "does",
    )  # fmt: skip

    def __post_init__(self) -> None:
        words = {"true": True, "false": False, "none": None}
        if isinstance(self.early_stopping, str):
            value = words.get(self.early_stopping, self.early_stopping)
            object.__setattr__(self, "early_stopping", value)
        super().__post_init__()
        check_ranking(self.length_penalty_kind, self.early_stopping)


def check_returned(num_return_sequences: int | None, beams: int | None) -> None:
    """Raises a ValueError if more results are requested than a beam search has."""
    if (num_return_sequences or 0) > (beams or 0):
        raise ValueError(
            "`num_return_sequences` must be at most `beams`. Received: "
            f"num_return_sequences={num_return_sequences}, beams={beams}."
        )


def refuse_given(settings: Settings, names: Iterable[str], owner: str, chosen: str) -> None:
    """Raises a ValueError if a setting of another decoding method differs from its default."""
    for name in names:
        value = getattr(settings, name)
        if value != getattr(type(settings), name):
            raise ValueError(
                f"`{name}` is only used with {owner}. Received: {name}={value!r} with "
                f"{chosen}. Leave one of them out."
            )


@dataclass(frozen=True)
class Beams(RankingUse, AnswerRulesUse):
    """Settings of a beam search for the target of an encoder-decoder or the answer to a prompt."""

    beams: int = setting(4, "{beam}width of the beam search; 1 is greedy", at_least=1)

    def ranking(self) -> dict[str, Any]:
        """Returns the arguments `length_penalty_kind`, `early_stopping` and `renormalize` of
        `keras_attn.generation.beam_search`, keyed by name."""
        names = ("length_penalty_kind", "early_stopping", "renormalize")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
@with_defaults(words={"beam": ""})
class BeamSearchUse(BatchUse, Beams):
    """Settings of a beam search whose SavedModel can return several results."""

    num_return_sequences: int | None = setting(
        None, "results in the signature `details`; all beams if none", kind=int,
        at_least=1, steps=("export",),
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        check_returned(self.num_return_sequences, self.beams)


@dataclass(frozen=True)
class TextSearchUse(BeamSearchUse):
    """Settings of a beam search for texts, which XLA may compile in the SavedModel."""

    xla: bool = setting(
        False, "let XLA compile the search in the SavedModel, once for each shape of a batch",
        steps=("export",),
    )  # fmt: skip


@dataclass(frozen=True)
class SamplingUse(BatchUse):
    """Settings of sampling: how tokens are drawn at random."""

    temperature: float = setting(
        1.0, "{sample}temperature; below 1 more predictable, above 1 more random", above=0
    )
    top_k: int | None = setting(
        None, "{sample}number of most probable tokens to choose from", kind=int, at_least=1
    )
    top_p: float | None = setting(
        None, "{sample}total probability of the tokens to choose from", kind=float, above=0
    )
    min_p: float | None = setting(
        None, "{sample}smallest probability of the tokens to choose from, as a share of the "
            "largest", kind=float,
        at_least=0, below=1,
    )  # fmt: skip
    repetition_penalty: float = setting(
        1.0, "{sample}penalty of tokens that already occurred, above 1; 1 for none", above=0
    )
    no_repeat_ngram_size: int = setting(
        0, "{sample}size of n-grams that may not repeat; 0 allows all", at_least=0
    )
    seed: int = setting(0, "{sample}seed of the samples", at_least=0, below=2**31)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sampling(**self.sampling())

    def sampling(self) -> dict[str, Any]:
        """Returns the sampling arguments of `keras_attn.generation.sample`, keyed by name."""
        return {name: getattr(self, name) for name in SAMPLING}


@dataclass(frozen=True)
class DataTest(Settings):
    """Settings of the file of examples of an evaluation."""

    data: str = setting("", "{examples}", required=True, path="examples")


@dataclass(frozen=True)
class BootstrapTest(DataTest):
    """Settings of an evaluation with confidence intervals."""

    num_bootstrap: int = setting(
        1000, "bootstrap samples for the confidence intervals; 0 for no intervals", at_least=0
    )


@dataclass(frozen=True)
class SplitTest(BootstrapTest):
    """Settings of an evaluation on a part of the data: test, development or training examples."""

    split: str = setting("test", "which part of {parts}", choices=("test", "dev", "train"))
