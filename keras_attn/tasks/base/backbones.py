"""Pretrained models that a task can start from."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_attn.models import (
    ENCODER_DECODERS,
    ENCODERS,
    LANGUAGE_MODELS,
    GptConfig,
    ModernBertConfig,
    RobertaConfig,
)
from keras_attn.settings import (
    Choice,
    Kinds,
    Settings,
    declared_fields,
    setting,
    with_defaults,
)
from keras_attn.tasks.base.learned import unpacked
from keras_attn.tasks.base.task_file import read_task
from keras_attn.tasks.base.word_vectors import WordVectorData
from keras_attn.text.registry import vocabulary_digest


class Backbone(NamedTuple):
    """A pretrained encoder, language model or encoder-decoder that a task can start from.

    Example:

    >>> Backbone("bert", {"dim": 16}, None, {}).settings
    {'dim': 16}
    """

    model: str
    """Name of the architecture, such as `"bert"`."""
    settings: dict[str, Any]
    """Settings and sizes of the architecture."""
    tokenizer: Any
    """The tokenizer of the pretrained model."""
    tensors: dict[str, np.ndarray]
    """The pretrained weights, keyed by their names in models of this package."""
    learned: Mapping[str, Any] = {}
    """Further values, such as the window length of a language model, keyed by name."""
    unused: Sequence[str] = ()
    """Names of tensors of the file that the layers of this package do not have."""

    @property
    def vocabularies(self) -> dict[str, str]:
        """The digest of the tokenizer's vocabulary, in a dict with the key `"embedding"`."""
        return {"embedding": vocabulary_digest(self.tokenizer)}

    def choice(self, kinds: Kinds, chosen: Choice) -> Choice:
        """Combines the settings and sizes of the backbone with the given settings.

        Args:
            kinds: The architectures that the task supports.
            chosen: The given settings. Only dropout rates and pooling settings may differ from the
                backbone's.

        Returns:
            A `Choice` of the backbone's architecture with all settings and sizes; values in
            `chosen` override the backbone's.

        Raises:
            ValueError: If the task does not support the architecture of the backbone, or `chosen`
                names another architecture, has a setting that the architecture does not have, or
                changes a setting other than dropout rates and pooling.
        """
        if self.model not in kinds:
            raise ValueError(
                f"The backbone has the architecture {self.model!r}, which this task does not "
                f"support. Expected one of {list(kinds)}."
            )
        own = {field.name for field in dataclasses.fields(kinds[self.model])}
        if chosen.name != self.model and chosen.named:
            raise ValueError(
                f"The backbone has the architecture {self.model!r}. Received: "
                f"{kinds.key}={chosen.name!r}. Leave it out, or choose {self.model!r}."
            )
        foreign = [name for name in chosen.values if name not in own]
        if foreign:
            raise ValueError(
                f"The backbone has the architecture {self.model!r}, which has no setting "
                f"`{foreign[0]}`. Leave it out."
            )
        pooled = ("pooling", "pooled_layers", "unit_length")
        free = ("dropout", "attention_dropout", "recurrent_dropout", *pooled)
        for name, value in chosen.values.items():
            if name in self.settings and name not in free and self.settings[name] != value:
                raise ValueError(
                    f"`{name}` is {self.settings[name]!r} in the backbone. Received: {value!r}. "
                    "Leave it out."
                )
        values = {**self.settings, **chosen.values}
        return Choice(kinds, self.model, {k: v for k, v in values.items() if k in own})

    def declared(self, kinds: Kinds, chosen: Choice) -> Choice:
        """Returns the result of `choice`, without sizes such as `vocabulary_size`."""
        values = self.choice(kinds, chosen).values
        own = {field.name for field in declared_fields(kinds[self.model])}
        return Choice(kinds, self.model, {k: v for k, v in values.items() if k in own})


