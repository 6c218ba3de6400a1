"""Models of ours that transformers loads."""

import dataclasses
import json

import numpy as np
import pytest

from keras_attn.interop import load_pretrained, read_pretrained, save_pretrained
from keras_attn.models import (
    BertClassifierConfig,
    BertConfig,
    GptConfig,
    T5Config,
    TransformerEncoderDecoderConfig,
    with_heads,
)
from keras_attn.models.tensors import model_tensors
from keras_attn.text import WordPieceTokenizer

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

from interop_toys import (  # noqa: E402
    TOKENS,
    batch,
    difference,
    logits_difference,
    randomize,
    theirs,
)

CONFIG = BertConfig(
    31, dim=12, num_layers=2, num_heads=3, intermediate_dim=20, sequence_length=16,
    layer_norm_epsilon=1e-5, num_segments=3, activation="squared_relu",
)  # fmt: skip
DISTILBERT = dataclasses.replace(
    CONFIG,
    num_layers=1,
    num_segments=None,
    pooler_activation=None,
    layer_norm_epsilon=1e-12,
    activation="gelu",
)
PLACES = {
    ("masked_words",): "ForMaskedLM",
    ("next_sentence",): "ForNextSentencePrediction",
    ("masked_words", "next_sentence"): "ForPreTraining",
    ("classes",): "ForSequenceClassification",
    ("tags",): "ForTokenClassification",
    ("spans",): "ForQuestionAnswering",
}


def loaded(folder, name, **options):
    """The model of transformers, of whose weights none is new and none is left over."""
    kind = getattr(transformers, name)
    model, info = kind.from_pretrained(folder, output_loading_info=True, **options)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    (architecture,) = json.loads((folder / "config.json").read_text())["architectures"]
    assert architecture == name
    return model.eval()


@pytest.mark.parametrize("pooler", ["tanh", pytest.param(None, marks=pytest.mark.slow)])
def test_an_encoder(pooler, tmp_path):
    config = dataclasses.replace(CONFIG, pooler_activation=pooler)
    model = randomize(config.build())
    save_pretrained(tmp_path / "a", model, config)
    reference = loaded(tmp_path / "a", "BertModel", add_pooling_layer=pooler is not None)
    for left in (False, True):
        assert difference(model, reference, batch(num_segments=3, left=left)) < 1e-5
    again, _, report = load_pretrained(tmp_path / "a")
    assert read_pretrained(tmp_path / "a").config == config
    assert report.new == report.left_over == []
    ours = model_tensors(model)
    for name, array in model_tensors(again).items():
        np.testing.assert_array_equal(array, ours[name])


@pytest.mark.slow
def test_a_distilbert(tmp_path):
    model = randomize(DISTILBERT.build())
    save_pretrained(tmp_path / "a", model, DISTILBERT)
    reference = loaded(tmp_path / "a", "DistilBertModel")
    assert difference(model, reference, batch(num_segments=None)) < 1e-5
    assert read_pretrained(tmp_path / "a").config == DISTILBERT


def reference_logits(heads, found):
    if heads == ("masked_words", "next_sentence"):
        return dict(zip(heads, found[:2], strict=True))
    if heads == ("spans",):
        import torch

        return {"spans": torch.stack([found.start_logits, found.end_logits], -1)}
    return {heads[0]: found.logits}


WITH_HEADS = [(kind, heads) for kind in ("Bert", "DistilBert") for heads in PLACES]
SLOW = [
    *(("Bert", (head,)) for head in ("masked_words", "next_sentence", "tags", "spans")),
    *(("DistilBert", (head,)) for head in ("tags", "spans")),
]


