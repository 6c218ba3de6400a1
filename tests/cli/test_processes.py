"""Training in several processes: as in one, ended when one dies, resumed by any number of them."""

import csv
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
from command_runs import run_command
from processes import JAX_CACHE, package_folder

from keras_attn.cli import processes
from keras_attn.training.processes import check_same, from_first, greatest, join_processes

HERE = Path(__file__).parent
JAX = {
    **os.environ,
    **JAX_CACHE,
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([package_folder(), str(HERE.parent)]),
}
VARIABLES = {
    "KERAS_DISTRIBUTION_JOB_ADDRESSES": "127.0.0.1:1",
    "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
    "KERAS_DISTRIBUTION_PROCESS_ID": "0",
}
FIT = (
    "text-classification fit --train texts.csv --dev texts.csv --device cpu --epochs 30 --dropout "
    "0 --batch-size 7 --vocabulary-size 60 --dim 4 --checkpoint-steps 3 --learning-rate 0.001"
).split()


def log(path):
    """The log of a run, without its times."""
    with open(path / "log.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [[float(value) for name, value in row.items() if name != "seconds"] for row in rows]


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"KERAS_DISTRIBUTION_PROCESS_ID": ""}, ValueError, "PROCESS_ID=''.*Set all three"),
        ({"KERAS_DISTRIBUTION_NUM_PROCESSES": "two"}, ValueError, "NUM_PROCESSES='two'"),
        ({}, RuntimeError, "only on JAX. Received: 2 processes on the tensorflow backend"),
        ({**dict.fromkeys(VARIABLES, ""), "SLURM_STEP_NODELIST": "n1", "SLURM_NTASKS": "3"},
         RuntimeError, "only on JAX. Received: 3 processes"),
    ],
)  # fmt: skip
def test_settings_of_processes(changed, error, words, monkeypatch):
    for name, value in {**VARIABLES, **changed}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(error, match=words):
        join_processes()


def test_one_process_joins_none(monkeypatch):
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n1")
    monkeypatch.setenv("SLURM_NTASKS", "1")
    join_processes()
    monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", "1")
    join_processes()
    assert greatest([3, 1]) == [3, 1]
    assert from_first(lambda: {"a": 1}) == {"a": 1}
    check_same({"a": (1, 2)})


@pytest.mark.slow
def test_the_option_on_another_backend(tmp_path, monkeypatch):
    (tmp_path / "texts.csv").write_text("text,label\ngood,a\nbad,b\n")
    given = [tmp_path / "texts.csv" if part == "texts.csv" else part for part in FIT]
    given += ["--run-dir", tmp_path / "run", "--processes", "2"]
    code, _, err = run_command(*given)
    assert (code, "only on JAX. Received: 2 processes" in err) == (1, True)
    monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", "3")
    code, _, err = run_command(*given)
    assert (code, "--processes is 2, but KERAS_DISTRIBUTION_NUM_PROCESSES is 3" in err) == (2, True)


@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        ("sys.exit(0)", 0, ""),
        ("sys.exit('no space') if place else time.sleep(60)", 1, "1 of 2 failed:\nno space"),
        ("os.kill(os.getpid(), 9) if place else time.sleep(60)", 137, "1 of 2 was ended by SIGK"),
        ("sys.exit(1) if place else os.kill(os.getpid(), 9)", 137, "0 of 2 was ended by SIGK"),
        ("place or os.kill(os.getppid(), 15); time.sleep(60)", 143, "0 of 2 was ended by SIGTERM"),
    ],
)
@pytest.mark.slow
def test_exit_codes_of_processes(code, expected, words, monkeypatch, capfd):
    begin = "import os, sys, time; place = int(os.environ['KERAS_DISTRIBUTION_PROCESS_ID']); "
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", begin + code])
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    monkeypatch.setattr(processes, "_GRACE_SECONDS", 1)
    began = time.monotonic()
    assert processes.run_processes(2) == expected
    assert time.monotonic() - began < 20
    assert words in capfd.readouterr().err


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    together = {
        **VARIABLES,
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": f"127.0.0.1:{port},127.0.0.1:1",
    }
    cases = {"one": [{}], "two": [{**together, "KERAS_DISTRIBUTION_PROCESS_ID": p} for p in "01"]}
    for name, environments in cases.items():
        (tmp_path / name).mkdir()
        running = [
            subprocess.Popen(
                [sys.executable, str(HERE / "processes_script.py"), str(tmp_path / name)],
                env={**JAX, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for environment in environments
        ]
        said = [process.communicate()[0] for process in running]
        assert [process.returncode for process in running] == [0] * len(running), said
    for run in ("run-tagging", "run-translation", "run-text-generation", "run-python"):
        one, two = (log(tmp_path / name / run) for name in cases)
        assert len(one) == 2
        np.testing.assert_allclose(two, one, rtol=1e-3, atol=1e-5, err_msg=run)
    assert said[1].count("Epoch") == 0  # one log


@pytest.mark.slow
def test_one_is_killed_and_the_run_is_taken_up_by_one(tmp_path):
    rows = [f"film {n} was {('dull,no', 'great,yes')[n % 2]}\n" for n in range(60)]
    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(rows))

    def start(run, *more):
        command = [sys.executable, "-m", "keras_attn", *FIT, "--run-dir", run, *more]
        return subprocess.Popen(
            command,
            cwd=tmp_path,
            env=JAX,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    broken = start("broken", "--processes", "2")
    while not (tmp_path / "broken/log.csv").exists():
        assert broken.poll() is None, broken.communicate()
        time.sleep(0.1)
    children = Path(f"/proc/{broken.pid}/task/{broken.pid}/children").read_text().split()
    assert len(children) == 2
    os.kill(int(children[1]), signal.SIGKILL)
    began = time.monotonic()
    _, err = broken.communicate(timeout=60)
    assert broken.returncode == 137
    assert "process 1 of 2 was ended by SIGKILL" in err
    assert time.monotonic() - began < 30
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    done = len(log(tmp_path / "broken"))
    assert 1 <= done < 30
    runs = [start("broken"), start("whole")]
    said = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    assert "Resuming in epoch" in said[0][0]
    whole, resumed = log(tmp_path / "whole"), log(tmp_path / "broken")
    assert len(whole) == 30
    np.testing.assert_allclose(resumed, whole, rtol=1e-3, atol=1e-5)
