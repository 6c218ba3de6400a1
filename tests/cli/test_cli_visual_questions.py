"""The command of questions about pictures: from a table to a page of maps."""

import json
import re

import numpy as np
import pytest
from command_runs import note_exports, run_command
from PIL import Image
from tracing import eagerly

from keras_attn.tasks import VisualQuestionAnswerer

COLORS = {"red": (220, 30, 30), "blue": (30, 30, 220)}


def command(*arguments):
    return run_command("visual-questions", *arguments)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    rows = ["image,question,answer,kind"]
    for i in range(10):
        color = list(COLORS)[i % 2]
        Image.new("RGB", (8, 8), COLORS[color]).save(folder / f"{i}.png")
        rows += [f"{i}.png,what color?,{color},color"]
        rows += [f"{i}.png,is it red?,{'yes' if color == 'red' else 'no'},"]
    (folder / "broken.png").write_bytes((folder / "0.png").read_bytes()[:50])
    (folder / "q.csv").write_text("\n".join([*rows, "broken.png,is it red?,yes,"]))
    options = (
        "--train", folder / "q.csv", "--kind", "kind", "--filters", "4,4", "--image-size", 8,
        "--dim", 8, "--num-heads", 2, "--intermediate-dim", 8, "--epochs", 1, "--run-dir",
        folder / "run",
    )  # fmt: skip
    code, _, err = command("fit", *options)
    assert (code, "line 22, broken.png: expected a" in err) == (1, True), err
    with eagerly():
        code, out, err = command("fit", *options, "--on-error", "skip")
    assert code == 0, err
    assert "20 questions of 21, 10 pictures, 4 different answers" in out
    assert "line 22, broken.png" in out
    assert "Questions for training: 18, development: 2" in out
    assert "9 pictures with 2 x 2 regions, 18 questions, 4 answers" in out
    assert out.splitlines()[-1] == str(folder / "run/best.task")
    return folder


@pytest.mark.slow
def test_evaluate(place, tmp_path):
    given = ("--model", place / "run/best.task", "--data", place / "q.csv", "--kind", "kind")
    code, _, err = command(
        "evaluate", *given, "--on-error", "skip", "--to", tmp_path / "f.json"
    )  # fmt: skip
    assert code == 0, err
    found = json.loads((tmp_path / "f.json").read_text())
    assert {"accuracy", "accuracy of color"} <= set(found)
    code, _, err = command("evaluate", "--model", place / "run/best.task", "--data", "nowhere.csv")
    assert (code, "which does not exist" in err) == (1, True)


@pytest.mark.slow
def test_predict_and_explain(place, tmp_path, capfd, eager):
    lines = [f"{place}/0.png\twhat color?", f"{place}/broken.png\tis it red?"]
    (tmp_path / "asked.tsv").write_text("\n".join([*lines, f"{place}/1.png\tis <b>it</b> red?\n"]))
    given = ("--model", place / "run/best.task", tmp_path / "asked.tsv")
    code, _, err = command("predict", *given)
    assert (code, "broken.png" in err) == (1, True)
    # A picture that is not there is named before the work, and so before the model is missed.
    (tmp_path / "late.tsv").write_text(f"{lines[0]}\nnowhere.png\tis it red?\n")
    for more, message in [
        ((), "line 2 of .*late.tsv. Received: 'nowhere.png'"),
        (("--on-error", "skip"), "absent.task"),
    ]:
        code, _, err = command(
            "predict", "--model", tmp_path / "absent.task", tmp_path / "late.tsv", *more
        )
        assert code == 1 and re.search(message, err), err
    capfd.readouterr()
    with pytest.warns(UserWarning, match=r"broken\.png"):
        code, _, err = command("predict", *given, "--on-error", "skip", "--top-k", 4)
    assert code == 0, err
    first, second, third = map(json.loads, capfd.readouterr().out.splitlines())
    assert [*first] == [*second] == [*third]
    assert [row["image"] for row in (first, second, third)] == [
        f"{place}/{name}.png" for name in ("0", "broken", "1")
    ]
    assert (second["question"], second["answer"], second["answers"]) == ("is it red?", None, {})
    assert third["question"] == "is <b>it</b> red?"
    np.testing.assert_allclose(sum(first["answers"].values()), 1, atol=1e-5)
    with pytest.warns(UserWarning, match=r"broken\.png"):
        code, _, err = command(
            "explain", *given, "--on-error", "skip", "--to", tmp_path / "page.html"
        )
    assert code == 0, err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "what color?" in page and "<b>it" not in page


@pytest.mark.slow
def test_export_and_quantize(place, tmp_path, monkeypatch):
    exported = note_exports(monkeypatch, VisualQuestionAnswerer)
    model = ("--model", place / "run/best.task", "--to")
    assert command("export", *model, tmp_path / "saved", "--top-k", 2)[0] == 0
    ((path, settings),) = exported
    assert path == tmp_path / "saved" and settings["top_k"] == 2
    code, _, err = command("quantize", *model, tmp_path / "small.task")
    assert code == 0, err
    assert VisualQuestionAnswerer.load(tmp_path / "small.task").predict([]) == []
