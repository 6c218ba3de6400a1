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
    """Finds the row of each value, as `value_rowids` does."""
    splits = ragged.row_splits
    places = tf.range(tf.shape(ragged.values, splits.dtype)[0])
    return tf.searchsorted(splits, places, side="right", out_type=splits.dtype) - 1


def join_rows(tf: ModuleType, ragged: "tf.RaggedTensor") -> "tf.Tensor":
    """Joins the strings of each row, as `tf.strings.reduce_join` does."""
    return tf.strings.unsorted_segment_join(ragged.values, row_numbers(tf, ragged), ragged.nrows())


def masked_rows(tf: ModuleType, ragged: "tf.RaggedTensor", mask: "tf.Tensor") -> "tf.RaggedTensor":
    """Keeps some values of each row, as `tf.ragged.boolean_mask` does."""
    before = tf.concat([[0], tf.cumsum(tf.cast(mask, ragged.row_splits.dtype))], 0)
    return tf.RaggedTensor.from_row_splits(
        tf.boolean_mask(ragged.values, mask), tf.gather(before, ragged.row_splits), validate=False
    )
