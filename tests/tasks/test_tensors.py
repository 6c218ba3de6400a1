"""Weights as named tensors: the same names in every build, and one task's for another."""

import json
import zipfile

import keras
import numpy as np
import pytest
import safetensors.numpy
import text_generation_toys
from processes import answer

from keras_attn.adapt import enable_lora
from keras_attn.models.tensors import from_bytes, load_tensors, model_tensors, to_bytes
from keras_attn.tasks import TextClassifier, Translator
from keras_attn.tasks.base.task_file import read_tensors
from keras_attn.text import BytePairTokenizer

PAIRS = [("one dog", "ein Hund"), ("one cat", "eine Katze")]
TOKENIZER = BytePairTokenizer.train([text for pair in PAIRS for text in pair], 262)
SMALL = {"dim": 8, "num_heads": 2, "num_layers": 1, "intermediate_dim": 12}


def automatic():
    """A model whose layers have the names that Keras makes up."""
    inputs = keras.Input((5, 3))
    x = keras.layers.Dense(4)(inputs)
    x = keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True))(x)
    x = keras.layers.BatchNormalization()(keras.layers.Dense(4)(x))
    x = keras.layers.Dropout(0.1)(x)
    return keras.Model(inputs, keras.Sequential([keras.layers.Dense(2)])(x))


@pytest.mark.slow
def test_names_do_not_depend_on_what_was_built_before():
    first, second = automatic(), automatic()
    assert first.layers[1].name != second.layers[1].name
    tensors = model_tensors(first)
    assert tensors.keys() == model_tensors(second).keys()
    assert {"dense/kernel", "dense:1/kernel", "batch_normalization/moving_mean"} <= tensors.keys()
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    assert np.abs(np.asarray(first(x)) - np.asarray(second(x))).max() > 1e-3
    report = load_tensors(second, tensors)
    assert (set(report.loaded), report.new, report.left_over) == (set(tensors), [], [])
    np.testing.assert_array_equal(np.asarray(first(x)), np.asarray(second(x)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "float32",
        pytest.param("mixed_bfloat16", marks=pytest.mark.slow),
        pytest.param("bfloat16", marks=pytest.mark.slow),
        pytest.param("int8", marks=pytest.mark.slow),
        pytest.param("lora", marks=pytest.mark.slow),
    ],
)
def test_round_trips(kind, tmp_path, eager):
    """All weights are in the file, whatever they are."""
    dtype = kind if "float" in kind else "float32"
    translator = Translator(TOKENIZER, model=SMALL, dtype=dtype)
    if kind == "int8":
        translator.quantize()
    if kind == "lora":
        enable_lora(translator.model, 2)
        for weight in translator.model.trainable_weights:
            weight.assign(keras.ops.ones(weight.shape) * 0.05)
    sources = [source for source, _ in PAIRS]
    row = np.array([TOKENIZER.encode(sources[0])])
    ids = {"source_ids": row, "target_ids": row}
    logits = keras.ops.convert_to_numpy(translator.model(ids))
    translator.save(tmp_path / "t.task")
    tensors = read_tensors(tmp_path / "t.task")
    saved = sum(array.size for array in tensors.values())
    if kind != "lora":  # whose factors are merged into their kernels
        assert saved == sum(int(np.prod(w.shape)) for w in translator.model.weights)
    assert "encoder/block_0/self_attention/output/kernel" in tensors
    loaded = Translator.load(tmp_path / "t.task")
    found = keras.ops.convert_to_numpy(loaded.model(ids))
    assert found.dtype == logits.dtype
    np.testing.assert_allclose(
        np.asarray(found, "float32"), np.asarray(logits, "float32"), atol=1e-5
    )
    if kind in ("float32", "int8"):  # how it is decoded is the same for the others
        expected = translator.translate(sources, beams=1)
        assert loaded.translate(sources, beams=1) == expected
    if kind != "lora":
        for mine, other in zip(loaded.model.weights, translator.model.weights, strict=True):
            np.testing.assert_array_equal(
                keras.ops.convert_to_numpy(mine), keras.ops.convert_to_numpy(other)
            )


def test_what_does_not_fit_changes_nothing():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    before = [np.array(w) for w in model.weights]
    more = {name: x + 1 for name, x in model_tensors(model).items()}
    last = list(more)[-1]
    for wrong in ({k: v for k, v in more.items() if k != last}, {**more, "other": more[last]}):
        with pytest.raises(ValueError, match=f"{last} is missing|other is not of the model"):
            load_tensors(model, wrong)
        for weight, old in zip(model.weights, before, strict=True):
            np.testing.assert_array_equal(weight, old)


