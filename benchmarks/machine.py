"""What was measured on: versions, the processor, memory, the GPU."""

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "keras_attn keras keras-hub tensorflow jax torch transformers ctranslate2 onnxruntime openvino "
    "numpy"
).split()


def process_memory(field: str, default: float | None = None) -> float | None:
    """Megabytes of this process: `VmRSS` now, `VmHWM` at most, `VmData` asked for (Linux)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return default
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def device_peak() -> float | None:
    """Megabytes of GPU memory that this process had at most; None where it used no GPU."""
    if "jax" in sys.modules:
        jax = sys.modules["jax"]
        stats = jax.devices()[0].memory_stats() or {}
        return stats["peak_bytes_in_use"] / 2**20 if jax.default_backend() == "gpu" else None
    if "tensorflow" in sys.modules:
        tf = sys.modules["tensorflow"]
        if tf.config.list_physical_devices("GPU"):
            return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20
        return None
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        return sys.modules["torch"].cuda.max_memory_allocated() / 2**20
    return None


def versions() -> dict[str, str]:
    """Of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def processor() -> str:
    """In words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def gpus() -> list[str]:
    """Names of NVIDIA's, as their driver tells them."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def available_cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def describe() -> dict[str, Any]:
    """All of it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": processor(),
        "cores": available_cores(),
        "memory_gb": round(memory, 1),
        "gpus": gpus(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "load": [round(value, 2) for value in os.getloadavg()],
    }
