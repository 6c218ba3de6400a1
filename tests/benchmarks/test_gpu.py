"""`python -m benchmarks gpu`: the order of steps, what becomes of those that fail, the report."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.gpu import kernel_cases, progress
from benchmarks.gpu.report import NAME, write
from benchmarks.gpu.run import Options, keep, run
from benchmarks.gpu.speed import operations
from benchmarks.gpu.steps import Step, steps
from benchmarks.suites import scaling

ROOT = Path(__file__).parents[2]
HERE = str(Path(__file__).parent)


# Stand-ins, which the processes of steps import from this module.


def rows_of(settings, noted):
    """A row for each error, and a line in a file for each call."""
    with (noted.folder / "calls").open("a") as file:
        print(settings["name"], file=file)
    for number, error in enumerate(settings["errors"]):
        name = f"case {number}"
        if name in noted.done:
            continue
        noted.begin(name)
        if error == "abort":
            os.abort()
        yield {"name": name, "ok": error < 1, "error": error, "tolerance": 1.0, "where": "key"}


def trouble(settings, noted):
    yield {"name": "before", "ok": True}
    kind = settings["kind"]
    if kind == "hang":
        time.sleep(60)
    raise {
        "import": ModuleNotFoundError("No module named 'rare'", name="rare"),
        "ours": ModuleNotFoundError("No module named 'keras_attn.x'", name="keras_attn.x"),
        "memory": RuntimeError("RESOURCE_EXHAUSTED: too much"),
        "data": progress.NoData("make it"),
        "device": progress.NotAvailable("for another GPU"),
        "value": ValueError("a moon is no room"),
    }[kind]


def in_slices(settings, noted):
    """Is through when it was called twice."""
    file = noted.folder / "slices"
    file.write_text(file.read_text() + "x" if file.exists() else "x")
    if len(file.read_text()) < 2:
        raise progress.Unfinished("half of it")
    yield {"name": "seed 0", "bleu": 41.5}


def waiting(settings, noted):
    """A training that takes SIGTERM and saves."""
    script = (
        "import pathlib, signal, sys, time\n"
        "def save(*_): pathlib.Path(sys.argv[1]).touch(); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "pathlib.Path(sys.argv[1] + '.begun').touch()\n"
        "time.sleep(60)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(noted.folder / "saved")])
    raise progress.Unfinished("stopped")
    yield


@pytest.fixture
def step(monkeypatch):
    """Makes a step of a stand-in."""
    monkeypatch.setenv("PYTHONPATH", HERE)

    def make(name, function, seconds=0.5, settings=None, **more):
        return Step(name, f"test_gpu:{function}", seconds, settings or {}, backend=None, **more)

    return make


def options(folder, **more):
    return Options(folder, device="cpu", **more)


def done(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.slow
def test_what_becomes_of_steps(step, tmp_path):
    kinds = ("import", "ours", "memory", "data", "device", "value")
    all_steps = [
        step("right/good", "rows_of", settings={"name": "good", "errors": [0.5, 0.25]}),
        step("right/wrong", "rows_of", settings={"name": "wrong", "errors": [0.5, 3.0]}),
        step(
            "right/parts", "rows_of", settings={"name": "parts", "errors": [0.5, "abort", 0.25]},
            by_parts=True,
        ),
        step("right/dies", "rows_of", settings={"name": "dies", "errors": [0.5, "abort"]}),
        step("good/hangs", "trouble", settings={"kind": "hang"}, most=1.5),
        step("right/absent", "trouble", requires=("no_such_package",)),
        step("good/of a GPU", "trouble", device="gpu"),
        *(step(f"good/{kind}", "trouble", settings={"kind": kind}) for kind in kinds),
    ]  # fmt: skip
    said = []
    assert run(all_steps, options(tmp_path), said.append) == 1
    found = {each.name: done(tmp_path, each.name) for each in all_steps}
    assert {name: record["status"] for name, record in found.items()} == {
        "right/good": "done",
        "right/wrong": "failed",
        "right/parts": "failed",
        "right/dies": "error",
        "good/hangs": "too long",
        "right/absent": "not installed",
        "good/of a GPU": "not available",
        "good/import": "not installed",
        "good/ours": "error",
        "good/memory": "out of memory",
        "good/data": "no data",
        "good/device": "not available",
        "good/value": "error",
    }
    parts = {row["name"]: row["ok"] for row in found["right/parts"]["rows"]}
    assert parts == {"case 0": True, "case 1": False, "case 2": True}
    assert len(found["right/dies"]["rows"]) == len(found["good/hangs"]["rows"]) == 1
    assert found["right/absent"]["message"] == "no_such_package"
    assert "a moon is no room" in found["good/value"]["message"]
    report = (tmp_path / NAME).read_text()
    assert "| right/good | passed | 2 of 2 | 5.0e-01 (1) |" in report
    assert "- `right/wrong`: case 1: error 3 of key, tolerance 1" in report
    assert "| good/data | no data: make it |" in report
    assert "  passed, 2 of 2 cases" in said
    assert not any("could not be written" in line for line in said)


@pytest.mark.slow
def test_later_calls_go_on(step, tmp_path):
    all_steps = [
        step("right/long", "rows_of", seconds=25, settings={"name": "long", "errors": [0]}),
        step("right/longer", "rows_of", seconds=30, settings={"name": "longer", "errors": [0]}),
        step("good/sliced", "in_slices", settings={}, sliced=True),
    ]
    said = []
    short = options(tmp_path, minutes=0.6)  # 26 s beside the reserve
    assert run(all_steps, short, said.append) == 0
    assert said[-2] == "Left: right/longer, good/sliced. The same command goes on."
    assert done(tmp_path, "good/sliced")["status"] == "unfinished"
    assert "| right/longer | not yet run |" in (tmp_path / NAME).read_text()
    assert run(all_steps, short, said.append) == 0
    assert said[-2] == "Nothing is left."
    assert (tmp_path / "calls").read_text().split() == ["long", "longer"]
    assert "bleu 41.5" in (tmp_path / NAME).read_text()
    assert run(all_steps, options(tmp_path, only=["*/longer"]), said.append, again=True) == 0
    assert (tmp_path / "calls").read_text().split() == ["long", "longer", "longer"]


@pytest.mark.slow
def test_a_step_that_had_too_little_time_begins_again(step, tmp_path):
    all_steps = [
        step("right/first", "rows_of", settings={"name": "first", "errors": [0]}),
        step("good/hangs", "trouble", settings={"kind": "hang"}, most=30.0),
    ]
    said = []
    assert run(all_steps, options(tmp_path, minutes=0.2), said.append) == 0
    assert not (tmp_path / "good/hangs.json").exists()
    assert said[-2] == "Left: good/hangs. The same command goes on."


def test_an_interrupted_call_ends_its_processes(step, tmp_path):
    script = (
        "import signal, sys; from pathlib import Path\n"
        # What is begun with `&` or `nohup` ignores it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from benchmarks.gpu.run import Options, run; from benchmarks.gpu.steps import Step\n"
        "step = Step('good/waits', 'test_gpu:waiting', 1, backend=None, sliced=True)\n"
        "sys.exit(run([step], Options(Path(sys.argv[1]), device='cpu'), print))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT)
    while not (tmp_path / "saved.begun").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert (tmp_path / "saved").exists()
    assert "| good/waits | not yet run |" in (tmp_path / NAME).read_text()


def test_refusals(tmp_path, capsys):
    arguments = ["gpu", "--to", str(tmp_path), "--device", "cpu"]
    assert main([*arguments, "--only", "nothing"]) == 2
    run([], options(tmp_path), lambda line: None)
    assert main([*arguments, "--tiny", "--only", "right"]) == 2
    assert "'tiny': False" in capsys.readouterr().err
    assert main([*arguments, "--list", "--only", "right/kernels*"]) == 0
    assert "right/kernels-jax-cudnn" in capsys.readouterr().out


def test_a_gpu_is_wanted(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.machine.gpus", list)
    assert main(["gpu", "--to", str(tmp_path)]) == 2
    assert "NVIDIA GPU" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_steps_are_whole():
    """Names differ, functions are there, and tiny settings are in place of others."""
    names = [each.name for each in steps()]
    assert len(set(names)) == len(names)
    assert names[0].startswith("right/")
    assert {each.kind for each in steps()} == {"right", "fast", "good"}
    for each in steps():
        module, function = each.work.split(":")
        source = ROOT / (module.replace(".", "/") + ".py")
        assert f"\ndef {function}(" in source.read_text()
        assert set(each.tiny) <= {*each.settings, "chunk", "every"}
        assert json.loads(json.dumps(each.sizes(True)))
        assert each.seconds <= 8 * 60
        for case in each.settings.get("cases", ()):
            peer = ROOT / (each.settings["job"]["module"].replace(".", "/") + ".py")
            assert f"\ndef {case['function']}(" in peer.read_text()


def test_the_parent_imports_no_framework():
    script = (
        "import sys, benchmarks.__main__, benchmarks.gpu.run, benchmarks.gpu.child\n"
        "sys.exit(bool({'keras', 'jax', 'torch', 'tensorflow', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("name", kernel_cases.HIDING)
def test_reference_gradients(name):
    """The formulas' gradients are the differences of the formulas' values."""
    made = kernel_cases.cases([[3, 3], [2, 3]], [[2, 2], [4, 2]], 2)
    case = [case for case in made if case["name"].startswith(f"{name},")][-1]
    arrays = kernel_cases.make(case)
    gradients = kernel_cases.reference(case, arrays)
    rng = np.random.default_rng(0)
    for key in kernel_cases.DIFFERENTIATED:
        if key not in arrays:
            continue
        direction = rng.normal(size=arrays[key].shape)
        values = []
        for sign in (1, -1):
            moved = {**arrays, key: arrays[key] + sign * 1e-5 * direction}
            context = kernel_cases.reference(case, moved)["context"]
            values.append((context * arrays["upstream"]).sum())
        slope = (values[0] - values[1]) / 2e-5
        np.testing.assert_allclose((gradients[key] * direction).sum(), slope, atol=1e-8)
    wrong = {**gradients, "key": gradients["key"] + 0.25}
    assert kernel_cases.largest_error(case, arrays, gradients, gradients)[0] == 0
    error, where = kernel_cases.largest_error(case, arrays, wrong, gradients)
    assert where == "key"
    assert 0 < error < 0.2501


def test_counted_operations():
    values = {"dim": 8, "intermediate": 32, "layers": 1, "batch": 3, "length": 5}
    assert operations(values) == scaling.operations(3, 5, 8)


def test_tables_of_speed(tmp_path):
    """Milliseconds of a step, the share of the peak, the ratio to KerasHub's, what failed."""
    by_name = {each.name: each for each in steps()}
    ours, hub = (by_name[f"fast/encoder-32x512/{n}-jax"] for n in ("keras_attn", "keras_hub"))
    values = {**ours.settings["sizes"], "dropout": 0.0}
    for each, seconds in ((ours, 1.8), (hub, 2.7)):
        row = {key: each.settings[key] for key in ("contender", "group")} | {"name": "dropout 0"}
        spread = {"median": seconds, "least": seconds, "greatest": seconds}
        row |= {"values": values, "seconds": spread, "unit": "tokens", "status": "measured"}
        row["speed"] = {"median": values["steps"] * 32 * 512 / seconds}
        failed = {**row, "name": "dropout 0.1", "status": "error", "message": "no | kernel"}
        del failed["seconds"]
        keep(each, options(tmp_path), {"status": "done", "rows": [row, failed]})
    peak = by_name["fast/peak-jax"]
    row = {"name": "bfloat16 8", "kind": "bfloat16", "size": 8, "tflops": 700.0}
    keep(peak, options(tmp_path), {"status": "done", "rows": [row]})
    write([ours, hub, peak], tmp_path, tiny=False)
    report = (tmp_path / NAME).read_text()
    rate = operations(values) / 0.03 / 1e12
    assert "| keras_attn, JAX | 30.0 (30.0 to 30.0) | 546,133 |" in report
    assert f"| {rate:.0f} | {rate / 700:.1%} (wanted: 50%) |" in report
    assert "| 1.50 (wanted: 1.6) |" in report
    assert "| fast/encoder-32x512/keras_hub-jax: dropout 0.1 | error: no / kernel |" in report


