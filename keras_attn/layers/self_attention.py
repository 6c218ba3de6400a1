"""Self-attention with one head, and with no, one or three projections."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.collect import active_collector
from keras_attn.layers.dense_layer import DenseLayer
from keras_attn.layers.masked_layer import (
    check_positive,
    check_rank,
    check_rate,
    sequence_mask,
)
from keras_attn.ops import combine_masks, dot_product_attention

PROJECTIONS = (None, "shared", "separate")


@keras.saving.register_keras_serializable(package="keras_attn")
class SelfAttention(DenseLayer):
    """Self-attention with one head, and with no, one or three projections.

        projection   queries, keys and values                     kernels   with `use_bias`, also
        None         Q = K = V = x                                0         0
        "shared"     Q = K = V = x W + b                          D U       U
        "separate"   Q, K, V = x Wq + bq, x Wk + bk, x Wv + bv    3 D U     3 U

        weights = softmax(scale * Q K^T)                  (B, T, T)
        output  = weights V                               (B, T, U)

    With `scale=1.0` and no projection, this is `softmax(x x^T) x`. With `projection=None` or
    `projection="shared"`, the products are symmetric: the score of s for t equals the score of t
    for s. `projection="separate"` is one head of Vaswani et al. (2017) without the output
    projection. For more heads, use `MultiHeadSelfAttention`.

    Shapes: x `(B, T, D)`; U is `units`, or D.

    Masking: the Keras mask of `x`, or an explicit `mask` `(B, T)`, hides keys and is the mask of
    the output. `attention_mask` `(B, T, T)` or `(B, 1, T, T)` hides further keys. Masks are boolean
    or 0/1 integers, True for tokens that may be attended. A query that sees no key gets a zero
    output and zero weights. Padded queries attend to visible keys as usual.

    Args:
        projection: Which projections the layer has: None, "shared" or "separate".
        units: Width U of queries, keys and values; D if None. It requires a projection.
        use_bias: Whether projections have biases. It requires a projection.
        scale: Factor of the products; `1 / sqrt(U)` if None.
        attention_dropout: Dropout rate of the attention weights.
        kernel_initializer: Initializer of the projections.
        bias_initializer: Initializer of the biases of the projections.
        kernel_regularizer: Regularizer of the kernels.
        bias_regularizer: Regularizer of the biases.
        kernel_constraint: Constraint of the kernels, each a matrix (inputs, outputs).
        bias_constraint: Constraint of the biases.
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, T, D)`.
        attention_mask: Mask of query-key pairs, `(B, T, T)` or `(B, 1, T, T)`.
        use_causal_mask: Whether later positions are hidden from earlier ones.
        return_attention_scores: Whether to also return the attention weights.
        mask: Padding mask `(B, T)`; the Keras mask of `x` if None.
        training: Whether dropout is active.

    Returns:
        The output `(B, T, U)` or, if `return_attention_scores` is True, `(output, weights)` with
        weights `(B, T, T)`.

    Raises:
        ValueError: If a setting is unknown, out of range or does not apply; if an input has the
            wrong rank or an unknown width; if a mask has floats or the wrong shape; or if a
            symbolic `x` lost its Keras mask on the way to this layer.

    Example:

    >>> x = ops.ones((2, 5, 16))
    >>> output, weights = SelfAttention()(x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 5, 5))
    >>> two = [SelfAttention(projection=kind, units=8) for kind in ("shared", "separate")]
    >>> [(tuple(layer(x).shape), layer.count_params()) for layer in two]
    [((2, 5, 8), 128), ((2, 5, 8), 384)]
    """

    _query_mask_name = "mask"
    _key_mask_name = "mask"
    _needed_masks = (("x", ("mask", "x_mask")),)

    def __init__(
        self,
        *,
        projection: str | None = None,
        units: int | None = None,
        use_bias: bool = False,
        scale: float | None = None,
        attention_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if projection not in PROJECTIONS:
            raise ValueError(
                "`projection` of SelfAttention must be None, 'shared' or 'separate'. "
                f"Received: {projection!r}."
            )
        if projection is None and (units is not None or use_bias):
            raise ValueError(
                "`units` and `use_bias` of SelfAttention need a projection. Received: "
                f"projection=None, units={units!r}, use_bias={use_bias!r}. "
                "Give projection='shared' or 'separate'."
            )
        if units is not None:
            check_positive("SelfAttention", units=units)
        check_rate("SelfAttention", attention_dropout=attention_dropout)
        self.projection = projection
        self.units = units
        self.use_bias = use_bias
        self.scale = scale
        self.attention_dropout = attention_dropout
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if attention_dropout else None

    def build(self, x_shape: Shape):
        """Creates the projections for inputs of width D."""
        if len(x_shape) != 3:
            raise ValueError(f"`x` must have shape (B, T, D). Received: shape {x_shape}.")
        if x_shape[-1] is None:
            raise ValueError(
                "The last axis of the input of SelfAttention must be known. Received: None. "
                "Give it in keras.Input((None, D))."
            )
        width = self.units or x_shape[-1]
        if self.projection == "shared":
            self.shared_dense = self._projection("shared", x_shape, width)
        elif self.projection == "separate":
            self.query_dense = self._projection("query", x_shape, width)
            self.key_dense = self._projection("key", x_shape, width)
            self.value_dense = self._projection("value", x_shape, width)

    def _projection(
        self, name: str, x_shape: tuple[int | None, ...], width: int
    ) -> keras.layers.Dense:
        dense = self._dense(width, name, use_bias=self.use_bias)
        dense.build(x_shape)
        return dense

    def compute_output_shape(self, x_shape: Shape):
        """Returns the shape `(B, T, U)` of the output."""
        return (*x_shape[:-1], self.units or x_shape[-1])

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries, keys and values of `x` `(B, T, D)`, each `(B, T, U)`."""
        if self.projection == "separate":
            return self.query_dense(x), self.key_dense(x), self.value_dense(x)
        if self.projection == "shared":
            x = self.shared_dense(x)
        return x, x, x

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
    ):
        """Computes self-attention of `x` `(B, T, D)`; the class describes the arguments."""
        check_rank(x, "x")
        mask = sequence_mask(x, mask, x_mask, name="mask")
        x = self._clean(x, mask)
        query, key, value = (ops.expand_dims(part, 2) for part in self.project(x))  # one head
        visible = combine_masks(tuple(x.shape), tuple(x.shape), 1, attention_mask, mask)
        context, scores = dot_product_attention(
            query,
            key,
            value,
            mask=visible,
            scale=self.scale,
            use_causal_mask=use_causal_mask,
            dropout=self.attention_dropout if training else 0.0,
            seed=self.seed_generator,
            return_attention_scores=True,
        )
        output, scores = ops.squeeze(context, axis=2), ops.squeeze(scores, axis=1)
        collector = active_collector()
        if collector is not None:
            collector._add(
                self,
                "self",
                scores,
                products=(query, key, value),
                context=context,
                arguments={
                    "mask": visible,
                    "scale": self.scale,
                    "use_causal_mask": use_causal_mask,
                },
            )
        return (output, scores) if return_attention_scores else output

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "projection": self.projection,
            "units": self.units,
            "use_bias": self.use_bias,
            "scale": self.scale,
            "attention_dropout": self.attention_dropout,
            "seed": self.seed,
        }
