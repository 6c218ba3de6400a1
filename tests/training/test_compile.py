"""The losses, metrics and schedules in `fit`, saved, on other backends and on two replicas."""

from pathlib import Path

import keras
import numpy as np
import pytest
import torch
from processes import answer

from keras_attn.metrics import MaskedAccuracy, Perplexity
from keras_attn.training import InverseSquareRootSchedule, MaskedCrossEntropy, WarmupCosineSchedule

HERE = Path(__file__).parent


def make_model(schedule, jit_compile, v=9):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((None,)), keras.layers.Embedding(v, 6, mask_zero=True), keras.layers.Dense(v)]
    )
    model.compile(
        keras.optimizers.Adam(schedule),
        MaskedCrossEntropy(0.1),
        weighted_metrics=[MaskedAccuracy(), Perplexity()],
        jit_compile=jit_compile,
    )
    model.optimizer.build(model.trainable_variables)  # `fit` would trace that twice
    return model


def make_data(v=9):
    rng = np.random.default_rng(0)
    x = rng.integers(1, v, (16, 6)).astype("int32")
    x[::2, 3:] = 0
    return x, np.where(x > 0, x % (v - 1) + 1, 0).astype("int32")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept:DeprecationWarning")
@pytest.mark.parametrize(
    ("schedule", "jit_compile"),
    [
        (InverseSquareRootSchedule.noam(16, 10), False),
        pytest.param(WarmupCosineSchedule(0.05, 5, 60), True, marks=pytest.mark.slow),
    ],
)
def test_fit_evaluate_save_and_go_on(schedule, jit_compile, tmp_path):
    model = make_model(schedule, jit_compile)
    x, y = make_data()
    before = model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
    # Evaluate's own numbers, by torch: labels count, whatever the mask of the embedding.
    z = torch.tensor(model.predict(x, verbose=0)).reshape(-1, 9)
    labels = torch.tensor(y).long().reshape(-1)
    smooth = torch.nn.functional.cross_entropy(z, labels, ignore_index=0, label_smoothing=0.1)
    plain = torch.nn.functional.cross_entropy(z, labels, ignore_index=0)
    assert before["loss"] == pytest.approx(float(smooth), rel=1e-5)
    assert before["perplexity"] == pytest.approx(float(torch.exp(plain)), rel=1e-5)
    model.fit(x, y, batch_size=8, epochs=5, shuffle=False, verbose=0)
    path = tmp_path / "model.keras"
    model.save(path)
    again = keras.models.load_model(path)
    assert type(again.loss) is MaskedCrossEntropy
    assert again.loss.get_config() == model.loss.get_config()
    assert type(again.optimizer._learning_rate) is type(schedule)
    assert again.optimizer._learning_rate.get_config() == schedule.get_config()
    assert int(again.optimizer.iterations) == 10
    histories = [
        m.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0).history
        for m in (model, again)
    ]
    assert sorted(histories[0]) == ["loss", "masked_accuracy", "perplexity"]
    for name, expected in histories[0].items():
        np.testing.assert_allclose(histories[1][name], expected, rtol=1e-5)
    assert histories[0]["loss"][-1] < before["loss"]
    assert float(again.optimizer.learning_rate) == pytest.approx(float(schedule(16)))


