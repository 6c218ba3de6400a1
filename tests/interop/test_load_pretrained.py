"""Models of transformers in our layers, from their files."""

import fnmatch
import json
from pathlib import Path

import keras
import numpy as np
import pytest
import safetensors.numpy
import torch
from processes import run_python

from keras_attn.interop import load_pretrained, read_pretrained
from keras_attn.interop.activations import ACTIVATIONS
from keras_attn.layers.activations import activation
from keras_attn.models.tensors import load_tensors, model_tensors

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

from interop_toys import (  # noqa: E402
    batch,
    bert,
    difference,
    distilbert,
    logits_difference,
    states_of,
    theirs,
    written,
)


def change(folder, **settings):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def rewrite(folder, function):
    """Writes the tensors of a folder again, changed."""
    path = folder / "model.safetensors"
    tensors = function(safetensors.numpy.load_file(path))
    safetensors.numpy.save_file(tensors, path, {"format": "pt"})


@pytest.mark.quick("0")
@pytest.mark.parametrize("number", [0, 1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_every_state_equals_that_of_transformers(number, tmp_path):
    """Of several widths, numbers of layers and segments, epsilons; with and without pooler."""
    settings = [
        {"type_vocab_size": 1, "num_hidden_layers": 1, "layer_norm_eps": 1e-3},
        {"type_vocab_size": 2, "hidden_size": 10, "num_attention_heads": 1, "layer_norm_eps": 1e-5},
        {"type_vocab_size": 3, "num_hidden_layers": 4, "intermediate_size": 7},
        {"type_vocab_size": 4, "num_attention_heads": 12, "max_position_embeddings": 9},
    ][number]
    reference = bert(seed=number, **settings)
    if number % 2:
        reference.pooler = None
    model, tokenizer, report = load_pretrained(written(reference, tmp_path))
    assert tokenizer is None and report.new == report.left_over == []
    assert set(report.loaded) == set(model_tensors(model))
    for left in (False, True):
        inputs = batch(num_segments=settings["type_vocab_size"], left=left)
        assert difference(model, reference, inputs) < 1e-5


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_every_activation(name):
    x = np.linspace(-8, 8, 4001, dtype="float32")
    ours = keras.ops.convert_to_numpy(activation(ACTIVATIONS[name])(keras.ops.array(x)))
    wanted = transformers.activations.ACT2FN[name](torch.tensor(x)).numpy()
    np.testing.assert_allclose(ours, wanted, atol=2e-6, rtol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_a_model_with_every_activation(name, tmp_path):
    """With weights that reach the places where the approximations of GELU differ."""
    reference = bert(hidden_act=name, num_hidden_layers=1, initializer_range=0.3)
    model, _, _ = load_pretrained(written(reference, tmp_path))
    assert difference(model, reference, batch()) < 1e-5


@pytest.mark.slow
def test_exact_and_approximate_gelu_are_told_apart(tmp_path):
    reference = bert(hidden_act="gelu", num_hidden_layers=1, initializer_range=0.3)
    written(reference, tmp_path)
    change(tmp_path, hidden_act="gelu_new")
    model, _, _ = load_pretrained(tmp_path)
    assert difference(model, reference, batch()) > 1e-4


@pytest.mark.slow
def test_distilbert(tmp_path):
    reference = distilbert()
    model, _, report = load_pretrained(written(reference, tmp_path))
    assert report.new == report.left_over == [] and set(model.input) == {
        "token_ids",
        "padding_mask",
    }
    for left in (False, True):
        assert difference(model, reference, batch(num_segments=None, left=left)) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_other_backends(backend, tmp_path):
    references = {
        "bert": bert(hidden_act="gelu", type_vocab_size=3, layer_norm_eps=1e-6),
        "distilbert": distilbert(activation="quick_gelu", n_layers=1),
    }
    inputs = {}
    for name, reference in references.items():
        written(reference, tmp_path / name)
        for side in ("right", "left"):
            segments = None if name == "distilbert" else reference.config.type_vocab_size
            inputs[name, side] = batch(num_segments=segments, left=side == "left")
            np.savez(tmp_path / name / f"{side}.npz", **inputs[name, side])
    script = Path(__file__).with_name("interop_script.py")
    assert run_python(backend, script, tmp_path).stdout.strip() == backend
    for (name, side), given in inputs.items():
        states, pooled = states_of(references[name], given)
        found = np.load(tmp_path / name / "found.npz")
        seen = given["padding_mask"]
        np.testing.assert_allclose(found[side][:, seen], states[:, seen], atol=1e-5)
        assert (pooled is None) == (f"{side}_pooled" not in found)
        if pooled is not None:
            np.testing.assert_allclose(found[f"{side}_pooled"], pooled, atol=1e-5)


HEADS = {
    "ForMaskedLM": ("masked_words",),
    "ForNextSentencePrediction": ("next_sentence",),
    "ForPreTraining": ("masked_words", "next_sentence"),
    "ForSequenceClassification": ("classes",),
    "ForTokenClassification": ("tags",),
    "ForQuestionAnswering": ("spans",),
}


def theirs_by_head(kind, found):
    if kind == "ForPreTraining":
        return {"masked_words": found[0], "next_sentence": found[1]}
    if kind == "ForQuestionAnswering":
        stacked = np.stack([found.start_logits.numpy(), found.end_logits.numpy()], -1)
        return {"spans": keras.ops.convert_to_numpy(stacked)}
    return {HEADS[kind][0]: found.logits}


QUICK = [(bert, "ForPreTraining"), (bert, "ForTokenClassification"), (bert, "ForQuestionAnswering")]
QUICK += [(distilbert, "ForMaskedLM"), (distilbert, "ForSequenceClassification")]
WITH_HEADS = [(make, kind) for make in (bert, distilbert) for kind in HEADS]
WITH_HEADS.remove((distilbert, "ForNextSentencePrediction"))
WITH_HEADS.remove((distilbert, "ForPreTraining"))


@pytest.mark.quick("distilbert-ForSequenceClassification")
@pytest.mark.parametrize(
    ("make", "kind"),
    [pytest.param(*c, marks=() if c in QUICK else pytest.mark.slow) for c in WITH_HEADS],
)
def test_heads(make, kind, tmp_path):
    labels = {"id2label": {0: "a", 1: "b", 2: "c"}} if "Classification" in kind else {}
    reference = make(kind, hidden_act="relu", **labels) if make is bert else make(kind, **labels)
    written(reference, tmp_path)
    found = read_pretrained(tmp_path)
    assert found.heads == HEADS[kind] and found.unused == []
    assert found.labels == (["a", "b", "c"] if labels else None)
    model, _, report = load_pretrained(tmp_path, HEADS[kind])
    assert report.new == report.left_over == []
    inputs = batch(num_segments=2 if make is bert else None)
    wanted = theirs_by_head(kind, theirs(reference, inputs))
    logits = model(inputs)
    assert set(logits) == set(wanted)
    for head, value in wanted.items():
        value = value if hasattr(value, "numpy") else keras.ops.convert_to_tensor(value)
        assert logits_difference(logits[head], value, inputs["padding_mask"]) < 1e-5


def test_the_report_says_what_is_new_and_what_is_left_over(tmp_path):
    written(bert("ForMaskedLM"), tmp_path)
    model, _, report = load_pretrained(tmp_path, ("classes", "spans"), num_classes=4)
    assert report.new == [
        "pooler/kernel", "pooler/bias", "classes/kernel", "classes/bias", "spans/kernel",
        "spans/bias",
    ]  # fmt: skip
    assert sorted(report.left_over) == [
        "embedding/tokens/bias", "masked_words/bias", "masked_words/kernel",
        "masked_words_norm/beta", "masked_words_norm/gamma",
    ]  # fmt: skip
    assert set(report.loaded) | set(report.new) == set(model_tensors(model))


@pytest.mark.slow
def test_a_new_head_for_masked_words_keeps_the_embeddings(tmp_path):
    """Its bias is a weight of their layer, and is not in the file."""
    reference = bert()
    written(reference, tmp_path)
    model, _, report = load_pretrained(tmp_path, ("masked_words",))
    assert {name.split("/")[0] for name in report.new} == {
        "embedding", "masked_words", "masked_words_norm",
    }  # fmt: skip
    assert report.left_over == ["pooler/kernel", "pooler/bias"]
    tensors = model_tensors(model)
    assert "embedding/tokens/bias" in report.new and not tensors["embedding/tokens/bias"].any()
    table = reference.embeddings.word_embeddings.weight.detach().numpy()
    np.testing.assert_array_equal(tensors["embedding/tokens/embedding/embeddings"], table)


@pytest.mark.slow
def test_another_number_of_classes_gives_a_new_head(tmp_path):
    written(bert("ForSequenceClassification", num_labels=3), tmp_path)
    model, _, report = load_pretrained(tmp_path, ("classes",), num_classes=5)
    assert report.new == report.left_over == ["classes/kernel", "classes/bias"]
    assert model.output["classes"].shape[-1] == 5


def test_a_classifier_of_ours_takes_the_weights(tmp_path):
    from keras_attn.models import BertClassifierConfig

    reference = bert("ForSequenceClassification", num_labels=3)
    found = read_pretrained(written(reference, tmp_path))
    settings = {name: getattr(found.config, name) for name in vars(found.config)}
    model = BertClassifierConfig(**settings, num_classes=3).build()
    load_tensors(model, found.tensors, other_names={"head": ("classes",)})
    inputs = batch()
    inputs["segment_ids"][:] = 0
    seen = inputs["padding_mask"]
    logits = theirs(reference, inputs).logits
    assert logits_difference(model(inputs["token_ids"]), logits, seen) < 1e-5


@pytest.mark.slow
def test_a_classifier_of_pairs_makes_the_segments(tmp_path):
    from keras_attn.models import BertClassifierConfig

    reference = bert("ForSequenceClassification", num_labels=3)
    found = read_pretrained(written(reference, tmp_path))
    settings = {name: getattr(found.config, name) for name in vars(found.config)}
    model = BertClassifierConfig(**settings, num_classes=3, separator_id=3).build()
    load_tensors(model, found.tensors, other_names={"head": ("classes",)})
    ids = np.array([[2, 5, 6, 3, 7, 3], [2, 3, 8, 9, 5, 3], [2, 5, 3, 3, 0, 0], [2, 5, 3, 0, 0, 0]])
    segments = [[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0], [0] * 6]
    inputs = {
        "token_ids": ids.astype("int32"),
        "segment_ids": np.array(segments, "int32"),
        "padding_mask": ids != 0,
    }
    logits = theirs(reference, inputs).logits
    assert logits_difference(model(inputs["token_ids"]), logits, ids != 0) < 1e-5
    without = BertClassifierConfig(**settings, num_classes=3).build()
    load_tensors(without, found.tensors, other_names={"head": ("classes",)})
    worst = logits_difference(without(inputs["token_ids"])[:3], logits[:3], ids[:3] != 0)
    assert worst > 1e-2
    with pytest.raises(ValueError, match="at least two segments"):
        BertClassifierConfig(31, 2, num_segments=None, separator_id=3)


def old_names(tensors):
    words = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for new, old in words.items():
        tensors = {name.replace(new, old): array for name, array in tensors.items()}
    return {**tensors, "bert.embeddings.position_ids": np.arange(16)[None]}


def with_prefix(tensors):
    return {f"bert.{name}": array for name, array in tensors.items()}


@pytest.mark.slow
@pytest.mark.parametrize("function", [old_names, with_prefix])
def test_older_names(function, tmp_path):
    reference = bert()
    written(reference, tmp_path)
    rewrite(tmp_path, function)
    assert read_pretrained(tmp_path).unused == []
    assert difference(load_pretrained(tmp_path)[0], reference, batch()) < 1e-5


def test_a_tensor_with_two_names_is_refused(tmp_path):
    written(bert(), tmp_path)
    name = "pooler.dense.bias"
    rewrite(tmp_path, lambda tensors: {**tensors, f"bert.{name}": tensors[name]})
    with pytest.raises(ValueError, match=f"{name} is also stored as|is also stored as bert.{name}"):
        read_pretrained(tmp_path)


@pytest.mark.slow
def test_what_no_layer_has_is_named(tmp_path):
    written(bert(), tmp_path)
    rewrite(tmp_path, lambda tensors: {**tensors, "adapter.weight": np.ones(3, "float32")})
    assert load_pretrained(tmp_path)[2].left_over == ["adapter.weight"]


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_other_dtypes_become_float32(dtype, tmp_path):
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    reference = bert()
    written(reference, tmp_path)
    rewrite(tmp_path, lambda tensors: {n: a.astype(kind) for n, a in tensors.items()})
    table = read_pretrained(tmp_path).tensors["embedding/tokens/embedding/embeddings"]
    wanted = reference.embeddings.word_embeddings.weight.detach().numpy()
    np.testing.assert_array_equal(table, wanted.astype(kind).astype("float32"))
    assert table.dtype == np.float32


@pytest.mark.slow
def test_several_files(tmp_path):
    reference = bert()
    reference.save_pretrained(tmp_path, max_shard_size="2KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert difference(load_pretrained(tmp_path)[0], reference, batch()) < 1e-5


@pytest.mark.slow
def test_a_head_that_is_not_tied(tmp_path):
    """The encoder can be loaded, the head cannot."""
    reference = bert("ForMaskedLM")
    written(reference, tmp_path)
    own = reference.cls.predictions.decoder.weight.detach().numpy()
    rewrite(tmp_path, lambda tensors: {**tensors, "cls.predictions.decoder.weight": own})
    assert read_pretrained(tmp_path).heads == ("masked_words",)  # the same matrix
    rewrite(tmp_path, lambda tensors: {**tensors, "cls.predictions.decoder.weight": own + 1})
    found = read_pretrained(tmp_path)
    assert found.heads == () and "cls.predictions.decoder.weight" in found.unused
    assert load_pretrained(tmp_path)[2].new == []
    with pytest.raises(ValueError, match="must be tied"):
        load_pretrained(tmp_path, ("masked_words",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "albert"}, "`model_type` must be one of .'bert', 'distilbert'"),
        ({"is_decoder": True}, "`is_decoder` must be False"),
        ({"add_cross_attention": True}, "`add_cross_attention` must be False"),
        ({"position_embedding_type": "relative_key"}, "must be 'absolute'"),
        ({"hidden_act": "xielu"}, "`hidden_act` must be one of .'gelu'.* Received: 'xielu'"),
        ({"pruned_heads": {"0": [1]}}, "`pruned_heads`"),
        ({"quantization_config": {"bits": 4}}, "`quantization_config`"),
        ({"hidden_size": "12"}, "config.json: `dim` must be of type int"),
        ({"architectures": 0.5}, "config.json: `architectures` must be a list of names"),
        ({"num_attention_heads": 5}, "config.json: `dim` must be divisible by `num_heads`"),
        ({"layer_norm_eps": float("nan")}, "must be a finite number"),
        ({"type_vocab_size": None}, "`type_vocab_size` must be a number"),
        ({"num_hidden_layers": 10**12}, "requires a tensor encoder.layer.2.attention"),
        (
            {"hidden_size": 3 * 10**9},
            r"word_embeddings.weight must have the shape \(31, 3000000000",
        ),
        ({"vocab_size": 10**15}, "word_embeddings.weight must have the shape"),
        ({"max_position_embeddings": 17}, "position_embeddings.weight must have the shape"),
        ({"intermediate_size": 21}, r"must have the shape \(21, 12\).* Received: \(20, 12\)"),
    ],
)
def test_settings_that_are_not_supported(settings, message, tmp_path):
    written(bert(), tmp_path)
    change(tmp_path, **settings)
    with pytest.raises(ValueError, match=message):
        read_pretrained(tmp_path)


def test_a_head_without_its_pooler_is_refused(tmp_path):
    written(bert("ForSequenceClassification"), tmp_path)
    rewrite(tmp_path, lambda tensors: {n: a for n, a in tensors.items() if "pooler" not in n})
    with pytest.raises(ValueError, match=r"need pooler.dense.weight, which is not"):
        read_pretrained(tmp_path)


def test_labels_must_fit(tmp_path):
    written(bert("ForTokenClassification", num_labels=3), tmp_path)
    change(tmp_path, id2label={"0": "a", "1": "b"})
    with pytest.raises(ValueError, match="a name for each of 3 classes"):
        read_pretrained(tmp_path)
    change(tmp_path, id2label={"1": "a", "2": "b", "3": "c"})
    with pytest.raises(ValueError, match="`id2label` must have the names"):
        read_pretrained(tmp_path)


def test_places(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="Expected a folder with a config"):
        read_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match="which is neither"):
        read_pretrained(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="which is neither"):
        read_pretrained("../../no/such")
    with pytest.raises(FileNotFoundError, match=r"There is no file 'bert\.task'"):
        read_pretrained("bert.task")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match="which is a file"):
        read_pretrained(str(tmp_path / "file"))
    with pytest.raises(TypeError, match=r"BertBackbone or GPT2Backbone. Received: int"):
        read_pretrained(3)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(FileNotFoundError, match=r"only pytorch_model.bin.*safe_serialization=True"):
        read_pretrained(tmp_path)


