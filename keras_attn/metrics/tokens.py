"""Metrics over the real tokens of padded sequences."""

from __future__ import annotations

from typing import TypeAlias

import keras
from keras import KerasTensor, ops

from keras_attn.ops.token_losses import check_tokens, token_cross_entropy, token_weights

Dtype: TypeAlias = str | keras.DTypePolicy | None


class _TokenMetric(keras.metrics.Metric):
    """Sums `w_t * value_t` and `w_t` over all batches; subclasses compute the values."""

    def __init__(self, ignore_id: int | None, name: str, dtype: Dtype = None):
        super().__init__(name=name, dtype=dtype)
        if ignore_id is not None and (isinstance(ignore_id, bool) or int(ignore_id) != ignore_id):
            raise ValueError(f"`ignore_id` must be an integer or None. Received: {ignore_id!r}")
        self.ignore_id = None if ignore_id is None else int(ignore_id)
        sums = keras.backend.result_type(self.dtype, "float32")  # float16 counts only to 2,048
        self.total = self.add_variable((), "zeros", sums, name="total")
        self.count = self.add_variable((), "zeros", sums, name="count")

    def _values(self, labels: KerasTensor, logits: KerasTensor) -> KerasTensor:
        raise NotImplementedError

    def _mean(self) -> KerasTensor:
        return ops.divide_no_nan(self.total, self.count)

    def update_state(
        self, y_true: KerasTensor, y_pred: KerasTensor, sample_weight: KerasTensor | None = None
    ) -> None:
        """Adds the tokens of a batch.

        Args:
            y_true: Integer labels `(B, T)`.
            y_pred: Logits `(B, T, V)`.
            sample_weight: Optional weights, `(B,)`, `(B, 1)` or `(B, T)`.
        """
        labels, logits = check_tokens(y_true, y_pred, type(self).__name__)
        weights = token_weights(labels, self.ignore_id, sample_weight, self.total.dtype)
        counts = ops.not_equal(weights, 0)
        values = self._values(ops.where(counts, labels, ops.zeros_like(labels)), logits)
        values = ops.cast(values, self.total.dtype)
        values = ops.where(counts, values, ops.zeros_like(values)) * weights
        self.total.assign_add(ops.sum(values))
        self.count.assign_add(ops.sum(weights))

    def result(self) -> KerasTensor:
        """Returns the weighted mean over all tokens since `reset_state`."""
        return ops.cast(self._mean(), self.dtype)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "ignore_id": self.ignore_id}


@keras.saving.register_keras_serializable(package="keras_attn")
class MaskedAccuracy(_TokenMetric):
    """Fraction of the real tokens whose label has the largest logit.

        w_t      = [y_t != ignore_id] * sample_weight_t
        accuracy = sum_t(w_t [argmax_k z_tk = y_t]) / sum_t(w_t)     0 without tokens

    y_t is the label of token t, z_tk is its logit for label k, and `[condition]` is 1 if the
    condition is true and 0 otherwise. Numerator and denominator are summed over all batches, so the
    result is the same as for one large batch. The implicit mask of the logits is not used.

    Args:
        ignore_id: Label that is ignored, usually the id of padding; no label is ignored if None.
        name: Name of the metric.
        dtype: Dtype of the result; the default float type of Keras if None. Sums over tokens are at
            least float32.

    Call arguments:
        y_true: Integer labels `(B, T)` of B sequences of T tokens.
        y_pred: Logits or probabilities `(B, T, V)` of the V labels.
        sample_weight: Optional weights, `(B,)`, `(B, 1)` or `(B, T)`. Keras passes them only to
            `weighted_metrics` of `compile`, not to `metrics`.

    Returns:
        A scalar, from `result()`.

    Raises:
        ValueError: If `ignore_id` is not an integer, labels are not integers, their shape is not
            the shape of the logits without the last axis, or the shape of the weights is wrong.

    Example:

    >>> import numpy as np
    >>> accuracy = MaskedAccuracy()
    >>> logits = np.eye(4, dtype="float32")[[[3, 2, 2]]]
    >>> float(accuracy(np.array([[3, 1, 0]]), logits))
    0.5
    """

    def __init__(
        self, ignore_id: int | None = 0, name: str = "masked_accuracy", dtype: Dtype = None
    ):
        super().__init__(ignore_id, name, dtype)
        self._direction = "up"

    def _values(self, labels: KerasTensor, logits: KerasTensor) -> KerasTensor:
        return ops.equal(ops.cast(ops.argmax(logits, axis=-1), labels.dtype), labels)


@keras.saving.register_keras_serializable(package="keras_attn")
class Perplexity(_TokenMetric):
    """Exponential of the mean negative log-likelihood of the real tokens.

        w_t        = [y_t != ignore_id] * sample_weight_t
        perplexity = exp(sum_t(w_t * -log softmax(z_t)[y_t]) / sum_t(w_t))     1 without tokens

    y_t is the label of token t, z_t are its logits, and `[y_t != ignore_id]` is 1 or 0. The metric
    does not use label smoothing, even if the loss does. The sums run over all batches, so the
    result is the same as for one large batch. The implicit mask of the logits is not used.

    Args:
        ignore_id: Label that is ignored, usually the id of padding; no label is ignored if None.
        name: Name of the metric.
        dtype: Dtype of the result; the default float type of Keras if None. Sums over tokens are at
            least float32.

    Call arguments:
        y_true: Integer labels `(B, T)` of B sequences of T tokens. A label outside the vocabulary
            makes the result NaN.
        y_pred: Logits `(B, T, V)` of the V labels.
        sample_weight: Optional weights, `(B,)`, `(B, 1)` or `(B, T)`. Keras passes them only to
            `weighted_metrics` of `compile`, not to `metrics`.

    Returns:
        A scalar, from `result()`.

    Raises:
        ValueError: If `ignore_id` is not an integer, labels are not integers, their shape is not
            the shape of the logits without the last axis, or the shape of the weights is wrong.

    Example:

    >>> import numpy as np
    >>> perplexity = Perplexity()
    >>> round(float(perplexity(np.array([[3, 1, 0]]), np.zeros((1, 3, 4), "float32"))), 3)
    4.0
    """

    def __init__(self, ignore_id: int | None = 0, name: str = "perplexity", dtype: Dtype = None):
        super().__init__(ignore_id, name, dtype)
        self._direction = "down"

    def _values(self, labels: KerasTensor, logits: KerasTensor) -> KerasTensor:
        return token_cross_entropy(labels, logits)

    def result(self) -> KerasTensor:
        """Returns the perplexity of all tokens since `reset_state`."""
        return ops.cast(ops.exp(self._mean()), self.dtype)
