"""What tasks keep compiled: one function for all values of a number, and only a few functions."""

import dataclasses
import gc
import weakref

import captioning_toys
import keras
import numpy as np
import pretraining_toys
import pytest
from conversation_toys import HOSTILE, untrained
from keras import ops
from text_generation_toys import ALL, make
from translation_toys import fitted

from keras_attn.generation import SampledSteps, TextWriter
from keras_attn.tasks import (
    Captioner,
    ConversationUse,
    Talker,
    TextGenerator,
    Translator,
    WordEmbedder,
)
from keras_attn.text import WordTokenizer

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="counts TensorFlow's traces"
)


def counted(monkeypatch, cls, name):
    """A list that gets the arguments of each call of a method that is traced."""
    calls, method = [], getattr(cls, name)

    def call(self, *args, **kwargs):
        calls.append((args, kwargs))
        return method(self, *args, **kwargs)

    monkeypatch.setattr(cls, name, call)
    return calls


def random_generator(ends=False, bias=0.0):
    """A generator of random weights, that writes its end token now and then."""
    plain = make(units=16)
    generator = TextGenerator(
        plain.tokenizer, ends=ends, model=plain.config, data={"sequence_length": 24}
    )
    rng = np.random.default_rng(0)
    for weight in generator.model.trainable_variables:
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    head = generator.model.get_layer("head").bias
    change = np.zeros(head.shape)
    change[generator.tokenizer.end_id] = bias
    head.assign(head + change)
    return generator


def eager_text(generator, prompt, count, seed, end_token=True, **settings):
    """What `generate` writes, computed with numbers that are constants and without a graph."""
    use = generator.Use(end_token=end_token, **settings)
    ids = [[generator.tokenizer.start_id, *generator.tokenizer.encode(prompt)]]
    tensors = {"ids": ops.array(ids), "seed": ops.array([seed], "int32"), "num_tokens": count}
    found = generator.run(ops, tensors, use)["tokens"]
    return prompt + generator.tokenizer.decode(ops.convert_to_numpy(found)[0].tolist())


@pytest.mark.slow
@on_tensorflow
def test_one_function_writes_with_all_values_of_a_number(monkeypatch):
    generator = random_generator()
    whole = counted(monkeypatch, TextWriter, "search")
    parts = counted(monkeypatch, SampledSteps, "begin")
    for i in range(8):
        settings = {
            "temperature": 0.6 + i / 10, "top_k": 5 + i, "top_p": 0.9 + i / 100,
            "min_p": 0.01 + i / 200, "repetition_penalty": 1.1 + i / 10,
        }  # fmt: skip
        text = generator.generate("to be", 8, seed=[i], **settings)
        assert "".join(generator.stream("to be", 8, seed=[i], **settings)) == text[5:]
        assert len(whole) == len(parts) == 1
        if i % 4 == 0:  # the right ones
            assert text == eager_text(generator, "to be", 8, i, **settings)
            whole.clear()
            whole.append(None)


@pytest.mark.slow
@on_tensorflow
def test_a_text_has_its_least_length_as_a_number(monkeypatch):
    generator = random_generator(ends=True, bias=3.0)
    whole = counted(monkeypatch, TextWriter, "search")
    lengths = []
    for least in (1, 4, 7):
        text = generator.generate("to be", 9, seed=[1], min_length=least)
        lengths.append(len(text) - 5)
        assert lengths[-1] >= least - 1  # the end token is not written
    assert len(whole) == 1
    found = generator.generate("to be", 9, beams=2, min_length=6)
    assert len(found) - 5 >= 5
    assert len(whole) == 2 and lengths[0] < 3


@pytest.mark.slow
def test_ends_may_be_set_after_a_call():
    """Both ways of writing follow it."""
    generator = random_generator(ends=True, bias=3.0)

    def written():
        text = generator.generate("to be", 16, seed=[1])
        assert "to be" + "".join(generator.stream("to be", 16, seed=[1])) == text
        assert text == eager_text(generator, "to be", 16, 1, temperature=0.8)
        return len(text) - 5

    assert written() < 16
    generator.ends = False
    assert written() == 16
    generator.ends = True
    assert written() < 16


@pytest.mark.slow
@on_tensorflow
def test_only_a_few_functions_are_kept(monkeypatch):
    """What was forgotten is made again, and leaves no memory behind."""
    generator = random_generator()
    assert generator.writer._compiled.most <= 8
    generator.writer._compiled.most = 1
    whole = counted(monkeypatch, TextWriter, "search")
    texts, functions = {}, []
    for size in (0, 2, 0):
        text = generator.generate("to be", 6, no_repeat_ngram_size=size)
        assert texts.setdefault(size, text) == text
        functions += [weakref.ref(function) for _, function in generator.writer._compiled]
    assert len(whole) == 3
    gc.collect()
    assert [function() is None for function in functions] == [True, True, False]


def check_scores(found):
    """Log-probabilities of the same sequences, each divided by its penalty `((5 + n) / 6)**alpha`.

    `found` has by each alpha what was found: tuples of a text, its number of tokens and its score.
    """
    plain = {text: score for text, _, score in found[0.0]}
    compared = [
        (score * ((5 + n) / 6) ** alpha, plain[text])
        for alpha, some in found.items()
        for text, n, score in some
        if text in plain
    ]
    assert len(compared) > len(plain)
    np.testing.assert_allclose(*zip(*compared, strict=True), rtol=1e-4)


