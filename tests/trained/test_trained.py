"""The trained translator in the package: it translates as the README says, on every backend."""

import re
from pathlib import Path

import pytest
from processes import answer

from keras_attn import trained
from keras_attn.cli import main
from keras_attn.tasks import Tagger, Translator

ROOT = Path(__file__).parents[2]
NAME = "home-assistant-en-de"
STATED = {
    "The sensor is not available.": "Der Sensor ist nicht verfügbar.",
    "Please check your network connection.": "Bitte überprüfe deine Netzwerkverbindung.",
    "Do you want to add this device?": "Möchtest du dieses Gerät hinzufügen?",
}
SCRIPT = f"""
import json
from keras_attn.tasks import Translator
print(json.dumps(Translator.load({NAME!r}).translate({[*STATED]!r})))
"""


def readme_block(language, number=0):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)[number]


def test_the_first_lines_of_the_readme_print_what_stands_below_them(capsys):
    code = readme_block("python")
    assert len(code.splitlines()) <= 10
    names = {}
    exec(code, names)
    assert capsys.readouterr().out == readme_block("text")
    lines = [f"{source} -> {target}\n" for source, target in STATED.items()]
    assert readme_block("text") == "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_it_translates_the_same_on_other_backends(backend):
    assert answer(backend, SCRIPT) == [*STATED.values()]


@pytest.mark.slow
def test_it_is_exported(tmp_path):
    Translator.load(NAME).export(tmp_path / "saved_model", beams=4)
    script = f"""
import json, sys
import tensorflow as tf
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
found = serve(text=tf.constant({[*STATED]!r}))["translation"].numpy()
print(json.dumps([text.decode() for text in found]))
"""
    assert answer("alone", script, tmp_path / "saved_model") == [*STATED.values()]


@pytest.mark.slow
def test_the_command_knows_the_name(tmp_path, monkeypatch):
    """The search is not run: the first test does that."""
    monkeypatch.chdir(tmp_path)
    weights = []

    def translate(self, texts, **settings):
        weights.append(self.model.count_params())
        return [STATED[text] for text in texts]

    monkeypatch.setattr(Translator, "translate", translate)
    (tmp_path / "texts.txt").write_text("The sensor is not available.\n")
    with pytest.raises(SystemExit, match="0"):
        main(["translation", "predict", "--model", NAME, "texts.txt", "--to", "x"])
    assert (tmp_path / "x").read_text(encoding="utf-8") == "Der Sensor ist nicht verfügbar.\n"
    assert weights[0] > 1_400_000


@pytest.mark.parametrize("task", ["translation", "tagging"])
def test_a_model_that_is_not_there(capsys, task):
    with pytest.raises(SystemExit, match="1"):
        main([task, "predict", "--model", "home-assistant-de-en"])
    assert capsys.readouterr().err == (
        "Error: Expected a saved task, a file, at home-assistant-de-en. There is nothing. Models "
        "that come with the package: home-assistant-en-de.\n"
    )


def test_a_model_of_another_task():
    with pytest.raises(ValueError, match=r"home-assistant-en-de\.task holds a Translator"):
        Tagger.load(NAME)


def test_a_file_in_the_working_folder_is_meant_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert trained.find(NAME) == ROOT / f"keras_attn/trained/{NAME}.task"
    (tmp_path / NAME).write_text("mine")
    assert trained.find(NAME) == Path(NAME)


def test_each_model_has_its_notes():
    """Figures, commands and licence stand beside the file, and the README has the same figures."""
    assert trained.names() == [NAME]
    notes = (ROOT / f"keras_attn/trained/{NAME}.md").read_text(encoding="utf-8")
    assert "Apache License, Version 2.0" in notes and "python examples/translation.py" in notes
    rows = re.findall(r"^\| unseen (\w+) \| ([\d.]+) \|", notes, re.M)
    assert [name for name, _ in rows] == ["sentences", "integrations"]
    for page in ("README.md", "docs/results.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for _, bleu in rows:
            assert bleu in text, page
