"""Transformer encoder block."""

import keras

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.block import TransformerBlock, with_scores
from keras_attn.layers.masked_layer import check_rank, sequence_mask


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerEncoderBlock(TransformerBlock):
    """Transformer encoder block: self-attention and feed-forward (Vaswani et al., 2017).

        post-norm (the paper):        x = norm(x + attention(x));  x = norm(x + feed_forward(x))
        pre-norm (normalize_first):   x = x + attention(norm(x));  x = x + feed_forward(norm(x))

    Dropout applies to the outputs of the sublayers before the addition. A stack of pre-norm blocks
    needs a norm at its end (Xiong et al., 2020), which `TransformerEncoder` adds.

    Shapes: x `(B, T, D)` to `(B, T, D)`, D divisible by `num_heads` unless `key_dim` is given.

    Masking: `padding_mask` `(B, T)`, or the Keras mask of `x`, hides keys and is the mask of the
    output. `attention_mask` `(B, T, T)` or `(B, 1|N, T, T)` hides further keys. Masks are boolean
    or 0/1 integers, True for tokens that may be attended. Padding never changes the output of real
    tokens.

    Args:
        num_heads: Number of attention heads N.
        intermediate_dim: Width of the hidden layer of the feed-forward network.
        key_dim: Width of a head; D / N if None.
        value_dim: Width of a head of values; `key_dim` if None.
        num_kv_heads: Number of key and value heads, a divisor of N; N if None.
        dropout: Dropout rate of the sublayers' outputs.
        attention_dropout: Dropout rate of the attention weights.
        activation: Activation of the feed-forward network.
        normalize_first: Whether to use pre-norm instead of post-norm.
        layer_norm_epsilon: Epsilon of the norms.
        kernel_initializer: Initializer of the kernels of attention and feed-forward.
        bias_initializer: Initializer of the biases of attention and feed-forward.
        kernel_regularizer: Regularizer of the kernels.
        bias_regularizer: Regularizer of the biases.
        kernel_constraint: Constraint of the kernels, each a matrix (inputs, outputs).
        bias_constraint: Constraint of the biases.
        seed: Seed of the dropouts.
        value_rank: Rank of the projection of values in the attention; full if None.
        normalization: "layer_norm", or "rms_norm" (Zhang and Sennrich, 2019).
        gated: Whether the feed-forward network is a gated linear unit (Shazeer, 2020); SwiGLU with
            `activation="silu"`.
        use_bias: Whether attention and feed-forward have biases; `norm_bias` controls the layer
            norms.
        positions: Positions in the self-attention: "rotary" (Su et al., 2021), "alibi" (Press et
            al., 2022), "relative" (T5: Raffel et al., 2020) or None. If None, add
            `PositionalEncoding` to the embeddings.
        rotary_base: Base of the wavelengths of rotary positions.
        rotary_scaling: Scaling of rotary positions for contexts longer than in training, in the
            form that `keras_attn.ops.rotary_rates` accepts.
        num_buckets: Number of buckets of relative positions; even, at least 4.
        max_distance: Distance from which relative positions of one direction share a bucket; more
            than `num_buckets / 2`.
        sliding_window: Distance from which self-attention hides keys; no limit if None.
        scale: Factor of the query-key products; `1 / sqrt(key_dim)` if None.
        attention_kernel: How attention is computed: "auto", "plain", "chunked" or "flash", as in
            `keras_attn.ops.dot_product_attention`. Only "auto" and "plain" support dropout and
            returned weights.
        right_padding: Promises that padding is only at the end of rows. Kernels then get the number
            of tokens of each row; any other padding raises an error if the values of the mask are
            known, and otherwise makes the kernels hide the wrong keys.
        qk_norm: Norm of queries and keys over the width of a head: "rms_norm" or "layer_norm"; none
            if None. `MultiHeadSelfAttention` describes this and the next five settings in detail.
        softcap: Limit of the scaled products by a hyperbolic tangent; none if None.
        attention_sinks: Whether each head has a learned logit in the denominator of the softmax.
        sink_tokens: Number of first tokens that `sliding_window` does not hide.
        score_mod: Function of scores and positions in the self-attention.
        mask_mod: Function of positions that hides keys in the self-attention.
        sandwich_norm: Whether the outputs of the sublayers are also normalized before they are
            added (Gemma Team, 2024). Only a pre-norm block supports True.
        norm_bias: Whether layer norms have a bias; the norms of `qk_norm="layer_norm"` always do.
        attention_norm: Whether the input of the self-attention is normalized. Only a pre-norm block
            supports False.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, T, D)`.
        padding_mask: Padding mask of `x`, `(B, T)`.
        attention_mask: Mask of query-key pairs, `(B, T, T)` or `(B, 1|N, T, T)`.
        attention_bias: Floats `(B|1, N|1, T|1, T|1)`, added to the scaled products of the
            self-attention; -inf hides.
        use_causal_mask: Whether later positions are hidden from earlier ones.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether dropout is active.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)`: positions of the tokens for the settings
            `positions`, `score_mod` and `mask_mod`; `0 ... T-1` if None. A block without these
            settings raises an error.

    Returns:
        The output `(B, T, D)` or, if `return_attention_scores` is True, `(output, weights)` with
        weights `(B, N, T, T)`.

    Raises:
        ValueError: If a setting is unknown, out of range or does not apply; if an input or a mask
            has the wrong shape; if a mask has floats; if the heads do not divide the width; if a
            mask that is known breaks the promise of `right_padding`; or if a symbolic `x` lost its
            Keras mask on the way to this layer.
        TypeError: If `score_mod` or `mask_mod` cannot be called.

    Example:

    >>> block = TransformerEncoderBlock(num_heads=2, intermediate_dim=32)
    >>> x = keras.ops.ones((2, 5, 8))
    >>> padding_mask = keras.ops.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    >>> tuple(block(x, padding_mask=padding_mask).shape)
    (2, 5, 8)
    """

    _query_mask_name = "padding_mask"
    _key_mask_name = "padding_mask"
    _constructor_hint = (
        "KerasHub's order is `intermediate_dim, num_heads`; here it is "
        "TransformerEncoderBlock(num_heads, intermediate_dim=...)."
    )
    _needed_masks = (("x", ("padding_mask", "mask", "x_mask")),)

    def build(self, x_shape: Shape):
        """Creates self-attention, feed-forward network and norms."""
        self._build_common(x_shape)

    def call(
        self,
        x: Tensor,
        *,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
        training: bool | None = None,
        positions: Tensor | None = None,
        attention_bias: Tensor | None = None,
    ):
        """Applies both sublayers to `x` `(B, T, D)`; the class describes the arguments."""
        check_rank(x, "x")
        padding_mask = sequence_mask(x, padding_mask, mask, x_mask)
        x = self._clean(x, padding_mask)

        def attend(h: Tensor):
            result = self.self_attention(
                h,
                attention_mask=attention_mask,
                use_causal_mask=use_causal_mask,
                return_attention_scores=return_attention_scores,
                mask=padding_mask,
                training=training,
                positions=positions,
                attention_bias=attention_bias,
            )
            return with_scores(result, return_attention_scores)

        x, scores = self._residual(
            x, self.self_attention_norm, attend, training, self.self_attention_output_norm
        )
        x = self._feed_forward(x, training)
        return (x, scores) if return_attention_scores else x
