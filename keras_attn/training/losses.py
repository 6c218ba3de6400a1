"""Cross-entropy over the real tokens of padded sequences."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.replicas import sum_over_replicas
from keras_attn.ops.token_losses import check_tokens, token_cross_entropy, token_weights


@keras.saving.register_keras_serializable(package="keras_attn")
class MaskedCrossEntropy(keras.losses.Loss):
    r"""Cross-entropy of logits, averaged over the real tokens, with label smoothing.

        w_t  = [y_t != ignore_id] * sample_weight_t
        l_t  = (1 - e) * -log p_t[y_t] + e * mean_k(-log p_t[k]),   p_t = softmax(z_t)
        loss = sum_t(w_t * l_t) / sum_t(w_t)                        0 without real tokens

    y_t is the label of token t, z_t are its logits, k runs over the vocabulary, and e is
    `label_smoothing`. The loss equals `torch.nn.functional.cross_entropy(z, y, ignore_index=...,
    label_smoothing=e)`. The sums run over all tokens of the batch, so that a long sentence counts
    more than a short sentence. Padding affects neither the loss nor the gradient. The weights come
    only from the labels and `sample_weight`; the implicit Keras mask of the logits is neither
    needed nor used.

    `token_cross_entropy` computes the loss from logits, without a one-hot tensor, in float32 or
    better. On several devices, the sums run over the tokens of all devices. Under `tf.distribute`,
    the loss of a replica is `sum_t(w_t * l_t)` over its own tokens, divided by the sum of the
    weights on all replicas; Keras adds the losses and gradients of the replicas.

    Args:
        label_smoothing: Smoothing e, at least 0 and below 1 (Szegedy et al. 2016,
            https://arxiv.org/abs/1512.00567; 0.1 in Vaswani et al. 2017,
            https://arxiv.org/abs/1706.03762).
        ignore_id: Label that is ignored, usually the id of padding; no label is ignored if None.
        name: Name of the loss.

    Call arguments:
        y_true: Integer labels `(B, T)`. A label that is neither `ignore_id` nor in 0 ... V - 1, and
            has a weight other than 0, makes the loss NaN.
        y_pred: Logits `(B, T, V)`.
        sample_weight: Optional weights, `(B,)`, `(B, 1)` or `(B, T)`. Weights of labels must be
            given here too, because the argument `class_weight` of `fit` reads labels `(B, T)` as
            one-hot vectors.

    Returns:
        A scalar.

    Raises:
        ValueError: If `label_smoothing` is out of range, `ignore_id` is not an integer, labels are
            not integers, the shape of the labels is not the shape of the logits without the last
            axis, or `sample_weight` has another shape.

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

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Computes the weighted mean of the loss over the tokens of the batch, a scalar."""
        labels, logits = check_tokens(y_true, y_pred, type(self).__name__)
        dtype = keras.backend.standardize_dtype(logits.dtype)
        weights = token_weights(labels, self.ignore_id, sample_weight, dtype)
        counts = ops.not_equal(weights, 0)
        labels = ops.where(counts, labels, ops.zeros_like(labels))
        losses = token_cross_entropy(labels, logits, self.label_smoothing)
        losses = ops.where(counts, losses, ops.zeros_like(losses)) * weights
        return ops.divide_no_nan(ops.sum(losses), sum_over_replicas(ops.sum(weights)))

    def call(self, y_true: Tensor, y_pred: Tensor) -> Any:
        """Computes the loss of each token, `(B, T)`, which is 0 where the label is `ignore_id`."""
        labels, logits = check_tokens(y_true, y_pred, type(self).__name__)
        dtype = keras.backend.standardize_dtype(logits.dtype)
        counts = ops.not_equal(token_weights(labels, self.ignore_id, None, dtype), 0)
        labels = ops.where(counts, labels, ops.zeros_like(labels))
        losses = token_cross_entropy(labels, logits, self.label_smoothing)
        return ops.where(counts, losses, ops.zeros_like(losses))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            "label_smoothing": self.label_smoothing,
            "ignore_id": self.ignore_id,
            "name": self.name,
        }
