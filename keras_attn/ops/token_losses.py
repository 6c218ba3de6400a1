"""Weights and cross-entropy of tokens, for losses and metrics."""

from __future__ import annotations

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.derivatives import custom_gradient
from keras_attn.ops.masks import dtypes_are_guessed


def check_tokens(labels: Tensor, logits: Tensor, owner: str) -> tuple[Tensor, Tensor]:
    """Returns labels as integers and logits as floats of at least 32 bits, after checks."""
    labels = ops.convert_to_tensor(labels)
    logits = ops.convert_to_tensor(logits)
    of_labels, of_logits = tuple(labels.shape), tuple(logits.shape)
    known = all(
        a is None or b is None or a == b for a, b in zip(of_labels, of_logits[:-1], strict=False)
    )
    if len(of_logits) != len(of_labels) + 1 or not of_labels or not known:
        raise ValueError(
            f"{owner} expected logits of shape (B, T, V) and labels of shape (B, T), with "
            f"the same B and T. Received: logits of shape {of_logits} and labels of shape "
            f"{of_labels}. Pass token ids, not one-hot vectors, and the logits of every "
            "position."
        )
    if of_logits[-1] is None:
        raise ValueError(
            f"{owner} expected logits of shape (B, T, V) with a known V. Received: shape "
            f"{of_logits}. Fix the last dimension, for example with keras.ops.reshape."
        )
    dtype = keras.backend.standardize_dtype(labels.dtype)
    if dtype.startswith("float") and dtypes_are_guessed():
        labels, dtype = ops.cast(labels, "int32"), "int32"
    if "int" not in dtype:
        raise ValueError(
            f"{owner} expected labels of an integer type. Received: {dtype} labels of shape "
            f"{of_labels} for logits of shape {of_logits}. Give token ids."
        )
    if keras.backend.standardize_dtype(logits.dtype) != "float64":
        logits = ops.cast(logits, "float32")
    return labels, logits


def token_weights(
    labels: Tensor, ignore_id: int | None, sample_weight: Tensor | None, dtype: str
) -> Tensor:
    """Returns `(labels != ignore_id) * sample_weight` in the shape of the labels."""
    if ignore_id is None:
        weights = ops.ones_like(labels, dtype=dtype)
    else:
        weights = ops.cast(ops.not_equal(labels, ignore_id), dtype)
    if sample_weight is None:
        return weights
    sample_weight = ops.cast(ops.convert_to_tensor(sample_weight), dtype)
    of_weights, of_labels = tuple(sample_weight.shape), tuple(labels.shape)
    known = all(
        a is None or b is None or a in (1, b) for a, b in zip(of_weights, of_labels, strict=False)
    )
    if len(of_weights) > len(of_labels) or not known:
        raise ValueError(
            "Expected `sample_weight` of shape (B,), (B, 1) or (B, T). Received: sample_weight "
            f"of shape {of_weights} for labels of shape {of_labels}."
        )
    while len(sample_weight.shape) < len(of_labels):
        sample_weight = ops.expand_dims(sample_weight, -1)
    return weights * sample_weight


def token_cross_entropy(labels: Tensor, logits: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Computes the cross-entropy of each token, with a custom gradient.

    For logits z, a label y and smoothing e the loss is

        l = logsumexp(z) - (1 - e) z_y - e mean_k z_k
        dl/dz_k = softmax(z)_k - (1 - e) [k = y] - e / V

    Only z is kept for the backward pass, and the gradient is computed in one pass. The automatic
    gradient would scatter into zeros of the size of z, which takes longer on a CPU than the rest of
    the loss.
    """
    size = logits.shape[-1]
    known = ops.logical_and(labels >= 0, labels < size)
    labels = ops.cast(ops.where(known, labels, ops.zeros_like(labels)), "int32")
    labels = ops.expand_dims(labels, -1)  # (B, T, 1)

    def losses(z: Tensor, labels: Tensor):
        loss = ops.logsumexp(z, axis=-1)
        loss = loss - (1.0 - label_smoothing) * ops.squeeze(
            ops.take_along_axis(z, labels, axis=-1), -1
        )
        if label_smoothing:
            loss = loss - label_smoothing * ops.mean(z, axis=-1)

        def grad(*args, upstream: Tensor | None = None):
            upstream = ops.expand_dims(args[0] if upstream is None else upstream, -1)
            rest = label_smoothing / size
            chosen = ops.equal(ops.arange(size, dtype="int32"), labels)  # (B, T, V)
            wanted = ops.where(chosen, (1.0 - label_smoothing + rest) * upstream, rest * upstream)
            return ops.softmax(z, axis=-1) * upstream - wanted

        return loss, grad

    return ops.where(known, custom_gradient(losses, labels)(logits), float("nan"))
