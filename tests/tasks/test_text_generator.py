"""The text generator: learning, scores, samples, files, the SavedModel, backends."""

import math
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import text_generation_toys
from processes import answer
from text_generation_toys import (
    FILTERS,
    PROMPTS,
    SEEDS,
    TEXT,
    everything,
    make,
    untrained,
)
from tracing import eagerly

from keras_attn.models import RecurrentLanguageModelConfig
from keras_attn.tasks import (
    TextGenerationData,
    TextGenerationTest,
    TextGenerator,
    Translator,
)
from keras_attn.text import (
    BytePairTokenizer,
    CharacterTokenizer,
    SentencePieceTokenizer,
    WordTokenizer,
)


@pytest.fixture(scope="module")
def generator():
    generator = make()
    generator.fit(TEXT, epochs=15, batch_size=12, learning_rate=4e-2, verbose=0)
    return generator


@pytest.fixture(scope="module")
def random_weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "t.task"
    return untrained(path), path


@pytest.fixture(scope="module")
def expected(random_weights):
    return everything(random_weights[0])


@pytest.mark.slow
def test_it_learns(generator):
    assert generator.evaluate(TEXT).bits_per_character < 0.1
    text = generator.generate("to be, or", 60, top_k=1)
    assert text.startswith("to be, or not to be: that is the question.\nto be")
    assert generator.generate(["to be, or"], 60, top_k=1) == [text]


@pytest.mark.slow
def test_fit_shows_validation_changes_the_texts_and_keeps_a_compiled_model():
    generator = make()
    before = generator.generate("", 40, top_k=1), generator.evaluate(TEXT[:50])
    history = generator.fit(TEXT, TEXT[:200], epochs=1, batch_size=8, verbose=0)
    # What was compiled before has the weights of now.
    assert generator.generate("", 40, top_k=1) != before[0]
    assert generator.evaluate(TEXT[:50]).bits_per_character < before[1].bits_per_character
    assert set(history.history) == {"loss", "val_bits_per_character"}
    first = generator.model.optimizer
    generator.fit(TEXT, epochs=1, batch_size=8, verbose=0)
    assert generator.model.optimizer is not first  # a new schedule
    generator.model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    mine = generator.model.optimizer
    generator.fit(TEXT, epochs=1, batch_size=8, verbose=0)
    assert generator.model.optimizer is mine


def test_validation_loss_is_that_of_plain_windows(random_weights):
    generator, _ = random_weights
    text = TEXT[: 24 * 5]
    generator.compile(total_steps=1)
    windows = generator.dataset(text, batch_size=4, shuffle=False)
    losses = [generator.model.test_on_batch(*windows[i]) for i in range(2)]
    bits = generator.evaluate(text, context=0).bits_per_character
    assert (4 * losses[0] + losses[1]) / 5 / math.log(2) == pytest.approx(bits, rel=1e-5)


