"""Pure functions on tensors: attention, masks, positions, windows."""

from keras_attn.ops.attention import (
    additive_attention,
    additive_scores,
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
from keras_attn.ops.summaries import summarize
from keras_attn.ops.windows import gaussian_window, key_positions, local_window

__all__ = [
    "additive_attention",
    "additive_scores",
    "as_boolean_mask",
    "causal_mask",
    "check_padding_mask",
    "combine_masks",
    "dot_product_attention",
    "gaussian_window",
    "key_positions",
    "local_window",
    "masked_softmax",
    "sinusoids",
    "summarize",
    "token_positions",
]
