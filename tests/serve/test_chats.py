"""Chats in OpenAI's form, and with OpenAI's client."""

import json
import re
from pathlib import Path

import conversation_toys
import every_task
import openai
import pytest
from serving import served
from starlette.testclient import TestClient

from keras_attn.serve import application

PAGE = Path(__file__).parents[2] / "docs/rest_server.md"
HELLO = [{"role": "user", "content": "Hi."}]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tasks():
    return {name: every_task.CASES[case][0]() for name, case in (
        ("talk", "conversation"), ("write", "text generation"), ("dog", "embeddings"),
    )}  # fmt: skip


@pytest.fixture(scope="module")
def client(tasks):
    with TestClient(application(tasks)) as client:
        yield client


def chat(client, **body):
    return client.post("/v1/chat/completions", json={"messages": HELLO, **body})


def test_the_answer_is_that_of_the_task(client, tasks):
    answer = chat(client, model="talk").json()
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == tasks["talk"].answer("Hi.")
    assert (answer["object"], choice["finish_reason"]) == ("chat.completion", "length")
    drawn = chat(client, model="talk", temperature=0.9, seed=3).json()["choices"][0]["message"]
    expected = tasks["talk"].answer("Hi.", search="sample", temperature=0.9, seed=3)
    assert drawn["content"] == expected


def test_an_answer_that_is_cut_says_so():
    """The end is read from the tokens, of which decoding and encoding again makes others."""
    task, ends = conversation_toys.fitted(), set()
    given = [{"temperature": x, "seed": seed} for seed, x in enumerate([0.1, 1.0, 5.0, 5.0])]
    with TestClient(application({"talk": task})) as client:
        answers = [chat(client, model="talk", **settings).json() for settings in given]
    for settings, answer in zip(given, answers, strict=True):
        use = task.used({"search": "sample", **settings})
        (tokens,) = task.computed(task.field.encode([("Hi.",)]), use)["best"]
        written = [int(token) for token in tokens if token != task.tokenizer.pad_id]
        ended = written[-1] == task.tokenizer.end_id
        ends.add(ended)
        assert answer["usage"]["completion_tokens"] == len(written)
        assert answer["choices"][0]["finish_reason"] == ("stop" if ended else "length")
    assert ends == {True, False}


def test_settings_of_sampling_are_used_and_checked(client, tasks):
    for settings in ({"top_p": 0.5, "seed": 2}, {"seed": 4}):
        answer = chat(client, model="talk", **settings).json()["choices"][0]["message"]
        assert answer["content"] == tasks["talk"].answer("Hi.", search="sample", **settings)
    for model in ("talk", "write"):
        for wrong in ({"top_p": 7}, {"seed": -5}, {"temperature": 0, "top_p": 7}):
            assert chat(client, model=model, **wrong).status_code == 400, (model, wrong)
        certain = [
            chat(client, model=model, temperature=0, seed=seed).json()["choices"][0]["message"]
            for seed in (1, 2)
        ]
        assert certain[0] == certain[1]


def test_without_a_seed_each_answer_is_drawn_anew(client):
    for model, more in (("talk", {"temperature": 9.0}), ("write", {"max_tokens": 20})):
        answers = [chat(client, model=model, **more).json() for _ in range(6)]
        assert len({answer["choices"][0]["message"]["content"] for answer in answers}) > 1, model
    asked = {"instances": [["Hi."]], "parameters": {"search": "sample", "temperature": 9.0}}
    answers = {client.post("/v1/models/talk:predict", json=asked).text for _ in range(6)}
    assert len(answers) > 1
    asked["parameters"]["seed"] = 1
    assert len({client.post("/v1/models/talk:predict", json=asked).text for _ in range(6)}) == 1


def test_a_text_is_continued_and_streamed(client, tasks):
    asked = {"model": "write", "max_tokens": 90, "seed": 7, "temperature": 0.5}
    whole = chat(client, **asked).json()
    text = whole["choices"][0]["message"]["content"]
    settings = {"num_characters": 90, "seed": 7, "temperature": 0.5}
    assert "Hi." + text == tasks["write"].generate("Hi.", **settings)
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"] == {"prompt_tokens": 3, "completion_tokens": 90, "total_tokens": 93}
    stopped = chat(client, **asked, stop=text[70:]).json()
    assert stopped["choices"][0]["message"]["content"] == text[:70]
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert stopped["usage"]["completion_tokens"] == 90
    answer = chat(client, stream=True, **asked)
    *events, end = answer.text.strip().split("\n\n")
    deltas = [json.loads(event.removeprefix("data: "))["choices"][0]["delta"] for event in events]
    assert "".join(delta.get("content", "") for delta in deltas) == text
    assert (len(deltas), end) == (4, "data: [DONE]")  # the role, two pieces, the end


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"model": "none"}, 404, "(talk, write)"),
        ({"model": "dog"}, 404, "(talk, write)"),
        ({"model": "talk", "messages": []}, 400, "a list of `messages`"),
        ({"model": "talk", "messages": [{"role": "me", "content": "a"}]}, 400, "`role`"),
        ({"model": "talk", "messages": [{"role": "system", "content": "a"}]}, 400, "of the user"),
        ({"model": "talk", "logit_bias": {}}, 400, "logit_bias"),
        ({"model": "talk", "n": 2}, 400, "`n` of 1"),
        ({"model": "talk", "max_tokens": 3}, 400, "not supported"),
        ({"model": "write", "max_tokens": 10**9}, 400, "1 to 4096"),
        ({"model": "write", "temperature": -1}, 400, "temperature"),
        ({"model": "write", "temperature": "hot", "stream": True}, 400, "a number"),
        ({"model": "write", "stop": [1]}, 400, "strings as `stop`"),
    ],
)
def test_bad_requests_say_why(client, body, status, why):
    answer = chat(client, **body)
    assert (answer.status_code, why in answer.json()["error"]["message"]) == (status, True)


def test_openai_client_and_the_code_of_the_page(tasks, capsys):
    (code,) = re.findall(r"```python\n(from openai.*?)```", PAGE.read_text("utf-8"), re.S)
    with served(tasks) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        assert {model.id for model in client.models.list()} == {"talk", "write", "dog"}
        answer = client.chat.completions.create(model="talk", messages=HELLO)
        expected = tasks["talk"].answer("Hi.")
        assert answer.choices[0].message.content == expected
        with pytest.raises(openai.BadRequestError, match="logit_bias"):
            client.chat.completions.create(model="talk", messages=HELLO, logit_bias={"1": 1})
        exec(code.replace("http://127.0.0.1:8080", url), {})
    said = tasks["talk"].answer("Hello, who are you?")
    assert capsys.readouterr().out == said
