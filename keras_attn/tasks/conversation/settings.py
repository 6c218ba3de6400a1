"""The settings of conversation: its data, training, use and test."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from keras_attn.generation.sampling import SAMPLING, check_sampling
from keras_attn.settings import Settings, setting
from keras_attn.tasks.training_settings import TrainingSettings

_READ = ("fit", "evaluate")
FORMATS = ("auto", "json_lines", "dailydialog", "chitchat")


@dataclass(frozen=True)
class ConversationData(Settings):
    """Which dialogues are read, how they are split, and what is read of the turns so far.

    Example:

    >>> ConversationData(train="talks.jsonl").max_turns
    4
    """

    train: str = setting(
        "", "file of dialogues to learn from; evaluate takes its held-out part, or --data, and "
        "draws the baselines from the rest", required=True, shapes_result=False, steps=_READ,
    )  # fmt: skip
    dev: str = setting(
        "", "file of dialogues to choose the best weights by, instead of a part of --train",
        shapes_result=False,
    )  # fmt: skip
    dev_share: float = setting(
        0.05, "share of the dialogues that chooses the best weights", at_least=0, below=1,
        steps=_READ,
    )  # fmt: skip
    test_share: float = setting(
        0.1, "share of the dialogues that is left for the test", at_least=0, below=1, steps=_READ
    )
    split_seed: int = setting(0, "seed of these splits", at_least=0, steps=_READ)
    format: str = setting("auto", "format of the files", choices=FORMATS, steps=_READ)
    on_error: str = setting(
        "error", "what to do with a bad dialogue", choices=("error", "skip"), steps=_READ
    )
    max_characters: int = setting(
        10_000, "largest number of characters of a turn; dialogues with a longer one are bad",
        at_least=1, steps=_READ,
    )  # fmt: skip
    speaker: str = setting(
        "", "speaker whose turns are the answers; those of all if empty", steps=_READ
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
class ConversationTraining(TrainingSettings):
    """How answers are learnt. The help texts say what each setting does.

    Example:

    >>> ConversationTraining(epochs=3).tokens_per_batch
    4096
    """

    tokens_per_batch: int = setting(
        4096, "tokens of a batch, with padding; of an encoder-decoder on its longer side",
        at_least=1,
    )  # fmt: skip
    label_smoothing: float = setting(
        0.0, "share of the probability spread over the vocabulary", at_least=0, below=1
    )
    empty_contexts: float = setting(
        0.0, "share of the answers that is also learnt without any turn, for "
        "--mutual-information", at_least=0, below=1,
    )  # fmt: skip


@dataclass(frozen=True)
class ConversationUse(Settings):
    """How answers are found. The help texts say what each setting does.

    Example:

    >>> ConversationUse(search="sample", top_p=0.9).temperature
    1.0
    """

    search: str = setting(
        "beam", "look for the most probable answer, or draw one at random",
        choices=("beam", "sample"),
    )  # fmt: skip
    beams: int = setting(4, "beam: width of the search; 1 is greedy", at_least=1)
    alpha: float = setting(1.0, "beam: exponent of the length penalty")
    mutual_information: float = setting(
        0.0, "beam: weight of the answer's probability without the turns, which is taken from "
        "that with them, so that answers that fit everything come less often; of models that "
        "learnt with --empty-contexts", at_least=0,
    )  # fmt: skip
    temperature: float = setting(1.0, "sample: below 1 more sober, above 1 wilder", above=0)
    top_k: int | None = setting(
        None, "sample: number of most probable tokens that may come", kind=int, at_least=1
    )
    top_p: float | None = setting(
        None, "sample: total probability of the tokens that may come", kind=float, above=0
    )
    min_p: float | None = setting(
        None, "sample: smallest probability that may come, as a share of the greatest",
        kind=float, at_least=0, below=1,
    )  # fmt: skip
    repetition_penalty: float = setting(
        1.0, "sample: above 1, tokens that were there come less often", above=0
    )
    no_repeat_ngram_size: int = setting(
        0, "sample: length of a sequence of tokens that never comes twice; 0 allows all",
        at_least=0,
    )  # fmt: skip
    seed: int = setting(
        0, "sample: seed; the same seed and turns give the same answer", at_least=0, below=2**31
    )
    batch_size: int = setting(
        64, "conversations computed at a time", at_least=1, steps=("predict", "evaluate", "export")
    )

    def __post_init__(self):
        super().__post_init__()
        check_sampling(**self.sampling())
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

    def sampling(self) -> dict[str, float | None]:
        """Returns the arguments of `keras_attn.generation.sample`."""
        return {name: getattr(self, name) for name in SAMPLING}


@dataclass(frozen=True)
class ConversationTest(Settings):
    """What a conversation model is measured on. The help texts say what each setting does.

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
