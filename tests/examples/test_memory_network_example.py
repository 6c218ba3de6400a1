"""The example of memory networks: it finds facts, its figures by hand, and it resumes."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from keras_attn.corpora import StoryQuestion

SCRIPT = Path(__file__).parents[2] / "examples/memory_network.py"
pytestmark = pytest.mark.slow  # it trains


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("memory_network_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script(script, tmp_path, capsys, monkeypatch):
    """One fact is learned in seconds, and attention is far above chance."""
    monkeypatch.setattr(script, "BATCH", 32)
    arguments = [
        "--run-dir", tmp_path, "--facts", 1, "--seeds", 0, "--stories", 6000, "--test-stories", 100,
        "--epochs", 3, "--linear-epochs", 0, "--bilstm-epochs", 0,
    ]  # fmt: skip
    rows = script.main([str(argument) for argument in arguments])
    network, uniform, _ = (row["runs"][0] for row in rows)
    assert network["accuracy"] > 0.9 > 0.6 > uniform["accuracy"]
    assert network["share"] > 0.5 > 0.2 > network["share by chance"] > 0.1
    shown = capsys.readouterr().out
    assert "| facts | model | weights | accuracy (seeds) |" in shown and "| 1 | BiLSTM |" in shown
    monkeypatch.setattr(script, "trained", None)  # nothing is trained again
    assert script.main([str(argument) for argument in arguments]) == rows


def test_a_linear_start(script):
    """Both phases, on few stories; the last model has a softmax."""
    args = script.parse_arguments(["--stories", "50", "--epochs", "1", "--linear-epochs", "1"])
    stories = script.make_stories(50, 3)
    words = script.story_words(stories)
    model = script.trained("memory network", len(words), *script.story_arrays(stories, words), args)
    assert type(model.get_layer("hop_1")).__name__ == "LuongAttention"


def test_figures_of_attention_by_hand(script, monkeypatch):
    """Two hops over four sentences, of which two are facts."""
    weights = [np.array([[[0.1, 0.6, 0.2, 0.1]]]), np.array([[[0.5, 0.3, 0.2, 0.0]]])]
    maps = SimpleNamespace(select=lambda path: weights)
    monkeypatch.setattr(script, "attention_maps", lambda model, inputs: maps)
    story = StoryQuestion(("a", "b", "c", "d"), "e", "f", facts=(1, 2))
    figures = script.attention_figures(None, {}, [story])
    assert figures["share"] == pytest.approx(((0.6 + 0.2) + (0.3 + 0.2)) / 2)
    assert figures["found"] == 0.5  # sentence 1 by the first hop, sentence 2 by none
    assert figures["share by chance"] == 0.5
    assert figures["found by chance"] == pytest.approx(1 - 0.75**2)


def test_rows(script):
    inputs = {
        "story_ids": np.array([[[3, 4], [5, 0]], [[6, 0], [0, 0]]]),
        "question_ids": np.array([[7, 0], [8, 9]]),
    }
    assert script.in_one_row(inputs)["token_ids"].tolist() == [[3, 4, 5, 7], [6, 8, 9, 0]]
