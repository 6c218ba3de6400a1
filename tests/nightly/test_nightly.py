"""The nightly scripts: some cases in the slow tests, all of them with `-m nightly`."""

import os
from pathlib import Path

import pytest
import table
from processes import answer

SLOW = {"folders": 8, "files": 80, "values": 300, "strings": 50, "runs": 4}
MORE = {"strings": ["--tasks", "tagging"], "runs": ["--tasks", "text-classification"]}


def tried(name, cases, seed, *more):
    script, backend, _ = table.CHECKS[name]
    arguments = "--cases", cases, "--seed", seed, *more
    found = answer(backend, Path(table.HERE, script), *arguments, path=[table.HERE])
    assert not found["failures"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_some_cases(name):
    assert tried(name, SLOW[name], 0, *MORE.get(name, ()))["cases"] > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*SLOW, "processes"])  # cli/test_processes.py has a slow case
def test_all_cases(name):
    """Of the seed of RELIABILITY_SEED."""
    cases = table.CHECKS[name][2]
    assert tried(name, cases, int(os.environ.get("RELIABILITY_SEED", "1")))["cases"] >= cases // 3


def test_a_row_of_the_table():
    found = {"cases": 500, "seed": 1, "equal": 450, "refused": 50, "failures": [], "seconds": 90}
    shown = "| folders | torch | 500 | 450 equal, 50 refused | 0 | 2 |"
    assert table.row("folders", found) == shown
