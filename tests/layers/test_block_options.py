"""Norms, gates, biases and positions of blocks, against torch and by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch

from keras_attn import layers

B, T, S, D, N, F = 2, 5, 4, 8, 2, 6


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def randomise(layer, seed=1):
    """All weights, biases and norms included, random: none may be at a value that hides it."""
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) * 0.4 + (weight.name in ("gamma", "scale")))
    return layer


def with_gradients(function, inputs, watched=()):
    """The output, and the gradients of a weighted sum of it."""
    x = tf.constant(inputs)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        loss = tf.reduce_sum(y * normal(*y.shape, seed=9))
    return y.numpy(), [g.numpy() for g in tape.gradient(loss, [x, *[w.value for w in watched]])]


def by_torch(function, *tensors):
    tensors = [torch.tensor(np.asarray(t), requires_grad=True) for t in tensors]
    y = function(*tensors)
    (y * torch.tensor(normal(*y.shape, seed=9))).sum().backward()
    return y.detach().numpy(), [t.grad.numpy() for t in tensors]


def compare(actual, expected, atol=1e-5):
    np.testing.assert_allclose(actual[0], expected[0], atol=atol)
    for a, b in zip(actual[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


@pytest.mark.parametrize("epsilon", [1e-6, 0.3])
@pytest.mark.parametrize("shape", [(3, D), (B, T, D)])
def test_rms_normalization(epsilon, shape):
    layer = layers.RMSNormalization(epsilon=epsilon)
    layer.build(shape)
    randomise(layer)
    x = normal(*shape)

    def torch_norm(x, scale):
        norm = torch.nn.RMSNorm(D, epsilon)
        del norm.weight
        norm.weight = scale
        return norm(x)

    expected = by_torch(torch_norm, x, layer.scale.numpy())
    compare(with_gradients(layer, x, [layer.scale]), expected)


def test_rms_normalization_keeps_what_keras_drops():
    ids = np.array([[3, 1, 4], [1, 0, 0]])
    embedded = keras.layers.Embedding(9, D, mask_zero=True)(ids)
    output = layers.RMSNormalization()(embedded)
    np.testing.assert_array_equal(output._keras_mask, ids != 0)
    with pytest.warns(UserWarning, match="does not support masking"):
        keras.layers.RMSNormalization()(embedded)


@pytest.mark.parametrize("scale, center", [(True, True), (False, True), (True, False)])
@pytest.mark.parametrize("epsilon", [1e-6, 0.3])
def test_layer_normalization(epsilon, scale, center):
    layer = layers.LayerNormalization(epsilon=epsilon, scale=scale, center=center)
    layer.build((B, T, D))
    randomise(layer)
    x = normal(B, T, D)
    weights = [w for w in (layer.gamma, layer.beta) if w is not None]

    def torch_norm(x, *given):
        given = dict(zip(["weight"] * scale + ["bias"] * center, given, strict=True))
        return torch.nn.functional.layer_norm(x, (D,), eps=epsilon, **given)

    expected = by_torch(torch_norm, x, *(w.numpy() for w in weights))
    compare(with_gradients(layer, x, weights), expected)


def test_other_axes_are_those_of_keras():
    x = normal(B, T, S, D)
    for axis in (1, [2, 3], [-2, -1]):
        layer = layers.LayerNormalization(axis=axis)
        theirs = keras.layers.LayerNormalization(axis=axis)
        np.testing.assert_array_equal(layer(x), theirs(x))
    layer = layers.LayerNormalization(axis=1)
    layer(x)
    assert layer(x[..., :2]).shape == (B, T, S, 2)  # the weights are those of the axis
    with pytest.raises(ValueError, match="axis 1 of input shape to have value 5"):
        layer(x[:, :1])
    np.testing.assert_allclose(
        layers.LayerNormalization(axis=3)(x), keras.layers.LayerNormalization()(x), atol=1e-5
    )


def test_a_long_vector_does_not_overflow():
    """The mean of squares is taken in float32."""
    x = np.full((1, D), 3e4, "float16")
    output = layers.RMSNormalization(dtype="float16")(x)
    np.testing.assert_allclose(output, np.ones((1, D)), atol=1e-3)


ACTIVATIONS = {  # (Shazeer, 2020): SwiGLU, GEGLU, ReGLU, GLU, Bilinear
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "linear": lambda x: x,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("use_bias", [True, False])
def test_gated_feed_forward(activation, use_bias):
    layer = layers.FeedForward(F, activation=activation, gated=True, use_bias=use_bias)
    layer.build((B, T, D))
    randomise(layer)
    kernel, biases = layer.hidden_dense.kernel.numpy(), [0.0, 0.0, 0.0]
    assert kernel.shape == (D, 2 * F)
    if use_bias:
        bias = layer.hidden_dense.bias.numpy()
        biases = [torch.tensor(b) for b in (bias[:F], bias[F:], layer.output_dense.bias.numpy())]
    else:
        assert len(layer.weights) == 2

    def by_hand(x, gate, value, out):
        gate = ACTIVATIONS[activation](x @ gate + biases[0])
        return (gate * (x @ value + biases[1])) @ out + biases[2]

    out = layer.output_dense.kernel
    expected = by_torch(by_hand, normal(B, T, D), kernel[:, :F], kernel[:, F:], out.numpy())
    actual = with_gradients(layer, normal(B, T, D), [layer.hidden_dense.kernel, out])
    of_x, of_hidden, of_out = actual[1]
    compare((actual[0], [of_x, of_hidden[:, :F], of_hidden[:, F:], of_out]), expected)


def test_two_thirds_of_the_width_cost_the_same():
    plain, gated = layers.FeedForward(12, use_bias=False), None
    gated = layers.FeedForward(8, gated=True, use_bias=False)
    for layer in (plain, gated):
        layer.build((None, None, D))
    assert plain.count_params() == gated.count_params() == 2 * D * 12


def test_configs_from_before_gates():
    config = layers.FeedForward(F, activation="gelu", dropout=0.1).get_config()
    assert (config.pop("gated"), config.pop("use_bias")) == (False, True)
    assert (
        layers.FeedForward.from_config(config).get_config()
        == layers.FeedForward(F, activation="gelu", dropout=0.1, name=config["name"]).get_config()
    )


# Whole blocks, by torch's functions


def rotated(x, positions, base):
    """Pairs (i, i + H/2) as complex numbers; x `(B, heads, T, H)`, positions `(B, T)`."""
    half = x.shape[-1] // 2
    rates = base ** -(torch.arange(half, dtype=torch.float32) / half)
    angles = torch.tensor(positions)[:, None, :, None] * rates
    z = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous())
    z = z * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([z.real, z.imag], -1)


def torch_block(block, x, positions, visible):
    """`visible` `(B, T, T)`."""

    def dense(layer, x):
        kernel = torch.tensor(layer.kernel.numpy())
        return x @ kernel + (0.0 if layer.bias is None else torch.tensor(layer.bias.numpy()))

    def norm(layer, x):
        if block.normalization == "rms_norm":
            return torch.nn.functional.rms_norm(x, (D,), torch.tensor(layer.scale.numpy()), 1e-5)
        gamma, beta = (torch.tensor(w.numpy()) for w in (layer.gamma, layer.beta))
        return torch.nn.functional.layer_norm(x, (D,), gamma, beta, 1e-5)

    def attend(x):
        heads, kv_heads, width = block.num_heads, block.num_kv_heads or block.num_heads, D // N
        parts = dense(block.self_attention.qkv_dense, x).split(
            [heads * width, kv_heads * width, kv_heads * width], -1
        )
        q, k, v = (p.reshape(B, x.shape[1], -1, width).transpose(1, 2) for p in parts)
        k, v = (y.repeat_interleave(heads // kv_heads, 1) for y in (k, v))
        bias = torch.zeros(1)
        if block.positions == "rotary":
            q, k = (rotated(y, positions, block.rotary_base) for y in (q, k))
        elif block.positions == "alibi":
            slopes = torch.tensor([2.0 ** (-8 * (n + 1) / heads) for n in range(heads)])
            distances = np.abs(positions[:, :, None] - positions[:, None]).astype("float32")
            bias = -slopes[:, None, None] * torch.tensor(distances)[:, None]
        bias = torch.where(torch.tensor(visible)[:, None], bias, float("-inf"))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias)
        return dense(block.self_attention.output_dense, y.transpose(1, 2).reshape(x.shape))

    def feed_forward(x):
        network = block.feed_forward
        hidden = dense(network.hidden_dense, x)
        if block.gated:
            hidden = torch.nn.functional.silu(hidden[..., :F]) * hidden[..., F:]
        else:
            hidden = torch.relu(hidden)
        return dense(network.output_dense, hidden)

    for layer, sublayer in [
        (block.self_attention_norm, attend),
        (block.feed_forward_norm, feed_forward),
    ]:
        first = block.normalize_first
        x = x + sublayer(norm(layer, x)) if first else norm(layer, x + sublayer(x))
    return x


LLAMA = {
    "normalization": "rms_norm", "gated": True, "activation": "silu", "use_bias": False,
    "positions": "rotary", "num_kv_heads": 1, "normalize_first": True,
}  # fmt: skip
OPTIONS = [
    LLAMA,
    {"positions": "rotary", "rotary_base": 50.0},
    {"positions": "alibi", "normalization": "rms_norm"},
    {"positions": "alibi", "num_kv_heads": 1, "use_bias": False, "normalize_first": True},
]


@pytest.mark.parametrize("settings", OPTIONS, ids=str)
@pytest.mark.parametrize("cls", [layers.TransformerEncoderBlock, layers.DecoderBlock])
@pytest.mark.parametrize("given", [False, True])
def test_blocks(settings, cls, given):
    block = cls(N, intermediate_dim=F, **settings)
    block.build((B, T, D))
    randomise(block)
    mask = np.arange(T) < [[3], [T]]
    visible = np.broadcast_to(mask[:, None], (B, T, T))
    if cls is layers.DecoderBlock:
        visible = visible & np.tril(np.ones((T, T), bool))
    positions = (
        np.array([[0, 1, 5, 6, 7], [4, 3, 2, 30, 0]]) if given else np.tile(range(T), (B, 1))
    )
    kwargs = {"positions": positions} if given else {}
    actual = with_gradients(lambda x: block(x, padding_mask=mask, **kwargs), normal(B, T, D))
    expected = by_torch(lambda x: torch_block(block, x, positions, visible), normal(B, T, D))
    compare(actual, expected, atol=3e-5)


def test_no_biases_at_all():
    block = layers.DecoderBlock(N, intermediate_dim=F, **LLAMA)
    block.build((B, T, D), (B, S, D))
    names = {w.path.rpartition("/")[2] for w in block.weights}
    assert names == {"kernel", "scale"}
    assert len(block.weights) == 2 + 4 + 2 + 3  # both attentions, the network, norms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("positions", "cls"),
    [
        ("rotary", layers.TransformerEncoder),
        ("alibi", layers.TransformerDecoder),
        pytest.param("rotary", layers.TransformerDecoder, marks=pytest.mark.slow),
        pytest.param("alibi", layers.TransformerEncoder, marks=pytest.mark.slow),
    ],
)
def test_only_distances_count(cls, positions):
    stack = cls(2, N, intermediate_dim=F, positions=positions)
    x = normal(B, T, D)
    stack(x)
    randomise(stack)
    plain = stack(x)
    for given in (np.arange(T), np.arange(T)[None] + 700, np.add(range(T), [[3], [90]])):
        np.testing.assert_allclose(stack(x, positions=given), plain, atol=2e-5)
    assert np.abs(stack(x, positions=9 * np.arange(T)) - plain).max() > 1e-2
    # Without positions the order of what is seen changes nothing for the last token.
    turned = x[:, [2, 0, 1, 3, 4]]
    bare = cls(2, N, intermediate_dim=F)
    bare(x)
    bare.set_weights(stack.get_weights())
    assert np.abs(stack(turned)[:, -1] - plain[:, -1]).max() > 1e-3
    if cls is layers.TransformerEncoder:
        np.testing.assert_allclose(bare(turned)[:, -1], bare(x)[:, -1], atol=1e-5)


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_left_padding(positions):
    """With positions that count real tokens, or any that go on by one."""
    stack = layers.TransformerEncoder(2, N, intermediate_dim=F, positions=positions)
    x = normal(B, T, D)
    stack(x)
    randomise(stack)
    mask = np.arange(T + 3) >= [[3], [5]]
    padded = np.full((B, T + 3, D), 7, "float32")
    for row, n in enumerate(mask.sum(1)):
        padded[row, mask[row]] = x[row, :n]
    counts = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    for given in (None, counts):
        output = stack(padded, padding_mask=mask, positions=given)
        for row, n in enumerate(mask.sum(1)):
            alone = stack(x[row : row + 1, :n])[0]
            np.testing.assert_allclose(output[row][mask[row]], alone, atol=1e-5)


def test_positions_are_for_those_who_have_them():
    x = normal(B, T, D)
    for layer in (
        layers.MultiHeadSelfAttention(N),
        layers.TransformerEncoderBlock(N, intermediate_dim=F),
        layers.TransformerDecoder(1, N, intermediate_dim=F),
    ):
        with pytest.raises(ValueError, match=r'does not use `positions`.*\(5,\).*"rotary"'):
            layer(x, positions=np.arange(T))
    layer = layers.TransformerEncoder(1, N, intermediate_dim=F, positions="rotary")
    with pytest.raises(ValueError, match=r"\(T,\), \(1, T\) or \(B, T\), here \(2, 5\).*\(1, 4\)"):
        layer(x, positions=np.arange(4))
    with pytest.raises(ValueError, match=r"integers.*float32"):
        layer(x, positions=np.arange(T, dtype="float32"))
    with pytest.raises(ValueError, match=r"even width of heads. Received: width 3"):
        layers.TransformerEncoderBlock(N, intermediate_dim=F, key_dim=3, positions="rotary")(x)


def test_the_bias_is_not_repeated(monkeypatch):
    """One row of ALiBi's bias serves all rows of the batch."""
    shapes = []

    def seen(*args, bias=None, **kwargs):
        shapes.append(None if bias is None else tuple(bias.shape))
        return attend(*args, bias=bias, **kwargs)

    module = __import__("keras_attn.layers.heads", fromlist=["heads"])
    attend = module.dot_product_attention
    monkeypatch.setattr(module, "dot_product_attention", seen)
    layer = layers.DecoderBlock(N, intermediate_dim=F, positions="alibi")
    x = normal(B, T, D)
    layer(x, x, padding_mask=np.arange(T) < [[3], [T]])
    layer(x, x, positions=np.add(range(T), [[1], [2]]))
    assert shapes == [(1, N, T, T), None, (B, N, T, T), None]


