"""Requests and answers, with a task whose answers are known."""

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import pytest
from starlette.testclient import TestClient

from keras_attn.fields import Signature, Together
from keras_attn.serve import Limits, application
from keras_attn.serve.problems import RequestProblem
from keras_attn.serve.served_model import ServedModel
from keras_attn.serve.worker import Worker
from keras_attn.settings import Settings, setting
from keras_attn.tasks import Explanation, Task, TextGenerator
from keras_attn.text import CharacterTokenizer


@dataclass(frozen=True)
class Use(Settings):
    top_k: int = setting(1, "letters", at_least=1, steps=("predict",))
    method: str = setting("all", "weights", choices=("all", "none"), steps=("explain",))
    reranker: str = setting("", "a file", path="model")


class Letters(NamedTuple):
    length: int
    first: str


class Counter(Task):
    """Counts the letters of a text."""

    name, about, reads = "letters", "Count letters.", "lines"
    steps = ("predict", "explain")
    Use = Use
    predicts: ClassVar = {"length": int, "first": str}

    def __init__(self):
        self.batches, self.wait = [], threading.Event()
        self.wait.set()

    def signatures(self, use):
        return {"serving_default": Signature(("text",), Together({}), {})}

    def results(self, inputs, use):
        self.batches.append(len(inputs))
        self.wait.wait(10)
        if "bad" in inputs:
            raise ValueError("Expected letters. Received: 'bad'.")
        return [Letters(len(x), x[: use.top_k]) for x in inputs]

    def explained(self, inputs, use):
        weight = 1.0 if use.method == "all" else 0.0
        return [Explanation(x, [x], [(0, len(x))], [weight]) for x in inputs]


@pytest.fixture
def task():
    return Counter()


@pytest.fixture
def client(task):
    limits = Limits(queue_size=4, seconds=0.3, max_bytes=500)
    with TestClient(application({"a": task, "b": Counter()}, limits)) as client:
        yield client


def post(client, body, verb="predict", model="a"):
    data = {"json": body} if not isinstance(body, bytes) else {"content": body}
    answer = client.post(f"/v1/models/{model}:{verb}", **data)
    return answer.status_code, answer.json()


def test_rows_and_columns(client):
    rows = [{"length": 2, "first": "a"}, {"length": 1, "first": "x"}]
    assert post(client, {"instances": ["ab", {"text": "x"}]}) == (200, {"predictions": rows})
    columns = {"length": [2, 1], "first": ["a", "x"]}
    assert post(client, {"inputs": ["ab", "x"]}) == (200, {"outputs": columns})
    asked = {"inputs": {"text": ["ab", {"b64": "eA=="}]}, "parameters": {"top_k": 2},
             "signature_name": "serving_default"}  # fmt: skip
    assert post(client, asked)[1] == {"outputs": {"length": [2, 1], "first": ["ab", "x"]}}


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"instances": []}, 400, "a list of rows"),
        ({"instances": [7]}, 400, "a string as `text` in row 0"),
        ({"instances": [{"texts": "a"}]}, 400, "Expected text in row 0"),
        ({"instances": ["a"], "inputs": ["a"]}, 400, "`instances` (rows) or `inputs`"),
        ({"instances": ["a"], "more": 1}, 400, "names among"),
        ({"instances": ["a"], "signature_name": "x"}, 400, '"serving_default" as `signature_name`'),
        ({"instances": ["a"], "parameters": {"reranker": "/etc/passwd"}}, 400, "among top_k"),
        ({"instances": ["a"], "parameters": {"top_k": 0}}, 400, "at least 1"),
        ({"instances": ["a"], "parameters": {"top_k": 10**6}}, 400, "at most 1000"),
        ({"instances": ["a", "bad"]}, 400, "Received: 'bad'"),
        ({"instances": ["a"] * 5}, 400, "at most 4 rows"),
        ({"instances": ["a" * 500]}, 413, "500 bytes"),
        (b"\xff", 400, "a JSON object"),
        (b"[" * 400, 400, "JSON"),
        (b'{"instances": ["\\ud800"]}', 400, "lone surrogate"),
        (b'{"instances": [NaN]}', 400, "NaN"),
    ],
)
def test_bad_requests_say_why(client, body, status, why):
    got, answer = post(client, body)
    assert (got, why in answer["error"]) == (status, True), answer


def test_half_a_body_is_a_bad_request(task):
    """The server sees the end of the connection after a part of the body."""
    asked = [{"type": "http.request", "body": b'{"inst', "more_body": True},
             {"type": "http.disconnect"}]  # fmt: skip
    answers = []

    async def receive():
        return asked.pop(0)

    async def send(message):
        answers.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/models/a:predict", "headers": []}
    asyncio.run(application({"a": task})(scope, receive, send))
    assert answers[0]["status"] == 400
    assert b"6 bytes before the connection ended" in answers[1]["body"]


def test_unknown_models_and_verbs(client):
    assert post(client, {}, model="c")[0] == 404
    assert post(client, {}, verb="train")[0] == 404
    assert client.get("/v1/models/..%2f..%2fetc").status_code == 404
    assert client.get("/v1/models/a/", follow_redirects=False).status_code == 404
    assert client.get("/v1/models/c:predict").status_code == 404
    for verb in ("predict", "explain"):
        answer = client.get(f"/v1/models/a:{verb}")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_slow_requests_and_overload(client, task):
    task.wait.clear()
    assert post(client, {"instances": ["a"]}) == (
        504, {"error": "The request took longer than 0.3 seconds."},
    )  # fmt: skip
    statuses = []
    ask = lambda: statuses.append(post(client, {"instances": ["a", "b", "c"]})[0])  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    task.wait.set()
    assert sorted(statuses) == [429, 429, 504]
    assert post(client, {"instances": ["a"]})[0] == 200


