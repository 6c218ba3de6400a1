"""Each task of the package answers, explains and is shown as its fields say."""

import base64
import json

import every_task
import pytest
import visual_question_toys
from compare_toys import png
from starlette.testclient import TestClient

from keras_attn.serve import application
from keras_attn.serve.served_model import plain

PICTURE = png(200, 30, 30)
TEXTS = ("a great dog [MASK]", "the dog runs in Rome.")
ODD = {
    "embeddings": ("dog",),
    "conversation": (["Hi.", "Hello.", "Who are you?"],),
    "captioning": (PICTURE,),
    "captioning, all trained": (PICTURE,),
    "visual questions": (PICTURE, visual_question_toys.ODD[0][1]),
}
UNEXPLAINED = ("embeddings", "text generation")


def given_and_asked(name, task, fields):
    """The input as `predict` takes it, and as JSON."""
    pairs = task.reads in ("only_pairs", "picture_pairs")
    values = ODD.get(name, TEXTS[: 1 + pairs])
    own = tuple(tuple(x) if isinstance(x, list) else x for x in values)
    coded = [{"b64": base64.b64encode(x).decode()} if isinstance(x, bytes) else x for x in values]
    return own if pairs else own[0], dict(zip(fields, coded, strict=False))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*were cut:UserWarning")
@pytest.mark.parametrize("name", every_task.CASES)
def test_answers_are_those_of_predict(name):
    task = every_task.CASES[name][0]()
    with TestClient(application({"m": task})) as client:
        fields = [x["name"] for x in client.get("/v1/models").json()["data"][0]["fields"]]
        own, asked = given_and_asked(name, task, fields)
        (expected,) = task.predict([own])
        seed = {"parameters": {"seed": 0}} if "generation" in name else {}
        answer = client.post("/v1/models/m:predict", json={"instances": [asked, asked], **seed})
        assert answer.status_code == 200, answer.text
        first, second = answer.json()["predictions"]
        if task.predicts:
            cells = plain(task.cells(expected))
            expected = next(iter(cells.values())) if len(cells) == 1 else cells
        elif isinstance(expected, tuple):
            expected = json.loads(task.readable(expected))
        assert_close(first, plain(expected))
        if "generation" not in name:  # each row has its own seed
            assert_close(second, plain(expected))
        columns = {"inputs": {name: [value] for name, value in asked.items()}}
        assert client.post("/v1/models/m:predict", json=columns).status_code == 200
        explained = client.post("/v1/models/m:explain", json={"instances": [asked]})
        assert explained.status_code == (400 if name in UNEXPLAINED else 200), explained.text
        if name not in UNEXPLAINED:
            assert explained.json()["page"].lstrip().lower().startswith("<!doctype html>")


def assert_close(found, expected):
    if isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-4)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_close(found[name], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    else:
        assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["captioning", "visual questions"])
@pytest.mark.parametrize("value", ["/etc/passwd", {"b64": "***"}, {"b64": "aGk="}, None, 3])
def test_pictures_are_bytes_and_never_paths(name, value):
    task = every_task.CASES[name][0]()
    with TestClient(application({"m": task})) as client:
        asked = {"image": value, "question": "what is it ?"}
        row = asked if name == "visual questions" else {"image": value}
        answer = client.post("/v1/models/m:predict", json={"instances": [row]})
        assert (answer.status_code, "root:" in answer.text) == (400, False), answer.text
