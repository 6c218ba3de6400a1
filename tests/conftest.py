"""Settings of all tests."""

import contextlib
import ctypes
import functools
import gc
import importlib.util
import os
import shutil
import signal
import sys
import time
import typing
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Two processes with two threads each would wait for each other on two cores; PyTorch's spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A thread more to hand tiny kernels to costs a tenth of a training and of a search.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
# What XLA compiles here runs once: unoptimised code is ready in half the time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

if importlib.util.find_spec("triton") is not None:
    # PyTorch's builds for CUDA bring it. Where TensorFlow 2.21 is imported before, it crashes.
    import triton  # noqa: F401

import kept
import pytest
from processes import Server

if sys.version_info < (3, 12):
    # TensorFlow asks for each constant whether it is of a protocol; Python 3.12 keeps the answer.
    typing._get_protocol_attrs = functools.cache(typing._get_protocol_attrs)


def _seed_torch():
    """Keras seeds PyTorch only where it is the backend: toy models of `transformers` need it too.

    Else their weights, and the rounding of their results, depend on the tests before.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def pytest_fixture_setup(fixturedef):
    """What many tests share is made before `_seed`."""
    if fixturedef.scope != "function":
        _seed_torch()


@pytest.fixture(autouse=True)
def _seed(monkeypatch):
    """Each test begins alike: runs of tasks make TensorFlow deterministic, which refuses XLA."""
    import keras  # not at the top: the process that hands out the tests needs none

    _seed_torch()

    if keras.backend.backend() != "tensorflow":
        keras.utils.set_random_seed(0)
        return
    from tensorflow import random
    from tensorflow.python.framework import config

    with monkeypatch.context() as patch:
        # TensorFlow would forget its kernels, and make them again for each test.
        patch.setattr(random, "set_seed", lambda seed: None)
        keras.utils.set_random_seed(0)
    config.disable_op_determinism()


@pytest.fixture(autouse=True, scope="session")
def _heeded_signals():
    """Ctrl-C raises, also if the tests were started with it ignored: `nohup ... &`.

    Processes that tests start inherit what is ignored.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.fixture(autouse=True, scope="session")
def _quick_keras():
    """What pays where a graph runs often and a process holds one model costs more than it gives."""
    import keras

    delete = keras.Layer.__delattr__

    def without_collecting(self, name):
        # Quantizing deletes weights, and Keras looks for garbage each time: a second among all
        # that tests leave.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gc, "collect", lambda: 0)
            delete(self, name)

    keras.Layer.__delattr__ = without_collecting
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer as Trainer

    tf.random.set_seed(0)
    # A graph here runs a few times: Grappler takes longer than it saves.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    make = Trainer.make_train_function

    def build_and_make(self, force=False):
        # Else the first step makes the variables of the optimizer, and is traced again without.
        if self.built and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        return make(self, force)

    Trainer.make_train_function = build_and_make


# Files of a few tests that take long begin first, or they are what all others wait for.
FIRST = ("test_backends.py", "test_layer_contracts.py")


def pytest_addoption(parser):
    parser.addoption(
        "--minutes", type=float, help="skip the tests that have not begun after so many minutes"
    )
    parser.addoption(
        "--turn", type=int, default=0, help="begin with another file: with other numbers others"
    )


def pytest_configure(config):
    config.began = time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector):
    """Of the cases of a test that is marked `quick`, the others are slow."""
    made = yield
    for item in made if isinstance(made, list) else []:
        mark = item.get_closest_marker("quick")
        if mark is None:
            continue
        named = {*mark.args, *mark.kwargs.get("slow", ())}
        if unknown := named - {case.callspec.id for case in made}:
            raise collector.CollectError(f"{item.nodeid}: there are no cases {sorted(unknown)}")
        if (item.callspec.id in named) == bool(mark.kwargs):
            item.add_marker(pytest.mark.slow)
    return made


def pytest_collection_modifyitems(config, items):
    files = list(dict.fromkeys(item.path for item in items))
    # Neighbours in number begin far from each other: 5 in 13 of the files further on.
    begin = len(files) * (config.getoption("--turn") * 5 % 13) // 13
    order = {path: number for number, path in enumerate([*files[begin:], *files[:begin]])}
    order |= {path: FIRST.index(path.name) - len(FIRST) for path in files if path.name in FIRST}
    items.sort(key=lambda item: order[item.path])


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # what was imported stays: the collector need not look at it again and again
    # Looking at all that lives costs .2 s: once for 400,000 new objects, and after each file.
    gc.set_threshold(4000, 10, 10)


def pytest_runtest_setup(item):
    minutes = item.config.getoption("--minutes")
    if minutes and time.monotonic() - item.config.began > 60 * minutes:
        pytest.skip(f"the {minutes:g} minutes of --minutes are over")


def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):  # in the process that hands out the tests
        shutil.rmtree(kept.FOLDER, ignore_errors=True)


def _resident() -> float:
    """Gigabytes in memory; 0 where the system does not say."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 / 1e9 if statm.exists() else 0.0


@pytest.fixture(autouse=True, scope="session")
def _floor():
    """What stayed in memory after the last collection."""
    return [_resident()]


@pytest.fixture(autouse=True, scope="module")
def _free(_floor):
    """Models are cycles that hold compiled functions: gigabytes, if all wait for the collector.

    TensorFlow registers the gradients of each graph, and of each SavedModel that it loads, for as
    long as the process lives, and with them the graphs: those of the file are forgotten.
    """
    ops = sys.modules.get("tensorflow.python.framework.ops")
    gradients = ops.gradient_registry._registry if ops else {}
    known = set(gradients)
    yield
    for name in set(gradients) - known:
        if "CustomGradient" in name:
            del gradients[name]
    if _resident() > _floor[0] + 0.2:
        gc.collect()
        gc.freeze()  # what a file leaves to others stays: the collector need not look again
        with contextlib.suppress(OSError, AttributeError):  # where the C library has it
            ctypes.CDLL(None).malloc_trim(0)
        _floor[0] = _resident()


@pytest.fixture(autouse=True, scope="session")
def _end_servers():
    yield
    Server.close()
