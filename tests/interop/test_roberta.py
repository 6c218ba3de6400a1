"""RoBERTa of transformers, in and out."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import run_python

from keras_attn.interop import load_pretrained, read_pretrained, save_pretrained, to_keras_hub
from keras_attn.interop.bert_settings import read_bert_config
from keras_attn.models import RobertaClassifierConfig, RobertaConfig, with_heads
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

from interop_toys import (  # noqa: E402
    SMALL,
    TOKENS,
    batch,
    difference,
    logits_difference,
    perturbed,
    randomize,
    states_of,
    theirs,
)

PAD = 1
HEADS = {
    "Model": (),
    "ForMaskedLM": ("masked_words",),
    "ForSequenceClassification": ("classes",),
    "ForTokenClassification": ("tags",),
    "ForQuestionAnswering": ("spans",),
}


def roberta(kind="Model", **settings):
    usual = {"pad_token_id": PAD, "type_vocab_size": 1, "max_position_embeddings": 18}
    config = transformers.RobertaConfig(**{**SMALL, **usual, **settings})
    return perturbed(getattr(transformers, f"Roberta{kind}")(config))


def rows(left=False, pad=PAD):
    """Ids with padding on one side, and no other id of padding."""
    inputs = batch(num_segments=None, left=left)
    ids, mask = inputs["token_ids"], inputs["padding_mask"]
    ids = np.where(ids == pad, pad + 1, ids)
    return {"token_ids": np.where(mask, ids, pad).astype("int32"), "padding_mask": mask}


def wanted_logits(found, kind):
    if kind == "ForQuestionAnswering":
        return torch.stack([found.start_logits, found.end_logits], -1)
    return found.logits


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param(
            {"pad_token_id": 3, "type_vocab_size": 2, "layer_norm_eps": 1e-3, "hidden_act": "relu"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_all_states(settings, tmp_path):
    """Positions are counted from the mask, so padding on the left shifts none of them."""
    reference = roberta(**settings)
    pad = settings.get("pad_token_id", PAD)
    reference.save_pretrained(tmp_path / "a")
    model, tokenizer, report = load_pretrained(tmp_path / "a")
    assert tokenizer is None and report.new == report.left_over == []
    assert set(model.input) == {"token_ids", "padding_mask"}
    for left in (False, True):
        assert difference(model, reference, rows(left, pad)) < 1e-5
    config = read_pretrained(tmp_path / "a").config
    assert config.first_position == pad + 1 and config.sequence_length == 17 - pad
    with pytest.raises(ValueError, match=f"{17 - pad}"):
        model({"token_ids": np.ones((1, 18), int), "padding_mask": np.ones((1, 18), bool)})
    with pytest.raises(ValueError, match="positions are made of the mask"):
        to_keras_hub(model, config)


@pytest.mark.quick("ForMaskedLM")
@pytest.mark.parametrize("kind", HEADS)
def test_heads_in_and_out(kind, tmp_path):
    """The head for masked words has the exact GELU, whatever the activation of the blocks."""
    reference = roberta(kind, hidden_act="relu")
    reference.save_pretrained(tmp_path / "a")
    heads = HEADS[kind]
    model, _, report = load_pretrained(tmp_path / "a", heads)
    assert report.new == report.left_over == []
    assert read_pretrained(tmp_path / "a").heads == heads
    inputs = rows(left=True)
    found = theirs(reference, inputs)
    if heads:
        wanted, seen = wanted_logits(found, kind), inputs["padding_mask"]
        assert logits_difference(model(inputs)[heads[0]], wanted, seen) < 1e-5
    config = read_pretrained(tmp_path / "a").config
    save_pretrained(tmp_path / "b", model, config)
    again, info = type(reference).from_pretrained(tmp_path / "b", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for one, other in zip(found.to_tuple(), theirs(again.eval(), inputs).to_tuple(), strict=True):
        np.testing.assert_array_equal(one, other)
    back = read_pretrained(tmp_path / "b")
    assert (back.config, back.heads, back.unused) == (config, heads, [])


@pytest.mark.slow
def test_an_encoder_of_a_classifier_gets_a_new_head(tmp_path):
    roberta("ForMaskedLM").save_pretrained(tmp_path)
    _, _, report = load_pretrained(tmp_path, ("classes",), num_classes=3)
    assert {name.split("/")[0] for name in report.new} == {"classes", "pooler"}
    assert {name.split("/")[0] for name in report.left_over} >= {"masked_words"}


@pytest.mark.slow
def test_a_classifier_of_texts_out(tmp_path):
    """It makes its mask of the ids: `<s>` is 0 and padding is 1."""
    config = RobertaClassifierConfig(
        31, 3, dim=12, num_layers=2, num_heads=3, intermediate_dim=20, sequence_length=16
    )
    model = randomize(config.build())
    save_pretrained(tmp_path / "a", model, config, labels=["x", "y", "z"])
    kind = transformers.RobertaForSequenceClassification
    reference, info = kind.from_pretrained(tmp_path / "a", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert reference.config.id2label == dict(enumerate("xyz"))
    inputs = rows()
    inputs["token_ids"][:, 0] = 0
    logits = theirs(reference.eval(), inputs).logits
    assert logits_difference(model(inputs["token_ids"]), logits, None) < 1e-5


@pytest.fixture(scope="module")
def tokenizer():
    trained = BytePairTokenizer.train(
        ["a rose is a rose, it's 12 roses", "the sea, the sea"] * 3, 280, normalize=False,
        pattern="gpt2", allow_fewer=True,
    )  # fmt: skip
    ordinary = trained.vocabulary[3:]
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    order = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    return BytePairTokenizer(
        [*special, *ordinary, "<mask>"], trained.merges, False, "gpt2", special_tokens=order
    )


CONFIG = RobertaConfig(
    400, dim=12, num_layers=1, num_heads=3, intermediate_dim=20, sequence_length=16
)
TEXTS = ("a rose is a rose", "It's  12 o'clock \n\n x", "ä 中 🙂 ", " the sea", "")


@pytest.mark.quick("vocab.json")
@pytest.mark.parametrize("files", ["both", "tokenizer.json", "vocab.json"])
def test_the_tokenizer_in_and_out(files, tokenizer, tmp_path):
    save_pretrained(tmp_path / "a", CONFIG.build(), CONFIG, tokenizer)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path / "a")
    if files == "tokenizer.json":  # as transformers writes it
        reference.save_pretrained(tmp_path / "b")
        for name in ("config.json", "model.safetensors"):
            shutil.copy(tmp_path / "a" / name, tmp_path / "b")
    else:
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    if files == "vocab.json":  # as older folders are, without any settings
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (tmp_path / "b" / name).unlink()
    again = read_pretrained(tmp_path / "b").tokenizer
    assert again.special_tokens[:3] == ("<pad>", "<s>", "</s>")
    assert set(again.special_tokens) == set(tokenizer.special_tokens)
    assert (again.pad_id, again.start_id, again.end_id) == (1, 0, 2)
    assert len(reference) == tokenizer.vocabulary_size and reference.model_max_length == 16
    for text in TEXTS:
        ids = again.encode(text, add_start=True, add_end=True)
        assert reference(text)["input_ids"] == ids


def test_pairs_have_two_ends_between_them(tokenizer, tmp_path):
    from keras_attn.fields import EncoderInput

    save_pretrained(tmp_path / "a", CONFIG.build(), CONFIG, tokenizer)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path / "a")
    field = EncoderInput(tokenizer, max_length=12, between=CONFIG.ends_between)
    firsts, seconds = ["a rose", "the sea, the sea is a rose"], ["the sea", "x"]
    ids, segments = field.encode(firsts, seconds)
    wanted = reference(firsts[0], seconds[0])["input_ids"]
    assert ids[0, : len(wanted)].tolist() == wanted and wanted.count(2) == 3
    assert ids[1].tolist()[-4:] == [2, 2, *tokenizer.encode("x"), 2] and len(ids[1]) == 12
    assert segments[0, wanted.index(2) : wanted.index(2) + 3].tolist() == [0, 0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends(backend, tmp_path):
    references = {"usual": roberta(), "other": roberta(pad_token_id=4, type_vocab_size=3)}
    pads = {"usual": PAD, "other": 4}
    for name, reference in references.items():
        reference.save_pretrained(tmp_path / name)
        for side in ("right", "left"):
            np.savez(tmp_path / name / f"{side}.npz", **rows(side == "left", pads[name]))
    script = Path(__file__).with_name("interop_script.py")
    assert run_python(backend, script, tmp_path).stdout.strip() == backend
    for name, reference in references.items():
        found = np.load(tmp_path / name / "found.npz")
        for side in ("right", "left"):
            inputs = rows(side == "left", pads[name])
            states, pooled = states_of(reference, inputs)
            seen = inputs["padding_mask"]
            np.testing.assert_allclose(found[side][:, seen], states[:, seen], atol=1e-5)
            np.testing.assert_allclose(found[f"{side}_pooled"], pooled, atol=1e-5)


def refused(message, model, config, folder, **more):
    with pytest.raises((ValueError, TypeError), match=message):
        save_pretrained(folder / "refused", model, config, **more)


@pytest.mark.slow
def test_what_is_refused(tokenizer, tmp_path):
    for settings in ({"pad_token_id": None}, {"pad_token_id": 511}, {"pad_token_id": -1}):
        with pytest.raises(ValueError, match="`pad_token_id` must be a number from 0 to"):
            read_bert_config({"model_type": "roberta", **settings}, "here")
    model = CONFIG.build()
    refused("must be a BytePairTokenizer", model, CONFIG, tmp_path,
            tokenizer=WordPieceTokenizer(TOKENS))  # fmt: skip
    refused("must have first_position=3", model, dataclasses.replace(CONFIG, first_position=3),
            tmp_path)  # fmt: skip
    config = dataclasses.replace(CONFIG, num_segments=None)
    refused("has segment embeddings", config.build(), config, tmp_path)
    both = with_heads(CONFIG, ("next_sentence",))
    refused(r"no Roberta with these heads.*without 'next_sentence'", both, CONFIG, tmp_path)
    config = dataclasses.replace(CONFIG, pooler_activation="relu")
    refused("pooler of a Roberta has the activation 'tanh'", config.build(), config, tmp_path)


@pytest.mark.parametrize("file", ["tokenizer_config.json", "tokenizer.json"])
def test_a_tokenizer_that_reads_texts_otherwise(file, tokenizer, tmp_path):
    """With a space before each text, ids would differ."""
    save_pretrained(tmp_path / "a", CONFIG.build(), CONFIG, tokenizer)
    path = tmp_path / "a" / file
    content = json.loads(path.read_text())
    (content if file.endswith("config.json") else content["pre_tokenizer"])["add_prefix_space"] = (
        True
    )
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"`add_prefix_space`.* must be False"):
        read_pretrained(tmp_path / "a")