def test_a_name_on_the_hub(tmp_path, monkeypatch):
    import huggingface_hub

    asked = []
    written(bert(), tmp_path)

    def fetched(name, allow_patterns):
        asked.append((name, allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    assert read_pretrained("google/bert_uncased_L-2_H-128_A-2").config.dim == 12
    ((name, patterns),) = asked
    assert name == "google/bert_uncased_L-2_H-128_A-2"
    assert "vocab.txt" in patterns and not any("bin" in p or p == "*" for p in patterns)
    for file in (  # all that a reader of folders looks for
        "config.json", "generation_config.json", "model.safetensors", "vocab.txt", "vocab.json",
        "model-00001-of-00002.safetensors", "model.safetensors.index.json", "merges.txt",
        "tokenizer.json", "tokenizer_config.json", "added_tokens.json", "tokenizer.model",
        "sentencepiece.bpe.model", "spiece.model", "source.spm", "target.spm", "modules.json",
        "target_vocab.json", "1_Pooling/config.json", "sentence_bert_config.json",
        "config_sentence_transformers.json",
    ):  # fmt: skip
        assert any(fnmatch.fnmatch(file, pattern) for pattern in patterns), file

    def no_network(name, allow_patterns):
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", no_network)
    with pytest.raises(OSError, match=r"could not be fetched.*no route.*and give the folder"):
        read_pretrained("google/bert")
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"keras_attn\[hub\].*give the folder"):
        read_pretrained("google/bert")
