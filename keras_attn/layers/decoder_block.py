"""Transformer decoder block."""

from typing import Any, cast

import keras
from keras import ops

from keras_attn.hints import Shape, Size, Tensor
from keras_attn.layers.block import TransformerBlock, with_scores
from keras_attn.layers.masked_layer import check_rank, check_same_batch, sequence_mask
from keras_attn.layers.multi_head_attention import MultiHeadAttention


@keras.saving.register_keras_serializable(package="keras_attn")
class DecoderBlock(TransformerBlock):
    """Transformer decoder block: causal self-attention, cross-attention, feed-forward.

        post-norm (Vaswani et al., 2017):     x = norm(x + sublayer(x))
        pre-norm (normalize_first):           x = x + sublayer(norm(x))

    The sublayers are causal self-attention, cross-attention to `memory` and feed-forward, in turn.
    A block whose first call has no `memory` has no cross-attention, like the block of GPT (Radford
    et al., 2018).

    Shapes: x `(B, T, D)`, memory `(B, S, Dm)` to `(B, T, D)`.

    Masking: `padding_mask` `(B, T)`, or the Keras mask of `x`, hides padded targets and is the mask
    of the output. `memory_mask` `(B, S)`, or the Keras mask of `memory`, hides padded memory.
    `attention_mask` `(B, T, T)` or `(B, 1|N, T, T)` restricts self-attention further, and
    `cross_attention_mask` `(B, T, S)` or `(B, 1|N, T, S)` restricts cross-attention. Masks are
    boolean or 0/1 integers, True for tokens that may be attended. If a query sees nothing of the
    memory, the output of cross-attention is its output bias.

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
        value_rank: Rank of the projection of values in both attentions; full if None.
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
        memory: Source states `(B, S, Dm)`, or None for a block without cross-attention.
        memory_mask: Padding mask of the memory, `(B, S)`.
        padding_mask: Padding mask of `x`, `(B, T)`.
        attention_mask: Mask of query-key pairs, `(B, T, T)` or `(B, 1|N, T, T)`.
        attention_bias: Floats `(B|1, N|1, T|1, T|1)`, added to the scaled products of the
            self-attention; -inf hides.
        use_causal_mask: Whether later positions are hidden from earlier ones; True by default.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether dropout is active.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)`: positions of the tokens for the settings
            `positions`, `score_mod` and `mask_mod`; `0 ... T-1` if None. A block without these
            settings raises an error.
        cross_attention_mask: Mask of query-memory pairs, `(B, T, S)` or `(B, 1|N, T, S)`.

    Returns:
        The output `(B, T, D)`. If `return_attention_scores` is True, `(output, self_weights,
        cross_weights)` with weights `(B, N, T, T)` and `(B, N, T, S)`, or `(output, self_weights)`
        if there is no memory.

    Raises:
        ValueError: If a setting is unknown, out of range or does not apply; if an input or a mask
            has the wrong shape; if a mask has floats or, if it is known, breaks the promise of
            `right_padding`; if the heads do not divide the width; if a memory is given to a block
            that was built without a memory; if no memory is given to a block that was built with a
            memory; if `memory_mask` or `cross_attention_mask` is given without a memory; or if a
            symbolic `x` or `memory` lost its Keras mask on the way to this layer.
        TypeError: If `score_mod` or `mask_mod` cannot be called, or tensors are passed in a list.

    Example:

    >>> block = DecoderBlock(num_heads=2, intermediate_dim=32)
    >>> x, memory = keras.ops.ones((2, 5, 8)), keras.ops.ones((2, 7, 8))
    >>> output, own, cross = block(x, memory, return_attention_scores=True)
    >>> tuple(output.shape), tuple(own.shape), tuple(cross.shape)
    ((2, 5, 8), (2, 2, 5, 5), (2, 2, 5, 7))
    """

    _query_mask_name = "padding_mask"
    _key_mask_name = "padding_mask"
    _constructor_hint = (
        "KerasHub's order is `intermediate_dim, num_heads`; here it is "
        "DecoderBlock(num_heads, intermediate_dim=...)."
    )
    _call_hint = (
        "KerasHub's `decoder_padding_mask` is `padding_mask` here, its `encoder_padding_mask` is "
        "`memory_mask`."
    )
    _needed_masks: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("x", ("padding_mask", "mask", "x_mask")),
        ("memory", ("memory_mask",)),
    )

    def build(self, x_shape: Shape, memory_shape: Shape | None = None):
        """Creates the sublayers; cross-attention only if `memory_shape` is given."""
        self._build_common(x_shape)
        self.cross_attention: MultiHeadAttention | None = None
        self.cross_attention_output_norm = None
        if memory_shape is not None:
            self.cross_attention = self._attention(MultiHeadAttention, "cross_attention")
            self.cross_attention._cleans_padding = False  # the block does
            self.cross_attention.build(x_shape, memory_shape)
            self.cross_attention_norm = self._norm(x_shape, "cross_attention_norm")
            if self.sandwich_norm:
                self.cross_attention_output_norm = self._norm(
                    x_shape, "cross_attention_output_norm"
                )

    def call(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        memory_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = True,
        return_attention_scores: bool = False,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
        training: bool | None = None,
        positions: Tensor | None = None,
        attention_bias: Tensor | None = None,
        cross_attention_mask: Tensor | None = None,
    ):
        """Applies all sublayers to `x` `(B, T, D)`; the class describes the arguments."""
        check_rank(x, "x")
        self._check_memory(memory, memory_mask, cross_attention_mask)
        padding_mask = sequence_mask(x, padding_mask, mask, x_mask)
        x = self._clean(x, padding_mask)
        if memory is not None:
            check_same_batch(x=x, memory=memory)
            memory_mask = sequence_mask(memory, memory_mask, name="memory_mask")
            memory = self._clean(memory, memory_mask)

        def attend_self(h: Tensor):
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

        def attend_memory(h: Tensor):
            result = cast(MultiHeadAttention, self.cross_attention)(
                h,
                memory,
                value_mask=memory_mask,
                attention_mask=cross_attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            return with_scores(result, return_attention_scores)

        x, own = self._residual(
            x, self.self_attention_norm, attend_self, training, self.self_attention_output_norm
        )
        scores = [own]
        if memory is not None:
            x, cross = self._residual(
                x,
                self.cross_attention_norm,
                attend_memory,
                training,
                self.cross_attention_output_norm,
            )
            scores.append(cross)
        x = self._feed_forward(x, training)
        return (x, *scores) if return_attention_scores else x

    def _check_memory(
        self,
        memory: Tensor | None,
        memory_mask: Tensor | None,
        cross_attention_mask: Tensor | None = None,
    ) -> None:
        masks = {"memory_mask": memory_mask, "cross_attention_mask": cross_attention_mask}
        for name, mask in masks.items():
            if memory is None and mask is not None:
                raise ValueError(
                    f"{self.name} received a `{name}` of shape {tuple(mask.shape)}, but no "
                    "`memory`. Give both, or neither."
                )
        if memory is not None and self.cross_attention is None:
            raise ValueError(
                f"{self.name} was built without a memory, so it has no cross-attention. Received: "
                f"a memory of shape {tuple(memory.shape)}. Pass it in the first call too."
            )
        if memory is None and self.cross_attention is not None:
            raise ValueError(
                f"{self.name} was built with a memory. Received: no `memory`. Call block(x, "
                "memory)."
            )
        if memory is not None:
            check_rank(memory, "memory", shape="(B, S, Dm)")

    def prefill(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        max_length: Size | None = None,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Runs over a prompt of P tokens, and returns its output and the state for `step`.

        Args:
            x: Inputs `(B, P, D)`.
            padding_mask: Padding mask of `x`, `(B, P)`; all are tokens if None.
            memory: Source states `(B, S, Dm)`, or None for a block without cross-attention. The
                keys and values of the memory are computed here, once.
            memory_mask: Padding mask of the memory, `(B, S)`; all are tokens if None.
            max_length: Number of slots L of the cache, at least P; P + 1 if None.
            positions: Positions of the prompt's tokens, as in a call.

        Returns:
            The output `(B, P, D)`, and the state, a dict. `"cache"` contains keys `(B, K, L, H)`
            and values `(B, K, L, Hv)` of K heads. With a memory, `"memory"` contains its keys
            `(B, K, S, H)` and values `(B, K, S, Hv)`.

        Raises:
            ValueError: If a memory is given to a block that was built without a memory, no memory
                to a block that was built with a memory, or `memory_mask` without a memory.
        """
        self._check_memory(memory, memory_mask)
        x = ops.cast(x, self.compute_dtype)  # as Keras does for calls, and makes arrays tensors
        max_length = ops.shape(x)[1] + 1 if max_length is None else max_length
        x = self._clean(x, padding_mask)
        if memory is not None:
            memory = self._clean(ops.cast(memory, self.compute_dtype), memory_mask)
        state = {}

        def attend_self(h: Tensor):
            return self.self_attention.prefill(h, padding_mask, max_length, positions)

        def attend_memory(h: Tensor):
            cross = cast(MultiHeadAttention, self.cross_attention)
            projected = cross.project_memory(cast(Tensor, memory))
            return cross.attend_projected(h, projected, memory_mask), projected

        x, state["cache"] = self._residual(
            x, self.self_attention_norm, attend_self, False, self.self_attention_output_norm
        )
        if memory is not None:
            x, state["memory"] = self._residual(
                x, self.cross_attention_norm, attend_memory, False, self.cross_attention_output_norm
            )
        return self._feed_forward(x, False), state

    def step(
        self,
        x: Tensor,
        state: dict[str, Any],
        slot: Tensor,
        visible: Tensor,
        memory_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any], tuple[Tensor, ...]]:
        """Computes the output of one new position, given the cache of earlier positions.

        Args:
            x: Inputs `(B, 1, D)`.
            state: State from `prefill` or the last `step`.
            slot: int32 scalar tensor, the slot of the cache to write.
            visible: Boolean `(B, L)`, True for the slots of tokens, including the new one; or `(B,
                R, L)` for R beams that share their slots, as in `MultiHeadSelfAttention.step`.
            memory_mask: Padding mask of the memory, `(B, S)`; all are tokens if None.
            return_attention_scores: Whether to also return the attention weights.
            positions: Integers `(B, L)`, the positions of all slots, including the new one, for the
                settings `positions`, `score_mod` and `mask_mod`; `0 ... L-1` if None.

        Returns:
            A tuple of the output `(B, 1, D)`, the new state, and a tuple of attention weights. If
            `return_attention_scores` is True, the last tuple contains the weights `(B, N, 1, L)` of
            self-attention and, with a memory, `(B, N, 1, S)` of cross-attention; otherwise, it is
            empty.
        """
        scores = []
        state = dict(state)
        x = ops.cast(x, self.compute_dtype)

        def attend_self(h: Tensor):
            output, cache, *weights = self.self_attention.step(
                h, state["cache"], slot, visible, return_attention_scores, positions
            )
            scores.extend(weights)
            return output, cache

        def attend_memory(h: Tensor):
            result = cast(MultiHeadAttention, self.cross_attention).attend_projected(
                h, state["memory"], memory_mask, return_attention_scores
            )
            output, weights = with_scores(result, return_attention_scores)
            scores.append(weights)
            return output, None

        x, state["cache"] = self._residual(
            x, self.self_attention_norm, attend_self, False, self.self_attention_output_norm
        )
        if self.cross_attention is not None:
            x, _ = self._residual(
                x, self.cross_attention_norm, attend_memory, False, self.cross_attention_output_norm
            )
        return self._feed_forward(x, False), state, tuple(s for s in scores if s is not None)
