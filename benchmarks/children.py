"""The parent's side of `benchmarks.child`."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.child import OUT_OF_MEMORY

ROOT = Path(__file__).parents[1]


class ChildError(RuntimeError):
    """What a child could not do; `status` is a word for the table."""

    def __init__(self, status: str, message: str):
        super().__init__(message)
        self.status = status


class Child:
    """A process with one contender.

    Args:
        backend: For KERAS_BACKEND.
        device: `"cpu"` or `"gpu"`.
        cores: Processors that it may use; all if None.
        timeout: Most seconds for an answer.
    """

    def __init__(
        self, backend: str, device: str = "cpu", cores: int | None = None, timeout: float = 600.0
    ):
        self.timeout = timeout
        self.said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self.left = b""
        allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        allowed = allowed[:cores]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            cwd=ROOT,
            env=environment(backend, device, len(allowed) or cores),
        )
        if cores and allowed:
            os.sched_setaffinity(self.process.pid, allowed)

    def ask(self, do: str, **values: Any) -> dict[str, Any]:
        """Sends a request and returns the answer.

        Raises:
            ChildError: If it fails, dies, or takes too long.
        """
        try:
            self.process.stdin.write(json.dumps({"do": do, **values}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self._died()
        reply = json.loads(self._line())
        if "answer" in reply:
            return reply["answer"]
        kind, message = next(iter(reply.items()))
        raise ChildError(kind.replace("_", " "), message)

    def _line(self) -> bytes:
        while b"\n" not in self.left:
            ready, _, _ = select.select([self.process.stdout], [], [], self.timeout)
            if not ready:
                self.close()
                raise ChildError("too long", f"No answer in {self.timeout:.0f} s.")
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                self._died()
            self.left += more
        line, self.left = self.left.split(b"\n", 1)
        return line

    def _died(self) -> None:
        code = self.process.wait()
        self.said.seek(0)
        said = self.said.read()[-4000:]
        status = "error"
        # The kernel kills what takes too much; C++ ends itself where an allocation fails.
        if code == -signal.SIGKILL or (code < 0 and OUT_OF_MEMORY.search(said)):
            status = "out of memory"
        raise ChildError(status, f"The process ended with {code}.\n{said}")

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self.process.poll() is None

    def close(self) -> None:
        """Ends the process."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.said.close()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def environment(backend: str, device: str, cores: int | None) -> dict[str, str]:
    """Of a child: its backend, its device, its threads; no downloads."""
    more = {
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    if device == "cpu":
        more |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    if cores:
        more["OMP_NUM_THREADS"] = str(cores)
    return {**os.environ, **more}
