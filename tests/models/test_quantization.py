"""int8: against integers in NumPy, saved and reloaded, on all backends."""

from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops
from processes import answer
from quantization_script import MODELS, SEARCHED, call, make, numpy, quantize, searched

from keras_attn import layers
from keras_attn.layers.quantization import (
    quantize_sublayers,
    quantized_sublayers,
    quick_deletions,
    sublayers,
)
from keras_attn.training import ChunkedLossModel

SCRIPT = Path(__file__).parent / "quantization_script.py"
FAST = ("transformer", "additive")


@pytest.fixture(autouse=True)
def _quickly():
    """Keras collects garbage for each weight that it deletes."""
    with quick_deletions():
        yield


def rounded(x, axis):
    """The int8 of `x` and its scale: 127 steps up to the greatest magnitude along an axis."""
    scale = 127.0 / (np.abs(x).max(axis=axis, keepdims=True) + 1e-7)
    return np.clip(np.round(x * scale), -127, 127).astype("int64"), scale


def integer_dense(x, kernel, bias):
    (x8, x_scale), (w8, w_scale) = rounded(x, -1), rounded(kernel, 0)
    return (x8 @ w8) / (x_scale * w_scale) + bias


def test_a_network_is_the_integer_product():
    layer = layers.FeedForward(12)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    layer(x)
    weights = [numpy(w).astype("float64") for w in layer.weights]
    for weight in layer.weights[1::2]:  # biases
        weight.assign(np.linspace(-1, 1, weight.shape[0]))
    first, second = (numpy(w).astype("float64") for w in layer.weights[1::2])
    layer.hidden_dense.quantize("int8")
    layer.output_dense.quantize("int8")
    hidden = np.maximum(integer_dense(x.astype("float64"), weights[0], first), 0)
    expected = integer_dense(hidden, weights[2], second)
    np.testing.assert_allclose(numpy(layer(x)), expected, atol=2e-5)


def test_the_error_of_a_projection_is_within_its_steps():
    layer = layers.MultiHeadSelfAttention(2)
    x = np.random.default_rng(0).normal(size=(3, 7, 16)).astype("float32")
    layer(x)
    kernel = np.abs(numpy(layer.qkv_dense.kernel))
    expected = numpy(layer.qkv_dense(x))
    layer.qkv_dense.quantize("int8")
    received = numpy(layer.qkv_dense(x))
    # Half a step of each factor, times the other one: sum_k |x_k| dW + (|W_k| + dW) dx.
    dx = np.abs(x).max(axis=-1, keepdims=True) / 254
    dw = kernel.max(axis=0) / 254
    bound = np.abs(x).sum(-1, keepdims=True) * dw + (kernel + dw).sum(0) * dx
    error = np.abs(received - expected)
    assert (error <= bound + 1e-5).all()
    assert error.max() > 1e-4


def test_an_embedding_has_a_scale_for_each_token_in_both_directions():
    layer = layers.TokenEmbedding(11, 8)
    ids = np.array([[1, 10, 0], [4, 4, 7]], "int32")
    layer(ids)
    table = numpy(layer.embedding.embeddings).astype("float64")
    layer.embedding.quantize("int8")
    e8, scale = rounded(table, -1)
    np.testing.assert_allclose(numpy(layer(ids)), (e8 / scale)[ids] * 8**0.5, atol=1e-6)
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    x8, x_scale = rounded(x.astype("float64"), -1)
    expected = (x8 @ e8.T) / (x_scale * scale[:, 0])
    np.testing.assert_allclose(numpy(layer(x, reverse=True)), expected, atol=1e-5)


def quantized_all_over(name):
    """The model in int8, all that Keras has it for; and what the floats gave."""
    model = make(name)
    plain = call(model)
    outputs = call(quantize(model))
    assert 0 < np.abs(outputs - plain).max() < 0.15 * np.abs(plain).max()
    for path, layer in sublayers(model):
        if isinstance(layer, keras.layers.Dense | keras.layers.Embedding):
            assert layer.quantization_mode == "int8", path
    return model, plain


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """All models, quantized and saved, with what they give."""
    folder = tmp_path_factory.mktemp("int8")
    found = {}
    for name in FAST:
        model, plain = quantized_all_over(name)
        found[name] = (plain, call(model), model)
        model.save(folder / f"{name}.keras")
        np.save(folder / f"{name}.npy", found[name][1])
    return folder, found


def run(folder, backend, names, own=()):
    return answer(backend, SCRIPT, folder, " ".join(names), " ".join(own))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODELS) - set(FAST)))
def test_all_other_models(tmp_path, name):
    model, _ = quantized_all_over(name)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", safe_mode=True)
    np.testing.assert_array_equal(call(loaded), call(model))
    if name in ("modern", "luong"):
        assert searched(loaded) == searched(model)


