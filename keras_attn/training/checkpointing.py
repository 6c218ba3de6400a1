"""Training runs that can be stopped at any step and resumed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import keras
import numpy as np

from keras_attn.batches import EpochOrder, TextWindows, TokenBatches
from keras_attn.files import remove_partial_files
from keras_attn.training.autotuning import without_autotuning
from keras_attn.training.parts_of_epochs import PartOfRun, rest_of_epoch
from keras_attn.training.processes import greatest, num_processes
from keras_attn.training.seeding import generator_states, set_generator_states
from keras_attn.training.state import (
    load_training_state,
    read_training_notes,
    save_training_state,
)


class TrainingCheckpoint(keras.callbacks.Callback):
    """Saves a run of `fit_resumable` to one file: weights, optimizer, seeds, metrics, position.

    The file is written after each epoch, before the last batch of each epoch (because the
    evaluation that follows can take long), after every `every_steps` batches, and when the process
    receives SIGINT (Ctrl-C), SIGTERM or SIGHUP. These signals end the training after the current
    batch; a second signal ends it immediately and does not change the file. The file is written
    atomically, and only if all weights are finite.

    The file also stores the state of callbacks that have the methods `memory()`, which returns
    JSON-compatible values, and `remember(memory)`, which restores them.

    Args:
        path: The file.
        every_steps: Number of batches between two writes in an epoch.
        fingerprint: JSON-compatible values that identify the run, such as settings and data. A file
            with another fingerprint raises an error.

    Raises:
        ValueError: If `every_steps` is not a positive integer, or the callback is passed to `fit`
            instead of `fit_resumable`.

    Example:

    >>> import tempfile
    >>> checkpoint = TrainingCheckpoint(os.path.join(tempfile.mkdtemp(), "run.npz"))
    >>> checkpoint.position
    (0, 0)
    """

    def __init__(
        self,
        path: str | os.PathLike,
        every_steps: int = 1000,
        fingerprint: dict[str, Any] | None = None,
    ):
        super().__init__()
        if isinstance(every_steps, bool) or not isinstance(every_steps, int) or every_steps < 1:
            raise ValueError(
                f"`every_steps` must be a positive integer. Received: {every_steps!r}."
            )
        self.path = Path(path).expanduser().absolute()
        self.every_steps = every_steps
        self.fingerprint = json.loads(json.dumps(fingerprint or {}))  # as it is read back
        self.interrupted: int | None = None
        """The signal that ended the training, or None."""
        self._signal = 0  # what this process has received; others may have received none
        self._agreed = (0, 0, 0.0)  # the batch of the next `_agree`, batch and time of the last
        self._remembering: list[Any] = []
        self._data: dict[str, Any] = {}
        self._length = 0  # number of batches of an epoch; 0 outside of `fit_resumable`
        self._epoch = 0
        self._first_batch = 0
        self._batches = 0
        self._ending_epoch = False
        self._metrics: list[np.ndarray] | None = None
        self._generators: dict[str, np.ndarray] | None = None

    @property
    def position(self) -> tuple[int, int]:
        """The epoch and batch (both from 0) at which the run resumes; (0, 0) if there is no file.

        Raises:
            ValueError: If the file is not a checkpoint, or belongs to a run with another
                fingerprint or other data.
        """
        notes = self._notes()
        return (notes["epoch"], notes["batch"]) if notes else (0, 0)

    @property
    def stopped(self) -> bool:
        """Whether a callback ended the run, which is therefore complete before its last epoch."""
        return bool(self._notes().get("stopped"))

    def _notes(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        notes = read_training_notes(self.path)
        former, here = notes["fingerprint"], self.fingerprint
        if self._data:
            former, here = {**former, **notes["data"]}, {**here, **self._data}
        if former != here:
            names = [n for n in {**former, **here} if former.get(n) != here.get(n)]
            raise ValueError(
                f"{self.path} belongs to another run: "
                + ", ".join(f"{n} is {former.get(n)!r} there, {here.get(n)!r} here" for n in names)
                + ". Use another folder, or the settings of that run."
            )
        return notes

    def _begin(self, batches: TokenBatches | TextWindows, callbacks: Sequence[Any]) -> None:
        """Called by `fit_resumable`."""
        self.interrupted = None
        self._signal = 0
        self._ending_epoch = False
        self._length = len(batches)
        self._data = {
            "seed": batches.seed,
            "batches": len(batches),
            "examples": batches.num_examples,
        }
        self._remembering = [
            c for c in callbacks if hasattr(c, "memory") and hasattr(c, "remember")
        ]
        notes = self._notes()
        memories = notes["memories"] if notes else self._remembering
        if len(memories) != len(self._remembering):
            raise ValueError(
                f"{self.path} holds the states of {len(memories)} callbacks. Received: "
                f"{len(self._remembering)} callbacks with `memory` and `remember`."
            )

    def _recall(self) -> None:
        for callback, memory in zip(self._remembering, self._notes()["memories"], strict=True):
            callback.remember(memory)

    def _save(self, epoch: int, batch: int, stopped: bool = False) -> None:
        """Saves the state after `batch` batches of epoch `epoch`."""
        notes = {
            "epoch": epoch,
            "batch": batch,
            "stopped": stopped,
            "fingerprint": self.fingerprint,
            "data": self._data,
            "memories": [callback.memory() for callback in self._remembering],
        }
        try:
            save_training_state(self.path, self.model, notes)
        except OSError as error:
            good = "The previous checkpoint is still good"
            former = good if self.path.exists() else "There is no earlier checkpoint"
            raise OSError(
                error.errno,
                f"{error.strerror or error}: {self.path} could not be written after batch "
                f"{batch} of epoch {epoch + 1}. {former}. Free some space, and run the same "
                "command again",
            ) from error

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Restores the run from the file; called by Keras."""
        if not self._length:
            raise ValueError(
                "A TrainingCheckpoint works only in `keras_attn.training.fit_resumable`, "
                "which resumes at the batch where the run ended. Received: a plain `fit`."
            )
        self._first_batch = 0
        self._metrics = self._generators = None
        if not self.path.exists():
            return
        notes = load_training_state(self.path, self.model)
        self._recall()
        self._first_batch = notes["batch"]
        if self._first_batch:  # `fit` will reset these
            self._metrics = [
                np.array(keras.ops.convert_to_numpy(v)) for v in self.model.metrics_variables
            ]
            self._generators = generator_states()

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Records the epoch, and restores metrics if a run resumes inside it; called by Keras."""
        self._epoch = epoch
        self._batches = self._first_batch
        self._agreed = (self._batches + 1, self._batches, time.monotonic())
        if self._metrics is not None:
            for variable, value in zip(self.model.metrics_variables, self._metrics, strict=True):
                variable.assign(value)
            self._metrics = None

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Restores global random generators if a run resumes at this batch; called by Keras."""
        if self._generators is not None:  # PyTorch's iterator has drawn a number
            set_generator_states(self._generators)
            self._generators = None

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Saves the run after every `every_steps` batches, before the last batch of an epoch, and
        after a signal, which also ends the run; called by Keras."""
        before, self._batches = self._batches, self._first_batch + batch + 1
        if self._batches >= self._agreed[0]:
            self._agree()
        if self._batches >= self._length:
            # Of an epoch that was one group of batches there is no file before its end.
            self._ending_epoch = before > 0
            if self.interrupted is not None and self._ending_epoch:
                raise _Stop  # the last batches will be repeated
            return
        due = self._batches // self.every_steps > before // self.every_steps
        last = self._batches + self.model.steps_per_execution >= self._length
        if due or last or self.interrupted is not None:
            self._save(self._epoch, self._batches)
        if self.interrupted is not None:
            raise _Stop

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Saves the run at the end of an epoch, and ends it after a signal; called by Keras."""
        self._ending_epoch = False
        self._first_batch = 0
        if self._batches < self._length:  # a callback stopped the training in the epoch
            self._save(epoch, self._batches, stopped=True)
        else:
            self._save(epoch + 1, 0, stopped=self.model.stop_training)
        self._agree()
        if self.interrupted is not None:
            raise _Stop

    def _interrupt(self, number: int) -> None:
        """Called by the signal handler."""
        self._signal = number
        if num_processes() > 1:
            return
        self.interrupted = number
        # Measuring takes long, and the file is written. But while TensorFlow traces a function,
        # `keras.ops.shape` would swallow the exception, and the function would fail.
        if self._ending_epoch and not _traces():
            raise _Stop

    def _agree(self) -> None:
        """Asks about once a second whether any process received a signal: all stop together."""
        if num_processes() == 1:
            return
        _, before, since = self._agreed
        seconds = max(time.monotonic() - since, 1e-3)
        received, batches = greatest([self._signal, int((self._batches - before) / seconds)])
        self._agreed = (self._batches + max(1, batches), self._batches, time.monotonic())
        self.interrupted = received or None


