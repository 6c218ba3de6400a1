"""Users' mistakes: what was expected, what was received, what to do; at build or symbolic call."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import layers

WIDE = keras.Input((4, None))  # of any width


def x(length=4, width=8):
    return keras.Input((length, width), batch_size=2)


def block(cls=layers.TransformerEncoderBlock, **settings):
    return cls(**{"num_heads": 2, "intermediate_dim": 12, **settings})


SETTINGS = [
    (layers.MultiHeadSelfAttention, {"num_heads": 0}, "num_heads"),
    (layers.MultiHeadSelfAttention, {"num_heads": 2.0}, "num_heads"),
    (layers.MultiHeadSelfAttention, {"num_heads": True}, "num_heads"),
    (layers.MultiHeadSelfAttention, {"num_heads": 2, "key_dim": -1}, "key_dim"),
    (layers.MultiHeadAttention, {"num_heads": 2, "value_dim": 0}, "value_dim"),
    (layers.MultiHeadAttention, {"num_heads": 2, "output_dim": "8"}, "output_dim"),
    (layers.MultiHeadAttention, {"num_heads": 4, "num_kv_heads": 3}, "num_kv_heads=3"),
    (layers.MultiHeadAttention, {"num_heads": 2, "attention_dropout": 1.0}, "attention_dropout"),
    (layers.MultiHeadAttention, {"num_heads": 2, "attention_dropout": None}, "attention_dropout"),
    (layers.MultiHeadAttention, {"num_heads": 2, "value_rank": 0}, "value_rank"),
    (layers.MultiHeadSelfAttention, {"num_heads": 2, "value_rank": 2.0}, "value_rank"),
    (layers.MultiHeadSelfAttention, {"num_heads": 2, "value_rank": True}, "value_rank"),
    (block, {"value_rank": -1}, "value_rank"),
    (block, {"cls": layers.TransformerDecoder, "num_layers": 1, "value_rank": "2"}, "value_rank"),
    (layers.SelfAttention, {"projection": "both"}, "'separate'.*'both'"),
    (layers.SelfAttention, {"projection": "shared", "units": 0}, "units"),
    (layers.SelfAttention, {"units": 4}, "units=4.*projection='shared'"),
    (layers.SelfAttention, {"use_bias": True}, "use_bias=True.*projection='shared'"),
    (layers.SelfAttention, {"attention_dropout": 1.0}, "attention_dropout"),
    (layers.AdditiveAttention, {"units": 0}, "units"),
    (layers.AdditiveAttention, {"units": 3, "attention_dropout": -0.1}, "attention_dropout"),
    (layers.FeedForward, {"intermediate_dim": None}, "intermediate_dim"),
    (layers.FeedForward, {"intermediate_dim": 3, "dropout": 2}, "dropout"),
    (layers.RMSNormalization, {"epsilon": 0}, "epsilon"),
    (layers.LayerNormalization, {"epsilon": 0.0}, "epsilon"),
    (layers.RotaryEmbedding, {"base": 1.0}, "base"),
    (layers.RotaryEmbedding, {"base": "10000"}, "base"),
    (layers.PositionalEncoding, {"max_wavelength": 1.0}, "max_wavelength"),
    (layers.LearnedPositionalEncoding, {"sequence_length": 0}, "sequence_length"),
    (layers.TokenEmbedding, {"vocabulary_size": 0, "dim": 4}, "vocabulary_size"),
    (layers.TokenEmbedding, {"vocabulary_size": 4, "dim": 0}, "dim"),
    (block, {"num_heads": -2}, "num_heads"),
    (block, {"dropout": 1.5}, "dropout"),
    (block, {"cls": layers.DecoderBlock, "intermediate_dim": 0}, "intermediate_dim"),
    (block, {"cls": layers.TransformerEncoder, "num_layers": 0}, "num_layers"),
    (block, {"normalization": "rms"}, "'layer_norm', 'rms_norm'.*'rms'"),
    (block, {"positions": "sinusoidal"}, "None, 'rotary', 'alibi'.*'sinusoidal'"),
    (block, {"cls": layers.DecoderBlock, "rotary_base": 0}, "rotary_base"),
    (layers.MultiHeadSelfAttention, {"num_heads": 2, "positions": "rope"}, "'rotary'.*'rope'"),
]


@pytest.mark.parametrize("make, settings, word", SETTINGS)
def test_wrong_settings(make, settings, word):
    with pytest.raises(ValueError, match=word) as error:
        make(**settings)
    assert "Received" in str(error.value)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: layers.MultiHeadSelfAttention(3)(x()), ["width 8", "num_heads=3", "key_dim"]),
        (lambda: layers.MultiHeadAttention(3)(x(), x()), ["width 8", "num_heads=3"]),
        (lambda: block(num_heads=3)(x()), ["width 8", "num_heads=3"]),
        (lambda: block(layers.DecoderBlock, num_heads=3)(x()), ["width 8", "num_heads=3"]),
        (lambda: block(num_kv_heads=4)(x()), ["num_kv_heads=4"]),
        (lambda: layers.MultiHeadSelfAttention(2)(keras.Input((4,))), ["(None, 4)"]),
        (lambda: layers.MultiHeadSelfAttention(2)(keras.Input((4, None))), ["None"]),
        (lambda: block()(keras.Input((4,))), ["(None, 4)"]),
        (lambda: layers.SelfAttention()(keras.Input((4,))), ["(None, 4)"]),
        (lambda: layers.SelfAttention(projection="shared")(keras.Input((4, None))), ["None"]),
        (lambda: layers.MultiHeadSelfAttention(2, value_rank=9)(x()), ["at most 8", "=9"]),
        (
            lambda: layers.MultiHeadSelfAttention(4, num_kv_heads=1, value_rank=3)(x()),
            ["at most 2", "values (8)", "projection (2)", "=3"],
        ),
        (
            lambda: layers.MultiHeadAttention(2, value_rank=6)(x(), x(width=5)),
            ["MultiHeadAttention", "at most 5", "values (5)", "projection (8)", "=6"],
        ),
        (lambda: block(value_rank=9)(x()), ["at most 8", "=9"]),
        (lambda: layers.PositionalEncoding()(keras.Input((4,))), ["(None, 4)"]),
        (lambda: layers.RotaryEmbedding()(x()), ["(B, T, N, H)", "(2, 4, 8)"]),
        (lambda: layers.RotaryEmbedding()(keras.Input((4, 2, 5))), ["even width", "2, 5)"]),
        (
            lambda: layers.RotaryEmbedding()(keras.Input((4, 2, 6)), positions=np.arange(5)),
            ["(T,), (1, T) or (B, T)", "(1, 5)"],
        ),
        (lambda: layers.RMSNormalization()(keras.Input((4, None))), ["must be known", "None"]),
        (lambda: layers.LayerNormalization()(keras.Input((4, None))), ["must be known", "None"]),
        (lambda: layers.AttentionPooling()(WIDE), ["`x`", "known width", "None"]),
        (lambda: layers.RecurrentEncoder(2)(WIDE), ["`x`", "known width", "None"]),
        (lambda: layers.AttentionDecoder(keras.layers.GRUCell(2))(WIDE), ["`x`", "known width"]),
        (lambda: layers.AdditiveAttention(2)(WIDE, WIDE), ["`query`", "known width"]),
        (lambda: layers.LuongAttention(score="concat")(x(), WIDE), ["`key`", "known width"]),
        (lambda: layers.WordByWordAttention(2)(x(), WIDE), ["`value`", "known width"]),
        (lambda: layers.AdditiveAttention(3)(keras.Input((4,)), x()), ["(None, 4)", "expand_dims"]),
        (lambda: layers.AdditiveAttention(3)(x()), ["value"]),
        (lambda: layers.MultiHeadAttention(2)(x()), ["value", "MultiHeadSelfAttention"]),
        (lambda: layers.MultiHeadAttention(2)(x(), x(5), x(6)), ["(2, 5, 8)", "(2, 6, 8)"]),
        (lambda: layers.AdditiveAttention(3)(x(), x(5), x(6)), ["(2, 5, 8)", "(2, 6, 8)"]),
        (
            lambda: layers.AdditiveAttention(3)(x(), x(5), x(5), projected_key=x(5)),
            ["not both"],
        ),
        (
            lambda: block(layers.DecoderBlock)(x(), memory_mask=keras.Input((5,), dtype="bool")),
            ["memory_mask", "memory"],
        ),
        (
            lambda: block(layers.TransformerDecoder, num_layers=1)(
                x(), memory_mask=keras.Input((5,), dtype="bool")
            ),
            ["memory_mask", "memory"],
        ),
    ],
)  # fmt: skip
def test_wrong_calls(call, words):
    with pytest.raises(ValueError) as error:
        call()
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    "layer, inputs",
    [
        (layers.MultiHeadSelfAttention(2), [x()]),
        (layers.MultiHeadAttention(2), [x(), x(5)]),
        (layers.SelfAttention(projection="separate"), [x()]),
        (layers.AdditiveAttention(3), [x(), x(5)]),
        (layers.PositionalEncoding(), [x()]),
        (layers.FeedForward(3), [x()]),
        (block(), [x()]),
        (block(layers.DecoderBlock), [x(), x(5)]),
        (block(layers.TransformerDecoder, num_layers=1), [x(), x(5)]),
    ],
    ids=lambda v: type(v).__name__,
)
def test_built_layers_check_too(layer, inputs):
    layer(*inputs)
    if not isinstance(layer, layers.FeedForward):  # takes any rank
        for i in range(len(inputs)):
            wrong = [np.ones((2, 8), "float32") if i == j else s for j, s in enumerate(inputs)]
            with pytest.raises(ValueError, match=r"\(2, 8\)"):
                layer(*[np.ones(w.shape, "float32") for w in wrong])
    if not isinstance(layer, layers.PositionalEncoding):  # has no weights
        with pytest.raises(ValueError, match="5"):
            layer(*[ops.ones((2, 4, 5)) for _ in inputs])


@pytest.mark.parametrize(
    "layer",
    [
        layers.LayerNormalization(),
        layers.RMSNormalization(),
        layers.LearnedPositionalEncoding(6),
    ],
    ids=lambda v: type(v).__name__,
)
def test_a_width_of_one_is_not_broadcast(layer):
    layer(x())
    for other in (x()[..., :1], x()[..., :5]):
        with pytest.raises(ValueError, match="axis -1 of input shape to have value 8"):
            layer(other)


def test_a_decoder_block_is_with_or_without_memory():
    with_memory, without = block(layers.DecoderBlock), block(layers.DecoderBlock)
    with_memory(x(), x(5))
    without(x())
    with pytest.raises(ValueError, match="built with a memory"):
        with_memory(x())
    with pytest.raises(ValueError, match=r"no cross-attention.*\(2, 5, 8\)"):
        without(x(), x(5))


def test_arguments_twice_or_too_many():
    layer = block()
    mask = np.ones((2, 4), bool)
    with pytest.raises(TypeError, match="`x` twice"):
        layer(ops.ones((2, 4, 8)), x=mask)
    with pytest.raises(TypeError, match=r"13 arguments by position"):
        layer(ops.ones((2, 4, 8)), *[None] * 12)
    with pytest.raises(TypeError):
        layer(ops.ones((2, 4, 8)), paddingmask=mask)


def test_a_key_mask_of_another_length():
    layer = layers.MultiHeadAttention(2)
    with pytest.raises(ValueError, match=r"key_mask.*\(2, 5\).*\(2, 3\)"):
        layer(x(), x(5), key_mask=keras.Input((3,), batch_size=2, dtype="bool"))


def test_prompts_over_the_cache():
    stack = block(layers.TransformerDecoder, num_layers=1)
    stack.build((None, None, 8))
    with pytest.raises(ValueError, match=r"max_length=3.*\(2, 4, 8\)"):
        stack.prefill(ops.ones((2, 4, 8)), max_length=3)