def tiny(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "gpu", "--to", folder, "--tiny", "--device", "cpu",
         *arguments],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.slow
def test_tiny_steps(tmp_path):
    """A check and a measurement; cuDNN's kernel is none of a CPU."""
    wanted = ("right/kernels-jax-cudnn", "right/kernels-torch-plain", "fast/peak-torch")
    said = tiny(tmp_path, "--only", *wanted)
    assert "Nothing is left." in said
    cudnn, plain, peak = (done(tmp_path, name) for name in wanted)
    assert cudnn["status"] == "not available"
    assert "CUDA GPU" in cudnn["message"]
    assert plain["status"] == "done"
    assert {row["dtype"] for row in plain["rows"]} == {"float32", "bfloat16"}
    assert [row["kind"] for row in peak["rows"][::2]] == ["bfloat16", "tf32", "float32"]
    report = (tmp_path / NAME).read_text()
    assert "Tiny sizes" in report
    assert "| right/kernels-torch-plain | passed |" in report
    assert "| bfloat16 |" in report


@pytest.mark.by_hand
def test_all_steps_tiny(tmp_path):
    """All of them on the CPU; of the trainings one seed, with data of a few lines."""
    text = "the house of Ann stands by the sea, and it is red.\n" * 200
    data = tmp_path / "data"
    data.mkdir()
    (data / "tinyshakespeare.txt").write_text(text)
    draw = random.Random(0)  # sentences that are not alike
    words = ["".join(draw.choices("abcdefgh", k=5)) for _ in range(45 * 4)]
    pairs = ["{} {}\t{} {}".format(*words[n : n + 4]) for n in range(0, len(words), 4)]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs))
    for direction in ("de-en", "en-de"):
        command = ["--train", tmp_path / "pairs.tsv", "--dev-size", "4", "--test-size", "4"]
        command += ["--vocabulary-size", "280", "--to", data / direction]
        subprocess.run(
            [sys.executable, "-m", "keras_attn", "translation", "prepare", *command], check=True
        )
    wanted = ("right", "fast", "good/*-0")
    more = ("--data", data, "--minutes", "15", "--only", *wanted)
    while "Left:" in tiny(tmp_path / "gpu", *more):
        pass
    for each in steps():
        if each.kind == "good" and not each.name.endswith("-0"):
            continue
        record = done(tmp_path / "gpu", each.name)
        assert record["status"] in ("done", "not available", "not installed"), record
        for row in record["rows"]:
            assert row.get("status", "measured") == "measured", row
