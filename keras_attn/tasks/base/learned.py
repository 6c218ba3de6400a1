"""Values that a task learned from its examples, and their serialization."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import keras

from keras_attn.models import ImageEncoder
from keras_attn.text import (
    BytePairTokenizer,
    CharacterTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
)

Tokenizer = (
    BytePairTokenizer
    | CharacterTokenizer
    | SentencePieceTokenizer
    | WordPieceTokenizer
    | WordTokenizer
)
Value = Tokenizer | ImageEncoder | tuple[str, ...] | str | float | None
"""A field of `Learned`."""
_TOKENIZERS: dict[str, type[Tokenizer]] = {
    "byte_pair": BytePairTokenizer,
    "characters": CharacterTokenizer,
    "sentence_piece": SentencePieceTokenizer,
    "word_piece": WordPieceTokenizer,
    "words": WordTokenizer,
}


@dataclasses.dataclass(frozen=True)
class Learned:
    """Base class of the values that a task learned from examples, such as tokenizer and labels.

    The fields of a subclass are tokenizers, image encoders, strings, numbers, booleans, None, and
    tuples of strings; a list becomes a tuple. A task file stores the fields together with the
    settings of the task. A subclass can extend `__post_init__` to check its fields; `tokenizers`
    are the allowed classes of the fields `tokenizer` and `target_tokenizer`.

    Raises:
        TypeError: If the class of a tokenizer is not allowed.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Labels(Learned):
    ...     labels: tuple[str, ...]
    >>> Labels(["no", "yes"]).to_config(), Labels.from_config({"labels": ["no", "yes"]})
    ({'labels': ['no', 'yes']}, Labels(labels=('no', 'yes')))
    """

    tokenizers: ClassVar[tuple[type, ...]] = ()
    """The allowed classes of `tokenizer` and `target_tokenizer`; all if empty."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))
            if field.name in ("tokenizer", "target_tokenizer") and value is not field.default:
                self._check_tokenizer(field.name, value)

    def _check_tokenizer(self, name: str, value: object) -> None:
        if self.tokenizers and not isinstance(value, self.tokenizers):
            *others, last = (f"a {kind.__name__}" for kind in self.tokenizers)
            kinds = f"{', '.join(others)} or {last}" if others else last
            raise TypeError(
                f"`{name}` must be {kinds}. Received: {type(value).__name__}. Create a "
                f"tokenizer with {self.tokenizers[0].__name__}.train(texts, ...)."
            )

    def to_config(self) -> dict[str, Any]:
        """Returns the fields as a dict of JSON-safe values, keyed by field name."""
        return {
            field.name: _packed(getattr(self, field.name)) for field in dataclasses.fields(self)
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Creates an instance from the result of `to_config`.

        Args:
            config: The result of `to_config`. Fields with a default may be missing.

        Raises:
            KeyError: If a field without a default is missing.
        """
        return cls(
            **{
                field.name: unpacked(config[field.name])
                for field in dataclasses.fields(cls)
                if field.name in config or field.default is dataclasses.MISSING
            }
        )


def _packed(value: Value) -> Any:
    if isinstance(value, Tokenizer):
        name = next(name for name, kind in _TOKENIZERS.items() if isinstance(value, kind))
        return {"tokenizer": name, "config": value.get_config()}
    if isinstance(value, ImageEncoder):
        return {"encoder": keras.saving.serialize_keras_object(value)}
    return list(value) if isinstance(value, tuple) else value


def unpacked(value: Any) -> Any:
    """Returns the field that a JSON-safe value of `Learned.to_config` represents."""
    if isinstance(value, Mapping) and "tokenizer" in value:
        return _TOKENIZERS[value["tokenizer"]].from_config(value["config"])
    if isinstance(value, Mapping):
        return keras.saving.deserialize_keras_object(value["encoder"], safe_mode=True)
    return tuple(value) if isinstance(value, list) else value
