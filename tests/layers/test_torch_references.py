"""torch.nn's layers with our weights: outputs and gradients of the inputs."""

import numpy as np
import pytest
import tensorflow as tf
import torch

from keras_attn.layers import (
    DecoderBlock,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    TransformerDecoder,
    TransformerEncoder,
    TransformerEncoderBlock,
)

B, T, S, D, N, F = 2, 4, 5, 8, 2, 12
ATOL = 1e-5


def randomise(layer):
    """All weights, biases and norms included, random: none may be at a value that hides it."""
    rng = np.random.default_rng(0)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) * 0.4 + (weight.name == "gamma"))


def kernel(dense):
    return torch.tensor(dense.kernel.numpy()).T, torch.tensor(dense.bias.numpy())


def copy_linear(target, dense):
    target.weight.data, target.bias.data = kernel(dense)


def copy_norm(target, norm):
    target.weight.data = torch.tensor(norm.gamma.numpy())
    target.bias.data = torch.tensor(norm.beta.numpy())


def copy_attention(target, layer):
    """Fused or separate projections of ours into the fused or separate ones of torch."""
    if isinstance(layer, MultiHeadSelfAttention):
        target.in_proj_weight.data, target.in_proj_bias.data = kernel(layer.qkv_dense)
    else:
        parts = [kernel(d) for d in (layer.query_dense, layer.key_dense, layer.value_dense)]
        target.in_proj_bias.data = torch.cat([bias for _, bias in parts])
        if target.in_proj_weight is not None:
            target.in_proj_weight.data = torch.cat([weight for weight, _ in parts])
        else:
            for name, (weight, _) in zip("qkv", parts, strict=True):
                getattr(target, f"{name}_proj_weight").data = weight
    copy_linear(target.out_proj, layer.output_dense)


def copy_block(target, block):
    copy_attention(target.self_attn, block.self_attention)
    norms = [block.self_attention_norm, block.feed_forward_norm]
    if getattr(block, "cross_attention", None) is not None:
        copy_attention(target.multihead_attn, block.cross_attention)
        norms.insert(1, block.cross_attention_norm)
    for i, norm in enumerate(norms):
        copy_norm(getattr(target, f"norm{i + 1}"), norm)
    copy_linear(target.linear1, block.feed_forward.hidden_dense)
    copy_linear(target.linear2, block.feed_forward.output_dense)


def arrays(*shapes):
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def padding(length):
    mask = np.ones((B, length), bool)
    mask[0, -2:] = False
    return mask


def compare(ours, theirs, inputs, counted=None):
    """Outputs and gradients of the inputs; rows of the output outside of `counted` do not count."""
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    expected = theirs(*tensors)
    (upstream,) = arrays(tuple(expected.shape))
    if counted is not None:
        upstream = upstream * counted[..., None]
    expected.backward(torch.tensor(upstream))
    inputs = [tf.constant(x) for x in inputs]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = ours(*inputs)
        loss = tf.reduce_sum(output * upstream)
    rows = np.ones(output.shape[:2], bool) if counted is None else counted
    np.testing.assert_allclose(output.numpy()[rows], expected.detach().numpy()[rows], atol=ATOL)
    for gradient, tensor in zip(tape.gradient(loss, inputs), tensors, strict=True):
        np.testing.assert_allclose(gradient, tensor.grad, atol=ATOL)


@pytest.mark.parametrize("masks", ["none", "padding", "attention", "both", "causal"])
@pytest.mark.parametrize("same", [True, False])
def test_multi_head_self_attention(masks, same):
    """`same`: by `MultiHeadSelfAttention`; else by `MultiHeadAttention(x, x)`."""
    (x,) = arrays((B, T, D))
    cls = MultiHeadSelfAttention if same else MultiHeadAttention
    layer = cls(N)
    layer.build(*[x.shape] * (1 if same else 2))
    randomise(layer)
    target = torch.nn.MultiheadAttention(D, N, batch_first=True)
    copy_attention(target, layer)
    pad = padding(T)
    each = np.random.default_rng(0).random((B, N, T, T)) > 0.4
    each[..., 0] = True
    ours, theirs = {}, {}
    if masks in ("padding", "both"):
        ours["mask" if same else "value_mask"] = pad
        theirs["key_padding_mask"] = torch.tensor(~pad)
    if masks in ("attention", "both"):
        ours["attention_mask"] = each
        theirs["attn_mask"] = torch.tensor(~each.reshape(B * N, T, T))
    if masks == "causal":
        ours["use_causal_mask"] = True
        theirs["attn_mask"] = torch.tensor(~np.tril(np.ones((T, T), bool)))
    compare(
        lambda x: layer(x, **ours) if same else layer(x, x, **ours),
        lambda x: target(x, x, x, need_weights=False, **theirs)[0],
        [x],
    )
    _, weights = layer(*[x] * (1 if same else 2), return_attention_scores=True, **ours)
    x = torch.tensor(x)
    expected = target(x, x, x, average_attn_weights=False, **theirs)[1]
    np.testing.assert_allclose(weights, expected.detach(), atol=ATOL)


