"""Training and decoding of small models on the device beside the CPU. NumPy alone."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.children import ROOT, environment
from benchmarks.gpu.progress import NotAvailable, Progress

# Of losses, scores and logits, relative to 1 where they are larger.
TOLERANCE = {"float32": 2e-3, "mixed_bfloat16": 0.05}


def compare(settings: dict[str, Any], progress: Progress) -> Iterator[dict[str, Any]]:
    """A row a model and way to compile: the device's results beside the CPU's.

    Both processes work at the same time. The CPU's is not compiled by XLA where that is a choice,
    and computes in float32.
    """
    wanted: dict[str, Any] = {"policy": "float32", "jit": settings["jits"][0]}
    runs = [("cpu", wanted)]
    runs += [
        (progress.device, {"policy": policy, "jit": jit})
        for policy in settings["policies"]
        for jit in settings["jits"]
    ]
    with tempfile.TemporaryDirectory() as made:
        folders = [Path(made) / str(number) for number in range(len(runs))]
        # The CPU works while the GPU does one run after the other.
        first = start(settings, *runs[0], folders[0])
        for run, folder in zip(runs[1:], folders[1:], strict=True):
            wait(start(settings, *run, folder), progress)
        wait(first, progress)
        note_device(folders[1], progress)
        for (_, how), folder in zip(runs[1:], folders[1:], strict=True):
            for name in models_of(settings, how):
                yield row(name, how, read(folders[0], name), read(folder, name), settings)


def models_of(settings: dict[str, Any], how: dict[str, Any]) -> list[str]:
    """The models of a run."""
    left_out = settings["without_xla"] if how["jit"] else ()
    return [name for name in settings["models"] if name not in left_out]


def start(
    settings: dict[str, Any], device: str, how: dict[str, Any], folder: Path
) -> subprocess.Popen:
    """Starts the process of a device."""
    folder.mkdir()
    request = {**how, "device": device, "folder": str(folder)}
    request |= {"models": models_of(settings, how), "sizes": settings["sizes"]}
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.gpu.small_models"],
        stdin=subprocess.PIPE,
        cwd=ROOT,
        env={**environment(settings["backend"], device, None), "PYTHONUNBUFFERED": "1"},
    )
    process.stdin.write(json.dumps(request).encode())
    process.stdin.close()
    return process


def wait(process: subprocess.Popen, progress: Progress) -> None:
    """Until it ends, or nearly all time is over: what is compared is what there is."""
    try:
        process.wait(max(1.0, progress.seconds_left - 5))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def note_device(folder: Path, progress: Progress) -> None:
    """Notes what was computed on.

    Raises:
        NotAvailable: If that is not the device that is asked for.
    """
    path = folder / "device.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    if "message" in found:
        raise NotAvailable(found["message"])
    progress.note(**found)


def read(folder: Path, name: str) -> dict[str, np.ndarray]:
    """The results of a model."""
    path = folder / f"{name}.npz"
    if not path.exists():
        return {"error": np.array("The process ended before this model.")}
    with np.load(path) as file:
        return dict(file)


def row(
    name: str,
    how: dict[str, Any],
    cpu: dict[str, np.ndarray],
    device: dict[str, np.ndarray],
    settings: dict[str, Any],
) -> dict[str, Any]:
    """What the results of two devices differ in.

    In float32 tokens must be the same. In half precision they may differ where two are about as
    likely, and only the losses are compared.
    """
    policy = how["policy"]
    compiled = "" if len(settings["jits"]) == 1 else ", XLA" if how["jit"] else ", without XLA"
    found = {
        "name": f"{name}, {policy}{compiled}",
        "dtype": policy,
        "tolerance": TOLERANCE[policy],
    }
    for where, results in (("CPU", cpu), ("device", device)):
        if "error" in results:
            return {**found, "ok": False, "message": f"{where}: {results['error']}"}
    error, place = 0.0, ""
    different = []
    for key, wanted in cpu.items():
        if policy != "float32" and key != "losses":
            continue
        given = device[key]
        if key.startswith("tokens"):
            same = (given == wanted).reshape(len(wanted), -1).all(1)
            if not same.all():
                different.append(f"{key.split()[1]} beams: {int((~same).sum())} of {len(same)}")
            continue
        size = np.maximum(np.abs(wanted), 1.0)
        largest = float((np.abs(given - wanted) / size).max())
        if not largest <= error:
            error, place = largest, key
    found |= {"error": error, "where": place, "losses": [float(x) for x in device["losses"]]}
    if different:
        found["message"] = f"other tokens in {'; '.join(different)} rows"
    return {**found, "ok": error <= found["tolerance"] and not different}
