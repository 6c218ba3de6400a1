"""Multi-head attention from queries to another sequence."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.collect import current_role
from keras_attn.layers.flattening import flat
from keras_attn.layers.heads import HeadsLayer
from keras_attn.layers.masked_layer import (
    check_rank,
    check_same_batch,
    check_same_length,
    sequence_mask,
)
from keras_attn.ops import as_boolean_mask
from keras_attn.ops.cached_attention import to_cache


@keras.saving.register_keras_serializable(package="keras_attn")
class MultiHeadAttention(HeadsLayer):
    """Multi-head attention from queries to keys and values (Vaswani et al., 2017).

        Q, K, V    = query Wq + bq, key Wk + bk, value Wv + bv     split into heads
        weights[n] = softmax(scale * Q[n] K[n]^T)                  (T, S) for each head n
        output     = concat_n(weights[n] V[n]) Wo + bo             (B, T, output_dim)

    For attention from a sequence to itself, `MultiHeadSelfAttention` is faster. If `num_kv_heads`
    is less than `num_heads`, this is grouped-query attention (Ainslie et al., 2023). If it is 1,
    this is multi-query attention (Shazeer, 2019).

    With `value_rank` r, the kernel of the values is a product `Wv = Wdown Wup` of matrices `(Dv,
    r)` and `(r, K Hv)`, for K heads of values of width Hv. It has `r (Dv + K Hv)` weights instead
    of `Dv K Hv`, which is fewer if `r < Dv K Hv / (Dv + K Hv)`, or `r < Dv / 2` for `K Hv = Dv`.
    With `use_bias`, each factor has a bias: `V = (value Wdown + bdown) Wup + bup`.

    Shapes: query `(B, T, Dq)`, value `(B, S, Dv)`, key `(B, S, Dk)`; the widths may differ.

    Masking: `value_mask` and `key_mask` `(B, S)` hide keys, and `attention_mask` `(B, T, S)` or
    `(B, 1|N, T, S)` hides keys from individual queries. Masks are boolean or 0/1 integers, True for
    tokens that may be attended. `value_mask` defaults to the Keras mask of `value`, and `key_mask`
    to the Keras mask of `key`; both are combined. The caller's tensors and their masks are never
    changed. `query_mask` hides nothing: it is the mask of the output, by default the Keras mask of
    `query`. A query that sees no key gets a zero context (so its output is the output bias) and
    zero weights. A causal mask is aligned bottom-right: the last query sees every key.

    Args:
        num_heads: Number of query heads N.
        key_dim: Width H of a head of queries and keys; Dq / N if None.
        value_dim: Width Hv of a head of values; `key_dim` if None.
        num_kv_heads: Number K of key and value heads, a divisor of N; N if None.
        output_dim: Width of the output; Dq if None.
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
        value_rank: Rank r of the projection of values, at most min(Dv, K Hv); full if None.
        attention_kernel: How attention is computed: "auto", "plain", "chunked" or "flash", as in
            `keras_attn.ops.dot_product_attention`. Only "auto" and "plain" support dropout and
            returned weights.
        right_padding: Promises that padding is only at the end of rows. Kernels then get the number
            of tokens of each row; any other padding raises an error if the values of the mask are
            known, and otherwise makes the kernels hide the wrong keys.
        qk_norm: Norm of queries and keys over the width of a head (Dehghani et al., 2023):
            "rms_norm" or "layer_norm"; none if None.
        qk_norm_epsilon: Epsilon of the norms of queries and keys.
        softcap: Limit c of the scaled products s, as `c tanh(s / c)` (Gemma Team, 2024); none if
            None.
        attention_sinks: Whether each head has an additional learned logit in the denominator of the
            softmax (OpenAI, 2025); weights then sum to less than 1.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Queries `(B, T, Dq)`.
        value: Values `(B, S, Dv)`.
        key: Keys `(B, S, Dk)`; `value` if None.
        query_mask: Mask `(B, T)` of the output.
        value_mask: Padding mask of the values, `(B, S)`.
        key_mask: Padding mask of the keys, `(B, S)`.
        attention_mask: Mask of query-key pairs, `(B, T, S)` or `(B, 1|N, T, S)`.
        attention_bias: Floats `(B|1, N|1, T|1, S|1)`, added to the scaled products; -inf hides.
        use_causal_mask: Whether later keys are hidden from earlier queries.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether dropout is active.

    Returns:
        The output `(B, T, output_dim)` or, if `return_attention_scores` is True, `(output,
        weights)` with weights `(B, N, T, S)`.

    Raises:
        ValueError: If a setting is unknown, out of range or does not apply; if an input is missing
            or has the wrong rank, batch size or length; if the heads do not divide the width; if a
            mask has floats or the wrong shape; if a mask that is known breaks the promise of
            `right_padding`; or if a symbolic `value` or `key` lost its Keras mask on the way to
            this layer.
        TypeError: If tensors are passed in a list, or an argument has a name from another package,
            such as `dropout` in Keras.

    Example:

    >>> layer = MultiHeadAttention(num_heads=4, key_dim=8)
    >>> query, memory = ops.ones((2, 5, 16)), ops.ones((2, 7, 24))
    >>> output, weights = layer(query, memory, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 4, 5, 7))
    """

    _query_mask_name = "query_mask"
    _key_mask_name = "value_mask"
    _needed_masks = (("value", ("value_mask", "key_mask")), ("key", ("key_mask", "value_mask")))

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ):
        """Creates the projections of queries, keys, values and the output."""
        if value_shape is None:
            raise ValueError(
                "MultiHeadAttention needs a `value`: call layer(query, value), or use "
                "MultiHeadSelfAttention for layer(x)."
            )
        key_shape = key_shape or value_shape
        for name, shape in [("query", query_shape), ("value", value_shape), ("key", key_shape)]:
            if len(shape) != 3:
                raise ValueError(
                    f"`{name}` must have shape (B, length, width). Received: shape {shape}."
                )
        self._set_widths(query_shape[-1], value_shape[-1])
        self.query_dense = self._dense(self.num_heads * self._head_dim, "query")
        self.key_dense = self._dense(self._kv_heads * self._head_dim, "key")
        self.value_dense = self._dense(self.value_rank or self._values_width, "value")
        self._build_value_up(value_shape)
        self._build_scores()
        self.output_dense = self._dense(self.output_dim or query_shape[-1], "output")
        self.query_dense.build(query_shape)
        self.key_dense.build(key_shape)
        self.value_dense.build(value_shape)
        width = self.num_heads * self._value_head_dim
        self.output_dense.build((*query_shape[:-1], width))

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        *,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        mask: Tensor | None = None,
        training: bool | None = None,
    ):
        """Computes attention of queries `(B, T, Dq)`; the class describes the arguments."""
        if value is None:
            raise ValueError(
                "MultiHeadAttention needs a `value`: call layer(query, value), or use "
                "MultiHeadSelfAttention for layer(x)."
            )
        check_rank(query, "query", shape="(B, T, Dq)")
        check_rank(value, "value", shape="(B, S, Dv)")
        if key is not None:
            check_rank(key, "key", shape="(B, S, Dk)")
            check_same_length(key, value)
        check_same_batch(query=query, value=value, key=key)
        query = self._clean(query, sequence_mask(query, query_mask, mask, name="query_mask"))
        value_mask = sequence_mask(value, value_mask, name="value_mask")
        key_mask = sequence_mask(value, key_mask, name="key_mask")
        if value_mask is not None and key_mask is not None:
            value_mask = ops.logical_and(value_mask, key_mask)
        elif value_mask is None:
            value_mask = key_mask
        value = self._clean(value, value_mask)
        key = None if key is None else self._clean(key, value_mask)
        return self._attend(
            self._project_query(query),
            *self._project(value, key),
            current_role(),
            **self._visible(query, value, attention_mask, value_mask),
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
            training=training,
            bias=self._checked_bias(attention_bias, query, value),
        )

    def _project_query(self, query: Tensor) -> Tensor:
        """Queries `(B, T, N, H)`."""
        projected = self._split(flat(self.query_dense, query), self.num_heads)
        return self._normalized(self.query_norm, projected)

    def _project(self, value: Tensor, key: Tensor | None) -> tuple[Tensor, Tensor]:
        """Keys `(B, S, K, H)` and values `(B, S, K, Hv)`."""
        key = value if key is None else key
        return (
            self._normalized(self.key_norm, self._split(flat(self.key_dense, key), self._kv_heads)),
            self._split_values(flat(self.value_dense, value)),
        )

    def project_memory(self, value: Tensor, key: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Projects keys and values once, for many calls to `attend_projected`.

        Args:
            value: Values `(B, S, Dv)`.
            key: Keys `(B, S, Dk)`; `value` if None.

        Returns:
            A tuple of the projected keys `(B, K, S, H)` and values `(B, K, S, Hv)`, for K key and
            value heads.
        """
        key, value = self._project(value, key)
        return to_cache(key), to_cache(value)

    def attend_projected(
        self,
        query: Tensor,
        projected: tuple[Tensor, Tensor],
        value_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        """Attends to the result of `project_memory`, as a call without dropout does.

        Args:
            query: Queries `(M, T, Dq)`, where M is a multiple of the batch size B of the memory.
                Each group of M / B rows reads one row of the memory, like the beams of a sentence.
            projected: Keys and values from `project_memory`.
            value_mask: Padding mask of the values, `(B, S)`; all are tokens if None.
            return_attention_scores: Whether to also return the attention weights.

        Returns:
            The output `(M, T, output_dim)` or, if `return_attention_scores` is True, `(output,
            weights)` with weights `(M, N, T, S)`.
        """
        return self._attend_cached(
            self._project_query(query),
            projected,
            None if value_mask is None else as_boolean_mask(value_mask, "value_mask"),
            "cross",
            return_attention_scores=return_attention_scores,
        )
