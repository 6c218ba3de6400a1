"""Base class of the attention layers of recurrent networks."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.collect import active_collector, current_role
from keras_attn.layers.dense_layer import DenseLayer
from keras_attn.layers.masked_layer import (
    check_positive,
    check_rank,
    check_rate,
    check_same_batch,
    check_same_length,
    cloned,
    sequence_mask,
)
from keras_attn.ops import (
    combine_masks,
    dropout,
    gaussian_window,
    key_positions,
    local_window,
    masked_softmax,
)
from keras_attn.ops.masks import static_shape
from keras_attn.ops.precision import wide_dtype

WINDOWS = ("monotonic", "predictive")
_WINDOW_SIZE = 10  # of Luong et al.


class SequenceAttention(DenseLayer):
    """Base class of attention with one head from queries to another sequence.

        weights[t] = softmax_s(compute_scores(query, project_key(key))[t])      (B, T, S)
        context[t] = sum_s weights[t, s] value[s]                               (B, T, Dv)

    A subclass must implement `build_scores(query_shape, key_shape)`, which creates the weights of
    the scores, and `compute_scores(query, projected_key)`, which returns the scores `(B, T, S)`. It
    may override `project_key(key)`, whose result `(B, S, ...)` is computed once for many queries;
    by default, the keys are not changed.

    This class implements masks, the softmax, dropout, the average over the values, and windows,
    which let a query see only the keys around one position; `AdditiveAttention` describes them.
    Every subclass works in an `AttentionDecoder` if its `attention_dropout` is 0.

    Shapes: query `(B, T, Dq)`, value `(B, S, Dv)`, key `(B, S, Dk)`.

    Masking: `value_mask` and `key_mask` `(B, S)` hide keys, and `attention_mask` `(B, T, S)` or
    `(B, 1, T, S)` hides keys from individual queries. Masks are boolean or 0/1 integers, True for
    tokens that may be attended. `value_mask` defaults to the Keras mask of `value`, and `key_mask`
    to the Keras mask of `key`; both are combined. `query_mask` hides nothing: it is the mask of the
    output, by default the Keras mask of `query`. A query that sees no key gets zero weights and a
    zero context.

    Args:
        window: `None` (all keys), `"monotonic"` or `"predictive"`.
        window_size: Half-width of the window, in keys; 10 if None.
        attention_dropout: Dropout rate of the attention weights.
        kernel_initializer: Initializer of the matrices and vectors.
        kernel_regularizer: Regularizer of the matrices and vectors.
        kernel_constraint: Constraint of the matrices and vectors.
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Queries `(B, T, Dq)`.
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
            or has the wrong rank or length; if `key` and `projected_key` are both given; if a mask
            has floats or the wrong shape; or if a symbolic `value` or `key` lost its Keras mask on
            the way to this layer.
        TypeError: If tensors are passed in a list.

    Example:

    >>> class NegativeDistance(SequenceAttention):
    ...     def build_scores(self, query_shape, key_shape):
    ...         pass
    ...     def compute_scores(self, query, projected_key):
    ...         query, key = ops.expand_dims(query, 2), ops.expand_dims(projected_key, 1)
    ...         return -ops.sum(ops.square(query - key), axis=-1)
    >>> tuple(NegativeDistance()(ops.ones((2, 3, 4)), ops.ones((2, 5, 4))).shape)
    (2, 3, 4)
    """

    _query_mask_name = "query_mask"
    _key_mask_name = "value_mask"
    _needed_masks = (("value", ("value_mask", "key_mask")), ("key", ("key_mask", "value_mask")))

    def __init__(
        self,
        *,
        window: str | None = None,
        window_size: int | None = None,
        attention_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        name = type(self).__name__
        check_rate(name, attention_dropout=attention_dropout)
        if window not in (None, *WINDOWS):
            raise ValueError(
                f"`window` of {name} must be None or one of {list(WINDOWS)}. Received: {window!r}."
            )
        if window is None and window_size is not None:
            raise ValueError(
                f"`window_size` of {name} requires a `window`, one of {list(WINDOWS)}. "
                f"Received: window_size={window_size!r} without `window`."
            )
        self.window_size = window_size
        if window is not None:
            self.window_size = _WINDOW_SIZE if window_size is None else window_size
            check_positive(name, window_size=self.window_size)
        self.window = window
        self.attention_dropout = attention_dropout
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if attention_dropout else None

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ):
        """Calls `build_scores`, and creates Wp and vp of `window="predictive"`."""
        if value_shape is None:
            raise ValueError(f"{type(self).__name__} needs a `value`: call layer(query, value).")
        key_shape = key_shape or value_shape
        for name, shape in [("query", query_shape), ("value", value_shape), ("key", key_shape)]:
            if len(shape) != 3:
                raise ValueError(
                    f"`{name}` must have shape (B, length, width). Received: shape {shape}. "
                    "One state (B, width) is a sequence of length 1: ops.expand_dims(state, 1)."
                )
        self.build_scores(query_shape, key_shape)
        if self.window == "predictive":
            self.window_dense = self._dense(query_shape[-1], "window", activation="tanh")
            self.window_dense.build(query_shape)
            self.window_scale = self._vector("window_scale", query_shape[-1])

    def _dense(self, units: int, name: str, **settings: Any) -> keras.layers.Dense:
        return super()._dense(units, name, **{"use_bias": False, **settings})

    def _vector(self, name: str, units: int) -> Any:
        return self.add_weight(
            shape=(units, 1),
            initializer=cloned(self.kernel_initializer),
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            name=name,
        )

    def build_scores(self, query_shape: tuple, key_shape: tuple) -> None:
        """Creates the weights of the scores."""
        raise NotImplementedError

    def compute_scores(self, query: Tensor, projected_key: Tensor) -> Tensor:
        """Computes scores `(B, T, S)` of queries `(B, T, Dq)`; a subclass must implement it.

        `call` passes the queries and the result `(B, S, ...)` of `project_key`.
        """
        raise NotImplementedError

    def project_key(self, key: Tensor) -> Tensor:
        """Projects the keys `(B, S, Dk)`, once for many queries."""
        return key

    @staticmethod
    def project(dense: keras.layers.Dense, x: Tensor) -> Tensor:
        """Applies a dense layer to `x` `(B, T, D)`, and returns its output `(B, T, units)`.

        If T is 1, the layer gets the matrix `(B, D)`, because XLA on TensorFlow cannot
        differentiate a product of rank 3 inside a loop.
        """
        if static_shape(x)[1] == 1:
            return ops.expand_dims(dense(x[:, 0]), 1)
        return dense(x)

    def compute_output_shape(self, query_shape: Shape, value_shape: Shape, *other_shapes):
        """Returns the shape `(B, T, Dv)` of the context."""
        return (*query_shape[:-1], value_shape[-1])

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
        projected_key: Tensor | None = None,
        positions: Tensor | None = None,
        return_attention_scores: bool = False,
        mask: Tensor | None = None,
        training: bool | None = None,
    ):
        """Computes the context `(B, T, Dv)` of queries; the class describes the arguments."""
        if value is None:
            raise ValueError(f"{type(self).__name__} needs a `value`: call layer(query, value).")
        if key is not None and projected_key is not None:
            raise ValueError("Pass `key` or `projected_key`, not both. Received: both.")
        if positions is not None and self.window != "monotonic":
            raise ValueError(
                "`positions` is only used with window='monotonic'. Received: `positions` "
                f"with window={self.window!r}."
            )
        check_rank(query, "query", shape="(B, T, Dq)")
        check_rank(value, "value", shape="(B, S, Dv)")
        check_same_batch(query=query, value=value, key=key)
        query = self._clean(query, sequence_mask(query, query_mask, mask, name="query_mask"))
        value_mask = sequence_mask(value, value_mask, name="value_mask")
        key_mask = sequence_mask(value, key_mask, name="key_mask")
        if key_mask is not None:
            value_mask = key_mask if value_mask is None else ops.logical_and(value_mask, key_mask)
        if projected_key is None:  # else the loop has cleaned the memory
            value = self._clean(value, value_mask)
            key = None if key is None else self._clean(key, value_mask)
            projected_key = self.project_key(value if key is None else key)
        check_same_length(projected_key if key is None else key, value)
        visible = combine_masks(
            tuple(query.shape), tuple(value.shape), 1, attention_mask, value_mask
        )
        visible = None if visible is None else ops.squeeze(visible, axis=1)
        factor = None
        if self.window is not None and self.window_size is not None:
            center, key_index = self._aligned(query, value, value_mask, positions)
            window = local_window(center, key_index, self.window_size)
            visible = window if visible is None else ops.logical_and(visible, window)
            if self.window == "predictive":
                factor = gaussian_window(center, key_index, self.window_size)
        weights = masked_softmax(self.compute_scores(query, projected_key), visible)
        if factor is not None:
            weights = weights * ops.cast(factor, weights.dtype)
        weights = ops.cast(weights, value.dtype)
        kept = weights
        if self.attention_dropout and training:
            kept = dropout(weights, self.attention_dropout, seed=self.seed_generator)
        context = ops.matmul(kept, value)
        collector = active_collector()
        if collector is not None:
            collector._add(self, current_role(), weights)
        return (context, weights) if return_attention_scores else context

    def _aligned(
        self, query: Tensor, value: Tensor, value_mask: Tensor | None, positions: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The aligned position of each query `(B, T)`, and the positions of the keys `(B, S)`."""
        key_index, lengths = key_positions(value, value_mask)
        if self.window == "predictive":
            hidden = self.project(self.window_dense, query)
            share = ops.sum(hidden * ops.cast(self.window_scale[:, 0], hidden.dtype), axis=-1)
            share = ops.sigmoid(ops.cast(share, wide_dtype(share)))
            return share * ops.cast(lengths, share.dtype), ops.cast(key_index, share.dtype)
        if positions is None:
            positions = ops.cumsum(ops.ones_like(query[:, :, 0], dtype="float32"), axis=1) - 1.0
        return ops.cast(positions, "float32"), key_index

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "window": self.window,
            "window_size": self.window_size,
            "attention_dropout": self.attention_dropout,
            "seed": self.seed,
        }
