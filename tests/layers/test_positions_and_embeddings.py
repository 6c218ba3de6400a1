"""Positions, fixed and learned, and the token embedding."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import Subclassed
from harness_case import masked
from keras import ops
from processes import answer

from keras_attn.layers import (
    GridPositionalEncoding,
    LearnedPositionalEncoding,
    PositionalEncoding,
    TokenEmbedding,
)


@pytest.mark.parametrize("D", [1, 6, 7])
def test_sinusoids_are_added(D):
    x = np.random.default_rng(0).normal(size=(2, 5, D)).astype("float32")
    p, i = np.arange(5)[:, None], np.arange(D)
    angles = p / 10000.0 ** (2 * (i // 2) / D)
    expected = x + np.where(i % 2 == 0, np.sin(angles), np.cos(angles))
    np.testing.assert_allclose(PositionalEncoding()(x), expected, atol=1e-5)
    added = expected - x
    halves = x + np.concatenate([added[..., 0::2], added[..., 1::2]], axis=-1)
    np.testing.assert_allclose(PositionalEncoding(halves=True)(x), halves, atol=1e-5)
    later = PositionalEncoding(first=2)(x[:, :-2])
    np.testing.assert_allclose(later - x[:, :-2], added[..., 2:, :], atol=1e-5)


@pytest.mark.parametrize("D", [2, 6, 8])
def test_positions_on_a_grid(D):
    """Each half as a sequence has it: the row's, then the column's."""
    x = np.random.default_rng(0).normal(size=(2, 12, D)).astype("float32")
    along = ops.convert_to_numpy(PositionalEncoding()(np.zeros((1, 4, D // 2), "float32")))[0]
    expected = x + [np.append(along[r // 4], along[r % 4]) for r in range(12)]
    np.testing.assert_allclose(GridPositionalEncoding(4)(x), expected, atol=1e-5)
    half = GridPositionalEncoding(4, dtype="bfloat16")(x)
    assert half.dtype == "bfloat16"
    for wrong, message in [
        (lambda: GridPositionalEncoding(0), "`columns`.* 0"),
        (lambda: GridPositionalEncoding(2, max_wavelength=1), "`max_wavelength`.* 1"),
        (lambda: GridPositionalEncoding(2)(x[..., :1]), r"even width.*\(2, 12, 1\)"),
        (lambda: GridPositionalEncoding(2)(x[0]), r"\(B, R, D\).*\(12, "),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()


@pytest.mark.parametrize("cls", [PositionalEncoding, LearnedPositionalEncoding])
def test_explicit_positions(cls):
    layer = cls() if cls is PositionalEncoding else cls(6)
    x = ops.zeros((2, 4, 3))
    table = layer(ops.zeros((1, 6, 3)))[0].numpy()
    for positions in ([3, 0, 5, 5], [[3, 0, 5, 5]], [[3, 0, 5, 5], [0, 1, 2, 3]]):
        expected = np.broadcast_to(table[np.array(positions)], (2, 4, 3))
        np.testing.assert_allclose(layer(x, positions=np.array(positions)), expected, atol=1e-6)
        # With a mask too.
        mask = np.ones((2, 4), bool)
        output = layer(masked(x.numpy(), mask), positions=np.array(positions))
        np.testing.assert_allclose(output, expected, atol=1e-6)
        np.testing.assert_array_equal(output._keras_mask, mask)
    for wrong in ([1, 2, 3], [[1], [2]], [[0, 1, 2, 3]] * 3, [[[0, 1, 2, 3]]]):
        with pytest.raises(ValueError, match="positions") as error:
            layer(x, positions=np.array(wrong))
        assert str(np.array(wrong).shape) in str(error.value) or np.array(wrong).ndim == 1
    with pytest.raises(ValueError, match=r"integers.*float32"):
        layer(x, positions=ops.ones((4,)))


def test_a_learned_table_has_an_end():
    layer = LearnedPositionalEncoding(4, name="table")
    layer(keras.Input((None, 3)))
    for x in (keras.Input((5, 3)), ops.zeros((1, 5, 3))):
        with pytest.raises(ValueError, match=r"at most 4 tokens.*5, 3") as error:
            layer(x)
        assert "PositionalEncoding, which has no limit" in str(error.value)
    # Packed sequences count from 0 again, and may be longer together.
    output = layer(ops.zeros((1, 6, 3)), positions=ops.array([[0, 1, 2, 0, 1, 2]]))
    np.testing.assert_array_equal(output[:, :3], output[:, 3:])


def test_positions_of_a_saved_subclass(tmp_path):
    """Keras builds the loaded model with floats for the positions."""
    model = Subclassed(LearnedPositionalEncoding(6), "x", {})
    inputs = {"x": np.zeros((1, 4, 3), "float32"), "positions": np.array([[3, 0, 5, 5]], "int32")}
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), expected)


@keras.saving.register_keras_serializable(package="tests")
class Inner(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embed = TokenEmbedding(9, 4)

    def build(self, shapes):
        self.embed.build(shapes["ids"])

    def call(self, inputs):
        return self.embed(inputs["ids"])


def test_ids_of_a_saved_subclass_in_half_precision(tmp_path):
    """The policy of a layer in the model makes 16-bit floats of Keras' placeholder."""
    model = Subclassed(Inner(dtype="mixed_bfloat16"), None, {})
    inputs = {"ids": np.array([[1, 2, 3, 0]], "int32")}
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), expected)
    with pytest.raises(ValueError, match="takes integer ids"):
        TokenEmbedding(9, 4)(np.ones((1, 2), "float16"))


