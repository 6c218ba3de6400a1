"""ModernBERT of transformers, in and out."""

import numpy as np
import pytest
import torch

from keras_attn.interop import load_pretrained

transformers = pytest.importorskip("transformers", reason="transformers is of the extra `test`")

from interop_toys import (  # noqa: E402
    SMALL,
    batch,
    difference,
    perturbed,
    states_of,
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


@pytest.mark.parametrize("name", SETTINGS)
def test_all_states(name, tmp_path):
    reference = modern(**SETTINGS[name])
    reference.save_pretrained(tmp_path / "a")
    model, tokenizer, report = load_pretrained(tmp_path / "a")
    assert tokenizer is None and report.new == report.left_over == []
    assert set(model.input) == {"token_ids", "padding_mask"}
    for left in (False, True):
        assert relative(model, reference, rows(left)) < 1e-5
