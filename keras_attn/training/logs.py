"""Training logs in CSV files and for TensorBoard."""

from __future__ import annotations

import csv
import os
import time
from pathlib import Path
from typing import Any

import keras

from keras_attn.files import atomic_write
from keras_attn.packages import needed
from keras_attn.training.processes import is_first_process

_SUFFIX = ".keras_attn"


class TrainingLog(keras.callbacks.Callback):
    """Writes a row for each epoch to a CSV file, and optionally to TensorBoard.

    The columns are `epoch` (from 1), the logs of `fit` and of earlier callbacks, `learning_rate` at
    the end of the epoch, and `seconds` since the start of the run, which do not include pauses
    between an interruption and its resumption. If `fit_resumable` resumes an interrupted run, the
    log continues in the same file, with one row for each epoch.

    Args:
        path: The CSV file, which is replaced atomically after each epoch.
        tensorboard: Folder for the event files of TensorBoard, or None. Event files need the
            package `tensorboardX` (extra `tensorboard`), but not TensorFlow.

    Raises:
        ImportError: If `tensorboard` is given, and `tensorboardX` is not installed.

    Example:

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "log.csv")
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile("sgd", "mse")
    >>> x, y = keras.ops.ones((4, 3)), keras.ops.ones((4, 2))
    >>> history = model.fit(x, y, epochs=2, verbose=0, callbacks=[TrainingLog(path)])
    >>> [line.split(",")[0] for line in Path(path).read_text().splitlines()]
    ['epoch', '1', '2']
    """

    def __init__(self, path: str | os.PathLike, tensorboard: str | os.PathLike | None = None):
        super().__init__()
        self.path = Path(path)
        self.rows: list[dict[str, Any]] = []
        """A dict for each epoch."""
        self._seconds = 0.0
        self._began = time.monotonic()
        self.tensorboard = None if tensorboard is None else Path(tensorboard)
        self._writer: Any = None
        if tensorboard is not None:
            with needed("A log for TensorBoard"):
                import tensorboardX  # noqa: F401

    def memory(self) -> dict[str, Any]:
        """Returns the state for a `TrainingCheckpoint`: a dict of `rows`, a list with a dict for
        each epoch, and `seconds`, the time since the start of the run."""
        return {"rows": self.rows, "seconds": self._now()}

    def remember(self, memory: dict[str, Any]) -> None:
        """Restores the state that `memory` returned."""
        self.rows = list(memory["rows"])
        self._seconds = memory["seconds"]
        self._began = time.monotonic()

    def _now(self) -> float:
        return self._seconds + time.monotonic() - self._began

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Writes the row of the epoch; called by Keras."""
        row: dict[str, Any] = {"epoch": epoch + 1}
        row |= {name: float(value) for name, value in (logs or {}).items()}
        rate = self.model.optimizer.learning_rate
        row["learning_rate"] = float(keras.ops.convert_to_numpy(rate))
        row["seconds"] = round(self._now(), 1)
        self.rows.append(row)
        if not is_first_process():
            return
        with atomic_write(self.path) as partial, open(partial, "w", newline="") as file:
            names = dict.fromkeys(name for row in self.rows for name in row)
            table = csv.DictWriter(file, names)
            table.writeheader()
            table.writerows(self.rows)
        if self.tensorboard is not None:
            self._write_events(self.tensorboard)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Closes the event files; called by Keras."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write_events(self, folder: Path) -> None:
        """Writes the last row; the first call rewrites all rows of an interrupted run."""
        from tensorboardX import SummaryWriter

        rows = self.rows[-1:]
        if self._writer is None:
            for path in folder.glob(f"events.out.tfevents.*{_SUFFIX}"):
                path.unlink()
            self._writer = SummaryWriter(str(folder), flush_secs=10, filename_suffix=_SUFFIX)
            rows = self.rows
        for row in rows:
            for name, value in row.items():
                if name != "epoch":
                    self._writer.add_scalar(name, value, row["epoch"])