def test_positions_of_an_empty_batch_and_dtypes():
    for layer in (PositionalEncoding(), LearnedPositionalEncoding(4)):
        assert tuple(layer(ops.zeros((0, 4, 3))).shape) == (0, 4, 3)
    x = ops.zeros((1, 4, 3), dtype="bfloat16")
    assert PositionalEncoding(dtype="bfloat16")(x).dtype == "bfloat16"


def test_embedding_by_formula():
    ids = np.array([[3, 0, 1]])
    layer = TokenEmbedding(5, 4)
    output = layer(ids)
    table = layer.weights[0].numpy()
    np.testing.assert_allclose(output, 2.0 * table[ids], atol=1e-6)
    np.testing.assert_array_equal(output._keras_mask, ids != 0)
    np.testing.assert_allclose(layer(output, reverse=True), output @ table.T, atol=1e-6)
    np.testing.assert_array_equal(layer(output, reverse=True)._keras_mask, ids != 0)
    assert len(layer.weights) == 1
    plain = TokenEmbedding(5, 4, scale=False, mask_zero=False)
    output = plain(ids)
    np.testing.assert_allclose(output, plain.weights[0].numpy()[ids], atol=1e-6)
    assert getattr(output, "_keras_mask", None) is None


def test_embedding_starts_with_unit_scale():
    layer = TokenEmbedding(2000, 64)
    x = layer(np.arange(2000)[None]).numpy()
    assert x.std() == pytest.approx(1.0, abs=0.02)
    normal = np.random.default_rng(0).normal(size=(1, 500, 64))
    assert np.std(layer(normal, reverse=True)) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("reverse", [False, True])
def test_explicit_masks_of_embeddings(reverse):
    """They win over `ids != 0` and over the implicit mask."""
    layer = TokenEmbedding(5, 4)
    x = np.ones((1, 3, 4), "float32") if reverse else np.array([[3, 0, 1]])
    mask = np.array([[True, True, False]])
    output = layer(masked(x, ~mask) if reverse else x, reverse=reverse, mask=mask)
    np.testing.assert_array_equal(output._keras_mask, mask)
    with pytest.raises(ValueError, match=r"\(1, 3\).*\(1, 2\)"):
        layer(x, reverse=reverse, mask=mask[:, :2])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int16"])
def test_dtypes_of_ids(dtype):
    ids = np.array([[3, 0, 1]], dtype)
    layer = TokenEmbedding(5, 4, dtype="mixed_float16")
    assert layer(ids).dtype == "float16"
    np.testing.assert_array_equal(layer(tf.constant(ids))._keras_mask, ids != 0)
    assert layer(layer(ids), reverse=True).dtype == "float16"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", pytest.param("jax", marks=pytest.mark.slow)])
