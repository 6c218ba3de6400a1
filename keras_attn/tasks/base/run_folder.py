"""The folder of a training run."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from keras_attn.files import only_one, remove_partial_files
from keras_attn.settings import Kinds, Settings, differences, read_settings, write_settings
from keras_attn.training import TrainingCheckpoint, TrainingLog, fit_resumable
from keras_attn.training.processes import (
    is_first_process,
    join_processes,
    naming_lost_processes,
    num_processes,
    wait_for_processes,
)

_LONGER = (
    " This run cannot be extended: its learning rate falls to zero over all of its epochs. A run "
    "with schedule='constant' can."
)
SETTINGS, CHECKPOINT, LOG, BEST = "settings.toml", "checkpoint.npz", "log.csv", "best.task"


def join_run(training: type[Settings]) -> None:
    """Connects this process with the others of a run, if the settings allow several devices."""
    join_processes()
    if num_processes() > 1 and "devices" not in [option.name for option in training.declared()]:
        raise ValueError(
            "Expected one process, as this task does not train in several. Received: "
            f"{num_processes()} processes."
        )


@contextlib.contextmanager
def only_run(run_dir: Path | None) -> Iterator[None]:
    """Keeps other runs out of a folder, and waits at the end for the other processes of this run.

    Without a folder, other runs do not matter.
    """
    with contextlib.ExitStack() as stack:
        if run_dir is not None and is_first_process():
            stack.enter_context(only_one(run_dir / ".lock", "trains"))
        stack.enter_context(naming_lost_processes())
        yield
        wait_for_processes()


def can_be_extended(training: object) -> bool:
    """Whether a run can be extended, because its learning rate does not depend on its length."""
    return getattr(training, "schedule", "") == "constant"


def shaping(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that affect the result of a run, keyed by setting."""
    found = {name: value for part in sections.values() for name, value in part.shaping().items()}
    if can_be_extended(sections["training"]):
        del found["epochs"]
    return found


def tidy_run(
    run_dir: Path, kinds: Mapping[str, type[Settings] | Kinds], sections: Mapping[str, Any]
) -> dict[str, Any]:
    """Refuses the folder of another run, and removes leftovers of killed processes.

    A folder with results is also refused if the checkpoint is missing, because a new run would
    overwrite the results. In the returned sections, settings that are not given have the folder's
    values, so that a resumed run keeps its defaults.
    """
    sections = dict(sections)
    path = run_dir / SETTINGS
    if path.exists() and (run_dir / CHECKPOINT).exists():
        try:
            former = read_settings(path, kinds)
        except ValueError as error:
            raise ValueError(
                f"{run_dir} contains a run that this task cannot resume: {error} Use another "
                "folder."
            ) from error
        for name, settings in sections.items():
            if isinstance(settings, Settings):
                kept = {key: former[name].get(key) for key in settings.undecided()}
                sections[name] = dataclasses.replace(settings, **kept)
        changed = [
            difference
            for name, settings in sections.items()
            for difference in differences(
                _longer(kinds[name].made(former[name]), settings), settings
            )
        ]
        if changed:
            longer = any(difference.startswith("epochs is") for difference in changed)
            longer = longer and not can_be_extended(sections["training"])
            raise ValueError(
                f"{run_dir} contains a run with other settings: {'; '.join(changed)}. Use "
                "another folder, or the settings of that run to resume it."
                + (_LONGER if longer else "")
            )
    results = [name for name in (BEST, LOG) if (run_dir / name).exists()]
    if results and not (run_dir / CHECKPOINT).exists():
        raise ValueError(
            f"{run_dir} has {' and '.join(results)} of a run, but not its {CHECKPOINT}. The "
            "run cannot be resumed without it, and its results would be overwritten. Use "
            "another folder, or move the files first."
        )
    for name in (SETTINGS, LOG, BEST):
        remove_partial_files(run_dir / name)
    return sections


def _longer(former: Any, present: Any) -> Any:
    """The former settings with the present number of epochs, if this extends the run."""
    extends = can_be_extended(former) and can_be_extended(present)
    if not extends or present.epochs is None or (former.epochs or 0) > present.epochs:
        return former
    return dataclasses.replace(former, epochs=present.epochs)


def train_in_folder(
    run_dir: Path,
    model: keras.Model,
    batches: Any,
    sections: Mapping[str, Any],
    fingerprint: dict[str, Any],
    callbacks: Sequence[keras.callbacks.Callback],
    say: Callable[[str], Any],
    verbose: Any = None,
) -> tuple[bool, int | None, list[dict[str, Any]]]:
    """Trains to the end of a run, resuming from its folder.

    Returns whether the run is complete, the signal that interrupted it or None, and the rows of the
    log.
    """
    training = sections["training"]
    table = TrainingLog(run_dir / LOG, run_dir / "tensorboard" if training.tensorboard else None)
    checkpoint = TrainingCheckpoint(run_dir / CHECKPOINT, training.checkpoint_steps, fingerprint)
    epoch, batch = checkpoint.position  # a folder that is refused stays as it was
    if is_first_process():
        write_settings(run_dir / SETTINGS, sections)
    if epoch >= training.epochs > 0:
        say("All epochs are done.")
    elif checkpoint.stopped:
        say(f"The run ended early, in epoch {epoch + bool(batch)}.")
    elif epoch or batch:
        say(f"Resuming in epoch {epoch + 1}, batch {batch + 1}.")
    if verbose is None:
        verbose = 1 if sys.stdout.isatty() else 2
    complete = fit_resumable(
        model, batches, checkpoint, training.epochs, [*callbacks, table], verbose
    )
    return complete, checkpoint.interrupted, table.rows
