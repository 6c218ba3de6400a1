"""Fresh Python processes for tests: of a backend, or with TensorFlow and without our package.

What a script may import is imported once for all of a worker's tests (`process_server.py`). What
each of these imports brought, a script finds in `imported.by`.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import kept

HERE = Path(__file__).parent
# What is imported beforehand. "alone": as on a server, where there is TensorFlow, and neither our
# package nor Keras nor tensorflow-text.
KINDS = {
    "alone": ("no keras_attn", "no keras", "no tensorflow_text", "tensorflow"),
    "tensorflow": ("keras", "keras_attn", "keras_attn.tasks", "keras_attn.cli"),
    "jax": ("keras", "keras_attn", "keras_attn.tasks"),
    "torch": ("keras", "keras_attn", "keras_attn.tasks"),
}

# What JAX compiles for a script, and it compiles each operation, other scripts take from here.
JAX_CACHE = {
    "JAX_COMPILATION_CACHE_DIR": str(kept.FOLDER / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def package_folder() -> str:
    """Where the package is imported from here: the tree, or where it is installed."""
    import keras_attn  # not at the top: the process that hands out the tests needs none

    return str(Path(keras_attn.__file__).parents[1])


class Ended(NamedTuple):
    """A process that has ended."""

    returncode: int
    stdout: str
    stderr: str


class Server:
    """One interpreter that forks for each script."""

    running: dict[str, "Server"] = {}  # noqa: RUF012

    def __init__(self, kind: str):
        alone = kind == "alone"
        environment = {
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "OMP_NUM_THREADS": "1",  # PyTorch's threads wait for each other on a busy machine
            **({} if alone else {"KERAS_BACKEND": kind}),
            **(JAX_CACHE if kind == "jax" else {}),
        }
        command = [sys.executable, *(["-I"] if alone else []), str(HERE / "process_server.py")]
        path = "" if alone else os.pathsep.join([package_folder(), str(HERE)])
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, path, *KINDS[kind]],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )

    @classmethod
    def of(cls, kind: str) -> "Server":
        """The server of a kind, started where there is none."""
        if kind not in cls.running:
            cls.running[kind] = cls(kind)
        return cls.running[kind]

    def ask(self, request: dict[str, Any]) -> int:
        """Runs a script; returns its exit status."""
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise RuntimeError(f"The server of processes has ended: {self.errors.read()[-3000:]}")
        return int(line)

    @classmethod
    def close(cls) -> None:
        """Ends all of them."""
        while cls.running:
            server = cls.running.popitem()[1]
            server.process.stdin.close()
            server.process.wait()
            server.process.stdout.close()
            server.errors.close()


def run_python(
    kind: str,
    script: str | Path,
    *arguments: Any,
    stdin: str = "",
    cwd: str | Path | None = None,
    path: Sequence[str | Path] = (),
    errors: Sequence[str] = (),
    check: bool = True,
    **environment: str,
) -> Ended:
    """Runs a script in a process of its own.

    Args:
        kind: One of `KINDS`.
        script: The path of a file, or Python code.
        arguments: Its arguments.
        stdin: What it reads.
        cwd: Where it runs; a temporary folder if None.
        path: Where it imports from, beside what the kind has.
        errors: Names of warnings that are errors.
        check: Whether the test fails where the script does.
        environment: Further variables.
    """
    with tempfile.TemporaryDirectory() as folder:
        said = {name: os.path.join(folder, name) for name in ("stdout", "stderr")}
        request = {
            "script": str(script.resolve()) if isinstance(script, Path) else None,
            "code": script if isinstance(script, str) else None,
            "arguments": [str(argument) for argument in arguments],
            "stdin": stdin,
            "cwd": str(cwd or folder),
            "path": [str(part) for part in path],
            "errors": list(errors),
            "environment": environment,
            **said,
        }
        status = Server.of(kind).ask(request)
        texts = [Path(file).read_text(encoding="utf-8", errors="replace") for file in said.values()]
    ended = Ended(status, *texts)
    if check and status != 0:
        raise AssertionError(f"The script ended with {status}: {ended.stderr[-3000:]}")
    return ended


def answer(*arguments: Any, **settings: Any) -> Any:
    """What a script prints in its last line, as JSON."""
    return json.loads(run_python(*arguments, **settings).stdout.strip().splitlines()[-1])
