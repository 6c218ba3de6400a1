"""The dtype of sums, exponentials and biases."""

from keras import ops

from keras_attn.hints import Tensor


def wide_dtype(*tensors: Tensor) -> str:
    """Returns `"float64"` if a tensor is float64, and `"float32"` otherwise.

    Sums and exponentials are computed in this dtype, which loses no digits of half precision and
    keeps those of float64.
    """
    return "float64" if any(ops.dtype(x) == "float64" for x in tensors) else "float32"