@pytest.mark.parametrize("context", [0, 5, 12, 23, None])
def test_scores_by_hand(random_weights, context):
    """Each character's probability by the plain model on its own prefix."""
    generator, _ = random_weights
    tokenizer, T = generator.tokenizer, 24
    text = TEXT[:61]
    ids = tokenizer.encode(text)
    least = 12 if context is None else context
    stride = T - least
    prefixes, last = np.zeros((len(ids), T), int), []
    for i in range(len(ids)):
        window = 0 if i < T else -(-(i + 1 - T) // stride)
        prefix = [tokenizer.start_id, *ids[window * stride : i]]
        assert len(prefix) - 1 >= min(i, least)
        assert len(prefix) <= T
        prefixes[i, : len(prefix)] = prefix
        last.append(len(prefix) - 1)
    rows = np.arange(len(ids))
    logits = keras.ops.convert_to_numpy(generator.model(prefixes)).astype("float64")[rows, last]
    nats = np.log(np.exp(logits).sum(axis=1)) - logits[rows, ids]
    bits = nats.mean() / math.log(2)
    for batch_size in (2, 64):
        score = generator.evaluate(text, context, batch_size)
        assert score.bits_per_character == pytest.approx(bits, rel=1e-5)
        assert (score.characters, score.unknown) == (61, 0)


@pytest.mark.slow
def test_unknown_characters_are_counted(random_weights):
    generator, _ = random_weights
    score = generator.evaluate("to ZZ🙂 be")
    assert (score.characters, score.unknown) == (9, 3)
    with pytest.warns(UserWarning, match="3 of 43 characters"):
        generator.dataset("Z" * 3 + TEXT[:40])
    assert generator.generate("Z", 20, seed=3)[0] == "Z"


def test_samples_are_made_of_characters(random_weights):
    generator, _ = random_weights
    for prompt, text in zip(
        PROMPTS, generator.generate(PROMPTS, 200, temperature=3.0), strict=True
    ):
        assert text.startswith(prompt)
        assert len(text) == len(prompt) + 200
        assert set(text[len(prompt) :]) <= set(TEXT)


def test_a_text_depends_on_its_prompt_and_seed_alone(random_weights):
    generator, _ = random_weights
    together = generator.generate(PROMPTS, 30, seed=SEEDS)
    for prompt, seed, text in zip(PROMPTS, SEEDS, together, strict=True):
        assert generator.generate([prompt], 30, seed=[seed]) == [text]
    assert generator.generate(PROMPTS, 30, seed=SEEDS, batch_size=2) == together
    # The beginning of a longer text is the shorter one.
    assert [t[: len(p) + 10] for p, t in zip(PROMPTS, together, strict=True)] == (
        generator.generate(PROMPTS, 10, seed=SEEDS)
    )
    # One seed: rows differ, and repeat.
    four = generator.generate([""] * 4, 30, seed=7)
    assert len(set(four)) == 4
    assert generator.generate([""] * 4, 30, seed=7, batch_size=3) == four
    assert generator.generate([""] * 4, 30, seed=8) != four
    assert generator.generate("", 30, seed=7) == four[0]


def test_only_the_end_of_a_prompt_is_read(random_weights):
    generator, _ = random_weights
    end = "r not to be: that is th"
    assert len(end) == 23
    long, short = generator.generate(["x" * 1000 + end, end], 30, seed=[3, 3])
    assert long[-30:] == short[-30:]
    prompts = generator.signatures(generator.Use())["serving_default"].field
    assert prompts.encode(["x" + end], [3], 30)["ids"] == [[1, *generator.tokenizer.encode(end)]]


@pytest.mark.slow
def test_no_ngram_comes_twice(generator):
    text = generator.generate("to be, or not to be", 60, no_repeat_ngram_size=5, seed=1)
    grams = [text[i : i + 5] for i in range(15, len(text) - 4)]
    assert len(set(grams)) == len(grams)
    assert not set(grams) & {text[i : i + 5] for i in range(15)}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: g.generate(7), TypeError, "string"),
        (lambda g: g.generate(["a", 7]), TypeError, "position 1"),
        (lambda g: g.generate("", 0), ValueError, "num_characters"),
        (lambda g: g.generate("", temperature=0), ValueError, "temperature"),
        (lambda g: g.generate("", top_p=2), ValueError, "top_p"),
        (lambda g: g.generate("", seed=-1), ValueError, "seed"),
        (lambda g: g.generate("", seed=[1, 2]), ValueError, "each of the 1 prompts"),
        (lambda g: g.generate("", seed=0.5), ValueError, "seed"),
        (lambda g: g.generate("", batch_size=0), ValueError, "batch_size"),
        (lambda g: g.evaluate(""), ValueError, "at least one character"),
        (lambda g: g.evaluate("a", context=24), ValueError, "context"),
        (lambda g: g.evaluate("a", context=-1), ValueError, "context"),
        (lambda g: g.evaluate("a", batch_size=True), ValueError, "batch_size"),
        (lambda g: g.evaluate(b"a"), TypeError, "Expected a list of texts"),
        (lambda g: g.dataset("short"), ValueError, "at least one window"),
        (lambda g: g.export("x", top_k=0), ValueError, "top_k"),
        (
            lambda g: TextGenerator(g.tokenizer, data={"sequence_length": 1}),
            ValueError,
            "sequence_length",
        ),
        (
            lambda g: TextGenerator(g.tokenizer, model={"unit": 3}),
            ValueError,
            "not settings of 'rnn'",
        ),
        (lambda g: TextGenerator(g.tokenizer, model=7), ValueError, "Received: 7"),
        (lambda g: TextGenerator("abc"), TypeError, "CharacterTokenizer"),
        (
            lambda g: TextGenerator(BytePairTokenizer.train(["aa aa"], 259)),
            ValueError,
            "a BytePairTokenizer that normalizes texts. Train one with normalize=False",
        ),
        (
            lambda g: TextGenerator(SentencePieceTokenizer.train(["aa aa"], 263, allow_fewer=True)),
            ValueError,
            "a SentencePieceTokenizer that normalizes texts",
        ),
        (
            lambda g: TextGenerator(WordTokenizer.train(["aa aa"])),
            TypeError,
            "WordTokenizer",
        ),
    ],
)
def test_errors(random_weights, call, error, message):
    with pytest.raises(error, match=message):
        call(random_weights[0])


def test_which_text_is_scored(random_weights, tmp_path):
    (tmp_path / "t.txt").write_text("abcdefghij")
    (tmp_path / "d.txt").write_text("xyz")
    shares = {"text": str(tmp_path / "t.txt"), "dev_share": 0.2, "test_share": 0.3}
    for dev, wanted in (("", "fg"), (str(tmp_path / "d.txt"), "xyz")):
        data = TextGenerationData(**shares, dev=dev)
        found = [
            random_weights[0].read_test(TextGenerationTest(split=split), data)
            for split in ("dev", "test", "all")
        ]
        assert found == [wanted, "hij", "abcdefghij"]


