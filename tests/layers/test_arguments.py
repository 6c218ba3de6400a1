"""Arguments that would be taken for others, and names that other packages have for them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from processes import answer

import keras_attn
from keras_attn import layers

X = np.ones((2, 4, 8), "float32")
MASK = np.ones((2, 4), bool)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        # KerasHub: TransformerEncoder(intermediate_dim, num_heads), one block
        (lambda: layers.TransformerEncoderBlock(64, 4), r"position: num_heads\..*KerasHub's order"),
        (lambda: layers.DecoderBlock(64, 4), "KerasHub's order is `intermediate_dim, num_heads`"),
        (lambda: layers.TransformerEncoder(2, 4, 64), r"num_layers, num_heads\..*\(2, 4, 64\)"),
        (
            lambda: layers.TransformerEncoder(intermediate_dim=64, num_heads=4),
            "TransformerEncoder needs `num_layers`.*stack.*TransformerEncoderBlock",
        ),
        (lambda: layers.TransformerDecoder(64), "`num_heads`, `intermediate_dim`.*DecoderBlock"),
        (lambda: layers.TransformerEncoderBlock(4), "needs `intermediate_dim`"),
        # Keras
        (lambda: layers.MultiHeadAttention(2, 4, 4), "num_heads, key_dim.*3 arguments"),
        (lambda: layers.MultiHeadAttention(2, 4, dropout=0.1), "`dropout`: `attention_dropout`"),
        (lambda: layers.MultiHeadAttention(2, output_shape=4), "`output_shape`: `output_dim`"),
        (lambda: layers.TokenEmbedding(input_dim=9, output_dim=4), "`vocabulary_size`"),
        (lambda: layers.TokenEmbedding(9, embedding_dim=4), "`embedding_dim`: `dim`"),
        (lambda: layers.TokenEmbedding(9, 4, False), "vocabulary_size, dim"),
        (lambda: layers.AdditiveAttention(3, use_scale=True), "`use_scale`"),
        (lambda: layers.LuongAttention("dot"), "takes by position: nothing"),
        (lambda: layers.MultiHeadSelfAttention(num_query_heads=2), "`num_heads`"),
        (lambda: layers.TransformerEncoderBlock(2, intermediate_dim=8, num_layers=2), "stacks"),
    ],
)
def test_constructors(make, words):
    with pytest.raises(TypeError, match=words):
        make()


def block(cls=layers.DecoderBlock):
    return cls(2, intermediate_dim=8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        # KerasHub: decoder(x, memory, decoder_padding_mask)
        (lambda: block()(X, X, MASK), "x, memory by position.*`decoder_padding_mask` is `padding"),
        (lambda: block()(X, X, decoder_padding_mask=MASK), "`decoder_padding_mask`: `padding_"),
        (lambda: block()(X, X, encoder_padding_mask=MASK), "`encoder_padding_mask`: `memory_mask`"),
        (lambda: layers.MultiHeadAttention(2)(X, X, key_padding_mask=MASK), "`value_mask` hides"),
        (lambda: block()(X, X, key_padding_mask=MASK), "`padding_mask` hides"),
        (lambda: layers.MultiHeadAttention(2)(X, X, X, MASK), "query, value, key by position"),
        (lambda: layers.MultiHeadSelfAttention(2)(X, X, X), "`x` to itself; MultiHeadAttention"),
        (lambda: layers.AdditiveAttention(3)([X, X]), r"layer\(query, value, key\).*2 tensors"),
        (lambda: layers.PositionalEncoding()(X, np.arange(4)), "called with x by position"),
        (lambda: layers.AdditiveAttention(3)(X, query=X), "`query` twice"),
    ],
)  # fmt: skip
def test_calls(call, words):
    with pytest.raises(TypeError, match=words):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, memory: layers.MultiHeadAttention(2)(x, memory),
        lambda x, memory: layers.AdditiveAttention(3)(x, memory),
        lambda x, memory: block()(x, memory),
        lambda x, memory: layers.AttentionDecoder(keras.layers.GRUCell(4))(x, memory),
        lambda x, memory: built_stack().prefill(x, memory=memory),
    ],
)
def test_a_memory_of_another_batch(call):
    with pytest.raises(ValueError, match=r"the same batch size.*\(2, 4, 8\).*\(3, 5, 8\)"):
        call(X, np.ones((3, 5, 8), "float32"))


def built_stack():
    stack = layers.TransformerDecoder(1, 2, intermediate_dim=8)
    stack(X, X)
    return stack


def test_a_stack_without_weights_has_no_state():
    with pytest.raises(ValueError, match="has no weights yet"):
        layers.TransformerDecoder(1, 2, intermediate_dim=8).prefill(X)


def test_a_subclass_gives_arguments_by_itself():
    class Small(layers.TransformerEncoderBlock):
        def __init__(self, factor=1.0, **kwargs):
            super().__init__(2, intermediate_dim=16, **kwargs)
            self.factor = factor

    assert Small(2.0, dropout=0.1, name="a").intermediate_dim == 16

    class Sized(layers.TransformerEncoderBlock):
        def __init__(self, size, **kwargs):
            super().__init__(2, intermediate_dim=size, **kwargs)

    with pytest.raises(TypeError, match="Sized needs `size`"):
        Sized(name="a")
    with pytest.raises(TypeError, match="stacks"):
        Small(num_layers=2)


def test_a_search_of_a_bare_stack():
    stack = layers.TransformerDecoder(1, 2, intermediate_dim=8)
    stack(X)
    with pytest.raises(ValueError, match=r"embeddings.*\(2, 1\).*TokenDecoder"):
        keras_attn.generation.greedy_search(
            stack, ops.ones((2, 1), "int32"), max_length=3, end_id=2
        )


def test_every_layer_is_at_the_top():
    for name in layers.__all__:
        assert getattr(keras_attn, name) is getattr(layers, name)


SYMBOLIC = """
import json, keras
from keras_attn.layers import MultiHeadSelfAttention
try:
    MultiHeadSelfAttention(2)(keras.Input((4, 8)), mask=keras.Input((3,), dtype="bool"))
