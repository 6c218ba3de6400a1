"""The command line: lists, refusals, and a quick run."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import chosen, main, with_sizes
from benchmarks.runner import Options, Pool, run_suite
from benchmarks.suite import Case, Family, Suite, contenders, groups_of
from benchmarks.suites import SUITES

ROOT = Path(__file__).parents[2]
HERE = str(Path(__file__).parent)


def test_list(capsys):
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for name in ("training", "decoding", "memory", "scaling", "input", "compile"):
        assert f"\n{name}: " in "\n" + printed
    assert "decoding/beam 4, batch 32: keras_attn, keras_hub, Hugging Face MarianMT" in printed


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--only", "dancing"], "dancing"),
        (["--only", "decoding", "--set", "width=3"], "width=3"),
        (["--only", "decoding", "--set", "dim=wide"], "dim=wide"),
    ],
)
def test_refusals(arguments, said, capsys):
    assert main(["run", *arguments]) == 2
    assert f"Received: {said}" in capsys.readouterr().err.replace("['", "").replace("'", "")


def test_sizes():
    sizes = with_sizes(SUITES["memory"], True, ["dim=64", "lengths=8,16"])
    assert sizes["dim"] == 64 and sizes["lengths"] == [8, 16]
    assert sizes["heads"] == SUITES["memory"].quick["heads"]
    assert set(SUITES["memory"].sizes) >= set(SUITES["memory"].quick)


@pytest.mark.parametrize("suite", SUITES.values(), ids=lambda suite: suite.name)
def test_suites_are_whole(suite):
    """Quick sizes are sizes; targets name cases and families; ours comes first; jobs exist."""
    assert set(suite.quick) <= set(suite.sizes)
    cases = suite.cases(suite.sizes)
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    for target in suite.targets:
        assert any(target.family in [f.title for f in case.families] for case in cases)
    for case in cases:
        titles = [family.title for family in case.families]
        assert len(set(titles)) == len(titles)
        assert titles[0].startswith("keras_attn")
        for family in case.families:
            source = ROOT / (family.module.replace(".", "/") + ".py")
            assert f"\ndef {case.job}(" in source.read_text(), family


def test_cases_are_chosen_by_name():
    found = chosen(["decoding/greedy*", "input"], False, [])
    assert [(suite.name, len(cases)) for suite, _, cases in found] == [
        ("decoding", 2),
        ("input", 3),
    ]


def test_groups():
    assert groups_of(["tensorflow", "jax"], "cpu") == ["TensorFlow", "TensorFlow XLA", "JAX"]
    assert groups_of(["tensorflow", "torch"], "gpu") == ["TensorFlow XLA", "PyTorch"]


def test_contenders_are_chosen_by_name():
    options = Options(groups=(), only=("keras_*", "C*"), skip=("*XLA",))
    names = ("keras_attn, JAX", "keras_hub, TensorFlow XLA", "CTranslate2", "PyTorch")
    assert [name for name in names if options.takes(name)] == ["keras_attn, JAX", "CTranslate2"]


@pytest.fixture
def stand_ins(monkeypatch):
    """A suite of contenders without a framework."""
    monkeypatch.setenv("PYTHONPATH", HERE)

    def family(title, **values):
        return Family(title, "stand_in", keras=False, **values)

    families = (
        family("keras_attn"),
        family("slow", settings={"times": 3}),
        family("absent", requires=("no_such_package",)),
    )
    cases = [
        Case("sleep", "sleeping", families, {"seconds": 0.02}, unit="naps"),
        Case("too much", "failing", families[:1], {"kind": "memory", "message": "no"}),
    ]
    return Suite("naps", "sleep", {"amount": 4}, {}, lambda sizes: cases)


@pytest.mark.slow
def test_in_turns(stand_ins):
    said = []
    options = Options(groups=(), rounds=3)
    sizes = stand_ins.sizes
    found = run_suite(stand_ins, sizes, stand_ins.cases(sizes), options, said.append)
    [ours, slow, absent], [failed] = found
    assert len(ours["rounds"]) == len(slow["rounds"]) == 3
    assert 0 < ours["speed"]["median"] <= 4 / 0.02
    assert slow["comparisons"][0]["median"] == pytest.approx(3.0, rel=0.5)
    assert ours["same"] == slow["same"] == 1.0
    assert ours["peak_mb"] >= 0
    assert absent["status"] == "not installed" and absent["message"] == "no_such_package"
    assert failed["status"] == "out of memory"
    assert any("absent" in line for line in said)


def test_processes_are_kept_where_memory_does_not_matter(stand_ins):
    [contender] = contenders(stand_ins.cases({})[1], ())
    with Pool(Options(groups=())) as pool:
        first = pool.take(contender)
        assert pool.take(contender) is first
        first.close()
        again = pool.take(contender)
        assert again is not first
    assert not again.alive


def test_the_first_run_of_new_processes(stand_ins):
    suite = Suite("first", "", {"amount": 1}, {}, stand_ins.cases, fresh=True)
    cases = stand_ins.cases({})[:1]
    [rows] = run_suite(suite, suite.sizes, cases, Options(groups=(), rounds=2), lambda line: None)
    assert [len(row["rounds"]) for row in rows] == [2, 2, 0]
    assert all(found["wall_s"] >= 0.02 for found in rows[0]["rounds"])


def quick(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "run", "--quick", "--output", folder / "a.json",
         *arguments],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "a.json").read_text()), done


@pytest.mark.slow
def test_a_quick_run(tmp_path):
    found, done = quick(
        tmp_path, "--only", "scaling/width 16", "--contenders", "keras_attn*", "--backend",
        "tensorflow", "--cores", "1", "--cpu-time",
    )  # fmt: skip
    assert [row["contender"] for row in found["rows"]] == [
        "keras_attn, TensorFlow",
        "keras_attn, TensorFlow XLA",
    ]
    for row in found["rows"]:
        assert row["status"] == "measured", done.stderr
        assert len(row["rounds"]) == 2 and row["peak_mb"] > 0
        assert row["values"]["flops"] == 3 * 2 * (24 * 8 * 16**2 + 4 * 8**2 * 16)
    assert found["command"].startswith("python -m benchmarks run --quick")
    assert "| keras_attn, TensorFlow |" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_our_jobs_run(suite):
    """What is ours in each case, at quick sizes; the test below runs all, in their processes."""
    sizes = {**suite.sizes, **suite.quick}
    for case in suite.cases(sizes):
        for contender in contenders(case, ["TensorFlow"]):
            if contender.ours:
                peer = importlib.import_module(contender.family.module)
                getattr(peer, case.job)({**sizes, **case.values}, **contender.settings).run()


@pytest.mark.by_hand
@pytest.mark.parametrize("suite", SUITES)
def test_all_suites_run(suite, tmp_path):
    found, done = quick(tmp_path, "--only", suite, "--backend", "tensorflow", "jax", "torch")
    for row in found["rows"]:
        assert row["status"] in ("measured", "not installed"), row.get("message")
        if "same" in row:
            assert row["same"] == 1.0, row["contender"]
    assert f"**{suite}: " in done.stdout
