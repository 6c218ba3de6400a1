"""Export of SavedModels that take and return strings."""

import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import numpy.typing as npt

from keras_attn.files import check_writable, folder_beside
from keras_attn.hints import Size
from keras_attn.ops.compilers import tracing_for
from keras_attn.packages import check_installed
from keras_attn.progress import tell

_MARKS = ("saved_model.pb", "model.onnx", "model.tflite")
"""The file by which an export is recognized, of each kind."""

if TYPE_CHECKING:
    import tensorflow as tf


def export_text_functions(
    path: str | os.PathLike,
    make_functions: Callable[[Any], tuple[Mapping[str, Callable], Sequence[Any]]],
    variables: Sequence[keras.Variable],
    examples: Mapping[str, Any],
    expected: Mapping[str, Mapping[str, Any]],
    tolerance: float = 1e-4,
    share: float = 1.0,
    overwrite: bool = False,
    requirements: Sequence[str] = ("tensorflow",),
    taken: Mapping[str, Sequence[str]] | None = None,
    limits: Mapping[str, int] | None = None,
) -> None:
    """Exports functions of strings, loads them again, and compares their outputs.

    The SavedModel is written to a temporary folder and moved to `path` at the end, so a failed
    export leaves an existing SavedModel unchanged. In the same folder, `requirements.txt` lists the
    packages that a process must import to load the SavedModel, and `limits.json` the limits of
    requests.

    `make_functions(tf)` returns a dict of functions, keyed by signature, and the trackable objects
    (`tf.Module`s with tables) that the functions use. Each function takes named inputs and returns
    a dict of tensors. `share` is the minimum fraction of the rows of an output that must equal the
    expected rows. `taken` lists the input names of signatures that do not take all inputs.
    """
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Export runs on the TensorFlow backend. Received: backend "
            f"{keras.backend.backend()!r}. Save the task, and load and export it in a "
            "process with KERAS_BACKEND=tensorflow."
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
        # Not attributes of the module, which would be traced a second time.
        traced = {
            name: tf.function(tracing_for(xla=False)(f), autograph=False)
            for name, f in functions.items()
        }
        taken = {name: (taken or {}).get(name, tuple(inputs)) for name in functions}
        signatures = {}
        for name, f in traced.items():
            tell(f"tracing the signature {name}")
            signatures[name] = f.get_concrete_function(**{x: specs[x] for x in taken[name]})
        tell("writing the SavedModel")
        tf.saved_model.save(module, str(folder), signatures=signatures)
        packages = [name.replace("_", "-") for name in requirements]
        lines = [f"{name}=={importlib.metadata.version(name)}\n" for name in packages]
        (folder / "requirements.txt").write_text("".join(lines), encoding="utf-8")
        more = [name for name in requirements if name != "tensorflow"]
        if more:
            tell(f"a process that loads the SavedModel must import {' and '.join(more)} before")
        if limits:
            text = json.dumps(dict(limits), indent=2) + "\n"
            (folder / "limits.json").write_text(text, encoding="utf-8")

        tell("loading the SavedModel, and comparing its outputs")
        loaded = tf.saved_model.load(str(folder)).signatures
        for name, outputs in expected.items():
            received = loaded[name](**{x: inputs[x] for x in taken[name]})
            for output, values in outputs.items():
                found = received[output].numpy()
                check_equal(f"{name}: {output}", found, values, tolerance, share)


def _constant(tf: ModuleType, value: object) -> Any:
    """Returns a constant, without NumPy for strings, where they would lose NULs at the end."""
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        value = [item.encode("utf-8") for item in value]
    return tf.constant(value)


def check_equal(
    name: str, received: np.ndarray, expected: npt.ArrayLike, tolerance: float, share: float = 1.0
) -> None:
    """Raises a RuntimeError if an output of a SavedModel differs from that of the Python object.

    If `share` is below 1, so that not all rows must be equal, the outputs may differ in the sizes
    of all axes except the first; missing values count as zeros and `""`.
    """
    expected = np.asarray(expected, object if received.dtype == object else None)
    if received.dtype == object:
        received = np.vectorize(lambda text: text.decode("utf-8"), [object])(received)
    message = f"The SavedModel gives another `{name}` than the Python object, and is not kept. "
    if share < 1 and received.ndim == expected.ndim and len(received) == len(expected):
        shape = np.maximum(received.shape, expected.shape)
        received, expected = _filled_up(received, shape), _filled_up(expected, shape)
    if received.shape != expected.shape:
        raise RuntimeError(
            f"{message}Expected: shape {expected.shape}. Received: shape {received.shape}."
        )
    if received.dtype.kind == "f":
        same = np.isclose(received, expected, rtol=0, atol=tolerance)
    else:
        same = received == expected
    if np.mean(same.reshape(len(same), -1).all(axis=1) if same.ndim else same) < share:
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        raise RuntimeError(
            f"{message}Expected: {expected[at]!r} at {at}. Received: {received[at]!r}."
        )


