"""Cross-entropy of the right answer among the answers of a batch."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class InBatchCrossEntropy(keras.losses.Loss):
    """Cross-entropy of the answer of each row among the answers of its batch.

        loss_i = -log softmax_j(scale * similarity[i, j])[i]

    The softmax is over all answers j of the batch, except for other right answers to question i. On
    TensorFlow with several devices, each device compares only its own rows.

    References:
        - [Henderson et al., 2017](https://arxiv.org/abs/1705.00652), section 4.4.

    Args:
        scale: Factor of the similarities. For cosines, it should be far above 1.
        name: Name of the loss.
        **kwargs: Other arguments of `keras.losses.Loss`.

    Call arguments:
        y_true: Integers `(B, R)`: the index of the answer of each row, followed by the indices of
            other right answers to its question, padded with -1.
        y_pred: Similarities `(B, B)` of questions and answers.
        sample_weight: Weight of each row, or None.

    Returns:
        A scalar, the mean of the weighted losses of the rows, unless `**kwargs` has another
        `reduction`.

    Raises:
        ValueError: If the scale is not above 0, or labels or predictions have the wrong shape.

    Example:

    >>> loss = InBatchCrossEntropy()
    >>> answers = ops.array([[4], [7], [4]])  # the first and the last row have the same answer
    >>> round(float(loss(answers, ops.zeros((3, 3)))), 4)  # (log 2 + log 3 + log 2) / 3
    0.8283
    """

    def __init__(self, scale: float = 20.0, name: str = "in_batch_cross_entropy", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        if not scale > 0:
            raise ValueError(f"`scale` must be above 0. Received: {scale!r}.")
        self.scale = float(scale)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Any:
        """Computes the loss of each row, `(B,)`."""
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        rows = {y_true.shape[0], *y_pred.shape} - {None}
        if len(y_true.shape) != 2 or len(y_pred.shape) != 2 or len(rows) > 1:
            raise ValueError(
                "InBatchCrossEntropy expected similarities (B, B) and labels (B, R). "
                f"Received: similarities of shape {tuple(y_pred.shape)} and labels of shape "
                f"{tuple(y_true.shape)}."
            )
        right = ops.cast(y_true, "int32")
        own = right[:, 0]
        also = ops.any(right[:, None, :] == own[None, :, None], axis=-1)  # (B, B)
        places = ops.cumsum(ops.ones_like(own), axis=0)
        diagonal = places[:, None] == places[None, :]
        logits = self.scale * ops.cast(y_pred, "float32")
        logits = ops.where(ops.logical_and(also, ops.logical_not(diagonal)), -1e9, logits)
        log_p = ops.log_softmax(logits, axis=-1)
        return -ops.sum(ops.where(diagonal, log_p, 0.0), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "scale": self.scale}
