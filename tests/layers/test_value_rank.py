"""Values of a low rank: their kernel is a product of two."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness_case import set_biases
from keras import ops

from keras_attn.layers import (
    DecoderBlock,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    TransformerDecoder,
    TransformerEncoder,
)

B, T, S, D, DV = 2, 4, 5, 8, 6
HEADS = [
    {"num_heads": 2},
    {"num_heads": 4, "num_kv_heads": 2, "key_dim": 3, "value_dim": 5, "output_dim": 7},
    {"num_heads": 2, "num_kv_heads": 1, "use_bias": False},
]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def pair(cls, rank, **settings):
    """A layer of low rank and one of full rank that is the same function, with their inputs."""
    inputs = [normal(B, T, D)]
    if cls is MultiHeadAttention:
        inputs += [normal(B, S, DV, seed=1), normal(B, S, 3, seed=2)]
    low, full = cls(value_rank=rank, **settings), cls(**settings)
    for layer in (low, full):
        layer.build(*[x.shape for x in inputs])
    set_biases(low)
    first = "value_dense" if cls is MultiHeadAttention else "qkv_dense"
    down, *down_bias = getattr(low, first).get_weights()
    up, *up_bias = low.value_up_dense.get_weights()
    # The columns before those of the values are kept.
    kernel = np.concatenate([down[:, :-rank], down[:, -rank:] @ up], axis=1)
    biases = [
        np.concatenate([b[:-rank], b[-rank:] @ up + c])
        for b, c in zip(down_bias, up_bias, strict=True)
    ]
    getattr(full, first).set_weights([kernel, *biases])
    for name in ("query_dense", "key_dense", "output_dense"):
        if hasattr(full, name):
            getattr(full, name).set_weights(getattr(low, name).get_weights())
    return low, full, inputs


@pytest.mark.parametrize("cls", [MultiHeadSelfAttention, MultiHeadAttention])
@pytest.mark.parametrize("settings", HEADS)
@pytest.mark.parametrize("rank", [1, 3, 4])
def test_equal_to_a_full_rank_with_the_product(cls, settings, rank):
    """Outputs, weights and gradients of the inputs, causal and masked."""
    low, full, inputs = pair(cls, rank, **settings)
    keys = inputs[-1].shape[1]
    each = np.random.default_rng(0).random((B, T, keys)) > 0.4
    each[0, 1] = False
    inputs = [tf.constant(x) for x in inputs]
    results = []
    for layer in (low, full):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output, weights = layer(
                *inputs, attention_mask=each, use_causal_mask=True, return_attention_scores=True
            )
            loss = tf.reduce_sum(output * normal(*output.shape, seed=3))
        results.append([output, weights, *tape.gradient(loss, inputs)])
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_the_fused_one_is_that_of_two_sequences():
    """`MultiHeadSelfAttention` and `MultiHeadAttention` have one meaning of the rank."""
    x = normal(B, T, D)
    settings = {"num_heads": 4, "key_dim": 3, "value_dim": 5, "num_kv_heads": 2, "value_rank": 3}
    fused, other = MultiHeadSelfAttention(**settings), MultiHeadAttention(**settings)
    fused(x)
    set_biases(fused)
    other(x, x)
    kernel, bias = fused.qkv_dense.get_weights()
    assert kernel.shape == (D, 4 * 3 + 2 * 3 + 3)  # one product, narrower than with 2 * 5
    for start, stop, dense in [
        (0, 12, other.query_dense), (12, 18, other.key_dense), (18, 21, other.value_dense)
    ]:  # fmt: skip
        dense.set_weights([kernel[:, start:stop], bias[start:stop]])
    for name in ("value_up_dense", "output_dense"):
        getattr(other, name).set_weights(getattr(fused, name).get_weights())
    np.testing.assert_allclose(fused(x), other(x, x), atol=1e-6)


def shapes(layer):
    return {"/".join(w.path.split("/")[-2:]): tuple(w.shape) for w in layer.weights}


@pytest.mark.parametrize("rank", [None, 2])
def test_weights_by_name_and_shape(rank):
    """Without a rank they are what they were before there was one."""
    layer = MultiHeadAttention(4, 3, value_dim=5, num_kv_heads=2, use_bias=False, value_rank=rank)
    layer.build((None, T, D), (None, S, DV))
    values = {"value/kernel": (DV, 10)}
    if rank is not None:
        values = {"value/kernel": (DV, 2), "value_up/kernel": (2, 10)}
    assert shapes(layer) == {
        "query/kernel": (D, 12), "key/kernel": (DV, 6), **values, "output/kernel": (20, D)
    }  # fmt: skip
    layer = MultiHeadSelfAttention(4, 3, value_dim=5, num_kv_heads=2, value_rank=rank)
    layer.build((None, T, D))
    values = {"qkv/kernel": (D, 28), "qkv/bias": (28,)}
    if rank is not None:
        values = {"qkv/kernel": (D, 20), "qkv/bias": (20,)}
        values |= {"value_up/kernel": (2, 10), "value_up/bias": (10,)}
    assert shapes(layer) == {**values, "output/kernel": (20, D), "output/bias": (D,)}


@pytest.mark.parametrize("rank, fewer", [(1, 48), (3, 16), (4, 0), (8, -64)])
def test_when_it_saves(rank, fewer):
    """D r + r K Hv in place of D K Hv: less below D K Hv / (D + K Hv), 4 here."""
    low, full = (MultiHeadSelfAttention(2, use_bias=False, value_rank=r) for r in (rank, None))
    for layer in (low, full):
        layer.build((None, None, D))
    assert full.count_params() - low.count_params() == fewer


def test_configs_from_before():
    """A config without `value_rank` is one of a full rank."""
    blocks = DecoderBlock(2, intermediate_dim=12), TransformerDecoder(2, 2, intermediate_dim=12)
    for layer in (MultiHeadAttention(2), MultiHeadSelfAttention(2), *blocks):
        config = layer.get_config()
        assert config.pop("value_rank") is None
        assert type(layer).from_config(config).value_rank is None


def test_every_attention_of_a_stack_has_it():
    encoder = TransformerEncoder(2, 2, intermediate_dim=12, value_rank=3)
    encoder.build((None, None, D))
    decoder = TransformerDecoder(2, 2, intermediate_dim=12, value_rank=3)
    decoder.build((None, None, D), (None, None, DV))
    attentions = [b.self_attention for b in (*encoder.blocks, *decoder.blocks)]
    for layer in attentions:
        assert shapes(layer)["qkv/kernel"] == (D, 8 + 8 + 3)
        assert shapes(layer)["value_up/kernel"] == (3, 8)
    for block in decoder.blocks:
        assert shapes(block.cross_attention)["value/kernel"] == (DV, 3)
        assert shapes(block.cross_attention)["value_up/kernel"] == (3, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy, atol",
    [
        ("float32", 1e-5),
        ("mixed_bfloat16", 0.1),
        pytest.param("mixed_float16", 0.02, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("with_memory", [False, True])
def test_step_by_step(policy, atol, with_memory):
    """The cache gives what the call on the whole does; in half precision, what float32 gives."""
    x, memory = ops.convert_to_tensor(normal(B, T, D)), ops.convert_to_tensor(normal(B, S, DV))
    settings = {"num_kv_heads": 2, "key_dim": 3, "value_dim": 5, "value_rank": 2}
    stack = TransformerDecoder(2, 4, intermediate_dim=12, **settings, dtype=policy)
    exact = TransformerDecoder(2, 4, intermediate_dim=12, **settings)
    memory_mask = np.arange(S) < [[3], [5]]
    extra = {"memory": memory, "memory_mask": memory_mask} if with_memory else {}
    for layer in (stack, exact):
        layer.build(x.shape, *([memory.shape] if with_memory else []))
    set_biases(exact)
    stack.set_weights(exact.get_weights())
    expected = exact(x, **extra).numpy()
    np.testing.assert_allclose(ops.cast(stack(x, **extra), "float32"), expected, atol=atol)
    half = ops.cast(x, stack.compute_dtype)
    if with_memory:
        extra["memory"] = ops.cast(memory, stack.compute_dtype)
    output, state = stack.prefill(half[:, :2], max_length=T + 1, **extra)
    assert state["cache"][0][1].shape == (B, 2, T + 1, 5)
    np.testing.assert_allclose(ops.cast(output, "float32"), expected[:, :2], atol=atol)
    for t in range(2, T):
        output, state = stack.step(half[:, t : t + 1], state)
        assert keras.backend.standardize_dtype(output.dtype) == stack.compute_dtype
        np.testing.assert_allclose(ops.cast(output[:, 0], "float32"), expected[:, t], atol=atol)


def test_a_block_step_by_step():
    x, memory = ops.convert_to_tensor(normal(B, T, D)), ops.convert_to_tensor(normal(B, S, DV))
    block = DecoderBlock(2, intermediate_dim=12, value_rank=3)
    block(x, memory)
    set_biases(block)
    expected = block(x, memory).numpy()
    output, state = block.prefill(x[:, :2], memory=memory, max_length=T)
    np.testing.assert_allclose(output, expected[:, :2], atol=1e-5)
    for t in range(2, T):
        slot = ops.convert_to_tensor(t, "int32")
        visible = ops.convert_to_tensor(np.tile(np.arange(T) <= t, (B, 1)))
        output, state, _ = block.step(x[:, t : t + 1], state, slot, visible)
        np.testing.assert_allclose(output[:, 0], expected[:, t], atol=1e-5)
