"""`attention_kernel` and `right_padding` of the attention layers."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_attn import attention_maps, collect_attention
from keras_attn.layers import (
    DecoderBlock,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    TransformerDecoder,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from keras_attn.layers import heads as heads_module
from keras_attn.models import TransformerEncoderDecoderConfig

D = 8


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr("keras_attn.ops.chunked_attention.CHUNK", 3)


@pytest.fixture
def asked(monkeypatch):
    """The keywords with which layers call `dot_product_attention`."""
    calls = []
    original = heads_module.dot_product_attention

    def keeping(*args, **kwargs):
        calls.append(kwargs)
        return original(*args, **kwargs)

    monkeypatch.setattr(heads_module, "dot_product_attention", keeping)
    return calls


def pair(cls=MultiHeadSelfAttention, **settings):
    """A layer that computes by chunks, and one with its weights that does not."""
    x = ops.ones((1, 7, D))
    layers = [cls(2, attention_kernel=kernel, **settings) for kernel in ("chunked", "plain")]
    for layer in layers:
        layer(x) if cls is MultiHeadSelfAttention else layer(x, x)
    layers[1].set_weights(layers[0].get_weights())
    return layers


def values(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def padding(T, *lengths):
    return np.arange(T) < np.array(lengths)[:, None]


@pytest.mark.parametrize("cls", [MultiHeadAttention, MultiHeadSelfAttention])
def test_config(cls):
    layer = cls(2, attention_kernel="chunked", right_padding=True)
    config = json.loads(json.dumps(layer.get_config()))
    assert config["attention_kernel"] == "chunked"
    assert config["right_padding"] is True
    again = cls.from_config(config)
    assert (again.attention_kernel, again.right_padding) == ("chunked", True)
    # A config from before there were kernels.
    del config["attention_kernel"], config["right_padding"]
    old = cls.from_config(config)
    assert (old.attention_kernel, old.right_padding) == ("auto", False)
    with pytest.raises(ValueError, match=r"`attention_kernel`.*'auto', 'plain'.*Received: 'fast'"):
        cls(2, attention_kernel="fast")
    for kernel in ("chunked", "flash"):
        with pytest.raises(ValueError, match=r"attention_dropout=0.1.*attention_kernel=\"auto\""):
            cls(2, attention_kernel=kernel, attention_dropout=0.1)
    cls(2, attention_kernel="plain", attention_dropout=0.1)


@pytest.mark.slow
def test_equal_to_plain(asked):
    chunked, plain = pair(num_kv_heads=1)
    x, mask = values(2, 7, D), padding(7, 7, 5)
    each = np.random.default_rng(1).random((2, 1, 7, 7)) > 0.3
    for kwargs in (
        {},
        {"mask": mask},
        {"use_causal_mask": True, "mask": mask},
        {"attention_mask": each, "mask": mask},
    ):
        asked.clear()
        np.testing.assert_allclose(chunked(x, **kwargs), plain(x, **kwargs), atol=1e-6)
        assert [kwargs["kernel"] for kwargs in asked] == ["chunked", "plain"]
    chunked, plain = pair(MultiHeadAttention, value_dim=3)
    memory = values(2, 5, D)
    for kwargs in ({}, {"value_mask": padding(5, 0, 4)}, {"use_causal_mask": True}):
        a, b = (layer(x, memory, **kwargs) for layer in (chunked, plain))
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize(
    ("causal", "kernel"),
    [
        (False, "plain"),
        (True, "chunked"),
        pytest.param(False, "chunked", marks=pytest.mark.slow),
        pytest.param(True, "plain", marks=pytest.mark.slow),
    ],
)
def test_right_padding(causal, kernel, asked):
    """Lengths in the place of a mask: the same output, an implicit mask, rows of padding alone."""
    declared = MultiHeadSelfAttention(2, attention_kernel=kernel, right_padding=True)
    x, mask = values(3, 7, D), padding(7, 7, 4, 0)
    declared(x)
    layer = MultiHeadSelfAttention(2, attention_kernel="plain")
    layer(x)
    layer.set_weights(declared.get_weights())
    expected = layer(x, mask=mask, use_causal_mask=causal)
    masked = tf.constant(x)
    masked._keras_mask = tf.constant(mask)
    asked.clear()
    output = declared(x, mask=mask.astype("int32"), use_causal_mask=causal)
    np.testing.assert_allclose(output, expected, atol=1e-6)
    assert asked[0]["mask"] is None
    np.testing.assert_array_equal(asked[0]["key_lengths"], [7, 4, 0])
    np.testing.assert_allclose(declared(masked, use_causal_mask=causal), expected, atol=1e-6)
    # A mask for each query is one still, beside the lengths.
    each = np.random.default_rng(1).random((3, 7, 7)) > 0.3
    kwargs = {"mask": mask, "attention_mask": each}
    np.testing.assert_allclose(declared(x, **kwargs), layer(x, **kwargs), atol=1e-6)
    assert tuple(asked[-2]["mask"].shape) == (3, 1, 7, 7)


def test_right_padding_of_a_memory(asked):
    layer = MultiHeadAttention(2, right_padding=True)
    x, memory, mask = values(2, 4, D), values(2, 6, D), padding(6, 6, 2)
    output = layer(x, memory, value_mask=mask)
    assert asked[-1]["mask"] is None
    short = layer(x[1:], memory[1:, :2])
    np.testing.assert_allclose(output[1:], short, atol=1e-6)


def test_prompts_may_be_padded_on_the_left():
    """They are masked by masks, whatever was declared of batches."""
    layer = MultiHeadSelfAttention(2, right_padding=True)
    layer.build((None, None, D))
    x, mask = values(1, 5, D), padding(5, 3)[:, ::-1]
    output, _ = layer.prefill(ops.convert_to_tensor(x), ops.convert_to_tensor(mask), 5)
    alone, _ = layer.prefill(ops.convert_to_tensor(x[:, 2:]), None, 3)
    np.testing.assert_allclose(output[:, 2:], alone, atol=1e-6)


@pytest.mark.slow
def test_scores_of_a_forced_kernel():
    """An error where they are asked for, at the symbolic call already; collectors take plain."""
    chunked, plain = pair(name="layer")
    inputs = keras.Input((None, D))
    with pytest.raises(ValueError, match="attention_maps"):
        chunked(inputs, return_attention_scores=True)
    x = values(2, 7, D)
    model = keras.Model(inputs, chunked(inputs))
    maps = attention_maps(model, x)
    _, expected = plain(x, return_attention_scores=True)
    np.testing.assert_allclose(next(iter(maps.values())), expected, atol=1e-6)
    with collect_attention() as maps:
        output = chunked(x)
        with pytest.raises(ValueError, match="attention_maps"):
            chunked(x, return_attention_scores=True)
    np.testing.assert_allclose(output, chunked(x), atol=1e-6)
    assert len(maps) == 1


def test_flash_where_there_is_none():
    layer = MultiHeadSelfAttention(2, attention_kernel="flash")
    with pytest.raises(ValueError, match="TensorFlow has no flash attention"):
        layer(keras.Input((None, D)))


def model_of_two():
    x, mask = keras.Input((None, D), name="x"), keras.Input((None,), dtype="bool", name="mask")
    y = MultiHeadSelfAttention(2, attention_kernel="chunked")(x, mask=mask, use_causal_mask=True)
    y = MultiHeadAttention(2, attention_kernel="chunked", right_padding=True)(y, x, value_mask=mask)
    inputs = {"x": values(2, 7, D), "mask": padding(7, 7, 5)}
    return keras.Model({"x": x, "mask": mask}, y), inputs


@pytest.mark.slow
def test_saved_and_exported(tmp_path):
    """`.keras`, and a SavedModel that takes other batches and lengths."""
    model, inputs = model_of_two()
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    assert [layer.attention_kernel for layer in loaded.layers[2:]] == ["chunked"] * 2
    np.testing.assert_allclose(loaded(inputs), expected, atol=1e-6)
    model.export(tmp_path / "exported", verbose=False)
    artifact = tf.saved_model.load(tmp_path / "exported")  # kept: it owns the variables
    served = artifact.serve
    np.testing.assert_allclose(served(inputs), expected, atol=1e-6)
    one = {name: array[:1, :4] for name, array in inputs.items()}
    np.testing.assert_allclose(served(one), model(one), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_training(jit_compile):
    """One step of `fit` moves the weights as the plain kernel does."""
    model, inputs = model_of_two()
    plain = keras.models.clone_model(model)
    for layer in plain.layers[2:]:
        layer.attention_kernel = "plain"
    plain.set_weights(model.get_weights())
    model.compile(keras.optimizers.SGD(0.5), "mse", jit_compile=jit_compile)
    plain.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=True)
    for each in (model, plain):
        each.fit(inputs, values(2, 7, D), verbose=0)
    for a, b in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        # The stacks have them.
        pytest.param(TransformerEncoderBlock, {}, marks=pytest.mark.slow),
        pytest.param(DecoderBlock, {}, marks=pytest.mark.slow),
        (TransformerEncoder, {"num_layers": 2}),
        (TransformerDecoder, {"num_layers": 2}),
    ],
)
def test_blocks_hand_on(cls, settings, asked):
    """Both settings reach every attention of a block, and its config."""
    settings = {**settings, "num_heads": 2, "intermediate_dim": 8}
    block = cls(**settings, attention_kernel="chunked", right_padding=True)
    plain = cls(**settings, attention_kernel="plain")
    assert cls.from_config(block.get_config()).get_config() == block.get_config()
    x, memory = values(2, 6, D), values(2, 5, D)
    masks = {"padding_mask": padding(6, 6, 4)}
    inputs = [x]
    if "Decoder" in cls.__name__:
        inputs, masks = [x, memory], {**masks, "memory_mask": padding(5, 2, 5)}
    for each in (block, plain):
        each(*inputs)
    plain.set_weights(block.get_weights())
    asked.clear()
    output = block(*inputs, **masks)
    attentions = settings.get("num_layers", 1) * len(inputs)
    assert [kwargs["kernel"] for kwargs in asked] == ["chunked"] * attentions
    assert all(kwargs["key_lengths"] is not None for kwargs in asked)
    np.testing.assert_allclose(output, plain(*inputs, **masks), atol=1e-5)


@pytest.mark.slow
def test_of_a_translation_model():
    sizes = {"dim": 8, "num_heads": 2, "intermediate_dim": 8, "num_layers": 1}
    chunked = TransformerEncoderDecoderConfig(
        20, **sizes, attention_kernel="chunked", right_padding=True
    )
    models = [c.build() for c in (chunked, TransformerEncoderDecoderConfig(20, **sizes))]
    models[1].set_weights(models[0].get_weights())
    ids = np.array([[3, 4, 5, 6, 7, 2], [8, 9, 2, 0, 0, 0]])
    inputs = {"source_ids": ids, "target_ids": ids[:, :5]}
    visible = ids[:, :5] != 0
    logits = [np.array(model(inputs))[visible] for model in models]
    np.testing.assert_allclose(*logits, atol=1e-5)
    attention = models[0].get_layer("decoder").blocks[0].cross_attention
    assert (attention.attention_kernel, attention.right_padding) == ("chunked", True)
