"""The protocol between the runner and its children."""

import io
import json
from pathlib import Path

import pytest

from benchmarks import child
from benchmarks.children import Child, ChildError


@pytest.fixture
def start(monkeypatch):
    """Starts children that can import `stand_in`."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    started = []

    def make(**settings):
        started.append(Child("tensorflow", **settings))
        return started[-1]

    yield make
    for each in started:
        each.close()


def asked(*requests):
    answers = io.StringIO()
    child.serve(io.StringIO("".join(json.dumps(r) + "\n" for r in requests)), answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def prepare(job, case, **settings):
    return {
        "module": "stand_in",
        "job": job,
        "case": case,
        "settings": settings,
        "memory_limit": None,
    }


def test_a_line_for_each_request_until_quit():
    answers = asked(
        {"do": "prepare", **prepare("sleeping", {"seconds": 0.001, "amount": 3})},
        {"do": "run", "repeats": 2},
        {"do": "dance"},
        {"do": "quit"},
        {"do": "run", "repeats": 2},
    )
    assert len(answers) == 3
    assert answers[0]["answer"]["amount"] == 3
    assert answers[0]["answer"]["result"] == ["slept"]
    assert answers[0]["answer"]["repeats"] > 1
    assert answers[1]["answer"]["wall_s"] >= 0.001
    assert answers[1]["answer"]["cpu_s"] < 0.001
    assert "dance" in answers[2]["error"]


@pytest.mark.parametrize(
    "kind, message, status",
    [
        ("memory", "", "out_of_memory"),
        ("value", "RESOURCE_EXHAUSTED: 17 GB", "out_of_memory"),
        ("value", "a room is not a moon", "error"),
    ],
)
def test_errors_are_answers(kind, message, status):
    [answer] = asked({"do": "prepare", **prepare("failing", {"kind": kind, "message": message})})
    assert list(answer) == [status]
    assert message in answer[status]


def test_a_long_job_is_run_once_and_without_warming_up_if_told():
    case = {"seconds": 0.3, "amount": 1, "warm_up": False}
    [answer] = asked({"do": "prepare", **prepare("sleeping", case, times=1)})
    assert answer["answer"]["repeats"] == 1
    assert 0.3 <= answer["answer"]["first"]["wall_s"] < 0.6


def test_a_process_answers_though_libraries_print(start):
    process = start()
    found = process.ask("prepare", **prepare("sleeping", {"seconds": 0.01, "amount": 2}))
    assert found["amount"] == 2
    assert process.ask("run", repeats=1)["wall_s"] >= 0.01


def test_memory_is_what_was_needed_beyond_the_imports(start):
    process = start()
    process.ask("prepare", **prepare("holding", {"bytes": 100 * 2**20}))
    assert 90 < process.ask("memory")["peak_mb"] < 130


def test_a_limit_of_memory(start):
    process = start()
    request = {**prepare("holding", {"bytes": 300 * 2**20}), "memory_limit": 100}
    with pytest.raises(ChildError) as error:
        process.ask("prepare", **request)
    assert error.value.status == "out of memory"


@pytest.mark.parametrize(
    "message, status", [("std::bad_alloc", "out of memory"), ("a bug", "error")]
)
def test_a_process_that_dies(start, message, status):
    process = start()
    with pytest.raises(ChildError, match=message) as error:
        process.ask("prepare", **prepare("dying", {"message": message}))
    assert error.value.status == status
    assert not process.alive


@pytest.mark.slow
def test_a_process_that_takes_too_long(start):
    process = start(timeout=2.0)
    with pytest.raises(ChildError) as error:
        process.ask("prepare", **prepare("sleeping", {"seconds": 60, "amount": 1}))
    assert error.value.status == "too long"
    assert not process.alive
