"""Cross-entropy over the real tokens of padded sequences."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attn.ops.masks import dtypes_are_guessed
from keras_attn.ops.replicas import sum_over_replicas


def check_tokens(labels: Any, logits: Any, owner: str) -> tuple[Any, Any]:
    """Returns labels as integers and logits as floats of at least 32 bits, after checks.

    Args:
        labels: Integers (B, T).
        logits: Floats (B, T, V).
        owner: Name of the class, for the error message.
    """
    labels = ops.convert_to_tensor(labels)
    logits = ops.convert_to_tensor(logits)
    of_labels, of_logits = tuple(labels.shape), tuple(logits.shape)
    known = all(
        a is None or b is None or a == b for a, b in zip(of_labels, of_logits[:-1], strict=False)
    )
    if len(of_logits) != len(of_labels) + 1 or not of_labels or not known:
        raise ValueError(
            f"{owner} expected logits of shape (B, T, V) and labels of shape (B, T), the same B "
            f"and T. Received: logits of shape {of_logits} and labels of shape {of_labels}. "
            "Give token ids, not one-hot vectors, and the logits of every position."
        )
    if of_logits[-1] is None:
        raise ValueError(
            f"{owner} expected logits (B, T, V) of a known V. Received: shape {of_logits}. "
            "Fix the last dimension, for example with keras.ops.reshape."
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


def token_weights(labels: Any, ignore_id: int | None, sample_weight: Any, dtype: str) -> Any:
    """Returns `(labels != ignore_id) * sample_weight` in the shape of the labels.

    Args:
        labels: Integers (B, T).
        ignore_id: Label that does not count; all count if None.
        sample_weight: None, or weights of shape (B,), (B, 1) or (B, T).
        dtype: Dtype of the result.
    """
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


def token_cross_entropy(labels: Any, logits: Any, label_smoothing: float = 0.0) -> Any:
    """Returns the cross-entropy of each token, with a custom gradient.

    For logits z, a label y and smoothing e the loss is

        l = logsumexp(z) - (1 - e) z_y - e mean_k z_k
        dl/dz_k = softmax(z)_k - (1 - e) [k = y] - e / V

    Only z is kept for the backward pass, and the gradient is computed in one pass. In the automatic
    gradient, the gather of z_y would scatter into zeros of the size of z, which takes longer on a
    CPU than the rest of the loss.

    Args:
        labels: Integers (B, T) from 0 to V - 1.
        logits: float32 or float64 (B, T, V).
        label_smoothing: Smoothing e, from 0 to below 1.

    Returns:
        Losses (B, T), with NaN where a label is outside the vocabulary.
    """
    size = logits.shape[-1]
    known = ops.logical_and(labels >= 0, labels < size)
    labels = ops.cast(ops.where(known, labels, ops.zeros_like(labels)), "int32")
    labels = ops.expand_dims(labels, -1)  # (B, T, 1)

    @ops.custom_gradient
    def losses(z):
        loss = ops.logsumexp(z, axis=-1)
        loss = loss - (1.0 - label_smoothing) * ops.squeeze(
            ops.take_along_axis(z, labels, axis=-1), -1
        )
        if label_smoothing:
            loss = loss - label_smoothing * ops.mean(z, axis=-1)

        def grad(*args, upstream=None):
            upstream = ops.expand_dims(args[0] if upstream is None else upstream, -1)
            rest = label_smoothing / size
            chosen = ops.equal(ops.arange(size, dtype="int32"), labels)  # (B, T, V)
            wanted = ops.where(chosen, (1.0 - label_smoothing + rest) * upstream, rest * upstream)
            return ops.softmax(z, axis=-1) * upstream - wanted

        return loss, grad

    return ops.where(known, losses(logits), float("nan"))


@keras.saving.register_keras_serializable(package="keras_attn")
class MaskedCrossEntropy(keras.losses.Loss):
    r"""Cross-entropy of logits, averaged over the real tokens, with label smoothing.

        w_t  = [y_t != ignore_id] * sample_weight_t
        l_t  = (1 - e) * -log p_t[y_t] + e * mean_k(-log p_t[k]),   p_t = softmax(z_t)
        loss = sum_t(w_t * l_t) / sum_t(w_t)                        0 without real tokens

    It is `torch.nn.functional.cross_entropy(z, y, ignore_index=..., label_smoothing=e)`. The sums
    run over all tokens of the batch, so a long sentence counts more than a short one, and padding
    counts neither in the loss nor in the gradient nor in the mean. The weights come from the labels
    and `sample_weight` alone; the implicit Keras mask of the logits is neither needed nor used.

    The loss is computed in float32 at least (float64 logits stay float64), from the logits, without
    a one-hot tensor; see `token_cross_entropy`.

    On several devices the sums run over the tokens of all devices. Under `tf.distribute` each
    replica gets its part of the loss, `sum_t(w_t * l_t)` of its own tokens divided by the weights
    of all; Keras adds the parts and their gradients.

    Args:
        label_smoothing: e, from 0 to below 1 (Szegedy et al. 2016, https://arxiv.org/abs/1512.00567;
            0.1 in Vaswani et al. 2017, https://arxiv.org/abs/1706.03762).
        ignore_id: Label that does not count, usually the id of padding; all labels count if None.
        name: Name of the loss.

    Call arguments:
        y_true: Integer labels (B, T). A label outside 0 ... V - 1 that is not `ignore_id` and has
            a weight makes the loss NaN, on every backend.
        y_pred: Logits (B, T, V).
        sample_weight: Optional weights of shape (B,), (B, 1) or (B, T).

    Returns:
        A scalar.

    Raises:
        ValueError: If `label_smoothing` is out of range, or labels are not integers or do not have
            the shape of the logits without V.

    Example:

    >>> import numpy as np
    >>> loss = MaskedCrossEntropy(label_smoothing=0.1)
    >>> round(float(loss(np.array([[3, 1, 0]]), np.zeros((1, 3, 4), "float32"))), 4)  # ln 4
    1.3863
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        ignore_id: int | None = 0,
        name: str = "masked_cross_entropy",
    ):
        super().__init__(name=name, reduction="mean_with_sample_weight")
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(
                f"`label_smoothing` must be at least 0 and below 1. Received: {label_smoothing!r}"
            )
        if ignore_id is not None and (isinstance(ignore_id, bool) or int(ignore_id) != ignore_id):
            raise ValueError(f"`ignore_id` must be an integer or None. Received: {ignore_id!r}")
        self.label_smoothing = float(label_smoothing)
        self.ignore_id = None if ignore_id is None else int(ignore_id)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Returns the weighted mean over the tokens of the batch, a scalar."""
        labels, logits = check_tokens(y_true, y_pred, type(self).__name__)
        dtype = keras.backend.standardize_dtype(logits.dtype)
        weights = token_weights(labels, self.ignore_id, sample_weight, dtype)
        counts = ops.not_equal(weights, 0)
        labels = ops.where(counts, labels, ops.zeros_like(labels))
        losses = token_cross_entropy(labels, logits, self.label_smoothing)
        losses = ops.where(counts, losses, ops.zeros_like(losses)) * weights
        return ops.divide_no_nan(ops.sum(losses), sum_over_replicas(ops.sum(weights)))

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the loss (B, T) of each token, 0 where the label is `ignore_id`."""
        labels, logits = check_tokens(y_true, y_pred, type(self).__name__)
        dtype = keras.backend.standardize_dtype(logits.dtype)
        counts = ops.not_equal(token_weights(labels, self.ignore_id, None, dtype), 0)
        labels = ops.where(counts, labels, ops.zeros_like(labels))
        losses = token_cross_entropy(labels, logits, self.label_smoothing)
        return ops.where(counts, losses, ops.zeros_like(losses))

    def get_config(self) -> dict[str, Any]:
        """Returns the config."""
        return {
            "label_smoothing": self.label_smoothing,
            "ignore_id": self.ignore_id,
            "name": self.name,
        }