@pytest.mark.slow
def test_others_can_read_the_file(tmp_path):
    """Without our package and without Keras."""
    generator = text_generation_toys.untrained(tmp_path / "t.task")
    script = (
        "import json, sys, zipfile\n"
        "import safetensors.numpy\n"
        "data = zipfile.ZipFile(sys.argv[1]).read('model.safetensors')\n"
        "tensors = safetensors.numpy.load(data)\n"
        "print(json.dumps({name: array.sum().item() for name, array in tensors.items()}))\n"
    )
    sums = answer("alone", script, tmp_path / "t.task")
    expected = model_tensors(generator.model)
    assert sums.keys() == expected.keys()
    for name, array in expected.items():
        assert sums[name] == pytest.approx(float(array.sum()), rel=1e-4, abs=1e-4)


def changed(path, target, change):
    """A copy of a task's file with changed tensors or, as bytes, other contents."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        new.writestr("task.json", old.read("task.json"))
        tensors = dict(safetensors.numpy.load(old.read("model.safetensors")))
        made = change(tensors)
        new.writestr("model.safetensors", made if isinstance(made, bytes) else to_bytes(made))
    return target


def without(tensors):
    del tensors["head/bias"]
    return tensors


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The file of a classifier."""
    path = tmp_path_factory.mktemp("saved") / "c.task"
    TextClassifier(TOKENIZER, ["a", "b"], model={"model": "transformer", **SMALL}).save(path)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without, "1 tensors that do not fit: head/bias is missing"),
        (lambda t: {**t, "other/kernel": t["head/bias"]}, "other/kernel is not of the model"),
        (
            lambda t: {**t, "head/bias": np.zeros(3, "float32")},
            r"head/bias has shape \(3,\), not \(2,\)",
        ),
        (lambda t: to_bytes(t)[:-8], "a whole safetensors file"),
        (lambda t: b"\x00" * 7, "a whole safetensors file"),
    ],
)
def test_files_that_lie(saved, tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier.load(changed(saved, tmp_path / "d.task", change))


@pytest.mark.parametrize("header", [{}, {"format_version": 1, "keras_attn": "0.1.0"}])
def test_headers_that_lie(tmp_path, header):
    with zipfile.ZipFile(tmp_path / "t.task", "w") as archive:
        archive.writestr("task.json", json.dumps(header))
    with pytest.raises(ValueError, match=r"t\.task"):
        Translator.load(tmp_path / "t.task")


def test_bfloat16():
    array = np.asarray(keras.ops.convert_to_numpy(keras.ops.ones((2, 3), "bfloat16")))
    found = from_bytes(to_bytes({"a": array}))["a"]
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


# One task's weights for another


@pytest.mark.slow
def test_a_classifier_starts_from_the_encoder_of_a_translator(tmp_path):
    translator = Translator(TOKENIZER, model=SMALL)
    translator.save(tmp_path / "t.task")
    config = {"model": "transformer", **SMALL, "activation": "relu"}
    classifier = TextClassifier(TOKENIZER, ["a", "b"], model=config)
    before = model_tensors(classifier.model)
    report = classifier.load_backbone(tmp_path / "t.task")
    after, source = model_tensors(classifier.model), model_tensors(translator.model)
    assert {name.split("/")[0] for name in report.loaded} == {"embedding", "encoder"}
    assert {name.split("/")[0] for name in report.new} == {"pooling", "head"}
    assert {name.split("/")[0] for name in report.left_over} == {"decoder"}
    assert {*report.loaded, *report.new} == set(after)
    for name in report.loaded:
        other = name.replace("embedding/", "source_embedding/", 1)
        np.testing.assert_array_equal(after[name], source[other if name not in source else name])
    for name in report.new:
        np.testing.assert_array_equal(after[name], before[name])
    assert "new and random: " in str(report)
    # It gives what the translator's encoder gives.
    ids = np.array([TOKENIZER.encode("one dog")])
    one = translator.model.get_layer("encoder")(
        translator.model.get_layer("positions")(translator.model.get_layer("source_embedding")(ids))
    )
    other = classifier.model.get_layer("encoder")(
        classifier.model.get_layer("positions")(classifier.model.get_layer("embedding")(ids))
    )
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-6)


@pytest.mark.slow
def test_other_tokens_are_not_taken_for_the_same(tmp_path):
    """The shapes are alike, the tokens are not."""
    translator = Translator(TOKENIZER, model=SMALL)
    translator.save(tmp_path / "t.task")
    tokenizer = BytePairTokenizer.train(["two men, two women"], 262)
    assert tokenizer.vocabulary_size == TOKENIZER.vocabulary_size
    assert tokenizer.get_config() != TOKENIZER.get_config()
    classifier = TextClassifier(tokenizer, ["a", "b"], model={"model": "transformer", **SMALL})
    report = classifier.load_backbone(tmp_path / "t.task")
    assert {name.split("/")[0] for name in report.loaded} == {"encoder"}
    assert any(name.startswith("embedding/") for name in report.new)
    bag = TextClassifier(tokenizer, ["a", "b"], model={"pair_buckets": 0})
    with pytest.raises(ValueError, match="no weights with the same name, shapes and vocabulary"):
        bag.load_backbone(tmp_path / "t.task")
