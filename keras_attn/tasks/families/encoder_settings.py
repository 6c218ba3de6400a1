"""Settings and learned values of tasks on an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, get_args

from keras_attn.settings import setting, with_defaults
from keras_attn.tasks.base.backbones import BackboneData, refuse_new_tokenizer
from keras_attn.tasks.base.learned import Learned
from keras_attn.text import (
    BytePairTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
)

MAX_LENGTH = 128
"""Maximum number of ids of a row by default."""
EncoderTokenizer = WordPieceTokenizer | BytePairTokenizer | SentencePieceTokenizer | WordTokenizer


ENCODER_PIECES = ("word_piece", "sentence_piece")
"""Names of the tokenizers that can be trained for a new encoder."""


class HasRows(Protocol):
    """Settings of the data of a task whose texts become rows of an encoder."""

    @property
    def max_length(self) -> int | None:
        """Maximum number of ids of a row; None stands for `MAX_LENGTH`."""


@dataclass(frozen=True)
@with_defaults(words={"when": "bilstm: ", "then": "; tokens are whole words then"})
class EncoderData(BackboneData):
    """Data settings of a task with an encoder: the backbone, the tokenizer and the row length."""

    tokenizer: str = setting(
        "word_piece", "kind of tokenizer, without --backbone", choices=ENCODER_PIECES
    )
    lowercase: bool = setting(
        True, "word_piece: lower-case letters and strip accents, without --backbone"
    )
    max_length: int = setting(MAX_LENGTH, "largest number of tokens of a row", at_least=5)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_new_tokenizer(self, "tokenizer", "vocabulary_size", "lowercase")
        if self.tokenizer != "word_piece" and not self.lowercase:
            raise ValueError(
                "`lowercase` is only used with tokenizer='word_piece'. Received: "
                f"lowercase=False with tokenizer={self.tokenizer!r}. Leave it out."
            )


@dataclass(frozen=True)
class EncoderLearned(Learned):
    """Learned values of a task with an encoder: its tokenizer.

    Raises:
        TypeError: If the class of the tokenizer is not supported.
        ValueError: If the tokenizer normalizes texts.
    """

    tokenizers: ClassVar[tuple[type, ...]] = get_args(EncoderTokenizer)
    tokenizer: EncoderTokenizer

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self.tokenizer, "normalize", False):
            raise ValueError(
                "`tokenizer` must keep texts as they are, so that tokens have positions in them. "
                "Received: a BytePairTokenizer with normalize=True. Train one with "
                "normalize=False."
            )
