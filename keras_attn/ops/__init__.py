"""Pure functions on tensors: attention, masks, positions."""

from keras_attn.ops.attention import (
    additive_attention,
    dot_product_attention,
    masked_softmax,
)
from keras_attn.ops.masks import (
    as_boolean_mask,
    causal_mask,
    check_padding_mask,
    combine_masks,
)
from keras_attn.ops.positions import sinusoids, token_positions

__all__ = [
    "additive_attention",
    "as_boolean_mask",
    "causal_mask",
    "check_padding_mask",
    "combine_masks",
    "dot_product_attention",
    "masked_softmax",
    "sinusoids",
    "token_positions",
]