def _traces() -> bool:
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()


class _Stop(BaseException):
    """Leaves `fit` immediately, before the end of the epoch."""


def fit_resumable(
    model: keras.Model,
    batches: TokenBatches | TextWindows,
    checkpoint: TrainingCheckpoint,
    epochs: int,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
) -> bool:
    """Trains like `model.fit`, from the position of the checkpoint to the end of the last epoch.

    If a run was interrupted (by Ctrl-C, SIGTERM, `kill -9` or a full disk), the same call resumes
    the run with the same batches in the same order and the same dropout. The run reaches the same
    weights if the backend is deterministic. On CPUs, TensorFlow is deterministic after
    `tf.config.experimental.enable_op_determinism()`, which `seed_everything` calls.

    Args:
        model: A compiled model.
        batches: Training data: batches of `keras_attn.batches`, such as `TokenBatches` or
            `TextWindows`.
        checkpoint: The checkpoint of the run, called after `callbacks`.
        epochs: Total number of passes over the data.
        callbacks: Keras callbacks. If a run resumes inside an epoch that is not the last, `fit` is
            called twice, and therefore also `on_train_begin`. The checkpoint stores the state of
            callbacks that have the methods `memory` and `remember`.
        verbose: Verbosity of the Keras progress bar.

    Returns:
        True if the last epoch or a callback ended the run, and False if a signal interrupted it
        (`checkpoint.interrupted`). The model has the state of the checkpoint; after a complete run,
        it has the averaged weights if the optimizer keeps them, as after `fit`.

    Raises:
        TypeError: If `batches` has another type, such as a `tf.data.Dataset`. Train on such data
            with `model.fit` and `keras.callbacks.BackupAndRestore`, which resumes whole epochs.
        ValueError: If the checkpoint is damaged or belongs to another run, `callbacks` has another
            number of callbacks with `memory` and `remember`, or weights become infinite or NaN.
        OSError: If the checkpoint cannot be written. The previous file is still valid.

    Example:

    >>> import tempfile
    >>> from keras_attn.models import TransformerEncoderDecoderConfig
    >>> model = TransformerEncoderDecoderConfig(9, num_layers=1, dim=8).build()
    >>> model.compile("adam", MaskedCrossEntropy(), jit_compile=False)
    >>> batches = TokenBatches([[5, 6, 7]], [[8, 3]], start_id=1, end_id=2)
    >>> checkpoint = TrainingCheckpoint(os.path.join(tempfile.mkdtemp(), "run.npz"))
    >>> fit_resumable(model, batches, checkpoint, epochs=2, verbose=0), checkpoint.position
    (True, (2, 0))
    """
    known = all(hasattr(batches, name) for name in ("seed", "num_examples", "set_epoch"))
    if not known or not isinstance(batches, keras.utils.PyDataset):
        raise TypeError(
            "Expected `batches` of `keras_attn.batches`, such as `TokenBatches`. Received: "
            f"{type(batches).__name__}, whose order cannot be repeated. To train on other "
            "data, use `model.fit` and `keras.callbacks.BackupAndRestore`, which resumes "
            "whole epochs."
        )
    remove_partial_files(checkpoint.path)
    checkpoint._begin(batches, callbacks)
    notes = checkpoint._notes()
    # An epoch of one step has no file before its end, when other files of the run are written.
    begins = not notes and (not epochs or len(batches) <= model.steps_per_execution)
    if notes or begins:
        # A batch builds the metrics. A test step changes neither weights nor seeds.
        model.test_on_batch(*batches[0])
        if num_processes() > 1:
            model.test_function = None  # of all processes; scores are computed by one
    if notes and (notes["stopped"] or notes["epoch"] >= epochs):
        load_training_state(checkpoint.path, model)
        checkpoint._recall()
        model.optimizer.finalize_variable_values(model.trainable_variables)
        return True
    epoch, first = (notes["epoch"], notes["batch"]) if notes else (0, 0)
    if not epochs:
        end_without_epochs(model, callbacks)
    if begins:
        checkpoint.set_model(model)
        model.optimizer.build(model.trainable_variables)
        checkpoint._save(0, 0, stopped=not epochs)
    if not epochs:
        return True
    watching = [EpochOrder(batches), *callbacks, checkpoint]
    settings = {
        "shuffle": False,  # TokenBatches shuffles
        "verbose": verbose,
        "callbacks": watching,
    }
    try:
        with _Signals(checkpoint):
            if first:
                batches.set_epoch(epoch)
                rest = rest_of_epoch(batches, first)
                part = {**settings, "callbacks": [PartOfRun(epochs, first), *watching]}
                model.fit(rest, initial_epoch=epoch, epochs=epoch + 1, **part)
                epoch += 1
            if epoch < epochs and not (first and model.stop_training):
                whole = without_autotuning(batches)
                model.fit(whole, initial_epoch=epoch, epochs=epochs, **settings)
    except _Stop:
        for callback in callbacks:
            callback.on_train_end()
        if checkpoint.path.exists():
            load_training_state(checkpoint.path, model)
        return checkpoint.position[0] >= epochs
    return True


def end_without_epochs(model: keras.Model, callbacks: Sequence[keras.callbacks.Callback]) -> None:
    """Calls `on_epoch_end` for epoch 0 if a model is trained for 0 epochs."""
    logs: dict[str, float] = {}
    for callback in callbacks:
        callback.set_model(model)
        callback.on_epoch_end(-1, logs)


class _Signals:
    """Delays the first signal to the end of the batch; the second one acts immediately."""

    def __init__(self, checkpoint: TrainingCheckpoint):
        self.checkpoint = checkpoint
        self.former: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)  # Windows has no SIGHUP
                # Ignored signals stay ignored, as under nohup.
                if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self.former[number] = signal.signal(number, self._note)

    def __exit__(self, *error: Any) -> None:
        self._restore()

    def _restore(self) -> None:
        for number, handler in self.former.items():
            signal.signal(number, handler)
        self.former = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        # `print` may be what was interrupted, and the reader of the output may be gone.
        with contextlib.suppress(OSError):
            os.write(2, b"\nStopping soon, and saving progress. A second signal stops at once.\n")
        self.checkpoint._interrupt(number)
