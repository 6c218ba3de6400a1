"""Settings of all tests."""

import gc
import os
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Two processes with two threads each would wait for each other on two cores; PyTorch's spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What XLA compiles here runs once: unoptimised code is ready in half the time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import pytest
from processes import Server


@pytest.fixture(autouse=True)
def _seed():
    """Each test begins alike: runs of tasks make TensorFlow deterministic, which refuses XLA."""
    import keras  # not at the top: the process that hands out the tests needs none

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


@pytest.fixture(autouse=True, scope="session")
def _end_servers():
    yield
    Server.close()
