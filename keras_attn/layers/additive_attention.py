"""Additive (Bahdanau) attention."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.masked_layer import check_positive, check_width
from keras_attn.layers.sequence_attention import SequenceAttention
from keras_attn.ops import additive_scores
from keras_attn.ops.precision import wide_dtype


@keras.saving.register_keras_serializable(package="keras_attn")
class AdditiveAttention(SequenceAttention):
    """Additive attention with projections (Bahdanau et al., 2015).

        scores[t, s] = v . tanh(query[t] Wq + key[s] Wk + b)      (B, T, S)
        context[t]   = sum_s softmax_s(scores[t]) value[s]        (B, T, Dv)

    `keras.layers.AdditiveAttention` has neither `Wq` nor `Wk`, and requires equal widths; this
    layer follows the paper. With `units=None`, there are no projections, as in the Keras layer:
    `scores[t, s] = v . tanh(query[t] + key[s])`. If `normalize` is True, `g v / |v|` replaces v
    (Salimans and Kingma, 2016), where the learned length g is initially `1 / sqrt(U)`.

    With a `window`, a query sees only the keys s with `|s - p[t]| <= window_size` (Luong et al.,
    2015). `window="monotonic"` sets `p[t] = t`; a query that is past the last key by more than the
    window sees nothing. `window="predictive"` sets `p[t] = n sigmoid(vp . tanh(query[t] Wp))` for n
    keys, and multiplies the weights by `exp(-(s - p[t])^2 / (2 sigma^2))` with `sigma = window_size
    / 2`, so that the weights sum to less than 1. Padding does not count as a position. The layer
    has `Dq U + Dk U + U` parameters, or U without projections. A bias adds U parameters,
    `normalize=True` adds 1, and `window="predictive"` adds `Dq Dq + Dq`.

    The layer needs memory for `B T S U` numbers; an `AttentionDecoder` needs memory for only one
    step, `B S U` numbers.

    Shapes: query `(B, T, Dq)`, value `(B, S, Dv)`, key `(B, S, Dk)`. The widths may differ, except
    that `units=None` requires Dq = Dk.

    Masking: `value_mask` and `key_mask` `(B, S)` hide keys, and `attention_mask` `(B, T, S)` or
    `(B, 1, T, S)` hides keys from individual queries. Masks are boolean or 0/1 integers, True for
    tokens that may be attended. `value_mask` defaults to the Keras mask of `value`, and `key_mask`
    to the Keras mask of `key`; both are combined. `query_mask` hides nothing: it is the mask of the
    output, by default the Keras mask of `query`. A query that sees no key gets zero weights and a
    zero context.

    Args:
        units: Width U of the hidden layer; None for no projections, with U = Dq.
        use_bias: Whether to use the bias b, which requires projections.
        normalize: Whether to normalize v.
        window: `None` (all keys), `"monotonic"` or `"predictive"`.
        window_size: Half-width D of the window, in keys; 10 if None.
        attention_dropout: Dropout rate of the attention weights.
        kernel_initializer: Initializer of the matrices and vectors.
        kernel_regularizer: Regularizer of the matrices and vectors.
        kernel_constraint: Constraint of the matrices and vectors.
        bias_initializer: Initializer of the bias b.
        bias_regularizer: Regularizer of the bias b.
        bias_constraint: Constraint of the bias b.
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
        ValueError: If a setting is unknown, out of range or does not apply; if an input is missing
            or has the wrong rank, length or width; if `key` and `projected_key` are both given; if
            a mask has floats or the wrong shape; or if a symbolic `value` or `key` lost its Keras
            mask on the way to this layer.
        TypeError: If tensors are passed in a list.

    Example:

    >>> layer = AdditiveAttention(units=10)
    >>> query, memory = ops.ones((2, 1, 16)), ops.ones((2, 7, 24))
    >>> context, weights = layer(query, memory, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 1, 24), (2, 1, 7))
    """

    def __init__(
        self,
        units: int | None,
        *,
        use_bias: bool = False,
        attention_dropout: float = 0.0,
        seed: int | None = None,
        normalize: bool = False,
        window: str | None = None,
        window_size: int | None = None,
        **kwargs,
    ):
        super().__init__(
            window=window,
            window_size=window_size,
            attention_dropout=attention_dropout,
            seed=seed,
            **kwargs,
        )
        if units is not None:
            check_positive("AdditiveAttention", units=units)
        elif use_bias:
            raise ValueError(
                "`use_bias` of AdditiveAttention requires projections. Received: "
                "use_bias=True with units=None. Give `units`, or leave `use_bias` out."
            )
        self.units = units
        self.use_bias = use_bias
        self.normalize = normalize

    def build_scores(self, query_shape: Shape, key_shape: Shape):
        """Creates the weights of the scores."""
        check_width(self, query=query_shape, key=key_shape)
        units = query_shape[-1] if self.units is None else self.units
        self.query_dense = self.key_dense = None
        if self.units is not None:
            self.query_dense = self._dense(units, "query", use_bias=self.use_bias)
            self.key_dense = self._dense(units, "key")
            self.query_dense.build(query_shape)
            self.key_dense.build(key_shape)
        elif query_shape[-1] != key_shape[-1]:
            raise ValueError(
                "AdditiveAttention without projections (units=None) needs queries and keys of the "
                f"same width. Received: query {tuple(query_shape)}, key {tuple(key_shape)}. Give "
                "`units`."
            )
        self.scale = self._vector("scale", units)
        if self.normalize:
            length = keras.initializers.Constant(units**-0.5)
            self.gain = self.add_weight(shape=(), initializer=length, name="gain")

    def project_key(self, key: Tensor) -> Tensor:
        """Projects the keys `(B, S, Dk)` to `(B, S, U)`; returns them unchanged if `units` is None.

        A caller with many calls on the same keys can pass the result as `projected_key`.
        """
        return key if self.key_dense is None else self.key_dense(key)

    def compute_scores(self, query: Tensor, projected_key: Tensor):
        """Computes scores `(B, T, S)` of queries `(B, T, Dq)` and projected keys `(B, S, U)`."""
        scale = self.scale[:, 0]
        if self.normalize:
            dtype = wide_dtype(query)
            scale = ops.cast(scale, dtype)
            scale = scale * ops.rsqrt(ops.sum(ops.square(scale)) + 1e-12)
            scale = scale * ops.cast(self.gain, dtype)
        if self.query_dense is not None:
            query = self.project(self.query_dense, query)
        return additive_scores(query, projected_key, scale)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "normalize": self.normalize,
        }
