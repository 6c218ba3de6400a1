"""Pooling by attention with one learned query."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Initializer, Shape, Tensor
from keras_attn.layers.collect import active_collector
from keras_attn.layers.masked_layer import (
    check_positive,
    check_rank,
    check_rate,
    check_width,
    cloned,
    sequence_mask,
)
from keras_attn.layers.pooling import PoolingLayer
from keras_attn.ops import dropout, masked_softmax

POOLING_SCORES = ("additive", "dot")


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionPooling(PoolingLayer):
    """Averages tokens with the weights of attention with one learned query.

        additive:  scores[s] = u . tanh(x[s] W + b)       D U + U + U parameters
        dot:       scores[s] = q . x[s] / sqrt(D)         D parameters
        weights = softmax over tokens of scores           (B, S)
        output  = sum_s weights[s] x[s]                   (B, D)

    `score="additive"` is the attention of hierarchical attention networks (Yang et al., 2016),
    where u is called the context vector and represents the question "what is the informative
    word?"; `score="dot"` is one head of scaled dot-product attention whose query is learned. Values
    are not projected: the output is an average of the input tokens.

    Shapes: x `(B, S, D)` to `(B, D)`.

    Masking: `mask` `(B, S)`, or the Keras mask of `x`, is True for tokens that may be attended. The
    output has no mask. A row without tokens gives zero weights and a zero output.

    Args:
        units: Width U of the hidden layer of `score="additive"`; D if None. `score="dot"` has no
            hidden layer.
        score: `"additive"` or `"dot"`.
        attention_dropout: Dropout rate of the attention weights.
        kernel_initializer: Initializer of W, u and q.
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, S, D)`.
        mask: Padding mask `(B, S)`, boolean or 0/1 integers; the mask of `x` if None.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether dropout is active.

    Returns:
        The pooled vectors `(B, D)` or, if `return_attention_scores` is True, `(output, weights)`
        with weights `(B, S)`. The role of the weights in `collect_attention` is "pooling".

    Raises:
        ValueError: If a setting is unknown, out of range or does not apply; if an input or a mask
            has the wrong shape; if a mask has floats; or if a symbolic `x` lost its Keras mask on
            the way to this layer.

    Example:

    >>> layer = AttentionPooling(units=6)
    >>> output, weights = layer(ops.ones((2, 4, 8)), return_attention_scores=True)
    >>> tuple(output.shape), ops.convert_to_numpy(weights)[0].tolist()
    ((2, 8), [0.25, 0.25, 0.25, 0.25])
    """

    def __init__(
        self,
        units: int | None = None,
        *,
        score: str = "additive",
        attention_dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if score not in POOLING_SCORES:
            raise ValueError(
                f"`score` of AttentionPooling must be one of {list(POOLING_SCORES)}. "
                f"Received: {score!r}."
            )
        if units is not None:
            check_positive("AttentionPooling", units=units)
            if score == "dot":
                raise ValueError(
                    "`units` of AttentionPooling is only used with score='additive'. "
                    f"Received: units={units!r} with score='dot'."
                )
        check_rate("AttentionPooling", attention_dropout=attention_dropout)
        self.units = units
        self.score = score
        self.attention_dropout = attention_dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if attention_dropout else None

    def build(self, x_shape: Shape):
        """Creates the weights of the scores for inputs of width D."""
        check_width(self, x=x_shape)
        width = x_shape[-1]
        self.hidden_dense = None
        if self.score == "additive":
            self.hidden_dense = keras.layers.Dense(
                self.units or width,
                activation="tanh",
                kernel_initializer=cloned(self.kernel_initializer),
                dtype=self.dtype_policy,
                name="hidden",
            )
            self.hidden_dense.build(x_shape)
            width = self.hidden_dense.units
        self.query = self.add_weight(
            shape=(width, 1), initializer=cloned(self.kernel_initializer), name="query"
        )

    def call(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        x_mask: Tensor | None = None,
        training: bool | None = None,
    ):
        """Averages `x` `(B, S, D)` to `(B, D)`, weighted by the softmax of the scores."""
        check_rank(x, "x", shape="(B, S, D)")
        mask = sequence_mask(x, mask, x_mask, name="mask")
        x = self._clean(x, mask)
        hidden = x * ops.cast(x.shape[-1] ** -0.5, x.dtype)
        if self.hidden_dense is not None:
            hidden = self.hidden_dense(x)
        scores = ops.squeeze(ops.matmul(hidden, ops.cast(self.query, hidden.dtype)), axis=2)
        weights = kept = ops.cast(masked_softmax(scores, mask), x.dtype)
        if self.attention_dropout and training:
            kept = dropout(weights, self.attention_dropout, seed=self.seed_generator)
        output = ops.squeeze(ops.matmul(ops.expand_dims(kept, 1), x), axis=1)
        collector = active_collector()
        if collector is not None:
            collector._add(self, "pooling", weights)
        return (output, weights) if return_attention_scores else output

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "units": self.units,
            "score": self.score,
            "attention_dropout": self.attention_dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }
