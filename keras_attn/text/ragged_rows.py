"""Operations on ragged tensors whose memory depends only on the number of values.

In `value_rowids`, `tf.strings.reduce_join`, `tf.ragged.boolean_mask` and others, TensorFlow creates
a table of all rows times the length of the longest row. For 20,000 words, one of which has 100,000
characters, it needs 16 GB.
"""

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf


def row_numbers(tf: ModuleType, ragged: "tf.RaggedTensor") -> "tf.Tensor":
    """Returns the row number of each value, like `value_rowids`."""
    splits = ragged.row_splits
    places = tf.range(tf.shape(ragged.values, splits.dtype)[0])
    return tf.searchsorted(splits, places, side="right", out_type=splits.dtype) - 1


def join_rows(tf: ModuleType, ragged: "tf.RaggedTensor") -> "tf.Tensor":
    """Joins the strings of each row, like `tf.strings.reduce_join`."""
    return tf.strings.unsorted_segment_join(ragged.values, row_numbers(tf, ragged), ragged.nrows())


def masked_rows(tf: ModuleType, ragged: "tf.RaggedTensor", mask: "tf.Tensor") -> "tf.RaggedTensor":
    """Keeps the values of each row where the mask is True, like `tf.ragged.boolean_mask`."""
    before = tf.concat([[0], tf.cumsum(tf.cast(mask, ragged.row_splits.dtype))], 0)
    return tf.RaggedTensor.from_row_splits(
        tf.boolean_mask(ragged.values, mask), tf.gather(before, ragged.row_splits), validate=False
    )