BACKEND_SCRIPT = """
import sys, json
import numpy as np, keras
from keras_attn.training import *
from keras_attn.metrics import MaskedAccuracy, Perplexity
from keras_attn.batches import TokenBatches
assert ("tensorflow" in sys.modules) == (keras.backend.backend() == "tensorflow")
from test_losses import make_batch, value_and_grad
labels, logits = make_batch()
result = {"backend": keras.backend.backend()}
for e in (0.0, 0.1):
    loss = MaskedCrossEntropy(e)
    value, grad = value_and_grad(lambda z: loss(labels, z), logits)
    result[f"value {e}"] = float(value)
    result[f"grad {e}"] = grad.tolist()
perplexity, accuracy = Perplexity(), MaskedAccuracy()
result["perplexity"] = float(perplexity(labels, logits))
result["accuracy"] = float(accuracy(labels, logits))
wrong = labels.copy()
wrong[2, 2] = 99
result["wrong"] = float(MaskedCrossEntropy()(wrong, logits))
result["rates"] = [
    float(schedule(keras.ops.convert_to_tensor(step)))
    for schedule in (InverseSquareRootSchedule(0.1, 4), WarmupCosineSchedule(0.1, 4, 9))
    for step in (0, 3, 6, 20)
]
rng = np.random.default_rng(0)
sources = [rng.integers(3, 9, n).tolist() for n in rng.integers(1, 30, 60)]
batches = TokenBatches(sources, sources, start_id=1, end_id=2, tokens_per_batch=64, max_shapes=4)
source = keras.Input((None,), dtype="int32", name="source_ids")
target = keras.Input((None,), dtype="int32", name="target_ids")
embed = keras.layers.Embedding(9, 4, mask_zero=True)
memory = keras.layers.GlobalAveragePooling1D(keepdims=True)(embed(source))
out = keras.layers.Dense(9)(keras.layers.Add()([embed(target), memory]))
model = keras.Model([source, target], out)
model.compile(keras.optimizers.Adam(InverseSquareRootSchedule(0.1, 4)), MaskedCrossEntropy(0.1),
              weighted_metrics=[MaskedAccuracy(), Perplexity()])
history = model.fit(batches, epochs=3, shuffle=False, verbose=0).history
result["falls"] = bool(history["loss"][-1] < history["loss"][0])
result["metrics"] = sorted(history)
result["epoch"] = batches.state()["epoch"]
print(json.dumps(result))
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_the_same_numbers_on_other_backends(backend):
    result = answer(backend, BACKEND_SCRIPT, path=[HERE], errors=["UserWarning"])
    assert result["backend"] == backend
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=3, size=(3, 5, 7)).astype("float32")
    labels = rng.integers(1, 7, (3, 5))
    labels[0, 3:] = labels[1, 1:] = 0
    z = torch.tensor(logits, requires_grad=True)
    flat, y = z.reshape(-1, 7), torch.tensor(labels).long().reshape(-1)
    for e in (0.0, 0.1):
        value = torch.nn.functional.cross_entropy(flat, y, ignore_index=0, label_smoothing=e)
        (grad,) = torch.autograd.grad(value, z, retain_graph=True)
        assert result[f"value {e}"] == pytest.approx(value.item(), rel=1e-5)
        np.testing.assert_allclose(result[f"grad {e}"], grad.numpy(), atol=1e-6)
    assert result["perplexity"] == pytest.approx(np.exp(result["value 0.0"]), rel=1e-5)
    real = labels > 0
    right = np.sum((logits.argmax(-1) == labels) & real) / np.sum(real)
    assert result["accuracy"] == pytest.approx(right)
    assert np.isnan(result["wrong"])
    rates = [0.025, 0.1, 0.1 * (4 / 7) ** 0.5, 0.1 * (4 / 21) ** 0.5]
    rates += [0.025, 0.1, 0.05 * (1 + np.cos(0.6 * np.pi)), 0.0]
    np.testing.assert_allclose(result["rates"], rates, rtol=1e-5, atol=1e-8)
    assert result["falls"]
    assert result["metrics"] == ["loss", "masked_accuracy", "perplexity"]
    assert result["epoch"] == 3


REPLICA_SCRIPT = """
import json
import numpy as np, keras, tensorflow as tf
from keras_attn.metrics import MaskedAccuracy, Perplexity
from keras_attn.training import MaskedCrossEntropy
cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
x = np.random.default_rng(0).integers(1, 9, (8, 6)).astype("int32")
y = x % 8 + 1
y[:, 4:] = 0
def train():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Embedding(9, 9)])
    model.compile(keras.optimizers.SGD(0.5), MaskedCrossEntropy(), jit_compile=False,
                  weighted_metrics=[MaskedAccuracy(), Perplexity()])
    history = model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0).history
    return history["loss"] + history["perplexity"], model.get_weights()[0]
losses, weights = train()
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    of_two, weights_of_two = train()
print(json.dumps([losses, of_two, float(np.abs(weights - weights_of_two).max()),
                  float(np.abs(weights).max())]))
"""


@pytest.mark.slow
def test_two_replicas_train_as_one():
    losses, of_two, difference, size = answer("tensorflow", REPLICA_SCRIPT, errors=["UserWarning"])
    np.testing.assert_allclose(of_two, losses, rtol=1e-5)
    assert losses[2] < losses[0]
    assert losses[5] < losses[3]
    assert difference < 1e-6 < size
