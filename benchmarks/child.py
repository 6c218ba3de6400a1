"""A process with one contender, told by lines of JSON what to do: `python -m benchmarks.child`.

Each line is a request `{"do": ..., ...}`, answered by one line, `{"answer": ...}`,
`{"error": ...}` or `{"out_of_memory": ...}`:

    {"do": "prepare", "module", "job", "case", "settings", "memory_limit"}
                                    -> {"amount", "result", "first", "first_s", "repeats"}
    {"do": "run", "repeats"}        -> {"wall_s", "cpu_s"} of one run
    {"do": "memory"}                -> {"peak_mb"}
    {"do": "quit"}

Whatever the contender prints goes to the standard error.
"""

import importlib
import json
import os
import re
import resource
import sys
import time
import traceback
from typing import Any, TextIO

from benchmarks.machine import device_peak, process_memory

OUT_OF_MEMORY = re.compile(
    r"out of memory|resource_?exhausted|bad_alloc|(cannot|can't) allocate|MemoryError|\bOOM\b",
    re.IGNORECASE,
)
LEAST_SECONDS = 0.25  # of a round: shorter runs are repeated


class Contender:
    """The state of the process."""

    def prepare(
        self, module: str, job: str, case: dict, settings: dict, memory_limit: float | None
    ) -> dict[str, Any]:
        """Builds the job, runs it to compile and to warm up."""
        peer = importlib.import_module(module)
        if "keras" in sys.modules:  # the device is there
            ops = sys.modules["keras"].ops
            ops.convert_to_numpy(ops.matmul(ops.ones((8, 8)), ops.ones((8, 8))))
        self.before = process_memory("VmRSS")
        if memory_limit:
            limit = int(memory_limit * 2**20) + process_memory("VmData", 0.0) * 2**20
            resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
        began, began_cpu = time.perf_counter(), time.process_time()
        self.job = getattr(peer, job)(case, **settings)
        built = time.perf_counter()
        found = self.job.run()
        first, first_cpu = time.perf_counter(), time.process_time()
        if case.get("warm_up", True):
            self.job.run()
        took = time.perf_counter() - first
        repeats = 1
        if case.get("warm_up", True):
            repeats = min(100, max(1, round(LEAST_SECONDS / max(took, 1e-4))))
        return {
            "amount": self.job.amount,
            "result": self.job.result(found) if self.job.result else None,
            "first": {"wall_s": first - began, "cpu_s": first_cpu - began_cpu},
            "first_s": first - built,
            "repeats": repeats,
        }

    def run(self, repeats: int) -> dict[str, float]:
        """Seconds of one run: the clock's, and the processor's, of all threads."""
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(repeats):
            self.job.run()
        return {
            "wall_s": (time.perf_counter() - wall) / repeats,
            "cpu_s": (time.process_time() - cpu) / repeats,
        }

    def memory(self) -> dict[str, float | None]:
        """The device's peak, or the process's less what it held after the imports."""
        peak = device_peak()
        if peak is None and self.before is not None:
            peak = process_memory("VmHWM") - self.before
        return {"peak_mb": peak}


def answer(contender: Contender, request: dict[str, Any]) -> dict[str, Any]:
    """Does what is asked for."""
    do = request.pop("do", None)
    if do not in ("prepare", "run", "memory"):
        return {"error": f"Expected to be asked to prepare, run, memory or quit. Received: {do!r}."}
    try:
        return {"answer": getattr(contender, do)(**request)}
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
        traceback.print_exc()
        kind = "out_of_memory" if OUT_OF_MEMORY.search(said) else "error"
        return {kind: said.strip()[:2000]}


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answers lines until there are no more, or `quit`."""
    contender = Contender()
    for line in requests:
        request = json.loads(line)
        if request.get("do") == "quit":
            break
        answers.write(json.dumps(answer(contender, request)) + "\n")
        answers.flush()


if __name__ == "__main__":
    protocol = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not come between the answers
    serve(sys.stdin, protocol)
    protocol.flush()
    os._exit(0)  # no waiting for threads of libraries
