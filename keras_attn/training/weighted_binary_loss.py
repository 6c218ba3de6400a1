"""Binary cross-entropy of several labels, with a weight for the positive examples of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class WeightedBinaryCrossentropy(keras.losses.Loss):
    r"""Binary cross-entropy of logits, with a weight for the positive examples of each label.

        l_c  = -(p_c * y_c * log sigmoid(z_c) + (1 - y_c) * log(1 - sigmoid(z_c)))
        loss = mean_c l_c

    The loss equals `torch.nn.BCEWithLogitsLoss(pos_weight=p)`. If p_c is the number of negative
    examples of a label divided by the number of its positive examples, then negative and positive
    examples have the same total weight.

    Args:
        pos_weight: The weights p, a non-negative number for each of the C labels.
        reduction: How the losses of the rows are reduced, as in Keras' losses.
        name: Name of the loss.

    Call arguments:
        y_true: Labels y, zeros and ones `(B, C)`.
        y_pred: Logits z, `(B, C)`.
        sample_weight: Optional weights of the rows, `(B,)`.

    Returns:
        A scalar; or `(B,)` with `reduction=None`.

    Raises:
        ValueError: If `pos_weight` is not a list of finite numbers >= 0, or its length differs from
            the number of labels.

    Example:

    >>> import numpy as np
    >>> loss = WeightedBinaryCrossentropy([3.0, 1.0])
    >>> round(float(loss(np.array([[1.0, 0.0]]), np.zeros((1, 2), "float32"))), 4)  # 2 ln 2
    1.3863
    """

    def __init__(
        self,
        pos_weight: Sequence[float],
        reduction: str | None = "sum_over_batch_size",
        name: str = "weighted_binary_crossentropy",
    ):
        super().__init__(name=name, reduction=reduction)
        self.pos_weight = [float(weight) for weight in pos_weight]
        if not all(math.isfinite(x) and x >= 0 for x in self.pos_weight) or not self.pos_weight:
            raise ValueError(
                "`pos_weight` must be finite numbers >= 0, one for each label. Received: "
                f"{self.pos_weight}."
            )

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Computes the loss of each row, `(B,)`."""
        count = len(self.pos_weight)
        if y_true.shape[-1] != count or y_pred.shape[-1] != count:
            raise ValueError(
                f"Expected labels and logits for {count} labels, as many as `pos_weight` has "
                f"numbers. Received: labels of shape {tuple(y_true.shape)} and logits of "
                f"shape {tuple(y_pred.shape)}."
            )
        y = ops.cast(y_true, y_pred.dtype)
        weight = ops.convert_to_tensor(self.pos_weight, y_pred.dtype)
        losses = weight * y * ops.softplus(ops.negative(y_pred)) + (1 - y) * ops.softplus(y_pred)
        return ops.mean(losses, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "pos_weight": self.pos_weight}
