"""The interface of the tokenizers."""

from collections.abc import Sequence
from typing import Any, Protocol

from keras_attn.hints import TensorLike


class Tokenizer(Protocol):
    """The interface of all tokenizers of this package."""

    @property
    def vocabulary_size(self) -> int:
        """Number of ids."""

    @property
    def pad_id(self) -> int:
        """Id of padding."""

    @property
    def start_id(self) -> int:
        """Id of the token that begins a text."""

    @property
    def end_id(self) -> int:
        """Id of the token that ends a text."""

    def encode(
        self, texts: str | Sequence[str], add_start: bool = False, add_end: bool = False
    ) -> Any:
        """Converts a text to a list of ids, or several texts to a list of lists of ids."""

    def decode(self, ids: TensorLike) -> Any:
        """Converts a row of ids to a text, or nested rows to nested lists of texts."""

    def tokens(self, ids: TensorLike) -> Any:
        """Converts each id to a readable piece of text."""

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as JSON-compatible values."""

    def to_graph(self) -> Any:
        """Returns the tokenizer as a `tf.Module` of TensorFlow ops."""


class OffsetTokenizer(Tokenizer, Protocol):
    """The interface of tokenizers that return the character span of each token."""

    @property
    def unknown_id(self) -> int | None:
        """Id of the unknown token, or None."""

    @property
    def vocabulary(self) -> Sequence[str]:
        """The tokens in the order of their ids."""

    def encode_with_offsets(
        self, texts: str | Sequence[str], add_start: bool = False, add_end: bool = False
    ) -> tuple[Any, Any]:
        """Returns the ids of `encode`, and the character span `(start, end)` of each id."""