@pytest.mark.parametrize("widths", [(D, D), (3, 7), (D, 6)])
@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_attention(widths, masked):
    """Keys and values of widths of their own: `kdim` and `vdim`."""
    query, key, value = arrays((B, T, D), (B, S, widths[0]), (B, S, widths[1]))
    layer = MultiHeadAttention(N, D // N)
    layer.build(query.shape, value.shape, key.shape)
    randomise(layer)
    target = torch.nn.MultiheadAttention(D, N, kdim=widths[0], vdim=widths[1], batch_first=True)
    copy_attention(target, layer)
    ours, theirs = {}, {}
    if masked:
        each = np.random.default_rng(0).random((T, S)) > 0.4
        each[..., 0] = True
        ours = {"value_mask": padding(S), "attention_mask": np.broadcast_to(each, (B, T, S))}
        theirs = {
            "key_padding_mask": torch.tensor(~padding(S)),
            "attn_mask": torch.tensor(~each),
        }
    compare(
        lambda q, k, v: layer(q, v, k, **ours),
        lambda q, k, v: target(q, k, v, need_weights=False, **theirs)[0],
        [query, key, value],
    )


@pytest.mark.parametrize("normalize_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masks", ["none", "padding", "causal"])
def test_encoder_block(normalize_first, activation, masks):
    (x,) = arrays((B, T, D))
    block = TransformerEncoderBlock(
        N, intermediate_dim=F, normalize_first=normalize_first, activation=activation
    )
    block.build(x.shape)
    randomise(block)
    target = torch.nn.TransformerEncoderLayer(
        D, N, F, 0.0, activation, batch_first=True, norm_first=normalize_first
    )
    copy_block(target, block)
    ours, theirs, counted = {}, {}, None
    if masks == "padding":
        counted = padding(T)
        ours, theirs = {"padding_mask": counted}, {"src_key_padding_mask": torch.tensor(~counted)}
    if masks == "causal":
        ours = {"use_causal_mask": True}
        theirs = {"src_mask": torch.tensor(~np.tril(np.ones((T, T), bool)))}
    compare(lambda x: block(x, **ours), lambda x: target(x, **theirs), [x], counted)


@pytest.mark.parametrize("normalize_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masked", [False, True])
def test_decoder_block(normalize_first, activation, masked):
    x, memory = arrays((B, T, D), (B, S, D))
    block = DecoderBlock(
        N, intermediate_dim=F, normalize_first=normalize_first, activation=activation
    )
    block.build(x.shape, memory.shape)
    randomise(block)
    target = torch.nn.TransformerDecoderLayer(
        D, N, F, 0.0, activation, batch_first=True, norm_first=normalize_first
    )
    copy_block(target, block)
    ours, theirs, counted = {}, {}, None
    causal = torch.tensor(~np.tril(np.ones((T, T), bool)))
    if masked:
        counted = padding(T)
        ours = {"padding_mask": counted, "memory_mask": padding(S)}
        theirs = {
            "tgt_key_padding_mask": torch.tensor(~counted),
            "memory_key_padding_mask": torch.tensor(~padding(S)),
        }
    compare(
        lambda x, m: block(x, m, **ours),
        lambda x, m: target(x, m, tgt_mask=causal, **theirs),
        [x, memory],
        counted,
    )


@pytest.mark.parametrize("normalize_first", [pytest.param(False, marks=pytest.mark.slow), True])
def test_stacks(normalize_first):
    """Three layers each, the memory of the decoder being what the encoder gives."""
    x, y = arrays((B, S, D), (B, T, D))
    settings = {"normalize_first": normalize_first}
    encoder, decoder = (
        TransformerEncoder(3, N, intermediate_dim=F, **settings),
        TransformerDecoder(3, N, intermediate_dim=F, **settings),
    )
    encoder.build(x.shape)
    decoder.build(y.shape, x.shape)
    randomise(encoder)
    randomise(decoder)
    settings = {"batch_first": True, "norm_first": normalize_first}
    norms = [torch.nn.LayerNorm(D) if normalize_first else None for _ in range(2)]
    their_encoder = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(D, N, F, 0.0, **settings),
        3,
        norms[0],
        enable_nested_tensor=False,
    )
    their_decoder = torch.nn.TransformerDecoder(
        torch.nn.TransformerDecoderLayer(D, N, F, 0.0, **settings), 3, norms[1]
    )
    for theirs, ours, norm in zip(
        (their_encoder, their_decoder), (encoder, decoder), norms, strict=True
    ):
        for target, block in zip(theirs.layers, ours.blocks, strict=True):
            copy_block(target, block)
        if norm is not None:
            copy_norm(norm, ours.norm)
    hidden, counted = torch.tensor(~padding(S)), padding(T)

    def ours(x, y):
        memory = encoder(x, padding_mask=padding(S))
        return decoder(y, memory, padding_mask=counted)  # the memory brings its mask along

    def theirs(x, y):
        return their_decoder(
            y,
            their_encoder(x, src_key_padding_mask=hidden),
            tgt_mask=torch.tensor(~np.tril(np.ones((T, T), bool))),
            tgt_key_padding_mask=torch.tensor(~counted),
            memory_key_padding_mask=hidden,
        )

    compare(ours, theirs, [x, y], counted)