def test_nothing_to_do(random_weights):
    assert random_weights[0].generate([]) == []


@pytest.mark.slow
def test_files(random_weights, expected, tmp_path):
    generator, path = random_weights
    loaded = TextGenerator.load(path)
    assert loaded.config == generator.config
    assert loaded.sequence_length == 24
    for mine, other in zip(loaded.model.weights, generator.model.weights, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert loaded.generate(PROMPTS, 30, seed=SEEDS) == expected["texts"][0]
    with pytest.raises(ValueError, match="holds a TextGenerator"):
        Translator.load(path)
    half = TextGenerator.load(path, dtype="mixed_bfloat16")
    half.save(tmp_path / "half.task")
    again = TextGenerator.load(tmp_path / "half.task")
    assert again.model.get_layer("decoder").dtype_policy.name == "mixed_bfloat16"
    with eagerly():
        assert len(again.generate("to", 5)) == 7
    config = RecurrentLanguageModelConfig(5, units=8, dim=4)
    sized = TextGenerator(CharacterTokenizer.train(["abc"]), model=config)
    assert sized.config.vocabulary_size == 7


# The SavedModel


@pytest.fixture(scope="module")
def served(random_weights, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "model"
    random_weights[0].export(path, **FILTERS)
    signature = tf.saved_model.load(str(path)).signatures["serving_default"]

    def call(prompts, seeds, count):
        output = signature(
            prompt=tf.constant(prompts, tf.string),
            seed=tf.constant(seeds, tf.int32),
            num_characters=tf.constant(count),
        )
        return [text.decode() for text in output["text"].numpy()]

    call.path = path
    return call


@pytest.mark.slow
def test_the_saved_model_gives_what_python_gives(random_weights, served):
    generator, _ = random_weights
    for count in (1, 30, 200):
        expected = generator.generate(PROMPTS, count, seed=SEEDS, **FILTERS)
        assert served(PROMPTS, SEEDS, count) == expected
    assert served([], [], 5) == []


@pytest.mark.slow
def test_the_saved_model_on_broken_text(random_weights, served):
    generator, _ = random_weights
    broken = [b"\xffto", b"to \xed\xa0\x80", b"\xf0\x9f"]
    replaced = [text.decode("utf-8", "replace") for text in broken]
    expected = generator.generate(replaced, 20, seed=[1, 2, 3], **FILTERS)
    assert served(broken, [1, 2, 3], 20) == expected
    # A lone surrogate in Python is what its bytes are.
    assert generator.generate("to \ud800", 5) == generator.generate("to \ufffd\ufffd\ufffd", 5)


@pytest.mark.slow
def test_the_saved_model_refuses_what_makes_no_sense(served):
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"as many rows of `seed` as of `prompt`. Received: 1 and 2",
    ):
        served(["a", "b"], [1], 5)
    message = r"Expected 1 to 10,000 new characters.*Received: {}\..*max_num_characters"
    for number in (0, -5, 10_001, 2**31 - 1):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message.format(number)):
            served(["a"], [1], number)


@pytest.mark.slow
def test_the_saved_model_needs_tensorflow_alone(random_weights, served):
    generator, _ = random_weights
    script = (
        "import json, sys\n"
        "assert sys.modules['keras_attn'] is sys.modules['keras'] is None\n"
        "import tensorflow as tf\n"
        "serve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "out = serve(prompt=tf.constant(['to']), seed=tf.constant([5]),\n"
        "            num_characters=tf.constant(20))\n"
        "print(json.dumps(out['text'].numpy()[0].decode()))\n"
    )
    expected = generator.generate(["to"], 20, seed=[5], **FILTERS)[0]
    assert answer("alone", script, served.path) == expected


@pytest.mark.slow
def test_export_leaves_what_is_there(random_weights, served, tmp_path, monkeypatch):
    generator, _ = random_weights
    with pytest.raises(FileExistsError, match="overwrite"):
        generator.export(served.path)
    monkeypatch.setattr(
        generator, "computed", lambda tensors, use: {"tokens": [[4]] * len(tensors["ids"])}
    )
    with pytest.raises(RuntimeError, match="another `serving_default: text`"):
        generator.export(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_the_same_on_other_backends(random_weights, expected, backend):
    _, path = random_weights
    result = answer(backend, Path(text_generation_toys.__file__), path)
    assert result["backend"] == backend
    assert result["texts"] == expected["texts"]
    assert result["bits"] == pytest.approx(expected["bits"], rel=1e-5)
