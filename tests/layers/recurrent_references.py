"""Attention of recurrent networks in NumPy float64, written from the papers, token by token."""

import numpy as np


def softmax(scores):
    e = np.exp(scores - scores.max())
    return e / e.sum()


def additive_score(query, key, Wq, Wk, v, b=0.0, gain=None):
    """Bahdanau et al., 2015, A.1.2; with `gain` Salimans and Kingma, 2016."""
    v = v if gain is None else gain * v / np.sqrt(np.sum(v**2))
    return v @ np.tanh(query @ Wq + key @ Wk + b)


def luong_score(kind, query, key, **w):
    """Luong et al., 2015, equation 8; `scaled` has a factor."""
    if kind == "dot":
        return query @ key
    if kind == "general":
        return query @ w["W"] @ key
    if kind == "scaled":
        return w["g"] * (query @ key)
    return w["v"] @ np.tanh(np.concatenate([query, key]) @ w["W"])


def attend(score, query, memory, visible=None, window=None, position=None, Wp=None, vp=None):
    """One query over the rows of `memory`; windows as in section 3.2 of Luong et al."""
    n = len(memory)
    here = [s for s in range(n) if visible is None or visible[s]]
    index = {s: i for i, s in enumerate(here)}  # positions of tokens: padding has none
    factor = dict.fromkeys(here, 1.0)
    if window is not None:
        kind, D = window
        p = float(position)
        if kind == "predictive":
            p = len(here) / (1 + np.exp(-(vp @ np.tanh(query @ Wp))))
            factor = {s: np.exp(-((index[s] - p) ** 2) / (2 * (D / 2) ** 2)) for s in here}
        here = [s for s in here if abs(index[s] - p) <= D]
    weights = np.zeros(n)
    if here:
        weights[here] = softmax(np.array([score(query, memory[s]) for s in here]))
        weights[here] *= [factor[s] for s in here]
    return weights @ memory, weights


def gru(x, h, kernel, recurrent, bias):
    """Cho et al., 2014, with the reset after the product, as cuDNN and Keras have it."""
    U = len(h)
    a, b = x @ kernel + bias[0], h @ recurrent + bias[1]
    z = 1 / (1 + np.exp(-(a[:U] + b[:U])))
    r = 1 / (1 + np.exp(-(a[U : 2 * U] + b[U : 2 * U])))
    candidate = np.tanh(a[2 * U :] + r * b[2 * U :])
    return z * h + (1 - z) * candidate


def lstm(x, state, kernel, recurrent, bias):
    """Hochreiter and Schmidhuber, 1997, with a forget gate; Keras' order of gates."""
    h, c = state
    U = len(h)
    z = x @ kernel + h @ recurrent + bias
    i, f, o = (1 / (1 + np.exp(-z[k * U : (k + 1) * U])) for k in (0, 1, 3))
    c = f * c + i * np.tanh(z[2 * U : 3 * U])
    return o * np.tanh(c), c
