"""The examples on a local Ray, which must be installed: `pip install "ray[data,serve]"`."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

HERE = Path(__file__).parents[1]
EXAMPLES = HERE.parent / "examples/ray"
sys.path.append(str(HERE / "tasks"))
import text_classification_toys  # noqa: E402

pytestmark = [pytest.mark.by_hand, pytest.mark.filterwarnings("default")]
TEXTS = [f"the {noun} was {word}" for noun in ("film", "book") for word in ("great", "dull", "x")]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A classifier, and its file."""
    task, file = text_classification_toys.make("bag"), tmp_path_factory.mktemp("model") / "a.task"
    task.save(file)
    return task, file


@pytest.fixture
def score(model, tmp_path):
    """Runs the example for a table; returns its exit status and what it printed."""

    def score(*more):
        options = ["--task", "TextClassifier", "--model", model[1], "--input", tmp_path / "in",
                   "--output", tmp_path / "out", "--column", "text=review"]  # fmt: skip
        command = [sys.executable, EXAMPLES / "score_table.py", *options, *more]
        patient = {**os.environ, "RAY_raylet_start_wait_time_s": "300"}
        done = subprocess.run([*map(str, command)], env=patient, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return score


def test_a_table_is_predicted_and_taken_up_again(model, score, tmp_path):
    """Each file is predicted once; one that fails is predicted by the next run."""
    (tmp_path / "in").mkdir()
    files = [f"part-{n}.parquet" for n in range(4)]
    for n, name in enumerate(files):
        rows = pa.table({"id": [f"{n}{x}" for x in "abcdef"], "review": [*TEXTS[n:], *TEXTS[:n]]})
        pq.write_table(rows if n != 2 else rows.drop(["review"]), tmp_path / "in" / name)
    code, printed = score()
    assert (code != 0, "review" in printed) == (True, True), printed
    done = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out").glob("part*")}
    assert "part-2.parquet" not in done
    mended = pa.table({"id": [f"2{x}" for x in "abcdef"], "review": [*TEXTS[2:], *TEXTS[:2]]})
    pq.write_table(mended, tmp_path / "in" / "part-2.parquet")
    code, printed = score("--workers", "1")
    assert (code, f"4 files, {4 - len(done)} to predict" in printed) == (0, True), printed
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == files
    for n, name in enumerate(files):
        if name in done:
            assert (tmp_path / "out" / name).stat().st_mtime_ns == done[name]
        rows = pq.read_table(tmp_path / "out" / name)
        assert rows["id"].to_pylist() == [f"{n}{x}" for x in "abcdef"]
        expected = model[0].predict([*TEXTS[n:], *TEXTS[:n]])
        assert rows["label"].to_pylist() == [x.label for x in expected]
        probabilities = [max(x.probabilities.values()) for x in expected]
        assert rows["probability"].to_pylist() == pytest.approx(probabilities, abs=1e-5)
    assert "4 files, 0 to predict" in score()[1]


def test_two_replicas_answer_in_batches(model):
    task, file = model
    command = [sys.executable, EXAMPLES / "serve.py", "--task", "TextClassifier", "--model", file]
    child = subprocess.Popen([*map(str, command)], start_new_session=True)
    url = "http://127.0.0.1:8000/"

    def ask(text):
        answer = httpx2.post(url, json={"instances": [text]}, timeout=120)
        return answer.json()["predictions"][0]["probabilities"]

    try:
        end = time.monotonic() + 300
        while replicas() < 2 or not answers(url):
            assert child.poll() is None and time.monotonic() < end
            time.sleep(1)
        assert httpx2.post(url, json={"instances": [3]}).status_code == 400
        with ThreadPoolExecutor(16) as clients:
            found = list(clients.map(ask, TEXTS * 20))
        for text, probabilities in zip(TEXTS * 20, found, strict=True):
            assert probabilities == pytest.approx(task.predict(text).probabilities, abs=1e-5)
    finally:
        os.killpg(child.pid, signal.SIGINT)
        child.wait(120)


def replicas():
    """Number of processes that hold the model."""
    names = [
        " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])
    ]
    return sum("ServeReplica:default:Predictor" in name for name in names)


def answers(url):
    try:
        return httpx2.post(url, json={"instances": []}, timeout=60).status_code == 200
    except httpx2.TransportError:
        return False
