"""The moving average of the weights, against the formula."""

import keras
import numpy as np
import pytest

from keras_attn.training import averaged_weights

X, Y = np.eye(3, dtype="float32"), np.arange(6, dtype="float32").reshape(3, 2)


class Weights(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append([np.array(w) for w in self.model.get_weights()])


def make_model(**settings):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1, **settings), "mse")
    return model


@pytest.mark.quick("True")
@pytest.mark.parametrize("wrap", [False, True])
def test_it_is_the_formula(wrap):
    model = make_model(use_ema=True, ema_momentum=0.7)
    if wrap:
        optimizer = keras.optimizers.LossScaleOptimizer(model.optimizer, initial_scale=1.0)
        model.compile(optimizer, "mse")
    weights = Weights()

    class Inside(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raw = self.model.get_weights()
            with pytest.raises(RuntimeError), averaged_weights(self.model) as there:
                assert there
                self.inside = [np.array(w) for w in self.model.get_weights()]
                raise RuntimeError
            for before, after in zip(raw, self.model.get_weights(), strict=True):
                np.testing.assert_array_equal(before, after)

    inside = Inside()
    model.fit(X, Y, batch_size=1, epochs=1, shuffle=False, verbose=0, callbacks=[weights, inside])
    expected = weights.seen[0]
    for step in weights.seen[1:]:
        expected = [0.7 * e + 0.3 * w for e, w in zip(expected, step, strict=True)]
    for ours, theirs in zip(inside.inside, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert np.abs(inside.inside[0] - weights.seen[-1][0]).max() > 1e-3


def test_without_an_average_nothing_changes():
    for model in (make_model(), make_model(use_ema=True)):
        before = model.get_weights()
        with averaged_weights(model) as there:
            assert not there
            np.testing.assert_array_equal(model.get_weights()[0], before[0])
