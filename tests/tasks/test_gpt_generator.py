"""Text generation with GPT: characters and byte pairs, long texts, files, the SavedModel."""

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import text_generation_toys
from processes import answer, run_python
from text_generation_toys import TEXT

from keras_attn.interop import save_pretrained
from keras_attn.models import BertConfig
from keras_attn.tasks import Ending, TextGenerator
from keras_attn.text import BytePairTokenizer, CharacterTokenizer, WordPieceTokenizer

GPT = {
    "model": "gpt", "dim": 24, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32,
    "dropout": 0.0, "attention_dropout": 0.0,
}  # fmt: skip
LLAMA = {
    **GPT, "positions": "rotary", "normalization": "rms_norm", "gated": True, "use_bias": False,
    "num_kv_heads": 1, "tie_embeddings": False, "activation": "silu",
}  # fmt: skip
PROMPTS = ["", "to be, or", "question. 🙂" * 9]


@pytest.fixture(scope="module")
def generator():
    """Characters; what it has to know is in the last half of a window."""
    keras.utils.set_random_seed(0)
    generator = TextGenerator(
        CharacterTokenizer.train([TEXT]), model=GPT, data={"sequence_length": 24}
    )
    generator.fit(TEXT, epochs=25, batch_size=8, learning_rate=2e-2, verbose=0)
    return generator


def of_byte_pairs(config=LLAMA):
    keras.utils.set_random_seed(0)
    data = {"tokenizer": "byte_pair", "vocabulary_size": 280, "sequence_length": 12}
    generator = TextGenerator.create(TEXT, data=data, model=config)
    rng = np.random.default_rng(0)
    for weight in generator.model.trainable_variables:
        weight.assign(weight + rng.normal(scale=0.3, size=weight.shape))
    return generator


@pytest.mark.slow
def test_it_learns_and_writes_more_than_a_window(generator):
    assert generator.evaluate(TEXT).bits_per_character < 0.2
    assert generator.longest_prompt == 17
    text = generator.generate("to be, or", 60, top_k=1)
    assert text.startswith("to be, or not to be: that is the question.\nto be, or not to be")


@pytest.mark.slow
@pytest.mark.parametrize("count", [15, pytest.param(30, marks=pytest.mark.slow)])
def test_a_text_depends_on_its_prompt_and_seed_alone(count, eager):
    generator = TextGenerator(
        CharacterTokenizer.train([TEXT]), model=GPT, data={"sequence_length": 12}
    )
    together = generator.generate(PROMPTS, count, seed=[1, 2, 3])
    assert [len(t) - len(p) for t, p in zip(together, PROMPTS, strict=True)] == [count] * 3
    assert generator.generate(PROMPTS[1:2], count, seed=[2]) == together[1:2]
    # The beginning of a longer text is the shorter one.
    shorter = generator.generate(PROMPTS, 10, seed=[1, 2, 3])
    assert [t[: len(p) + 10] for p, t in zip(PROMPTS, together, strict=True)] == shorter


