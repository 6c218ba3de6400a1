"""Soft caps, norms of queries and keys, sinks, windows of some blocks, functions of scores."""

import warnings

import keras
import numpy as np
import pytest
import torch
from keras import ops

from keras_attn import layers, models
from keras_attn.ops import dot_product_attention

D, N = 8, 2


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.slow
def test_against_flex_attention():
    """PyTorch's attention with functions, of a soft cap, distances and documents."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = normal(2, 5, 4, 8), normal(2, 7, 4, 8, seed=1), normal(2, 7, 4, 8, seed=2)

    def score_mod(scores, head, query, key):
        distance = ops.cast(ops.abs(query - key), scores.dtype)
        return 3.0 * ops.tanh(scores / 3.0) - distance * ops.cast(head + 1, scores.dtype) * 0.1

    def torch_score_mod(score, b, h, q_idx, kv_idx):
        return 3.0 * torch.tanh(score / 3.0) - (q_idx - kv_idx).abs() * (h + 1) * 0.1

    def mask_mod(head, query, key):
        return ((query + key) % 3 != 0) | (key == query)

    tensors = [torch.tensor(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is not compiled
        block_mask = create_block_mask(
            lambda b, h, t, s: ((t + s) % 3 != 0) | (s == t), None, None, 5, 7, device="cpu"
        )
        wanted = flex_attention(*tensors, score_mod=torch_score_mod, block_mask=block_mask)
    for kernel in ("plain", "chunked"):
        found = dot_product_attention(
            q, k, v, score_mod=score_mod, mask_mod=mask_mod, kernel=kernel,
            query_positions=np.arange(5)[None],
        )  # fmt: skip
        np.testing.assert_allclose(
            ops.convert_to_numpy(found), wanted.numpy().transpose(0, 2, 1, 3), atol=1e-6
        )


def test_sinks_by_hand():
    """Two equal scores of 0 and a sink of log 2: each weighs 1/4, and half goes to the sink."""
    layer = layers.MultiHeadSelfAttention(1, key_dim=4, attention_sinks=True, use_bias=False)
    x = np.zeros((1, 2, 4), "float32")
    layer(x)
    layer.sinks.assign([np.log(2.0)])
    _, weights = layer(x, return_attention_scores=True)
    np.testing.assert_allclose(weights, np.full((1, 1, 2, 2), 0.25), rtol=1e-6)


def test_the_first_tokens_beside_a_window():
    layer = layers.MultiHeadSelfAttention(N, sliding_window=2, sink_tokens=1)
    x = normal(1, 5, D)
    _, weights = layer(x, use_causal_mask=True, return_attention_scores=True)
    wanted = np.array([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0],
                       [1, 0, 0, 1, 1]])  # fmt: skip
    np.testing.assert_array_equal(np.asarray(weights)[0, 0] > 0, wanted)
    # Padding on the left moves the first token.
    mask = np.array([[0, 1, 1, 1, 1]])
    _, weights = layer(x, mask=mask, use_causal_mask=True, return_attention_scores=True)
    np.testing.assert_array_equal(np.asarray(weights)[0, 0, 1:, 1:] > 0, wanted[:4, :4])
    for own in (np.ones((1, 5, 5)), np.ones((1, N, 5, 5)), np.ones((1, 1, 1, 5))):
        own[..., 3] = 0
        _, fewer = layer(
            x,
            mask=mask,
            attention_mask=own == 1,
            use_causal_mask=True,
            return_attention_scores=True,
        )
        seen = wanted[:4, :4] * [1, 1, 0, 1]
        np.testing.assert_array_equal(np.asarray(fewer)[0, 1, 1:, 1:] > 0, seen)
    for shape in ((1, 5, 1), (1, 1, 1, 1), (1, 1, 5, 1), (2, 5, 5), (1, 5, 6), (1, N + 1, 5, 5)):
        with pytest.raises(ValueError, match="`attention_mask` must have shape"):
            layer(x, mask=mask, attention_mask=np.ones(shape, "bool"))


@pytest.mark.slow
def test_which_blocks_have_the_window():
    settings = {
        "num_heads": N, "intermediate_dim": 6, "positions": "rotary", "rotary_base": 100.0,
        "rotary_scaling": {"type": "linear", "factor": 2.0}, "sliding_window": 2,
        "window_rotary_base": 10.0, "normalize_first": True,
    }  # fmt: skip
    for blocks, wanted in ((None, [1, 1, 1, 1]), (2, [1, 0, 1, 0]), (3, [1, 0, 0, 1]),
                           ([False, True, True, False], [0, 1, 1, 0])):  # fmt: skip
        stack = layers.TransformerEncoder(4, window_blocks=blocks, first_norm=False, **settings)
        stack.build((None, None, D))
        for block, windowed in zip(stack.blocks, wanted, strict=True):
            attention = block.self_attention
            assert attention.sliding_window == (2 if windowed else None)
            assert attention.rotary_base == (10.0 if windowed else 100.0)
            assert (attention.rotary_scaling is None) == bool(windowed)
            assert (block.self_attention_norm is None) == (block is stack.blocks[0])


def test_configs_from_before():
    """Files without the newer settings load, and mean what they did."""
    newer = {
        "qk_norm", "qk_norm_epsilon", "softcap", "attention_sinks", "sink_tokens", "score_mod",
        "mask_mod", "sandwich_norm", "norm_bias", "attention_norm", "window_blocks",
        "window_rotary_base", "first_norm",
    }  # fmt: skip
    for layer in (
        layers.MultiHeadSelfAttention(N),
        layers.MultiHeadAttention(N, key_dim=4),
        layers.DecoderBlock(N, intermediate_dim=6),
        layers.TransformerDecoder(2, N, intermediate_dim=6),
    ):
        config = layer.get_config()
        old = {name: value for name, value in config.items() if name not in newer}
        assert len(old) < len(config)
        assert type(layer).from_config(old).get_config() == config


@keras.saving.register_keras_serializable(package="tests")
def registered(scores, head, query, key):
    return scores * 2


@pytest.mark.slow
def test_functions_are_saved_by_their_names(tmp_path):
    x = keras.Input((None, D))
    stack = layers.TransformerEncoder(2, N, intermediate_dim=6, score_mod=registered)
    model = keras.Model(x, stack(x))
    model.save(tmp_path / "a.keras")
    loaded = keras.saving.load_model(tmp_path / "a.keras", safe_mode=True)
    assert loaded.layers[1].blocks[1].self_attention.score_mod is registered
    np.testing.assert_array_equal(loaded(normal(2, 3, D)), model(normal(2, 3, D)))
    with pytest.raises(ValueError, match="register_keras_serializable"):
        layers.MultiHeadSelfAttention(N, score_mod=lambda scores, *_: scores).get_config()


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: layers.MultiHeadSelfAttention(N, softcap=0), "softcap.*Received: 0"),
        (lambda: layers.MultiHeadSelfAttention(N, qk_norm="batch"), "'rms_norm'.*'batch'"),
        (lambda: layers.MultiHeadSelfAttention(N, sink_tokens=2), "without `sliding_window`"),
        (lambda: layers.MultiHeadSelfAttention(N, score_mod=3), "scores, head, query, key"),
        (
            lambda: layers.MultiHeadSelfAttention(N, softcap=1.0, attention_kernel="flash"),
            "does not support `softcap`",
        ),
        (
            lambda: layers.MultiHeadAttention(
                N, key_dim=4, attention_sinks=True, attention_kernel="flash"
            ),
            "does not support `attention_sinks`",
        ),
        (
            lambda: layers.TransformerEncoderBlock(
                N, intermediate_dim=6, score_mod=registered, attention_kernel="flash"
            ),
            "does not support `score_mod`",
        ),
        (
            lambda: layers.TransformerEncoderBlock(N, intermediate_dim=6, sandwich_norm=True),
            "normalize_first=False",
        ),
        (
            lambda: layers.TransformerEncoder(2, N, intermediate_dim=6, first_norm=False),
            "normalize_first=False",
        ),
        (
            lambda: layers.TransformerEncoder(2, N, intermediate_dim=6, window_blocks=2),
            "without `sliding_window`",
        ),
        (
            lambda: layers.TransformerEncoder(
                2, N, intermediate_dim=6, sliding_window=2, window_blocks=[True]
            ),
            r"list of 2 booleans.*\[True\]",
        ),
        (
            lambda: layers.TransformerEncoder(
                2, N, intermediate_dim=6, sliding_window=2, window_blocks=0
            ),
            "Received: 0",
        ),
        (
            lambda: layers.TransformerEncoder(
                2, N, intermediate_dim=6, sliding_window=2, window_rotary_base=1.0
            ),
            "window_rotary_base",
        ),
    ],
)
def test_settings_that_are_wrong(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_logits_with_a_soft_cap():
    """Tied logits stay below the cap: in the call, in steps, and in the faster copy of a search."""
    embedding = layers.TokenEmbedding(5, D, output_bias=True, logit_softcap=2.0)
    plain = layers.TokenEmbedding(5, D, output_bias=True)
    x = normal(3, D) * 9
    for layer in (embedding, plain):
        layer.build()
        layer.bias.assign(normal(5, seed=1))
        layer.embedding.embeddings.assign(normal(5, D, seed=2))
    wanted = 2 * np.tanh(np.asarray(plain(x, reverse=True)) / 2)
    np.testing.assert_allclose(embedding(x, reverse=True), wanted, rtol=1e-5)
    assert np.abs(wanted).max() > 1.9
    stack = layers.TransformerDecoder(1, N, intermediate_dim=6)
    decoder = models.TokenDecoder(embedding, None, stack)
    np.testing.assert_allclose(decoder.laid_out().logits(x), wanted, rtol=1e-5)
