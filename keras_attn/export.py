"""SavedModels that take and give strings, and need nothing but TensorFlow."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras


def export_text_function(
    path: str | os.PathLike,
    make_function: Callable[[Any], tuple[Callable, Sequence[Any]]],
    variables: Sequence[keras.Variable],
    examples: Sequence[str],
    expected: dict[str, list[str]],
) -> None:
    """Exports a function from strings to strings, loads it and compares it.

    Args:
        path: Folder of the SavedModel; it must not be there, or be empty.
        make_function: Called with the module `tensorflow`; returns `function(text (B,) string) ->
            dict of string tensors`, made of TensorFlow ops and `keras.ops`, and the trackable
            objects (`tf.Module`s with tables) that it uses.
        variables: The Keras variables that it reads.
        examples: Texts to try it with.
        expected: What it must give for them.

    Raises:
        FileExistsError: If the folder is there and not empty.
        RuntimeError: On another backend, or if the loaded SavedModel gives something else.
    """
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Export runs on the TensorFlow backend. Received: backend "
            f"{keras.backend.backend()!r}. Save the task, and load and export it in a process with "
            "KERAS_BACKEND=tensorflow: files are the same on all backends."
        )
    path = Path(path)
    check_new_folder(path)
    import tensorflow as tf

    module = tf.Module(name="keras_attn_export")
    function, module.resources = make_function(tf)
    module.variables_ = [variable.value for variable in variables]
    module.serve = tf.function(
        function,
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
        autograph=False,
    )
    signature = module.serve.get_concrete_function()
    tf.saved_model.save(module, str(path), signatures={"serving_default": signature})

    loaded = tf.saved_model.load(str(path)).signatures["serving_default"]
    outputs = loaded(text=tf.constant(list(examples)))
    for name, values in expected.items():
        received = [text.decode("utf-8") for text in outputs[name].numpy().tolist()]
        if received != list(values):
            raise RuntimeError(
                f"The SavedModel at {path} gives another `{name}` than the Python object. "
                f"Expected: {values}. Received: {received}."
            )


def export_in_child_process(
    task: str, save: Callable[[Path], None], path: str | os.PathLike, **settings: Any
) -> None:
    """Exports a task by a process with the TensorFlow backend, from its saved file.

    Args:
        task: Name of its class in `keras_attn.tasks`.
        save: Its method `save`.
        path: Folder of the SavedModel.
        **settings: Numbers: further arguments of its method `export`.

    Raises:
        FileExistsError: If the folder is there and not empty.
        RuntimeError: If the process fails; the message is the end of its own.
    """
    check_new_folder(Path(path))
    script = (
        "import json, sys\n"
        "import keras_attn.tasks\n"
        "task = getattr(keras_attn.tasks, sys.argv[1]).load(sys.argv[2])\n"
        "task.export(sys.argv[3], **json.loads(sys.argv[4]))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "task"
        save(file)
        arguments = [task, str(file), str(Path(path).absolute()), json.dumps(settings)]
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            env={**os.environ, "KERAS_BACKEND": "tensorflow"},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(
            f"The export to {path} by a process with KERAS_BACKEND=tensorflow failed:\n"
            + done.stderr[-2000:]
        )


def check_new_folder(path: Path) -> None:
    """Raises a FileExistsError where a folder is there and not empty."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(f"{path} is there already. Give another folder, or remove it first.")