@pytest.mark.parametrize("cls", [layers.TransformerEncoderBlock, layers.DecoderBlock])
def test_configs_from_before(cls):
    """What was saved without the options is what has none of them."""
    config = cls(N, intermediate_dim=F).get_config()
    new = {"normalization": "layer_norm", "gated": False, "use_bias": True, "positions": None}
    for name, value in {**new, "rotary_base": 10000.0}.items():
        assert config.pop(name) == value
    block = cls.from_config(config)
    block.build((B, T, D))
    assert block.get_config() == cls(N, intermediate_dim=F, name=block.name).get_config()
    assert type(block.feed_forward_norm) is layers.LayerNormalization
    config = layers.MultiHeadSelfAttention(N).get_config()
    assert (config.pop("positions"), config.pop("rotary_base")) == (None, 10000.0)
    assert layers.MultiHeadSelfAttention.from_config(config).positions is None
    config = layers.TransformerEncoder(1, N, intermediate_dim=F).get_config()
    assert config.pop("rematerialize") is False
    assert not layers.TransformerEncoder.from_config(config).rematerialize


def test_sublayers_of_a_block_with_a_seed_drop_other_places():
    block = layers.DecoderBlock(N, intermediate_dim=F, dropout=0.5, attention_dropout=0.5, seed=3)
    block(normal(B, T, D), normal(B, S, D))
    generators = [
        part.seed_generator
        for part in (block.self_attention, block.cross_attention, block.dropout_layer)
    ]
    seeds = [tuple(np.asarray(generator.state)) for generator in generators]
    assert len(set(seeds)) == 3


@pytest.mark.parametrize("normalize_first", [True, False])
def test_norms_with_a_policy_of_their_own(normalize_first):
    """Float32 norms of a bfloat16 block: the summands of a residual connection have two dtypes."""
    policy = keras.dtype_policies.DTypePolicyMap("mixed_bfloat16")
    policy[".*norm"] = keras.dtype_policies.DTypePolicy("float32")
    found = []
    for dtype in (policy, "float32"):
        keras.utils.set_random_seed(0)
        block = layers.TransformerEncoderBlock(
            N, intermediate_dim=F, normalize_first=normalize_first, dtype=dtype, name="block"
        )
        found.append(np.asarray(keras.ops.cast(block(normal(B, T, D)), "float32")))
        dtypes = {block.self_attention_norm.compute_dtype, block.feed_forward_norm.compute_dtype}
        assert dtypes == {"float32"}
    np.testing.assert_allclose(*found, atol=0.05)
