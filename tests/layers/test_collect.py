"""Attention weights of whole models."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_attn import attention_maps, collect_attention
from keras_attn.layers import (
    AdditiveAttention,
    AttentionKey,
    DecoderBlock,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)

D = 8


def translator():
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    embed = TokenEmbedding(9, D, name="embed")
    memory = TransformerEncoder(2, 2, intermediate_dim=12, name="encoder")(embed(source))
    output = TransformerDecoder(2, 2, intermediate_dim=12, name="decoder")(embed(target), memory)
    return keras.Model({"source": source, "target": target}, embed(output, reverse=True))


def ids():
    return {"source": np.array([[1, 2, 3, 0]]), "target": np.array([[4, 5, 0]])}


KEYS = [
    ("encoder/block_0/self_attention", "self"),
    ("encoder/block_1/self_attention", "self"),
    ("decoder/block_0/self_attention", "self"),
    ("decoder/block_0/cross_attention", "cross"),
    ("decoder/block_1/self_attention", "self"),
    ("decoder/block_1/cross_attention", "cross"),
]


@pytest.mark.slow
def test_functional_model(tmp_path):
    model = translator()
    expected = model(ids())
    with collect_attention() as maps:
        output = model(ids())
    np.testing.assert_array_equal(output, expected)
    assert list(maps) == [AttentionKey(path, role, 0) for path, role in KEYS]
    assert [m.shape for m in maps.select("cross")] == [(1, 2, 3, 4)] * 2
    assert [m.shape for m in maps.select("self", "decoder")] == [(1, 2, 3, 3)] * 2
    for weights in maps.values():
        assert isinstance(weights, np.ndarray)
        assert weights.dtype == np.float32
        np.testing.assert_allclose(weights.sum(-1), np.ones(weights.shape[:-1]), atol=1e-6)
    for weights in maps.select("cross"):
        assert (weights[..., 3] == 0).all()  # padding
    model.save(tmp_path / "model.keras")
    again = attention_maps(keras.models.load_model(tmp_path / "model.keras"), ids())
    assert list(again) == list(maps)
    for key, weights in maps.items():
        np.testing.assert_allclose(again[key], weights, atol=1e-6)


@pytest.mark.quick("MultiHeadAttention-mixed_bfloat16")
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("cls", [MultiHeadAttention, AdditiveAttention])
def test_roles(cls, dtype):
    """A sequence attends to itself where one tensor is given twice, cast or not."""
    layer = cls(2, dtype=dtype, name="layer")
    for x in (ops.ones((1, 3, D)), np.ones((1, 3, D), "float32")):
        with collect_attention() as maps:
            layer(x, x)
            layer(x, value=x)
            layer(query=x, value=x, key=x)
            layer(x, ops.copy(x))
        assert [key.role for key in maps] == ["self", "self", "self", "cross"]
        assert [key.call for key in maps] == [0, 1, 2, 3]
    x = keras.Input((None, D))
    y = keras.Input((None, D))
    model = keras.Model([x, y], [layer(x, x), layer(x, y)])
    maps = attention_maps(model, [np.ones((1, 3, D)), np.ones((1, 2, D))])
    assert sorted((k.role, m.shape[-2:]) for k, m in maps.items()) == [
        ("cross", (3, 2)),
        ("self", (3, 3)),
    ]


def test_shared_and_nested():
    """A shared layer has a map a call; a model within a model keeps its paths."""
    inner_input = keras.Input((None, D))
    shared = MultiHeadSelfAttention(2, name="shared")
    inner = keras.Model(inner_input, shared(shared(inner_input)), name="inner")

    class Outer(keras.Model):
        def __init__(self):
            super().__init__(name="outer")
            self.inner = inner
            self.own = MultiHeadSelfAttention(2, name="own")

        def call(self, x):
            return self.own(self.inner(x))

    x = ops.ones((1, 3, D))
    outer = Outer()
    maps = attention_maps(outer, x)
    assert [(key.role, key.call) for key in maps] == [("self", 0), ("self", 1), ("self", 0)]
    paths = [key.path for key in maps]
    assert paths[0] == paths[1] == shared.path
    assert paths[2] == outer.own.path == "outer/own"
    assert list(attention_maps(outer, x)) == list(maps)
    top_input = keras.Input((None, D))
    top = keras.Model(top_input, inner(inner(top_input)))
    assert [key.call for key in attention_maps(top, x)] == [0, 1, 2, 3]


def test_two_layers_of_one_path():
    class Two(keras.Model):
        def __init__(self):
            super().__init__(name="two")
            self.layers_of_one_name = [MultiHeadSelfAttention(2, name="att") for _ in range(2)]

        def call(self, x):
            for layer in self.layers_of_one_name:
                x = layer(x)
            return x

    keys = list(attention_maps(Two(), ops.ones((1, 3, D))))
    assert [(key.path, key.call) for key in keys] == [("two/att", 0), ("two/att:1", 0)]


def test_nothing_is_kept():
    layer = MultiHeadSelfAttention(2)
    x = ops.ones((1, 3, D))
    layer(x)
    before = set(vars(layer))
    with collect_attention() as maps:
        layer(x)
    layer(x)
    assert len(maps) == 1
    assert set(vars(layer)) == before


def test_nested_collectors():
    layer = MultiHeadSelfAttention(2)
    x = ops.ones((1, 3, D))
    with collect_attention() as outer:
        layer(x)
        with collect_attention() as inner:
            layer(x)
    assert len(outer) == len(inner) == 1


def test_other_threads_are_not_collected():
    layer = MultiHeadSelfAttention(2)
    x = ops.ones((1, 3, D))
    layer(x)
    with collect_attention() as maps:
        thread = threading.Thread(target=lambda: layer(x))
        thread.start()
        thread.join()
    assert not maps


def test_after_an_error():
    layer = MultiHeadSelfAttention(2)
    with pytest.raises(ZeroDivisionError), collect_attention():
        raise ZeroDivisionError
    with collect_attention() as maps:
        layer(ops.ones((1, 3, D)))
    assert len(maps) == 1


@pytest.mark.slow
def test_compiled_calls_have_no_values():
    source = keras.Input((None,), dtype="int32", name="source")
    encoder = TransformerEncoder(1, 2, intermediate_dim=12)
    model = keras.Model({"source": source}, encoder(TokenEmbedding(9, D)(source)))
    model.compile(jit_compile=False)
    ids = {"source": np.array([[1, 2, 3, 0]])}
    model(ids)
    eagerly = pytest.raises(RuntimeError, match=r"Call the model eagerly: `model\(x\)`")
    with eagerly, collect_attention():
        model.predict(ids, verbose=0)
    with pytest.raises(RuntimeError, match="compiled"), collect_attention():
        tf.function(model)(ids)
    # What was compiled under a collector gives the same later, and is not collected.
    expected = model(ids)
    np.testing.assert_allclose(model.predict(ids, verbose=0), expected, atol=1e-5)
    with collect_attention() as maps:
        model(ids)
        model.predict(ids, verbose=0)
    assert len(maps) == 1


def test_attention_maps_wants_attention():
    with pytest.raises(ValueError, match="No attention layer of keras_attn") as error:
        attention_maps(keras.Sequential([keras.layers.Dense(2)], name="dense"), ops.ones((1, 2)))
    assert "'dense'. " in str(error.value)
    assert "`keras_attn.from_keras(model)`" in str(error.value)


def test_attention_maps_without_dropout():
    """`training` is False for a model, whatever is given to the layers."""
    x = keras.Input((None, D))
    block = DecoderBlock(2, intermediate_dim=12, dropout=0.9, attention_dropout=0.9)
    model = keras.Model(x, block(block(x)))
    x = np.random.default_rng(0).normal(size=(1, 4, D))
    first, second = attention_maps(model, x), attention_maps(model, x)
    for key, weights in first.items():
        np.testing.assert_array_equal(weights, second[key])


def test_additive():
    layer = AdditiveAttention(5)
    query, value = ops.ones((2, 1, 3)), ops.ones((2, 4, 6))
    _, weights = layer(query, value, return_attention_scores=True)
    maps = attention_maps(lambda q: layer(q, value), query)
    (key,) = maps
    assert key == (layer.path, "cross", 0)
    np.testing.assert_allclose(maps[key], weights)