except ValueError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_our_sentence_comes_first(backend):
    assert answer(backend, SYMBOLIC).startswith("`mask` must have one value per token")
    with pytest.raises(ValueError, match=r"^`mask` must have one value"):
        layers.MultiHeadSelfAttention(2)(keras.Input((4, 8)), mask=keras.Input((3,), dtype="bool"))


EMPTY = """
import json, keras, numpy as np
from keras_attn import layers as L
x, y = np.zeros((2, 0, 8), "float32"), np.ones((2, 3, 8), "float32")
none = np.ones((2, 0), bool)
made = {
    "embedding": L.TokenEmbedding(9, 8)(np.zeros((2, 0), "int32")),
    "encoder": L.TransformerEncoder(1, 2, intermediate_dim=8, positions="rotary")(x),
    "padded": L.TransformerEncoder(1, 2, intermediate_dim=8)(x, padding_mask=none),
    "decoder": L.TransformerDecoder(1, 2, intermediate_dim=8)(x, y),
    "memory": L.TransformerDecoder(1, 2, intermediate_dim=8)(y, x),
    "additive": L.AdditiveAttention(3)(y, x, value_mask=none),
    "max": L.MaskedMaxPooling()(x, mask=none),
    "first": L.FirstTokenPooling()(x),
    "words": L.WordByWordAttention(3)(x, y, return_attention_scores=True, return_state=True),
}
for cell in ("lstm", "gru"):
    made[cell] = L.RecurrentEncoder(4, cell=cell)(x)
    made[cell + " padded"] = L.RecurrentEncoder(4, cell=cell, bidirectional=False)(
        x, padding_mask=none
    )
decoder = L.AttentionDecoder(
    keras.layers.GRUCell(3, dropout=0.1), L.AdditiveAttention(3, window="monotonic"), bridge=True,
    attention_units=5, input_feeding=True,
)
made["recurrent"] = decoder(
    x, y, padding_mask=none, return_attention_scores=True, return_state=True, training=True
)
start = keras.ops.ones((2, 4))
made["bare"] = L.AttentionDecoder(keras.layers.GRUCell(4))(
    x, initial_state=[start], return_state=True
)
for kernel in ("plain", "chunked", "auto"):
    layer = L.MultiHeadAttention(4, num_kv_heads=2, attention_kernel=kernel)
    made[kernel] = layer(x, y)
    made[kernel + " keys"] = layer(y, x)
    made[kernel + " rows"] = layer(x[:0], y[:0])
    made[kernel + " no rows"] = layer(y[:0], y[:0])
stack = L.TransformerDecoder(1, 2, intermediate_dim=8, softcap=3.0)
stack(y, y)
made["capped"] = stack.prefill(y, memory=x)[0]
made["block"] = stack.blocks[0].prefill(y, memory=x)[0]
kept = keras.ops.convert_to_numpy(made["bare"][1][0]).tolist()

def shapes(x):
    if isinstance(x, (list, tuple)):
        return [shapes(one) for one in x]
    x = keras.ops.convert_to_numpy(x)
    return [*x.shape, bool(np.isfinite(x).all())]

print(json.dumps({"kept": kept, **{name: shapes(x) for name, x in made.items()}}))
"""


