"""Metrics over the real tokens of padded sequences, right over batches of any size."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attn.training.losses import check_tokens, token_cross_entropy, token_weights


class _TokenMetric(keras.metrics.Metric):
    """Sums `w_t * value_t` and `w_t` over all batches; subclasses give the values."""

    def __init__(self, ignore_id: int | None, name: str, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        if ignore_id is not None and (isinstance(ignore_id, bool) or int(ignore_id) != ignore_id):
            raise ValueError(f"`ignore_id` must be an integer or None. Received: {ignore_id!r}")
        self.ignore_id = None if ignore_id is None else int(ignore_id)
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self.count = self.add_variable(shape=(), initializer="zeros", name="count")

    def _values(self, labels: Any, logits: Any) -> Any:
        raise NotImplementedError

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add the tokens of a batch.

        Args:
            y_true: (B, T) integer labels.
            y_pred: (B, T, V) logits.
            sample_weight: Optional weights of shape (B,), (B, 1) or (B, T).
        """
        labels, logits = check_tokens(y_true, y_pred, type(self).__name__)
        weights = token_weights(labels, self.ignore_id, sample_weight, "float32")
        counts = ops.not_equal(weights, 0)
        values = self._values(ops.where(counts, labels, ops.zeros_like(labels)), logits)
        values = ops.cast(values, "float32")
        values = ops.where(counts, values, ops.zeros_like(values)) * weights
        self.total.assign_add(ops.cast(ops.sum(values), self.total.dtype))
        self.count.assign_add(ops.cast(ops.sum(weights), self.count.dtype))

    def result(self) -> Any:
        """The weighted mean over all tokens since `reset_state`."""
        return ops.divide_no_nan(self.total, self.count)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "ignore_id": self.ignore_id}


@keras.saving.register_keras_serializable(package="keras_attn")
class MaskedAccuracy(_TokenMetric):
    """Share of the real tokens whose label has the largest logit.

        w_t      = [y_t != ignore_id] * sample_weight_t
        accuracy = sum_t(w_t [argmax_k z_tk = y_t]) / sum_t(w_t)     0 without a token

    Numerator and denominator are added up over the batches, so that the result is that of one
    large batch. The implicit mask of the logits is not used.

    Args:
        ignore_id: Label that does not count, usually the id of padding. None: all count.
        name: Name of the metric.
        dtype: Type of the sums.

    Call arguments:
        y_true: (B, T) integer labels.
        y_pred: (B, T, V) logits or probabilities.
        sample_weight: Optional weights of shape (B,), (B, 1) or (B, T). Keras passes them to what
            stands in `weighted_metrics` of `compile`, not in `metrics`.

    Returns:
        A scalar, from `result()`.

    Raises:
        ValueError: Labels that are not integers, or whose shape is not that of the logits
            without V.

    Example:

    >>> import numpy as np
    >>> accuracy = MaskedAccuracy()
    >>> logits = np.eye(4, dtype="float32")[[[3, 2, 2]]]
    >>> float(accuracy(np.array([[3, 1, 0]]), logits))
    0.5
    """

    def __init__(self, ignore_id: int | None = 0, name: str = "masked_accuracy", dtype: Any = None):
        super().__init__(ignore_id, name, dtype)
        self._direction = "up"

    def _values(self, labels: Any, logits: Any) -> Any:
        return ops.equal(ops.cast(ops.argmax(logits, axis=-1), labels.dtype), labels)


@keras.saving.register_keras_serializable(package="keras_attn")
class Perplexity(_TokenMetric):
    """Exponential of the mean negative log-likelihood of the real tokens.

        w_t        = [y_t != ignore_id] * sample_weight_t
        perplexity = exp(sum_t(w_t * -log softmax(z_t)[y_t]) / sum_t(w_t))     1 without a token

    There is no label smoothing in it, whatever the loss has. The sums run over all batches, so
    that the result is that of one large batch; the implicit mask of the logits is not used.

    Args:
        ignore_id: Label that does not count, usually the id of padding. None: all count.
        name: Name of the metric.
        dtype: Type of the sums.

    Call arguments:
        y_true: (B, T) integer labels. One outside the vocabulary makes the result NaN.
        y_pred: (B, T, V) logits.
        sample_weight: Optional weights of shape (B,), (B, 1) or (B, T). Keras passes them to what
            stands in `weighted_metrics` of `compile`, not in `metrics`.

    Returns:
        A scalar, from `result()`.

    Raises:
        ValueError: Labels that are not integers, or whose shape is not that of the logits
            without V.

    Example:

    >>> import numpy as np
    >>> perplexity = Perplexity()
    >>> round(float(perplexity(np.array([[3, 1, 0]]), np.zeros((1, 3, 4), "float32"))), 3)
    4.0
    """

    def __init__(self, ignore_id: int | None = 0, name: str = "perplexity", dtype: Any = None):
        super().__init__(ignore_id, name, dtype)
        self._direction = "down"

    def _values(self, labels: Any, logits: Any) -> Any:
        return token_cross_entropy(labels, logits)

    def result(self) -> Any:
        """The perplexity of all tokens since `reset_state`."""
        return ops.exp(super().result())
