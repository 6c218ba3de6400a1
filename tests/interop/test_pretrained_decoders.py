"""GPT-2 and Llama of transformers, in and out."""

import dataclasses
import json
from pathlib import Path

import keras
import numpy as np
import pytest
import torch
from processes import run_python
from safetensors.numpy import load_file, save_file

from keras_attn.generation import greedy_search
from keras_attn.interop import load_pretrained, read_pretrained, save_pretrained
from keras_attn.interop.gpt_settings import gpt_kind, read_gpt_config
from keras_attn.models import GptConfig, hidden_states, language_decoder
from keras_attn.models.tensors import model_tensors
from keras_attn.tasks import read_backbone

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

from interop_toys import batch, perturbed  # noqa: E402

SMALL_GPT2 = {
    "vocab_size": 31, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 16,
    "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
SMALL_LLAMA = {
    "vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 20, "max_position_embeddings": 32, "eos_token_id": None,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
}  # fmt: skip


def gpt2(**settings):
    config = transformers.GPT2Config(**{**SMALL_GPT2, **settings})
    return perturbed(transformers.GPT2LMHeadModel(config))


def llama(**settings):
    config = transformers.LlamaConfig(**{**SMALL_LLAMA, **settings})
    return perturbed(transformers.LlamaForCausalLM(config))


SMALL_RECENT = {
    **SMALL_LLAMA, "head_dim": 4, "num_hidden_layers": 3, "num_key_value_heads": 1,
    "num_attention_heads": 2, "sliding_window": 3, "bos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
SOFT = {"query_pre_attn_scalar": 3, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}


def recent(kind, **settings):
    """Qwen 3 and Gemma, with windows shorter than the rows."""
    config = getattr(transformers, f"{kind}Config")(**{**SMALL_RECENT, **settings})
    model = getattr(transformers, f"{kind.removesuffix('Text')}ForCausalLM")
    return perturbed(model(config))


MODELS = {
    "qwen3": lambda: recent("Qwen3", use_sliding_window=False, rms_norm_eps=1e-3),
    "another qwen3": lambda: recent(
        "Qwen3", use_sliding_window=True, max_window_layers=1, head_dim=6, tie_word_embeddings=True,
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
    ),
    "another gemma2": lambda: recent("Gemma2", **SOFT),
    "gemma3_text": lambda: recent("Gemma3Text", query_pre_attn_scalar=5),
    "another gemma3_text": lambda: recent(
        "Gemma3Text", layer_types=["full_attention", "sliding_attention", "full_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
        },
    ),
    "gpt2": lambda: gpt2(),
    "another gpt2": lambda: gpt2(
        n_inner=7, activation_function="relu", layer_norm_epsilon=1e-3, tie_word_embeddings=False
    ),
    "llama": lambda: llama(num_key_value_heads=1, rms_norm_eps=1e-3),
    "another llama": lambda: llama(
        head_dim=4, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
        rope_parameters=LLAMA3, hidden_act="gelu",
    ),
}  # fmt: skip


def padded(left, seed=0):
    given = batch(num_segments=None, left=left, seed=seed)
    return given["token_ids"], given["padding_mask"]


def theirs(reference, ids, mask, steps=0):
    """States, logits and greedy tokens of transformers, which wants positions by hand."""
    ids, seen = (torch.tensor(np.asarray(array, "int64")) for array in (ids, mask))
    positions = torch.clamp(torch.cumsum(seen, 1) - 1, min=0)
    with torch.no_grad():
        found = reference(
            input_ids=ids, attention_mask=seen, position_ids=positions, output_hidden_states=True
        )
        if not steps:
            return np.stack([s.numpy() for s in found.hidden_states]), found.logits.numpy()
        tokens = reference.generate(
            ids, attention_mask=seen, max_new_tokens=steps, do_sample=False, pad_token_id=0
        )
    return tokens[:, ids.shape[1] :].numpy()


def ours(model, ids, mask):
    states = hidden_states(model, {"token_ids": ids, "padding_mask": mask})
    logits = language_decoder(model).logits(states[-1])
    states = np.stack([keras.ops.convert_to_numpy(state) for state in states])
    return states, keras.ops.convert_to_numpy(logits)


def close(found, wanted):
    """To 1e-5 of the largest value."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * max(1, np.abs(wanted).max()))


@pytest.mark.quick("another llama")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if "another" in n else pytest.mark.slow) for n in MODELS]
)
def test_a_decoder_in_and_out(name, tmp_path):
    reference = MODELS[name]()
    reference.save_pretrained(tmp_path / "a")
    model, tokenizer, report = load_pretrained(tmp_path / "a")
    assert tokenizer is None and report.new == report.left_over == []
    assert set(report.loaded) == set(model_tensors(model))
    for left in (False, True):
        ids, mask = padded(left)
        for found, wanted in zip(ours(model, ids, mask), theirs(reference, ids, mask), strict=True):
            assert found.shape == wanted.shape
            close(found[..., mask, :], wanted[..., mask, :])
    found = greedy_search(language_decoder(model), ids, mask, max_length=6, end_id=None)
    wanted = theirs(reference, ids, mask, steps=6)
    assert keras.ops.convert_to_numpy(found.tokens).tolist() == wanted.tolist()

    config = read_pretrained(tmp_path / "a").config
    assert gpt_kind(config) in name and config.tie_embeddings == ("head" not in model_names(model))
    save_pretrained(tmp_path / "b", model, config)
    again, info = type(reference).from_pretrained(tmp_path / "b", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    atol = 1e-5 if "gemma" in name else 0  # their norms are ours without 1
    for found, wanted in zip(theirs(again, ids, mask), theirs(reference, ids, mask), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)
    assert read_pretrained(tmp_path / "b").config == config


def model_names(model):
    return [layer.name for layer in model.layers]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_decoders_on_other_backends(backend, tmp_path):
    references = {name: make() for name, make in MODELS.items()}
    for name, reference in references.items():
        reference.save_pretrained(tmp_path / name)
        for side in ("right", "left"):
            ids, mask = padded(side == "left")
            np.savez(tmp_path / name / f"{side}.npz", token_ids=ids, padding_mask=mask)
    script = Path(__file__).with_name("interop_script.py")
    assert run_python(backend, script, tmp_path).stdout.strip() == backend
    for name, reference in references.items():
        found = np.load(tmp_path / name / "found.npz")
        for side in ("right", "left"):
            ids, mask = padded(side == "left")
            states, logits = theirs(reference, ids, mask)
            close(found[side][:, mask], states[:, mask])
            close(found[f"{side}_logits"][mask], logits[mask])
        wanted = theirs(reference, ids, mask, steps=6)
        assert found["left_tokens"].tolist() == wanted.tolist()


@pytest.mark.slow
def test_several_files_and_other_dtypes(tmp_path):
    reference = gpt2().to(torch.bfloat16)
    reference.save_pretrained(tmp_path, max_shard_size="4KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    model, _, report = load_pretrained(tmp_path)
    assert report.new == report.left_over == []
    reference = reference.to(torch.float32)
    ids, mask = padded(False)
    for found, wanted in zip(ours(model, ids, mask), theirs(reference, ids, mask), strict=True):
        np.testing.assert_allclose(found[..., mask, :], wanted[..., mask, :], atol=1e-5)


@pytest.mark.slow
def test_a_matrix_of_the_logits_beside_a_tied_table(tmp_path):
    """It is read, unless it is the table itself; the config says that they are one."""
    gpt2().save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    table = tensors["transformer.wte.weight"]
    save_file({**tensors, "lm_head.weight": table.copy()}, file)
    assert "head" not in model_names(load_pretrained(tmp_path)[0])
    save_file({**tensors, "lm_head.weight": 2 * table}, file)
    head = load_pretrained(tmp_path)[0].get_layer("head")
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(head.kernel), 2 * table.T)


@pytest.mark.slow
def test_a_body_without_logits_and_what_is_left_over(tmp_path):
    """Of a Llama without its matrix of the logits that matrix is new; masks are no weights."""
    llama().model.save_pretrained(tmp_path / "llama")
    _, _, report = load_pretrained(tmp_path / "llama")
    assert report.new == ["head/kernel"] and report.left_over == []
    config = transformers.GPT2Config(**SMALL_GPT2, num_labels=3, pad_token_id=0)
    transformers.GPT2ForSequenceClassification(config).save_pretrained(tmp_path / "gpt2")
    _, _, report = load_pretrained(tmp_path / "gpt2")
    assert report.new == [] and report.left_over == ["score.weight"]
    with pytest.raises(
        ValueError, match=r"are only for encoders. Received: heads.* for a GptConfig"
    ):
        load_pretrained(tmp_path / "gpt2", ("classes",), num_classes=3)
    with pytest.raises(ValueError, match="Expected an encoder"):
        read_backbone(tmp_path / "gpt2")


def test_settings_of_rotary_positions():
    base = {"model_type": "llama", **SMALL_LLAMA}

    def read(**settings):
        config = read_gpt_config({**base, **settings}, "here")[1]
        return config.rotary_base, config.rotary_scaling

    assert read() == (10000.0, None)
    assert read(rope_theta=500, rope_scaling=None) == (500.0, None)
    assert read(rope_parameters={"rope_type": "default", "rope_theta": 7.0}) == (7.0, None)
    linear = {"type": "linear", "factor": 2.0}
    assert read(rope_scaling=linear) == (10000.0, linear)
    assert read(rope_parameters=LLAMA3) == (
        500.0,
        {
            "type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_length": 16,
        },
    )  # fmt: skip


def test_what_is_refused_by_name():
    for settings, message in (
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "`rope_type` must be 'default'"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "Received: 'dynamic'"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "`partial_rotary_factor` must be"),
        ({"attention_bias": True}, "biases in only some of their layers"),
        ({"mlp_bias": True}, "`mlp_bias` must equal `attention_bias`"),
        ({"hidden_act": "xielu"}, "`hidden_act` must be one of"),
        ({"quantization_config": {"bits": 4}}, "`quantization_config` must be None"),
        ({"num_key_value_heads": 5}, "divisible by `num_kv_heads`"),
        ({"hidden_size": "12"}, "here: `dim` must be of type int"),
        ({"rope_scaling": [2]}, "`rope_scaling` must be an object"),
    ):
        with pytest.raises(ValueError, match=message):
            read_gpt_config({"model_type": "llama", **SMALL_LLAMA, **settings}, "here")
    for settings, message in (
        ({"scale_attn_weights": False}, "`scale_attn_weights` must be True. Received: False"),
        ({"scale_attn_by_inverse_layer_idx": True}, "`scale_attn_by_inverse_layer_idx` must be"),
        ({"add_cross_attention": True}, "`add_cross_attention` must be False"),
    ):
        with pytest.raises(ValueError, match=message):
            read_gpt_config({"model_type": "gpt2", **SMALL_GPT2, **settings}, "here")


@pytest.mark.parametrize(
    "kind, settings, message",
    [
        ("qwen3", {"attention_bias": True}, "`attention_bias` must be False"),
        ("qwen3", {"layer_types": ["sliding_attention"] * 3}, "use_sliding_window=False"),
        ("gemma2", {"use_bidirectional_attention": True}, "`use_bidirectional_attention` must be"),
        (
            "gemma2",
            {"layer_types": ["full_attention"]},
            "a list of 3 strings, each 'full_attention'",
        ),
        ("gemma2", {"layer_types": ["chunked_attention"] * 3}, "Received: .'chunked_attention'"),
        ("gemma2", {"sliding_window": None}, "require a `sliding_window`. Received: None"),
        ("gemma2", {"num_hidden_layers": 10**9}, "from 1 to 4096. Received: 1000000000"),
        ("gemma2", {"query_pre_attn_scalar": 0}, "at least 1. Received: 0"),
        ("gemma2", {"attn_logit_softcapping": -1.0}, "softcap.*Received: -1.0"),
        ("gemma3_text", {"attn_logit_softcapping": 50.0}, "`attn_logit_softcapping` must be None"),
        ("gemma2", {"tie_word_embeddings": False}, "shares the weights of the embedding"),
        (
            "gemma3_text",
            {"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}}},
            "window must not be scaled",
        ),
    ],
)
def test_what_is_refused_of_recent_decoders(kind, settings, message):
    given = {"model_type": kind, **SMALL_RECENT, **settings}
    with pytest.raises(ValueError, match=message):
        read_gpt_config(given, "here")


def test_configs_as_they_stand_on_the_hub():
    """Without `layer_types`, and with the older names of rotary positions."""
    old = {"model_type": "gemma3_text", **SMALL_RECENT, "sliding_window_pattern": 2}
    rope = {"rope_theta": 50.0, "rope_local_base_freq": 5.0, "rope_scaling": None}
    config = read_gpt_config({**old, **rope}, "here")[1]
    assert config.window_blocks == [True, False, True]
    assert (config.rotary_base, config.window_rotary_base) == (50.0, 5.0)
    config = read_gpt_config({"model_type": "gemma3_text", **SMALL_RECENT}, "here")[1]
    assert (config.sliding_window, config.window_blocks, config.rotary_base) == (3, None, 1e4)
    config = read_gpt_config({"model_type": "gemma2", **SMALL_RECENT}, "here")[1]
    assert config.window_blocks == [True, False, True] and config.logit_softcap == 30.0
    config = read_gpt_config({"model_type": "qwen3", **SMALL_RECENT}, "here")[1]
    assert config.sliding_window is None and config.qk_norm == "rms_norm"


def test_files_that_contradict_each_other(tmp_path):
    gpt2().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text())
    for change, message in (
        ({"n_layer": 10**9}, r"requires a tensor h\.2"),
        ({"n_inner": 5}, r"transformer\.h\.0\.mlp\.c_fc\.weight must have the shape \(12, 5\)"),
        ({"n_positions": 17}, r"wpe\.weight must have the shape \(17, 12\)"),
    ):
        path.write_text(json.dumps({**settings, **change}))
        with pytest.raises(ValueError, match=message):
            read_pretrained(tmp_path)


LLAMA_LIKE = {"normalization": "rms_norm", "gated": True, "use_bias": False}


@pytest.mark.slow
def test_what_cannot_be_written(tmp_path):
    config = GptConfig(31, dim=12, num_layers=1, num_heads=3, sequence_length=16)
    for settings, message in (
        ({"positions": "rotary"}, "like llama, but with normalization='layer_norm'"),
        ({"gated": True}, "like gpt2, but with gated=True, not False"),
        ({"activation": "selu"}, "transformers has no activation 'selu'"),
        ({"softcap": 2.0}, "like gpt2, but with softcap=2.0, not None"),
        ({**LLAMA_LIKE, "positions": "rotary", "sandwich_norm": True}, "like gemma2, but with"),
    ):
        other = dataclasses.replace(config, **settings)
        with pytest.raises(ValueError, match=message):
            model = other.build() if other.activation == "selu" else None
            save_pretrained(tmp_path / "a", model, other)
    with pytest.raises(ValueError, match="must have intermediate_dim=7"):
        save_pretrained(
            tmp_path / "a", config.build(), dataclasses.replace(config, intermediate_dim=7)
        )
    with pytest.raises(ValueError, match="for a GptConfig, which has no such head"):
        save_pretrained(tmp_path / "a", config.build(), config, labels=["a"])
    assert not (tmp_path / "a").exists()
