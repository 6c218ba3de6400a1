"""The command: from dialogues to a chat, and what is wrong with a file or a setting."""

import json
import signal

import pytest
from command_runs import RUN_TO_SIGNAL, assert_same_end, run_command, run_elsewhere
from tracing import eagerly

from keras_attn.tasks import Talker
from keras_attn.tasks.conversation import answers_to
from keras_attn.training import read_training_notes

SETTINGS = """
[data]
vocabulary_size = 270
max_context = 24
max_answer = 6
test_share = 0.2
dev_share = 0.1

[model]
model = "gpt"
dim = 8
num_layers = 1
num_heads = 2
intermediate_dim = 8

[training]
epochs = 1
"""
CHAT = """
import os, sys
read, write = os.pipe()
os.write(write, sys.argv[2].encode())
os.close(write)
os.dup2(read, 0)
from keras_attn.cli import main
main(["conversation", "chat", "--model", sys.argv[1], "--beams", "1"])
"""


def command(*arguments):
    return run_command("conversation", *arguments)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    (folder / "settings.toml").write_text(SETTINGS)
    names = [a + b for a in ("Ann", "Ben", "Cem", "Dan") for b in ("a", "i", "o", "us", "er")]
    rows = [
        {"turns": [{"speaker": s, "text": t.format(name)} for s, t in
                   (("me", "Hi."), ("desk", "Who?"), ("me", "I am {}."), ("desk", "Oh, {}!"))]}
        for name in names
    ]  # fmt: skip
    (folder / "talks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def fit_arguments(place, run_dir, *more):
    return (
        "fit", "--config", place / "settings.toml", "--train", place / "talks.jsonl", "--speaker",
        "desk", "--run-dir", run_dir, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(place):
    with eagerly():
        code, out, err = command(*fit_arguments(place, place / "run"))
    assert code == 0, err
    assert "20 dialogues of 80 turns" in out and "4 dialogues left for the test" in out
    assert "Answers for training: 28, development: 4" in out and "perplexity" in out
    assert out.splitlines()[-1] == str(place / "run/best.task")
    return place / "run/best.task"


@pytest.mark.slow
def test_a_run_that_is_interrupted_and_killed_comes_to_the_same_end(place, tmp_path):
    """The first end is a Ctrl-C, the second comes without a warning; the third process goes on."""
    settings = "--epochs", 3, "--tokens-per-batch", 48, "--checkpoint-steps", 2, "--dropout", 0.1
    code, _, err = command(*fit_arguments(place, tmp_path / "whole", *settings))
    assert code == 0, err
    again = fit_arguments(place, tmp_path / "again", *settings)

    def run_to(number, writings, code):
        fit = ("conversation", *again)
        return run_elsewhere(RUN_TO_SIGNAL, int(number), writings, *fit, code=code)

    _, err = run_to(signal.SIGINT, 2, 130)
    assert "same command again to resume" in err
    checkpoint = tmp_path / "again" / "checkpoint.npz"
    notes = read_training_notes(checkpoint)
    assert (notes["epoch"], notes["batch"]) == (0, 4), notes
    run_to(signal.SIGKILL, 4, -signal.SIGKILL)
    notes = read_training_notes(checkpoint)
    assert notes["epoch"] == 1 and notes["batch"] > 0, notes
    code, out, err = command(*again)
    assert code == 0, err
    assert "Resuming in epoch" in out
    assert_same_end(tmp_path / "again", tmp_path / "whole")


@pytest.mark.slow
def test_evaluate(place, run, eager):
    given = (
        "--model", run, "--train", place / "talks.jsonl", "--speaker", "desk", "--dev-share", 0.1,
        "--beams", 1,
    )  # fmt: skip
    code, out, err = command("evaluate", *given, "--test-share", 0.2, "--to", place / "e.json")
    assert code == 0, err
    assert "8 answers to measure on, 28 to learn from" in out
    for row in ("model", "random training answer", "answer of the nearest training context"):
        assert row in out
    assert "No embedding average" in out and "perplexity" in out
    figures = json.loads((place / "e.json").read_text())
    assert len(figures["answers"]) == 8 and figures["scores"]["model"]["commonest"] > 0
    few = "--limit", 5, "--to", place / "few.json"
    code, out, err = command("evaluate", *given, "--data", place / "talks.jsonl", *few)
    assert code == 0, err
    assert "16 of them are among those to learn from" in out and "5 of 40 answers drawn; 5" in out
    assert len(json.loads((place / "few.json").read_text())["answers"]) == 5


@pytest.mark.slow
def test_predict(run, tmp_path, eager):
    lines = tmp_path / "lines.txt"
    lines.write_text("Hi.\tWho?\tI am Ann.\n\nI am Ben.\n")
    code, _, err = command("predict", "--model", run, "--beams", 2, lines, "--to", tmp_path / "o")
    assert code == 0, err
    found = Talker.load(run).answer([("Hi.", "Who?", "I am Ann."), "", "I am Ben."], beams=2)
    assert (tmp_path / "o").read_text().split("\n") == [*(" ".join(x.split()) for x in found), ""]
    code, _, err = command("predict", "--model", run, "--top-k", 3, lines)
    assert code == 2 and "--top-k" in err and "sample" in err


@pytest.mark.slow
def test_a_chat_keeps_the_last_turns(run):
    out, err = run_elsewhere(CHAT, run, "Hi.\nI am Ben.\n \nHi.\n")
    talker = Talker.load(run)
    with eagerly():
        first = talker.readable(talker.answer("Hi.", beams=1))
        second = talker.readable(talker.answer(("Hi.", first, "I am Ben."), beams=1))
    assert out.split("\n") == [first, second, first, ""]
    assert "Ctrl-D" not in err  # nobody types


def test_after_an_empty_answer_the_same_side_speaks():
    heard, said = [], iter(["Yes?", " ", "", "Bye.", "Hm."])

    def reply(turns):
        heard.append(turns)
        return next(said)

    lines = ["Hi.", "I am", "Ben.", "And you?", " ", "Hi."]
    assert list(answers_to(lines, reply, 4)) == ["Yes?", " ", "", "Bye.", "Hm."]
    assert heard == [
        ("Hi.",), ("Hi.", "Yes?", "I am"), ("Hi.", "Yes?", "I am Ben."),
        ("Hi.", "Yes?", "I am Ben. And you?"), ("Hi.",),
    ]  # fmt: skip


def test_bad_data(place, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"turns": ["a", "b"]}\n{"turns": ["a"]}\n{"turns"')
    fit = ("fit", "--config", place / "settings.toml", "--run-dir", tmp_path / "run")
    code, _, err = command(*fit, "--train", bad)
    assert code == 1 and "(line 2: only 'A' speaks)" in err and "line 3" in err
    assert "--on-error skip" in err and not (tmp_path / "run").exists()
    code, _, err = command(*fit, "--train", place / "talks.jsonl", "--speaker", "nobody")
    assert code == 1 and "speaker 'nobody'" in err
    code, _, err = command(*fit, "--train", tmp_path / "none.jsonl")
    assert code == 1 and "none.jsonl" in err
    code, _, err = command("chat", "--model", tmp_path / "none.task")
    assert code == 1 and "none.task" in err
