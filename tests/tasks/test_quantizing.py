"""Quantized tasks: used, saved, loaded and exported as others."""

import json
import zipfile

import captioning_toys
import numpy as np
import pytest
import tensorflow as tf
import text_classification_toys as classification
import text_generation_toys as generation
from processes import answer
from tracing import eagerly
from translation_toys import PAIRS

from keras_attn.cli import main
from keras_attn.layers.quantization import quantized_sublayers
from keras_attn.tasks import Captioner, TextClassifier, TextGenerator, Translator
from keras_attn.text import BytePairTokenizer

SERVE = """
import json, sys
assert sys.modules['keras_attn'] is sys.modules['keras'] is None
import tensorflow as tf
serve = tf.saved_model.load(sys.argv[1]).signatures['serving_default']
inputs = {name: tf.constant(value) for name, value in json.loads(sys.argv[2]).items()}
outputs = serve(**inputs)
print(json.dumps({n: v.numpy().tolist() for n, v in outputs.items()}, default=bytes.decode))
"""


def served(path, **inputs):
    """What the SavedModel gives in a process without our package."""
    return answer("alone", SERVE, path, json.dumps(inputs))


def header(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("task.json"))


@pytest.mark.slow
def test_a_classifier(tmp_path, unsaved):
    classifier = classification.make("several")
    texts = classification.HOSTILE
    plain = classifier.predict_probabilities(texts)  # compiled for the floats
    classifier.save(tmp_path / "float.task")
    assert classifier.quantize() is classifier
    found = classifier.predict_probabilities(texts)
    assert 0 < np.abs(found - plain).max() < 0.1
    with eagerly():
        explained = classification.everything(classifier, ["attention", "gradient"])
    classifier.save(tmp_path / "int8.task")
    assert "quantization" not in header(tmp_path / "float.task")
    assert "quantization" in header(tmp_path / "int8.task")
    loaded = TextClassifier.load(tmp_path / "int8.task")
    assert quantized_sublayers(loaded.model) == quantized_sublayers(classifier.model)
    with eagerly():
        assert classification.everything(loaded, ["attention", "gradient"]) == explained
    half = TextClassifier.load(tmp_path / "int8.task", dtype="mixed_bfloat16")
    assert half.model.get_layer("head").dtype_policy.name == "int8_from_mixed_bfloat16"
    with eagerly():
        loaded.export(tmp_path / "model", method="attention")
        outputs = unsaved[0]["serving_default"](tf.constant(texts[:1]))
    np.testing.assert_allclose(outputs["probabilities"], found[:1], atol=1e-5)


@pytest.mark.slow
def test_an_exported_classifier(tmp_path):
    classifier = classification.make("rnn").quantize()
    texts = classification.HOSTILE
    classifier.export(tmp_path / "model", method="gradient")
    outputs = served(tmp_path / "model", text=texts[:1])
    found = classifier.predict_probabilities(texts[:1])
    np.testing.assert_allclose(outputs["probabilities"], found, atol=1e-5)


@pytest.mark.slow
def test_a_generator_and_some_of_its_layers(tmp_path):
    generator = generation.untrained(tmp_path / "float.task")
    bits = generator.evaluate(generation.TEXT[:100]).bits_per_character
    generator.quantize(filters=lambda layer: layer.name == "head")
    assert set(quantized_sublayers(generator.model)) == {"head"}
    head = generator.evaluate(generation.TEXT[:100]).bits_per_character
    assert head != bits
    generator.quantize()  # the rest
    assert set(quantized_sublayers(generator.model)) == {"head", "embedding/embedding"}
    texts = generator.generate(["to be", ""], 12, seed=3)
    generator.save(tmp_path / "int8.task")
    loaded = TextGenerator.load(tmp_path / "int8.task")
    assert loaded.generate(["to be", ""], 12, seed=3) == texts
    with pytest.raises(ValueError, match="2 layers are already quantized"):
        generator.quantize()
    with pytest.raises(ValueError, match="`mode`"):
        generator.quantize("int2")


@pytest.mark.slow
def test_keras_own_method_too():
    """What was compiled for the float weights is compiled anew."""
    generator = generation.make()
    before = generator.evaluate("to be").bits_per_character
    with pytest.warns(UserWarning, match="does not have a `quantize` method"):
        generator.model.quantize("int8")
    assert generator.evaluate("to be").bits_per_character != before


def translator(**config):
    tokenizer = BytePairTokenizer.train([text for pair in PAIRS for text in pair], 290)
    return Translator(
        tokenizer,
        model={"dim": 8, "num_layers": 1, "num_heads": 2, **config},
        data={"max_length": 12},
    )


@pytest.mark.slow
def test_a_translator_searches(tmp_path):
    task = translator(intermediate_dim=12)
    sources = [source for source, _ in PAIRS[:3]]
    task.quantize()
    found = task.translate(sources, beams=2)
    task.save(tmp_path / "int8.task")
    assert Translator.load(tmp_path / "int8.task").translate(sources, beams=2) == found


