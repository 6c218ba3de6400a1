"""Prints the chunked loss and its gradients, and losses of a training, on another backend."""

import json
import sys

import keras
import numpy as np
from keras import ops

from keras_attn.training import ChunkedLossModel, MaskedCrossEntropy, linear_cross_entropy


def value_and_gradients(hidden, kernel, bias, labels, weights):
    def loss(h, k, b):
        rest = map(ops.convert_to_tensor, (labels, weights))
        return linear_cross_entropy(h, k, *rest, 0.1, b, 8)

    if keras.backend.backend() == "jax":
        import jax

        value, gradients = jax.jit(jax.value_and_grad(loss, (0, 1, 2)))(hidden, kernel, bias)
    else:
        import torch

        given = [torch.tensor(x, requires_grad=True) for x in (hidden, kernel, bias)]
        value = loss(*given)
        value.backward()
        gradients = [x.grad for x in given]
    return float(ops.convert_to_numpy(value)), list(map(ops.convert_to_numpy, gradients))


def second_gradient(hidden, kernel, bias, labels, weights):
    """The gradient by `hidden` of the sum of the squared gradient, or the error."""

    def loss(h):
        return linear_cross_entropy(
            h, *map(ops.convert_to_tensor, (kernel, labels, weights)), 0.1, chunk_size=8
        )

    if keras.backend.backend() == "jax":
        import jax

        return jax.grad(lambda h: ops.sum(jax.grad(loss)(h) ** 2))(hidden).tolist()
    import torch

    h = torch.tensor(hidden, requires_grad=True)
    (first,) = torch.autograd.grad(loss(h), h, create_graph=True)
    try:
        torch.autograd.grad((first**2).sum() + (h**2).sum(), h)
    except NotImplementedError as error:
        return str(error)


def losses(ids):
    """Of plain and of chunked training, from the same weights."""
    found = []
    for wrap in (lambda model: model, lambda model: ChunkedLossModel(model, 16)):
        keras.utils.set_random_seed(1)
        x = keras.Input((ids.shape[1],), dtype="int32")
        logits = keras.layers.Dense(40)(keras.layers.Embedding(40, 8)(x))
        model = wrap(keras.Model(x, logits))
        model.compile(keras.optimizers.SGD(0.5), MaskedCrossEntropy(0.1))
        history = model.fit(ids, ids, batch_size=4, epochs=3, shuffle=False, verbose=0)
        found.append([*history.history["loss"], model.evaluate(ids, ids, verbose=0)])
    return found


if __name__ == "__main__":
    given = np.load(sys.argv[1])
    names = ("hidden", "kernel", "bias", "labels", "weights")
    value, gradients = value_and_gradients(*(given[name] for name in names))
    np.savez(sys.argv[2], *gradients)
    second = second_gradient(*(given[name] for name in names))
    print(json.dumps({"value": value, "losses": losses(given["ids"]), "second": second}))
