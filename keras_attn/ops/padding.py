"""Removal of NaN in padding, and checks of the values of masks."""

from typing import cast

import keras
import numpy as np
from keras import ops

from keras_attn.hints import Tensor


def without_nan_in_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """Sets NaN and infinity at padded positions to zero.

        output[b, s, d] = x[b, s, d] where mask[b, s] or x[b, s, d] is finite, else 0

    Attention weights of zero do not hide NaN, because `0 * NaN` is NaN in outputs and gradients.
    Finite values do not change, so padded queries attend to tokens as usual.
    """
    if mask is None:
        return x
    for _ in range(len(x.shape) - 2):
        mask = ops.expand_dims(mask, -1)
    return ops.where(ops.logical_or(mask, ops.isfinite(x)), x, ops.zeros((), x.dtype))


def known_value(x: Tensor) -> np.ndarray | None:
    """Returns the value of a tensor, or None if it is not known.

    A tensor in a graph, a trace or a symbolic call has no value yet. The value of a PyTorch tensor
    on a GPU is not read, because that would make every step wait.
    """
    if isinstance(x, np.ndarray):
        return x
    if not ops.is_tensor(x) or keras.backend.is_keras_tensor(x):
        return None
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return cast("tf.Tensor", x).numpy() if tf.executing_eagerly() else None
    if backend == "jax":
        import jax

        # Other processes hold parts of an array that is not addressable.
        unknown = isinstance(x, jax.core.Tracer) or not cast("jax.Array", x).is_fully_addressable
        return None if unknown else np.asarray(x)
    import torch

    tensor = cast("torch.Tensor", x)
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return None
    return tensor.detach().numpy()


def check_right_padding(mask: Tensor, name: str) -> None:
    """Checks a promise of right padding if the value of the mask is known."""
    value = known_value(mask)
    if value is None or value.shape[1] < 2:
        return
    wrong = (value[:, 1:] & ~value[:, :-1]).any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"`right_padding=True` promises that `{name}` hides only the end of each row. "
            f"Received: row {row} with a token after padding, "
            f"{value[row].astype(int).tolist()[:20]}. Pad on the right, or leave "
            "`right_padding` out."
        )
