"""The base class of tasks: training, files, quantization and export, written once."""

from __future__ import annotations

import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import keras
import numpy as np

from keras_attn.export import (
    check_batch_first,
    check_place,
    export_in_child_process,
    export_text_functions,
    with_a_row,
)
from keras_attn.files import check_writable, only_one
from keras_attn.generation import CompiledFunction
from keras_attn.layers.quantization import float_policy
from keras_attn.settings import Choice, Kinds, Settings, declared_fields
from keras_attn.settings.declaring import nearest
from keras_attn.tasks.compiling import (
    checked_steps,
    ema_momentum,
    jit_compile,
    make_adam,
    make_schedule,
)
from keras_attn.tasks.quantizing import Quantizable
from keras_attn.tasks.run_folder import BEST, tidy_run
from keras_attn.tasks.task_file import load_weights, read_config, read_tensors, save_task
from keras_attn.tasks.task_run import Scored, TrainingRun, run_training
from keras_attn.tasks.tensors import LoadReport, load_tensors
from keras_attn.tasks.training_settings import COMPILED, TrainingSettings
from keras_attn.training import compute_on, seed_everything

Log = Callable[[str], Any]
_OF_KERAS = (
    "auto_scale_loss", "jit_compile", "loss", "loss_weights", "metrics", "optimizer",
    "run_eagerly", "weighted_metrics",
)  # fmt: skip
_OF_PROCESS = ("precision", "device", "devices")


class Examples(NamedTuple):
    """What a run learns from.

    Example:

    >>> Examples([("Good.", "pos")], [("Bad.", "neg")], "a.csv: 2 texts").summary
    'a.csv: 2 texts'
    """

    train: Sequence[Any]
    """Examples to learn from."""
    dev: Sequence[Any]
    """Examples by which the best weights are chosen."""
    summary: str
    """What was read, in words."""
    data: Any = None
    """Settings `Data` by which the examples were made; None: those of the call."""


class Figures(dict):
    """Figures by their names, as a report.

    Example:

    >>> print(Figures({"accuracy": 0.5}))
    accuracy 0.5000
    """

    def __str__(self) -> str:
        return "\n".join(f"{name} {value:.4f}" for name, value in self.items())

    def to_dict(self) -> dict[str, float]:
        """Returns the figures as a plain dict."""
        return dict(self)


