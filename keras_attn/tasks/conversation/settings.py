"""Settings of conversation: data, training, use and test."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from keras_attn.generation.sampling import SAMPLING
from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.families.data_settings import (
    READ,
    BadLines,
    FileFormat,
    HeldOut,
    HeldOutShares,
    TrainingFile,
)
from keras_attn.tasks.families.training_settings import TokenBatches
from keras_attn.tasks.families.use_settings import Beams, SamplingUse

FORMATS = ("auto", "json_lines", "dailydialog", "chitchat")


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "file of dialogues to learn from; evaluate takes its held-out part, or --data, "
        "and draws the baselines from the rest",
        "split_seed": "seed of these splits",
        "on_error": "what to do with a bad dialogue",
    },
    words={"examples": "dialogues"},
    steps=dict.fromkeys(("train", "split_seed"), READ),
    choices={"format": FORMATS},
)
class ConversationData(FileFormat, BadLines, HeldOutShares, HeldOut, TrainingFile):
    """The dialogues that are read, their split, and what is read of the turns so far.

    Example:

    >>> ConversationData(train="talks.jsonl").max_turns
    4
    """

    max_characters: int = setting(
        10_000, "largest number of characters of a turn; dialogues with a longer one are bad",
        at_least=1, steps=READ,
    )  # fmt: skip
    speaker: str = setting(
        "", "speaker whose turns are the answers; those of all if empty", steps=READ
    )
    max_turns: int = setting(
        4, "largest number of turns before an answer that are read", at_least=1
    )
    max_context: int = setting(
        128, "largest number of tokens of these turns, with their marks; older ones are cut off",
        at_least=2,
    )  # fmt: skip
    max_answer: int = setting(
        48, "largest number of tokens of an answer, with its end; longer ones are not learnt",
        at_least=2,
    )  # fmt: skip
    vocabulary_size: int = setting(
        8000, "largest number of byte pairs; with 261 each byte is a token", at_least=261
    )
    split_digits: bool = setting(
        True, "make each digit a token of its own, so that new numbers can be repeated"
    )


@dataclass(frozen=True)
@with_defaults(
    label_smoothing=0.0,
    words={
        "tokens": "tokens of a batch, with padding; of an encoder-decoder on its longer side",
    },
)
class ConversationTraining(TokenBatches):
    """Settings of the training of a conversation model.

    Example:

    >>> ConversationTraining(epochs=3).tokens_per_batch
    4096
    """

    empty_contexts: float = setting(
        0.0, "share of the answers that is also learnt without any turn, for "
        "--mutual-information", at_least=0, below=1,
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(
    help={"seed": "sample: seed; the same seed and turns give the same answer"},
    words={"rows": "conversations", "beam": "beam: ", "sample": "sample: "},
)
class ConversationUse(SamplingUse, Beams):
    """Settings of the search for answers.

    Example:

    >>> ConversationUse(search="sample", top_p=0.9).temperature
    1.0
    """

    search: str = setting(
        "beam", "look for the most probable answer, or draw one at random",
        choices=("beam", "sample"),
    )  # fmt: skip
    mutual_information: float = setting(
        0.0, "beam: weight of the answer's probability without the turns, which is taken from "
        "that with them, so that answers that fit everything come less often; of models that "
        "learnt with --empty-contexts", at_least=0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        default = {field.name: field.default for field in dataclasses.fields(self)}
        of_beam, of_sample = ("beams", "alpha", "mutual_information"), (*SAMPLING, "seed")
        others, other = (of_sample, "sample") if self.search == "beam" else (of_beam, "beam")
        given = [name for name in others if getattr(self, name) != default[name]]
        if given:
            raise ValueError(
                f"`{given[0]}` belongs to search={other!r}. Received: "
                f"{given[0]}={getattr(self, given[0])!r} with search={self.search!r}."
            )
        if self.mutual_information and self.beams == 1:
            raise ValueError(
                "`mutual_information` chooses among the answers of several beams. Received: "
                f"mutual_information={self.mutual_information} with beams=1."
            )


@dataclass(frozen=True)
class ConversationTest(Settings):
    """Settings of the evaluation of a conversation model.

    Example:

    >>> ConversationTest(vectors="glove.txt").data
    ''
    """

    data: str = setting("", "file of dialogues, instead of the held-out part of --train")
    limit: int | None = setting(
        None, "number of answers to measure on, drawn with --split-seed; all if none", kind=int,
        at_least=1,
    )  # fmt: skip
    vectors: str = setting(
        "", "file of word vectors for the embedding average: GloVe, word2vec or NumPy; without it "
        "that score is left out",
    )  # fmt: skip
