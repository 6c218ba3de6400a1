"""Multiplicative (Luong) attention."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.masked_layer import check_positive, check_width
from keras_attn.layers.sequence_attention import SequenceAttention
from keras_attn.ops import additive_scores

LUONG_SCORES = ("dot", "general", "concat", "scaled")


@keras.saving.register_keras_serializable(package="keras_attn")
class LuongAttention(SequenceAttention):
    """Multiplicative attention, global or local (Luong et al., 2015).

        dot:      scores[t, s] = query[t] . key[s]                   0 weights, needs Dq = Dk
        general:  scores[t, s] = query[t] . (key[s] W)               Dk Dq weights
        concat:   scores[t, s] = v . tanh([query[t]; key[s]] W)      (Dq + Dk) U + U weights
        scaled:   scores[t, s] = g query[t] . key[s]                 1 weight, needs Dq = Dk
        context[t] = sum_s softmax_s(scores[t]) value[s]                 (B, T, Dv)

    The factor g of `score="scaled"` is learned; its initial value is `1 / sqrt(Dk)`, the factor of
    Vaswani et al., 2017. W of `score="concat"` is stored as two halves, so that keys are projected
    only once for all queries.

    With a `window`, a query sees only the keys s with `|s - p[t]| <= window_size`. Local-m,
    `window="monotonic"`, sets `p[t] = t`; a query that is past the last key by more than the window
    sees nothing. Local-p, `window="predictive"`, sets `p[t] = n sigmoid(vp . tanh(query[t] Wp))`
    for n keys, and multiplies the weights by `exp(-(s - p[t])^2 / (2 sigma^2))` with `sigma =
    window_size / 2`, so that the weights sum to less than 1. It adds `Dq Dq + Dq` weights for Wp
    and vp. Padding does not count as a position.

    Shapes: query `(B, T, Dq)`, value `(B, S, Dv)`, key `(B, S, Dk)`.

    Masking: `value_mask` and `key_mask` `(B, S)` hide keys, and `attention_mask` `(B, T, S)` or
    `(B, 1, T, S)` hides keys from individual queries. Masks are boolean or 0/1 integers, True for
    tokens that may be attended. `value_mask` defaults to the Keras mask of `value`, and `key_mask`
    to the Keras mask of `key`; both are combined. `query_mask` hides nothing: it is the mask of the
    output, by default the Keras mask of `query`. A query that sees no key gets zero weights and a
    zero context.

    Args:
        score: `"dot"`, `"general"`, `"concat"` or `"scaled"`.
        units: Width U of the hidden layer of `score="concat"`; the width of the query if None.
        window: `None` (global), `"monotonic"` (local-m) or `"predictive"` (local-p).
        window_size: Half-width D of the window, in keys; 10 if None.
        attention_dropout: Dropout rate of the attention weights.
        kernel_initializer: Initializer of the matrices and vectors.
        kernel_regularizer: Regularizer of the matrices and vectors.
        kernel_constraint: Constraint of the matrices and vectors.
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Queries `(B, T, Dq)`. For a single decoder state, pass `ops.expand_dims(state, 1)`.
        value: Values `(B, S, Dv)`.
        key: Keys `(B, S, Dk)`; `value` if None.
        query_mask: Mask `(B, T)` of the output.
        value_mask: Padding mask of the values, `(B, S)`.
        key_mask: Padding mask of the keys, `(B, S)`.
        attention_mask: Mask of query-key pairs, `(B, T, S)` or `(B, 1, T, S)`.
        projected_key: Result of `project_key(key)`, instead of `key`, if many queries read the same
            memory. NaN in its padding, or in the padding of `value`, is then not removed.
        positions: Positions `(B, T)` of the queries for `window="monotonic"`; 0, 1, 2, ... if None.
            With any other `window`, they raise an error.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether dropout is active.

    Returns:
        The context `(B, T, Dv)` or, if `return_attention_scores` is True, `(context, weights)` with
        weights `(B, T, S)`.

    Raises:
        ValueError: If a setting is unknown, out of range or does not apply; if the widths of
            queries and keys do not match; if an input is missing or has the wrong rank or length;
            if `key` and `projected_key` are both given; if a mask has floats or the wrong shape; or
            if a symbolic `value` or `key` lost its Keras mask on the way to this layer.
        TypeError: If tensors are passed in a list.

    Example:

    >>> layer = LuongAttention(score="general", window="predictive", window_size=2)
    >>> query, memory = ops.ones((2, 1, 16)), ops.ones((2, 7, 24))
    >>> context, weights = layer(query, memory, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 1, 24), (2, 1, 7))
    """

    def __init__(
        self,
        *,
        score: str = "general",
        units: int | None = None,
        window: str | None = None,
        window_size: int | None = None,
        attention_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(
            window=window,
            window_size=window_size,
            attention_dropout=attention_dropout,
            seed=seed,
            **kwargs,
        )
        if score not in LUONG_SCORES:
            raise ValueError(
                f"`score` of LuongAttention must be one of {list(LUONG_SCORES)}. "
                f"Received: {score!r}."
            )
        if units is not None:
            check_positive("LuongAttention", units=units)
            if score != "concat":
                raise ValueError(
                    "`units` of LuongAttention is only used with score='concat'. Received: "
                    f"units={units!r} with score={score!r}."
                )
        self.score = score
        self.units = units

    def build_scores(self, query_shape: Shape, key_shape: Shape):
        """Creates the weights of the scores."""
        check_width(self, query=query_shape, key=key_shape)
        query_width, key_width = query_shape[-1], key_shape[-1]
        if self.score in ("dot", "scaled") and query_width != key_width:
            raise ValueError(
                f"score={self.score!r} needs queries and keys of the same width; score='general' "
                f"does not. Received: query {tuple(query_shape)}, key {tuple(key_shape)}."
            )
        if self.score == "scaled":
            factor = keras.initializers.Constant(key_width**-0.5)
            self.gain = self.add_weight(shape=(), initializer=factor, name="gain")
        if self.score == "general":
            self.key_dense = self._dense(query_width, "key")
        if self.score == "concat":
            units = self.units or query_width
            self.query_dense = self._dense(units, "query")
            self.query_dense.build(query_shape)
            self.key_dense = self._dense(units, "key")
            self.scale = self._vector("scale", units)
        if self.score in ("general", "concat"):
            self.key_dense.build(key_shape)

    def project_key(self, key: Tensor) -> Tensor:
        """Projects the keys `(B, S, Dk)`, once for many queries.

        The result is `(B, S, Dq)` with `score="general"` and `(B, S, U)` with `score="concat"`.
        With `score="dot"` and `score="scaled"`, it is the keys themselves.
        """
        return self.key_dense(key) if self.score in ("general", "concat") else key

    def compute_scores(self, query: Tensor, projected_key: Tensor):
        """Computes scores `(B, T, S)` of queries `(B, T, Dq)` and the result of `project_key`."""
        if self.score == "concat":
            query = self.project(self.query_dense, query)
            return additive_scores(query, projected_key, self.scale[:, 0])
        if self.score == "scaled":
            query = query * ops.cast(self.gain, query.dtype)
        # A loop would keep transposed keys at each step; a transposed query is small.
        scores = ops.matmul(projected_key, ops.swapaxes(query, 1, 2))
        return ops.swapaxes(scores, 1, 2)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {**super().get_config(), "score": self.score, "units": self.units}
