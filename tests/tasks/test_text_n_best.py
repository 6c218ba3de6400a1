"""The most probable texts with their scores, against all texts of a small vocabulary."""

import itertools

import keras
import numpy as np
import pytest

from keras_attn.generation import length_penalty
from keras_attn.tasks import TextGenerationUse, TextGenerator
from keras_attn.text import CharacterTokenizer


@pytest.fixture(scope="module")
def generator():
    """Weights that are not flat, and an end token."""
    keras.utils.set_random_seed(0)
    tokenizer = CharacterTokenizer.train(["abc"])
    sizes = {"units": 8, "dim": 4, "dropout": 0.0}
    generator = TextGenerator(tokenizer, True, model=sizes, data={"sequence_length": 16})
    rng = np.random.default_rng(0)
    for weight in generator.model.weights:
        if "seed" not in weight.path:
            weight.assign(rng.normal(scale=0.7, size=weight.shape))
    return generator


def all_texts(generator, prompt, length, rank, suppressed=(), repeats=True, among=False):
    """Each possible text with its score, the best first, in float64."""
    tokenizer = generator.tokenizer
    ids, end = [tokenizer.start_id, *tokenizer.encode(prompt)], tokenizer.end_id
    ordinary = [i for i in range(4, tokenizer.vocabulary_size) if i not in suppressed]
    found = []
    for n in range(1, length + 1):
        last = [*ordinary, end] if n == length else [end]
        for new in itertools.product(*[ordinary] * (n - 1), last):
            written = [*ids, *new]
            if repeats or len(set(written)) == len(written):
                found.append(new)
    rows = np.array([[*ids, *new, *[0] * (length - len(new))] for new in found])
    logits = np.asarray(keras.ops.convert_to_numpy(generator.model(rows)), "float64")
    if among:  # probabilities are those among the tokens that may come
        may_come = np.isin(np.arange(logits.shape[-1]), [*ordinary, end])
        logits = np.where(may_come, logits, -np.inf)
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    scored = []
    for row, new in enumerate(found):
        total = sum(logp[row, len(ids) - 1 + i, token] for i, token in enumerate(new))
        text = prompt + tokenizer.decode([i for i in new if i != end])
        scored.append((total / rank(len(new)), text, new[-1] != end))
    return sorted(scored, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "rules"),
    [
        ({}, {}),
        ({"alpha": 2.0, "length_penalty_kind": "power", "early_stopping": "never"}, {}),
        (
            {"suppressed_ids": [5], "alpha": -1.0, "renormalize": True},
            {"suppressed": (5,), "among": True},
        ),
        ({"no_repeat_ngram_size": 1, "alpha": 0.0}, {"repeats": False}),
    ],
)
def test_the_best_of_all_texts(generator, settings, rules):
    def rank(n):
        kind = settings.get("length_penalty_kind", "gnmt")
        return float(length_penalty(n, settings.get("alpha", 1.0), kind))

    for prompt in ("", "ab"):
        expected = all_texts(generator, prompt, 3, rank, **rules)[:5]
        found = generator.generate_n_best(prompt, 3, 5, beams=64, **settings)
        some = len(expected)
        np.testing.assert_allclose(found.scores[:some], [x[0] for x in expected], atol=1e-5)
        assert found.texts[:some] == [x[1] for x in expected]
        assert found.truncated[:some] == [x[2] for x in expected]


@pytest.mark.slow
def test_the_first_of_the_best_is_the_text_of_generate(generator):
    prompts = ["", "abc", "a\x00b"]
    settings = {"beams": 3, "stop": "c", "alpha": 0.6}
    best = generator.generate_n_best(prompts, 9, 2, **settings)
    assert [x.texts[0] for x in best] == generator.generate(prompts, 9, **settings)
    assert (
        generator.generate_n_best(prompts, 9, 2, batch_size=1, **settings)[1].texts == best[1].texts
    )
    assert len(generator.generate_n_best("a", 9).texts) == 4
    assert len(generator.generate_n_best("a", 9, 6).texts) == 6
    assert generator.generate_n_best([], 9) == []


@pytest.mark.slow
def test_a_generator_brings_a_search_or_a_sample(generator):
    generator.own_use = {"beams": 2, "alpha": 0.5}
    assert generator.generate("a", 6) == generator.generate("a", 6, beams=2, alpha=0.5)
    assert generator.used({"beams": None, "top_k": 3}) == TextGenerationUse(top_k=3)
    generator.own_use = {"temperature": 0.5, "top_k": 2}
    assert generator.used({"beams": 2}) == TextGenerationUse(beams=2)
    assert generator.used({}) == TextGenerationUse(temperature=0.5, top_k=2)
    generator.own_use = {}


@pytest.mark.slow
def test_the_best_texts_of_a_saved_model(generator, tmp_path):
    import tensorflow as tf

    settings = {"beams": 4, "stop": "c", "length_penalty_kind": "power"}
    generator.export(tmp_path / "m", num_return_sequences=2, **settings)  # it compares them
    served = tf.saved_model.load(tmp_path / "m").signatures["details"]
    inputs = {"prompt": tf.constant(["ab", ""]), "seed": tf.constant([1, 2])}
    found = served(**inputs, num_characters=tf.constant(6))
    expected = generator.generate_n_best(["ab", ""], 6, 2, **settings)
    texts = [[x.decode() for x in row] for row in found["texts"].numpy()]
    assert texts == [x.texts for x in expected]
    np.testing.assert_allclose(found["scores"], [x.scores for x in expected], atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"alpha": 0.5},
            r"`alpha` is only used with a beam search \(`beams`\). Received: alpha=0.5",
        ),
        ({"beams": 2, "num_return_sequences": 3}, "`num_return_sequences` must be at most `beams`"),
        ({"num_return_sequences": 1}, "num_return_sequences=1, beams=None"),
        ({"beams": 2, "top_k": 3}, "only used with a sample. Received: top_k=3 with beams=2"),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(ValueError, match=message):
        TextGenerationUse(**settings)
