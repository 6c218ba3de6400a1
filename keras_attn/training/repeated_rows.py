"""Gradients of embeddings, with one row for each token however often it stands in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras


def sum_repeated_rows(optimizer: keras.optimizers.Optimizer) -> None:
    """Makes an optimizer sum the gradients of repeated tokens before it uses their magnitude.

        g[i] = sum over the places s with id[s] = i of g[s]

    On TensorFlow the gradient of an embedding is a list of rows, one for each place of the batch.
    Keras squares these rows as they are, so that `g[s]^2` is added up instead of `g[s]`. For tokens
    that occur more than once, the norms of `clipnorm` and `global_clipnorm` are wrong, and so are
    the second moments of Adam, AdamW and RMSprop, unless `global_clipnorm` is given. Here all is as
    on JAX and PyTorch, where nothing changes. `fit` of the tasks does this by itself.

    The gradient of a table is as large as the table then, which these optimizers make it anyway.
    Plain `keras.optimizers.SGD` without clipping is right as it is, and faster.

    Args:
        optimizer: The optimizer, not yet used; it is changed.

    Example:

    >>> optimizer = keras.optimizers.Adam(1e-3, global_clipnorm=1.0)
    >>> sum_repeated_rows(optimizer)
    """
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    clip = optimizer._clip_gradients

    def clip_sums(gradients: Sequence[Any]) -> Sequence[Any]:
        return clip([g if g is None else tf.convert_to_tensor(g) for g in gradients])

    optimizer._clip_gradients = clip_sums
