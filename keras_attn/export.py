"""SavedModels that take and give strings, and need nothing but TensorFlow."""

import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attn.files import check_writable
from keras_attn.ops.compilers import tracing_for

_MARK = "saved_model.pb"


def export_text_functions(
    path: str | os.PathLike,
    make_functions: Callable[[Any], tuple[Mapping[str, Callable], Sequence[Any]]],
    variables: Sequence[keras.Variable],
    examples: Mapping[str, Any],
    expected: Mapping[str, Mapping[str, Any]],
    tolerance: float = 1e-4,
    overwrite: bool = False,
    requirements: Sequence[str] = ("tensorflow",),
) -> None:
    """Exports functions of strings, loads them, and compares them with what they must give.

    The SavedModel is made beside its place, and put there at the end: an export that fails leaves
    what was there before. A file `requirements.txt` in it names, for pip, what a process must have
    and import to load it.

    Args:
        path: Folder of the SavedModel.
        make_functions: Called with the module `tensorflow`; returns, by the names of their
            signatures, functions of the inputs by their names to a dict of tensors, made of
            TensorFlow ops and `keras.ops`, and the trackable objects (`tf.Module`s with tables)
            that they use.
        variables: The Keras variables that they read.
        examples: The inputs by their names, with values to try them with: a list of strings, or
            numbers as `tf.constant` takes them. A value's dtype and rank are those of the input;
            all of its axes may have any length.
        expected: For each signature the outputs that it must give for these inputs, by name.
        tolerance: Greatest difference of floats.
        overwrite: Whether a SavedModel that is there is replaced.
        requirements: Modules that a process must import to load it.

    Raises:
        FileExistsError: If the folder is there and not empty, unless it is a SavedModel and
            `overwrite` is given.
        PermissionError: If its parent cannot be written to.
        RuntimeError: On another backend, or if the loaded SavedModel gives something else.

    Example:

    >>> place = Path(tempfile.mkdtemp()) / "model"
    >>> def functions(tf):
    ...     def repeat(text, count):
    ...         return {"text": tf.strings.reduce_join(tf.repeat(text[None], count, 0), 0)}
    ...     return {"serving_default": repeat}, []
    >>> expected = {"serving_default": {"text": ["aaa", "bbb"]}}
    >>> export_text_functions(place, functions, [], {"text": ["a", "b"], "count": 3}, expected)
    >>> (place / "saved_model.pb").is_file()
    True
    """
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Export runs on the TensorFlow backend. Received: backend "
            f"{keras.backend.backend()!r}. Save the task, and load and export it in a process with "
            "KERAS_BACKEND=tensorflow: files are the same on all backends."
        )
    with replaced_folder(path, overwrite) as folder:
        import tensorflow as tf

        module = tf.Module(name="keras_attn_export")
        functions, module.resources = make_functions(tf)
        module.variables_ = [variable.value for variable in variables]
        inputs = {name: _constant(tf, value) for name, value in examples.items()}
        specs = {
            name: tf.TensorSpec([None] * value.shape.rank, value.dtype, name=name)
            for name, value in inputs.items()
        }
        # Not attributes of the module: those would be traced a second time.
        functions = {
            name: tf.function(tracing_for(xla=False)(f), autograph=False)
            for name, f in functions.items()
        }
        signatures = {name: f.get_concrete_function(**specs) for name, f in functions.items()}
        tf.saved_model.save(module, str(folder), signatures=signatures)
        packages = [name.replace("_", "-") for name in requirements]
        lines = [f"{name}=={importlib.metadata.version(name)}\n" for name in packages]
        (folder / "requirements.txt").write_text("".join(lines), encoding="utf-8")

        loaded = tf.saved_model.load(str(folder)).signatures
        for name, outputs in expected.items():
            received = loaded[name](**inputs)
            for output, values in outputs.items():
                check_equal(f"{name}: {output}", received[output].numpy(), values, tolerance)


def _constant(tf: Any, value: Any) -> Any:
    """Strings go in as they are: through NumPy they would lose NULs at their ends."""
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        value = [item.encode("utf-8") for item in value]
    return tf.constant(value)


def check_equal(name: str, received: np.ndarray, expected: Any, tolerance: float) -> None:
    """Raises a RuntimeError where a SavedModel's output is not what the Python object gives.

    Args:
        name: Name of the output.
        received: The output. Strings are bytes.
        expected: Strings, booleans or floats, of the same shape.
        tolerance: Greatest difference of floats.

    Example:

    >>> check_equal("text", np.array([b"a", b"b"], object), ["a", "b"], tolerance=0)
    """
    expected = np.asarray(expected, object if received.dtype == object else None)
    if received.dtype == object:
        received = np.vectorize(lambda text: text.decode("utf-8"), [object])(received)
    message = f"The SavedModel gives another `{name}` than the Python object, and is not kept. "
    if received.shape != expected.shape:
        raise RuntimeError(
            f"{message}Expected: shape {expected.shape}. Received: shape {received.shape}."
        )
    if received.dtype.kind == "f":
        same = np.isclose(received, expected, rtol=0, atol=tolerance)
    else:
        same = received == expected
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        raise RuntimeError(
            f"{message}Expected: {expected[at]!r} at {at}. Received: {received[at]!r}."
        )


