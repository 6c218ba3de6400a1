"""Array functions that work with NumPy, with `keras.ops` and in TensorFlow graphs.

The first argument `xp` of each function is an array module: `numpy` or `keras.ops`. With
`keras.ops`, a function runs eagerly on every backend, and in a `tf.function` with unknown shapes.
Sequences of different lengths are stored as one flat array and an array of lengths, so that memory
does not depend on the longest sequence.
"""

from keras_attn.arrays.entities import SCHEMES, LabelTables, entities, label_tables, scheme_of
from keras_attn.arrays.modules import FUNCTIONS, Array, ArrayModule
from keras_attn.arrays.rows import (
    joined,
    kept,
    order,
    owners,
    padded,
    places_in_rows,
    places_of,
    row_sums,
    starts_of,
)
from keras_attn.arrays.spans import BestSpans, TextSpans, best_spans, log_sum, spans_of_texts
from keras_attn.arrays.vectors import greatest, unit_length
from keras_attn.arrays.windows import Windows, window_numbers, windows

__all__ = [
    "FUNCTIONS",
    "SCHEMES",
    "Array",
    "ArrayModule",
    "BestSpans",
    "LabelTables",
    "TextSpans",
    "Windows",
    "best_spans",
    "entities",
    "greatest",
    "joined",
    "kept",
    "label_tables",
    "log_sum",
    "order",
    "owners",
    "padded",
    "places_in_rows",
    "places_of",
    "row_sums",
    "scheme_of",
    "spans_of_texts",
    "starts_of",
    "unit_length",
    "window_numbers",
    "windows",
]
