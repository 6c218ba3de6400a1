"""Multi-head attention from a sequence to itself."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Shape, Size, Tensor
from keras_attn.layers.attention_settings import (
    Function,
    check_positions_settings,
    check_rotary_width,
    checked_visibility,
    function_config,
)
from keras_attn.layers.flattening import flat
from keras_attn.layers.heads import HeadsLayer
from keras_attn.layers.masked_layer import (
    check_positions,
    check_rank,
    sequence_mask,
)
from keras_attn.ops import (
    alibi_bias,
    apply_rotary,
    relative_position_buckets,
    token_positions,
)
from keras_attn.ops.cached_attention import to_cache, write_cache
from keras_attn.ops.masks import as_boolean_mask, check_not_rank_2, combine_masks
from keras_attn.ops.precision import wide_dtype


@keras.saving.register_keras_serializable(package="keras_attn")
class MultiHeadSelfAttention(HeadsLayer):
    """Multi-head self-attention with one fused projection (Vaswani et al., 2017).

        [Q, K, V]  = x Wqkv + bqkv                        split into heads
        weights[n] = softmax(scale * Q[n] K[n]^T)         (T, T) for each head n
        output     = concat_n(weights[n] V[n]) Wo + bo    (B, T, output_dim)

    `Wqkv` has the columns of all heads of Q, then K, then V. This one product is faster than three
    narrower products.

    With `value_rank` r, the kernel of the values is a product `Wv = Wdown Wup` of matrices `(D, r)`
    and `(r, K Hv)`, for K heads of values of width Hv. It has `r (D + K Hv)` weights instead of `D
    K Hv`, which is fewer if `r < D K Hv / (D + K Hv)`, or `r < D / 2` for `K Hv = D`. With
    `use_bias`, each factor has a bias: `V = (x Wdown + bdown) Wup + bup`. `Wdown` replaces V's
    columns in `Wqkv`, so that one narrower product computes Q, K and `x Wdown`, and a second
    product with `Wup` computes V.

    With `positions="rotary"`, queries and keys are rotated by their positions (Su et al., 2021; see
    `keras_attn.ops.apply_rotary`), so that Q[n] K[n]^T depends on distances. With
    `positions="alibi"`, a bias that decreases with the distance is added to the scaled products
    (Press et al., 2022; see `keras_attn.ops.alibi_bias`). With `positions="relative"`, a learned
    bias is added, one number for each head and bucket of distances (T5: Raffel et al., 2020; see
    `keras_attn.ops.relative_position_buckets`); with a causal mask, all buckets are used for
    earlier keys. In each of these cases, only distances matter, so padding on either side does not
    require the call argument `positions`. Pass it if the tokens are not in order.

    Shapes: x `(B, T, D)`.

    Masking: the Keras mask of `x`, or an explicit `mask` `(B, T)`, hides keys and is the mask of
    the output. `attention_mask` `(B, T, T)` or `(B, 1|N, T, T)` hides further keys. Masks are
    boolean or 0/1 integers, True for tokens that may be attended. A query that sees no key gets a
    zero context (so its output is the output bias) and zero weights. Padded queries attend to
    visible keys as usual.

    Args:
        num_heads: Number of query heads N.
        key_dim: Width H of a head of queries and keys; D / N if None.
        value_dim: Width Hv of a head of values; `key_dim` if None.
        num_kv_heads: Number K of key and value heads, a divisor of N; N if None.
        output_dim: Width of the output; D if None.
        attention_dropout: Dropout rate of the attention weights.
        use_bias: Whether the projections have biases.
        scale: Factor of the query-key products; `1 / sqrt(H)` if None.
        kernel_initializer: Initializer of the projections.
        bias_initializer: Initializer of the biases of the projections.
        kernel_regularizer: Regularizer of the kernels.
        bias_regularizer: Regularizer of the biases.
        kernel_constraint: Constraint of the kernels, each a matrix (inputs, outputs).
        bias_constraint: Constraint of the biases.
        seed: Seed of the dropout.
        value_rank: Rank r of the projection of values, at most min(D, K Hv); full if None.
        attention_kernel: How attention is computed: "auto", "plain", "chunked" or "flash", as in
            `keras_attn.ops.dot_product_attention`. Only "auto" and "plain" support dropout and
            returned weights.
        right_padding: Promises that padding is only at the end of rows. Kernels then get the number
            of tokens of each row; any other padding raises an error if the values of the mask are
            known, and otherwise makes the kernels hide the wrong keys.
        positions: How attention depends on positions: "rotary", "alibi", "relative" or None.
        rotary_base: Base of the wavelengths of rotary positions.
        rotary_scaling: Scaling of rotary positions for contexts longer than in training, in the
            form that `keras_attn.ops.rotary_rates` accepts.
        num_buckets: Number of buckets of relative positions; even, at least 4.
        max_distance: Distance from which relative positions of one direction share a bucket; more
            than `num_buckets / 2`.
        sliding_window: Distance from which keys are hidden (Beltagy et al., 2020; Jiang et al.,
            2023); no limit if None.
        qk_norm: Norm of queries and keys over the width of a head, before positions rotate them
            (Dehghani et al., 2023): "rms_norm" or "layer_norm"; none if None.
        qk_norm_epsilon: Epsilon of the norms of queries and keys.
        softcap: Limit c of the scaled products s, as `c tanh(s / c)` (Gemma Team, 2024); none if
            None.
        attention_sinks: Whether each head has an additional learned logit in the denominator of the
            softmax (OpenAI, 2025); weights then sum to less than 1.
        sink_tokens: Number of first tokens of a row that `sliding_window` does not hide
            (StreamingLLM: Xiao et al., 2024).
        score_mod: Function `(scores, head, query, key) -> scores` that changes scores, given the
            positions of queries and keys, as in `keras_attn.ops.dot_product_attention`. Register it
            with `keras.saving.register_keras_serializable`, so that the layer can be saved.
        mask_mod: Function `(head, query, key) -> visible` of the positions of queries and keys,
            which hides keys. Register it like `score_mod`, so that the layer can be saved.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, T, D)`.
        attention_mask: Mask of query-key pairs, `(B, T, T)` or `(B, 1|N, T, T)`.
        attention_bias: Floats `(B|1, N|1, T|1, T|1)`, added to the scaled products; -inf hides.
        use_causal_mask: Whether later positions are hidden from earlier ones.
        return_attention_scores: Whether to also return the attention weights.
        mask: Padding mask `(B, T)`; the Keras mask of `x` if None.
        training: Whether dropout is active.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)`: positions of the tokens for the settings
            `positions`, `score_mod` and `mask_mod`; `0 ... T-1` if None. A layer without these
            settings raises an error.

    Returns:
        The output `(B, T, output_dim)` or, if `return_attention_scores` is True, `(output,
        weights)` with weights `(B, N, T, T)`.

    Raises:
        ValueError: If a setting is unknown, out of range or does not apply; if an input has the
            wrong rank or length; if the heads do not divide the width; if a mask has floats or the
            wrong shape; if a mask that is known breaks the promise of `right_padding`; or if a
            symbolic `x` lost its Keras mask on the way to this layer.
        TypeError: If `score_mod` or `mask_mod` cannot be called, tensors are passed in a list, or
            an argument has a name from another package, such as `dropout` in Keras.

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
        sink_tokens: int = 0,
        score_mod: Function | None = None,
        mask_mod: Function | None = None,
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
        self.sink_tokens, self.score_mod, self.mask_mod = checked_visibility(
            "MultiHeadSelfAttention",
            sliding_window,
            sink_tokens,
            score_mod,
            mask_mod,
            self.attention_kernel,
        )
        self.relative_bias: keras.layers.Embedding | None = None

    @property
    def reads_positions(self) -> bool:
        """Whether the layer uses `positions`."""
        return not self.positions is self.score_mod is self.mask_mod is None

    def build(self, x_shape: Shape):
        """Creates the fused projection and the output projection."""
        if len(x_shape) != 3:
            raise ValueError(f"`x` must have shape (B, T, D). Received: shape {x_shape}.")
        self._set_widths(x_shape[-1], x_shape[-1])
        if self.positions == "rotary":
            check_rotary_width(self._head_dim)
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
        self._build_scores()
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
        """Computes self-attention of `x` `(B, T, D)`; the class describes the arguments."""
        check_rank(x, "x")
        mask = sequence_mask(x, mask, x_mask, name="mask")
        x = self._clean(x, mask)
        positions = self._positions_of(x, positions)
        window = self.sliding_window
        if self.sink_tokens and mask is not None and not self.right_padding:
            near = self._near_slots(mask)  # which are the first depends on where the padding is
            own = attention_mask
            attention_mask = near if own is None else self._both(own, near, x)
            window = None
        query, key, value = self.project(x, positions)
        return self._attend(
            query,
            key,
            value,
            "self",
            **self._visible(x, x, attention_mask, mask),
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
            training=training,
            bias=_sum(
                self._bias(positions, causal=use_causal_mask),
                self._checked_bias(attention_bias, x, x),
            ),
            **self._window(window),
            **self._functions(positions, positions),
        )

    def _window(self, window: int | None) -> dict[str, Any]:
        """The window of a kernel, and the number of first tokens that stay visible."""
        first = self.sink_tokens if window is not None else 0
        return {"sliding_window": window, **({"sink_tokens": first} if first else {})}

    def _functions(self, query: Tensor | None, key: Tensor | None) -> dict[str, Any]:
        """The functions of scores and visibility, with the positions for them."""
        functions = {"score_mod": self.score_mod, "mask_mod": self.mask_mod}
        found: dict[str, Any] = {n: f for n, f in functions.items() if f is not None}
        return {**found, "query_positions": query, "key_positions": key} if found else {}

    def _near_slots(self, mask: Tensor) -> Tensor:
        """Which slots see which in the window, including the first tokens, `(B, T, T)`."""
        slots = token_positions(mask)
        distance = ops.expand_dims(slots, 2) - ops.expand_dims(slots, 1)
        first = ops.argmax(ops.cast(mask, "int32"), axis=1)  # after padding on the left
        of_all = slots < ops.expand_dims(ops.cast(first, "int32"), 1) + self.sink_tokens
        return ops.logical_or(ops.abs(distance) < self.sliding_window, ops.expand_dims(of_all, 1))

    def _near(self, mask: Tensor, window: int) -> Tensor:
        """Which earlier tokens the window shows to each token, `(B, T, T)`, counted in tokens."""
        count = ops.cumsum(ops.cast(mask, "int32"), axis=1)
        near = ops.expand_dims(count, 2) - ops.expand_dims(count, 1) < window
        if not self.sink_tokens:
            return near
        return ops.logical_or(near, ops.expand_dims(count <= self.sink_tokens, 1))

    def _both(self, attention_mask: Tensor, near: Tensor, x: Tensor) -> Tensor | None:
        """A checked mask and the slots that are near, `(B, 1|N, T, T)`."""
        mask = as_boolean_mask(attention_mask, "attention_mask")
        check_not_rank_2(mask, "attention_mask", "mask", causal=True)
        near = ops.expand_dims(near, 1)
        return combine_masks(x.shape, x.shape, self.num_heads, mask, causal_mask=near)

    def _positions_of(self, x: Tensor, positions: Tensor | None) -> Tensor | None:
        """Positions `(1, T)` or `(B, T)`, or None if the layer has no positions."""
        if not self.reads_positions:
            if positions is not None:
                raise ValueError(
                    f"{self.name} does not use `positions`: it was created with "
                    "positions=None. Received: positions of shape "
                    f'{tuple(ops.shape(positions))}. Create it with positions="rotary", '
                    '"alibi" or "relative", or leave `positions` out.'
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
            dtype = wide_dtype(self.compute_dtype)
            return alibi_bias(self.num_heads, positions, keys, dtype)
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
        """Projects `x` `(B, T, D)` to queries, keys and values.

        Args:
            x: Inputs `(B, T, D)`.
            positions: Integers `(1, T)` or `(B, T)`, by which queries and keys are rotated in a
                layer with rotary positions; `0 ... T-1` if None. Other layers ignore them.

        Returns:
            A tuple of queries `(B, T, N, H)`, keys `(B, T, K, H)` and values `(B, T, K, Hv)`.
        """
        # The gradient of a split is one concatenation; that of slices, three padded tensors.
        q, k, v = self._sizes
        parts = 3 if q == k == v else [q, q + k]
        query, key, value = ops.split(flat(self.qkv_dense, x), parts, axis=-1)
        query = self._normalized(self.query_norm, self._split(query, self.num_heads))
        key = self._normalized(self.key_norm, self._split(key, self._kv_heads))
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
        """Attends causally within a prompt of P tokens, and returns the cache for `step`.

        Args:
            x: Inputs `(B, P, D)`.
            mask: Padding mask `(B, P)`; all are tokens if None. A window counts only the visible
                tokens, as in `step`.
            max_length: Number of slots L of the cache, at least P.
            positions: Positions of the prompt's tokens, as in a call. With rotary positions, the
                cache contains rotated keys.

        Returns:
            A tuple of the output `(B, P, output_dim)` and the cache, a tuple of keys `(B, K, L, H)`
            and values `(B, K, L, Hv)`, of which the first P slots are written.
        """
        positions = self._positions_of(x, positions)
        query, key, value = self.project(x, positions)
        near, window = None, self.sliding_window
        if window is not None and mask is not None:
            near, window = self._near(mask, window), None
        combined, bias = self._combined_mask(x, x, near, mask), self._bias(positions)
        output = self._attend(
            query,
            key,
            value,
            "self",
            combined,
            use_causal_mask=True,
            bias=bias,
            **self._window(window),
            **self._functions(positions, positions),
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
        """Attends from one new position to itself and to the cached positions.

        Args:
            x: Inputs `(B, 1, D)`.
            cache: Keys and values `(B, K, L, ...)`, from `prefill` or the last `step`.
            slot: int32 scalar tensor, the slot for the new key and value.
            visible: Boolean `(B, L)`, True for the slots of tokens, including the new one. If R
                beams of a sentence share their slots, `(B, R, L)`: True for the slots of each beam
                of the sentence that hold a token of the row.
            return_attention_scores: Whether to also return the weights `(B, N, 1, L)`.
            positions: Integers `(B, L)`, the positions of all slots, including the new one; `0 ...
                L-1` if None.

        Returns:
            A tuple of the output `(B, 1, output_dim)`, the cache with the new key and value and, if
            `return_attention_scores` is True, the attention weights.
        """
        here = None
        tokens = visible if len(visible.shape) == 2 else ops.any(visible, axis=1)
        positions = self._positions_of(tokens, positions)
        if positions is not None:
            here = ops.take(positions, ops.reshape(slot, (1,)), axis=1)
        query, key, value = self.project(x, here)
        bias = self._bias(here, positions)
        if self.sliding_window is not None:  # count tokens: there may be padding
            count = ops.cumsum(ops.cast(tokens, "int32"), axis=1)
            near = count > ops.max(count, axis=1, keepdims=True) - self.sliding_window
            if self.sink_tokens:
                near = ops.logical_or(near, count <= self.sink_tokens)
            near = near if len(visible.shape) == 2 else ops.expand_dims(near, 1)
            visible = ops.logical_and(visible, near)
        cache = (write_cache(cache[0], slot, key), write_cache(cache[1], slot, value))
        result = self._attend_cached(
            query,
            cache,
            visible,
            "self",
            bias,
            return_attention_scores,
            used=slot + 1,
            **self._functions(here, positions),
        )
        if return_attention_scores:
            return result[0], cache, result[1]
        return result, cache

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras.

        Raises:
            ValueError: If `score_mod` or `mask_mod` is not registered, so that it cannot be saved.
        """
        return {
            **super().get_config(),
            "positions": self.positions,
            "rotary_base": self.rotary_base,
            "rotary_scaling": self.rotary_scaling,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "sliding_window": self.sliding_window,
            "sink_tokens": self.sink_tokens,
            "score_mod": function_config(self.score_mod, "score_mod"),
            "mask_mod": function_config(self.mask_mod, "mask_mod"),
        }


def _sum(*parts: Tensor | None) -> Tensor | None:
    given = [part for part in parts if part is not None]
    given = [ops.cast(part, wide_dtype(*given)) for part in given]
    return None if not given else sum(given[1:], given[0])
