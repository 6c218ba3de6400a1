"""Recurrent decoder with attention."""

from collections.abc import Sequence
from typing import Any, cast

import keras

from keras_attn.hints import Activation, Nest, Shape, Tensor
from keras_attn.layers.collect import active_collector
from keras_attn.layers.dropout import Dropout
from keras_attn.layers.masked_layer import (
    check_positive,
    check_rank,
    check_rate,
    check_same_batch,
    check_width,
    sequence_mask,
)
from keras_attn.layers.recurrent_cells import (
    as_one_cell,
    output_width,
    query_index,
    state_widths,
)
from keras_attn.layers.recurrent_loop import RecurrentLoop
from keras_attn.layers.sequence_attention import SequenceAttention
from keras_attn.ops.summaries import SUMMARIES

ORDERS = ("bahdanau", "luong")


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionDecoder(RecurrentLoop):
    """A recurrent decoder over any Keras cell that attends to a memory at each step.

    Luong's order (Luong et al., 2015) attends from the current state:

        s[t], h[t] = cell([x[t]; a[t-1]], s[t-1])          a[t-1] with `input_feeding`
        c[t]       = attention(h[t], memory)

    Bahdanau's order (Bahdanau et al., 2015) attends from the previous state:

        c[t]       = attention(s[t-1], memory)
        s[t], h[t] = cell([x[t]; c[t]], s[t-1])            and a[t-1] with `input_feeding`

    In both orders:

        a[t]      = activation([h[t]; c[t]] Wa)            with `attention_units`; else [h[t]; c[t]]
        output[t] = dropout(a[t])                          without a memory, there is no c[t]

    "Show, Attend and Tell" (Xu et al., 2015) adds these options:

        c[t] = sigmoid(q[t] . wg + bg) attention(q[t], memory)     with `context_gate`, for the
                                                                   query q[t]: h[t] or s[t-1]
        a[t] = activation(x[t] + [h[t]; c[t]] Wa)                  with `add_input`

    With several attentions, c[t] is the concatenation of their contexts, each with its own gate.
    With a memory but no attention, c[t] is the `summary` of the memory at every step: the fixed
    context of Cho et al., 2014. Without a memory, the layer is a plain recurrent network that can
    be decoded step by step.

    The decoder starts from `initial_state` if it is given. Otherwise it starts from the cell's
    initial state (zeros) or, with `bridge`, from `tanh(summary(memory) Wi + bi)` for each state of
    the cell. `bridge_units` adds a hidden layer `relu(summary(memory) Wj + bj)` for each state. The
    summary is the `"mean"` of the memory's tokens, its `"last"` token, or its `"ends"`: the first
    half of the last token and the second half of the first token, which are the final states of a
    bidirectional encoder.

    Shapes: x `(B, T, D)`, memory `(B, S, Dm)` to `(B, T, attention_units)`, or `(B, T, U + C)`
    without `attention_units`, for a cell output of width U and contexts of total width C.

    Masking: memory that `memory_mask` (or the Keras mask of `memory`) hides is neither attended to
    nor summarized; a row with no visible memory has zero contexts and weights. Where `padding_mask`
    (or the Keras mask of `x`) is False, a row keeps its state and its weights are zero. Padding may
    be on either side.

    Saving: if two layers share a cell or an attention, the shared object is written twice, and the
    `.keras` file of the model cannot be loaded, as with `keras.layers.RNN`. Files that contain only
    weights can be loaded.

    Memory: inference needs memory for only one step. In training, the backend keeps the activations
    of every step; additive scores are recomputed in the backward pass, so that `(B, T, S, units)`
    numbers are not kept.

    Args:
        cell: A Keras cell (`GRUCell`, `LSTMCell`, `StackedRNNCells`, your own) or a list of cells,
            the first at the bottom. Set dropout and recurrent dropout in the cell itself.
        attention: `AdditiveAttention`, `LuongAttention` or another `SequenceAttention`, a list of
            these layers, or None. Their `attention_dropout` must be 0; use `dropout` instead.
        order: `"luong"` or `"bahdanau"`. None means `"luong"` with attention, and `"bahdanau"`
            without attention.
        input_feeding: Whether a[t-1] (c[t-1] if `attention_units` is None) is an input of step t.
            None means True in Luong's order with a memory, and False otherwise.
        attention_units: Width of a[t]; None for no projection Wa.
        activation: Activation of a[t].
        bridge: Whether the initial state is computed from the memory's summary.
        bridge_units: Width of the hidden layers of the bridge; no hidden layers if None.
        summary: `"mean"`, `"last"` or `"ends"`, for a bridge or a fixed context.
        context_gate: Whether a gate between 0 and 1, computed from the query, scales each context.
        add_input: Whether x[t], of width `attention_units`, is added before the activation of a[t].
        dropout: Dropout rate of the output.
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Embeddings `(B, T, D)` of the target tokens, shifted by one (teacher forcing).
        memory: Output `(B, S, Dm)` of the encoder; None for a layer built without a memory.
        memory_mask: Padding mask of the memory, `(B, S)`.
        padding_mask: Padding mask of `x`, `(B, T)`, and mask of the output.
        initial_state: A list with a tensor `(B, width)` for each state of the cell; None for the
            initial state described above. With `bridge`, it must be None.
        return_attention_scores: Whether to also return the attention weights.
        return_state: Whether to also return the final states of the cell.
        training: Whether dropout is active.

    Returns:
        The output `(B, T, attention_units)` or `(B, T, U + C)`. If `return_attention_scores` is
        True, `(output, weights)`, where `weights` is a list with a tensor `(B, T, S)` for each
        attention. If `return_state` is True, the tuple ends with a list of the final states of the
        cell, each `(B, width)`.

    Raises:
        ValueError: If a setting is unknown, out of range, does not apply or contradicts another; if
            an input is missing or has the wrong shape or dtype; if a symbolic `x` or `memory` lost
            its Keras mask on the way to this layer; or if a state has the wrong width.
        TypeError: If `cell` is not a Keras cell, `attention` is not a `SequenceAttention`, or
            tensors are passed in a list.

    Example:

    >>> decoder = AttentionDecoder(
    ...     keras.layers.GRUCell(16), AdditiveAttention(8), attention_units=12, bridge=True
    ... )
    >>> x, memory = ops.ones((2, 5, 4)), ops.ones((2, 7, 6))
    >>> output, [weights] = decoder(x, memory, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 12), (2, 5, 7))
    """

    _query_mask_name = "padding_mask"
    _key_mask_name = "memory_mask"
    _needed_masks = (("x", ("padding_mask", "mask", "x_mask")), ("memory", ("memory_mask",)))

    def __init__(
        self,
        cell: keras.layers.Layer | Sequence[keras.layers.Layer],
        attention: SequenceAttention | Sequence[SequenceAttention] | None = None,
        *,
        order: str | None = None,
        input_feeding: bool | None = None,
        attention_units: int | None = None,
        activation: Activation = "tanh",
        bridge: bool = False,
        summary: str = "mean",
        dropout: float = 0.0,
        seed: int | None = None,
        context_gate: bool = False,
        add_input: bool = False,
        bridge_units: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.cell = as_one_cell(cell, self.dtype_policy)
        attention = [] if attention is None else attention
        self.attention: list[SequenceAttention] = (
            list(attention)
            if isinstance(attention, list | tuple)
            else [cast(SequenceAttention, attention)]
        )
        for layer in self.attention:
            if not isinstance(layer, SequenceAttention):
                raise TypeError(
                    "`attention` of AttentionDecoder must be AdditiveAttention, LuongAttention, "
                    f"another SequenceAttention, or a list of them. Received: {layer!r}."
                )
            if layer.attention_dropout:
                raise ValueError(
                    "`attention_dropout` is not supported in the recurrent loop of "
                    "AttentionDecoder. Use `dropout` of AttentionDecoder or of its cell. "
                    f"Received: attention_dropout={layer.attention_dropout} of "
                    f"{layer.name!r}."
                )
        if order not in (None, *ORDERS):
            raise ValueError(f"`order` must be one of {list(ORDERS)}. Received: {order!r}.")
        if summary not in SUMMARIES:
            raise ValueError(f"`summary` must be one of {list(SUMMARIES)}. Received: {summary!r}.")
        switches = {"bridge": bridge, "context_gate": context_gate, "add_input": add_input}
        for name, value in {**switches, "input_feeding": input_feeding}.items():
            if not isinstance(value, bool) and (value is not None or name in switches):
                raise ValueError(f"`{name}` must be True or False. Received: {value!r}.")
        needs = [
            ("context_gate", context_gate, "attention", self.attention),
            ("add_input", add_input, "attention_units", attention_units),
            ("bridge_units", bridge_units is not None, "bridge", bridge),
        ]
        for name, is_on, needed, has in needs:
            if is_on and not has:
                raise ValueError(
                    f"`{name}` of AttentionDecoder needs `{needed}`. Received: {needed}={has!r}."
                )
        if bridge_units is not None:
            check_positive("AttentionDecoder", bridge_units=bridge_units)
        if attention_units is not None:
            check_positive("AttentionDecoder", attention_units=attention_units)
        check_rate("AttentionDecoder", dropout=dropout)
        self.order = order or ("luong" if self.attention else "bahdanau")
        self.input_feeding = input_feeding
        self.attention_units = attention_units
        self.activation = keras.activations.get(activation)
        self.bridge = bridge
        self.bridge_units = bridge_units
        self.context_gate = context_gate
        self.add_input = add_input
        self.summary = summary
        self.dropout = dropout
        self.seed = seed
        self._widths = state_widths(self.cell)
        self._query_state = query_index(self.cell)
        self._counts = any(layer.window == "monotonic" for layer in self.attention)
        self.dropout_layer = Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    @property
    def state_size(self) -> list[int]:
        """Widths of the cell's states."""
        return list(self._widths)

    def build(self, x_shape: Shape, memory_shape: Shape | None = None):
        """Creates the weights; weights for a memory only if `memory_shape` is given."""
        if x_shape and isinstance(x_shape[0], list | tuple):
            raise ValueError(
                "Call layer(x, memory), not layer([x, memory]). Received: a list of "
                f"{len(x_shape)} tensors."
            )
        if memory_shape is None:
            for name in ("attention", "bridge", "input_feeding"):
                if getattr(self, name):
                    raise ValueError(
                        f"AttentionDecoder with `{name}` needs a `memory`: call layer(x, memory). "
                        "Received: none."
                    )
        else:
            check_width(self, memory=memory_shape)
            if self.summary == "ends" and memory_shape[-1] % 2 and self._summarizes:
                raise ValueError(
                    "summary='ends' splits the memory into two halves, so its width must be "
                    f"even. Received: a memory of shape {tuple(memory_shape)}."
                )
        check_width(self, x=x_shape)
        if self.add_input and x_shape[-1] != self.attention_units:
            raise ValueError(
                f"With `add_input`, `x` must have width {self.attention_units} "
                f"(`attention_units`). Received: shape {tuple(x_shape)}."
            )
        self.has_memory = memory_shape is not None
        width = 0 if memory_shape is None else memory_shape[-1]
        context = width * max(len(self.attention), 1)
        out = output_width(self.cell)
        self._feed_width = 0
        if self._feeds:
            self._feed_width = self.attention_units or context
        first = self.order == "bahdanau"
        self._input_width = x_shape[-1] + (context if first else 0) + self._feed_width
        if not self.cell.built:
            self.cell.build((None, self._input_width))
            self.cell.built = True
        query = self._widths[self._query_state] if first else out
        for layer in self.attention:
            if not layer.built:  # it may be shared
                layer.build((None, None, query), memory_shape)
        if self.attention_units is not None:
            activation = None if self.add_input else self.activation
            self.attention_dense = self._dense(
                "attention_vector", self.attention_units, activation, out + context, use_bias=False
            )
        if self.context_gate:
            self.gate_dense = self._dense("gate", len(self.attention), "sigmoid", query)
        self.bridge_denses, self.bridge_hidden = [], []
        for i, units in enumerate(self._widths if self.bridge else []):
            inputs = width
            if self.bridge_units is not None:
                inputs = self.bridge_units
                hidden = self._dense(f"bridge_hidden_{i}", inputs, "relu", width)
                self.bridge_hidden.append(hidden)
            self.bridge_denses.append(self._dense(f"bridge_{i}", units, "tanh", inputs))

    def _dense(
        self, name: str, units: int, activation: Activation, inputs: int, use_bias: bool = True
    ) -> keras.layers.Dense:
        dense = keras.layers.Dense(
            units, activation, use_bias=use_bias, dtype=self.dtype_policy, name=name
        )
        dense.build((None, inputs))
        return dense

    def compute_output_shape(self, x_shape: Shape, memory_shape: Shape | None = None):
        """Returns the shape `(B, T, width)` of the output."""
        width = self.attention_units
        if width is None:
            width = output_width(self.cell)
            if memory_shape is not None:
                width += memory_shape[-1] * max(len(self.attention), 1)
        return (*x_shape[:-1], width)

    def call(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        memory_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
        initial_state: Nest | None = None,
        return_attention_scores: bool = False,
        return_state: bool = False,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
        training: bool | None = None,
    ):
        """Decodes `x` `(B, T, D)` step by step; the class describes arguments and results."""
        check_rank(x, "x")
        if "float" not in keras.backend.standardize_dtype(x.dtype):
            raise ValueError(
                "`x` must be vectors. Embed ids first, for example with a TokenEmbedding. "
                f"Received: dtype {keras.backend.standardize_dtype(x.dtype)}."
            )
        padding_mask = sequence_mask(x, padding_mask, mask, x_mask)
        check_same_batch(x=x, memory=memory)
        x = self._clean(x, padding_mask)
        if return_attention_scores and not self.attention:
            raise ValueError(
                "An AttentionDecoder without `attention` has no scores to return. Received: "
                "return_attention_scores=True. Leave it out, or create the layer with "
                "`attention`."
            )
        source = self._source(memory, memory_mask)
        states = self._initial(x, source, initial_state)
        collector = active_collector() if self.attention else None
        scored = return_attention_scores or collector is not None
        output, states = self._run(x, padding_mask, states, source, scored, training)
        output, weights = self._finish(output, x, source, scored, training)
        if collector is not None:
            for layer, scores in zip(self.attention, weights, strict=True):
                collector._add(layer, "cross", scores)
        outputs: list[Any] = [output]
        if return_attention_scores:
            outputs.append(weights)
        if return_state:
            outputs.append(states[: len(self._widths)])
        return tuple(outputs) if len(outputs) > 1 else output

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "cell": _serialized(self.cell),
            "attention": [_serialized(layer) for layer in self.attention],
            "order": self.order,
            "input_feeding": self.input_feeding,
            "attention_units": self.attention_units,
            "activation": keras.activations.serialize(self.activation),
            "bridge": self.bridge,
            "summary": self.summary,
            "dropout": self.dropout,
            "seed": self.seed,
            "context_gate": self.context_gate,
            "add_input": self.add_input,
            "bridge_units": self.bridge_units,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "AttentionDecoder":
        """Creates the layer from its config."""
        config = dict(config)
        load = keras.saving.deserialize_keras_object
        config["cell"] = load(config["cell"])
        config["attention"] = [load(layer) for layer in config["attention"]] or None
        return cls(**config)


def _serialized(layer: keras.layers.Layer) -> dict[str, Any]:
    """A layer's config without `build_config`, because the owner builds the layer."""

    def strip(config: dict | list) -> None:
        if isinstance(config, dict):
            config.pop("build_config", None)
        for value in config.values() if isinstance(config, dict) else config:
            if isinstance(value, dict | list):
                strip(value)

    config = keras.saving.serialize_keras_object(layer)
    strip(config)  # in place: Keras marks shared objects in this copy
    return config
