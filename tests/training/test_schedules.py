import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.training import InverseSquareRootSchedule, WarmupCosineSchedule


def values(schedule, steps):
    return [float(schedule(step)) for step in steps]


def test_inverse_square_root_by_hand():
    schedule = InverseSquareRootSchedule(0.8, warmup_steps=4)
    expected = [0.2, 0.4, 0.6, 0.8, 0.8 * (4 / 5) ** 0.5, 0.4, 0.1]
    np.testing.assert_allclose(values(schedule, [0, 1, 2, 3, 4, 15, 255]), expected, rtol=1e-6)


def test_noam_is_the_formula_of_the_paper():
    schedule = InverseSquareRootSchedule.noam(512, 4000, factor=2.0)
    assert schedule.peak_learning_rate == pytest.approx(2 * 6.98771e-4, rel=1e-5)
    for step in (1, 100, 4000, 4001, 100000):
        expected = 2.0 * 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert float(schedule(step - 1)) == pytest.approx(expected, rel=1e-5)


def test_warmup_cosine_by_hand():
    schedule = WarmupCosineSchedule(1.0, warmup_steps=4, total_steps=12, final_learning_rate=0.2)
    # p = 0, 1/4, 1/2, 1, 1; 0.2 + 0.8 * (1 + cos(pi p)) / 2
    expected = [0.25, 0.5, 1.0, 0.2 + 0.4 * (1 + 0.5**0.5), 0.6, 0.2, 0.2]
    np.testing.assert_allclose(values(schedule, [0, 1, 3, 5, 7, 11, 100]), expected, rtol=1e-5)
    no_warmup = WarmupCosineSchedule(1.0, warmup_steps=0, total_steps=2)
    np.testing.assert_allclose(values(no_warmup, [0, 1, 2]), [0.5, 0.0, 0.0], atol=1e-7)


@pytest.mark.parametrize(
    "schedule",
    [
        InverseSquareRootSchedule(0.5, 3, name="mine"),
        WarmupCosineSchedule(0.5, 3, 9, 0.1, name="mine"),
    ],
)
def test_tensors_and_config(schedule):
    number = float(schedule(5))
    for dtype in ("int32", "int64", "float32"):
        result = schedule(ops.convert_to_tensor(5, dtype=dtype))
        assert float(result) == number
        assert tuple(result.shape) == ()
        assert keras.backend.standardize_dtype(result.dtype) == "float32"
    config = keras.saving.serialize_keras_object(schedule)
    assert config["registered_name"].startswith("keras_attn>")
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == schedule.get_config()
    assert again.name == "mine"
    assert float(again(5)) == number


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InverseSquareRootSchedule(0.0, 4), "`peak_learning_rate` must be above 0"),
        (lambda: InverseSquareRootSchedule(1.0, 0.5), "`warmup_steps` must be a whole number"),
        (lambda: WarmupCosineSchedule(1.0, 2, 7.9), "`total_steps` must be a whole number"),
        (lambda: InverseSquareRootSchedule(1.0, 0), "`warmup_steps` must be above 0"),
        (lambda: InverseSquareRootSchedule.noam(0, 4), "`model_dim` must be above 0"),
        (lambda: WarmupCosineSchedule(1.0, -1, 4), "`warmup_steps` must be at least 0"),
        (lambda: WarmupCosineSchedule(1.0, 4, 4), "`total_steps` must be more than"),
        (lambda: WarmupCosineSchedule(1.0, 1, 4, 2.0), "`final_learning_rate` must be at most"),
        (lambda: WarmupCosineSchedule(float("nan"), 1, 4), "`peak_learning_rate` must be above"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
