"""Learning rates that differ between weights, against AdamW in float64 by hand."""

from pathlib import Path

import keras
import learning_rates_script as script
import pytest
from processes import answer

from keras_attn.training import scale_learning_rate


def test_both_rates_matter():
    """Or the comparison would prove nothing: the slow layer moves about a tenth as far."""
    before, after = script.build().get_weights(), script.by_hand("plain")
    slow, fast = script.distance(before[:2], after[:2]), script.distance(before[2:], after[2:])
    assert 5e-3 < slow < 0.3 * fast


@pytest.mark.quick("by a schedule")
@pytest.mark.parametrize("case", script.CASES)
def test_adam_by_hand(case):
    assert script.distance(script.fitted(case), script.by_hand(case)) < 2e-6


def test_nadam_multiplies_its_momentum_once_in_a_step():
    assert script.nadam() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_another_backend(backend):
    found = answer(backend, Path(script.__file__))
    assert found.pop("backend") == backend
    assert set(found) == {*script.CASES, "nadam"}
    assert all(distance < 2e-6 for distance in found.values()), found


@pytest.mark.slow
def test_factors_must_be_above_zero():
    optimizer = keras.optimizers.SGD(0.1)
    with pytest.raises(ValueError, match=r"factors above 0. Received: -0.5.*trainable = False"):
        scale_learning_rate(optimizer, {1: 0.5, 2: -0.5})
    scale_learning_rate(optimizer, {})
