"""Multi-head attention of a sequence to itself."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.heads import HeadsLayer
from keras_attn.layers.masked_layer import check_rank, sequence_mask

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_attn")
class MultiHeadSelfAttention(HeadsLayer):
    """Multi-head self-attention (Vaswani et al., 2017) with one fused projection.

        [Q, K, V]  = x Wqkv + bqkv                        split into heads
        weights[n] = softmax(scale * Q[n] K[n]^T)         (T, T) for each head n
        output     = concat_n(weights[n] V[n]) Wo + bo    (B, T, D)

    The columns of `Wqkv` are those of all heads of Q, then K, then V. One product of three times
    the width is faster than three.

    With `value_rank` r the kernel of the values is a product of two, `Wv = Wdown Wup`, of shapes
    `(D, r)` and `(r, K Hv)`: `r (D + K Hv)` weights instead of `D K Hv`, fewer where
    r < D K Hv / (D + K Hv), which is D / 2 where both are D. Each has a bias:
    `V = (x Wdown + bdown) Wup + bup`. `Wdown` stands in the columns of V in `Wqkv`: still one
    product for all three, a narrower one, and then that with `Wup`.

    Shapes: x `(B, T, D)`.

    Masking: the Keras mask of `x`, or `mask` `(B, T)` in its place, hides keys. `attention_mask`
    `(B, T)` takes the place of the Keras mask and is combined with `mask`; `(B, T, T)` or
    `(B, 1|N, T, T)` is combined with either. Masks are boolean or 0/1 integers, True: may be
    attended. The mask of the output is that of `x`, or the explicit one. A query that sees no key
    gets a zero context (so its output is the output bias) and zero weights; a padded query that
    sees keys is computed as any other.

    Args:
        num_heads: Number of query heads N.
        key_dim: Width H of a head of queries and keys; D / N if None, which must then be whole.
        value_dim: Width of a head of values; `key_dim` if None.
        num_kv_heads: Number of key and value heads, a divisor of N; N if None.
        output_dim: Width of the output; D if None.
        attention_dropout: Share of the weights set to zero in training.
        use_bias: Whether the projections have biases.
        scale: Factor of the products; `1 / sqrt(key_dim)` if None.
        kernel_initializer: Initializer of the projections.
        bias_initializer: Initializer of their biases.
        seed: Seed of the dropout.
        value_rank: Rank r of the projection of values, at most min(D, K Hv); full if None.
        **kwargs: `name`, `dtype`, ... of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        attention_mask: `(B, T)`, `(B, T, T)` or `(B, 1|N, T, T)`.
        use_causal_mask: Whether later positions are hidden from earlier ones.
        return_attention_scores: Whether the weights are returned too.
        mask: `(B, T)` padding mask.
        training: Whether dropout is active.

    Returns:
        The output `(B, T, output_dim)`, or `(output, weights)` with weights `(B, N, T, T)`.

    Raises:
        ValueError: For wrong settings, widths not divisible by heads, wrong ranks or lengths, or
            masks of floats.

    Example:

    >>> layer = MultiHeadSelfAttention(num_heads=4)
    >>> output, weights = layer(ops.ones((2, 5, 16)), return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """

    _query_mask_name = "mask"
    _key_mask_name = "mask"

    def build(self, x_shape):
        """Makes the fused projection and that of the output."""
        if len(x_shape) != 3:
            raise ValueError(f"`x` must have shape (B, T, D). Received: shape {x_shape}.")
        self._set_widths(x_shape[-1], x_shape[-1])
        self._sizes = (
            self.num_heads * self._head_dim,
            self._kv_heads * self._head_dim,
            self.value_rank or self._values_width,
        )
        self.qkv_dense = self._dense(sum(self._sizes), "qkv")
        self._build_value_up(x_shape)
        self.output_dense = self._dense(self.output_dim or x_shape[-1], "output")
        self.qkv_dense.build(x_shape)
        width = self.num_heads * self._value_head_dim
        self.output_dense.build((*x_shape[:-1], width))

    def call(
        self,
        x,
        attention_mask=None,
        use_causal_mask=False,
        return_attention_scores=False,
        mask=None,
        x_mask=None,
        training=None,
    ):
        """Projects, attends and projects back."""
        check_rank(x, "x")
        mask = sequence_mask(x, mask, x_mask, name="mask")
        return self._attend(
            *self.project(x),
            "self",
            self._combined_mask(x, x, attention_mask, mask),
            use_causal_mask,
            return_attention_scores,
            training,
        )

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Projects `x` `(B, T, D)` to queries `(B, T, N, H)`, keys and values `(B, T, K, H|Hv)`."""
        # split, not slices: its gradient is one concatenation, not a sum of three padded tensors.
        q, k, v = self._sizes
        parts = 3 if q == k == v else [q, q + k]
        query, key, value = ops.split(self.qkv_dense(x), parts, axis=-1)
        return (
            self._split(query, self.num_heads),
            self._split(key, self._kv_heads),
            self._split_values(value),
        )

    def prefill(
        self, x: Tensor, mask: Tensor | None, max_length: Any
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Runs causally over a prompt and keeps its keys and values.

        Args:
            x: `(B, P, D)`.
            mask: `(B, P)` padding mask, or None.
            max_length: Number of slots L of the cache, at least P.

        Returns:
            The output `(B, P, D)`, and the cache: keys `(B, L, K, H)` and values `(B, L, K, Hv)`,
            written in the first P slots.
        """
        query, key, value = self.project(x)
        combined = self._combined_mask(x, x, None, mask)
        output = self._attend(query, key, value, "self", combined, use_causal_mask=True)
        free = max_length - ops.shape(x)[1]
        pad = [[0, 0], [0, free], [0, 0], [0, 0]]
        return output, (ops.pad(key, pad), ops.pad(value, pad))

    def step(
        self,
        x: Tensor,
        cache: tuple[Tensor, Tensor],
        slot: Tensor,
        visible: Tensor,
        return_attention_scores: bool = False,
    ) -> tuple[Tensor, ...]:
        """Attends from one new position to the cached ones and itself.

        Args:
            x: `(B, 1, D)`.
            cache: Keys and values `(B, L, K, ...)`.
            slot: int32 scalar: where the new key and value are written.
            visible: Boolean `(B, L)`: the slots that hold tokens, the new one included.
            return_attention_scores: Whether the weights `(B, N, 1, L)` are returned too.

        Returns:
            `(output (B, 1, D), cache)`, or `(output, cache, weights)`.
        """
        query, key, value = self.project(x)
        zero = ops.zeros_like(slot)
        start = ops.stack([zero, slot, zero, zero])
        cache = (ops.slice_update(cache[0], start, key), ops.slice_update(cache[1], start, value))
        mask = ops.expand_dims(ops.expand_dims(visible, 1), 1)
        result = self._attend(
            query, *cache, "self", mask, return_attention_scores=return_attention_scores
        )
        if return_attention_scores:
            return result[0], cache, result[1]
        return result, cache
