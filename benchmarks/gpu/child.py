"""The process of one step: `python -m benchmarks.gpu.child PROGRESS.json`, its request on stdin.

A step is a generator `function(settings, progress)` of rows, which are dicts. The progress file
holds the rows so far, the names of what is at work, and at the end how the step ended. So whatever
becomes of the process, its rows are kept.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.child import OUT_OF_MEMORY
from benchmarks.gpu.progress import NoData, NotAvailable, Progress, Unfinished

OURS = ("keras_attn", "benchmarks")


def find_device(backend: str, device: str) -> str:
    """The name of what a backend computes on.

    Raises:
        NotAvailable: If it is no GPU though one is wanted.
    """
    name = ""
    if backend == "jax":
        import jax

        if jax.default_backend() == "gpu":
            name = jax.devices()[0].device_kind
    elif backend == "tensorflow":
        import tensorflow as tf

        for each in tf.config.list_physical_devices("GPU"):
            name = name or tf.config.experimental.get_device_details(each).get("device_name", "GPU")
    elif backend == "torch":
        import torch

        if torch.cuda.is_available():
            name = torch.cuda.get_device_name()
    if device == "gpu" and not name:
        raise NotAvailable(f"{backend} sees no GPU: its build may be for CPUs alone.")
    return name if device == "gpu" else "CPU"


def end_with_the_parent() -> None:
    """Ends this process and its own children once the parent is gone, whatever ended that."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def work(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    """Does a step; returns how it ended."""
    try:
        if request["backend"]:
            found = find_device(request["backend"], request["device"])
            progress.note(computed_on=found)
        function = getattr(importlib.import_module(request["module"]), request["function"])
        for row in function(request["settings"], progress):
            progress.add(row)
        return {"status": "done"}
    except Unfinished as error:
        return {"status": "unfinished", "message": str(error)}
    except NotAvailable as error:
        return {"status": "not available", "message": str(error)}
    except NoData as error:
        return {"status": "no data", "message": str(error)}
    except BaseException as error:
        traceback.print_exc()
        said = f"{type(error).__name__}: {error}".strip()[:2000]
        missing = isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0]
        if missing and missing not in OURS:
            return {"status": "not installed", "message": missing}
        status = "out of memory" if OUT_OF_MEMORY.search(said) else "error"
        return {"status": status, "message": said}


def main() -> None:
    """Reads the request, and works."""
    request = json.load(sys.stdin)
    if request["sliced"]:  # its own child takes the signal, and saves its state
        signal.signal(signal.SIGTERM, lambda *_: None)
    end_with_the_parent()
    progress = Progress(Path(sys.argv[1]), request)
    progress.note(ended=work(request, progress))
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)  # no waiting for threads of libraries


if __name__ == "__main__":
    main()