class Task(Quantizable):
    """A model with its preprocessing, its training and its results: strings in, strings out.

    `.model` is the plain Keras model. A subclass says what only the task knows; the methods here
    are the same for all tasks. `docs/new_task.md` writes one from beginning to end.

    Attributes:
        name: Name of the task in the command and the documentation.
        summary: What the task does, in a sentence.
        kinds: The architectures to choose from.
        Data: Settings of the data and of what is made of them before the model.
        Training: Settings of the training.
        Use: Settings of predictions, explanations and the export.
        Test: Settings of the evaluation, and the data that it reads.
        steps: The steps of the task's command.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    kinds: ClassVar[Kinds]
    Data: ClassVar[type[Settings]] = Settings
    Training: ClassVar[type[TrainingSettings]] = TrainingSettings
    Use: ClassVar[type[Settings]] = Settings
    Test: ClassVar[type[Settings]] = Settings
    steps: ClassVar[tuple[str, ...]] = ("fit", "evaluate", "predict", "quantize", "export")
    section_steps: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "data": ("fit",),
        "model": ("fit",),
        "training": ("fit",),
        "use": ("evaluate", "predict", "explain", "export"),
        "test": ("evaluate",),
    }
    """Steps of the command that have the settings of a section, unless a setting names others."""
    warmup: ClassVar[tuple[float, int]] = (0.05, 1000)
    """Share of all updates for the warm-up, and the most of them, if `warmup_steps` is None."""
    adam: ClassVar[Mapping[str, float]] = {}
    """Further settings of Adam."""
    examples_are: ClassVar[str] = "examples"
    """What the examples are, for messages: `"texts"`."""
    reads: ClassVar[str] = "lines"
    """What `predict` of the command reads: `"lines"` of files, or `"prompts"`."""
    separator: ClassVar[str] = "\n"
    """What stands between the results of `predict` of the command."""
    main_layer: ClassVar[str] = "head"
    """Name of a layer whose dtype is that of the task."""

    model: keras.Model
    config: Settings
    """Settings and sizes of the model."""
    _optimizer: Any = None
    _data: Settings | None = None

    # What a task writes

    @classmethod
    @abstractmethod
    def read(cls, data: Any) -> Examples:
        """Reads the examples that `fit` of the command learns from.

        Args:
            data: Settings `Data`.
        """

    @abstractmethod
    def read_test(self, test: Any, data: Any) -> Any:
        """Reads the examples that `evaluate` of the command measures; they have a `summary()`.

        Args:
            test: Settings `Test`.
            data: Settings `Data`; None if none of them is an option of `evaluate`.
        """

    @classmethod
    @abstractmethod
    def create(
        cls, examples: Sequence[Any], data: Any = None, model: Any = None, dtype: Any = None
    ) -> Self:
        """Makes an untrained task for the examples: its vocabulary, classes and model.

        Args:
            examples: Training examples.
            data: Settings `Data`, or a dict of some of them.
            model: The model: settings of one of `kinds`, a dict of them, or None for the default.
            dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.
        """

    @classmethod
    def data_of(cls, examples: Any, data: Any) -> Any:
        """Returns the settings `Data` of a run.

        Args:
            examples: Training examples.
            data: Settings `Data`, a dict of some of them, or None.
        """
        return made(cls.Data, data)

    @abstractmethod
    def batches(self, examples: Sequence[Any], training: Any, shuffle: bool = True) -> Any:
        """Makes batches of examples for `model.fit`.

        Args:
            examples: The examples.
            training: Settings `Training`.
            shuffle: Whether each epoch has another order.
        """

    @abstractmethod
    def objective(self, training: Any) -> dict[str, Any]:
        """Returns `loss` and metrics, for `keras.Model.compile`.

        Args:
            training: Settings `Training`.
        """

    def score(self, examples: Sequence[Any]) -> dict[str, float]:
        """Measures the task on examples.

        Args:
            examples: The examples.

        Returns:
            Figures by their names; the weights are chosen by the first, of which more is better.
        """
        raise NotImplementedError

    def evaluate(self, examples: Sequence[Any]) -> Any:
        """Measures the task on examples.

        Args:
            examples: The examples.

        Returns:
            A report: `print` shows it, and its `to_dict` has the figures.
        """
        return Figures(self.score(examples))

    def scored_by(self, training: Any) -> tuple[str, int]:
        """Returns the figure by which the best weights are chosen.

        Args:
            training: Settings `Training`.

        Returns:
            Its name, and 1, or -1 if less is better.
        """
        return "score", 1

    def scorer(self, dev: Sequence[Any], training: Any) -> Callable[[keras.Model], Scored]:
        """Returns what scores development examples after an epoch, given the model that is fitted.

        Args:
            dev: Development examples.
            training: Settings `Training`.
        """

        def score(model: keras.Model) -> Scored:
            figures = {name: float(value) for name, value in self.score(dev).items()}
            key = (next(iter(figures.values())),)
            return Scored(key, {f"val_{name}": value for name, value in figures.items()})

        return score

    # Inputs and outputs, for tasks that predict by one call of their model

    inputs: Mapping[str, Any]
    """Fields of the inputs by their names, such as `{"text": TextInput(...)}`."""
    outputs: Mapping[str, Any]
    """Fields of the outputs by their names, such as `{"label": Label(...)}`."""

    def run(self, tensors: Mapping[str, Any], use: Any) -> dict[str, Any]:
        """Computes what the outputs are made of, on every backend and in the SavedModel.

        Args:
            tensors: Encoded inputs by their names, the batch as their first axis.
            use: Settings `Use`.

        Returns:
            Tensors by their names, for the fields of the outputs.
        """
        raise NotImplementedError

    def predict(self, inputs: Any, batch_size: int = 64) -> Any:
        """Predicts.

        Args:
            inputs: One input, or a list of them.
            batch_size: Inputs computed at a time.

        Returns:
            A dict of the outputs by their names, or a list of dicts.

        Raises:
            TypeError: If an input is not what the task reads.
        """
        one = isinstance(inputs, str)
        inputs = [inputs] if one else list(inputs)
        (name,) = self.inputs
        found = []
        for i in range(0, len(inputs), batch_size):
            columns = self._computed({name: inputs[i : i + batch_size]}, self.Use())
            rows = zip(*columns.values(), strict=True)
            found += [dict(zip(columns, row, strict=True)) for row in rows]
        return found[0] if one else found

    def _computed(self, inputs: Mapping[str, Any], use: Any) -> dict[str, list[Any]]:
        """The outputs of a batch, a list for each."""
        if not hasattr(self, "_runs"):
            self._runs: dict[Any, CompiledFunction] = {}
        if use not in self._runs:
            names = list(self.inputs)
            self._runs[use] = CompiledFunction(
                lambda first, length, *rest: self.run(
                    dict(zip(names, (first, *rest), strict=True)), use
                ),
                self.model,
            )
        first, *rest = (field.encode(inputs[name]) for name, field in self.inputs.items())
        tensors = self._runs[use](first, 1, *rest)
        return {name: field.decode(tensors) for name, field in self.outputs.items()}

    @staticmethod
    def readable(result: Any) -> str:
        """Returns a result as `predict` of the command writes it."""
        found = result if isinstance(result, dict) else result._asdict()
        return json.dumps(found, ensure_ascii=False)

    def finish(self, dev: Sequence[Any], training: Any) -> str:
        """Does what belongs to the end of a training, such as a calibration.

        Args:
            dev: Development examples.
            training: Settings `Training`.

        Returns:
            What was done, for the log; empty if nothing was.
        """
        return ""

    def trained_form(self, training: Any) -> keras.Model:
        """Returns the compiled model that is fitted: another form of the layers of `model`.

        Args:
            training: Settings `Training`.
        """
        return self.model

    @classmethod
    def check_run_dir(cls, run_dir: Path) -> None:
        """Raises a ValueError if a folder is used for something else than runs."""

    def describe(self, batches: Any) -> list[str]:
        """Returns lines for the log about what is trained.

        Args:
            batches: Training batches.
        """
        return [
            f"{batches.num_examples:,} {self.examples_are}, {self.model.count_params():,} weights, "
            f"{len(batches):,} batches an epoch, {batches.padded_share:.0%} padding, "
            f"{keras.backend.backend()}"
        ]

    @abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Returns JSON-safe values of which `from_config` makes the task again."""

    @classmethod
    @abstractmethod
    def from_config(cls, config: Mapping[str, Any], dtype: Any = None) -> Self:
        """Makes an untrained task of what `get_config` returned."""

    def facts(self) -> list[str]:
        """Returns what tells this object from others of its class, for its `repr`."""
        return [self.kinds.name_of(self.config)]

    @staticmethod
    def page(explanations: Sequence[Any], title: str) -> str:
        """Returns an HTML page of what `explain` returned."""
        raise NotImplementedError

    # Training

    @classmethod
    def sections(cls) -> dict[str, Any]:
        """Returns the sections of settings by their names in TOML files."""
        return {
            "data": cls.Data,
            "model": cls.kinds,
            "training": cls.Training,
            "use": cls.Use,
            "test": cls.Test,
        }

    def compile(self, total_steps: int, **settings: Any) -> None:
        """Compiles `.model` as suits the task. `fit` does so unless you have done it.

        Adam with linear warm-up and cosine decay, the norm of the gradient clipped.
        `.model.compile(...)` sets anything else.

        Args:
            total_steps: Number of batches in all.
            **settings: Settings `Training`, such as `learning_rate`, and arguments of
                `keras.Model.compile`.
        """
        training, more = self._training(settings)
        self._compile_model(total_steps, training, more)
        self._optimizer = None

    def _compile_model(self, total_steps: int, training: Any, more: Mapping[str, Any]) -> None:
        accumulation = getattr(training, "gradient_accumulation", 1)
        ema = training.ema_momentum
        updates = max(total_steps // accumulation, 1)
        warmup = training.warmup_steps
        if warmup is None:
            share, most = self.warmup
            warmup = min(most, int(updates * share))
        optimizer = make_adam(
            make_schedule(updates, training.learning_rate, warmup),
            self.policy,
            training.weight_decay,
            training.clip_norm,
            ema_momentum(total_steps) if ema is None else ema,
            accumulation,
            **self.adam,
        )
        settings = {
            "optimizer": optimizer,
            "jit_compile": jit_compile(recurrent=getattr(self.config, "recurrent", False)),
            "steps_per_execution": checked_steps(training.steps_per_execution),
            **self.objective(training),
        }
        self.model.compile(**{**settings, **more})

    def _training(self, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Parts keyword arguments into settings of the training and arguments of Keras."""
        known = [option.name for option in self.Training.declared()]
        for name in settings:
            if name not in known and name not in _OF_KERAS:
                raise TypeError(f"Unknown setting `{name}`. {nearest(name, known)}")
        for name in _OF_PROCESS:
            if name in settings:
                raise ValueError(
                    f"`{name}` must be known before the model is made. Received: "
                    f"{name}={settings[name]!r}. Give it to `{type(self).__name__}.train`, or "
                    "make the task with `dtype`, under `keras_attn.training.compute_on`."
                )
        more = {name: value for name, value in settings.items() if name in _OF_KERAS}
        training = self.Training(**{k: v for k, v in settings.items() if k not in more})
        return training, more

    def fit(
        self,
        examples: Sequence[Any],
        dev: Sequence[Any] | None = None,
        *,
        run_dir: str | os.PathLike | None = None,
        log: Log = lambda text: None,
        verbose: Any = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        **settings: Any,
    ) -> TrainingRun:
        """Trains.

        With `run_dir` the run is kept in that folder, and the same call goes on with a run that was
        interrupted (by Ctrl-C, SIGTERM or the end of the process). The folder holds
        `settings.toml`, `log.csv` (a row for each epoch), `best.task` (the weights with the best
        score, for `load`) and `checkpoint.npz` (the state of the run).

        Args:
            examples: Training examples.
            dev: Development examples. They are scored after each epoch, and at the end this object
                has the weights that scored best. Without them it has those of the last epoch.
            run_dir: Folder of the run.
            log: Called with a line about each step.
            verbose: As in `keras.Model.fit`; None shows a progress bar in a terminal and a line for
                each epoch elsewhere.
            callbacks: Further Keras callbacks.
            **settings: Settings `Training`, such as `epochs` and `learning_rate`. A model that you
                compiled, by `compile` or `.model.compile`, is taken as it is, unless settings of
                the optimizer are given. Else each call starts anew: the learning rate rises and
                falls over its epochs. Arguments of `keras.Model.compile` are accepted, too.

        Returns:
            A `TrainingRun`; its `history` is that of Keras.

        Raises:
            TypeError: If a setting is unknown or has the wrong type.
            ValueError: If a setting is out of range, the examples are not what the task wants, or
                the folder holds a run of other settings or data.
            OSError: If the folder cannot be written to, the disk is full, or another process trains
                in the folder.
        """
        training, more = self._training(settings)
        compiles = bool(more) or any(name in COMPILED for name in settings)
        if run_dir is None:
            return self._fit(examples, dev, None, training, more, compiles, log, verbose, callbacks)
        run_dir = check_writable(run_dir).absolute()
        with only_one(run_dir / ".lock", "trains"):
            return self._fit(
                examples, dev, run_dir, training, more, compiles, log, verbose, callbacks
            )

    @classmethod
    def train(
        cls,
        examples: Sequence[Any],
        dev: Sequence[Any] | None,
        run_dir: str | os.PathLike,
        data: Any = None,
        model: Any = None,
        training: Any = None,
        log: Log = lambda text: None,
        verbose: Any = None,
    ) -> TrainingRun:
        """Creates a task and trains it in a folder: what `fit` of the command does.

        Everything random follows `training.seed`, the first weights too. Called again, it goes on
        where the folder has the run. No TensorFlow is needed on JAX and PyTorch.

        Args:
            examples: Training examples.
            dev: Development examples, by which the best weights are chosen.
            run_dir: Folder of the run, see `fit`.
            data: Settings `Data`, or a dict of some of them.
            model: A `Choice` among `kinds`, or a dict such as `{"model": "rnn", "units": 64}`.
            training: Settings `Training`, or a dict of some of them.
            log: As in `fit`.
            verbose: As in `fit`.

        Returns:
            A `TrainingRun`; its `best` is the file to `load`.

        Raises:
            TypeError: As in `fit`.
            ValueError: As in `fit`.
            OSError: As in `fit`.
            RuntimeError: If a GPU, or more devices, are asked for than there are.
        """
        training = made(cls.Training, training)
        data = cls.data_of(examples, data)
        if not isinstance(model, Choice):
            model = cls.kinds.made(model or {})
        run_dir = check_writable(run_dir).absolute()
        with only_one(run_dir / ".lock", "trains"), compute_on(training.device, training.devices):
            tidy_run(run_dir, cls.sections(), {"data": data, "model": model, "training": training})
            seed_everything(training.seed)
            task = cls.create(examples, data, model, training.precision)
            task._data = data
            return task._fit(examples, dev, run_dir, training, {}, True, log, verbose, ())

    def _fit(
        self,
        examples: Sequence[Any],
        dev: Sequence[Any] | None,
        run_dir: Path | None,
        training: Any,
        more: Mapping[str, Any],
        compiles: bool,
        log: Log,
        verbose: Any,
        callbacks: Sequence[keras.callbacks.Callback],
    ) -> TrainingRun:
        sections = {"model": self._choice(), "training": training}
        if self._data is not None:
            sections = {"data": self._data, **sections}
        if run_dir is not None:
            tidy_run(run_dir, self.sections(), sections)
        if run_dir is not None:
            self.check_run_dir(run_dir)
        examples = list(examples) if isinstance(examples, Iterator) else examples
        dev = list(dev) if isinstance(dev, Iterator) else dev
        batches = self.batches(examples, training)
        score = None if dev is None else self.scorer(dev, training)
        ours = self.model.compiled and self.model.optimizer is self._optimizer
        if compiles or ours or not self.model.compiled:
            self._compile_model(training.epochs * len(batches), training, more)
            self._optimizer = self.model.optimizer
        run = run_training(
            self,
            self.trained_form(training),
            batches,
            training,
            score,
            run_dir,
            sections,
            lambda: {"data": self.digest(examples, dev or ()), **_shaping(sections)},
            log,
            verbose,
            callbacks,
        )
        if dev is not None and run.complete:
            note = self.finish(dev, training)
            if note and run_dir is not None:
                self.save(run_dir / BEST)
            run = run._replace(note=note)
        return run

    def _choice(self) -> Choice:
        own = {field.name for field in declared_fields(type(self.config))}
        values = {name: value for name, value in self.config.to_dict().items() if name in own}
        return Choice(self.kinds, self.kinds.name_of(self.config), values)

    def digest(self, examples: Sequence[Any], dev: Sequence[Any]) -> str:
        """Names the data of a run, so that it does not go on with others.

        Args:
            examples: Training examples.
            dev: Development examples.

        Returns:
            Hexadecimal digits.
        """
        digest = hashlib.sha256()
        for side in (examples, dev):
            for example in [side] if isinstance(side, str) else side:
                text = example if isinstance(example, str) else repr(tuple(example))
                digest.update(f"{text}\x00".encode("utf-8", "replace"))
            digest.update(b"\x01")
        return digest.hexdigest()[:16]

    # Files

    @property
    def policy(self) -> keras.DTypePolicy:
        """Dtype policy of the model's layers, as it was before the model was quantized."""
        return float_policy(self.model.get_layer(self.main_layer))

    def save(self, path: str | os.PathLike) -> None:
        """Saves settings, tokenizer and weights to one file, readable on every backend.

        Args:
            path: The file.
        """
        notes = {"dtype": self.policy.name, "vocabularies": self.vocabularies()}
        save_task(path, type(self).__name__, {**self.get_config(), **notes}, self.model)

    @classmethod
    def load(cls, path: str | os.PathLike, dtype: Any = None) -> Self:
        """Loads what `save` wrote.

        Args:
            path: The file.
            dtype: Dtype or policy of the model's layers; what was saved if None.

        Returns:
            The task, not compiled.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is not of this task, or of a newer format.
        """
        config = read_config(path, cls.__name__)
        saved = config.pop("dtype")
        task = cls.from_config(config, saved if dtype is None else dtype)
        load_weights(path, task.model)
        return task

    backbone: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Layers of the model that `load_backbone` loads, each with the names that it has in other
    models."""

    def vocabularies(self) -> dict[str, str]:
        """Returns what names the vocabulary of each embedding, by the name of its layer."""
        return {}

    def load_backbone(self, path: str | os.PathLike) -> LoadReport:
        """Starts from the weights of another task: those of its embeddings, encoder and decoder.

        A layer is loaded if the file has one of its name and shapes. An embedding is loaded only if
        its vocabulary is the same: make this task with the tokenizer of the other one. Heads are
        never loaded.

        Args:
            path: A file written by `save` of any task.

        Returns:
            A `LoadReport`: what was loaded, what is new and random, and what the file had besides.
            `print` shows it.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is damaged, or nothing in it fits.

        Example:

        >>> import tempfile
        >>> generator = TextGenerator(CharacterTokenizer.train(["abc"]), {"units": 8}, 8)
        >>> generator.save(tempfile.mkdtemp() + "/first.task")
        """
        config = read_config(path, None)
        tensors, own = read_tensors(path), self.vocabularies()
        theirs = config.get("vocabularies", {})
        starts = {name: (name, *others) for name, others in self.backbone.items()}
        for name, vocabulary in own.items():
            starts[name] = tuple(n for n in starts.get(name, ()) if theirs.get(n) == vocabulary)
        usable = {start for names in starts.values() for start in names}
        fitting = {name: x for name, x in tensors.items() if name.split("/")[0] in usable}
        report = load_tensors(self.model, fitting, strict=False, other_names=starts)
        used = {name for name in fitting if name not in report.left_over}
        if not used:
            raise ValueError(
                f"Expected weights for {', '.join(self.backbone) or 'no layer'} of "
                f"{type(self).__name__}. Received: {path}, in which none has the same name, shapes "
                "and vocabulary."
            )
        return report._replace(left_over=[name for name in tensors if name not in used])

    # Export

    def checked_use(self, use: Any) -> Any:
        """Returns the settings `Use` of an export, checked against the model."""
        return use

    def export_examples(self) -> dict[str, Any]:
        """Returns the inputs that an export is tried with, by name: the odd beside the ordinary."""
        return {name: field.examples for name, field in self.inputs.items()}

    def expected(self, examples: Mapping[str, Any], use: Any) -> dict[str, dict[str, Any]]:
        """Returns what the SavedModel must give for these inputs, by signature and output."""
        return {"serving_default": self._computed(examples, use)}

    def serve(self, tf: Any, use: Any) -> tuple[dict[str, Callable], list[Any]]:
        """Returns the functions of the SavedModel, by signature, and the `tf.Module`s they use.

        Each takes tensors by the names of the inputs, at least one row of them, and returns a dict
        of tensors, all with the batch as their first axis.
        """
        graphs = {name: field.to_graph(tf) for name, field in self.inputs.items()}
        resources = [module for _, modules in graphs.values() for module in modules]

        def serve(**raw: Any) -> dict[str, Any]:
            tensors = self.run({name: graphs[name][0](value) for name, value in raw.items()}, use)
            return {name: field.graph(tf, tensors) for name, field in self.outputs.items()}

        return {"serving_default": serve}, resources

    def export(self, path: str | os.PathLike, *, overwrite: bool = False, **use: Any) -> None:
        """Exports a TensorFlow SavedModel that takes and gives strings.

        It loads with `import tensorflow` and nothing else; a file `requirements.txt` in it has the
        version. Before it is put in its place it is loaded and compared with this object. On JAX
        and PyTorch a child process with the TensorFlow backend does the work.

        Args:
            path: Folder of the SavedModel.
            overwrite: Whether a SavedModel that is there is replaced, at the end, by the new one.
            **use: Settings `Use`.

        Raises:
            FileExistsError: If the folder is there and not empty, unless it is a SavedModel and
                `overwrite` is given.
            PermissionError: If its parent cannot be written to.
            RuntimeError: If what was written does not give what this object gives.
            ValueError: If a setting is unknown or out of range.
        """
        settings = self.checked_use(self.Use.made(use))
        if keras.backend.backend() != "tensorflow":
            export_in_child_process(type(self), self.save, path, overwrite=overwrite, **use)
            return
        check_place(path, overwrite)  # before the work
        examples = self.export_examples()
        expected = self.expected(examples, settings)
        check_batch_first(expected, max(len(x) for x in examples.values() if np.ndim(x)))
        half = self.policy.compute_dtype != "float32"

        def functions(tf: Any) -> tuple[dict[str, Callable], list[Any]]:
            made, resources = self.serve(tf, settings)
            return {name: with_a_row(tf, function) for name, function in made.items()}, resources

        export_text_functions(
            path,
            functions,
            self.model.variables,
            examples,
            expected,
            tolerance=3e-2 if half else 1e-4,
            overwrite=overwrite,
            requirements=self.exported_with(),
        )

    def exported_with(self) -> Sequence[str]:
        """Returns the modules that a process must import to load the SavedModel."""
        return ("tensorflow",)

    def __repr__(self) -> str:
        weights = f"{self.model.count_params():,} weights"
        return f"{type(self).__name__}({', '.join([*self.facts(), weights])})"


def made(kind: Any, given: Any) -> Any:
    """Makes settings of what a caller gave.

    Args:
        kind: A class of `Settings`.
        given: An instance of it, a dict of some of its settings, or None.

    Returns:
        An instance.

    Example:

    >>> made(TrainingSettings, {"epochs": 3}).epochs
    3
    """
    return given if isinstance(given, kind) else kind.made(given or {})


def vocabulary_digest(tokenizer: Any) -> str:
    """Returns hexadecimal digits that name a tokenizer's vocabulary.

    Args:
        tokenizer: Has `get_config`.

    Example:

    >>> tokenizers = [CharacterTokenizer.train([text]) for text in ("ab", "ab", "abc")]
    >>> len(set(map(vocabulary_digest, tokenizers)))
    2
    """
    text = json.dumps(tokenizer.get_config(), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _shaping(sections: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for part in sections.values() for name, value in part.shaping().items()}
