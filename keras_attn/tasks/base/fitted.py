"""Training of tasks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras

from keras_attn.files import check_writable
from keras_attn.inputs import read_twice
from keras_attn.records.items import Records
from keras_attn.settings import Choice, Settings, declared_fields
from keras_attn.settings.declaring import nearest
from keras_attn.tasks.base.backbones import Backbone, read_backbone
from keras_attn.tasks.base.calls import with_settings
from keras_attn.tasks.base.checks import check_batches
from keras_attn.tasks.base.compiling import (
    checked_steps,
    jit_compile,
    make_optimizer,
)
from keras_attn.tasks.base.constructed import Given, made
from keras_attn.tasks.base.continuing import chosen_model, continues, with_brought
from keras_attn.tasks.base.described import described
from keras_attn.tasks.base.doubts import finished
from keras_attn.tasks.base.fine_tuning import (
    FineTuning,
    LoraTraining,
    choose_weights,
    merge_chosen_lora,
    refuse_adapter,
)
from keras_attn.tasks.base.measured import Measured
from keras_attn.tasks.base.quantizing import refuse_quantized
from keras_attn.tasks.base.run_folder import (
    CHECKPOINT,
    join_run,
    only_run,
    shaping,
    tidy_run,
)
from keras_attn.tasks.base.special_tokens import say_special_tokens
from keras_attn.tasks.base.task_run import TrainingRun, run_training
from keras_attn.tasks.base.training_settings import (
    COMPILED,
    OF_OPTIMIZER,
    RunSettings,
    TrainingSettings,
    long_enough,
)
from keras_attn.tasks.base.word_vectors import sized_by_vectors
from keras_attn.training import compute_on, scale_learning_rate, seed_everything
from keras_attn.training.memory import memory_of_training

Log = Callable[[str], Any]
_OF_KERAS = (
    "auto_scale_loss", "jit_compile", "loss", "loss_weights", "metrics", "optimizer",
    "run_eagerly", "weighted_metrics",
)  # fmt: skip
_OF_PROCESS = ("precision", "device", "devices")
ENCODERS = ("bert", "roberta", "modern_bert")
"""Architectures that need a smaller learning rate, even from random weights."""


class Fitted(Measured[Given]):
    """Base class of `Task`: trains tasks."""

    Data: ClassVar[type[Settings]] = Settings
    Training: ClassVar[type[RunSettings]] = TrainingSettings
    Use: ClassVar[type[Settings]] = Settings
    Test: ClassVar[type[Settings]] = Settings
    warmup: ClassVar[tuple[float, int]] = (0.05, 1000)
    """The length of the warm-up if `warmup_steps` is None: a fraction of the updates, and a maximum
    number of updates."""
    adam: ClassVar[Mapping[str, float]] = {}
    """Further arguments of `keras.optimizers.Adam`."""

    _optimizer: Any = None
    _verbose: Any = None

    def __init_subclass__(cls, **more: Any):
        super().__init_subclass__(**more)
        if "Training" in vars(cls) and getattr(cls.fit, "__wrapped__", cls.fit) is Fitted.fit:
            type.__setattr__(cls, "fit", with_settings(Fitted.fit, cls.Training))

    @staticmethod
    def read_start(place: str | os.PathLike) -> Backbone:
        """Reads the pretrained model that a task starts from.

        Args:
            place: The setting `backbone` of the data.
        """
        return read_backbone(place)

    @classmethod
    def model_of(cls, data: Any, model: Any) -> Choice:
        """Returns the settings of the model of a training run, updated by the settings of
        `data.backbone` and the width of `data.word_vectors`, if given.

        Args:
            data: Settings of class `Data`.
            model: Settings of the model, as for `create`.

        Raises:
            ValueError: If a setting in `model` contradicts the backbone or the word vectors.
        """
        chosen = cls.kinds.made({} if model is None else model)
        place, vectors = (getattr(data, name, "") for name in ("backbone", "word_vectors"))
        if continues(cls, data):
            chosen = chosen_model(cls, data, chosen)
        elif place:
            chosen = cls.read_start(place).declared(cls.kinds, chosen)
        return sized_by_vectors(cls.kinds, chosen, vectors) if vectors else chosen

    @classmethod
    def sections(cls) -> dict[str, Any]:
        """Returns the class (or `Kinds`) of each section of settings, keyed by its name in TOML
        files: `data`, `model`, `training`, `use`, `test`, and further `parts` of the task."""
        return {
            "data": cls.Data,
            **cls.parts,
            "model": cls.kinds,
            "training": cls.Training,
            "use": cls.Use,
            "test": cls.Test,
        }

    def compile(self, total_steps: int, **settings: Any) -> None:
        """Compiles `.model` for the task; `fit` does this unless the model is already compiled.

        The optimizer is Adam with linear warm-up, cosine decay and gradient clipping. For anything
        else, use `.model.compile(...)`.

        Args:
            total_steps: Total number of batches.
            **settings: Settings of class `Training`, such as `learning_rate`, and arguments of
                `keras.Model.compile`.
        """
        training, more = self._training(settings)
        training = training.decided(self.cases(training))
        self._compile_model(total_steps, training, more)
        self._optimizer = None

    def _compile_model(self, total_steps: int, training: Any, more: Mapping[str, Any]) -> None:
        tunes = isinstance(training, FineTuning | LoraTraining)
        factors = choose_weights(self.model, training) if tunes else {}
        optimizer = make_optimizer(training, self.policy, total_steps, self.warmup, self.adam)
        if "optimizer" in more:
            optimizer = keras.optimizers.get(more["optimizer"])
        if factors:
            scale_learning_rate(optimizer, factors)
        settings = {
            "jit_compile": jit_compile(recurrent=getattr(self.config, "recurrent", False)),
            "steps_per_execution": checked_steps(training.steps_per_execution),
            **self.objective(training),
        }
        self.model.compile(**{**settings, **more, "optimizer": optimizer})

    def _training(self, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Splits keyword arguments into training settings and arguments of Keras."""
        known = [option.name for option in self.Training.declared()]
        for name in settings:
            if name not in known and name not in _OF_KERAS:
                raise TypeError(f"Unknown setting `{name}`. {nearest(name, known)}")
        for name in _OF_PROCESS:
            if name in settings:
                raise ValueError(
                    f"`{name}` must be known before the model is created. Received: "
                    f"{name}={settings[name]!r}. Pass it to `{type(self).__name__}.train`, "
                    "or create the task with `dtype`, under `keras_attn.training.compute_on`."
                )
        more = {name: value for name, value in settings.items() if name in _OF_KERAS}
        twice = [f"{name}={settings[name]!r}" for name in settings if name in OF_OPTIMIZER]
        if "optimizer" in more and twice:
            raise ValueError(
                "Expected an `optimizer`, or settings of the optimizer of the task. Received: "
                f"both, with {', '.join(twice)}. Configure your optimizer yourself, and pass only "
                "it."
            )
        training = self.Training(**{k: v for k, v in settings.items() if k not in more})
        return training, more

    def fit(
        self,
        examples: Any,
        dev: Any = None,
        *,
        labels: Any = None,
        validation_data: Any = None,
        validation_split: float | None = None,
        run_dir: str | os.PathLike | None = None,
        log: Log = lambda text: None,
        verbose: Any = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        **settings: Any,
    ) -> TrainingRun:
        """Trains the task on examples.

        With `run_dir`, the run is saved in this folder, and the same call resumes a run that was
        interrupted (by Ctrl-C, SIGTERM or the end of the process). The folder contains
        `settings.toml`, `log.csv` (a row for each epoch), `best.task` (the weights with the best
        score, for `load`) and `checkpoint.npz` (the state of the run).

        Args:
            examples: Training examples: tuples of an input and a target, records of a reader, or
                texts if the task learns from texts. Or a table with a row for each example: a
                DataFrame, a table of Arrow or of `datasets`, a dict of columns, or a
                `tf.data.Dataset` of dicts. Data settings give the names of its columns, as in the
                command: `fit(frame, text="review", label="stars")`.
            dev: Development examples, which are scored after each epoch. The best weights are kept;
                without development examples, the last weights.
            labels: The target of each input, if `examples` contains only inputs.
            validation_data: The same as `dev`, under its Keras name; callbacks also get the loss
                `val_loss`.
            validation_split: Fraction of the examples to hold out as `dev`, above 0 and below 1.
                The examples are split as by `dev_share` of the command: with `data.split_seed`, and
                with equal and nearly equal examples on the same side.
            run_dir: Folder of the run.
            log: Function that is called with a message about each step.
            verbose: See `keras.Model.fit`; None shows a progress bar in a terminal and a line for
                each epoch elsewhere.
            callbacks: Additional Keras callbacks. If there are any, the logs after each epoch
                contain the loss of the development examples as `val_loss`, in addition to the
                scores of the task. If `EarlyStopping(monitor="val_loss")` ends a run, the run is
                complete. A resumed run calls `on_train_begin` again, and restores the state of
                callbacks with `memory()` and `remember(memory)`.
            **settings: Settings for reading a table, and settings of class `Training`, such as
                `epochs` and `learning_rate`. A model that you compiled, with `compile` or
                `.model.compile`, is used unchanged unless settings of the optimizer are given.
                Otherwise each call compiles the model with a new learning rate schedule over its
                epochs. Arguments of `keras.Model.compile` are also accepted; your own `optimizer`
                has its own learning rate, clipping and averaging.

        Returns:
            A `TrainingRun`, whose `history` has the logs of all epochs, as in Keras.

        Raises:
            TypeError: If a setting is unknown or has the wrong type.
            ValueError: If a setting is out of range, the examples have the wrong form, weights to
                be trained are quantized, or the folder contains a run with other settings or data.
            OSError: If the folder cannot be written to, the disk is full, or another process is
                training in the folder.
        """
        columns = self.taken_from(settings)
        training, more = self._training(settings)
        examples = self.read_own(self._joined(examples, labels), columns)
        if isinstance(examples, Records):
            log(examples.summary())
        keras_names = validation_data is not None or validation_split is not None
        if (dev is not None) + (validation_data is not None) + (validation_split is not None) > 1:
            raise ValueError(
                "Expected only one of `dev`, `validation_data` and `validation_split`. "
                "Received: several of them."
            )
        dev = validation_data if dev is None else dev
        if validation_split is not None:
            examples, dev = self.held_out(examples, validation_split)
        elif dev is not None:
            dev = self.read_own(dev, columns)
        watched = keras_names or bool(callbacks)
        compiles = bool(more) or any(name in COMPILED for name in settings)
        folder = None if run_dir is None else check_writable(run_dir).absolute()
        with only_run(folder):
            return self._fit(
                examples, dev, folder, training, more, compiles, log, verbose, callbacks, watched
            )

    @classmethod
    def train(
        cls,
        examples: Given,
        dev: Given | None,
        run_dir: str | os.PathLike,
        data: Any = None,
        model: Any = None,
        training: Any = None,
        log: Log = lambda text: None,
        verbose: Any = None,
        **parts: Any,
    ) -> TrainingRun:
        """Creates a task and trains it in a folder, like the command's `fit`.

        `training.seed` determines all random numbers, including initial weights. The same call
        resumes an interrupted run. TensorFlow is not needed on JAX and PyTorch.

        Args:
            examples: Training examples.
            dev: Development examples, which determine the best weights; None to keep the last
                weights.
            run_dir: Folder of the run; see `fit`.
            data: Settings of the data: an object of class `Data`, or a dict of some of its
                settings.
            model: Settings of one of `kinds`, or a dict such as `{"model": "rnn", "units": 64}`.
            training: Settings of the training: an object of class `Training`, or a dict of some of
                its settings.
            log: Function that is called with a message about each step.
            verbose: See `keras.Model.fit`; None as in `fit`.
            **parts: Settings of further `parts` of the task, as in `create`.

        Returns:
            A `TrainingRun`, with `best`, the path of the file to `load`.

        Raises:
            RuntimeError: If more GPUs or devices are requested than available.
        """
        join_run(cls.Training)
        training = made(cls.Training, training)
        data = with_brought(cls, cls.data_of(examples, data))
        model = cls.model_of(data, model)
        for name, kind in cls.parts.items():
            if isinstance(parts.setdefault(name, {}), Mapping):
                parts[name] = made(kind, parts[name])
        declared = {name: part for name, part in parts.items() if isinstance(part, Settings)}
        sections = {"data": data, **declared, "model": model, "training": training}
        sides: list[Any] = [
            None if some is None else read_twice(cls.read_given(some, data, {}), cls.examples_are)
            for some in (examples, dev)
        ]
        examples, dev = sides
        run_dir = check_writable(run_dir).absolute()
        with only_run(run_dir), compute_on(training.device, training.devices):
            training = tidy_run(run_dir, cls.sections(), sections)["training"]
            seed_everything(training.seed)
            task = cls.create(examples, data=data, model=model, dtype=training.precision, **parts)
            return task._fit(examples, dev, run_dir, training, {}, True, log, verbose, ())

    def _fit(
        self,
        examples: Given,
        dev: Given | None,
        run_dir: Path | None,
        training: Any,
        more: Mapping[str, Any],
        compiles: bool,
        log: Log,
        verbose: Any,
        callbacks: Sequence[keras.callbacks.Callback],
        watched: bool = False,
    ) -> TrainingRun:
        refuse_quantized(self.model, training)
        self._verbose = verbose
        sections = {**self._parts, "model": self._choice(), "training": training}
        if self._created:
            sections = {"data": self.data, **sections}
        if run_dir is not None:
            refuse_adapter(self.model)
            sections = tidy_run(run_dir, self.sections(), sections)
            self.check_run_dir(run_dir)
        examples, dev = (read_twice(some, self.examples_are) for some in (examples, dev))
        of_size = "epochs" in sections["training"].undecided()
        training = sections["training"] = sections["training"].decided(self.cases(training))
        score = None if dev is None else self.scorer(dev, training)
        if dev is not None and not len(dev):
            raise ValueError(
                f"Expected development {self.examples_are}, which determine the best weights, or "
                "None to keep the last weights. Received: none. Provide more examples, or a file "
                "of development examples."
            )
        if dev is None and getattr(training, "patience", None):
            raise ValueError(
                "`patience` counts epochs without a better score of development "
                f"{self.examples_are}. Received: patience={training.patience} without "
                f"development {self.examples_are}. Pass `dev`, or leave `patience` out."
            )
        held: Given | tuple[()] = () if dev is None else dev
        say_special_tokens(self, examples, log)
        batches = self.batches(examples, training)
        check_batches(batches, self)
        if of_size and training.epochs:
            training = sections["training"] = long_enough(training, batches, log)
        ours = self.model.compiled and self.model.optimizer is self._optimizer
        if compiles or ours or not self.model.compiled:
            of_loss = self.for_examples(training, examples)
            self._compile_model(training.epochs * len(batches), of_loss, more)
            self._optimizer = self.model.optimizer
        if run_dir is None or not (run_dir / CHECKPOINT).exists():
            self.prepare(examples, held, training, log)
        self.forget()
        with memory_of_training():
            run = run_training(
                self,
                self.trained_form(training),
                batches,
                training,
                score,
                run_dir,
                sections,
                lambda: {"data": self.digest(examples, held), **shaping(sections)},
                log,
                verbose,
                callbacks,
                held if watched else (),
            )
        if run.complete:
            merge_chosen_lora(self.model)
            run = finished(self, run, batches, held, training)
        return run

    def doubt(self, batches: Any, run: TrainingRun) -> str:
        """Returns a warning if a training run seems to have learned nothing; empty otherwise.

        Args:
            batches: The training batches.
            run: The run, with the `history` of the training loss.
        """
        return ""

    def doubt_guesses(self, dev: Given | tuple[()]) -> str:
        """Returns a warning if the prediction is the same for all development examples, although
        their labels differ; an empty string otherwise."""
        return ""

    def cases(self, training: Any) -> list[str]:
        """Returns the names of the cases that apply to a training run, such as `"backbone"`. The
        defaults of some settings (`RunDefault`) depend on these cases.

        Args:
            training: Settings of class `Training`.
        """
        found = ["lora"] if getattr(training, "lora_rank", 0) else []
        if self.pretrained:
            return [*found, "backbone"]
        return [*found, "encoder"] if self.kinds.name_of(self.config) in ENCODERS else found

    def _choice(self) -> Choice:
        own = {field.name for field in declared_fields(type(self.config))}
        values = {name: value for name, value in self.config.to_dict().items() if name in own}
        return Choice(self.kinds, self.kinds.name_of(self.config), values)

    def digest(self, examples: Given, dev: Given | tuple[()]) -> str:
        """Returns a digest of the data of a run, which prevents resuming with other data."""
        digest = hashlib.sha256()
        for side in (examples, dev):
            rows = [side] if isinstance(side, str) else read_twice(side, self.examples_are)
            for example in rows:
                # Of a named tuple the values alone.
                row = tuple(example) if isinstance(example, tuple | list) else example
                text = row if isinstance(row, str) else described(row)
                digest.update(f"{text}\x00".encode("utf-8", "replace"))
            digest.update(b"\x01")
        return digest.hexdigest()[:16]
