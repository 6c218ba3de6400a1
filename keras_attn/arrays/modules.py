"""The array modules, and the functions that shared code may call."""

from types import ModuleType
from typing import TypeAlias

import numpy as np

ArrayModule: TypeAlias = ModuleType
"""`numpy` or `keras.ops`."""

Array: TypeAlias = np.ndarray
"""An array of an array module: `numpy.ndarray`, or a tensor of the backend, which has the same
operators and slices."""

FUNCTIONS = frozenset(
    {
        "arange",  # with dtype="int32"
        "argmax",  # of equal values the first; int64 in NumPy
        "argmin",  # of equal values the first; int64 in NumPy
        "argsort",  # not stable in NumPy: only `order` calls it
        "array",  # with a dtype: it converts
        "cumsum",  # with dtype="int32": NumPy adds int32 up to int64
        "exp",
        "expand_dims",
        "log",
        "matmul",
        "max",  # with `initial` where there may be no value
        "maximum",
        "min",
        "minimum",
        "nonzero",  # of a vector: int64 in NumPy
        "pad",
        "reshape",
        "searchsorted",  # int64 in NumPy and in a graph
        "shape",
        "sort",  # of integers
        "sqrt",
        "stack",
        "sum",  # of floats and over an axis
        "take",  # places within the array; with an axis
        "take_along_axis",
        "where",
        "zeros_like",
    }
)
"""The functions of an array module that shared code may call. They are equivalent in NumPy and
`keras.ops`, except for the differences noted here.
"""