@pytest.mark.slow
def test_they_reload_in_a_fresh_process_and_search(saved):
    folder, found = saved
    loaded = run(folder, "tensorflow", FAST)["loaded"]
    assert set(loaded) == set(FAST)
    for name, (difference, tokens) in loaded.items():
        assert difference == 0, name
        if name in SEARCHED:
            greedy, beams = searched(found[name][2])
            assert tokens == [greedy, beams], name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "names", "own"),
    [
        ("torch", ["transformer", "additive"], ["transformer"]),
        ("jax", ["transformer", "additive"], ["transformer"]),
    ],
    ids=["torch", "jax"],
)
def test_on_other_backends(saved, backend, names, own):
    """Files of TensorFlow load; quantizing, saving and LoRA there are as here."""
    folder, found = saved
    there = run(folder, backend, names, own)
    assert there["backend"] == backend
    for name, (difference, _) in there["loaded"].items():
        # A last digit decides the rounding of some values: they are a step apart then.
        assert difference < 0.03 * np.abs(found[name][1]).max(), name
    for name, (difference, reloaded) in there["own"].items():
        assert difference < 0.03 * np.abs(found[name][1]).max(), name
        assert reloaded == 0, name
    if not own:
        return
    lora = there["lora"]
    assert lora["layers"] == 8
    assert lora["at_first"] < 1e-6
    assert lora["losses"][-1] < lora["losses"][0]
    assert lora["changed"] == []
    assert lora["learnt"] > 0.01
    for name in ("saved", "adapter", "merged"):
        assert lora[name] < 2e-5, name
    assert lora["names"]
    assert np.isfinite(lora["again"]).all()


@pytest.mark.slow
def test_some_layers_with_settings_of_their_own_and_the_rest_later(tmp_path):
    """Weights alone in int8, of the feed-forward networks; then all others with Keras' default."""
    model = make("transformer")
    hidden = [layer for path, layer in sublayers(model) if "feed_forward/" in path]
    weights_only = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    for layer in hidden:
        if isinstance(layer, keras.layers.Dense):
            layer.quantize(config=weights_only)
    before = call(model)
    model.save(tmp_path / "some.keras")
    again = keras.models.load_model(tmp_path / "some.keras")
    np.testing.assert_array_equal(call(again), before)
    paths = set(quantized_sublayers(again))
    assert paths == {
        f"{side}/block_0/feed_forward/{name}"
        for side in ("encoder", "decoder")
        for name in ("hidden", "output")
    }
    quantize(again, filters=lambda layer: not getattr(layer, "_is_quantized", False))
    again.save(tmp_path / "all.keras")
    both = keras.models.load_model(tmp_path / "all.keras")
    np.testing.assert_array_equal(call(both), call(again))
    assert set(quantized_sublayers(both)) > paths


@pytest.mark.slow
def test_clones_and_weights_files(tmp_path):
    model = quantize(make("bag"))
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(call(clone), call(model))
    model.save_weights(tmp_path / "model.weights.h5")
    other = quantize(MODELS["bag"]())
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(call(other), call(model))


def test_a_float_layer_says_nothing_of_it():
    layer = layers.TransformerEncoder(1, 2, intermediate_dim=8)
    layer.build((None, None, 8))
    assert "quantization" not in layer.get_config()


@pytest.mark.slow
def test_what_does_not_fit_is_refused():
    layer = layers.TransformerEncoder(2, 2, intermediate_dim=8)
    layer.build((None, None, 8))
    quantize_sublayers(layer, {"block_1/feed_forward/hidden": {"mode": "int8", "config": None}})
    config = {**layer.get_config(), "num_layers": 1}
    smaller = layers.TransformerEncoder.from_config(config)
    with pytest.raises(ValueError, match="block_1/feed_forward/hidden"):
        smaller.build((None, None, 8))
    with pytest.raises(ValueError, match="quantized"):
        ChunkedLossModel(quantize(make("transformer")))


@pytest.mark.slow
def test_equal_names_and_shared_layers():
    """Two attentions of one name; an embedding that two models within a model have."""
    same = [layers.LuongAttention(score="general", name="same") for _ in range(2)]
    decoder = layers.AttentionDecoder(keras.layers.GRUCell(4), same, attention_units=4)
    decoder(np.zeros((1, 2, 4), "float32"), np.zeros((1, 3, 4), "float32"))
    for layer in same:
        layer.key_dense.quantize("int8")
    assert set(quantized_sublayers(decoder)) == {"same/key", "same:1/key"}
    again = layers.AttentionDecoder.from_config(decoder.get_config())
    again.build((None, None, 4), (None, None, 4))
    assert quantized_sublayers(again) == quantized_sublayers(decoder)
    shared = keras.layers.Dense(4, name="dense")
    x = keras.Input((4,))
    parts = [keras.Model(x, shared(x), name=name) for name in "ab"]
    whole = keras.Model(x, parts[1](parts[0](x)))
    dense = [path for path, layer in sublayers(whole) if layer is shared]
    assert len(dense) == 1


def test_gradients_reach_the_inputs():
    layer = layers.TransformerEncoderBlock(2, intermediate_dim=12)
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(2, 4, 8)).astype("float32"))

    def gradient():
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = ops.sum(layer(x) ** 3)
        return numpy(tape.gradient(loss, x))

    expected = gradient()
    for _, part in sublayers(layer):
        if isinstance(part, keras.layers.Dense):
            part.quantize("int8")
    received = gradient()
    cosine = (received * expected).sum() / np.linalg.norm(received) / np.linalg.norm(expected)
    assert cosine > 0.99