@pytest.mark.quick("Bert-heads2")
@pytest.mark.parametrize(
    ("kind", "heads"),
    [pytest.param(*c, marks=pytest.mark.slow if c in SLOW else ()) for c in WITH_HEADS],
)
def test_heads(kind, heads, tmp_path):
    config, classes = CONFIG, 4 if set(heads) & {"classes", "tags"} else None
    if kind == "DistilBert":
        pooler = "relu" if heads == ("classes",) else None
        config = dataclasses.replace(DISTILBERT, pooler_activation=pooler)
        if "next_sentence" in heads:
            config = dataclasses.replace(DISTILBERT, pooler_activation="relu")
            model = with_heads(config, heads, classes)
            with pytest.raises(ValueError, match=r"no DistilBert with these heads.*next_sentence"):
                save_pretrained(tmp_path / "a", model, config)
            return
    model = randomize(with_heads(config, heads, classes))
    labels = list("abcd") if classes else None
    save_pretrained(tmp_path / "a", model, config, labels=labels)
    reference = loaded(tmp_path / "a", f"{kind}{PLACES[heads]}")
    if classes:
        assert reference.config.id2label == dict(enumerate("abcd"))
        assert reference.config.label2id == {c: n for n, c in enumerate("abcd")}
    inputs = batch(num_segments=config.num_segments)
    logits = model(inputs)
    wanted = reference_logits(heads, theirs(reference, inputs))
    assert set(logits) == set(wanted)
    for head, value in wanted.items():
        assert logits_difference(logits[head], value, inputs["padding_mask"]) < 1e-5
    found = read_pretrained(tmp_path / "a")
    assert (found.heads, found.labels, found.unused) == (heads, labels, [])
    again, _, report = load_pretrained(tmp_path / "a", heads)
    assert report.new == report.left_over == []
    ours = model_tensors(model)
    assert all((array == ours[name]).all() for name, array in model_tensors(again).items())


@pytest.mark.slow
def test_a_classifier_of_texts(tmp_path):
    settings = {name: getattr(CONFIG, name) for name in vars(CONFIG)}
    config = BertClassifierConfig(**settings, num_classes=3)
    model = randomize(config.build())
    save_pretrained(tmp_path / "a", model, config, labels=["x", "y", "z"])
    reference = loaded(tmp_path / "a", "BertForSequenceClassification")
    inputs = batch()
    inputs["segment_ids"][:] = 0
    logits = theirs(reference, inputs).logits
    assert logits_difference(model(inputs["token_ids"]), logits, None) < 1e-5
    for pooling in ("average", "max", "attention"):
        other = dataclasses.replace(config, pooling=pooling, num_layers=1)
        with pytest.raises(ValueError, match=f"pooling='{pooling}', which only keras_attn"):
            save_pretrained(tmp_path / "b", other.build(), other)


@pytest.mark.slow
def test_training_goes_on_in_transformers(tmp_path):
    """The matrix of the decoder is that of the embeddings, there too."""
    save_pretrained(tmp_path / "a", with_heads(CONFIG, ("masked_words",)), CONFIG)
    model = loaded(tmp_path / "a", "BertForMaskedLM")
    table = model.bert.embeddings.word_embeddings.weight
    assert model.cls.predictions.decoder.weight is table
    assert model.cls.predictions.decoder.bias is model.cls.predictions.bias


@pytest.fixture(scope="module")
def encoder():
    return CONFIG.build()


@pytest.mark.parametrize("tokens", [TOKENS, [t for t in TOKENS if t != "[MASK]"]])
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("strip_accents", [None, True, False])
def test_the_tokenizer_goes_with_it(tokens, lowercase, strip_accents, encoder, tmp_path):
    mask = "[MASK]" in tokens
    tokenizer = WordPieceTokenizer(tokens, lowercase, strip_accents, mask_in_text=mask)
    save_pretrained(tmp_path / "a", encoder, CONFIG, tokenizer)
    again = read_pretrained(tmp_path / "a").tokenizer
    assert again.get_config() == tokenizer.get_config()
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path / "a")
    assert len(reference) == len(tokens) and reference.model_max_length == 16
    for text in ("abc ÁB d [MASK] a", "É 中 a,b", ""):
        text = text if mask else text.replace("[MASK]", "")
        ids = tokenizer.encode(text, add_start=True, add_end=True)
        assert reference(text)["input_ids"] == ids
    reference.save_pretrained(tmp_path / "b")  # with a tokenizer.json
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "b" / name).write_bytes((tmp_path / "a" / name).read_bytes())
    again = read_pretrained(tmp_path / "b").tokenizer
    assert again.get_config() == tokenizer.get_config()