def _filled_up(array: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Appends zeros, or `""`, up to a shape."""
    padded = np.full(shape, "" if array.dtype == object else 0, array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    return padded


def with_a_row(
    tf: ModuleType,
    function: Callable,
    spare: Mapping[str, Any] | None = None,
    whole: Sequence[str] = (),
) -> Callable:
    """Returns a function that accepts batches without rows; unequal batches raise an error.

    Loops and some layers need at least one row, so an empty batch gets a spare row (`spare`, by
    default zeros and `""`), which is removed from the outputs. Inputs in `whole` may have another
    number of rows.
    """

    spares = spare or {}

    def run(**inputs: Any) -> dict[str, Any]:
        batched = {name: x for name, x in inputs.items() if x.shape.rank}
        first, *others = (name for name in batched if name not in whole)
        rows = tf.shape(batched[first])[0]
        checks = []
        for name in others:
            received = tf.shape(batched[name])[0]
            message = tf.strings.format(
                f"Expected as many rows of `{name}` as of `{first}`. Received: {{}} and {{}}.",
                (received, rows),
            )
            checks.append(tf.debugging.Assert(received == rows, [message]))
        with tf.control_dependencies([check for check in checks if check is not None]):
            rows = tf.identity(rows)
        more = tf.cast(rows == 0, tf.int32)
        for name, x in batched.items():
            value = spares[name] if name in spares else tf.zeros((), x.dtype)
            row = tf.fill(tf.concat([[more], tf.shape(x)[1:]], axis=0), value)
            inputs[name] = tf.concat([x, row], axis=0)
        return {name: output[:rows] for name, output in function(**inputs).items()}

    return run


def in_parts(
    tf: ModuleType, function: Callable, size: int, whole: Sequence[str] = ()
) -> Callable[..., dict[str, Any]]:
    """Returns a function that computes at most `size` rows at a time, so that memory is limited.

    Rows must not depend on each other, except for padding: outputs are padded to the longest part
    with zeros, False and `""`. Scalars and the inputs in `whole` are not split.
    """

    def run(**inputs: Any) -> dict[str, Any]:
        parted = [name for name, x in inputs.items() if x.shape.rank and name not in whole]
        rows = tf.shape(inputs[parted[0]])[0]

        def part(start: Size) -> dict[str, Any]:
            return {n: x[start : start + size] if n in parted else x for n, x in inputs.items()}

        if tf.executing_eagerly():
            found = [function(**part(start)) for start in range(0, int(rows), size)]
            return {name: _joined(tf, [x[name] for x in found]) for name in found[0]}

        specs = {
            name: tf.TensorSpec([None, *x.shape[1:]] if name in parted else x.shape, x.dtype)
            for name, x in inputs.items()
        }
        traced = tf.function(function, autograph=False).get_concrete_function(**specs)
        outputs = traced.structured_outputs
        count = -(-rows // size)

        def compute(i: Size, *arrays: Any) -> tuple[Any, ...]:
            found = traced(**part(i * size))
            return i + 1, *(x.write(i, found[n]) for n, x in zip(outputs, arrays, strict=True))

        arrays = [
            tf.TensorArray(x.dtype, count, infer_shape=False, element_shape=x.shape)
            for x in outputs.values()
        ]
        _, *arrays = tf.while_loop(
            lambda i, *arrays: i < count, compute, (0, *arrays), parallel_iterations=1
        )
        return {
            name: _joined_array(tf, x, count, outputs[name])
            for name, x in zip(outputs, arrays, strict=True)
        }

    return run


def _joined(tf: ModuleType, tensors: Sequence[Any]) -> Any:
    """The rows of tensors, padded to the longest."""
    width = tf.reduce_max([tf.shape(x)[1:] for x in tensors], axis=0)
    return tf.concat([_padded(tf, x, width) for x in tensors], axis=0)


def _joined_array(
    tf: ModuleType, array: "tf.TensorArray", count: Size, spec: "tf.TensorSpec"
) -> Any:
    """The rows of a TensorArray's tensors, padded to the longest."""
    width = tf.while_loop(
        lambda i, width: i < count,
        lambda i, width: (i + 1, tf.maximum(width, tf.shape(array.read(i))[1:])),
        (0, tf.zeros([spec.shape.rank - 1], tf.int32)),
        parallel_iterations=1,
    )[1]
    padded = tf.while_loop(
        lambda i, padded: i < count,
        lambda i, padded: (i + 1, padded.write(i, _padded(tf, array.read(i), width))),
        (0, tf.TensorArray(spec.dtype, count, infer_shape=False, element_shape=spec.shape)),
        parallel_iterations=1,
    )[1]
    return tf.ensure_shape(padded.concat(), spec.shape)


def _padded(tf: ModuleType, x: "tf.Tensor", width: "tf.Tensor") -> Any:
    more = tf.concat([[0], width - tf.shape(x)[1:]], axis=0)
    return tf.pad(x, tf.stack([tf.zeros_like(more), more], axis=1))


def limited(
    tf: ModuleType,
    number: "tf.Tensor",
    most: int,
    setting: str,
    expected: str,
    advice: str,
    least: int = 1,
) -> Any:
    """Raises an error in the graph if a number in a request is above a limit.

    Use the returned number in computations, so that they run only after the check.
    """
    message = tf.strings.format(
        f"Expected {expected}. Received: {{}}. {advice}, or export the model with a higher limit "
        f"({setting}).",
        number,
    )
    check = tf.debugging.Assert((number >= least) & (number <= most), [message])
    with tf.control_dependencies([check]):
        return tf.identity(number)


def check_batch_first(expected: Mapping[str, Mapping[str, Any]], rows: int) -> None:
    """Raises a RuntimeError if outputs lack a row per input, which TensorFlow Serving requires."""
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
    """Exports a task from its saved file in a child process with the TensorFlow backend."""
    path = check_place(path, overwrite)
    check_installed("tensorflow", "A SavedModel")
    script = (
        "import importlib, json, sys\n"
        "module, _, name = sys.argv[1].rpartition('.')\n"
        "task = getattr(importlib.import_module(module), name).load(sys.argv[2])\n"
        "task.export(sys.argv[3], **json.loads(sys.argv[4]))\n"
    )
    name = f"{task.__module__}.{task.__qualname__}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "task"
        save(file)
        options = json.dumps({**settings, "overwrite": overwrite})
        arguments = (name, str(file), str(path), options)
        run_on_backend("tensorflow", script, arguments, f"The export to {path} failed")


def run_on_backend(backend: str, script: str, arguments: Sequence[str], what: str) -> None:
    """Runs an export in a child process with a backend and the import paths of this process.

    If it fails, raises a RuntimeError that begins with `what` and ends with the child's output.
    """
    tell(f"exporting in a process with the backend {backend}")
    paths = f"import sys\nsys.path[:0] = {sys.path!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", paths + script, *arguments],
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(
            f"{what}. The process with KERAS_BACKEND={backend} failed:\n{done.stderr[-2000:]}"
        )


