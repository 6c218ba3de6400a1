"""Adam by one operation is Keras' Adam: numbers, learning rates by depth, XLA, files."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.training import fuse_adam, scale_learning_rate

MAKE = {
    "adam": lambda: keras.optimizers.Adam(0.05, global_clipnorm=1.0),
    "adamw": lambda: keras.optimizers.AdamW(0.05, weight_decay=0.1, beta_2=0.95, epsilon=1e-3),
    "average": lambda: keras.optimizers.Adam(0.05, use_ema=True, ema_momentum=0.5),
    "accumulation": lambda: keras.optimizers.Adam(0.05, gradient_accumulation_steps=2),
}
RNG = np.random.default_rng(0)
STEPS = [[RNG.normal(size=(4, 3)), RNG.normal(size=5)] for _ in range(6)]


def fresh(dtype="float32"):
    values = np.random.default_rng(1)
    return [
        keras.Variable(values.normal(size=shape), dtype=dtype, name=name)
        for name, shape in (("kernel", (4, 3)), ("bias", (5,)))
    ]


def trained(optimizer, variables, **settings):
    optimizer.build(variables)
    step = tf.function(lambda *g: optimizer.apply(list(g), variables), autograph=False, **settings)
    for gradients in STEPS:
        step(*(tf.constant(g, variables[0].dtype) for g in gradients))
    return [np.array(v) for v in variables]


@pytest.mark.quick("graph-average")
@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("settings", [{}, {"jit_compile": True}], ids=["graph", "xla"])
def test_it_is_the_adam_of_keras(name, settings):
    optimizer, other = MAKE[name](), MAKE[name]()
    fuse_adam(optimizer)
    for found, expected in zip(
        trained(optimizer, fresh(), **settings), trained(other, fresh()), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(optimizer.variables, other.variables, strict=True):
        assert ours.path.split("/")[1:] == theirs.path.split("/")[1:]
        np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-5, atol=1e-6)
    assert optimizer.get_config().keys() == other.get_config().keys()


def test_the_step_of_a_subclass_is_kept():
    class Ascent(keras.optimizers.Adam):
        def update_step(self, gradient, variable, learning_rate):
            super().update_step(-gradient, variable, learning_rate)

    found = []
    for change in (lambda optimizer: None, fuse_adam):
        optimizer = Ascent(0.05)
        change(optimizer)
        found.append(trained(optimizer, fresh()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_float64_equals_the_formula():
    optimizer = keras.optimizers.Adam(0.05)
    fuse_adam(optimizer)
    found = trained(optimizer, fresh("float64"))
    for i, start in enumerate(map(np.array, fresh("float64"))):
        mean = square = 0.0
        for step, gradients in enumerate(STEPS, 1):
            mean = 0.9 * mean + 0.1 * gradients[i]
            square = 0.999 * square + 0.001 * gradients[i] ** 2
            rate = 0.05 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            start = start - rate * mean / (np.sqrt(square) + 1e-7)
        np.testing.assert_allclose(found[i], start, rtol=1e-6)


def test_learning_rates_by_depth():
    found = []
    for fused in (False, True):
        optimizer, variables = MAKE["adamw"](), fresh()
        if fused:
            fuse_adam(optimizer)
        scale_learning_rate(optimizer, {id(variables[0]): 0.1})
        found.append(trained(optimizer, variables))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.slow
def test_a_fitted_model_is_reloaded_as_it_is(tmp_path):
    """In a file it is Keras' own optimizer, which goes on with its moments."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    optimizer = MAKE["adamw"]()
    fuse_adam(optimizer)
    model.compile(optimizer, "mse")
    x, y = RNG.normal(size=(8, 3)), RNG.normal(size=(8, 2))
    model.fit(x, y, epochs=2, verbose=0)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    assert type(again.optimizer) is keras.optimizers.AdamW
    for some in (model, again):
        some.fit(x, y, epochs=1, verbose=0)
    for ours, theirs in zip(model.weights, again.weights, strict=True):
        np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-5, atol=1e-6)


def test_what_stays_as_it_is():
    with pytest.raises(TypeError, match="Expected Adam or AdamW"):
        fuse_adam(keras.optimizers.SGD())
    optimizer = keras.optimizers.Adam(amsgrad=True)
    fuse_adam(optimizer)
    assert "update_step" not in vars(optimizer)
