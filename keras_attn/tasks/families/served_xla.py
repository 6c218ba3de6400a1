"""Searches that XLA compiles inside a SavedModel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from keras_attn.hints import Tensor
from keras_attn.ops.compilers import tracing_for
from keras_attn.tasks.families.decoding_batches import fixed_shape

Computed = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def with_xla(
    tf: ModuleType, compute: Computed, name: str, pad_id: int, fill_id: int, most: tuple[int, int]
) -> Computed:
    """Returns a function that XLA compiles, once for each of a few shapes.

    The numbers of rows and of ids are rounded up as by `fixed_shape`. Added rows are removed from
    the results; other axes of the results stay as long as `compute` returns them.

    Args:
        tf: The module `tensorflow`.
        compute: Function from a dict of tensors to a dict of tensors `(B, ...)`, without strings.
        name: Key of the ids `(B, S)`; the other tensors have shape `(B,)`.
        pad_id: Id of padding.
        fill_id: The only id in added rows.
        most: Maximum numbers of rows and of ids in a row.

    Example:

    >>> import tensorflow as tf
    >>> double = with_xla(tf, lambda x: {"twice": x["ids"] * 2}, "ids", 0, 1, (8, 64))
    >>> double({"ids": tf.constant([[3, 4]])})["twice"].numpy()[:, :3].tolist()
    [[6, 8, 0]]
    """
    rows = sorted({fixed_shape(n, 1, most[0])[0] for n in range(1, most[0] + 1)})
    lengths = sorted({fixed_shape(1, n, 1)[1] for n in range(1, most[1] + 1)})

    def rounded(sizes: list[int], size: Tensor) -> Tensor:
        return tf.gather(sizes, tf.searchsorted(sizes, size[None]))[0]

    def traced(given: Mapping[str, Any]) -> Mapping[str, Any]:
        with tracing_for(xla=True):
            return compute(given)

    compiled = tf.function(traced, autograph=False, jit_compile=True)

    def run(given: Mapping[str, Any]) -> Mapping[str, Any]:
        shape = tf.shape(given[name])
        new = rounded(rows, shape[0]) - shape[0]
        columns = rounded(lengths, shape[1]) - shape[1]
        padded = {n: tf.pad(x, [[0, new]]) for n, x in given.items() if n != name}
        ids = tf.pad(given[name], [[0, 0], [0, columns]], constant_values=pad_id)
        ids = tf.pad(ids, [[0, new], [0, 0]], constant_values=pad_id)
        first = tf.where(tf.range(tf.shape(ids)[0]) < shape[0], ids[:, 0], fill_id)
        padded[name] = tf.concat([first[:, None], ids[:, 1:]], axis=1)
        return {n: x[: shape[0]] for n, x in compiled(padded).items()}

    return run