def check_place(path: str | os.PathLike, overwrite: bool = False) -> Path:
    """Checks in advance that an export can be written to a folder, and resolves its path."""
    path = Path(path).expanduser().resolve()
    if path.is_dir() and os.path.ismount(path):
        raise FileExistsError(f"{path} is a mounted folder. Give a new folder inside it.")
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file. Give the path of a folder.")
    if path.exists() and any(path.iterdir()):
        is_model = any((path / mark).is_file() for mark in _MARKS)
        if not overwrite:
            how = ", remove it, or overwrite it (overwrite=True, --overwrite)"
            advice = how if is_model else ""
            raise FileExistsError(f"{path} exists and is not empty. Give another folder{advice}.")
        if not is_model:
            raise FileExistsError(
                f"{path} is not empty and has none of {list(_MARKS)}. Only a folder with an "
                "export is overwritten. Give another folder."
            )
    check_writable(path.parent)
    return path


@contextlib.contextmanager
def replaced_folder(path: str | os.PathLike, overwrite: bool = False) -> Iterator[Path]:
    """Yields the path of a new folder that replaces `path` if the block succeeds.

    The new folder is next to `path`, and does not exist yet. If a process was killed in the block,
    the next call for `path` removes its remains.
    """
    path = check_place(path, overwrite)
    with folder_beside(path) as beside:
        new, old = beside / "new", beside / "old"
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
