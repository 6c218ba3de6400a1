"""The signature `with_settings` of SavedModels, which takes numbers with each request."""

import captioning_toys
import conversation_toys
import numpy as np
import pytest
import tensorflow as tf
from text_generation_toys import make
from translation_toys import fitted

from keras_attn.batches.picture_sources import PictureArrays
from keras_attn.tasks.base import exported
from keras_attn.tasks.base.served_numbers import checked_numbers

SAMPLED = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")


def strings(values):
    return [text.decode() for text in values.numpy()]


@pytest.fixture
def generator():
    generator = make(units=16)
    rng = np.random.default_rng(0)
    for weight in generator.model.trainable_variables:
        weight.assign(rng.normal(scale=0.4, size=weight.shape))
    return generator


@pytest.mark.slow
def test_texts_with_the_numbers_of_each_request(generator, unsaved):
    generator.export("nowhere", top_k=3, no_repeat_ngram_size=3)
    (functions,) = unsaved
    assert set(functions) == {"serving_default", "with_settings"}
    given = {"prompt": tf.constant(["to be", "", "that"]), "num_characters": tf.constant(12)}
    given["seed"] = tf.constant([4, 5, 6])
    columns = ([0.4, 0.9, 1.8], [0, 1, 70], [0.5, 1.0, 1.0], [0.0, 0.0, 0.1], [1.0, 1.0, 1.3])
    numbers = dict(zip(SAMPLED, map(tf.constant, columns), strict=True))
    found = strings(functions["with_settings"](**given, **numbers)["text"])
    for row, text in enumerate(found):
        own = {name: column[row] for name, column in zip(SAMPLED, columns, strict=True)}
        own["top_k"] = own["top_k"] or None
        prompt, seed = given["prompt"][row].numpy().decode(), [int(given["seed"][row])]
        assert text == generator.generate(prompt, 12, seed=seed, no_repeat_ngram_size=3, **own)
    plain = functions["serving_default"](**given)
    whole = generator.generate(
        ["to be", "", "that"], 12, seed=[4, 5, 6], top_k=3, no_repeat_ngram_size=3
    )
    assert strings(plain["text"]) == whole
    none = {name: x[:0] if x.shape.rank else x for name, x in {**given, **numbers}.items()}
    assert functions["with_settings"](**none)["text"].shape == (0,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`temperature` to be at least 1e-30"):
        functions["with_settings"](**given, **{**numbers, "temperature": tf.constant([1.0, 0, 1])})
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many rows of `top_p`"):
        functions["with_settings"](**given, **{**numbers, "top_p": tf.constant([1.0])})


@pytest.mark.slow
def test_what_ignores_the_numbers_is_not_kept(generator, unsaved, monkeypatch):
    monkeypatch.setattr(exported, "checked_numbers", lambda tf, numbers: {})
    with pytest.raises(RuntimeError, match="another `with_settings: text` than the Python object"):
        generator.export("nowhere")
    assert not unsaved


@pytest.mark.slow
def test_beams_have_no_numbers(generator, unsaved, eager):
    generator.export("nowhere", beams=2)
    assert set(unsaved[0]) == {"serving_default", "details"}


@pytest.mark.slow
def test_translations_with_the_numbers_of_each_request(unsaved):
    translator = fitted()
    translator.export("nowhere", beams=2)
    texts = ["the one and two", "the the the"]
    served = unsaved[0]["with_settings"]
    numbers = {"alpha": tf.constant([-3.0, 3.0]), "min_length": tf.constant([0, 9])}
    found = served(text=tf.constant(texts), **numbers)["translation"]
    assert strings(found) == [
        translator.translate(texts[0], 2, alpha=-3.0),
        translator.translate(texts[1], 2, alpha=3.0, min_length=9),
    ]
    assert strings(found)[1] != translator.translate(texts[1], 2, alpha=3.0)
    for name, wrong, words in (
        ("alpha", [1.0, float("inf")], "`alpha` to be finite"),
        ("min_length", [0, -1], "`min_length` to be at least 0"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            served(text=tf.constant(texts), **{**numbers, name: tf.constant(wrong)})


@pytest.mark.slow
def test_captions_with_the_alpha_of_each_request(unsaved):
    captioner = captioning_toys.make("transformer")
    captioner.export("nowhere", beams=2)
    files = captioner.export_examples()["image"][:2]
    alphas = [-3.0, 3.0]
    found = unsaved[0]["with_settings"](image=tf.constant(files), alpha=tf.constant(alphas))
    pictures = captioner.regions(captioner.picture_input().encode(files)["pixels"])
    wanted = [
        captioner.caption_source(PictureArrays(pictures[i : i + 1]), beams=2, alpha=a)[0]
        for i, a in enumerate(alphas)
    ]
    assert strings(found["caption"]) == wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("use", "columns"),
    [
        (
            {"beams": 3, "mutual_information": 0.4},
            {"alpha": [0.0, 2.0], "mutual_information": [0.0, 3.0]},
        ),
        (
            {"search": "sample", "no_repeat_ngram_size": 2},
            {
                "temperature": [0.5, 2.0], "top_k": [0, 9], "top_p": [0.7, 1.0],
                "min_p": [0.0, 0.1], "repetition_penalty": [1.4, 1.0], "seed": [3, 4],
            },
        ),
    ],
    ids=["beam", "sample"],
)  # fmt: skip
def test_answers_with_the_numbers_of_each_request(use, columns, unsaved):
    talker = conversation_toys.untrained("gpt")
    talker.export("nowhere", **use)
    turns = [list(conversation_toys.HOSTILE[0]), ["", "", "So?"]]
    numbers = {name: tf.constant(column) for name, column in columns.items()}
    found = strings(unsaved[0]["with_settings"](turns=tf.constant(turns), **numbers)["answer"])
    for row, answer in enumerate(found):
        own = {name: column[row] or None for name, column in columns.items()}
        own = {name: value for name, value in own.items() if value is not None}
        if "alpha" in columns:
            own["alpha"] = columns["alpha"][row]
        kept = {name: x for name, x in use.items() if name != "mutual_information"}
        assert answer == talker.answer(tuple(turns[row]), **{**kept, **own})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", float("nan"), "at least 1e-30"),
        ("top_k", -1, "at least 0, which keeps all"),
        ("top_p", 0.0, "above 0 and at most 1"),
        ("top_p", 1.1, "above 0 and at most 1"),
        ("min_p", 1.0, "below 1"),
        ("repetition_penalty", 0.0, "at least 1e-30"),
        ("repetition_penalty", float("inf"), "at most 1e"),
        ("mutual_information", -0.1, "at least 0"),
        ("alpha", float("nan"), "finite"),
    ],
)
def test_numbers_out_of_range_are_refused(name, value, message):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"Expected `{name}` to be .*{message}"
    ):
        checked_numbers(tf, {name: tf.constant([1, value], "int32" if name == "top_k" else None)})
