"""Loss of word2vec with negative sampling."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class NegativeSamplingLoss(keras.losses.Loss):
    """Loss of word2vec, which distinguishes context words from noise words.

        loss_w = sum_c -log s(z_wc)  +  m k/N sum_n -log s(-z_wn)       s(z) = 1 / (1 + e^-z)

    z_wc and z_wn are the logits of word w with context word c and with noise word n. c runs over
    the m context words of word w, and n over its N noise words, whose weight k/N corresponds to k
    noise words for each pair of words. word2vec draws k noise words for each pair; the expected
    gradient is the same. As in the paper, a noise word may also be a context word by chance; the
    word2vec program leaves such words out.

    References:
        - [Mikolov et al., 2013](https://arxiv.org/abs/1310.4546), equation 4.
        - [Ji et al., 2016](https://arxiv.org/abs/1604.04661): several words share noise words.

    Args:
        negatives: Number k of noise words for each pair.
        name: Name of the loss.
        **kwargs: Other arguments of `keras.losses.Loss`.

    Call arguments:
        y_true: `(B, P, C)`, 1 for the context words of each of P positions, and 0 for the others of
            its C words.
        y_pred: Logits `(B, P, C + N)`, first of the C words, then of the N noise words.
        sample_weight: Weight of each row or position, or None.

    Returns:
        A scalar, the mean of the weighted losses of all positions `(B, P)`, unless `**kwargs` has
        another `reduction`.

    Raises:
        ValueError: If `negatives` is not above 0, or labels or predictions have the wrong shape.

    Example:

    >>> loss = NegativeSamplingLoss(negatives=1)
    >>> round(float(loss(ops.ones((1, 1, 1)), ops.zeros((1, 1, 3)))), 4)  # 2 log 2
    1.3863
    """

    def __init__(self, negatives: float = 5, name: str = "negative_sampling", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        if not negatives > 0:
            raise ValueError(f"`negatives` must be above 0. Received: {negatives!r}.")
        self.negatives = float(negatives)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Any:
        """Computes the loss of each position, `(B, P)`."""
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        known = None not in (y_true.shape[-1], y_pred.shape[-1])
        fits = not known or 0 < y_true.shape[-1] < y_pred.shape[-1]
        if len(y_true.shape) != 3 or len(y_pred.shape) != 3 or not fits:
            raise ValueError(
                "NegativeSamplingLoss expected labels (B, P, C) and logits (B, P, C + N). "
                f"Received: labels of shape {tuple(y_true.shape)} and logits of shape "
                f"{tuple(y_pred.shape)}."
            )
        right = ops.cast(y_true, "float32")
        logits = ops.cast(y_pred, "float32")
        C = ops.shape(y_true)[-1]
        share = self.negatives / ops.cast(ops.shape(y_pred)[-1] - C, "float32")
        near = ops.sum(right * ops.softplus(-logits[..., :C]), axis=-1)
        noise = ops.sum(ops.softplus(logits[..., C:]), axis=-1)
        return near + share * ops.sum(right, axis=-1) * noise

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), "negatives": self.negatives}
