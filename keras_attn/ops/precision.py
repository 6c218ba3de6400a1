"""The dtype of sums, exponentials and biases."""

import keras
from keras import ops

from keras_attn.hints import Tensor


def wide_dtype(*tensors: Tensor | str) -> str:
    """Returns `"float64"` if a tensor or dtype is float64, and `"float32"` otherwise.

    Sums and exponentials are computed in this dtype, which loses no digits of half precision and
    keeps those of float64. JAX makes arrays of float64 float32, except with `jax_enable_x64`.
    """
    if "float64" not in [x if isinstance(x, str) else ops.dtype(x) for x in tensors]:
        return "float32"
    if keras.backend.backend() == "jax":
        import jax

        wide = jax.config.jax_enable_x64  # type: ignore[attr-defined]  # JAX adds its options as attributes at run time
        return "float64" if wide else "float32"
    return "float64"