def test_ids_of_few_bits_in_a_larger_vocabulary(backend):
    script = """
import json
import numpy as np
from keras import ops
from keras_attn import TokenEmbedding
layer = TokenEmbedding(40_000, 2)
found = [ops.convert_to_numpy(layer(np.array([[200, 1]], "int32")) - layer(
    np.array([[200, 1]], dtype))).tolist() for dtype in ("uint8", "int16", "uint16")]
print(json.dumps(found))
"""
    assert np.array(answer(backend, script)).tolist() == np.zeros((3, 1, 2, 2)).tolist()


OUTSIDE = """
import json
import numpy as np
from keras_attn import layers as L
x, ids = np.zeros((1, 2, 4), "float32"), np.array([[1, 2]])
found = {}
for name, layer, more in (
    ("ids", L.TokenEmbedding(5, 4), lambda wrong: (np.array([[1, wrong]]),)),
    ("weights", L.TokenWeighting(5), lambda wrong: (x, np.array([[1, wrong]]))),
    (
        "segments",
        L.InputEmbedding(9, 4, num_segments=5),
        lambda wrong: (ids, np.array([[1, wrong]])),
    ),
):
    layer(*more(4))
    for wrong in (5, -1):
        try:
            layer(*more(wrong))
        except ValueError as error:
            found[name, wrong] = str(error)
positions = L.LearnedPositionalEncoding(5)
for wrong in (5, -1):
    try:
        positions(x, positions=np.array([1, wrong]))
    except ValueError as error:
        found["positions", wrong] = str(error)
print(json.dumps([[*key, value] for key, value in found.items()]))
"""


@pytest.mark.slow
def test_ids_that_jax_would_make_nan():
    found = answer("jax", OUTSIDE)
    names = ("ids", "weights", "segments", "positions")
    assert [x[:2] for x in found] == [[name, wrong] for name in names for wrong in (5, -1)]
    for _, wrong, error in found:
        assert f"from 0 to 4, the rows of the table. Received: {wrong}" in error


def test_wrong_ids():
    layer = TokenEmbedding(5, 4, name="embed")
    with pytest.raises(ValueError, match=r"integer ids. Received: vectors of shape \(2, 4\)"):
        layer(np.full((2, 4), 0.5, "float32"))
    for x in (keras.Input((3, 4)), keras.Input((3,), dtype="float16")):
        with pytest.raises(ValueError, match=r"integer ids.*float.*reverse=True"):
            layer(x)
    with pytest.raises(ValueError, match=r"width 4.*\(1, 2, 3\)"):
        layer(ops.ones((1, 2, 3)), reverse=True)
    with pytest.raises(tf.errors.InvalidArgumentError):  # on a CPU, as documented
        layer(np.array([[7]]))


def test_gradients_of_the_tied_matrix_add_up():
    layer = TokenEmbedding(5, 4, scale=False)
    ids = np.array([[1]])
    layer(ids)
    table = layer.weights[0]
    with tf.GradientTape() as tape:
        logit = layer(layer(ids), reverse=True)[0, 0, 1]  # |E_1|^2
    gradient = tf.convert_to_tensor(tape.gradient(logit, table.value)).numpy()
    np.testing.assert_allclose(gradient[1], 2 * table.numpy()[1], atol=1e-6)


def test_sequential_without_an_input():
    """Keras makes floats of the ids then: exact ones are taken, others refused."""
    ids = np.array([[70001, 0, 2]])
    layer = TokenEmbedding(70002, 2)
    model = keras.Sequential([layer, PositionalEncoding(), keras.layers.LSTM(3)])
    expected = keras.layers.LSTM.__call__(model.layers[-1], PositionalEncoding()(layer(ids)))
    np.testing.assert_allclose(model(ids), expected, atol=1e-6)
    assert model.inputs[0].dtype == "float32"
    half = keras.Sequential([TokenEmbedding(70002, 2, dtype="mixed_float16")])
    with pytest.raises(ValueError, match=r"float16.*first layer of a Sequential"):
        half(ids)
    half = keras.Sequential([keras.Input((None,), dtype="int32"), *half.layers])
    np.testing.assert_array_equal(half(ids)._keras_mask, ids != 0)
