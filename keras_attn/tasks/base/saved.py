"""Saving and loading of tasks."""

from __future__ import annotations

import copy
import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_attn.adapt.lora import with_lora
from keras_attn.layers.quantization import (
    float_policy,
    quantize_sublayers,
    quantized_sublayers,
)
from keras_attn.models.tensors import LoadReport, load_tensors, model_tensors
from keras_attn.settings import Kinds, Settings
from keras_attn.tasks.base.backbones import read_backbone
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.task_file import read_task, save_task
from keras_attn.trained import find


class Saved:
    """Base class of `Task`: saves, loads and copies tasks."""

    kinds: ClassVar[Kinds]
    examples_are: ClassVar[str]
    continues: ClassVar[bool] = False
    """Whether all weights are loaded if `backbone` is a file of the same task."""
    parts: ClassVar[Mapping[str, type[Settings]]] = {}
    """Further settings of `create`, keyed by name: `{"encoder": ImageEncoderConfig}`."""
    main_layer: ClassVar[str] = "head"
    """Name of the layer whose dtype policy is saved as the policy of the task."""

    model: keras.Model
    learned: Learned
    _created: bool
    own_use: Any
    pretrained: bool = False
    """Whether the encoder or decoder started from given weights."""

    @property
    def whole(self) -> keras.Model:
        """The model with all weights of the task, of which `model` may be a part."""
        return self.model

    @property
    def policy(self) -> keras.DTypePolicy:
        """Dtype policy of the model's layers, before quantization."""
        return float_policy(self.model.get_layer(self.main_layer))

    def save(self, path: str | os.PathLike) -> None:
        """Saves settings, tokenizer and weights to a file that `load` reads on any backend.

        Args:
            path: Path of the file, such as `best.task`. An existing file is replaced atomically.

        Raises:
            FileNotFoundError: If the folder of the file does not exist.
            IsADirectoryError: If the path is a folder.
            ValueError: If the path ends in `.keras` or `.h5`, or a weight is not finite.
        """
        notes = {
            "dtype": self.policy.name,
            "vocabularies": self.vocabularies(),
            "pretrained": self.pretrained,
            "created": self._created,
            **({"use": dict(self.own_use)} if self.own_use else {}),
        }
        save_task(path, type(self).__name__, {**self.get_config(), **notes}, self.whole)

    @classmethod
    def load(cls, path: str | os.PathLike, dtype: Any = None) -> Self:
        """Loads a task from a file written by `save`.

        Args:
            path: The file, or the name of a model in this package; see `keras_attn.trained.names`.
            dtype: Dtype or dtype policy of the model's layers; None for the saved policy.

        Returns:
            The task, not compiled.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file belongs to another task, has a newer format or is damaged, or
                its settings do not match its weights.
        """
        if dtype is not None:
            keras.dtype_policies.get(dtype)  # whose error is not the file's
        saved = read_task(find(path), cls.__name__)

        def make(config: dict[str, Any]) -> Any:
            task = cls.from_config(config, config["dtype"] if dtype is None else dtype)
            task.own_use = config.get("use", {})
            return task

        task = saved.make(make)
        saved.load_into(task.whole)
        task.pretrained, task._created = saved.config["pretrained"], saved.config["created"]
        return task

    def get_config(self) -> dict[str, Any]:
        """Returns the config of the task, a dict of JSON-safe values for `from_config`."""
        raise NotImplementedError

    @classmethod
    def from_config(cls, config: Mapping[str, Any], dtype: Any = None) -> Self:
        """Creates an untrained task from its config.

        Args:
            config: The result of `get_config`.
            dtype: Dtype or dtype policy of the model's layers.
        """
        raise NotImplementedError

    @classmethod
    def opened(cls, place: str | os.PathLike[str]) -> Self:
        """Loads a file written by `save`, or imports a folder with `from_pretrained`.

        Args:
            place: The file, the name of a model in this package, or a folder of weights of another
                library if the task has `from_pretrained`.
        """
        made = getattr(cls, "from_pretrained", None)
        if made is None or not Path(place).expanduser().is_dir():
            return cls.load(place)
        return made(place)

    # Copies

    def __deepcopy__(self, memo: Any) -> Self:
        return _remade(*self._parts_of_copy())

    # As for Keras' models: a copy that shares the weights would be trained with the original.
    __copy__ = functools.partialmethod(__deepcopy__, None)

    def __reduce__(self) -> Any:
        return _remade, self._parts_of_copy()

    def _parts_of_copy(self) -> tuple[Any, ...]:
        """The arguments of `_remade`: the contents of a file, frozen layers, and plain attributes.

        It contains no models, because several models of a task may share layers, and compiled
        functions and decoders refer to them.
        """
        config = json.loads(json.dumps(self.get_config()))
        frozen = [] if with_lora(self.whole) else _frozen(self.whole)  # its changes are merged
        plain = {n: copy.deepcopy(v) for n, v in vars(self).items() if _is_plain(v)}
        weights = model_tensors(self.whole), quantized_sublayers(self.whole)
        return type(self), config, self.policy.name, *weights, frozen, plain

    @property
    def backbone(self) -> Mapping[str, tuple[str, ...]]:
        """The layers that `load_backbone` loads: a dict from the name of a layer to its possible
        names in other models."""
        return {}

    def vocabularies(self) -> dict[str, str]:
        """Returns the digest of each embedding's vocabulary, keyed by the name of the layer."""
        return {}

    def load_backbone(self, path: str | os.PathLike) -> LoadReport:
        """Loads the embeddings, encoder and decoder of another task.

        A layer is loaded if the file has a layer with the same name and shapes. An embedding is
        loaded only if its vocabulary is the same, so create this task with the tokenizer of the
        other one. Heads are never loaded.

        Args:
            path: A file written by `save` of any task, or a folder (or hub name) of Hugging Face
                weights as in `keras_attn.interop.read_pretrained`.

        Returns:
            A `LoadReport` of loaded tensors, new random tensors, and unused tensors of the file.
            `print` shows it.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is damaged, or no layer matches.

        Example:

        >>> import tempfile
        >>> generator = TextGenerator(CharacterTokenizer.train(["abc"]), model={"units": 8})
        >>> generator.save(tempfile.mkdtemp() + "/first.task")
        """
        if not Path(path).expanduser().is_file():
            return self.load_weights_of(read_backbone(path), str(path))
        saved = read_task(path, None)
        return self._load_some(saved.tensors, saved.config.get("vocabularies", {}), str(path))

    def load_weights_of(self, backbone: Any, place: str) -> LoadReport:
        """Loads the weights of a `Backbone` that was already read; see `load_backbone`.

        Args:
            backbone: The `Backbone`.
            place: Name of its file or folder, for error messages.
        """
        return self._load_some(backbone.tensors, backbone.vocabularies, place)

    def _load_some(
        self, tensors: Mapping[str, Any], theirs: Mapping[str, str], place: str
    ) -> LoadReport:
        own = self.vocabularies()
        starts = {name: (name, *others) for name, others in self.backbone.items()}
        for name, vocabulary in own.items():
            starts[name] = tuple(n for n in starts.get(name, ()) if theirs.get(n) == vocabulary)
        usable = {start for names in starts.values() for start in names}
        fitting = {name: x for name, x in tensors.items() if name.split("/")[0] in usable}
        report = load_tensors(self.whole, fitting, strict=False, other_names=starts)
        used = {name for name in fitting if name not in report.left_over}
        if not used:
            raise ValueError(
                f"Expected weights for {', '.join(self.backbone) or 'no layer'} of "
                f"{type(self).__name__}. Received: {place}, which has no weights with the "
                "same name, shapes and vocabulary."
            )
        if not {"encoder", "decoder"}.isdisjoint(n.split("/")[0] for n in report.loaded):
            self.pretrained = True
        return report._replace(left_over=[name for name in tensors if name not in used])