def with_a_row(tf: Any, function: Callable, spare: Mapping[str, Any] | None = None) -> Callable:
    """Makes a function of at least one row one of any number of rows.

    Loops and some layers want a row: an empty batch gets one, which is dropped from the outputs.

    Args:
        tf: The module `tensorflow`.
        function: A function of tensors by name to a dict of tensors, the batch as their first axis.
            Scalars among the inputs are handed on.
        spare: Inputs of the row that an empty batch gets, by name; zeros and `""` if not there.

    Returns:
        The function.

    Example:

    >>> import tensorflow as tf
    >>> def lengths(text):
    ...     return {"length": tf.strings.length(text)}
    >>> with_a_row(tf, lengths)(text=tf.constant([], tf.string))["length"].shape
    TensorShape([0])
    """

    def run(**inputs: Any) -> dict[str, Any]:
        batched = {name: x for name, x in inputs.items() if x.shape.rank}
        rows = tf.shape(next(iter(batched.values())))[0]
        more = tf.cast(rows == 0, tf.int32)
        for name, x in batched.items():
            value = tf.zeros((), x.dtype) if name not in (spare or ()) else spare[name]
            row = tf.fill(tf.concat([[more], tf.shape(x)[1:]], axis=0), value)
            inputs[name] = tf.concat([x, row], axis=0)
        return {name: output[:rows] for name, output in function(**inputs).items()}

    return run


def check_batch_first(expected: Mapping[str, Mapping[str, Any]], rows: int) -> None:
    """Raises a RuntimeError if an output has no row for each input, as TensorFlow Serving wants."""
    for signature, outputs in expected.items():
        for name, value in outputs.items():
            shape = np.shape(value)
            if not shape or shape[0] != rows:
                raise RuntimeError(
                    f"Expected the batch as the first axis of each output. Received: shape {shape} "
                    f"of `{signature}: {name}`, for {rows} rows."
                )


def export_in_child_process(
    task: type,
    save: Callable[[Path], None],
    path: str | os.PathLike,
    overwrite: bool = False,
    **settings: Any,
) -> None:
    """Exports a task by a process with the TensorFlow backend, from its saved file.

    Args:
        task: Its class, in a module that can be imported.
        save: Its method `save`.
        path: Folder of the SavedModel.
        overwrite: Whether a SavedModel that is there is replaced.
        **settings: JSON-safe values: further arguments of its method `export`.

    Raises:
        FileExistsError: If the folder is there and not empty, unless it is a SavedModel and
            `overwrite` is given.
        PermissionError: If its parent cannot be written to.
        RuntimeError: If the process fails; the message is the end of its own.
    """
    path = check_place(path, overwrite)
    script = (
        "import importlib, json, sys\n"
        "sys.path[:0] = json.loads(sys.argv[5])\n"
        "module, _, name = sys.argv[1].rpartition('.')\n"
        "task = getattr(importlib.import_module(module), name).load(sys.argv[2])\n"
        "task.export(sys.argv[3], **json.loads(sys.argv[4]))\n"
    )
    name, paths = f"{task.__module__}.{task.__qualname__}", json.dumps(sys.path)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "task"
        save(file)
        settings = json.dumps({**settings, "overwrite": overwrite})
        done = subprocess.run(
            [sys.executable, "-c", script, name, str(file), str(path), settings, paths],
            env={**os.environ, "KERAS_BACKEND": "tensorflow"},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(
            f"The export to {path} by a process with KERAS_BACKEND=tensorflow failed:\n"
            + done.stderr[-2000:]
        )


def check_place(path: str | os.PathLike, overwrite: bool = False) -> Path:
    """Finds out, before any work, whether a SavedModel may be and can be written.

    Args:
        path: Folder of the SavedModel; its parents are made.
        overwrite: Whether a SavedModel may be there.

    Returns:
        The path without links and `~`.

    Raises:
        FileExistsError: If something else is there, or a SavedModel without `overwrite`.
        PermissionError: If its parent cannot be written to.

    Example:

    >>> check_place(Path(tempfile.mkdtemp()) / "new").name
    'new'
    """
    path = Path(path).expanduser().resolve()
    if path.is_dir() and os.path.ismount(path):
        raise FileExistsError(f"{path} is a mounted folder. Give a new folder inside it.")
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file. Give the path of a folder.")
    if path.exists() and any(path.iterdir()):
        is_model = (path / _MARK).is_file()
        if not overwrite:
            how = ", remove it, or overwrite it (overwrite=True, --overwrite)"
            advice = how if is_model else ""
            raise FileExistsError(f"{path} is there and not empty. Give another folder{advice}.")
        if not is_model:
            raise FileExistsError(
                f"{path} is not empty, and has no {_MARK}: only a SavedModel is overwritten. Give "
                "another folder."
            )
    check_writable(path.parent)
    return path


@contextlib.contextmanager
def replaced_folder(path: str | os.PathLike, overwrite: bool = False) -> Iterator[Path]:
    """Gives the path of a new folder that takes the place of `path` when the block ends well.

    Args:
        path: Folder of a SavedModel.
        overwrite: Whether one that is there is replaced.

    Yields:
        The path of a folder that is not there yet, beside `path`. After an error it is removed, and
        `path` is as it was.

    Raises:
        FileExistsError: As `check_place`, before the block or after it.
        PermissionError: As `check_place`.

    Example:

    >>> place = Path(tempfile.mkdtemp()) / "model"
    >>> with replaced_folder(place) as folder:
    ...     folder.mkdir()
    >>> place.is_dir()
    True
    """
    path = check_place(path, overwrite)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as beside:
        new, old = Path(beside) / "new", Path(beside) / "old"
        yield new
        check_place(path, overwrite)  # it may have changed meanwhile
        if path.exists():
            path.rename(old)
        try:
            new.rename(path)
        except BaseException:
            if old.exists():
                old.rename(path)
            raise
