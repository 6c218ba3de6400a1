import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.metrics import MaskedAccuracy, Perplexity


def make_batch(b, t, v=6, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, v, (b, t)).astype("int32")
    return labels, rng.normal(size=(b, t, v)).astype("float32")


def reference(batches, ignore=0):
    """(accuracy, perplexity) token by token."""
    right = nll = count = 0.0
    for labels, logits, weight in batches:
        for y, z, w in zip(
            labels.reshape(-1), logits.reshape(-1, 6), weight.reshape(-1), strict=True
        ):
            if y == ignore:
                continue
            z = z.astype("float64")
            count += w
            right += w * (np.argmax(z) == y)
            nll += w * (np.log(np.sum(np.exp(z))) - z[y])
    return right / count, np.exp(nll / count)


@pytest.mark.parametrize("ignore", [0, 3])
def test_sums_over_unequal_batches(ignore):
    batches = [
        (*make_batch(4, 7), np.ones((4, 7))),
        (*make_batch(1, 2, seed=1), np.random.default_rng(3).uniform(0, 2, (1, 2))),
        (*make_batch(2, 3, seed=2), np.full((2, 3), 5.0)),
    ]
    accuracy, perplexity = MaskedAccuracy(ignore), Perplexity(ignore)
    for labels, logits, weight in batches:
        accuracy.update_state(labels, logits, weight)
        perplexity.update_state(labels, logits, weight)
    expected = reference(batches, ignore)
    assert float(accuracy.result()) == pytest.approx(expected[0], rel=1e-5)
    assert float(perplexity.result()) == pytest.approx(expected[1], rel=1e-5)


def test_by_hand():
    logits = np.log(np.array([[[0.25, 0.75], [0.25, 0.75], [0.1, 0.9]]], "float32"))
    labels = np.array([[1, 1, 0]])
    assert float(MaskedAccuracy()(labels, logits)) == 1.0
    assert float(Perplexity()(labels, logits)) == pytest.approx(4 / 3, rel=1e-6)
    # With every label: (0.75 * 0.75 * 0.1) ** (-1 / 3)
    assert float(Perplexity(None)(labels, logits)) == pytest.approx(2.609930, rel=1e-5)
    assert float(MaskedAccuracy(None)(labels, logits)) == pytest.approx(2 / 3)


def test_rows_may_be_weighted_and_padding_may_hold_anything():
    labels, logits = make_batch(3, 5)
    weight = np.array([1.0, 0.0, 3.0])
    logits[labels == 0] = np.nan
    expected = reference([(labels, logits, np.repeat(weight[:, None], 5, axis=1))])
    assert float(MaskedAccuracy()(labels, logits, weight)) == pytest.approx(expected[0])
    assert float(Perplexity()(labels, logits, weight)) == pytest.approx(expected[1], rel=1e-5)


def test_the_implicit_mask_is_not_used():
    labels, logits = make_batch(3, 5)
    tensor = ops.convert_to_tensor(logits)
    keras.src.backend.set_keras_mask(tensor, ops.zeros((3, 5), "bool"))
    assert float(MaskedAccuracy()(labels, tensor)) == float(MaskedAccuracy()(labels, logits)) > 0
    assert float(Perplexity()(labels, tensor)) == float(Perplexity()(labels, logits)) > 1


def test_reset_and_no_token():
    labels, logits = make_batch(3, 5)
    for metric, empty in ((MaskedAccuracy(), 0.0), (Perplexity(), 1.0)):
        assert float(metric.result()) == empty
        first = float(metric(labels, logits))
        assert first != empty
        metric.reset_state()
        assert float(metric.result()) == empty
        assert float(metric(labels, logits)) == first


def test_the_dtype_is_the_dtype_of_the_result_and_sums_are_precise():
    labels, logits = np.ones((1, 4000), "int32"), np.zeros((1, 4000, 2), "float32")
    logits[0, :1000, 1] = 1.0
    for dtype in ("float16", "float64"):
        metric = MaskedAccuracy(dtype=dtype)
        for _ in range(2):  # a count of 8,000, which float16 rounds to a multiple of 4 or more
            metric.update_state(labels, logits)
        metric.update_state(labels[:, :1], logits[:, :1])
        result = metric.result()
        assert keras.backend.standardize_dtype(result.dtype) == dtype
        assert float(metric.count) == 8001
        assert float(result) == pytest.approx(2001 / 8001, rel=1e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("cls", [MaskedAccuracy, Perplexity])
def test_config_and_errors(cls):
    metric = cls(ignore_id=2, name="mine")
    config = keras.saving.serialize_keras_object(metric)
    assert config["registered_name"] == f"keras_attn>{cls.__name__}"
    again = keras.saving.deserialize_keras_object(config)
    assert again.ignore_id == 2
    assert again.name == "mine"
    with pytest.raises(ValueError, match=r"\(2, 3, 6\) and labels of shape \(2, 4\)"):
        metric(np.zeros((2, 4), "int32"), np.zeros((2, 3, 6), "float32"))
    with pytest.raises(ValueError, match="integer type"):
        metric(np.zeros((2, 3), "float32"), np.zeros((2, 3, 6), "float32"))
    with pytest.raises(ValueError, match="`ignore_id` must be an integer"):
        cls(ignore_id=1.5)
