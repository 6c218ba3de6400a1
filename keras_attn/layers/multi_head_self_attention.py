"""Multi-head attention from a sequence to itself."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Shape, Size, Tensor
from keras_attn.layers.flattening import flat
from keras_attn.layers.heads import HeadsLayer
from keras_attn.layers.masked_layer import (
    check_attention_bias,
    check_choice,
    check_positions,
    check_positive,
    check_rank,
    check_rotary_base,
    check_rotary_scaling,
    sequence_mask,
)
from keras_attn.ops import (
    alibi_bias,
    apply_rotary,
    relative_position_buckets,
    token_positions,
)
from keras_attn.ops.cached_attention import to_cache, write_cache

POSITIONS = (None, "rotary", "alibi", "relative")


@keras.saving.register_keras_serializable(package="keras_attn")
class MultiHeadSelfAttention(HeadsLayer):
    """Multi-head self-attention with one fused projection (Vaswani et al., 2017).

        [Q, K, V]  = x Wqkv + bqkv                        split into heads
        weights[n] = softmax(scale * Q[n] K[n]^T)         (T, T) for each head n
        output     = concat_n(weights[n] V[n]) Wo + bo    (B, T, D)

    `Wqkv` has the columns of all heads of Q, then K, then V. One product of three times the width
    is faster than three products.

    With `value_rank` r the kernel of the values is a product `Wv = Wdown Wup` of shapes `(D, r)`
    and `(r, K Hv)`, with `r (D + K Hv)` weights instead of `D K Hv`. That is fewer if
    r < D K Hv / (D + K Hv), which is D / 2 for K Hv = D. Each factor has a bias:
    `V = (x Wdown + bdown) Wup + bup`. `Wdown` takes the columns of V in `Wqkv`, so that one
    narrower product computes all three, and then one with `Wup`.

    With `positions="rotary"` queries and keys are rotated by their positions (Su et al., 2021; see
    `keras_attn.ops.apply_rotary`), so that Q[n] K[n]^T depends on distances. With "alibi" a bias
    that falls with the distance is added to the scaled products (Press et al., 2022; see
    `keras_attn.ops.alibi_bias`). With "relative" a learned bias is added, one number for each head
    and bucket of distances (T5: Raffel et al., 2020; see
    `keras_attn.ops.relative_position_buckets`); with a causal mask all buckets are for earlier
    keys. Only distances count in each case, so padding on either side needs no `positions`; give
    them if the tokens are not in order.

    Shapes: x `(B, T, D)`.

    Masking: the Keras mask of `x`, or an explicit `mask` `(B, T)`, hides keys and is the mask of
    the output. `attention_mask` `(B, T, T)` or `(B, 1|N, T, T)` hides more. Masks are boolean or
    0/1 integers; True may be attended. A query that sees no key gets a zero context (so its output
    is the output bias) and zero weights. A padded query that sees keys is computed like any other.

    Args:
        num_heads: Number of query heads N.
        key_dim: Width H of a head of queries and keys; D / N if None.
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
        attention_kernel: "auto", "plain", "chunked" or "flash"; see
            `keras_attn.ops.dot_product_attention`. Only "auto" and "plain" have dropout and scores.
        right_padding: A promise that padding stands only at the end of rows. Kernels then get the
            number of tokens of each row; with other padding they would hide the wrong keys.
        positions: None, "rotary", "alibi" or "relative".
        rotary_base: Base of the wavelengths of rotary positions.
        rotary_scaling: Scaling of rotary positions for contexts longer than in training; see
            `keras_attn.ops.rotary_rates`.
        num_buckets: Number of buckets of relative positions; even.
        max_distance: Distance from which all relative positions share one bucket.
        sliding_window: Keys at this distance or farther are hidden (Beltagy et al., 2020; Jiang et
            al., 2023); no limit if None.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: `(B, T, D)`.
        attention_mask: `(B, T, T)` or `(B, 1|N, T, T)`.
        attention_bias: Floats `(B|1, N|1, T|1, T|1)`, added to the scaled products; -inf hides.
        use_causal_mask: Whether later positions are hidden from earlier ones.
        return_attention_scores: Whether the weights are returned too.
        mask: Padding mask `(B, T)`.
        training: Whether dropout is active.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)`: positions for the `positions` setting of
            the layer; `0 ... T-1` if None.

    Returns:
        The output `(B, T, output_dim)`, or `(output, weights)` with weights `(B, N, T, T)`.

    Raises:
        ValueError: If a setting, rank or length is wrong, the heads do not divide the width, or a
            mask has floats.

    Example:

    >>> layer = MultiHeadSelfAttention(num_heads=4)
    >>> output, weights = layer(ops.ones((2, 5, 16)), return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """

    _query_mask_name = "mask"
    _key_mask_name = "mask"
    _needed_masks = (("x", ("mask", "x_mask")),)
    _call_hint = "It attends from `x` to itself; MultiHeadAttention takes `query, value, key`."

    def __init__(
        self,
        num_heads: int,
        key_dim: int | None = None,
        *,
        positions: str | None = None,
        rotary_base: float = 10000.0,
        rotary_scaling: dict[str, Any] | None = None,
        num_buckets: int = 32,
        max_distance: int = 128,
        sliding_window: int | None = None,
        **kwargs,
    ):
        super().__init__(num_heads, key_dim, **kwargs)
        check_positions_settings(
            "MultiHeadSelfAttention",
            positions,
            rotary_base,
            rotary_scaling,
            num_buckets,
            max_distance,
            sliding_window,
        )
        self.positions = positions
        self.rotary_base = rotary_base
        self.rotary_scaling = rotary_scaling
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.sliding_window = sliding_window
        self.relative_bias: keras.layers.Embedding | None = None

    def build(self, x_shape: Shape):
        """Creates the fused projection and the output projection."""
        if len(x_shape) != 3:
            raise ValueError(f"`x` must have shape (B, T, D). Received: shape {x_shape}.")
        self._set_widths(x_shape[-1], x_shape[-1])
        if self.positions == "rotary" and self._head_dim % 2:
            raise ValueError(
                "Rotary positions rotate pairs of channels: the width of a head must be even. "
                f"Received: width {self._head_dim}. Give an even `key_dim`, or another number of "
                "heads."
            )
        self._sizes = (
            self.num_heads * self._head_dim,
            self._kv_heads * self._head_dim,
            self.value_rank or self._values_width,
        )
        if self.positions == "relative" and self.relative_bias is None:  # it may be shared
            self.relative_bias = keras.layers.Embedding(
                self.num_buckets,
                self.num_heads,
                embeddings_initializer=keras.initializers.RandomNormal(stddev=0.02),
                dtype=self.dtype_policy,
                name="relative_bias",
            )
            self.relative_bias.build()
        self.qkv_dense = self._dense(sum(self._sizes), "qkv")
        self._build_value_up(x_shape)
        self.output_dense = self._dense(self.output_dim or x_shape[-1], "output")
        self.qkv_dense.build(x_shape)
        width = self.num_heads * self._value_head_dim
        self.output_dense.build((*x_shape[:-1], width))

    def call(
        self,
        x: Tensor,
        *,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
        training: bool | None = None,
        positions: Tensor | None = None,
        attention_bias: Tensor | None = None,
    ):
        """Projects, attends and projects back."""
        check_rank(x, "x")
        mask = sequence_mask(x, mask, x_mask, name="mask")
        x = self._clean(x, mask)
        positions = self._positions_of(x, positions)
        return self._attend(
            *self.project(x, positions),
            "self",
            **self._visible(x, x, attention_mask, mask),
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
            training=training,
            bias=_sum(
                self._bias(positions, causal=use_causal_mask),
                check_attention_bias(attention_bias, x, x, self.num_heads),
            ),
            sliding_window=self.sliding_window,
        )

    def _positions_of(self, x: Tensor, positions: Tensor | None) -> Tensor | None:
        """Positions `(1, T)` or `(B, T)`, or None if the layer has no positions."""
        if self.positions is None:
            if positions is not None:
                raise ValueError(
                    f"{self.name} has no use for `positions`: it was made with positions=None. "
                    f"Received: positions of shape {tuple(ops.shape(positions))}. Make it with "
                    'positions="rotary", "alibi" or "relative", or leave them out.'
                )
            return None
        # One row is enough by default: it broadcasts over the batch.
        return token_positions(x[:1]) if positions is None else check_positions(positions, x)

    def _bias(
        self, positions: Tensor | None, keys: Tensor | None = None, causal: bool = True
    ) -> Tensor | None:
        if positions is None:
            return None
        if self.positions == "alibi":
            return alibi_bias(self.num_heads, positions, keys)
        if self.positions != "relative" or self.relative_bias is None:
            return None
        positions = ops.cast(positions, "int32")
        keys = positions if keys is None else ops.cast(keys, "int32")
        distance = ops.expand_dims(keys, 1) - ops.expand_dims(positions, 2)  # (1|B, T, S)
        buckets = relative_position_buckets(
            distance, self.num_buckets, self.max_distance, bidirectional=not causal
        )
        return ops.transpose(self.relative_bias(buckets), (0, 3, 1, 2))

    def project(self, x: Tensor, positions: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Projects `x` `(B, T, D)` to queries `(B, T, N, H)`, keys and values `(B, T, K, H|Hv)`.

        With rotary positions queries and keys are rotated by `positions`, `0 ... T-1` if None.
        """
        # The gradient of a split is one concatenation; that of slices, three padded tensors.
        q, k, v = self._sizes
        parts = 3 if q == k == v else [q, q + k]
        query, key, value = ops.split(flat(self.qkv_dense, x), parts, axis=-1)
        query, key = self._split(query, self.num_heads), self._split(key, self._kv_heads)
        if self.positions == "rotary":
            query, key = (
                apply_rotary(part, positions, self.rotary_base, self.rotary_scaling)
                for part in (query, key)
            )
        return query, key, self._split_values(value)

    def prefill(
        self,
        x: Tensor,
        mask: Tensor | None,
        max_length: Size,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Runs causally over a prompt and keeps its keys and values.

        Args:
            x: `(B, P, D)`.
            mask: Padding mask `(B, P)`, or None. A window counts the tokens that it shows, as in
                `step`.
            max_length: Number of slots L of the cache, at least P.
            positions: See the call arguments. Keys are cached rotated.

        Returns:
            The output `(B, P, D)`, and the cache: keys `(B, K, L, H)` and values `(B, K, L, Hv)`,
            written in the first P slots.
        """
        positions = self._positions_of(x, positions)
        query, key, value = self.project(x, positions)
        near, window = None, self.sliding_window
        if window is not None and mask is not None:
            count = ops.cumsum(ops.cast(mask, "int32"), axis=1)
            near = ops.expand_dims(count, 2) - ops.expand_dims(count, 1) < window  # (B, P, P)
            window = None
        combined, bias = self._combined_mask(x, x, near, mask), self._bias(positions)
        output = self._attend(
            query,
            key,
            value,
            "self",
            combined,
            use_causal_mask=True,
            bias=bias,
            sliding_window=window,
        )
        free = max_length - ops.shape(x)[1]
        pad = [[0, 0], [0, 0], [0, free], [0, 0]]
        return output, (ops.pad(to_cache(key), pad), ops.pad(to_cache(value), pad))

    def step(
        self,
        x: Tensor,
        cache: tuple[Tensor, Tensor],
        slot: Tensor,
        visible: Tensor,
        return_attention_scores: bool = False,
        positions: Tensor | None = None,
    ) -> tuple[Any, ...]:
        """Attends from one new position to the cached ones and itself.

        Args:
            x: `(B, 1, D)`.
            cache: Keys and values `(B, K, L, ...)`.
            slot: int32 scalar, the slot for the new key and value.
            visible: Boolean `(B, L)`, True for slots that hold tokens, with the new one.
            return_attention_scores: Whether the weights `(B, N, 1, L)` are returned too.
            positions: Integers `(B, L)`, the positions of the slots, with the new one;
                `0 ... L-1` if None.

        Returns:
            `(output (B, 1, D), cache)`, or `(output, cache, weights)`.
        """
        here = None
        positions = self._positions_of(visible, positions)
        if positions is not None:
            here = ops.take(positions, ops.reshape(slot, (1,)), axis=1)
        query, key, value = self.project(x, here)
        bias = self._bias(here, positions)
        if self.sliding_window is not None:  # count tokens: there may be padding
            count = ops.cumsum(ops.cast(visible, "int32"), axis=1)
            near = count > ops.max(count, axis=1, keepdims=True) - self.sliding_window
            visible = ops.logical_and(visible, near)
        cache = (write_cache(cache[0], slot, key), write_cache(cache[1], slot, value))
        result = self._attend_cached(
            query, cache, visible, "self", bias, return_attention_scores, used=slot + 1
        )
        if return_attention_scores:
            return result[0], cache, result[1]
        return result, cache

    def get_config(self) -> dict[str, Any]:
        """Returns the config."""
        return {
            **super().get_config(),
            "positions": self.positions,
            "rotary_base": self.rotary_base,
            "rotary_scaling": self.rotary_scaling,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "sliding_window": self.sliding_window,
        }


def check_positions_settings(
    kind: str,
    positions: str | None,
    rotary_base: float,
    rotary_scaling: dict[str, Any] | None,
    num_buckets: int,
    max_distance: int,
    sliding_window: int | None,
) -> None:
    """Raises a ValueError if a setting of positions is unknown or out of range."""
    check_choice(kind, POSITIONS, positions=positions)
    check_rotary_base(rotary_base)
    check_rotary_scaling(rotary_scaling)
    check_positive(kind, num_buckets=num_buckets, max_distance=max_distance)
    if num_buckets % 2 or num_buckets < 4 or max_distance <= num_buckets // 2:
        raise ValueError(
            f"`num_buckets` of {kind} must be even and at least 4, and `max_distance` above half "
            f"of it. Received: num_buckets={num_buckets}, max_distance={max_distance}."
        )
    if sliding_window is not None:
        check_positive(kind, sliding_window=sliding_window)


def _sum(*parts: Tensor | None) -> Tensor | None:
    given = [ops.cast(part, "float32") for part in parts if part is not None]
    return None if not given else sum(given[1:], given[0])
