"""Text generation from documents: ends that are learned, prompts that are not, files, scores."""

import json

import keras
import numpy as np
import pytest
from tracing import eagerly

from keras_attn.tasks import TextGenerator
from keras_attn.text import CharacterTokenizer

WORDS = ["one.", "three.", "no."]
ASKED = [("a?", "dog"), ("b?", "no bird"), ("c?", "ox")]
SMALL = {"units": 24, "dim": 8, "dropout": 0.0}
DATA = {"sequence_length": 16}


@pytest.fixture(scope="module")
def random_weights():
    keras.utils.set_random_seed(0)
    made = TextGenerator.create([*WORDS, *ASKED], data=DATA, model=SMALL)
    rng = np.random.default_rng(0)
    for weight in made.model.weights:
        if "seed" not in weight.path:
            weight.assign(rng.normal(scale=0.4, size=weight.shape))
    return made


def bits_of(generator, prompt, answer):
    """The bits of an answer and its end, from the logits of the whole document."""
    tokenizer = generator.tokenizer
    given = [tokenizer.start_id, *tokenizer.encode(prompt)]
    rest = [*tokenizer.encode(answer), tokenizer.end_id]
    logits = keras.ops.convert_to_numpy(generator.model(np.array([[*given, *rest]])))[0]
    logits = logits.astype("float64")
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    at = len(given) - 1
    return -sum(logp[at + i, token] for i, token in enumerate(rest)) / np.log(2)


@pytest.mark.slow
def test_scores_by_hand(random_weights):
    """Of documents one by one, with their ends, and of answers alone."""
    assert random_weights.ends
    for documents in (WORDS, ASKED, [*WORDS, *ASKED]):
        parts = [("", x) if isinstance(x, str) else x for x in documents]
        bits = sum(bits_of(random_weights, *part) for part in parts)
        score = random_weights.evaluate(documents, batch_size=4)
        assert score.characters == sum(len(answer) + 1 for _, answer in parts)
        assert score.bits_per_character == pytest.approx(bits / score.characters, rel=1e-5)
    long = "one. " * 9  # of several windows
    expected = TextGenerator.evaluate(random_weights, f"{long}")
    scored = random_weights.evaluate([long])
    assert scored.characters == expected.characters + 1


def test_what_is_learned(random_weights):
    batches = random_weights.dataset(ASKED, shuffle=False, batch_size=4)
    _, labels, weight = batches[0]
    tokenizer = random_weights.tokenizer
    learned = [[*tokenizer.encode(answer), tokenizer.end_id] for _, answer in ASKED]
    assert labels[weight > 0].tolist() == [x for row in learned for x in row]
    generator = TextGenerator(CharacterTokenizer.train(WORDS), model=SMALL, data=DATA)
    assert not generator.ends
    for wrong, error in (([""], ValueError), ([3], TypeError), ([], ValueError)):
        with pytest.raises(error, match="Expected"):
            generator.dataset(wrong)
    with pytest.raises(ValueError, match="at least one character"):
        generator.evaluate([])


@pytest.mark.slow
@pytest.mark.parametrize("model", [SMALL, {"model": "gpt", "dim": 32, "num_layers": 1}])
def test_it_learns_where_documents_end(model, tmp_path):
    generator = TextGenerator.create(WORDS, data=DATA, model={**model, "dropout": 0.0})
    settings = {"epochs": 60, "batch_size": 4, "learning_rate": 1e-2, "verbose": 0}
    run = generator.fit(WORDS * 10, WORDS, **settings)
    assert run.log[-1]["val_bits_per_character"] < 0.7  # log2(3) bits of 4.3 characters
    texts = generator.generate([""] * 20, 30, temperature=0.5)
    assert {*texts} == {*WORDS}
    asked = TextGenerator.create(ASKED, data=DATA, model={**model, "dropout": 0.0})
    assert not asked.learned.tokenizer.encode("a?").count(asked.tokenizer.unknown_id)
    asked.fit(ASKED * 10, **settings)
    prompts = [prompt for prompt, _ in ASKED]
    wanted = ["".join(pair) for pair in ASKED]
    assert asked.generate(prompts, 30, beams=1) == wanted
    asked.save(tmp_path / "asked.task")
    assert TextGenerator.load(tmp_path / "asked.task").generate(prompts, 30, beams=1) == wanted
    asked.export(tmp_path / "exported", beams=1)


@pytest.mark.slow
def test_documents_for_a_model_without_ends():
    """A model of one text learns ends when it is trained further on documents."""
    with eagerly():
        generator = TextGenerator.create("one. no. " * 9, data=DATA, model=SMALL)
        assert not generator.ends
        generator.fit(["one.", "no."], epochs=1, verbose=0)
    assert generator.ends


@pytest.mark.slow
def test_the_command(tmp_path):
    from click.testing import CliRunner

    from keras_attn.cli.main import keras_attn_command

    rows = [{"q": f"{n} + 1 =", "a": f" {n + 1}"} for n in range(40)]
    (tmp_path / "asked.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "texts.txt").write_text("\n\n".join(f"It is\n{n}." for n in range(40)))

    def run(*words):
        done = CliRunner().invoke(keras_attn_command, ["text-generation", *map(str, words)])
        assert done.exit_code == 0, done.output
        return done.output

    for name, more in (
        ("asked.jsonl", ("--prompt-key", "q", "--key", "a")), ("texts.txt", ("--blank-lines",)),
    ):  # fmt: skip
        with eagerly():
            text, folder = ("--text", tmp_path / name, *more), tmp_path / f"{name} run"
            out = run("fit", *text, "--run-dir", folder, "--epochs", 1, "--units", 8)
            assert "Documents for the test: " in out and "Documents for training: " in out
            best = folder / "best.task"
            out = run("evaluate", "--model", best, *text, "--split", "all")
            assert "40 documents" in out and "bits per character" in out
            assert TextGenerator.load(best).ends