@pytest.mark.slow
@on_tensorflow
def test_one_function_translates_with_all_length_penalties(monkeypatch):
    translator = fitted()
    monkeypatch.setattr(translator, "_kept", None)
    traced = counted(monkeypatch, Translator, "search")
    texts = ["the one and two", "the the the"]
    best = {alpha: translator.translate(texts, alpha=alpha) for alpha in (-9.0, 0.0, 1.0)}
    found = {}
    for alpha in (0.0, 1.0, -9.0):
        n_best = translator.translate_n_best(texts, 3, alpha=alpha)
        assert [some.translations[0] for some in n_best] == best[alpha]
        found[alpha] = [
            (text, len(alignment.target_tokens), score)
            for some in n_best
            for text, score, alignment in zip(*some[:2], some.alignments, strict=True)
        ]
    check_scores(found)
    assert len(traced) == 2


@pytest.mark.slow
@on_tensorflow
def test_one_function_captions_with_all_length_penalties(monkeypatch):
    captioner = captioning_toys.make("transformer")
    traced = counted(monkeypatch, Captioner, "search")
    pictures = captioning_toys.PICTURES[:2]
    found = {a: captioner.caption_n_best(pictures, 2, beams=2, alpha=a) for a in (0.0, 0.5, 2.0)}
    check_scores(
        {
            a: [(x.text, len(x.tokens), x.score) for s in some for x in s]
            for a, some in found.items()
        }
    )
    assert len(traced) == 1


@pytest.mark.slow
@on_tensorflow
@pytest.mark.parametrize(
    "uses",
    [
        [
            {"search": "sample", "temperature": 0.9, "top_k": 9, "seed": 5},
            {"search": "sample", "temperature": 1.9, "top_k": 30, "seed": 6},
        ],
        pytest.param(
            [
                {"beams": 3, "alpha": 0.5, "mutual_information": 0.4},
                {"beams": 3, "alpha": 2.0, "mutual_information": 9.0},
            ],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["sample", "beam"],
)
def test_one_function_answers_with_all_values_of_a_number(uses, monkeypatch):
    talker = untrained("gpt")
    traced = counted(monkeypatch, Talker, "run")
    answers = [talker.answer([HOSTILE[0]], **use) for use in uses]
    assert len(traced) == 1
    ids = ops.array(talker.field.encode([HOSTILE[0]])["source_ids"], "int32")
    for use, answer in zip(uses, answers, strict=True):
        wanted = talker.run(ops, {"source_ids": ids}, ConversationUse(**use))["tokens"][0, 0]
        assert answer == [talker.tokenizer.decode(ops.convert_to_numpy(wanted).tolist())]


@pytest.mark.slow
@on_tensorflow
def test_an_answer_may_become_longer():
    talker = untrained("rnn")
    short = talker.answer(HOSTILE[0], beams=1)
    talker.data = dataclasses.replace(talker.data, max_answer=16)
    long = talker.answer(HOSTILE[0], beams=1)
    assert long.startswith(short.rstrip("\ufffd")) and len(long) > len(short)


@pytest.mark.slow
@on_tensorflow
def test_one_function_guesses_any_number_of_words(monkeypatch):
    pretrainer = pretraining_toys.make()
    traced = counted(monkeypatch, type(pretrainer), "run")
    found = {k: pretrainer.predict("the dog [MASK] loudly", top_k=k).masks[0] for k in (5, 1, 9)}
    assert [len(words) for words in found.values()] == [5, 1, 9]
    assert found[5] == found[9][:5] and found[1] == found[9][:1]
    assert len(traced) == 1


@on_tensorflow
def test_one_function_finds_any_number_of_neighbours(monkeypatch):
    embedder = WordEmbedder(WordTokenizer.train(["a b c d e f"]), model={"dim": 4})
    traced = counted(monkeypatch, WordEmbedder, "run")
    found = {k: embedder.predict("a", top_k=k) for k in (3, 1, 50)}
    assert [len(some["words"]) for some in found.values()] == [3, 1, 5]
    assert found[3]["words"] == found[50]["words"][:3]
    assert list(found[1]["similarities"]) == list(found[50]["similarities"][:1])
    assert len(traced) == 1


@pytest.mark.slow
@on_tensorflow
def test_all_settings_at_once_and_after_each_other():
    """Filters that were off before and are off again, in any order."""
    generator = random_generator()
    rng = np.random.default_rng(0)
    values = {
        "temperature": (0.5, 0.8, 1.7), "top_k": (None, 1, 5, 70, 1000), "top_p": (None, 0.3, 1.0),
        "min_p": (None, 0.0, 0.2), "repetition_penalty": (1, 1.0, 1.5),
        "no_repeat_ngram_size": (0, 2),
    }  # fmt: skip
    for seed in range(40):
        settings = {name: some[rng.integers(len(some))] for name, some in values.items()}
        text = generator.generate("to be", 12, seed=[seed], **settings)
        assert text == eager_text(generator, "to be", 12, seed, **settings), settings
    assert generator.generate("to be", 12, seed=[1], **ALL) == eager_text(
        generator, "to be", 12, 1, **ALL
    )
