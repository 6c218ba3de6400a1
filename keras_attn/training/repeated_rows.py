"""Gradients of embeddings, summed over repeated tokens of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras


def sum_repeated_rows(optimizer: keras.optimizers.Optimizer) -> None:
    """Makes an optimizer sum the gradients of repeated tokens before it squares them.

        g[i] = sum of g[s] over the positions s with id[s] = i

    g[i] is the gradient of row i of an embedding, and g[s] the gradient of its output at s.

    On TensorFlow, the gradient of an embedding is a list of rows, one for each position of the
    batch. Keras squares these rows before it sums them. For tokens that occur more than once, the
    norms of `clipnorm` and `global_clipnorm` are therefore wrong, and so are the second moments of
    Adam, AdamW and RMSprop, unless `global_clipnorm` is given. With this function, the results are
    the same as on JAX and PyTorch, where it has no effect. The `fit` methods of tasks call it.

    The gradient then has the size of the embedding table, as Adam, AdamW and RMSprop require
    anyway. Plain `keras.optimizers.SGD` without clipping does not need this function, and is faster
    without it.

    Args:
        optimizer: An optimizer that has not been used yet. It is changed in place.

    Example:

    >>> optimizer = keras.optimizers.Adam(1e-3, global_clipnorm=1.0)
    >>> sum_repeated_rows(optimizer)
    """
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    # A LossScaleOptimizer clips with the optimizer inside.
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    clip = optimizer._clip_gradients

    def clip_sums(gradients: Sequence[Any]) -> Sequence[Any]:
        return clip([g if g is None else tf.convert_to_tensor(g) for g in gradients])

    optimizer._clip_gradients = clip_sums
