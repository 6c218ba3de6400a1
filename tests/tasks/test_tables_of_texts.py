"""Tables of the tasks that learn from running text, from beginning to end."""

import keras
import pytest
from tracing import eagerly

from keras_attn.tasks import Pretrainer, TextGenerator, WordEmbedder

ASKED = {"q": [f"{n} + 1 =" for n in range(12)], "a": [f" {n + 1}" for n in range(12)]}
TEXTS = {"body": ["A dog runs. It barks.", "A cat sits. It sleeps."] * 4}
ENCODER = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
ONCE = {"epochs": 1, "batch_size": 4, "verbose": 0}


@pytest.fixture(scope="module")
def generator():
    keras.utils.set_random_seed(0)
    data, named = {"sequence_length": 16}, {"prompt_key": "q", "key": "a"}
    return TextGenerator.create(ASKED, **named, data=data, model={"units": 8})


@pytest.mark.slow
def test_a_generator(generator):
    """A table gives what its rows give as tuples; the names of its columns stay with the task."""
    pairs = [*zip(*ASKED.values(), strict=True)]
    assert generator.ends
    with eagerly():
        run = generator.fit(ASKED, validation_split=0.25, **ONCE)
        assert {"val_loss", "val_bits_per_character"} <= set(run.history)
        assert generator.evaluate(ASKED) == generator.evaluate(pairs)
        answers = {"text": ASKED["a"]}
        named = {"key": "text", "prompt_key": ""}
        assert generator.evaluate(answers, **named) == generator.evaluate(ASKED["a"])
        prompts, how = ASKED["q"][:2], {"num_characters": 3, "seed": 1}
        written = generator.predict(prompts, **how)
        assert generator.predict({"q": prompts}, **how) == written
        assert generator.predict({"x": prompts}, prompt_key="x", **how) == written


@pytest.mark.slow
def test_validation_split_of_a_long_text():
    with eagerly():
        text = "to be or not to be " * 9
        data, model = {"sequence_length": 8}, {"units": 4, "dim": 4}
        generator = TextGenerator.create(text, data=data, model=model)
        assert generator.held_out(text, 0.25) == (text[:128], text[128:])
        assert "val_loss" in generator.fit(text, validation_split=0.25, **ONCE).history
        assert not generator.ends


@pytest.mark.slow
def test_a_pretrainer():
    data = {"vocabulary_size": 40, "max_length": 16}
    documents = [["A dog runs.", "It barks."], ["A cat sits.", "It sleeps."]] * 4
    with eagerly():
        pretrainer = Pretrainer.create(TEXTS, key="body", data=data, model=ENCODER)
        assert pretrainer.read_own(TEXTS, {}) == documents
        run = pretrainer.fit(TEXTS, validation_data=TEXTS, **ONCE)
        assert {"val_loss", "val_perplexity"} <= set(run.history)
        report = pretrainer.evaluate(documents)
        assert pretrainer.evaluate({"x": TEXTS["body"]}, key="x") == report
        guess = pretrainer.predict("a [MASK] runs")
        assert pretrainer.predict({"body": ["a [MASK] runs"]})[0].filled == guess.filled
        assert len(pretrainer.explain({"body": ["a dog", "a cat"]}).views) == 2
    some, others = pretrainer.held_out([[f"{n}."] for n in range(40)], 0.25)
    assert len(some) + len(others) == 40
    assert 3 <= len(others) <= 20
    assert pretrainer.held_out(documents, 0.5)[0] in (documents[::2], documents[1::2])


@pytest.mark.slow
def test_an_embedder(tmp_path):
    with eagerly():
        embedder = WordEmbedder.create(
            TEXTS, key="body", data={"min_frequency": 1}, model={"dim": 4}
        )
        embedder.fit(TEXTS, **ONCE)
    assert embedder.predict({"word": ["dog"]}) == embedder.predict(["dog"])
    (tmp_path / "a.txt").write_text(": x\ndog cat runs sits\n")
    assert "of 1 questions" in str(embedder.evaluate({"analogies": str(tmp_path / "a.txt")}))