@pytest.mark.slow
def test_bits_of_byte_pairs_are_per_character():
    generator = of_byte_pairs()
    assert generator.model.get_layer("decoder").num_kv_heads == 1
    text = "to be: naïve 🙂"
    tokenizer = generator.tokenizer
    ids = tokenizer.encode(text)
    assert len(ids) < len(text.encode()) and tokenizer.decode(ids) == text
    rows, last = np.zeros((len(ids), 12), int), []
    for i in range(len(ids)):  # windows of 12 that overlap by 6
        window = 0 if i < 12 else -(-(i + 1 - 12) // 6)
        row = [tokenizer.start_id, *ids[6 * window : i]]
        rows[i, : len(row)] = row
        last.append(len(row) - 1)
    each = np.arange(len(ids))
    logits = keras.ops.convert_to_numpy(generator.model(rows)).astype("float64")[each, last]
    nats = (np.log(np.exp(logits).sum(axis=1)) - logits[each, ids]).sum()
    score = generator.evaluate(text)
    assert score.characters == len(text) and score.unknown == 0
    assert score.bits_per_character == pytest.approx(nats / math.log(2) / len(text), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["characters", "byte pairs"])
def test_the_saved_model_gives_what_python_gives(kind, generator, tmp_path):
    """`export` compares odd prompts itself; here windows change several times."""
    own = generator if kind == "characters" else of_byte_pairs()
    own.export(tmp_path / "m", temperature=0.7)
    served = tf.saved_model.load(tmp_path / "m").signatures["serving_default"]
    found = served(
        prompt=tf.constant(PROMPTS),
        seed=tf.constant([1, 2, 3]),
        num_characters=tf.constant(50),
    )["text"]
    wanted = own.generate(PROMPTS, 50, seed=[1, 2, 3], temperature=0.7)
    assert [text.decode() for text in found.numpy()] == wanted


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_write_the_same(backend, tmp_path):
    generator = of_byte_pairs()
    generator.save(tmp_path / "t.task")
    expected = text_generation_toys.everything(generator)
    found = answer(backend, Path(text_generation_toys.__file__), tmp_path / "t.task")
    assert found["backend"] == backend
    assert found["texts"] == expected["texts"]
    assert found["bits"] == pytest.approx(expected["bits"], rel=1e-5)


LENGTHS = """
import sys
from keras_attn.tasks import Ending, TextGenerator
generator = TextGenerator.load(sys.argv[1])
kind, traced = type(generator.writer.decoder), []
step = kind.step
kind.step = lambda *args, **kwargs: traced.append(1) or step(*args, **kwargs)
first = generator.generate(["to be", "or"], 20, seed=3)
count = len(traced)
longer = generator.generate(["to be", "or"], 21, seed=3)
assert generator.generate("to be", 250, seed=3).startswith("to be")
assert count and len(traced) == 2 * count  # one row is another shape
assert all(b.startswith(a) and len(b) > len(a) for a, b in zip(first, longer, strict=True))
"""


@pytest.mark.slow
def test_jax_does_not_compile_for_each_length(tmp_path):
    keras.utils.set_random_seed(0)
    generator = TextGenerator(
        CharacterTokenizer.train([TEXT]), model=GPT, data={"sequence_length": 16}
    )
    generator.save(tmp_path / "t.task")
    run_python("jax", LENGTHS, str(tmp_path / "t.task"))


@pytest.mark.slow
def test_other_forms(tmp_path):
    generator = of_byte_pairs(GPT)
    generator.save(tmp_path / "t.task")
    half = TextGenerator.load(tmp_path / "t.task", dtype="mixed_bfloat16")
    assert half.generate("to be", 20).startswith("to be")
    assert isinstance(half.tokenizer, BytePairTokenizer)
    again = TextGenerator.load(tmp_path / "t.task")
    assert again.generate("to be", 20, seed=5) == generator.generate("to be", 20, seed=5)
    small = generator.quantize("int8")
    assert small.generate("to be", 20).startswith("to be")
    small.save(tmp_path / "s.task")
    text = small.generate("to be", 20, seed=3)
    assert TextGenerator.load(tmp_path / "s.task").generate("to be", 20, seed=3) == text


@pytest.mark.slow
def test_the_command(tmp_path):
    (tmp_path / "t.txt").write_text(TEXT)
    command = [sys.executable, "-m", "keras_attn", "text-generation"]
    fit = (
        "fit --text t.txt --run-dir run --model gpt --dim 16 --num-layers 1 --num-heads 2 "
        "--intermediate-dim 16 --sequence-length 16 --tokenizer byte_pair --vocabulary-size 270 "
        "--epochs 1 --batch-size 8"
    )
    for step in (fit, "evaluate --model run/best.task --text t.txt",
                 "predict --model run/best.task --prompt to --num-characters 40"):  # fmt: skip
        done = subprocess.run(
            [*command, *step.split()], cwd=tmp_path, capture_output=True, text=True, check=True
        )
    assert done.stdout.startswith("to")


def test_special_tokens_are_not_written():
    plain = BytePairTokenizer.train([TEXT], 262, normalize=False)
    special = [*plain.special_tokens, "<|eot|>", "<|reserved|>"]
    tokenizer = BytePairTokenizer(
        [*plain.vocabulary[:3], *special[3:], *plain.vocabulary[3:]],
        plain.merges,
        normalize=False,
        special_tokens=special,
    )
    generator = TextGenerator(tokenizer, model=GPT, data={"sequence_length": 16})
    assert tokenizer.token_bytes[3] == b""
    assert generator.writer.rules(generator.ends)["suppressed_ids"] == [0, 1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", ["config.json", pytest.param("generation_config.json", marks=pytest.mark.slow)]
)
def test_any_of_several_end_tokens_ends_a_text(file, tmp_path, eager):
    """As in Llama 3, whose files name them in a list; another one is the most probable here."""
    other = "<|eot|>"
    plain = BytePairTokenizer.train([TEXT], 270, normalize=False, pattern="llama3")
    vocabulary = [*plain.vocabulary, other]
    special = [*plain.special_tokens, other]
    tokenizer = BytePairTokenizer(vocabulary, plain.merges, False, "llama3", special)
    config = dataclasses.replace(
        of_byte_pairs(GPT).config, vocabulary_size=271, tie_embeddings=False
    )
    model = config.build()
    gamma, beta = model.get_layer("decoder").norm.weights
    gamma.assign(keras.ops.zeros_like(gamma))
    beta.assign(keras.ops.ones_like(beta))
    (kernel,) = model.get_layer("head").weights
    kernel.assign(np.arange(271) == 270 + np.zeros(kernel.shape))
    save_pretrained(tmp_path / "a", model, config, tokenizer)
    path = tmp_path / "a" / file
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**content, "eos_token_id": [2, 270]}))
    generator = TextGenerator.from_pretrained(tmp_path / "a")
    assert generator.tokenizer.end_ids == (2, 270) and generator.tokenizer.end_id == 2
    assert generator.writer.rules(True) == {
        "end_id": [2, 270], "pad_id": 0, "suppressed_ids": [0, 1]
    }  # fmt: skip
    assert generator.writer.rules(False)["suppressed_ids"] == [0, 1, 2, 270]
    for settings in ({"top_k": 1}, {"beams": 1}):
        assert generator.generate("to be", 8, **settings) == "to be"
    pieces = generator.stream("to be", 8, top_k=1)
    with pytest.raises(StopIteration) as end:  # no piece, as the text ends at once
        next(pieces)
    assert end.value.value == Ending(num_tokens=1, truncated=False)
    assert len(generator.generate("to be", 8, top_k=1, end_token=False)) > 5
    # All others are alike: a beam takes the first one.
    assert generator.generate("to be", 8, beams=1, min_length=5) == "to be!!!!"
    for settings in ({}, {"stop": "xyz"}):
        assert len(generator.generate("to be", 8, top_k=1, min_length=5, **settings)) > 5
    for settings in ({"min_length": 9}, {"min_length": 2, "end_token": False}):
        with pytest.raises(ValueError, match=r"`min_length` (must be at most|delays)"):
            generator.generate("to be", 8, **settings)
        with pytest.raises(ValueError, match=r"`min_length` (must be at most|delays)"):
            generator.stream("to be", 8, **settings)
    with pytest.raises(TypeError, match=r"a list of strings\. Received: 5"):
        generator.generate("to be", 8, stop=5)
    save_pretrained(tmp_path / "b", generator.model, generator.config, generator.tokenizer)
    again = TextGenerator.from_pretrained(tmp_path / "b")
    assert again.tokenizer.get_config() == generator.tokenizer.get_config()
    assert again.tokenizer.get_config()["end_tokens"] == [other]


