"""Log-probabilities of given targets, beside the search and a computation in float64."""

import contextlib
import json

import numpy as np
import pytest
from captioning_toys import PICTURES
from captioning_toys import fitted as captioner_of
from conversation_toys import untrained as talker_of
from translation_toys import PAIRS, fitted

from keras_attn.cli.task_command import all_steps
from keras_attn.tasks import Translator

TEXTS = [source for source, _ in PAIRS[::25]]


def by_hand(task, source, target):
    """In float64, of the logits of one row."""
    ids = task.target_tokenizer.encode([target], add_end=True)[0]
    inputs = {
        task.source: np.asarray([source]),
        "target_ids": np.array([[task.target_tokenizer.start_id, *ids[:-1]]]),
    }
    logits = np.asarray(task.generator(inputs), "float64")[0]
    top = logits.max(-1, keepdims=True)
    logp = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    return sum(logp[i, token] for i, token in enumerate(ids)), len(ids)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ranking",
    [{"alpha": 0.6}, {"alpha": 2.0, "length_penalty_kind": "power", "early_stopping": False}],
)
def test_scores_of_translations_are_those_of_the_search(ranking):
    translator = fitted()
    found = translator.translate_n_best(TEXTS, 3, beams=3, **ranking)
    pairs = [(t, best) for t, x in zip(TEXTS, found, strict=True) for best in x.translations]
    scores = translator.score_targets(pairs, **ranking)
    expected = [s for x in found for s in x.scores]
    assert not any(cut for x in found for cut in x.truncated)
    np.testing.assert_allclose([x.score for x in scores], expected, rtol=1e-5, atol=1e-6)
    for (text, target), score in zip(pairs, scores, strict=True):
        ids = translator.field.encode([text])["source_ids"][0]
        total, length = by_hand(translator, ids, target)
        assert score.length == length
        assert score.log_probability == pytest.approx(total, rel=1e-5, abs=1e-5)


@pytest.mark.slow
def test_pairs_of_any_lengths_in_their_order():
    """A pair is scored alike in any batch; wrong pairs have lower scores than right ones."""
    translator = fitted()
    pairs = [PAIRS[3], ("the two", "die " * 40), ("the one and one", ""), PAIRS[57], PAIRS[8]]
    together = translator.score_targets(pairs, batch_size=2)
    alone = [translator.score_targets([pair])[0] for pair in pairs]
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    right, wrong = translator.score_targets([PAIRS[3], (PAIRS[3][0], PAIRS[57][1])])
    assert right.score > wrong.score
    assert translator.score_targets([]) == []


def test_a_forced_first_token_costs_nothing():
    translator = fitted()
    (score,) = translator.score_targets(PAIRS[:1])
    first = translator.target_tokenizer.encode([PAIRS[0][1]])[0][0]
    (given,) = translator.score_targets(PAIRS[:1], forced_first_id=first)
    assert given.length == score.length and given.log_probability > score.log_probability


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt", pytest.param("transformer", marks=pytest.mark.slow)])
def test_scores_of_answers(kind):
    talker = talker_of(kind)
    turns = [("Hi.", "So?"), "Who?"]
    scores = talker.score_targets(list(zip(turns, ["ab", "c"], strict=True)), alpha=0.0)
    rows, ids = talker.field.encode(turns)["source_ids"], talker.answer_ids(["ab", "c"])
    expected = talker.log_probabilities(rows, ids, 1)
    np.testing.assert_allclose([x.score for x in scores], expected, rtol=1e-5)
    refused = pytest.raises(ValueError, match="answers of at most 8 tokens")
    with refused if kind == "gpt" else contextlib.nullcontext():
        talker.score_targets([("Hi.", "x" * 500)])


@pytest.mark.slow
def test_scores_of_captions():
    captioner = captioner_of()
    found = captioner.caption_n_best(PICTURES[:2], 2, beams=2)
    pairs = [(p, best) for p, row in zip(PICTURES, found, strict=False) for best in row]
    scores = captioner.score_targets([(picture, best.text) for picture, best in pairs])
    for (_, best), score in zip(pairs, scores, strict=True):
        assert best.truncated or score.score == pytest.approx(best.score, rel=1e-4)


def test_the_command():
    translator = fitted()
    step = all_steps(Translator)["score"]
    given = {"inputs": [PAIRS[:2], PAIRS[2:3]], "use": translator.used({"alpha": 0.0})}
    lines = [json.loads(line) for line in step.run(translator, given)]
    assert [(x["source"], x["target"]) for x in lines] == PAIRS[:3]
    expected = translator.score_targets(PAIRS[:3], alpha=0.0)
    np.testing.assert_allclose([x["score"] for x in lines], [x.score for x in expected], rtol=1e-5)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["one"], "pairs of an input and its target. Received: 'one' at position 0"),
        ([("one", "eins", "x")], "pairs of an input and its target"),
        ([("one", 5)], "Expected strings. Received: 5"),
        ([(5, "eins")], "a string or a list of strings|Expected strings"),
    ],
)
def test_pairs_that_are_none(pairs, message):
    with pytest.raises(TypeError, match=message):
        fitted().score_targets(pairs)
