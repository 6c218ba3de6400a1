"""Show, Attend and Tell (Xu et al., 2015) in NumPy float64, written from the paper.

The weights are a dict with the names of the paper; LSTM gates are in the order of the paper's
equation 1: input, forget, output, candidate.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def initial(w, a, name):
    """Section 3.1.2: an MLP of the mean of the annotation vectors."""
    mean = a.sum(axis=0) / len(a)
    if f"{name} hidden W" in w:
        mean = np.maximum(mean @ w[f"{name} hidden W"] + w[f"{name} hidden b"], 0)
    return np.tanh(mean @ w[f"{name} W"] + w[f"{name} b"])


def caption(w, a, tokens, activation=lambda x: x):
    """Logits and weights of each step: one picture of regions `a` (R, D), the tokens read."""
    c, h = initial(w, a, "init c"), initial(w, a, "init h")
    logits, alphas = [], []
    for y in tokens:
        Ey = w["E"][y]
        # Equations 4 to 6, and the gate of section 4.2.1.
        e = np.array([w["v"] @ np.tanh(w["Wa"].T @ ai + w["Ua"].T @ h + w["ba"]) for ai in a])
        alpha = np.exp(e) / np.exp(e).sum()
        z = sum(weight * ai for weight, ai in zip(alpha, a, strict=True))
        if "f_beta" in w:
            z = sigmoid(w["f_beta"] @ h + w["b_beta"]) * z
        # Equations 1 to 3.
        joined = np.concatenate([Ey, h, z])
        i, f, o = (sigmoid(joined @ w[f"W{k}"] + w[f"b{k}"]) for k in "ifo")
        c = f * c + i * np.tanh(joined @ w["Wg"] + w["bg"])
        h = o * np.tanh(c)
        # Equation 7.
        logits.append(activation(Ey + w["Lh"].T @ h + w["Lz"].T @ z) @ w["Lo"] + w["b out"])
        alphas.append(alpha)
    return np.array(logits), np.array(alphas)


def objective(w, pictures, read, wanted, weight, **options):
    """Equation 14 summed over captions, divided by the number of tokens; 0 is padding."""
    total, count = 0.0, 0
    for a, inputs, labels in zip(pictures, read, wanted, strict=True):
        length = int((inputs != 0).sum())
        if not length:
            continue
        logits, alphas = caption(w, a, inputs[:length], **options)
        for z, y in zip(logits, labels[:length], strict=True):
            total -= z[y] - np.log(np.exp(z).sum())
        total += weight * sum((1 - alphas[:, i].sum()) ** 2 for i in range(len(a)))
        count += length
    return total / count


def weights_of(model):
    """The variables of a `soft_attention_captioner` for each name: `(variable, slice, factor)`."""
    decoder = model.get_layer("decoder")
    embedding = model.get_layer("embedding")
    attention = decoder.attention[0]
    kernel, recurrent, bias = (
        decoder.cell.kernel,
        decoder.cell.recurrent_kernel,
        decoder.cell.bias,
    )
    m, n, D = embedding.dim, decoder.cell.units, kernel.shape[0] - embedding.dim
    everything = slice(None)
    found = {
        "E": [(embedding.weights[0], everything, m**0.5)],
        "Wa": [(attention.key_dense.kernel, everything, 1)],
        "Ua": [(attention.query_dense.kernel, everything, 1)],
        "ba": [(attention.query_dense.bias, everything, 1)],
        "v": [(attention.scale, (everything, 0), 1)],
        "Lh": [(decoder.attention_dense.kernel, slice(0, n), 1)],
        "Lz": [(decoder.attention_dense.kernel, slice(n, n + D), 1)],
        "Lo": [(model.get_layer("head").kernel, everything, 1)],
        "b out": [(model.get_layer("head").bias, everything, 1)],
    }
    if decoder.context_gate:
        found["f_beta"] = [(decoder.gate_dense.kernel, (everything, 0), 1)]
        found["b_beta"] = [(decoder.gate_dense.bias, everything, 1)]
    for name, dense in zip(("init h", "init c"), decoder.bridge_denses, strict=True):
        found[f"{name} W"] = [(dense.kernel, everything, 1)]
        found[f"{name} b"] = [(dense.bias, everything, 1)]
    for name, dense in zip(("init h", "init c"), decoder.bridge_hidden, strict=False):
        found[f"{name} hidden W"] = [(dense.kernel, everything, 1)]
        found[f"{name} hidden b"] = [(dense.bias, everything, 1)]
    for k, gate in enumerate("ifgo"):  # Keras' order
        here = slice(k * n, (k + 1) * n)
        found[f"W{gate}"] = [
            (kernel, (slice(0, m), here), 1),  # E y
            (recurrent, (everything, here), 1),  # h
            (kernel, (slice(m, m + D), here), 1),  # z
        ]
        found[f"b{gate}"] = [(bias, here, 1)]
    return found


def values_of(model, value_of, power=1):
    """The dict of weights for `value_of(variable)`, an array; of gradients with a power of -1."""
    found = {}
    for name, pieces in weights_of(model).items():
        parts = [value_of(variable)[index] * factor**power for variable, index, factor in pieces]
        found[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
    return found
