"""On JAX: functions with hand-written gradients, which a checkpoint and a scan trace again.

It prints how far the gradients in a checkpoint, and in a scan, are from those outside.
"""

import json

import jax
import keras
import numpy as np
from keras import ops

from keras_attn.layers import MultiHeadSelfAttention, TransformerEncoder
from keras_attn.training import MaskedCrossEntropy, linear_cross_entropy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 6, 8)).astype("float32")
LABELS = RNG.integers(0, 8, (3, 6))
MASK = np.arange(6) < [[6], [3], [1]]
KERNEL = np.eye(8, dtype="float32") * 2

ATTENTION = {
    "a mask": ({}, {"mask": MASK}),
    "lengths": ({"right_padding": True}, {"mask": MASK}),
    "a window": ({"sliding_window": 2}, {"mask": MASK}),
    "mask_mod": ({"mask_mod": lambda head, query, key: query >= key}, {}),
    "score_mod": (
        {"score_mod": lambda score, head, query, key: score - ops.cast(query - key, score.dtype)},
        {"positions": np.cumsum(MASK, axis=1)},
    ),
}


def chunked(settings, call):
    layer = MultiHeadSelfAttention(2, attention_kernel="chunked", seed=1, **settings)
    layer(X, **call)
    trained, fixed = (
        [v.value for v in variables]
        for variables in (layer.trainable_variables, layer.non_trainable_variables)
    )

    def loss(x, *given):
        call_again = dict(zip(call, given, strict=True))
        return ops.sum(layer.stateless_call(trained, fixed, x, **call_again)[0] ** 2)

    return loss, X, *call.values()


def differences(loss, x, *given):
    expected = jax.grad(loss)(x, *given)

    def scanned(x, *given):
        rows = [ops.expand_dims(y, 0) for y in given]
        each = (ops.zeros((1,)), *rows)  # a scan needs an array, and there may be none
        return jax.lax.scan(lambda sum_, y: (sum_ + loss(x, *y[1:]), 0), 0.0, each)[0]

    found = jax.grad(jax.checkpoint(loss))(x, *given), jax.grad(scanned)(x, *given)
    return [float(abs(gradient - expected).max() / abs(expected).max()) for gradient in found]


def of_tokens(hidden, labels):
    weights = ops.cast(labels > 0, "float32")
    rows = ops.reshape(hidden, (-1, 8))
    flat = (ops.reshape(y, (-1,)) for y in (labels, weights))
    return linear_cross_entropy(rows, KERNEL, *flat, 0.1, chunk_size=4)


def fitted(rematerialize):
    """The losses of a training, with and without recomputed blocks."""
    keras.utils.set_random_seed(1)
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, 8, mask_zero=True)(ids)
    stack = TransformerEncoder(
        1, 2, intermediate_dim=8, attention_kernel="chunked", rematerialize=rematerialize
    )
    model = keras.Model(ids, keras.layers.Dense(8)(stack(x)))
    model.compile("sgd", MaskedCrossEntropy(0.1))
    history = model.fit(LABELS * MASK, LABELS, epochs=2, verbose=0, shuffle=False)
    return history.history["loss"]


if __name__ == "__main__":
    found = {name: differences(*chunked(*case)) for name, case in ATTENTION.items()}
    found["cross-entropy"] = differences(lambda z, y: MaskedCrossEntropy(0.1)(y, z), X, LABELS)
    found["loss in chunks"] = differences(of_tokens, X, LABELS)
    print(json.dumps({"gradients": found, "losses": [fitted(again) for again in (False, True)]}))
