"""Runs that can be stopped at any step and go on from there."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import keras
import numpy as np

from keras_attn.datasets import EpochOrder, TokenBatches
from keras_attn.files import remove_partial_files
from keras_attn.training.seeding import generator_states, set_generator_states
from keras_attn.training.state import (
    load_training_state,
    read_training_notes,
    save_training_state,
)


class Remembers(Protocol):
    """A callback with a memory that belongs into the checkpoint.

    Example:

    >>> class Count(keras.callbacks.Callback):
    ...     epochs = 0
    ...
    ...     def on_epoch_end(self, epoch, logs=None):
    ...         self.epochs += 1
    ...
    ...     def memory(self):
    ...         return {"epochs": self.epochs}
    ...
    ...     def remember(self, memory):
    ...         self.epochs = memory["epochs"]
    """

    def memory(self) -> dict[str, Any]:
        """Returns JSON-safe values."""

    def remember(self, memory: dict[str, Any]) -> None:
        """Takes back what `memory` returned."""


class TrainingCheckpoint(keras.callbacks.Callback):
    """Keeps a run in one file: weights, optimizer, seeds, metrics, and the place in the data.

    The file is written after each epoch, after every `every_steps` batches, and when the process
    gets SIGINT (Ctrl-C) or SIGTERM, which end the training after the batch at hand; a second
    signal ends it at once, and the file stays as it was. A new file replaces the old one only when
    it is whole. With `fit_resumable` a run that was ended in any way goes on at the step of the
    file, in the same order of the data, and comes to what it would have come to.

    Put it last among the callbacks, so that what they remember is up to date.

    Args:
        path: The file.
        every_steps: Batches between two writings within an epoch.
        fingerprint: JSON-safe values that name the run: data and settings. A file with others is
            refused.
        callbacks: Callbacks with `memory()` and `remember(memory)`, whose memories go along.

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
        callbacks: Sequence[Any] = (),
    ):
        super().__init__()
        if isinstance(every_steps, bool) or not isinstance(every_steps, int) or every_steps < 1:
            raise ValueError(
                f"`every_steps` must be a positive integer. Received: {every_steps!r}."
            )
        self.path = Path(path).expanduser().absolute()
        self.every_steps = every_steps
        self.fingerprint = fingerprint or {}
        self.remembering = list(callbacks)
        self.interrupted: int | None = None
        """The signal that ended the training, or None."""
        self._epoch_length: int | None = None
        self._first_batch = 0
        self._batches = 0
        self._epoch = 0
        self._metrics: list[np.ndarray] | None = None
        self._generators: dict[str, np.ndarray] | None = None

    @property
    def position(self) -> tuple[int, int]:
        """The epoch, and the batch in it, with which the run goes on; (0, 0) without a file.

        Raises:
            ValueError: If the file is none of ours, or of another run.
        """
        if not self.path.exists():
            return 0, 0
        notes = read_training_notes(self.path)
        former = notes["fingerprint"]
        if former != self.fingerprint:
            names = [
                n
                for n in {**former, **self.fingerprint}
                if former.get(n) != self.fingerprint.get(n)
            ]
            raise ValueError(
                f"{self.path} belongs to another run: "
                + ", ".join(
                    f"{n} is {former.get(n)!r} there, {self.fingerprint.get(n)!r} here"
                    for n in names
                )
                + ". Give another folder, or the former settings."
            )
        return notes["epoch"], notes["batch"]

    def recall(self) -> None:
        """Gives the callbacks the memories of the file, if there is one."""
        if self.path.exists():
            memories = read_training_notes(self.path)["memories"]
            for callback, memory in zip(self.remembering, memories, strict=True):
                callback.remember(memory)

    def save(self, epoch: int, batch: int) -> None:
        """Writes the file: `batch` batches of epoch `epoch` are done."""
        notes = {
            "epoch": epoch,
            "batch": batch,
            "fingerprint": self.fingerprint,
            "memories": [callback.memory() for callback in self.remembering],
        }
        try:
            save_training_state(self.path, self.model, notes)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror or error}: {self.path} could not be written after batch {batch} "
                f"of epoch {epoch + 1}. The checkpoint before it is still good: make room, and run "
                "the same again",
            ) from error

    def on_train_begin(self, logs: Any = None) -> None:
        """Called by Keras: takes up the run where the file has it."""
        self._first_batch = 0
        self._metrics = self._generators = None
        if self.position == (0, 0):
            return
        notes = load_training_state(self.path, self.model)
        self.recall()
        self._first_batch = notes["batch"]
        if self._first_batch:  # `fit` is about to set these to zero
            self._metrics = [
                np.array(keras.ops.convert_to_numpy(v)) for v in self.model.metrics_variables
            ]
            self._generators = generator_states()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self._epoch = epoch
        self._batches = self._first_batch
        if self._metrics is not None:
            for variable, value in zip(self.model.metrics_variables, self._metrics, strict=True):
                variable.assign(value)
        self._first_batch, self._metrics = 0, None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Called by Keras."""
        if self._generators is not None:  # PyTorch's iterator took a number of its own
            set_generator_states(self._generators)
            self._generators = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self._batches += 1
        if self._batches == self._epoch_length:
            return  # the end of the epoch is the next thing to come
        if self.interrupted is not None or self._batches % self.every_steps == 0:
            self.save(self._epoch, self._batches)
        if self.interrupted is not None:
            raise _Stop

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self.save(epoch + 1, 0)
        if self.interrupted is not None:
            raise _Stop


class _Stop(BaseException):
    """Leaves `fit` at once: an epoch that is not through has no end."""


class _RestOfEpoch(keras.utils.PyDataset):
    """The batches of an epoch from one of them on."""

    def __init__(self, batches: TokenBatches, first: int):
        super().__init__(workers=1)
        self.batches = batches
        self.first = first

    def __len__(self) -> int:
        return len(self.batches) - self.first

    def __getitem__(self, index: int) -> Any:
        return self.batches[self.first + index]


def fit_resumable(
    model: keras.Model,
    batches: TokenBatches,
    checkpoint: TrainingCheckpoint,
    epochs: int,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: Any = "auto",
) -> bool:
    """Trains like `model.fit`, from where the checkpoint is to the end of the last epoch.

    A run that is ended (Ctrl-C, SIGTERM, `kill -9`, a full disk) and started again by the same
    call sees the same batches in the same order, with the same dropout, and reaches the same
    weights, as far as the backend computes the same twice (TensorFlow does on CPUs after
    `tf.config.experimental.enable_op_determinism()`).

    Args:
        model: A compiled model.
        batches: What to train on.
        checkpoint: Where the run is kept; called after `callbacks`.
        epochs: Passes over the data in all.
        callbacks: Keras callbacks. A run that goes on within an epoch calls `fit` twice, and so
            their `on_train_begin` too.
        verbose: Of Keras' progress bar.

    Returns:
        Whether the run is complete; False: a signal ended it (`checkpoint.interrupted`).

    Raises:
        ValueError: If the checkpoint is of another run.
        OSError: If the checkpoint cannot be written; the one before is still good.

    Example:

    >>> import tempfile
    >>> from keras_attn.models import TransformerConfig, encoder_decoder_transformer
    >>> model = encoder_decoder_transformer(TransformerConfig(9, dim=8, intermediate_dim=8))
    >>> model.compile("adam", MaskedCrossEntropy(), jit_compile=False)
    >>> batches = TokenBatches([[5, 6, 7]], [[8, 3]], start_id=1, end_id=2)
    >>> checkpoint = TrainingCheckpoint(os.path.join(tempfile.mkdtemp(), "run.npz"))
    >>> fit_resumable(model, batches, checkpoint, epochs=2, verbose=0), checkpoint.position
    (True, (2, 0))
    """
    remove_partial_files(checkpoint.path.parent)
    checkpoint.interrupted = None
    checkpoint._epoch_length = len(batches)
    settings = {
        "shuffle": False,  # TokenBatches shuffles
        "verbose": verbose,
        "callbacks": [EpochOrder(batches), *callbacks, checkpoint],
    }
    with _Signals(checkpoint), contextlib.suppress(_Stop):
        epoch, first = checkpoint.position
        if first and epoch < epochs:
            batches.set_epoch(epoch)
            model.fit(_rest(batches, first), initial_epoch=epoch, epochs=epoch + 1, **settings)
            epoch += 1
        if epoch < epochs:
            model.fit(batches, initial_epoch=epoch, epochs=epochs, **settings)
    return checkpoint.interrupted is None


def _rest(batches: TokenBatches, first: int) -> Any:
    rest = _RestOfEpoch(batches, first)
    if keras.backend.backend() != "tensorflow":
        return rest
    # Keras would take the lengths of the first two batches for those of all.
    import tensorflow as tf

    ids = tf.TensorSpec((None, None), "int32")
    weight = tf.TensorSpec((None, None), "float32")
    dataset = tf.data.Dataset.from_generator(
        lambda: (rest[i] for i in range(len(rest))),
        output_signature=({"source_ids": ids, "target_ids": ids}, ids, weight),
    )
    return dataset.apply(tf.data.experimental.assert_cardinality(len(rest))).prefetch(2)


class _Signals:
    """The first SIGINT or SIGTERM is a wish, kept for the end of the batch; the second is not."""

    def __init__(self, checkpoint: TrainingCheckpoint):
        self.checkpoint = checkpoint
        self.former: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.former[number] = signal.signal(number, self._note)

    def __exit__(self, *error: Any) -> None:
        self._restore()

    def _restore(self) -> None:
        for number, handler in self.former.items():
            signal.signal(number, handler)
        self.former = {}

    def _note(self, number: int, frame: Any) -> None:
        self.checkpoint.interrupted = number
        self._restore()
        # `print` may be what was interrupted.
        os.write(2, b"\nStopping soon; what was learnt is being kept. Again: at once.\n")
