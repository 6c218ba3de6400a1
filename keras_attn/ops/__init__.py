"""Pure functions on tensors: attention, masks, positions, windows."""

from keras_attn.ops.attention import (
    additive_attention,
    additive_scores,
    dot_product_attention,
    masked_softmax,
)
from keras_attn.ops.attention_kernels import choose_attention_kernel
from keras_attn.ops.cheap_dropout import dropout
from keras_attn.ops.masks import (
    as_boolean_mask,
    causal_mask,
    check_padding_mask,
    combine_masks,
    key_length_mask,
    sliding_window_mask,
)
from keras_attn.ops.positions import sinusoids, token_positions
from keras_attn.ops.relative_positions import (
    alibi_bias,
    alibi_slopes,
    apply_rotary,
    relative_position_buckets,
    rotary_rates,
)
from keras_attn.ops.score_options import softcap
from keras_attn.ops.segments import segment_mask, segment_positions
from keras_attn.ops.summaries import summarize
from keras_attn.ops.windows import gaussian_window, key_positions, local_window

__all__ = [
    "additive_attention",
    "additive_scores",
    "alibi_bias",
    "alibi_slopes",
    "apply_rotary",
    "as_boolean_mask",
    "causal_mask",
    "check_padding_mask",
    "choose_attention_kernel",
    "combine_masks",
    "dot_product_attention",
    "dropout",
    "gaussian_window",
    "key_length_mask",
    "key_positions",
    "local_window",
    "masked_softmax",
    "relative_position_buckets",
    "rotary_rates",
    "segment_mask",
    "segment_positions",
    "sinusoids",
    "sliding_window_mask",
    "softcap",
    "summarize",
    "token_positions",
]
