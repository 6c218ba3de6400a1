"""Word-by-word attention."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Activation, Initializer, Shape, Tensor
from keras_attn.layers.collect import active_collector
from keras_attn.layers.masked_layer import (
    MaskedLayer,
    check_positive,
    check_rank,
    check_same_batch,
    check_width,
    cloned,
    sequence_mask,
)
from keras_attn.layers.recurrent_cells import no_state, run_loop
from keras_attn.layers.recurrent_loop import StepCell
from keras_attn.ops import additive_scores, masked_softmax


@keras.saving.register_keras_serializable(package="keras_attn")
class WordByWordAttention(MaskedLayer):
    """Attention from each word to another text, with a memory of earlier words.

        scores[t, s] = v . tanh(value[s] Wy + query[t] Wh + r[t-1] Wr)        (B, T, S)
        weights[t]   = softmax over s of scores[t]
        r[t]         = sum_s weights[t, s] value[s] + tanh(r[t-1] Wt)         (B, T, Dv)

    This is the word-by-word attention of Rocktäschel et al., 2016. In entailment, the queries are
    the states of an LSTM over the hypothesis, and the values are the states of an LSTM over the
    premise. The last r summarizes how the words of the hypothesis match the premise. Before the
    first word, r is 0. The paper writes Y for the values, h for a query and w for the vector v.

    The steps depend on each other, so they run in a loop. A step needs memory for `B S U` numbers,
    which the backward pass recomputes. The layer has `Dv U + Dq U + Dv U + U + Dv Dv` parameters.

    Shapes: query `(B, T, Dq)`, value `(B, S, Dv)` to `(B, T, Dv)`.

    Masking: `value_mask` `(B, S)` hides values; a row that sees none has zero weights and a zero r.
    Where `query_mask` `(B, T)` is False, a row keeps its r, and its output and weights are zero.
    Masks are boolean or 0/1 integers. `query_mask` defaults to the Keras mask of `query`, and
    `value_mask` to the Keras mask of `value`. Padding may be on either side. `query_mask` is the
    mask of the output.

    Args:
        units: Width U of the hidden layer.
        kernel_initializer: Initializer of the matrices and of v.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Queries `(B, T, Dq)`.
        value: Values `(B, S, Dv)`.
        query_mask: Padding mask of the queries, `(B, T)`.
        value_mask: Padding mask of the values, `(B, S)`.
        return_attention_scores: Whether to also return the attention weights.
        return_state: Whether to also return the last r.

    Returns:
        r `(B, T, Dv)` or, if `return_attention_scores` is True, `(r, weights)` with weights `(B, T,
        S)`. If `return_state` is True, the tuple ends with the r `(B, Dv)` of the last word.

    Raises:
        ValueError: If `units` is not a positive integer, an input is missing or has the wrong rank,
            the wrong batch size or an unknown width, a mask has floats or the wrong shape, or a
            symbolic `query` or `value` lost its Keras mask on the way to this layer.
        TypeError: If tensors are passed in a list.

    Example:

    >>> layer = WordByWordAttention(units=10)
    >>> hypothesis, premise = ops.ones((2, 3, 16)), ops.ones((2, 7, 24))
    >>> r, weights = layer(hypothesis, premise, return_attention_scores=True)
    >>> tuple(r.shape), tuple(weights.shape)
    ((2, 3, 24), (2, 3, 7))
    """

    _query_mask_name = "query_mask"
    _key_mask_name = "value_mask"
    _needed_masks = (("query", ("query_mask", "mask")), ("value", ("value_mask",)))

    def __init__(self, units: int, *, kernel_initializer: Initializer = "glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        check_positive("WordByWordAttention", units=units)
        self.units = units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, value_shape: Shape | None = None):
        """Creates the matrices and the vector v."""
        if value_shape is None:
            raise ValueError("WordByWordAttention needs a `value`: call layer(query, value).")
        check_width(self, query=query_shape, value=value_shape)
        width = value_shape[-1]
        self.value_dense = self._dense("value", self.units, width)
        self.query_dense = self._dense("query", self.units, query_shape[-1])
        self.state_dense = self._dense("state", self.units, width)
        self.carry_dense = self._dense("carry", width, width, "tanh")
        self.scale = self.add_weight(
            shape=(self.units, 1), initializer=cloned(self.kernel_initializer), name="scale"
        )

    def _dense(self, name: str, units: int, inputs: int, activation: Activation = None) -> Any:
        dense = keras.layers.Dense(
            units,
            activation,
            use_bias=False,
            kernel_initializer=cloned(self.kernel_initializer),
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build((None, inputs))
        return dense

    def compute_output_shape(self, query_shape: Shape, value_shape: Shape):
        """Returns the shape `(B, T, Dv)` of r."""
        return (*query_shape[:-1], value_shape[-1])

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        *,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        return_state: bool = False,
        mask: Tensor | None = None,
    ):
        """Computes r for each query in `(B, T, Dq)`, in the order of the words."""
        if value is None:
            raise ValueError("WordByWordAttention needs a `value`: call layer(query, value).")
        check_rank(query, "query", shape="(B, T, Dq)")
        check_rank(value, "value", shape="(B, S, Dv)")
        check_same_batch(query=query, value=value)
        query_mask = sequence_mask(query, query_mask, mask, name="query_mask")
        value_mask = sequence_mask(value, value_mask, name="value_mask")
        query, value = self._clean(query, query_mask), self._clean(value, value_mask)
        keys = self.value_dense(value)
        collector = active_collector()
        scored = return_attention_scores or collector is not None

        def step(x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
            """Attends from one word: its projected query `(B, U)` and the last r `(B, Dv)`."""
            (r,) = states
            hidden = ops.expand_dims(x + self.state_dense(r), 1)
            scores = additive_scores(hidden, keys, self.scale[:, 0])[:, 0]
            weights = ops.cast(masked_softmax(scores, value_mask), value.dtype)
            context = ops.squeeze(ops.matmul(ops.expand_dims(weights, 1), value), axis=1)
            r = context + self.carry_dense(r)
            return ops.concatenate([r, weights], axis=-1) if scored else r, [r]

        width = value.shape[-1]
        rnn = keras.layers.RNN(
            StepCell(step, [width], self.compute_dtype),
            return_sequences=True,
            return_state=True,
            zero_output_for_mask=True,  # else Keras outputs the first state on JAX
            dtype=self.dtype_policy,
            name="rnn",
        )
        start = no_state(query) + ops.zeros((1, width), query.dtype)
        output, last = run_loop(rnn, self.query_dense(query), [start], query_mask)
        outputs: list[Tensor] = [output]
        weights: Tensor | None = None
        if scored:
            # A slice with an unknown end would have an unknown width: reshape.
            (rows, steps, _), length = ops.shape(output), ops.shape(value)[1]
            weights = ops.reshape(output[:, :, width:], (rows, steps, length))
            outputs = [ops.reshape(output[:, :, :width], (rows, steps, width))]
        if collector is not None and weights is not None:
            collector._add(self, "cross", weights)
        if return_attention_scores and weights is not None:
            outputs.append(weights)
        if return_state:
            outputs.append(last)
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
