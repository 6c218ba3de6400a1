"""Settings of all tests."""

import gc
import os
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Two processes with two threads each would wait for each other on two cores; PyTorch's spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import keras
import pytest


@pytest.fixture(autouse=True)
def _seed():
    """Each test begins alike: runs of tasks make TensorFlow deterministic, which refuses XLA."""
    keras.utils.set_random_seed(0)
    if keras.backend.backend() == "tensorflow":
        from tensorflow.python.framework import config

        config.disable_op_determinism()


@pytest.fixture(autouse=True, scope="module")
def _free():
    """Models are cycles that hold compiled functions: gigabytes, if all wait for the collector."""
    yield
    statm = Path("/proc/self/statm")  # where there is one
    if statm.exists() and int(statm.read_text().split()[1]) * 4096 > 4e9:
        gc.collect()
