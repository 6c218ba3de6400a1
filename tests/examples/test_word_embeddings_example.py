"""The example and the benchmark of word embeddings, on toys."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def script(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem + "_script", ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def text(tmp_path):
    rng = np.random.default_rng(0)
    speeds = ("words a second", "words a processor's second")
    rows = [
        {"program": program, "seed": 1, "analogies": 2.0, **dict.fromkeys(speeds, value)}
        for program, value in (("ours", 3.0), ("gensim", 2.0))
    ]
    assert "words a second, ours / gensim: 1.50" in benchmark.table(rows)