def refused(message, model, config, folder, **more):
    with pytest.raises((ValueError, TypeError), match=message):
        save_pretrained(folder / "refused", model, config, **more)
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_what_cannot_be_written(encoder, tmp_path):
    model = encoder

    def other(**settings):
        return dataclasses.replace(CONFIG, **settings)

    refused(r"must have num_heads=4.* Received: 3", model, other(num_heads=4), tmp_path)
    refused("must have activation='relu'", model, other(activation="relu"), tmp_path)
    refused("must have layer_norm_epsilon=", model, other(layer_norm_epsilon=1e-3), tmp_path)
    refused("must have sequence_length=9", model, other(sequence_length=9), tmp_path)
    refused("the model has a pooler", model, other(pooler_activation=None), tmp_path)
    refused("Expected a Keras model and a `BertConfig`", model, {}, tmp_path)
    both = with_heads(CONFIG, ("classes", "spans"), 2)
    refused(r"no Bert with these heads. Received: .'classes', 'spans'", both, CONFIG, tmp_path)
    config = other(pooler_activation="relu", num_layers=1)
    refused("has the activation 'tanh'", config.build(), config, tmp_path)
    config = other(activation="elu", num_layers=1)
    refused("no activation 'elu'", config.build(), config, tmp_path)
    config = dataclasses.replace(DISTILBERT, layer_norm_epsilon=1e-5)
    refused("must be 1e-12", config.build(), config, tmp_path)
    config = dataclasses.replace(DISTILBERT, pooler_activation="relu")
    refused("a pooler only under the head 'classes'", config.build(), config, tmp_path)
    config = dataclasses.replace(DISTILBERT, pooler_activation="tanh")
    model_2 = with_heads(config, ("classes",), 2)
    refused("Build the model with pooler_activation='relu'", model_2, config, tmp_path)
    refused("`labels` are only used with the heads", model, CONFIG, tmp_path, labels=["a"])
    tagger = with_heads(CONFIG, ("tags",), 2)
    refused("must be 2 different strings", tagger, CONFIG, tmp_path, labels=["a"])
    refused("must be 2 different strings", tagger, CONFIG, tmp_path, labels=["a", "a"])
    many = WordPieceTokenizer([*TOKENS, *(f"x{n}" for n in range(20))])
    refused("not have more tokens than the model", model, CONFIG, tmp_path, tokenizer=many)
    broken = WordPieceTokenizer([*TOKENS, "a\rb"])
    refused("one token on each line", model, CONFIG, tmp_path, tokenizer=broken)
    refused("must be a WordPieceTokenizer", model, CONFIG, tmp_path, tokenizer=3)
    (tmp_path / "x").write_text("")
    with pytest.raises(FileExistsError):
        save_pretrained(tmp_path, model, CONFIG)


@pytest.mark.parametrize("kind", [GptConfig, T5Config, TransformerEncoderDecoderConfig])
def test_labels_are_for_encoders(kind, tmp_path):
    with pytest.raises(ValueError, match=f"for a {kind.__name__}, which has no such head"):
        save_pretrained(tmp_path / "a", None, kind(31), labels=["a"])


@pytest.mark.slow
def test_adapters_are_merged_first(tmp_path):
    model = CONFIG.build()
    model.get_layer("pooler").enable_lora(2)
    save_pretrained(tmp_path / "a", model, CONFIG)  # Keras saves the merged matrix
    kernel = np.asarray(model.get_layer("pooler").kernel)
    found = read_pretrained(tmp_path / "a").tensors["pooler/kernel"]
    np.testing.assert_allclose(found, kernel, atol=1e-7)
