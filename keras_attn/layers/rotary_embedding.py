"""Rotary positions for queries and keys."""

from typing import Any

import keras

from keras_attn.hints import Tensor
from keras_attn.layers.masked_layer import (
    MaskedLayer,
    check_positions,
    check_rank,
    check_rotary_base,
    sequence_mask,
)
from keras_attn.ops import apply_rotary
from keras_attn.ops.relative_positions import check_rotary_scaling


@keras.saving.register_keras_serializable(package="keras_attn")
class RotaryEmbedding(MaskedLayer):
    """Rotates queries or keys by their positions, for custom attention (Su et al., 2021).

        a[i]                    = positions[b, t] * base ** (-2i / H)
        output[b, t, n, i]      = x[b, t, n, i] cos(a[i]) - x[b, t, n, i + H/2] sin(a[i])
        output[b, t, n, i+H/2]  = x[b, t, n, i + H/2] cos(a[i]) + x[b, t, n, i] sin(a[i])

    for i < H / 2. The product of a rotated query and a rotated key depends only on the distance of
    their positions. Channels i and i + H / 2 form a pair, as in GPT-NeoX and Llama. The layer has
    no weights and accepts any length. `MultiHeadSelfAttention` and the blocks with
    `positions="rotary"` rotate queries and keys internally.

    Shapes: x `(B, T, N, H)` to `(B, T, N, H)`, H even.

    Masking: the mask of `x` (or an explicit `mask` `(B, T)`) is the mask of the output. Padded
    positions are rotated like all other positions. Left padding does not require `positions`,
    because only distances matter.

    Args:
        base: Base of the wavelengths; 10000 in the paper, greater for longer contexts.
        scaling: Scaling for contexts longer than in training: `{"type": "linear", "factor": f}` or
            `{"type": "llama3", "factor": f, ...}`. The rates that `keras_attn.ops.rotary_rates`
            returns for it replace `base ** (-2i / H)`. No scaling if None.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, T, N, H)`.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)`; `0 ... T-1` if None.
        mask: Mask `(B, T)` of the output; the mask of `x` if None.

    Returns:
        The rotated tensor `(B, T, N, H)` in the compute dtype of the layer.

    Raises:
        ValueError: If `base` or `scaling` is out of range; if H is odd; if an input has the wrong
            rank or length; if the positions are not integers; or if a mask has floats.

    Example:

    >>> rotary = RotaryEmbedding()
    >>> query, key = ops.ones((2, 5, 4, 8)), ops.ones((2, 5, 4, 8))
    >>> context = keras_attn.ops.dot_product_attention(rotary(query), rotary(key), key)
    >>> tuple(context.shape)
    (2, 5, 4, 8)
    """

    _query_mask_name = "x_mask"

    def __init__(self, *, base: float = 10000.0, scaling: dict[str, Any] | None = None, **kwargs):
        super().__init__(**kwargs)
        check_rotary_base(base, "base")
        check_rotary_scaling(scaling, "scaling")
        self.base = base
        self.scaling = scaling

    def call(
        self,
        x: Tensor,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
    ):
        """Rotates each head of `x` `(B, T, N, H)` by the positions of the tokens."""
        check_rank(x, "x", rank=4, shape="(B, T, N, H)")
        sequence_mask(x, mask, x_mask, name="mask")
        if positions is not None:
            positions = check_positions(positions, x)
        return apply_rotary(x, positions, self.base, self.scaling)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {**super().get_config(), "base": self.base, "scaling": self.scaling}
