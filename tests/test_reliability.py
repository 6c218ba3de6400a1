"""What must hold of any layer, drawn at random: a few cases each time, thousands on request."""

import os
from pathlib import Path

import pytest
from processes import answer

SCRIPT = Path(__file__).parent / "reliability.py"
# PyTorch runs a case at once; the others make each of its kernels first.
QUICK = {"tensorflow": 6, "jax": 2, "torch": 60}
NIGHTLY = {"tensorflow": 10_000, "jax": 2000, "torch": 10_000}
PROPERTIES = {
    "no_nan_from_padding", "more_padding", "order_of_the_batch", "past", "scores", "cache", "bias",
    "derivatives", "second_derivatives", "unknown_lengths",
}  # fmt: skip


def tried(backend, cases, number):
    ran = answer(backend, SCRIPT, "--cases", cases, "--seed", number)
    assert ran.pop("backend") == backend
    assert ran["no_nan_from_padding"] >= cases
    assert ran["beams"] >= 1
    if cases >= 60:
        assert all(ran[name] > cases / 30 for name in PROPERTIES)
    return ran


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend",
    [
        "tensorflow",
        pytest.param("jax", marks=pytest.mark.slow),
        pytest.param("torch", marks=pytest.mark.slow),
    ],
)
def test_some_cases(backend):
    tried(backend, QUICK[backend], 0)


@pytest.mark.nightly
@pytest.mark.parametrize(("backend", "cases"), NIGHTLY.items())
def test_many_cases(backend, cases):
    """Of the seed of RELIABILITY_SEED."""
    tried(backend, cases, int(os.environ.get("RELIABILITY_SEED", "1")))
