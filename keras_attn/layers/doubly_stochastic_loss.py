"""Doubly stochastic loss of attention weights."""

from typing import Any, cast

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.masked_layer import MaskedLayer, check_rank, sequence_mask
from keras_attn.ops.masks import static_shape
from keras_attn.ops.precision import wide_dtype
from keras_attn.ops.replicas import replicas, sum_over_replicas


@keras.saving.register_keras_serializable(package="keras_attn")
class DoublyStochasticLoss(MaskedLayer):
    """Adds the doubly stochastic loss of attention weights (Xu et al., 2015, section 4.2.1).

        R[b] = sum_s (1 - sum_t weights[b, t, s])^2
        loss = weight * sum_b R[b] / sum_b T[b]             T[b] tokens in row b
        output = x

    The weights of a step sum to 1 over the memory. This loss encourages the weights of each
    position in the memory to also sum to 1 over the steps, so that the decoder looks everywhere
    once. `fit` and `evaluate` add it to the loss of the model, without sample weights. The paper's
    objective for a caption is `-log p(caption) + weight * R`. Summed over a batch and divided by
    its number of tokens, it is the sum of this loss and a mean over tokens such as
    `keras_attn.training.MaskedCrossEntropy`.

    R is at least `S (1 - T/S)^2` for S positions and T steps, so if there are many more positions
    than steps, most of the reported loss cannot be avoided. The layer has no weights.

    Shapes: x `(B, T, D)`, attention weights `(B, T, S)` to `(B, T, D)`.

    Masking: steps that `padding_mask` (or the Keras mask of `x`) hides, rows without tokens, and
    positions that `memory_mask` hides are ignored. `padding_mask` is the mask of the output.

    Args:
        weight: Factor of the loss; 0 or greater.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Inputs `(B, T, D)`, such as the output of the decoder. It is returned.
        attention_weights: `(B, T, S)`, from `return_attention_scores=True`.
        padding_mask: Padding mask of `x`, `(B, T)`.
        memory_mask: Padding mask of the memory, `(B, S)`; all positions count if None.

    Returns:
        A copy of `x` `(B, T, D)`, in the compute dtype of the layer.

    Raises:
        ValueError: If `weight` is not a number of at least 0; if the attention weights are missing;
            if an input or a mask has the wrong shape; if a mask has floats; or if a symbolic `x`
            lost its Keras mask on the way to this layer.

    Example:

    >>> layer = DoublyStochasticLoss(weight=0.5)
    >>> x, looked = ops.ones((1, 2, 8)), ops.array([[[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]])
    >>> tuple(layer(x, looked).shape), float(layer.losses[0])  # 0.5 * (0 + 0.25 + 0.25) / 2
    ((1, 2, 8), 0.125)
    """

    _query_mask_name = "padding_mask"
    _key_mask_name = "memory_mask"
    _needed_masks = (("x", ("padding_mask", "mask", "x_mask")),)

    def __init__(self, weight: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight >= 0:
            raise ValueError(
                f"`weight` of DoublyStochasticLoss must be a number, 0 or greater. Received: "
                f"{weight!r}."
            )
        self.weight = weight

    def build(self, x_shape: Shape, attention_weights_shape: Shape | None = None):
        """Raises a ValueError if the attention weights are missing."""
        if attention_weights_shape is None:
            raise ValueError(
                "DoublyStochasticLoss needs attention weights: call layer(x, attention_weights)."
            )

    def call(
        self,
        x: Tensor,
        attention_weights: Tensor | None = None,
        *,
        padding_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
    ):
        """Adds the loss of the attention weights, and returns a copy of `x` `(B, T, D)`."""
        attention_weights = cast(Tensor, attention_weights)  # `build` refuses None
        check_rank(x, "x")
        check_rank(attention_weights, "attention_weights", shape="(B, T, S)")
        steps = static_shape(x)[1], static_shape(attention_weights)[1]
        if None not in steps and steps[0] != steps[1]:
            raise ValueError(
                "`attention_weights` must have as many steps as `x`. Received: shape "
                f"{static_shape(attention_weights)}, with x of shape {static_shape(x)}."
            )
        padding_mask = sequence_mask(x, padding_mask, mask, x_mask)
        dtype = wide_dtype(attention_weights)
        looked = ops.cast(attention_weights, dtype)
        is_token = ops.ones_like(looked[:, :, 0])
        if padding_mask is not None:
            is_token = ops.cast(padding_mask, dtype)
        looked = ops.sum(looked * ops.expand_dims(is_token, 2), axis=1)  # (B, S)
        missed = ops.square(1.0 - looked)
        if memory_mask is not None:
            keys = ops.swapaxes(attention_weights, 1, 2)
            memory_mask = sequence_mask(keys, memory_mask, name="memory_mask")
            missed = missed * ops.cast(memory_mask, dtype)
        count = ops.sum(is_token, axis=1)  # (B,)
        of_rows = ops.sum(missed, axis=1) * ops.cast(count > 0, dtype)
        every = sum_over_replicas(ops.sum(count))
        loss = self.weight * ops.divide_no_nan(ops.sum(of_rows), every)
        self.add_loss(loss * replicas())  # Keras divides by their number
        return ops.copy(x)  # its mask may be another

    def compute_output_shape(self, x_shape: Shape, attention_weights_shape: Shape | None = None):
        """Returns the shape of x."""
        return tuple(x_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {**super().get_config(), "weight": self.weight}
