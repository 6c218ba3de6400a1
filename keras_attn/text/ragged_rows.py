"""Ragged tensors of one ragged axis, in memory that grows with their values alone.

For `value_rowids`, `tf.strings.reduce_join`, `tf.ragged.boolean_mask` and others TensorFlow finds
the row of each value in a table of all rows by the length of the longest one. With 20,000 words of
which one has 100,000 characters it has 16 GB.
"""

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf


def row_numbers(tf: ModuleType, ragged: "tf.RaggedTensor") -> "tf.Tensor":
    """Finds the row of each value, as `value_rowids` does.

    Args:
        tf: The module `tensorflow`.
        ragged: A ragged tensor `(B, None)` of V values.

    Returns:
        Integers `(V,)`.

    Example:

    >>> import tensorflow as tf
    >>> row_numbers(tf, tf.ragged.constant([[], [3, 1], [4]])).numpy().tolist()
    [1, 1, 2]
    """
    splits = ragged.row_splits
    places = tf.range(tf.shape(ragged.values, splits.dtype)[0])
    return tf.searchsorted(splits, places, side="right", out_type=splits.dtype) - 1


def join_rows(tf: ModuleType, ragged: "tf.RaggedTensor") -> "tf.Tensor":
    """Joins the strings of each row, as `tf.strings.reduce_join` does.

    Args:
        tf: The module `tensorflow`.
        ragged: Ragged strings `(B, None)`.

    Returns:
        Strings `(B,)`.

    Example:

    >>> import tensorflow as tf
    >>> join_rows(tf, tf.ragged.constant([["a", "b"], [], ["c"]])).numpy().tolist()
    [b'ab', b'', b'c']
    """
    return tf.strings.unsorted_segment_join(ragged.values, row_numbers(tf, ragged), ragged.nrows())


def masked_rows(tf: ModuleType, ragged: "tf.RaggedTensor", mask: "tf.Tensor") -> "tf.RaggedTensor":
    """Keeps some values of each row, as `tf.ragged.boolean_mask` does.

    Args:
        tf: The module `tensorflow`.
        ragged: A ragged tensor `(B, None)` of V values.
        mask: Booleans `(V,)`, true for the values to keep.

    Returns:
        A ragged tensor `(B, None)`.

    Example:

    >>> import tensorflow as tf
    >>> x = tf.ragged.constant([[5, 6], [], [7]])
    >>> masked_rows(tf, x, tf.constant([False, True, False])).to_list()
    [[6], [], []]
    """
    before = tf.concat([[0], tf.cumsum(tf.cast(mask, ragged.row_splits.dtype))], 0)
    return tf.RaggedTensor.from_row_splits(
        tf.boolean_mask(ragged.values, mask), tf.gather(before, ragged.row_splits), validate=False
    )