@pytest.mark.slow
def test_a_captioner_with_its_encoder(tmp_path):
    task = captioning_toys.make("transformer")
    task.quantize()
    assert quantized_sublayers(task.encoder)
    found = task.caption(captioning_toys.PICTURES[:2], beams=2)
    task.save(tmp_path / "int8.task")
    loaded = Captioner.load(tmp_path / "int8.task")
    assert quantized_sublayers(loaded.joined) == quantized_sublayers(task.joined)
    assert loaded.caption(captioning_toys.PICTURES[:2], beams=2) == found


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    generation.untrained(tmp_path / "float.task")
    arguments = ["--model", f"{tmp_path}/float.task", "--to", f"{tmp_path}/int8.task"]
    with pytest.raises(SystemExit) as ended:
        main(["text-generation", "quantize", *arguments])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    sizes = [(tmp_path / f"{name}.task").stat().st_size for name in ("float", "int8")]
    assert sizes[1] < sizes[0]
    assert f"{sizes[1]:,} bytes" in said
    assert f"{sizes[0]:,}" in said
    TextGenerator.load(tmp_path / "int8.task")


@pytest.mark.slow
def test_exports_of_quantized_models_compare_most_rows(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(
        "keras_attn.tasks.base.exported.export_text_functions",
        lambda *_, **more: given.append(more),
    )
    monkeypatch.setattr(
        Translator, "expected", lambda *_: {"serving_default": {"translation": [""] * 9}}
    )
    monkeypatch.setattr(Translator, "served_numbers", lambda *_: {})
    tokenizer = BytePairTokenizer.train(["one dog"], 259)
    task = Translator(tokenizer, model={"dim": 8, "num_layers": 1})
    task.export(tmp_path / "model")
    task.quantize()
    task.export(tmp_path / "model")
    assert [(more["share"], more["tolerance"]) for more in given] == [(1.0, 1e-4), (0.5, 3e-2)]


@pytest.mark.slow
@pytest.mark.parametrize("config", [{"intermediate_dim": 12}, {"model": "rnn", "units": 12}])
def test_exported_translators(tmp_path, config):
    if config.get("model") == "rnn":
        config = {"num_layers": 1, **config}
    tokenizer = BytePairTokenizer.train([text for pair in PAIRS for text in pair], 290)
    task = Translator(tokenizer, model={"dim": 8, **config}, data={"max_length": 12})
    task.quantize()
    sources = [source for source, _ in PAIRS[:3]]
    task.export(tmp_path / "model", beams=2)
    found = served(tmp_path / "model", text=sources)["translation"]
    assert found == task.translate(sources, beams=2)


@pytest.mark.slow
@pytest.mark.parametrize("case", captioning_toys.CASES)
def test_exported_captioners(tmp_path, case):
    task = captioning_toys.make(case)
    task.quantize()
    task.export(tmp_path / "model", beams=2)  # compares both signatures


@pytest.mark.slow
def test_exported_generators(tmp_path):
    task = generation.untrained(tmp_path / "float.task").quantize()
    task.export(tmp_path / "model")
    outputs = served(tmp_path / "model", prompt=["to be"], seed=[3], num_characters=9)
    assert outputs["text"] == task.generate(["to be"], 9, seed=[3])


def test_integer_weights_are_not_trained(tmp_path):
    examples = classification.EXAMPLES
    bag = {"model": "bag", "dim": 8, "pair_buckets": 0}
    classifier = TextClassifier(BytePairTokenizer.train(["good"], 259), ["bad", "good"], model=bag)
    classifier.quantize(filters=lambda layer: layer.name != "head")
    classifier.fit([("a", "bad"), ("b", "good")], tune="head", verbose=0)  # the head has floats
    with pytest.raises(ValueError, match=r"int8 cannot be trained.*'embedding.*quantize it again"):
        classifier.fit(examples, run_dir=tmp_path / "run")
    assert [path.name for path in tmp_path.glob("run/*")] == [".lock"]
    classifier.quantize()
    for tune in ("all", "head", "head_first"):
        with pytest.raises(ValueError, match="'head'"):
            classifier.fit(examples, tune=tune)


@pytest.mark.slow
def test_lora_beside_integer_weights():
    examples = classification.EXAMPLES
    sizes = {"model": "bert", "dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
    data = {"vocabulary_size": 270, "max_length": 16}
    classifier = TextClassifier.create(examples, data=data, model=sizes).quantize()
    before = classifier.predict_probabilities(["good"])
    with pytest.raises(ValueError, match="'head'"):
        classifier.fit(examples, tune="head_first", lora_rank=2, epochs=1)
    classifier.fit(examples, lora_rank=2, epochs=2, learning_rate=0.05, verbose=0)
    assert np.abs(classifier.predict_probabilities(["good"]) - before).max() > 1e-3
