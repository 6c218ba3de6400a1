"""Bahdanau's attention."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.collect import active_collector, current_role
from keras_attn.layers.masked_layer import (
    MaskedLayer,
    check_positive,
    check_rank,
    check_rate,
    check_same_length,
    cloned,
    sequence_mask,
)
from keras_attn.ops import additive_attention, combine_masks

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_attn")
class AdditiveAttention(MaskedLayer):
    """Additive attention (Bahdanau et al., 2015) with its projections.

        scores[t, s] = v . tanh(query[t] Wq + key[s] Wk + b)      (B, T, S)
        context[t]   = sum_s softmax_s(scores[t]) value[s]        (B, T, Dv)

    `keras.layers.AdditiveAttention` has neither `Wq` nor `Wk` and demands equal widths; this is the
    layer of the paper. Memory is `B * T * S * units`.

    Shapes: query `(B, T, Dq)`, value `(B, S, Dv)`, key `(B, S, Dk)`; the widths may differ.

    Masking: `value_mask` `(B, S)` hides keys, `attention_mask` `(B, S)`, `(B, T, S)` or
    `(B, 1, T, S)` does so for each query; boolean or 0/1 integers, True: may be attended. Where no
    mask is given, the Keras masks of `value` and `key` are used. `query_mask` hides nothing: it is
    the mask of the output. A query that sees no key gets zero weights and a zero context.

    Args:
        units: Width U of the hidden layer.
        use_bias: Whether there is a bias b.
        attention_dropout: Share of the weights set to zero in training.
        kernel_initializer: Initializer of Wq, Wk and v.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, ... of `keras.layers.Layer`.

    Call arguments:
        query: `(B, T, Dq)`. One state of a decoder: `ops.expand_dims(state, 1)`.
        value: `(B, S, Dv)`.
        key: `(B, S, Dk)`; `value` if None.
        query_mask: `(B, T)` mask of the output.
        value_mask: `(B, S)`.
        key_mask: `(B, S)`.
        attention_mask: `(B, S)`, `(B, T, S)` or `(B, 1, T, S)`.
        projected_key: What `project_key(key)` returned, where many queries read one memory.
        return_attention_scores: Whether the weights are returned too.
        training: Whether dropout is active.

    Returns:
        The context `(B, T, Dv)`, or `(context, weights)` with weights `(B, T, S)`.

    Raises:
        ValueError: For wrong settings, ranks, lengths, or masks of floats.

    Example:

    >>> layer = AdditiveAttention(units=10)
    >>> query, memory = ops.ones((2, 1, 16)), ops.ones((2, 7, 24))
    >>> context, weights = layer(query, memory, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 1, 24), (2, 1, 7))
    """

    _query_mask_name = "query_mask"
    _key_mask_name = "value_mask"

    def __init__(
        self,
        units: int,
        use_bias: bool = False,
        attention_dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive("AdditiveAttention", units=units)
        check_rate("AdditiveAttention", attention_dropout=attention_dropout)
        self.units = units
        self.use_bias = use_bias
        self.attention_dropout = attention_dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if attention_dropout else None

    def build(self, query_shape, value_shape=None, key_shape=None):
        """Makes Wq, Wk and v."""
        if value_shape is None:
            raise ValueError("AdditiveAttention needs a `value`: call layer(query, value).")
        key_shape = key_shape or value_shape
        for name, shape in [("query", query_shape), ("value", value_shape), ("key", key_shape)]:
            if len(shape) != 3:
                raise ValueError(
                    f"`{name}` must have shape (B, length, width). Received: shape {shape}. "
                    "One state (B, width) is a sequence of length 1: ops.expand_dims(state, 1)."
                )
        self.query_dense = self._dense("query", self.use_bias)
        self.key_dense = self._dense("key", False)
        self.query_dense.build(query_shape)
        self.key_dense.build(key_shape)
        self.scale = self.add_weight(
            shape=(self.units, 1), initializer=cloned(self.kernel_initializer), name="scale"
        )

    def _dense(self, name: str, use_bias: bool) -> keras.layers.Dense:
        return keras.layers.Dense(
            self.units,
            use_bias=use_bias,
            kernel_initializer=cloned(self.kernel_initializer),
            dtype=self.dtype_policy,
            name=name,
        )

    def compute_output_shape(self, query_shape, value_shape, *other_shapes):
        """Returns the shape of the context."""
        return (*query_shape[:-1], value_shape[-1])

    def project_key(self, key: Tensor) -> Tensor:
        """Projects the keys `(B, S, Dk)` to `(B, S, U)`, once for many queries."""
        return self.key_dense(key)

    def call(
        self,
        query,
        value=None,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        projected_key=None,
        return_attention_scores=False,
        mask=None,
        training=None,
    ):
        """Scores, normalises and averages."""
        if value is None:
            raise ValueError("AdditiveAttention needs a `value`: call layer(query, value).")
        if key is not None and projected_key is not None:
            raise ValueError("Pass `key` or `projected_key`, not both. Received: both.")
        check_rank(query, "query", shape="(B, T, Dq)")
        check_rank(value, "value", shape="(B, S, Dv)")
        sequence_mask(query, query_mask, mask, name="query_mask")
        value_mask = sequence_mask(value, value_mask, name="value_mask")
        key_mask = sequence_mask(value, key_mask, name="key_mask")
        if key_mask is not None:
            value_mask = key_mask if value_mask is None else ops.logical_and(value_mask, key_mask)
        if projected_key is None:
            projected_key = self.project_key(value if key is None else key)
        check_same_length(projected_key if key is None else key, value)
        visible = combine_masks(
            tuple(query.shape), tuple(value.shape), 1, attention_mask, value_mask
        )
        context, scores = additive_attention(
            self.query_dense(query),
            projected_key,
            value,
            ops.cast(self.scale[:, 0], self.compute_dtype),
            mask=None if visible is None else ops.squeeze(visible, axis=1),
            dropout=self.attention_dropout if training else 0.0,
            seed=self.seed_generator,
            return_attention_scores=True,
        )
        collector = active_collector()
        if collector is not None:
            collector._add(self, current_role(), scores)
        return (context, scores) if return_attention_scores else context

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs."""
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "attention_dropout": self.attention_dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }
