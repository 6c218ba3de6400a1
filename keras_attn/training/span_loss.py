"""Cross-entropy of the first and the last token of a span."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class SpanCrossEntropy(keras.losses.Loss):
    """Cross-entropy of the first and the last token of a span.

        loss = -1/2 (log softmax_t(z[t, 0])[first] + log softmax_t(z[t, 1])[last])

    z are the logits, and `first` and `last` the indices of the first and the last token of the
    span. The softmax is over the real tokens of a row.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 4.2.

    Args:
        name: Name of the loss.
        **kwargs: Other arguments of `keras.losses.Loss`.

    Call arguments:
        y_true: Integers `(B, 3)`: the indices of the first and the last token of the span, and the
            number of tokens of the row.
        y_pred: Logits `(B, T, 2)`.
        sample_weight: Weight of each row, or None.

    Returns:
        A scalar, the mean of the weighted losses of the rows, unless `**kwargs` has another
        `reduction`.

    Raises:
        ValueError: If labels or predictions have the wrong shape.

    Example:

    >>> loss = SpanCrossEntropy()
    >>> logits = ops.zeros((1, 6, 2))
    >>> round(float(loss(ops.array([[1, 2, 4]]), logits)), 4)  # log 4
    1.3863
    """

    def __init__(self, name: str = "span_cross_entropy", **kwargs: Any):
        super().__init__(name=name, **kwargs)

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Computes the weighted mean of the loss over the rows, a scalar."""
        # A new tensor, without Keras' implicit mask, which is of tokens and not of rows.
        return super().__call__(y_true, ops.multiply(y_pred, 1), sample_weight)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Any:
        """Computes the loss of each row, `(B,)`."""
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        if len(y_pred.shape) != 3 or y_pred.shape[-1] != 2 or tuple(y_true.shape[1:]) != (3,):
            raise ValueError(
                "SpanCrossEntropy expected logits (B, T, 2) and labels (B, 3). Received: logits of "
                f"shape {tuple(y_pred.shape)} and labels of shape {tuple(y_true.shape)}."
            )
        logits = ops.cast(y_pred, "float32")
        y_true = ops.cast(y_true, "int32")
        places = ops.cumsum(ops.ones_like(logits[..., 0], dtype="int32"), axis=1) - 1  # (B, T)
        real = ops.expand_dims(places < y_true[:, 2:], -1)
        log_p = ops.log_softmax(ops.where(real, logits, -1e9), axis=1)
        picked = ops.take_along_axis(log_p, y_true[:, None, :2], axis=1)
        return -ops.mean(picked[:, 0], axis=-1)
