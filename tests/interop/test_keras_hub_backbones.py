"""BERT of KerasHub, in and out."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_attn.interop import load_pretrained, read_pretrained, to_keras_hub
from keras_attn.models import BertConfig, hidden_states, with_heads

keras_hub = pytest.importorskip("keras_hub", reason="keras-hub comes with keras-nlp")

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]
CONFIG = BertConfig(
    31, dim=12, num_layers=2, num_heads=3, intermediate_dim=20, sequence_length=16,
    num_segments=3, activation="gelu_tanh",
)  # fmt: skip


def randomize(model):
    rng = np.random.default_rng(0)
    for variable in model.weights:
        if "seed" not in variable.path:
            variable.assign(variable + 0.3 * rng.standard_normal(variable.shape).astype("float32"))
    return model


def difference(model, backbone, num_segments=3):
    rng = np.random.default_rng(1)
    mask = np.arange(9) < np.array([[9], [4], [7]])
    inputs = {
        "token_ids": np.where(mask, rng.integers(1, 31, mask.shape), 0).astype("int32"),
        "segment_ids": rng.integers(0, num_segments, mask.shape).astype("int32"),
    }
    own = {name: ids for name, ids in inputs.items() if name in model.input}
    ours = model({**own, "padding_mask": mask})
    theirs = backbone({**inputs, "padding_mask": mask.astype("int32")})
    found = {name: keras.ops.convert_to_numpy(x) for name, x in (ours | theirs).items()}
    return max(
        np.abs(found["sequence"] - found["sequence_output"])[mask].max(),
        np.abs(found["pooled"] - found["pooled_output"]).max(),
    )


@pytest.mark.slow
def test_out():
    model = randomize(CONFIG.build())
    backbone = to_keras_hub(model, CONFIG)
    assert difference(model, backbone) < 1e-5
    assert read_pretrained(backbone).config == CONFIG


@pytest.mark.parametrize("num_segments", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_in(num_segments):
    backbone = randomize(
        keras_hub.models.BertBackbone(31, 2, 3, 12, 20, 0.2, 16, num_segments=num_segments)
    )
    model, tokenizer, report = load_pretrained(backbone)
    assert tokenizer is None and report.new == report.left_over == []
    assert difference(model, backbone, num_segments) < 1e-5
    config = read_pretrained(backbone).config
    assert (config.dropout, config.attention_dropout) == (0.2, 0.2)
    _, _, report = load_pretrained(backbone, ("next_sentence",))
    assert report.new == ["next_sentence/kernel", "next_sentence/bias"]


@pytest.mark.slow
def test_a_preset(tmp_path):
    backbone = randomize(keras_hub.models.BertBackbone(31, 1, 3, 12, 20, 0.1, 16))
    backbone.save_to_preset(tmp_path / "a")
    model, tokenizer, _ = load_pretrained(f"keras_hub:{tmp_path / 'a'}")
    assert tokenizer is None and difference(model, backbone, 2) < 1e-5
    theirs = keras_hub.models.BertTokenizer(TOKENS, lowercase=True)
    theirs.save_to_preset(tmp_path / "a")
    tokenizer = read_pretrained(f"keras_hub:{tmp_path / 'a'}").tokenizer
    assert tokenizer.encode("A bC [MASK]") == [5, 1, 4] and tokenizer.lowercase
    with pytest.raises((ValueError, OSError), match=r"no_such_preset"):
        read_pretrained("keras_hub:no_such_preset")


@pytest.mark.slow
def test_what_keras_hub_cannot_express():
    for name, value in (
        ("activation", "gelu"), ("activation", "relu"), ("layer_norm_epsilon", 1e-5),
        ("pooler_activation", None), ("pooler_activation", "relu"), ("num_segments", None),
        ("attention_dropout", 0.3),
    ):  # fmt: skip
        config = dataclasses.replace(CONFIG, **{name: value})
        with pytest.raises(ValueError, match=f"cannot express this model. Received: {name}="):
            to_keras_hub(None, config)
    with pytest.raises(ValueError, match="a model without the layer `pooler`"):
        to_keras_hub(with_heads(CONFIG, ("spans",)), CONFIG)
    with pytest.raises(ValueError, match="must have num_heads=2"):
        to_keras_hub(CONFIG.build(), dataclasses.replace(CONFIG, num_heads=2))
    with pytest.raises(TypeError, match=r"BertBackbone or GPT2Backbone. Received: a Seq"):
        read_pretrained(keras.Sequential([keras.Input((2,))]))


@pytest.mark.slow
def test_gpt2(tmp_path):
    """In, out and from a preset, with any width of the feed-forward networks."""
    backbone = randomize(keras_hub.models.GPT2Backbone(31, 2, 3, 12, 20, 0.2, 16))
    backbone.save_to_preset(tmp_path / "a")
    model, tokenizer, report = load_pretrained(f"keras_hub:{tmp_path / 'a'}")
    assert tokenizer is None and report.new == report.left_over == []
    config = read_pretrained(backbone).config
    assert (config.dropout, config.attention_dropout) == (0.2, 0.2)
    mask = np.arange(9) < np.array([[9], [4], [7]])
    ids = np.where(mask, np.random.default_rng(1).integers(1, 31, mask.shape), 0).astype("int32")
    wanted = keras.ops.convert_to_numpy(
        backbone({"token_ids": ids, "padding_mask": mask.astype("int32")})
    )
    states = hidden_states(model, {"token_ids": ids, "padding_mask": mask})
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(states[-1])[mask], wanted[mask], atol=1e-5
    )
    again = to_keras_hub(model, config)
    found = keras.ops.convert_to_numpy(
        again({"token_ids": ids, "padding_mask": mask.astype("int32")})
    )
    np.testing.assert_allclose(found[mask], wanted[mask], atol=1e-5)
    for name, value in (("layer_norm_epsilon", 1e-6), ("activation", "gelu"), ("gated", True)):
        other = dataclasses.replace(config, **{name: value})
        with pytest.raises(ValueError, match=f"GPT2Backbone cannot express .* Received: {name}="):
            to_keras_hub(None, other)