@dataclasses.dataclass(frozen=True)
class BackboneStart(Settings):
    """Settings of the pretrained weights that training starts from."""

    backbone: str = setting(
        "", "{backbones}, or folder of Hugging Face weights, to start from: its sizes, {tokens} "
        "and weights", path="model",
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
@with_defaults(
    help={
        "backbone": "file of a model of this task to continue from: its vocabulary and all of its "
        "weights"
    }
)
class SavedStart(BackboneStart):
    """Settings of the saved task that training continues from."""


@dataclasses.dataclass(frozen=True)
@with_defaults(
    words={"backbones": "task with an encoder, such as pretraining", "tokens": "vocabulary"}
)
class BackboneData(WordVectorData, BackboneStart):
    """Settings of an encoder's start: a backbone, word vectors, or a new vocabulary."""

    backbone_weights: bool = setting(
        True,
        "also load the weights of --backbone; otherwise the encoder starts from random weights",
    )
    vocabulary_size: int = setting(8000, "maximum number of tokens, without --backbone", at_least=8)


def refuse_new_tokenizer(data: BackboneStart, *names: str) -> None:
    """Raises a ValueError if a new tokenizer has settings although there is a backbone."""
    for name in names:
        if data.backbone and getattr(data, name) != getattr(type(data), name):
            raise ValueError(
                f"`{name}` is only used for a new tokenizer, but the backbone has its own. "
                f"Received: {name}={getattr(data, name)!r} with backbone={data.backbone!r}. "
                "Leave it out."
            )


def sizes_of(tokenizer: Any) -> dict[str, int]:
    """Returns the sizes of an encoder that its tokenizer determines."""
    pad_id = tokenizer.pad_id
    return {
        "vocabulary_size": tokenizer.vocabulary_size,
        "first_position": pad_id + 1,
        "pad_id": pad_id,
    }


def read_backbone(place: str | os.PathLike) -> Backbone:
    """Reads a pretrained encoder with its tokenizer and weights.

    Args:
        place: A file that `save` of a task with an encoder of `ENCODERS` wrote, such as a
            `Pretrainer`; or a folder or hub name, as for `keras_attn.interop.read_pretrained`, of
            an encoder with its tokenizer.

    Returns:
        A `Backbone` with the architecture, settings, tokenizer and weights of the encoder.

    Raises:
        FileNotFoundError: If the file or folder does not exist.
        ImportError: If `place` is a hub name, and the package that downloads it is not installed.
        OSError: If `place` is a hub name that cannot be downloaded.
        ValueError: If the file or folder has no encoder of `ENCODERS` or no tokenizer, or is
            damaged.

    Example:

    >>> import keras, tempfile
    >>> from keras_attn.interop import save_pretrained
    >>> from keras_attn.models import BertConfig
    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer.train(["a b c d e"], 15)
    >>> config = BertConfig(tokenizer.vocabulary_size, dim=16, num_layers=1, num_heads=2)
    >>> folder = tempfile.mkdtemp()
    >>> save_pretrained(folder, config.build(), config, tokenizer)
    >>> read_backbone(folder).settings["dim"]
    16
    """
    path = Path(place).expanduser()
    if not path.is_file():
        from keras_attn.interop import read_pretrained
        from keras_attn.interop.bert_settings import encoder_kind
        from keras_attn.interop.encoder_folders import POOLERS

        found = read_pretrained(place)
        if not isinstance(found.config, tuple(ENCODERS.values())):
            raise ValueError(
                f"Expected an encoder of {', '.join(map(repr, ENCODERS))}. Received: {place}, "
                "which has a decoder."
            )
        if found.tokenizer is None:
            raise ValueError(
                f"Expected weights with their tokenizer. Received: {place}, which has neither "
                "vocab.txt, vocab.json, tokenizer.json nor a SentencePiece model."
            )
        settings = found.config.to_dict()
        pooled = settings["pooler_activation"] is not None
        if not pooled and isinstance(found.config, RobertaConfig | ModernBertConfig):
            # The dense layer of their classifiers is always there.
            settings["pooler_activation"] = POOLERS[encoder_kind(found.config)]
        return Backbone(
            ENCODERS.name_of(found.config), settings, found.tokenizer, dict(found.tensors)
        )
    saved = read_task(path, None)
    model = saved.config.get("model")
    if not isinstance(model, Mapping) or model.get(ENCODERS.key) not in ENCODERS:
        raise ValueError(
            f"Expected a task with an encoder of {', '.join(map(repr, ENCODERS))}, or a "
            f"folder of Hugging Face weights. Received: {path}, which has no such model."
        )
    name = model[ENCODERS.key]
    own = {field.name for field in dataclasses.fields(ENCODERS[name])}
    settings = {key: value for key, value in model.items() if key in own}

    def make(config: dict[str, Any]) -> Any:
        ENCODERS.make({ENCODERS.key: name, **settings}).build()
        return unpacked(config["learned"]["tokenizer"])

    return Backbone(name, settings, saved.check(make), saved.tensors)


def read_encoder_decoder(place: str | os.PathLike) -> Backbone:
    """Reads an encoder-decoder, its tokenizers and its search settings from a file or folder.

    `learned` of the result has the `target_tokenizer`, `source_ends`, the search settings
    `own_use`, and everything else that a task learned, or the `tasks` of a folder's model.
    """
    path = Path(place).expanduser()
    if not path.is_file():
        from keras_attn.interop import read_pretrained

        found = read_pretrained(place)
        if not isinstance(found.config, tuple(ENCODER_DECODERS.values())):
            raise ValueError(
                f"Expected an encoder-decoder of {', '.join(map(repr, ENCODER_DECODERS))}. "
                f"Received: {place}, which has {type(found.config).__name__}."
            )
        if found.tokenizer is None:
            raise ValueError(
                f"Expected weights with their tokenizer. Received: {place}, which has no tokenizer."
            )
        learned = {
            "target_tokenizer": found.target_tokenizer,
            "source_ends": found.source_ends,
            "own_use": dict(found.search),
            "tasks": found.tasks,
        }
        settings = found.config.to_dict()
        name = ENCODER_DECODERS.name_of(found.config)
        return Backbone(name, settings, found.tokenizer, dict(found.tensors), learned, found.unused)
    saved = read_task(path, None)
    model = saved.config.get("model")
    if (
        not isinstance(model, Mapping)
        or model.get(ENCODER_DECODERS.key) not in ENCODER_DECODERS
        or "source_vocabulary_size" not in model
    ):
        raise ValueError(
            "Expected a task with an encoder-decoder, or a folder of Hugging Face weights. "
            f"Received: {path}, which has no such model."
        )

    def make(config: dict[str, Any]) -> Backbone:
        ENCODER_DECODERS.make(model).build()
        settings = dict(model)
        own = config["learned"]
        learned = {
            **{name: value for name, value in own.items() if name != "tokenizer"},
            "target_tokenizer": unpacked(own.get("target_tokenizer")),
            "source_ends": own.get("source_ends", True),
            "own_use": config.get("use", {}),
        }
        name = settings.pop(ENCODER_DECODERS.key)
        return Backbone(name, settings, unpacked(own["tokenizer"]), saved.tensors, learned)

    return saved.check(make)


def of_tokens(tensors: Mapping[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """Removes rows of a shared vocabulary without tokens, as in T5."""
    found = dict(tensors)
    if "target_embedding/embedding/embeddings" in tensors:
        return found
    table = "source_embedding/embedding/embeddings"
    if table in found:
        found[table] = found[table][:size]
    if "head/kernel" in found:
        found["head/kernel"] = found["head/kernel"][:, :size]
    return found


_TABLE, _HEAD = "embedding/embedding/embeddings", "head/kernel"


def read_language_model(place: str | os.PathLike) -> Backbone:
    """Reads a language model with its tokenizer; weights of ids without a token are removed."""
    path = Path(place).expanduser() if isinstance(place, str | os.PathLike) else None
    if path is not None and path.is_file():
        saved = read_task(path, "TextGenerator")

        def make(config: dict[str, Any]) -> Backbone:
            LANGUAGE_MODELS.make(config["model"]).build()
            settings, learned = dict(config["model"]), dict(config["learned"])
            learned["sequence_length"] = (
                config["data"]["sequence_length"] or learned["sequence_length"]
            )
            name = settings.pop(LANGUAGE_MODELS.key)
            tokenizer = unpacked(learned.pop("tokenizer"))
            return Backbone(name, settings, tokenizer, saved.tensors, learned)

        return saved.check(make)
    from keras_attn.interop import read_pretrained

    found = read_pretrained(place)
    if not isinstance(found.config, GptConfig) or found.tokenizer is None:
        lack = "a decoder" if found.tokenizer is not None else "a tokenizer"
        raise ValueError(
            f"Expected a decoder with its tokenizer. Received: {place}, which lacks {lack}."
        )
    tensors, size = dict(found.tensors), found.tokenizer.vocabulary_size
    tensors[_TABLE] = tensors[_TABLE][:size]
    if _HEAD in tensors:
        tensors[_HEAD] = tensors[_HEAD][:, :size]
    return Backbone(
        LANGUAGE_MODELS.name_of(found.config),
        found.config.to_dict(),
        found.tokenizer,
        tensors,
        {"ends": True, "sequence_length": found.config.sequence_length},
        found.unused,
    )