@pytest.mark.parametrize(
    "backend", ["tensorflow", *(pytest.param(b, marks=pytest.mark.slow) for b in ("jax", "torch"))]
)
def test_empty_sequences(backend):
    found = answer(backend, EMPTY)
    shapes = {
        name: [2, 0, 8, True]
        for name in ("embedding", "encoder", "padded", "decoder", "plain", "chunked", "auto")
    }
    shapes |= {name: [2, 3, 8, True] for name in ("memory", "additive", "capped", "block")}
    for kernel in ("plain", "chunked", "auto"):
        shapes[f"{kernel} keys"] = [2, 3, 8, True]
        shapes[f"{kernel} rows"] = [0, 0, 8, True]
        shapes[f"{kernel} no rows"] = [0, 3, 8, True]
    shapes |= {name: [2, 8, True] for name in ("max", "first")}
    for cell in ("lstm", "gru"):
        shapes |= {cell: [2, 0, 8, True], f"{cell} padded": [2, 0, 4, True]}
    shapes["words"] = [[2, 0, 8, True], [2, 0, 3, True], [2, 8, True]]
    shapes["recurrent"] = [[2, 0, 5, True], [[2, 0, 3, True]], [[2, 3, True]]]
    shapes["bare"] = [[2, 0, 4, True], [[2, 4, True]]]
    shapes["kept"] = np.ones((2, 4)).tolist()  # no step changes a state
    assert found == shapes


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_empty_sequences_in_a_graph_of_any_length(jit_compile):
    """Keras' loops stack the outputs of no step there, which is an error."""
    memory, start = tf.ones((2, 3, 8)), tf.constant([[1.0, 2, 3, 4], [5, 6, 7, 8]])
    encoder = layers.RecurrentEncoder(4, cell="lstm")
    decoder = layers.AttentionDecoder(keras.layers.GRUCell(4))
    words = layers.WordByWordAttention(3)
    calls = [
        lambda x, mask: encoder(x, padding_mask=mask),
        lambda x, mask: decoder(x, padding_mask=mask, initial_state=[start], return_state=True),
        lambda x, mask: words(x, memory, query_mask=mask, return_state=True),
        lambda x, mask: decoder(x, initial_state=[start], return_state=True),
    ]
    widths = (8, 4, 8, 4)
    specs = [tf.TensorSpec((None, None, 8)), tf.TensorSpec((None, None), "bool")]
    for call, width in zip(calls, widths, strict=True):
        call(tf.ones((2, 3, 8)), tf.ones((2, 3), "bool"))
        graph = tf.function(call, input_signature=specs, jit_compile=jit_compile)
        for length in (0, 1, 3):
            x, mask = tf.ones((2, length, 8)), tf.ones((2, length), "bool")
            eager, found = (keras.tree.flatten(f(x, mask)) for f in (call, graph))
            assert tuple(found[0].shape) == (2, length, width)
            for a, b in zip(found, eager, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-6)
            if length == 0 and call in (calls[1], calls[3]):
                np.testing.assert_array_equal(found[1], start)


WITH_64_BITS = """
import json, jax, keras, numpy as np, warnings
from keras_attn import layers, ops
with warnings.catch_warnings():
    warnings.simplefilter("error")  # of float64 that JAX does not have
    assert ops.masked_softmax(np.zeros((2, 3))).dtype == "float32"
jax.config.update("jax_enable_x64", True)
x = np.random.default_rng(0).normal(size=(1, 5, 8)).astype("float32")
bias = np.ones((1, 1, 5, 5), "float32")
plain = layers.MultiHeadSelfAttention(2, attention_kernel="plain")
chunked = layers.MultiHeadSelfAttention(2, attention_kernel="chunked")
wanted = plain(x, attention_bias=bias)
chunked.build(x.shape)
chunked.set_weights(plain.get_weights())
found = chunked(x, attention_bias=bias)
print(json.dumps([str(found.dtype), float(abs(found - wanted).max())]))
"""


@pytest.mark.slow
def test_jax_with_64_bits():
    """Python's integers are int64 then, and a slice takes indices of one dtype."""
    dtype, far = answer("jax", WITH_64_BITS)
    assert dtype == "float32"
    assert far < 1e-6


class AnyArguments(layers.AttentionPooling):
    """As users write subclasses."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def call(self, x, **kwargs):
        return 2 * super().call(x, **kwargs)


class AnyAttention(layers.MultiHeadAttention):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def call(self, query, value, key=None, **kwargs):
        return super().call(query, value, key, **kwargs)


def test_subclasses_that_hand_on_any_arguments():
    """Keras fills in masks only where the signature of `call` names them."""
    ids = keras.Input((None,), dtype="int32")
    x = layers.TokenEmbedding(10, 8)(ids)
    for output in (AnyArguments()(x), AnyArguments()(AnyAttention(2, 4)(x, x))):
        model = keras.Model(ids, output)
        padded = model(np.array([[1, 2, 3, 0, 0]]))
        np.testing.assert_allclose(padded, model(np.array([[1, 2, 3]])), atol=1e-6)
    with pytest.raises(ValueError, match="lost its mask"):
        AnyArguments()(x * 2.0)
