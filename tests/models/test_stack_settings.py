"""The settings of blocks reach the blocks, and only sizes are given by position."""

import dataclasses
import tracemalloc

import pytest

from keras_attn.models import (
    BertClassifierConfig,
    BertConfig,
    BiLstmConfig,
    GptConfig,
    ImageEncoderConfig,
    ModernBertConfig,
    RecurrentClassifierConfig,
    RecurrentEncoderDecoderConfig,
    RecurrentLanguageModelConfig,
    RobertaConfig,
    SoftAttentionCaptionerConfig,
    T5Config,
    TransformerCaptionerConfig,
    TransformerClassifierConfig,
    TransformerEncoderDecoderConfig,
)

SMALL = {"dim": 8, "num_layers": 2, "num_heads": 2, "intermediate_dim": 12, "activation": "silu"}
DROPOUTS = {"dropout": 0.3, "attention_dropout": 0.4}
OF_T5 = {"num_buckets", "max_distance"}
LLAMA = {"gated": True, "normalization": "rms_norm", "use_bias": False}


@pytest.mark.quick("BertConfig")
@pytest.mark.parametrize(
    "config",
    [
        BertConfig(11, **SMALL, **DROPOUTS, layer_norm_epsilon=0.1),
        GptConfig(
            11, **SMALL, **DROPOUTS, **LLAMA, num_kv_heads=1, key_dim=6, positions="rotary",
            rotary_base=50.0, layer_norm_epsilon=0.1,
        ),
        TransformerEncoderDecoderConfig(
            11, **SMALL, **DROPOUTS, **LLAMA, normalize_first=False, rematerialize=True,
            attention_kernel="plain", right_padding=True,
        ),
        T5Config(
            11, **SMALL, **DROPOUTS, gated=True, key_dim=6, layer_norm_epsilon=0.1,
            right_padding=True, num_buckets=6, max_distance=7,
        ),
        TransformerCaptionerConfig(
            11, 6, **SMALL, **DROPOUTS, normalize_first=False, region_positions="none"
        ),
        TransformerClassifierConfig(11, 3, **SMALL, **DROPOUTS, normalize_first=False),
    ],
    ids=lambda config: type(config).__name__,
)  # fmt: skip
def test_settings_reach_the_blocks(config):
    layers = {layer.name: layer for layer in config.build().layers}
    stacks = [layers[name] for name in ("encoder", "decoder") if name in layers]
    assert stacks
    for stack in stacks:
        built = {**stack.get_config(), "num_layers": len(stack.blocks)}
        given = {**config.block(), "num_layers": config.num_layers}
        given |= {name: getattr(config, name) for name in OF_T5 if hasattr(config, name)}
        assert {name: built[name] for name in given} == given
    of_blocks = {field.name for field in dataclasses.fields(config)} & built.keys()
    assert of_blocks - {"num_layers", "positions", *OF_T5} == config.block().keys()


def test_only_sizes_are_given_by_position():
    assert TransformerClassifierConfig(11, 3).num_classes == 3
    assert TransformerEncoderDecoderConfig(11, 9).target_vocabulary_size == 9
    for kind, sizes in (
        (BertConfig, 1), (BertClassifierConfig, 2), (GptConfig, 1), (RobertaConfig, 1),
        (TransformerEncoderDecoderConfig, 2), (TransformerCaptionerConfig, 2), (T5Config, 2),
        (TransformerClassifierConfig, 2), (RecurrentLanguageModelConfig, 1),
        (RecurrentClassifierConfig, 2), (RecurrentEncoderDecoderConfig, 2),
    ):  # fmt: skip
        kind(*[12] * sizes)
        with pytest.raises(TypeError, match="positional argument"):
            kind(*[12] * sizes, 16)


@pytest.mark.parametrize(
    ("kind", "sizes", "settings", "message"),
    [
        (BertConfig, 1, {"activation": "swiglu"}, "of Keras, or one of gelu, .*'swiglu'"),
        (T5Config, 1, {"activation": ""}, "activation of Keras"),
        (BertConfig, 1, {"pooler_activation": "gelu_tanh"}, r"of Keras\. Received: 'gelu_tanh'"),
        (BiLstmConfig, 1, {"pooler_activation": "swiglu"}, "activation of Keras"),
        (ModernBertConfig, 1, {"pooler_activation": "swiglu"}, "activation of Keras"),
        (SoftAttentionCaptionerConfig, 2, {"activation": "swiglu"}, "activation of Keras"),
        (T5Config, 1, {"num_buckets": 5}, "`num_buckets` of T5Config must be even"),
        (T5Config, 1, {"num_buckets": 2}, "`num_buckets` .*at least 4"),
        (T5Config, 1, {"max_distance": 16}, "max_distance=16"),
        (ModernBertConfig, 1, {"rotary_base": 1.0}, "`rotary_base` must be a number greater"),
        (ModernBertConfig, 1, {"dim": 6, "num_heads": 2}, "even width of heads.*width 3"),
        (GptConfig, 1, {"positions": "rotary", "rotary_base": 0.5}, "`rotary_base` must be above"),
        (
            TransformerEncoderDecoderConfig, 1, {"dim": 6, "num_heads": 2, "positions": "rotary"},
            "even width of heads.*width 3",
        ),
        (
            TransformerEncoderDecoderConfig, 1,
            {"attention_kernel": "flash", "attention_dropout": 0.1}, "does not support dropout",
        ),
        (ImageEncoderConfig, 0, {"encoder": "patches", "patch_size": 7}, "divisible by `patch_s"),
        (ImageEncoderConfig, 0, {"encoder": "patches", "patch_heads": 3}, "width 128 and 3 heads"),
    ],
)  # fmt: skip
def test_settings_are_checked_before_the_model_is_built(kind, sizes, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(*[12] * sizes, **settings)


def test_a_billion_layers_take_no_memory():
    """A damaged file may ask for them; its weights are compared before anything is made."""
    tracemalloc.start()
    config = GptConfig(31, dim=12, num_heads=3, num_layers=10**9)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert config.num_layers == 10**9 and most < 1_000_000
