"""A loaded task in use: its first result, many threads, and thousands of calls.

    python -m benchmarks.in_use
    python -m benchmarks.in_use --only first --backend tensorflow jax torch

Two tasks are used: a text classifier of the sizes of MiniLM (random weights, whose speed is that of
trained ones), and the translator of the package. Each figure is from a process of its own.

- `first`: seconds of a new process until the first result, of the clock and of the processor, with
  the parts: Keras with its backend, this package, loading, and the first result. Then those of the
  second result. On JAX once more, in a second process that finds the compiled programs of a first
  one in a folder (`KEPT_PROGRAMS`).
- `threads`: texts a second of one loaded task that 1, 2, 4 and 16 threads call at once, each call
  with 32 texts, and each operation of the backend in one thread. All threads get what one gets.
- `calls`: the memory after 1,000, 2,000, 5,000 and 10,000 calls with texts of all lengths, batches
  of 1 to 8 and other settings each time.
"""

import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.serving import make_classifier, texts_of

CLASSIFIER, TRANSLATOR = "classifier", "home-assistant-en-de"
THREADS, CALLS = (1, 2, 4, 16), (1000, 2000, 5000, 10000)
ROWS, LISTS = 32, 16
ONE_THREAD = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
KEPT_PROGRAMS = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
"""With `JAX_COMPILATION_CACHE_DIR`: JAX keeps all programs, not only those of over a second."""


def first(name: str, place: str) -> list[tuple[str, float, float]]:
    """Parts of the time until the first result, with seconds of the clock and of the processor."""
    found, began = [], (time.perf_counter(), time.process_time())

    def lap(part: str) -> None:
        nonlocal began
        now = time.perf_counter(), time.process_time()
        found.append((part, now[0] - began[0], now[1] - began[1]))
        began = now

    import keras  # noqa: F401

    lap("Keras")
    import keras_attn.tasks  # noqa: F401

    lap("keras_attn")
    task = loaded(name, place)
    lap("load")
    text = texts_of(name, 1)
    task.predict(text)
    lap("first result")
    task.predict(text)
    lap("second")
    return found


def loaded(name: str, place: str) -> Any:
    """The task of a name."""
    from keras_attn.tasks import TextClassifier, Translator

    return (TextClassifier if name == CLASSIFIER else Translator).load(place)


def threads(name: str, place: str) -> list[tuple[int, float]]:
    """Numbers of threads, and the texts a second of all threads together."""
    task, texts = loaded(name, place), texts_of(name, ROWS * LISTS)
    lists = [texts[n : n + ROWS] for n in range(0, len(texts), ROWS)]
    expected = [task.predict(some) for some in lists]  # all shapes are compiled
    found = []
    for count in THREADS:
        began = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            results = list(pool.map(task.predict, lists))
        found.append((count, len(texts) / (time.perf_counter() - began)))
        if list(map(repr, results)) != list(map(repr, expected)):
            raise SystemExit(f"{count} threads of {name} got other results than one.")
    return found


def calls(name: str, place: str) -> Iterator[tuple[int, float]]:
    """Numbers of calls, and the memory of the process after them in MB."""
    task, draw = loaded(name, place), random.Random(1)
    texts = texts_of(name, 1000)
    for number in range(1, CALLS[-1] + 1):
        some = draw.sample(texts, draw.randint(1, 8))
        if name == CLASSIFIER:
            task.predict(some, batch_size=draw.randint(1, 64))
        else:
            task.predict(some, beams=draw.choice([1, 2]), alpha=draw.random(), min_length=1)
        if number in CALLS:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            yield number, pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measured(
    what: str, name: str, place: str, backend: str, programs: str | None = None
) -> list[list[Any]]:
    """The figures of a child process; `programs` is a folder for those that JAX compiles."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if programs:
        environment |= {**KEPT_PROGRAMS, "JAX_COMPILATION_CACHE_DIR": programs}
    if what == "threads":
        environment |= dict.fromkeys(ONE_THREAD, "1")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.in_use", "--child", what, name, place],
        stdout=subprocess.PIPE, text=True, check=True, env=environment,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints a table for each part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = {"first": first, "threads": threads, "calls": calls}
    add = parser.add_argument
    add("--only", nargs="+", choices=parts, default=[*parts], help="(all)")
    add("--backend", nargs="+", default=["tensorflow", "jax", "torch"], help="(all)")
    add("--models", nargs="+", choices=[CLASSIFIER, TRANSLATOR],
        default=[CLASSIFIER, TRANSLATOR], help="(all)")  # fmt: skip
    add("--child", nargs=3, metavar=("PART", "NAME", "FILE"), help="of child processes")
    args = parser.parse_args(arguments)
    if args.child:
        what, name, place = args.child
        print(json.dumps(list(parts[what](name, place))))
        return
    print(f"{machine.processor()}; {machine.versions()}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "classifier.task"
        make_classifier(file)
        for what in args.only:
            for name in args.models:
                place = str(file) if name == CLASSIFIER else name
                for backend in args.backend:
                    found = measured(what, name, place, backend)
                    _show(what, name, backend, found)
                    if (what, backend) == ("first", "jax"):
                        programs = str(Path(folder) / f"programs_{name}")
                        for _ in range(2):
                            found = measured(what, name, place, backend, programs)
                        _show(what, name, "jax, programs kept", found)


def _show(what: str, name: str, backend: str, found: Sequence[Sequence[Any]]) -> None:
    """Prints a row of the table."""
    print(f"| {what} | {name} | {backend} | {' | '.join(map(_cell, found))} |", flush=True)


def _cell(row: Sequence[Any]) -> str:
    """A figure with what it is of."""
    if len(row) == 3:
        return f"{row[0]}: {row[1]:.2f} s, processor {row[2]:.2f} s"
    return f"{row[0]:,}: {row[1]:.1f}"


if __name__ == "__main__":
    main()
