"""Medians, ratios round by round, targets."""

import pytest

from benchmarks.suite import Target
from benchmarks.summary import compare, summarize


def row(contender, seconds, group="JAX", amount=8.0, ours=False, unit="tokens"):
    family = contender.split(" on")[0]
    made = {
        "case": "greedy, batch 1", "contender": contender, "family": family, "group": group,
        "ours": ours, "unit": unit, "amount": amount, "status": "measured",
        "rounds": [{"wall_s": 10 * s, "cpu_s": s} for s in seconds],
    }  # fmt: skip
    summarize(made, "cpu_s")
    return made


def test_medians_and_ranges():
    found = row("a", [4.0, 1.0, 2.0])
    assert found["seconds"] == {"median": 2.0, "least": 1.0, "greatest": 4.0}
    assert found["speed"] == {"median": 4.0, "least": 2.0, "greatest": 8.0}
    assert "speed" not in row("a", [1.0], unit=None)


def test_without_rounds():
    assert row("a", [])["status"] == "not measured"


def test_ratios_are_of_the_same_round():
    """The machine is ten times as slow in the second round: no ratio sees that."""
    ours = row("keras_attn on JAX", [1.0, 10.0, 1.0], ours=True)
    theirs = row("hub on JAX", [2.0, 30.0, 4.0])
    compare([ours, theirs])
    [found] = theirs["comparisons"]
    assert (found["median"], found["least"], found["greatest"]) == (3.0, 2.0, 4.0)
    assert "comparisons" not in ours


def test_ratios_are_of_speeds():
    ours = row("keras_attn on JAX", [1.0], amount=6.0, ours=True)
    theirs = row("hub on JAX", [1.0], amount=3.0)
    compare([ours, theirs])
    assert theirs["comparisons"][0]["median"] == 2.0


def test_who_is_compared_with_whom():
    rows = [
        row("keras_attn on TF", [1.0], "TensorFlow", ours=True),
        row("keras_attn on JAX", [2.0], "JAX", ours=True),
        row("another of ours", [4.0], "JAX", ours=True),
        row("hub on JAX", [8.0], "JAX"),
        row("hub on PyTorch", [8.0], "PyTorch"),
        row("foreign", [8.0], ""),
        row("broken", [], "JAX"),
    ]
    compare(rows, [Target("greedy*", "foreign", 5.0, ("JAX",)), Target("*", "hub", 3.0)])
    found = {
        r["contender"]: [(c["group"], c["median"], c["target"]) for c in r["comparisons"]]
        for r in rows
        if "comparisons" in r
    }
    assert found == {
        "another of ours": [("JAX", 2.0, None)],
        "hub on JAX": [("JAX", 4.0, 3.0)],
        "hub on PyTorch": [],
        "foreign": [("TensorFlow", 8.0, None), ("JAX", 4.0, 5.0)],
    }


@pytest.mark.parametrize("case", ["beam 4, batch 1", "greedy"])
def test_targets_name_cases(case):
    ours, theirs = row("keras_attn on JAX", [1.0], ours=True), row("hub on JAX", [1.0])
    theirs["case"] = case
    compare([ours, theirs], [Target("greedy, *", "hub", 3.0)])
    assert theirs["comparisons"][0]["target"] is None