@pytest.mark.slow
def test_from_pretrained(tmp_path):
    """A decoder whose vocabulary is filled up to a round number, as many are."""
    tokenizer = BytePairTokenizer.train([TEXT], 270, normalize=False, pattern="gpt2")
    reference = of_byte_pairs(GPT)
    config = type(reference.config)(
        **{**reference.config.to_dict(), "vocabulary_size": 288, "sequence_length": 16}
    )
    model = config.build()
    save_pretrained(tmp_path / "a", model, config, tokenizer)
    generator = TextGenerator.from_pretrained(tmp_path / "a")
    ids = np.array([[1, 5, 200]])
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(generator.model(ids)),
        keras.ops.convert_to_numpy(model(ids))[..., :270],
        atol=1e-6,
    )
    assert generator.sequence_length == 16
    assert tokenizer.end_ids == generator.tokenizer.end_ids == (2,)
    (tmp_path / "a" / "tokenizer.json").unlink()
    (tmp_path / "a" / "vocab.json").unlink()
    with pytest.raises(ValueError, match="which lacks a tokenizer"):
        TextGenerator.from_pretrained(tmp_path / "a")
    words = WordPieceTokenizer.train(["a b c d e"], 15)
    bert = BertConfig(words.vocabulary_size, dim=8, num_layers=1, num_heads=2)
    save_pretrained(tmp_path / "b", bert.build(), bert, words)
    with pytest.raises(ValueError, match="which lacks a decoder"):
        TextGenerator.from_pretrained(tmp_path / "b")
    assert json.loads((tmp_path / "a" / "config.json").read_text())["eos_token_id"] == 2
