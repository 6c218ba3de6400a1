"""The script on text generation does what it says, in a process of its own, without network."""

import json
import os
import re
from pathlib import Path

import pytest
from processes import run_python

from keras_attn.tasks import TextGenerationUse, TextGenerator
from keras_attn.tasks.text_generation import SEQUENCE_LENGTH

ROOT = Path(__file__).parents[2]


def run(*arguments, cwd, **environment):
    script = ROOT / "examples/text_generation.py"
    return run_python("tensorflow", script, *arguments, cwd=cwd, check=False, **environment)


@pytest.mark.slow
def test_from_a_file_to_a_saved_model(tmp_path):
    (tmp_path / "text.txt").write_text("to be, or not to be: that is the question.\n" * 60)
    settings = (
        "--data", "text.txt", "--run-dir", "run", "--units", 24, "--sequence-length", 16,
        "--batch-size", 8, "--epochs", 3, "--num-characters", 40, "--prompt", "to be",
    )  # fmt: skip
    done = run(*settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bits per character of 258" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "text.txt"]
    names = sorted(p.name for p in (tmp_path / "run").iterdir())
    assert names == ["generator.task", "results.json", "saved_model"]
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert results["bits_per_character"] < 3.5
    assert all(len(text) == 45 and text[:5] == "to be" for text in results["samples"].values())
    assert len(results["samples"]) == 6

    again = run(*settings[:2], "--run-dir", "again", *settings[4:], cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    same = json.loads((tmp_path / "again/results.json").read_text())
    assert {**same, "minutes": 0} == {**results, "minutes": 0}

    other = run(*settings, cwd=tmp_path)
    assert other.returncode != 0
    assert "not empty" in other.stderr


@pytest.mark.slow
def test_without_network_it_names_the_other_choices(tmp_path):
    """pip is made to fail by an index that is not there."""
    done = run(
        "--cache-dir", "cache", cwd=tmp_path, PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0",
    )  # fmt: skip
    assert done.returncode != 0
    assert "text file of your own" in done.stderr
    assert "--archive FILE" in done.stderr


def test_the_page_has_the_settings_as_they_are():
    lines = (ROOT / "docs/text_generation.md").read_text(encoding="utf-8").splitlines()
    sections = TextGenerator.sections()
    of = ("data", "model", "training", "use")
    declared = [o for name in of for o in sections[name].declared()]
    # The page has those of the default model, where they depend on it: "rnn: 1, gpt: 4".
    defaults = {
        option.name: re.sub(r"^rnn: ([\w.]+),.*", r"\1", option.default)
        if isinstance(option.default, str)
        else option.default
        for option in declared
    }
    found = {}
    for cells in (line.split(" | ") for line in lines if line.startswith("| `--")):
        if len(cells) < 3:
            continue  # the head of another table
        names = [name.strip("| `").removeprefix("--") for name in cells[0].split(", ")]
        for name, value in zip(names, cells[1].split(", "), strict=False):
            found[name.replace("-", "_")] = value.strip("`")
    assert len(found) == 27
    assert (found.pop("special_tokens"), defaults["special_tokens"]) == ("no", False)
    assert found.pop("vocabulary_size") == "all characters"
    assert found.pop("sequence_length") == f"{SEQUENCE_LENGTH} or the backbone's"
    assert defaults["vocabulary_size"] is defaults["sequence_length"] is None
    assert found.pop("stop") == found.pop("beams") == "none"
    assert not defaults["stop"] and defaults["beams"] is None
    assert found.pop("suppressed_ids") == found.pop("early_stopping") == "none"
    assert not defaults["suppressed_ids"] and defaults["early_stopping"] is None
    assert (found.pop("prompt_key"), defaults["prompt_key"]) == ("none", "")
    for name in ("blank_lines", "renormalize"):
        assert (found.pop(name), defaults[name]) == ("no", False)
    for name, value in found.items():
        default = getattr(defaults[name], "value", defaults[name])  # of a `RunDefault`
        assert type(default)(value) == default
    names = [line.split("`")[1] for line in lines if line.startswith("| `") and "--" not in line]
    assert set(TextGenerationUse().sampling()) <= set(names)