def _remade(
    kind: Any,
    config: Mapping[str, Any],
    dtype: str,
    tensors: Mapping[str, np.ndarray],
    quantization: dict[str, Any],
    frozen: Sequence[int],
    plain: Mapping[str, Any],
) -> Any:
    """Makes a copy of a task."""
    task = kind.from_config(config, dtype)
    quantize_sublayers(task.whole, quantization)
    load_tensors(task.whole, tensors)
    if frozen != _frozen(task.whole):
        parts = _parts(task.whole)
        for part in parts:
            part.trainable = True
        for number in frozen:  # the outer ones come first
            parts[number].trainable = False
    vars(task).update(plain)
    return task


def _parts(model: keras.Model) -> list[Any]:
    """A model, its layers at any depth (outer ones first), and their variables."""
    layers = list({id(layer): layer for layer in model._flatten_layers()}.values())
    return [*layers, *(v for layer in layers for v in layer._trainable_variables)]


def _frozen(model: keras.Model) -> list[int]:
    return [number for number, part in enumerate(_parts(model)) if not part.trainable]


def _is_plain(value: Any) -> bool:
    """Returns whether a value consists of numbers, strings, arrays and settings."""
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(_is_plain(part) for pair in value.items() for part in pair)
    plain = (type(None), bool, int, float, str, bytes, np.ndarray, np.generic, Settings)
    return isinstance(value, plain)
