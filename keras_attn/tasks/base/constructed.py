"""Construction of tasks from examples, from learned values, or from a config."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence, Sized
from typing import Any, ClassVar, Generic, NamedTuple, NoReturn, Self, TypeVar

from keras_attn.inputs import read_twice, with_labels
from keras_attn.interop import WordVectors
from keras_attn.models.tensors import LoadReport
from keras_attn.records.items import Records
from keras_attn.settings import Settings
from keras_attn.tasks.base.backbones import Backbone
from keras_attn.tasks.base.continuing import check_new_head, continued, continues, with_brought
from keras_attn.tasks.base.learned import Learned as _Learned
from keras_attn.tasks.base.saved import Saved
from keras_attn.tasks.base.tabular import Tabular
from keras_attn.tasks.base.word_vectors import VectorStart, named_embedding, start_from_vectors
from keras_attn.text.registry import vocabulary_digest

Given = TypeVar("Given", bound=Sized)
"""The training data of a task: a list of examples, a text, or prepared ids."""


class Beginning(NamedTuple):
    """The parts from which a new task is created.

    Example:

    >>> Beginning(Learned()).model is None
    True
    """

    learned: _Learned
    """The values learned from the examples."""
    model: Any = None
    """Settings of the model, as for `create`; None for the default."""
    backbone: Backbone | None = None
    """The encoder or decoder whose weights the task starts from; None for random weights."""
    vectors: WordVectors | None = None
    """The vectors that the embedding starts from; None for random vectors."""
    parts: Mapping[str, Settings] = {}
    """Settings of further parts of the task."""
    unused: Sequence[str] = ()
    """Names of tensors of the backbone that the layers of this package do not have."""


class Constructed(Saved, Tabular, Generic[Given]):
    """Base class of `Task`: creates tasks from examples, from learned values or from a config."""

    Data: ClassVar[type[Settings]]
    learns_labels: ClassVar[bool] = True
    """Whether examples are tuples of an input and a target."""
    Learned: ClassVar[type[_Learned]] = _Learned
    __signature__: ClassVar[inspect.Signature]

    data: Any
    """The data settings of the task, of class `Data`."""
    learned: Any
    """The values learned from the examples, an instance of `Learned`."""
    config: Any
    """Settings and sizes of the model."""
    loaded: LoadReport | None = None
    """The weights that the task started from; None for random weights."""
    word_vectors: VectorStart | None = None
    """The word vectors that the embedding started from; None for random vectors."""
    _parts: Mapping[str, Settings] = {}
    _created = False
    """Whether the settings of the data were used to create the task."""

    def __init_subclass__(cls, **more: Any):
        super().__init_subclass__(**more)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        learned = [
            inspect.Parameter(
                field.name,
                kind,
                default=(
                    inspect.Parameter.empty
                    if field.default is dataclasses.MISSING
                    else field.default
                ),
                annotation=field.type,
            )
            for field in dataclasses.fields(cls.Learned)
        ]
        settings = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
            for name in ("model", "data", "dtype")
        ]
        cls.__signature__ = inspect.Signature([*learned, *settings])

    def __init__(
        self, *learned: Any, model: Any = None, data: Any = None, dtype: Any = None, **named: Any
    ):
        kind = type(self)
        if not (len(learned) == 1 and isinstance(learned[0], kind.Learned)) or named:
            self._check_call(len(learned), named)
            learned = (kind.Learned(*learned, **named),)
        self.learned = learned[0]
        self.data = made(kind.Data, data)
        self.config = self.configured(model)
        self.build(dtype)
        if getattr(self.data, "freeze_word_vectors", False):
            named_embedding(self.model).trainable = False

    @classmethod
    def _check_call(cls, count: int, named: Mapping[str, Any]) -> None:
        """Raises a TypeError for arguments that the constructor does not accept."""
        known = [field.name for field in dataclasses.fields(cls.Learned)]
        unknown = [name for name in named if name not in known]
        if not unknown and count <= len(known):
            return
        received = f"`{unknown[0]}`" if unknown else f"{count} arguments by position"
        cls._refuse(received, f"{', '.join(known)}, *, model=None, data=None, dtype=None")

    @classmethod
    def _refuse(cls, received: str, expected: str, method: str = "") -> NoReturn:
        """Raises a TypeError that lists the arguments of the constructor or a method."""
        name = received.strip("`")
        advice = ""
        if name in {field.name for field in dataclasses.fields(cls.Data)}:
            advice = f" It is a setting of the data: data={{{name!r}: ...}}."
        raise TypeError(
            f"Expected {cls.__name__}{method}({expected}). Received: {received}.{advice}"
        )

    # What a task writes

    @classmethod
    def check_read(cls, examples: Any, data: Any) -> None:
        """Raises an error if a task cannot learn from the training examples; by default, accepts
        all of them.

        Args:
            examples: The result of `read_file`.
            data: Settings of class `Data`.
        """

    @classmethod
    def learn(cls, examples: Any, data: Any) -> _Learned:
        """Returns the values that a new task learns from examples, such as its classes; called by
        `begin`.

        Args:
            examples: Training examples.
            data: Settings of class `Data`.

        Returns:
            An instance of `Learned`.
        """
        raise NotImplementedError

    @classmethod
    def begin(cls, examples: Any, data: Any, model: Any, dtype: Any, **parts: Any) -> Beginning:
        """Returns the parts of a new task: by default, the result of `learn` and `model`. Called by
        `create`.

        Args:
            examples: Training examples.
            data: Settings of class `Data`.
            model: Settings of the model, as for `create`.
            dtype: Dtype or policy of the model's layers.
            **parts: Settings of further `parts` of the task.

        Returns:
            A `Beginning`.
        """
        return Beginning(cls.learn(examples, data), model)

    @classmethod
    def unlike(cls, learned: Any, examples: Any, data: Any) -> str:
        """Returns why a saved task cannot continue with examples, such as `"labels that it lacks:
        'new'"`; empty if it can.

        Args:
            learned: The learned values of the saved task, an instance of `Learned`.
            examples: Training examples.
            data: The new settings, of class `Data`.
        """
        return ""

    def learn_from(self, examples: Any) -> None:
        """Learns values from the examples of a new run that starts from a saved task, such as the
        scale of their numbers; by default, nothing.

        Args:
            examples: Training examples.
        """

    def model_sizes(self) -> dict[str, Any]:
        """Returns the sizes of the model that `learned` and `data` determine, keyed by their names
        in the settings of the model, such as `vocabulary_size`."""
        return {}

    def configured(self, model: Any) -> Any:
        """Returns the settings object of the model, including its sizes; called by the constructor.

        Args:
            model: The argument of the constructor: a name, a dict, a settings object or None.
        """
        return self.kinds.make(model, **self.model_sizes())

    def build(self, dtype: Any) -> None:
        """Builds the Keras model that `config` describes, and assigns it to `.model`; called by the
        constructor.

        Args:
            dtype: Dtype or policy of the layers.
        """
        self.model = self.config.build(dtype)

    def created(self, examples: Any) -> None:
        """Initializes weights of a new task from its examples; called after the model is built.

        Args:
            examples: Training examples.
        """

    # What is written once

    def vocabularies(self) -> dict[str, str]:
        """Returns the digest of each embedding's vocabulary, keyed by the name of the layer."""
        tokenizer = getattr(self.learned, "tokenizer", None)
        return {} if tokenizer is None else {"embedding": vocabulary_digest(tokenizer)}

    @classmethod
    def _joined(cls, examples: Any, labels: Any) -> Any:
        """Returns examples from arguments with or without separate labels."""
        if labels is None:
            return examples
        if not cls.learns_labels:
            raise TypeError(
                f"{cls.__name__} learns from {cls.examples_are} without labels. Received: labels, "
                f"of type {type(labels).__name__}."
            )
        return with_labels(examples, labels, cls.examples_are)

    @classmethod
    def data_of(cls, examples: Any, data: Any) -> Any:
        """Returns the settings of the data, of class `Data`.

        Args:
            examples: Training examples, which may determine settings in subclasses.
            data: The argument `data` of `create` or `train`.
        """
        return made(cls.Data, data)

    @classmethod
    def create(
        cls,
        examples: Any,
        labels: Any = None,
        *,
        data: Any = None,
        model: Any = None,
        dtype: Any = None,
        **parts: Any,
    ) -> Self:
        """Creates a task for examples, which determine its vocabulary and classes, without training
        it.

        Args:
            examples: Training examples, as for `fit` (including tables), or only their inputs if
                `labels` are given.
            labels: The target of each input, if `examples` are only inputs.
            data: Settings of the data: an object of class `Data`, or a dict of some of its
                settings. With a `backbone`, the task starts from its vocabulary and weights; with
                `word_vectors`, the embedding starts from these vectors.
            model: The model: the name of one of `kinds` such as `"rnn"`, a settings object, a dict
                of settings such as `{"model": "rnn", "units": 64}`, or None for the default.
            dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.
            **parts: Settings of further `parts` of the task, such as `encoder` for images. If
                `examples` is a table, also the names of its columns, as in `fit`; they are stored
                in the data settings.

        Returns:
            The task, not compiled.

        Raises:
            OSError: If a file in the settings cannot be read.
            TypeError: If a setting is unknown or has the wrong type.
            ValueError: If a setting is out of range, or the examples have the wrong form.
        """
        columns = cls.taken_from(parts)
        unknown = [name for name in parts if name not in cls.parts]
        if unknown:
            own = "".join(f", {part}=None" for part in cls.parts)
            expected = f"examples, labels=None, *, data=None, model=None, dtype=None{own}"
            cls._refuse(f"`{unknown[0]}`", expected, ".create")
        data = cls.with_columns(with_brought(cls, cls.data_of(examples, data)), columns)
        examples = cls.read_given(cls._joined(examples, labels), data, columns)
        if isinstance(examples, Records):
            cls.check_read(examples, data)
        examples = read_twice(examples, cls.examples_are)
        if continues(cls, data):
            task = continued(cls, data, model, dtype, parts)
            unlike = cls.unlike(task.learned, examples, data)
            if not unlike:
                task.learn_from(examples)
                return task
            check_new_head(cls, data, task, unlike)
        task = cls.begun(cls.begin(examples, data, model, dtype, **parts), data, dtype)
        task.created(examples)
        return task

    @classmethod
    def begun(cls, start: Beginning, data: Any, dtype: Any = None) -> Self:
        """Creates a task from a `Beginning`, and loads the weights that it starts from."""
        task = cls(start.learned, model=start.model, data=data, dtype=dtype)
        task._parts, task._created = start.parts, True
        if start.backbone is not None:
            task.loaded = task.load_weights_of(start.backbone, data.backbone)
        if start.vectors is not None:
            task.word_vectors = start_from_vectors(
                task.model,
                task.learned.tokenizer,
                start.vectors,
                data.word_vectors,
                data.freeze_word_vectors,
            )
        return task

    def relearn(self, **changes: Any) -> None:
        """Replaces some of the learned values.

        Args:
            **changes: New values, keyed by field of `Learned`.
        """
        self.learned = dataclasses.replace(self.learned, **changes)

    def get_config(self) -> dict[str, Any]:
        """Returns a dict of JSON-safe values: the settings of the `model`, the settings of the
        `data`, and the `learned` values."""
        return {
            "model": self.kinds.describe(self.config),
            "data": self.data.to_dict(),
            "learned": self.learned.to_config(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], dtype: Any = None) -> Self:
        """Creates an untrained task from the result of `get_config`.

        Args:
            config: The result of `get_config`.
            dtype: Dtype or policy of the model's layers.
        """
        learned = cls.Learned.from_config(config["learned"])
        return cls(learned, model=config["model"], data=config["data"], dtype=dtype)


def made(kind: Any, given: Any) -> Any:
    """Returns settings of class `kind`: `given`, or settings made from a dict or None."""
    return given if isinstance(given, kind) else kind.made(given or {})
