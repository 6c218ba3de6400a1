import keras
import numpy as np
import pytest
import torch
from keras import ops

from keras_attn.ops.token_losses import token_cross_entropy
from keras_attn.training import MaskedCrossEntropy


def value_and_grad(function, x):
    """A scalar function of one array and its gradient, on the backend of the test."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        x = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
        return value.numpy(), tf.cast(tape.gradient(value, x), "float32").numpy()
    if backend == "jax":
        import jax

        value, grad = jax.jit(jax.value_and_grad(function))(x)
        return np.asarray(value), np.asarray(grad)
    x = torch.tensor(x, requires_grad=True)
    value = function(x)
    value.backward()
    return value.detach().numpy(), x.grad.numpy()


def make_batch(b=3, t=5, v=7, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=3, size=(b, t, v)).astype("float32")
    labels = rng.integers(1, v, (b, t)).astype("int32")
    labels[0, 3:] = labels[1, 1:] = 0
    return labels, logits


def of_torch(labels, logits, **kwargs):
    z = torch.tensor(logits, requires_grad=True)
    flat = z.reshape(-1, z.shape[-1])
    y = torch.tensor(labels).long().reshape(-1)
    value = torch.nn.functional.cross_entropy(flat, y, **kwargs)
    value.backward()
    return value.detach().numpy(), z.grad.numpy()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("ignore", [0, 4, -100])
def test_value_and_gradient_are_those_of_torch(smoothing, ignore):
    labels, logits = make_batch()
    if ignore == -100:
        labels[labels == 0] = -100
    loss = MaskedCrossEntropy(label_smoothing=smoothing, ignore_id=ignore)
    value, grad = value_and_grad(lambda z: loss(labels, z), logits)
    expected, slope = of_torch(labels, logits, ignore_index=ignore, label_smoothing=smoothing)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(grad, slope, atol=1e-6)
    assert np.abs(slope).max() > 0.01


def test_all_labels_count_without_ignore_id():
    labels, logits = make_batch()
    value = MaskedCrossEntropy(ignore_id=None)(labels, logits)
    expected, _ = of_torch(labels, logits)
    np.testing.assert_allclose(ops.convert_to_numpy(value), expected, rtol=1e-5)


def test_numbers_by_hand():
    # p = (1/4, 3/4); e = 0.2: 0.8 * ln(4/3) + 0.2 * (ln 4 + ln(4/3)) / 2
    logits = np.log(np.array([[[0.25, 0.75], [0.5, 0.5]]], "float32"))
    value = MaskedCrossEntropy(label_smoothing=0.2)(np.array([[1, 0]]), logits)
    assert float(value) == pytest.approx(0.8 * 0.2876821 + 0.1 * (1.3862944 + 0.2876821), abs=1e-6)


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 5)])
def test_sample_weights(shape):
    labels, logits = make_batch()
    given = np.random.default_rng(1).uniform(0.5, 2, shape).astype("float32")
    weight = np.broadcast_to(given[:, None] if given.ndim == 1 else given, (3, 5)) * (labels != 0)
    z = torch.tensor(logits).reshape(-1, 7)
    y = torch.tensor(labels).long().reshape(-1)
    each = torch.nn.functional.cross_entropy(z, y, reduction="none", label_smoothing=0.1)
    expected = np.sum(each.numpy().reshape(3, 5) * weight) / np.sum(weight)
    value = MaskedCrossEntropy(0.1)(labels, logits, sample_weight=given)
    np.testing.assert_allclose(ops.convert_to_numpy(value), expected, rtol=1e-5)


def test_the_losses_of_the_tokens():
    labels, logits = make_batch()
    z = torch.tensor(logits).reshape(-1, 7)
    y = torch.tensor(labels).long().reshape(-1)
    each = torch.nn.functional.cross_entropy(z, y, reduction="none", ignore_index=0)
    values = MaskedCrossEntropy().call(labels, logits)
    np.testing.assert_allclose(
        ops.convert_to_numpy(values), each.numpy().reshape(3, 5), rtol=1e-5, atol=1e-6
    )


def test_a_batch_without_a_real_token():
    _, logits = make_batch()
    loss = MaskedCrossEntropy(0.1)
    value, grad = value_and_grad(lambda z: loss(np.zeros((3, 5), "int32"), z), logits)
    assert value == 0.0
    assert not grad.any()


def test_what_stands_on_padding_does_not_matter():
    labels, logits = make_batch()
    changed = logits.copy()
    changed[labels == 0] = 1e30
    loss = MaskedCrossEntropy(0.1)
    value, grad = value_and_grad(lambda z: loss(labels, z), logits)
    again, slope = value_and_grad(lambda z: loss(labels, z), changed)
    assert value == again
    np.testing.assert_array_equal(grad, slope)
    assert not grad[labels == 0].any()
    changed[labels == 0] = np.nan
    assert float(loss(labels, changed)) == pytest.approx(float(value))


def test_the_implicit_mask_is_not_used():
    labels, logits = make_batch()
    plain = float(MaskedCrossEntropy()(labels, logits))
    tensor = ops.convert_to_tensor(logits)
    mask = np.zeros((3, 5), "bool")
    mask[:, 0] = True
    keras.src.backend.set_keras_mask(tensor, ops.convert_to_tensor(mask))
    assert keras.src.backend.get_keras_mask(tensor) is not None
    assert float(MaskedCrossEntropy()(labels, tensor)) == plain
    base = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    assert float(base(labels, tensor)) != pytest.approx(float(base(labels, logits)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_logits_are_raised_to_float32(dtype):
    labels, logits = make_batch()
    loss = MaskedCrossEntropy(0.1)
    low = ops.cast(logits, dtype)
    value = loss(labels, low)
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    expected = loss(labels, ops.cast(low, "float32"))
    assert float(value) == float(expected)
    large = ops.cast(np.where(logits > 0, 6e4, -6e4), dtype)
    assert np.isfinite(float(loss(labels, large)))


def test_float64_logits_stay_float64():
    labels, logits = make_batch()
    value = MaskedCrossEntropy()(labels, ops.cast(logits, "float64"))
    assert keras.backend.standardize_dtype(value.dtype) == "float64"


def test_a_label_outside_the_vocabulary_is_loud():
    labels, logits = make_batch()
    for wrong in (7, -1):
        labels[2, 2] = wrong
        assert np.isnan(float(MaskedCrossEntropy()(labels, logits)))
        weight = np.ones((3, 5))
        weight[2, 2] = 0
        assert np.isfinite(float(MaskedCrossEntropy()(labels, logits, weight)))


def test_int64_and_uint8_labels():
    labels, logits = make_batch()
    expected = float(MaskedCrossEntropy()(labels, logits))
    for dtype in ("int64", "uint8"):
        assert float(MaskedCrossEntropy()(labels.astype(dtype), logits)) == expected


def test_the_gradient_scales_with_what_comes_after():
    labels, logits = make_batch()
    loss = MaskedCrossEntropy(0.3)
    _, grad = value_and_grad(lambda z: loss(labels, z), logits)
    _, squared = value_and_grad(lambda z: loss(labels, z) ** 2 / 2, logits)
    np.testing.assert_allclose(squared, grad * float(loss(labels, logits)), rtol=1e-4, atol=1e-7)
    each = np.random.default_rng(2).normal(size=labels.shape).astype("float32")
    _, one = value_and_grad(
        lambda z: ops.sum(token_cross_entropy(ops.convert_to_tensor(labels), z, 0.3) * each), logits
    )
    z = torch.tensor(logits, requires_grad=True)
    y = torch.tensor(labels).long().reshape(-1)
    losses = torch.nn.functional.cross_entropy(
        z.reshape(-1, 7), y, reduction="none", label_smoothing=0.3
    )
    (losses.reshape(3, 5) * torch.tensor(each)).sum().backward()
    np.testing.assert_allclose(one, z.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros((3, 4), "int32"), r"\(3, 5, 7\) and labels of shape \(3, 4\)"),
        (np.zeros((3, 5, 7), "int32"), r"\(3, 5, 7\) and labels of shape \(3, 5, 7\)"),
        (np.zeros((3,), "int32"), r"labels of shape \(3,\)"),
        (np.zeros((3, 5), "float32"), r"integer type.*float32 labels of shape \(3, 5\)"),
        (np.zeros((3, 5), "bool"), "integer type.*bool"),
    ],
)
def test_wrong_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        MaskedCrossEntropy()(labels, np.zeros((3, 5, 7), "float32"))


def test_wrong_weights_and_settings():
    labels, logits = make_batch()
    with pytest.raises(ValueError, match=r"\(5,\) for labels of shape \(3, 5\)"):
        MaskedCrossEntropy()(labels, logits, np.ones(5))
    for smoothing in (-0.1, 1.0):
        with pytest.raises(ValueError, match="`label_smoothing` must be"):
            MaskedCrossEntropy(smoothing)
    with pytest.raises(ValueError, match="`ignore_id` must be an integer"):
        MaskedCrossEntropy(ignore_id=0.5)


def test_config():
    loss = MaskedCrossEntropy(0.1, ignore_id=3, name="mine")
    config = keras.saving.serialize_keras_object(loss)
    assert config["registered_name"] == "keras_attn>MaskedCrossEntropy"
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == {"label_smoothing": 0.1, "ignore_id": 3, "name": "mine"}
