"""The command in a process of its own: signals, and the other backends."""

import socket
import threading
import time

import every_task
import httpx2
import pytest
import serving
import text_classification_toys

from keras_attn.serve import serve

SLOW = """
import pathlib, time
from keras_attn.tasks import TextClassifier

class Slow(TextClassifier):
    \"""Computes a batch when there is a file.\"""

    def results(self, inputs, use):
        while not pathlib.Path("go").exists():
            time.sleep(0.02)
        return super().results(inputs, use)
"""


def wait(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def refuses(url):
    host, port = url.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"'127.0.0.1' and port {port}: .* Choose another port"):
            serve({}, port=port)


@pytest.mark.slow
def test_sigterm_answers_what_has_begun_and_what_waits(tmp_path):
    """One request is computed and one waits in the queue when the signal comes."""
    (tmp_path / "slow.py").write_text(SLOW)
    file = tmp_path / "slow.task"
    own = {}
    exec(SLOW, own)
    toys = text_classification_toys
    own["Slow"](toys.TOKENIZERS["byte_pair"], toys.CLASSES, model=toys.SMALL).save(file)
    answers = {}

    def ask(url, text):
        body = {"instances": [text]}
        answers[text] = httpx2.post(f"{url}/v1/models/m:predict", json=body, timeout=300)

    go = tmp_path / "go"
    go.touch()
    options = ("--model", f"m={file}", "--task", "slow.py:Slow", "--seconds", "300")
    with serving.command(tmp_path, *options) as (child, url):
        go.unlink()
        clients = [threading.Thread(target=ask, args=(url, text)) for text in ("good", "bad")]
        clients[0].start()
        metrics = lambda: httpx2.get(f"{url}/metrics").text  # noqa: E731
        wait(lambda: 'batch_rows_count{model="m"} 2.0' in metrics())  # the first warmed the model
        clients[1].start()
        wait(lambda: 'keras_attn_waiting{model="m"} 1.0' in metrics())
        child.terminate()
        wait(lambda: refuses(url))
        assert child.poll() is None
        go.touch()
        for client in clients:
            client.join()
        assert child.wait(60) == 0
    assert [answers[text].status_code for text in ("good", "bad")] == [200, 200]
    assert answers["good"].json()["predictions"][0]["label"] in toys.CLASSES


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_another_backend_answers_as_this_one(tmp_path, backend):
    classifier = text_classification_toys.make("bag")
    talker = every_task.CASES["conversation"][0]()
    options = ["--seconds", "300"]
    for name, task in (("films", classifier), ("talk", talker)):
        task.save(tmp_path / f"{name}.task")
        options += ["--model", f"{name}={name}.task"]
    text = "the film was great"
    with serving.command(tmp_path, *options, KERAS_BACKEND=backend) as (_, url):

        def post(path, **body):
            answer = httpx2.post(f"{url}/v1/{path}", json=body, timeout=300)
            assert answer.status_code == 200, answer.text
            return answer.json()

        (prediction,) = post("models/films:predict", instances=[text])["predictions"]
        (explanation,) = post("models/films:explain", instances=[text])["explanations"]
        hello = [{"role": "user", "content": "Hi."}]
        (choice,) = post("chat/completions", model="talk", messages=hello)["choices"]
        assert httpx2.get(f"{url}/health").json()["warm"] == ["films", "talk"]
    expected = classifier.predict(text)
    assert prediction["probabilities"] == pytest.approx(expected.probabilities, abs=1e-4)
    assert explanation["weights"] == pytest.approx(classifier.explain(text).weights, abs=1e-4)
    assert choice["message"]["content"] == talker.answer("Hi.")
