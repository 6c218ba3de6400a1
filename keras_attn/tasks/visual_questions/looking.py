"""Answers to questions about pictures, and where each word looked, as tensors."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_attn.layers.collect import traced_attention

Tensor = Any


def answer_and_look(model: keras.Model, regions: Tensor, question_ids: Tensor) -> tuple:
    """Computes answers and where each word looked, on every backend and in a graph.

    Args:
        model: A model of `VISUAL_QUESTION_MODELS`.
        regions: `(B, R, Dr)`.
        question_ids: A question about each, `(B, T)`.

    Returns:
        Probabilities `(B, C)`, and the weights `(B, T, R)` of the regions: the mean over the heads
        of the last block, 0 in padding. Without attention to the picture, only the probabilities.
    """
    with traced_attention() as calls:
        logits = model(
            {"regions": regions, "question_ids": ops.expand_dims(question_ids, 1)}, training=False
        )
    probabilities = ops.softmax(ops.cast(logits[:, 0], "float32"))
    crossing = [weights for _, role, weights in calls if role == "cross"]
    if not crossing:
        return (probabilities,)
    real = ops.cast(ops.expand_dims(ops.not_equal(question_ids, 0), 2), "float32")
    return probabilities, ops.mean(ops.cast(crossing[-1], "float32"), axis=1) * real
