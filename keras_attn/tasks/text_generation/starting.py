"""Language models that a text generator starts from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from keras_attn.models import LANGUAGE_MODELS, GptConfig
from keras_attn.settings import Choice, declared_fields
from keras_attn.tasks.base.backbones import Backbone
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.task_file import read_task
from keras_attn.tasks.text_generation.settings import (
    SEQUENCE_LENGTH,
    TOKENIZERS,
    TextGenerationData,
)
from keras_attn.text import BytePairTokenizer, CharacterTokenizer

_TABLE, _HEAD, _POSITIONS = (
    "embedding/embedding/embeddings", "head/kernel", "positions/embedding/embeddings",
)  # fmt: skip


@dataclass(frozen=True)
class GeneratorLearned(Learned):
    """What a text generator learned beside its weights.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If the tokenizer changes texts.
    """

    tokenizer: CharacterTokenizer | BytePairTokenizer
    ends: bool = False
    """Whether the model knows where texts end."""
    sequence_length: int = SEQUENCE_LENGTH
    """Tokens of a window, if the settings of the data do not say it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tokenizer, tuple(TOKENIZERS.values())):
            raise TypeError(
                "`tokenizer` must be a CharacterTokenizer or BytePairTokenizer. Received: "
                f"{type(self.tokenizer).__name__}. Make one with CharacterTokenizer.train(texts)."
            )
        if getattr(self.tokenizer, "normalize", False):
            raise ValueError(
                "`tokenizer` must keep texts as they are, which are written and scored character "
                "by character. Received: a BytePairTokenizer with normalize=True. Train one with "
                "normalize=False."
            )


class Start(NamedTuple):
    """A language model with its tokenizer, as it was read.

    Example:

    >>> Start(Backbone("gpt", {"dim": 8}, None, {}), 16, ends=True, unused=[]).sequence_length
    16
    """

    backbone: Backbone
    """Its settings, tokenizer and weights."""
    sequence_length: int
    """Tokens of its windows."""
    ends: bool
    """Whether it knows where texts end."""
    unused: list[str]
    """Tensors of the file that no layer of ours has."""

    def choice(self, model: Any) -> Choice:
        """Returns the settings of the model, sizes included, with what was chosen besides.

        Args:
            model: What the user chose of the architectures, or None.

        Raises:
            ValueError: As `Backbone.choice`.
        """
        return self.backbone.choice(
            LANGUAGE_MODELS, LANGUAGE_MODELS.made({} if model is None else model)
        )

    def declared(self, model: Any) -> Choice:
        """Returns the settings of the model without its sizes.

        Args:
            model: As in `choice`.
        """
        found = self.choice(model)
        own = {field.name for field in declared_fields(LANGUAGE_MODELS[found.name])}
        return Choice(
            LANGUAGE_MODELS, found.name, {k: v for k, v in found.values.items() if k in own}
        )

    def beginning(self, data: TextGenerationData, model: Any) -> Beginning:
        """Returns what a generator is made of that starts from this model.

        Args:
            data: Settings of the data.
            model: As in `choice`.

        Raises:
            ValueError: As `choice` and `windows`.
        """
        length = self.windows(data)
        backbone = self.backbone._replace(tensors=self.tensors(length))
        learned = GeneratorLearned(self.backbone.tokenizer, self.ends, length)
        return Beginning(learned, self.choice(model), backbone, unused=self.unused)

    def windows(self, data: TextGenerationData) -> int:
        """Returns the number of tokens of a window.

        Args:
            data: Settings of the data, whose tokenizer must be that of the model.

        Raises:
            ValueError: If a setting contradicts the model.
        """
        kind = next(n for n, k in TOKENIZERS.items() if isinstance(self.backbone.tokenizer, k))
        if data.vocabulary_size is not None or data.tokenizer not in (
            TextGenerationData.tokenizer, kind,
        ):  # fmt: skip
            raise ValueError(
                f"The backbone has a tokenizer: {kind!r}, with a vocabulary of "
                f"{self.backbone.tokenizer.vocabulary_size}. Received: tokenizer="
                f"{data.tokenizer!r}, vocabulary_size={data.vocabulary_size}. Leave them out."
            )
        length = data.sequence_length or self.sequence_length
        if _POSITIONS in self.backbone.tensors and length > self.sequence_length:
            raise ValueError(
                f"`sequence_length` must be at most {self.sequence_length}, the positions that the "
                f"backbone has. Received: {length}."
            )
        return length

    def tensors(self, length: int) -> dict[str, Any]:
        """Returns the weights for windows of so many tokens.

        Args:
            length: What `windows` returned.
        """
        found = dict(self.backbone.tensors)
        if _POSITIONS in found:
            found[_POSITIONS] = found[_POSITIONS][:length]
        return found


def read_start(place: str | os.PathLike) -> Start:
    """Reads a language model.

    Args:
        place: A file written by `TextGenerator.save`; or a folder of Hugging Face weights with
            their tokenizer, or their name on the hub, as for `keras_attn.interop.read_pretrained`.

    Returns:
        A `Start`. Logits of ids that the tokenizer does not have are left out.

    Raises:
        FileNotFoundError: If there is nothing.
        ValueError: If it is not a decoder, has no tokenizer, or is damaged.
    """
    path = Path(place).expanduser() if isinstance(place, str | os.PathLike) else None
    if path is not None and path.is_file():
        saved = read_task(path, "TextGenerator")

        def make(config: dict[str, Any]) -> Start:
            LANGUAGE_MODELS.make(config["model"]).build()
            settings = dict(config["model"])
            name = settings.pop(LANGUAGE_MODELS.key)
            learned = GeneratorLearned.from_config(config["learned"])
            length = config["data"]["sequence_length"] or learned.sequence_length
            backbone = Backbone(name, settings, learned.tokenizer, saved.tensors)
            return Start(backbone, length, learned.ends, [])

        return saved.check(make)
    from keras_attn.interop import read_pretrained

    found = read_pretrained(place)
    if not isinstance(found.config, GptConfig) or found.tokenizer is None:
        lack = "a decoder" if found.tokenizer is not None else "a tokenizer"
        raise ValueError(
            f"Expected a decoder with its tokenizer. Received: {place}, which has not {lack}."
        )
    tensors, size = dict(found.tensors), found.tokenizer.vocabulary_size
    tensors[_TABLE] = tensors[_TABLE][:size]
    if _HEAD in tensors:
        tensors[_HEAD] = tensors[_HEAD][:, :size]
    settings = found.config.to_dict()
    backbone = Backbone(LANGUAGE_MODELS.name_of(found.config), settings, found.tokenizer, tensors)
    return Start(backbone, found.config.sequence_length, True, found.unused)
