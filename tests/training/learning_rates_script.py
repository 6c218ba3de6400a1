"""Two dense layers with a learning rate each, fitted by Keras, and in float64 by hand.

Run: the greatest distance of the weights of each case, as JSON.
"""

import json

import keras
import numpy as np

from keras_attn.training import averaged_weights, scale_learning_rate

RATE, FACTOR, DECAY, CLIP, MOMENTUM = 0.01, 0.1, 0.1, 1.0, 0.7
CASES = {
    "plain": {},
    "average": {"use_ema": True, "ema_momentum": MOMENTUM},
    "accumulated": {"gradient_accumulation_steps": 2},
    "scaled loss": {},
    "by a schedule": {},
}


def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(64, 4)).astype("float32"), rng.normal(size=(64, 1)).astype("float32")


def build():
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(3, name="slow"), keras.layers.Dense(1, name="fast")]
    )
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(size=v.shape) for v in model.weights])
    return model


def rate_of(case, step):
    return RATE * 0.8**step if case == "by a schedule" else RATE


def fitted(case):
    """The weights after three epochs of four batches; of their average where there is one."""
    model = build()
    rate = RATE
    if case == "by a schedule":
        rate = keras.optimizers.schedules.ExponentialDecay(RATE, 1, 0.8)
    optimizer = keras.optimizers.AdamW(rate, DECAY, global_clipnorm=CLIP, **CASES[case])
    if case == "scaled loss":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    scale_learning_rate(optimizer, {id(v): FACTOR for v in model.get_layer("slow").variables})
    model.compile(optimizer, "mse")
    x, y = data()
    model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
    with averaged_weights(model):
        return model.get_weights()


def by_hand(case):
    """AdamW (Loshchilov and Hutter, 2019) with a clipped gradient, in float64."""
    x, y = (a.astype("float64") for a in data())
    weights = [np.array(v, "float64") for v in build().get_weights()]
    first, second = [0 * v for v in weights], [0 * v for v in weights]
    average, sums, step = [*weights], [0 * v for v in weights], 0
    every = CASES[case].get("gradient_accumulation_steps", 1)
    for batch in range(12):
        part = slice(batch % 4 * 16, batch % 4 * 16 + 16)
        hidden = x[part] @ weights[0] + weights[1]
        error = 2 * (hidden @ weights[2] + weights[3] - y[part]) / 16
        back = error @ weights[2].T
        grads = [x[part].T @ back, back.sum(0), hidden.T @ error, error.sum(0)]
        sums = [s + g / every for s, g in zip(sums, grads, strict=True)]
        if (batch + 1) % every:
            continue
        norm = np.sqrt(sum((g**2).sum() for g in sums))
        for i, grad in enumerate(sums):
            grad = grad * min(1, CLIP / norm)
            rate = rate_of(case, step) * (FACTOR if i < 2 else 1)
            first[i] = 0.9 * first[i] + 0.1 * grad
            second[i] = 0.999 * second[i] + 0.001 * grad**2
            scale = np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
            weights[i] = weights[i] * (1 - DECAY * rate)
            weights[i] -= rate * scale * first[i] / (np.sqrt(second[i]) + 1e-7)
            momentum = MOMENTUM if step else 0.0  # Keras' average begins after the first update
            average[i] = momentum * average[i] + (1 - momentum) * weights[i]
        sums, step = [0 * v for v in weights], step + 1
    return average if "average" in case else weights


def distance(a, b):
    return max(float(np.abs(x - y).max()) for x, y in zip(a, b, strict=True))


def nadam():
    """Distance from plain Nadam, whose state for all weights advances once a step."""
    moved = {}
    for scaled in (False, True):
        slow, fast = keras.Variable([1.0, 2.0]), keras.Variable([1.0, 2.0])
        optimizer = keras.optimizers.Nadam(RATE)
        if scaled:
            scale_learning_rate(optimizer, {id(slow): FACTOR})
        for step in range(5):
            grad = keras.ops.array([0.5, -1.0]) * (step + 1)
            optimizer.apply([grad, grad], [slow, fast])
        moved[scaled] = [keras.ops.convert_to_numpy(v) - [1.0, 2.0] for v in (slow, fast)]
    slow, fast = moved[False]
    return distance([FACTOR * slow, fast], moved[True])


if __name__ == "__main__":
    found = {case: distance(fitted(case), by_hand(case)) for case in CASES}
    found["nadam"] = nadam()
    print(json.dumps({**found, "backend": keras.backend.backend()}))
