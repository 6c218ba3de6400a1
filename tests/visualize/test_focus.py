"""The layer, head and word on which the viewer opens."""

import numpy as np
import pytest

from keras_attn.visualize import AttentionPart, AttentionView, Focus, HeadOutcomes, Outcome
from keras_attn.visualize.focus import find_focus

TOKENS = ["[CLS]", "the", "un", "##able", "dog", "[SEP]"]


def parts(*links, keys=TOKENS):
    """Two layers of two heads with small weights, and links (layer, head, query, key, weight)."""
    weights = np.full((2, 2, 6, len(keys)), 0.01, "float32")
    for *place, weight in links:
        weights[tuple(place)] = weight
    return [AttentionPart("self", TOKENS, keys, list(weights))]


def test_the_strongest_link_between_words():
    """Special tokens, the token itself and its neighbours do not count."""
    found = parts(
        (0, 0, 4, 0, 0.9), (0, 1, 0, 4, 0.9), (1, 0, 3, 4, 0.9), (1, 1, 4, 4, 0.9),
        (1, 0, 4, 2, 0.5), (0, 1, 1, 4, 0.4),
    )  # fmt: skip
    assert find_focus(found, None) == {"part": 0, "layer": 1, "head": 0, "query": 4}
    assert find_focus(found, Focus("THE")) == {"part": 0, "layer": 0, "head": 1, "query": 1}
    assert find_focus(found, Focus("unable", layer=-1))["query"] == 2


def test_a_word_that_is_looked_at():
    """A named link counts even between neighbours."""
    found = parts((1, 0, 3, 4, 0.9), (0, 1, 1, 4, 0.4), (0, 0, 2, 4, 0.3))
    assert find_focus(found, Focus(on="dog")) == {"part": 0, "layer": 1, "head": 0, "query": 3}
    assert find_focus(found, Focus(2, "dog")) == {"part": 0, "layer": 0, "head": 0, "query": 2}


def test_layers_heads_and_means():
    found = parts((1, 0, 4, 2, 0.5), (0, 1, 1, 4, 0.4))
    assert find_focus(found, Focus(layer=0)) == {"part": 0, "layer": 0, "head": 1, "query": 1}
    mean = Focus("dog", layer="mean")
    assert find_focus(found, mean) == {"part": 0, "layer": -1, "head": -1, "query": 4}
    mean = Focus(layer=1, head="mean")
    assert find_focus(found, mean) == {"part": 0, "layer": 1, "head": -1, "query": 4}


def test_neighbours_count_where_there_is_nothing_else():
    part = AttentionPart("self", ["a", "b"], ["a", "b"], [np.array([[[0.4, 0.6], [0.9, 0.1]]])])
    assert find_focus([part], None) == {"part": 0, "layer": 0, "head": 0, "query": 1}


@pytest.mark.parametrize(
    "focus",
    [Focus("cat"), Focus(6), Focus(on="cat"), Focus(layer=2), Focus(head="first"), Focus(part=1)],
)
def test_refuses(focus):
    with pytest.raises(ValueError, match="Received: "):
        AttentionView(parts(), focus=focus)


def test_heads_that_change_the_answer():
    good, bad = Outcome("good", 0.75), Outcome("bad", 0.5)
    outcomes = HeadOutcomes(good, {"a": [good, bad], "b": [Outcome("good", 0.6)]})
    assert outcomes.changed() == [("a", 1)]


def test_a_path_for_each_layer():
    with pytest.raises(ValueError, match="a path for each of the 1 layers"):
        AttentionPart("self", "ab", "ab", [np.ones((1, 2, 2))], paths=["a", "b"])