def test_descriptions(client):
    assert client.get("/health").json() == {"status": "ok", "models": ["a", "b"], "warm": []}
    post(client, {"instances": ["a", "b"]})
    text = client.get("/metrics").text
    assert 'keras_attn_requests_total{model="a",status="200",verb="predict"} 1.0' in text
    assert 'keras_attn_rows_total{model="a"} 2.0' in text
    model = client.get("/v1/models").json()["data"][0]
    assert (model["id"], [x["name"] for x in model["settings"]]) == ("a", ["top_k"])
    assert "/v1/models/b:explain" in client.get("/openapi.json").json()["paths"]
    page = client.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http" not in page.text.replace("http://www.w3.org/", "")


def test_each_model_computes_a_row_before_the_first_request(task, monkeypatch):
    """A model that refuses the row is served nevertheless."""
    odd = Counter()
    monkeypatch.setattr(odd, "results", lambda inputs, use: int(inputs[0]))
    with TestClient(application({"a": task, "odd": odd}, warm=True)) as client:
        assert task.batches == [1]
        assert client.get("/health").json()["warm"] == ["a"]


def test_explanations_escape_what_was_asked(client):
    status, answer = post(client, {"instances": ["<script>x"]}, "explain")
    assert (status, answer["explanations"][0]["weights"]) == (200, [1.0])
    assert "<script>x" not in answer["page"]


def test_settings_of_explanations(client):
    body = {"instances": ["x"], "parameters": {"method": "none"}}
    (explanation,) = post(client, body, "explain")[1]["explanations"]
    assert explanation["weights"] == [0.0]
    for parameters, problem in (
        ({"top_k": 2}, "`parameters` among method"),
        ({"method": "x"}, "'all', 'none'"),
    ):
        status, answer = post(client, {**body, "parameters": parameters}, "explain")
        assert status == 400 and problem in answer["error"]
    assert post(client, body)[0] == 400  # it is no setting of predict
    described = client.get("/v1/models").json()["data"][0]["explanation_settings"]
    assert [(x["name"], x["choices"]) for x in described] == [("method", ["all", "none"])]
    paths = client.get("/openapi.json").json()["paths"]
    schema = paths["/v1/models/a:explain"]["post"]["requestBody"]["content"]["application/json"]
    assert schema["schema"]["properties"]["parameters"]["properties"].keys() == {"method"}


def test_rows_of_requests_are_computed_together(task):
    """What comes in during a batch is the next batch; lengths and settings part it."""
    worker = Worker(lambda rows, settings: task.predict(rows, **settings))

    async def ask():
        task.wait.clear()
        first = asyncio.ensure_future(worker.rows(["x"]))
        while not task.batches:
            await asyncio.sleep(0.001)
        others = [worker.rows([letter]) for letter in ("a", "b" * 999, "c", "dd")]
        settings = [worker.rows(["e"], {"top_k": 2})]
        later = asyncio.gather(first, *others, *settings)
        await asyncio.sleep(0.01)
        task.wait.set()
        return await later

    found = asyncio.run(ask())
    assert [x.length for (x,) in found] == [1, 1, 999, 1, 2, 1]
    assert sorted(task.batches) == [1, 1, 1, 3]
    worker.stop()
    with pytest.raises(RequestProblem, match="Too many"):
        asyncio.run(worker.rows(["a"]))


def test_samples_of_requests_depend_on_their_seeds_alone():
    """They are those of `predict`, in a batch with the rows of other requests too."""
    generator = TextGenerator(CharacterTokenizer.train(["to be"]), model={"units": 4, "dim": 4})
    model = ServedModel("g", generator)
    settings = {"num_characters": 8, "seed": 1}
    rows, left = model.seeded(["to", "be"], settings)
    others, also_left = model.seeded(["be"], {**settings, "seed": 2})
    assert left == also_left == {"num_characters": 8}  # computed together
    found = model.predict(others + rows[::-1], left)
    assert found[:0:-1] == generator.predict(["to", "be"], **settings)
    drawn = [model.seeded(["to"], {})[0][0].seed for _ in range(4)]
    assert len(set(drawn)) == 4
    assert model.seeded(["to"], {"beams": 2}) == (["to"], {"beams": 2})
    assert model.described()["settings"][-1]["default"] is None


def test_a_bad_row_fails_for_itself_only(task):
    worker = Worker(lambda rows, settings: task.predict(rows, **settings))

    async def ask():
        asked = [worker.rows([x]) for x in ("a", "bad", "c")]
        return await asyncio.gather(*asked, return_exceptions=True)

    first, error, third = asyncio.run(ask())
    assert (first[0].length, str(error)[:17], third[0].first) == (1, "Expected letters.", "c")
    worker.stop()


def test_streams_take_turns_and_stopping_finishes_them():
    worker = Worker(lambda rows, settings: rows)

    async def read(name):
        return [
            x async for x in worker.stream(lambda: (f"{name}{time.sleep(0.002)}" for _ in "abc"))
        ]

    async def ask():
        streams = [asyncio.ensure_future(read(name)) for name in "xy"]
        await asyncio.sleep(0)
        return await asyncio.gather(*streams)

    assert asyncio.run(ask()) == [["xNone"] * 3, ["yNone"] * 3]
    worker.stop()
