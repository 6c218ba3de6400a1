"""Hostile requests to a server in a process of its own, over sockets."""

import collections
import concurrent.futures
import http.client
import json
import random
import select
import socket

import every_task
import fuzzing
import httpx2
import psutil
import pytest
import serving

MODELS = {
    "text": "text classification", "answer": "question answering", "picture": "captioning",
    "write": "text generation", "talk": "conversation",
}  # fmt: skip
STATUSES = {200, 400, 404, 405, 413, 429, 504}
"""What docs/rest_server.md tells, and 405 for another method."""
CLIENTS = 16


def sent(address, request):
    """The status of the answer, None if there is none, and what is wrong with it."""
    with socket.create_connection(address, timeout=120) as connection:
        answer = http.client.HTTPResponse(connection, method=request.method)
        try:
            connection.sendall(request.data)
            if not request.proper and not select.select([connection], [], [], 3)[0]:
                connection.shutdown(socket.SHUT_WR)  # the server waits for more
            answer.begin()
            content = answer.read()
        except TimeoutError:
            return None, "no answer in two minutes"
        except (http.client.HTTPException, ConnectionError) as error:
            return None, f"no answer: {error!r}" if request.proper else ""
        finally:
            answer.close()
    problem = ""
    if answer.status not in STATUSES or b"root:" in content:
        problem = f"{answer.status}: {content[:500]!r}"
    elif request.proper and request.method == "POST" and answer.status not in (404, 405):
        problem = misshapen(content, answer.getheader("content-type"))
    return answer.status, problem


def misshapen(content, kind):
    """What is wrong with an answer of JSON, or of events."""
    if kind.startswith("text/event-stream"):
        ends = content.endswith(b"data: [DONE]\n\n") or b'"error"' in content
        return "" if ends else f"a stream without an end: {content[-300:]!r}"
    try:
        json.loads(content, parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError) as error:
        return f"{error!r}: {content[:500]!r}"
    return ""


@pytest.mark.parametrize("count", [
    pytest.param(200, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.nightly),
])  # fmt: skip
def test_hostile_requests(tmp_path, count):
    """Each is answered or closed, nothing is an error of the server, and memory is level."""
    options = ["--megabytes", "0.2"]
    for name, case in MODELS.items():
        every_task.CASES[case][0]().save(tmp_path / f"{name}.task")
        options += ["--model", f"{name}={name}.task"]
    draw, log = random.Random(count), tmp_path / "log"
    statuses, sizes, problems = collections.Counter(), [], []
    with log.open("w") as errors, serving.command(tmp_path, *options, errors=errors) as server:
        child, url = server
        host, port = url.removeprefix("http://").split(":")
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            for _ in range(10):
                requests = [fuzzing.drawn(draw, f"{host}:{port}") for _ in range(count // 10)]
                answers = clients.map(sent, [(host, int(port))] * len(requests), requests)
                for request, (status, problem) in zip(requests, answers, strict=True):
                    statuses[status] += 1
                    if problem:
                        problems.append(f"{problem} for {request.data[:1000]!r}")
                sizes.append(round(psutil.Process(child.pid).memory_info().rss / 1e6))
                print(dict(statuses), "MB:", sizes, *problems, sep="\n", flush=True)
        assert httpx2.get(f"{url}/health", timeout=60).json()["status"] == "ok"
        answer = httpx2.post(f"{url}/v1/models/text:predict", json={"instances": ["a"]}, timeout=60)
        assert answer.status_code == 200
        child.terminate()
        assert child.wait(60) == 0
    assert problems == []
    assert "Traceback" not in log.read_text()
    assert statuses.keys() >= {200, 400, 404, 405, 413}
    if count >= 10_000:
        assert sizes[-1] - sizes[4] < 50
