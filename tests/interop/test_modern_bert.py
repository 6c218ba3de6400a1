"""ModernBERT of transformers, in and out."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import run_python

from keras_attn.fields import EncoderInput
from keras_attn.interop import load_pretrained, read_pretrained, save_pretrained
from keras_attn.models import ModernBertClassifierConfig, ModernBertConfig, with_heads
from keras_attn.text import BytePairTokenizer

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

from interop_toys import (  # noqa: E402
    SMALL,
    batch,
    difference,
    logits_difference,
    perturbed,
    randomize,
    states_of,
    theirs,
)

USUAL = {
    "pad_token_id": 0, "local_attention": 4, "num_hidden_layers": 4,
    "bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2,
}  # fmt: skip
HEADS = {
    "Model": (),
    "ForMaskedLM": ("masked_words",),
    "ForSequenceClassification": ("classes",),
    "ForTokenClassification": ("tags",),
    "ForQuestionAnswering": ("spans",),
}
ROTARY = {
    "full_attention": {"rope_type": "default", "rope_theta": 50.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 3.0},
}
SETTINGS = {
    "usual": {},
    "other": {
        "rope_parameters": ROTARY, "num_hidden_layers": 5, "global_attn_every_n_layers": 2,
        "local_attention": 7, "norm_eps": 1e-3, "hidden_activation": "silu", "pad_token_id": 3,
    },
    "listed": {
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "num_hidden_layers": 3, "rope_parameters": ROTARY, "local_attention": 2,
    },
    "no windows": {
        "layer_types": ["full_attention"] * 2, "num_hidden_layers": 2, "intermediate_size": 7,
    },
}  # fmt: skip


def modern(kind="Model", **settings):
    """One of transformers; its norms have no bias, so weights are moved alike."""
    config = transformers.ModernBertConfig(**{**SMALL, **USUAL, **settings})
    return perturbed(getattr(transformers, f"ModernBert{kind}")(config))


def rows(left=False):
    return batch(num_segments=None, left=left)


def wanted_logits(found, kind):
    if kind == "ForQuestionAnswering":
        return torch.stack([found.start_logits, found.end_logits], -1)
    return found.logits


def relative(model, reference, inputs):
    states, _ = states_of(reference, inputs)
    return difference(model, reference, inputs) / np.abs(states).max()


def each(names, *quick):
    return [pytest.param(n, marks=() if n in quick else pytest.mark.slow) for n in names]


@pytest.mark.slow
@pytest.mark.parametrize("name", each(SETTINGS, "other"))
def test_all_states(name, tmp_path):
    reference = modern(**SETTINGS[name])
    reference.save_pretrained(tmp_path / "a")
    model, tokenizer, report = load_pretrained(tmp_path / "a")
    assert tokenizer is None and report.new == report.left_over == []
    assert set(model.input) == {"token_ids", "padding_mask"}
    for left in (False, True):
        assert relative(model, reference, rows(left)) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", each(HEADS, "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
)
def test_heads_in_and_out(kind, tmp_path):
    """All heads but that of masked words read one transformation of the states."""
    pooling = "mean" if kind == "ForSequenceClassification" else "cls"
    reference = modern(kind, classifier_pooling=pooling, hidden_activation="relu")
    reference.save_pretrained(tmp_path / "a")
    heads = HEADS[kind]
    model, _, report = load_pretrained(tmp_path / "a", heads)
    assert report.new == [] and {name.split("/")[0] for name in report.left_over} <= {
        "pooler", "pooler_norm"
    }  # fmt: skip
    back = read_pretrained(tmp_path / "a")
    config = back.config
    assert back.heads == heads and back.unused == []
    inputs = rows()
    found = theirs(reference, inputs)
    if heads:
        wanted, seen = wanted_logits(found, kind), inputs["padding_mask"]
        worst = logits_difference(model(inputs)[heads[0]], wanted, seen)
        assert worst < 1e-5 * wanted.abs().max().item()
    save_pretrained(tmp_path / "b", model, config)
    again, info = type(reference).from_pretrained(tmp_path / "b", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for one, other in zip(found.to_tuple(), theirs(again.eval(), inputs).to_tuple(), strict=True):
        np.testing.assert_array_equal(one, other)
    back = read_pretrained(tmp_path / "b")
    assert (back.config, back.heads, back.unused) == (config, heads, [])


@pytest.mark.slow
def test_a_classifier_of_texts_out(tmp_path):
    """It makes its mask of the ids: padding is 5."""
    config = ModernBertClassifierConfig(
        31, 3, dim=12, num_layers=2, num_heads=3, intermediate_dim=20, sliding_window=3, pad_id=5,
        pooling="average",
    )  # fmt: skip
    model = randomize(config.build())
    save_pretrained(tmp_path / "a", model, config, labels=["x", "y", "z"])
    kind = transformers.ModernBertForSequenceClassification
    reference, info = kind.from_pretrained(tmp_path / "a", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert reference.config.id2label == dict(enumerate("xyz"))
    assert reference.config.pad_token_id == 5
    inputs = rows()
    ids, mask = inputs["token_ids"], inputs["padding_mask"]
    inputs["token_ids"] = np.where(mask, np.where(ids == 5, 0, ids), 5).astype("int32")
    wanted = theirs(reference.eval(), inputs).logits
    worst = logits_difference(model(inputs["token_ids"]), wanted, None)
    assert worst < 1e-5 * wanted.abs().max().item()
    first = dataclasses.replace(config, pooling="first")
    with pytest.raises(ValueError, match="`pooling` of the model must be a FirstTokenPooling"):
        save_pretrained(tmp_path / "c", model, first)


@pytest.mark.slow
def test_a_new_head_has_the_transformation_of_masked_words(tmp_path):
    """As in transformers, where both have one name."""
    modern("ForMaskedLM").save_pretrained(tmp_path)
    model, _, report = load_pretrained(tmp_path, ("classes",), num_classes=3)
    assert {name.split("/")[0] for name in report.new} == {"classes"}
    kernel = read_pretrained(tmp_path).tensors["masked_words/kernel"]
    np.testing.assert_array_equal(model.get_layer("pooler").kernel, kernel)


def test_masked_words_with_a_matrix_of_their_own(tmp_path):
    reference = modern("ForMaskedLM", tie_word_embeddings=False)
    reference.save_pretrained(tmp_path)
    found = read_pretrained(tmp_path)
    assert found.heads == () and sorted(found.unused) == ["decoder.bias", "decoder.weight"]
    with pytest.raises(ValueError, match="must be tied to the embeddings"):
        load_pretrained(tmp_path, ("masked_words",))


def older(settings):
    """The settings as the files of ModernBERT have them that are on the hub."""
    types, rotary = settings.pop("layer_types"), settings.pop("rope_parameters")
    every = next((i for i, kind in enumerate(types) if i and kind == "full_attention"), 9)
    return {
        **settings, "global_attn_every_n_layers": every, "position_embedding_type": "absolute",
        "global_rope_theta": rotary["full_attention"]["rope_theta"],
        "local_rope_theta": rotary["sliding_attention"]["rope_theta"],
    }  # fmt: skip


def test_older_settings(tmp_path):
    reference = modern(**SETTINGS["other"])
    reference.save_pretrained(tmp_path)
    config = read_pretrained(tmp_path).config
    path = tmp_path / "config.json"
    path.write_text(json.dumps(older(json.loads(path.read_text()))))
    assert read_pretrained(tmp_path).config == config
    assert config.block()["window_blocks"] == [False, True, False, True, False]
    assert (config.rotary_base, config.window_rotary_base, config.sliding_window) == (50, 3, 4)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"norm_bias": True}, "`norm_bias` must be False"),
        ({"attention_bias": True}, "`attention_bias` must be False"),
        ({"mlp_bias": True}, "`mlp_bias` must be False"),
        ({"classifier_bias": True}, "`classifier_bias` must be False"),
        ({"decoder_bias": False}, "`decoder_bias` must be True"),
        ({"classifier_activation": "relu"}, "`classifier_activation` must be 'gelu'"),
        ({"classifier_pooling": "max"}, r"`classifier_pooling` must be one of \['cls', 'mean'\]"),
        ({"hidden_activation": "snake"}, "`hidden_activation` must be one of"),
        (
            {"layer_types": ["full_attention", "chunked"]},
            "`layer_types` must be a list of 2 strings",
        ),
        ({"layer_types": None, "global_attn_every_n_layers": 0}, "of at least 1. Received: 0"),
        ({"local_attention": 0}, "`local_attention` must be a number of tokens"),
        ({"rope_scaling": {"factor": 2}}, "`rope_scaling` must be None"),
        ({"rope_parameters": {"rope_theta": 5}}, "`rope_parameters` must be an object with"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "must be 'default'"),
        ({"rope_parameters": {"full_attention": {"rope_theta": "x"}}}, "a number above 1"),
        ({"pad_token_id": 31}, "`pad_token_id` must be a number from 0 to `vocab_size` - 1"),
        ({"intermediate_size": 10**9}, r"must have the shape \(2000000000, 12\)"),
        ({"num_hidden_layers": 10**9}, "`num_hidden_layers` must be a number from 1 to 4096"),
    ],
)
def test_settings_that_compute_something_else(settings, message, written_once, tmp_path):
    own = {**json.loads((written_once / "config.json").read_text()), **settings}
    (tmp_path / "config.json").write_text(json.dumps(own))
    (tmp_path / "model.safetensors").symlink_to(written_once / "model.safetensors")
    with pytest.raises(ValueError, match=message):
        read_pretrained(tmp_path)


@pytest.fixture(scope="module")
def written_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modern")
    modern(num_hidden_layers=2).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_models_that_transformers_has_no_class_for(tmp_path):
    config = ModernBertConfig(
        31, dim=12, num_layers=1, num_heads=3, intermediate_dim=20, pooler_activation=None
    )

    def refused(message, model, config):
        with pytest.raises(ValueError, match=message):
            save_pretrained(tmp_path / "refused", model, config)

    pooled = dataclasses.replace(config, pooler_activation="gelu")
    refused("has a pooler only under the heads", pooled.build(), pooled)
    refused("Received: pooler_activation=None", with_heads(config, ("spans",)), config)
    both = with_heads(pooled, ("masked_words", "next_sentence"))
    refused("transformers has no ModernBert with these heads", both, pooled)
    refused("must have pad_id=4", config.build(), dataclasses.replace(config, pad_id=4))
    with pytest.raises(ValueError, match="`pooling` must be one of"):
        dataclasses.replace(config, pooling="max")
    with pytest.raises(ValueError, match="ModernBERT has no segments"):
        dataclasses.replace(config, num_segments=2)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends(backend, tmp_path):
    references = {name.replace(" ", "_"): modern(**own) for name, own in SETTINGS.items()}
    for name, reference in references.items():
        reference.save_pretrained(tmp_path / name)
        for side in ("right", "left"):
            np.savez(tmp_path / name / f"{side}.npz", **rows(side == "left"))
    script = Path(__file__).with_name("interop_script.py")
    assert run_python(backend, script, tmp_path).stdout.strip() == backend
    for name, reference in references.items():
        found = np.load(tmp_path / name / "found.npz")
        for side in ("right", "left"):
            inputs = rows(side == "left")
            states, _ = states_of(reference, inputs)
            seen = inputs["padding_mask"]
            worst = np.abs(found[side][:, seen] - states[:, seen]).max()
            assert worst < 1e-5 * np.abs(states).max()


WHOLE = ["  ", "   ", "|||IP_ADDRESS|||", "[unused0]"]
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "<|padding|>"]
TEXTS = (
    "a rose is a rose", "It's  12 o'clock \n\n x", "\u00e4 a\u0308 \u4e2d \U0001f642 ", " the sea",
    "", "a   b    c|||IP_ADDRESS|||[unused0]  ",
)  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    trained = BytePairTokenizer.train(
        ["a rose is a rose, it's 12 roses", "the sea, the sea"] * 3, 280, normalize=False,
        pattern="gpt2", allow_fewer=True,
    )  # fmt: skip
    order = ["<|padding|>", *trained.vocabulary[3:], *WHOLE, *SPECIAL[:5]]
    return BytePairTokenizer(
        order, trained.merges, False, "gpt2", SPECIAL, compose=True, whole_tokens=WHOLE
    )


@pytest.mark.quick("us")
@pytest.mark.parametrize("written_by", ["us", "transformers"])
def test_the_tokenizer_in_and_out(written_by, tokenizer, tmp_path):
    config = ModernBertConfig(
        400, dim=12, num_layers=1, num_heads=3, intermediate_dim=20, pad_id=tokenizer.pad_id,
        pooler_activation=None,
    )  # fmt: skip
    save_pretrained(tmp_path / "a", config.build(), config, tokenizer)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path / "a")
    folder = tmp_path / "a"
    if written_by == "transformers":
        folder = tmp_path / "b"
        transformers.AutoModel.from_pretrained(tmp_path / "a").save_pretrained(folder)
        reference.save_pretrained(folder)
        again = transformers.AutoTokenizer.from_pretrained(folder)
        assert again(TEXTS[-1])["input_ids"] == reference(TEXTS[-1])["input_ids"]
    again = read_pretrained(folder).tokenizer
    assert again.special_tokens[:3] == ("[PAD]", "[CLS]", "[SEP]")
    assert set(again.special_tokens) == set(SPECIAL) and set(again.whole_tokens) == set(WHOLE)
    assert len(reference) == tokenizer.vocabulary_size
    assert reference.pad_token_id == again.pad_id and reference.mask_token == "[MASK]"
    for text in TEXTS:
        assert reference(text)["input_ids"] == again.encode(text, add_start=True, add_end=True)
    field = EncoderInput(again, max_length=20, between=config.ends_between)
    ids, _ = field.encode(["a rose"], ["the sea"])
    wanted = reference("a rose", "the sea")["input_ids"]
    assert ids[0, : len(wanted)].tolist() == wanted
    other = dataclasses.replace(config, pad_id=0)
    with pytest.raises(ValueError, match="Expected a tokenizer whose `pad_id` is 0"):
        save_pretrained(tmp_path / "c", other.build(), other, tokenizer)
