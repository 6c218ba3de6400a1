"""The recurrent decoder with attention."""

from typing import Any

import keras

from keras_attn.layers.collect import active_collector
from keras_attn.layers.dropout import Dropout
from keras_attn.layers.masked_layer import (
    check_positive,
    check_rank,
    check_rate,
    check_same_batch,
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

Tensor = Any

ORDERS = ("bahdanau", "luong")


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionDecoder(RecurrentLoop):
    """A recurrent decoder that attends to a memory at each step, over any Keras cell.

    Luong's order (Luong et al., 2015): attend from the present state.

        s[t], h[t] = cell([x[t]; a[t-1]], s[t-1])          a[t-1] with `input_feeding`
        c[t]       = attention(h[t], memory)

    Bahdanau's order (Bahdanau et al., 2015): attend from the previous state.

        c[t]       = attention(s[t-1], memory)
        s[t], h[t] = cell([x[t]; c[t]], s[t-1])            and a[t-1] with `input_feeding`

    In both:

        a[t]      = activation([h[t]; c[t]] Wa)            with `attention_units`; else [h[t]; c[t]]
        output[t] = dropout(a[t])

    What Xu et al., 2015 ("Show, Attend and Tell") add, as options:

        c[t] = sigmoid(q[t] . wg + bg) attention(q[t], memory)     with `context_gate`, for the
                                                                   query q[t]: h[t] or s[t-1]
        a[t] = activation(x[t] + [h[t]; c[t]] Wa)                  with `add_input`

    With several attentions, c[t] is the concatenation of their contexts, each with a gate of its
    own. Without attention, but
    with a memory, c[t] is its `summary` at every step: the fixed context of Cho et al., 2014.
    Without a memory the layer is a plain recurrent network that can be decoded step by step.

    The initial state is `initial_state`, or `tanh(summary(memory) Wi + bi)` for each state of the
    cell with `bridge`, or the cell's own (zeros). With `bridge_units` there is a hidden layer for
    each state before that: `relu(summary(memory) Wj + bj)`. The summary is the `"mean"` of the
    memory's tokens, its `"last"` token, or its `"ends"`: the first half of the last token and the
    second half of the first one, which are the final states of both directions of a bidirectional
    encoder.

    Shapes: x `(B, T, D)`, memory `(B, S, Dm)` to `(B, T, attention_units)`, else `(B, T, U + C)`
    for cells with outputs of width U and contexts of width C in all.

    Masking: memory that `memory_mask` (or the Keras mask of `memory`) hides is not attended to and
    not summarized; a row without any has zero contexts and weights. The state of a row stays as it
    is where `padding_mask` (or the Keras mask of `x`) is False: padding may stand on either side.
    Its weights are zero there.

    Saving: a cell or an attention that two layers share is written twice, and a `.keras` file of
    such a model cannot be loaded; that is so for Keras' own `RNN` too. Weights alone can.

    Memory: one step's, in inference. In training what the backend keeps of each step's attention:
    additive scores are computed again in the backward pass, so that `(B, T, S, units)` is not held.

    Args:
        cell: A Keras cell (`GRUCell`, `LSTMCell`, `StackedRNNCells`, your own) or a list of cells,
            the first at the bottom. Dropout and recurrent dropout of cells are theirs.
        attention: `AdditiveAttention`, `LuongAttention` or another `SequenceAttention`; a list of
            them; None: none. Its `attention_dropout` must be 0: use `dropout`.
        order: `"luong"` or `"bahdanau"`; None: `"luong"` with attention, `"bahdanau"` without.
        input_feeding: Whether a[t-1] is an input of step t (the context, where there are no
            `attention_units`); None: in Luong's order.
        attention_units: Width of a[t]; None: no Wa.
        activation: Of a[t].
        bridge: Whether the initial state is made of the memory's summary.
        bridge_units: Width of a hidden layer of the bridge; None: it has none.
        summary: `"mean"`, `"last"` or `"ends"`: where a bridge or a fixed context needs it.
        context_gate: Whether a gate between 0 and 1, made of the query, scales each context.
        add_input: Whether x[t] is added to what becomes a[t]; x has width `attention_units` then.
        dropout: Dropout of the output.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, ... of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`: embeddings of the target's tokens, shifted by one (teacher forcing).
        memory: `(B, S, Dm)`: the encoder's output, or None for a layer built without.
        memory_mask: `(B, S)`.
        padding_mask: `(B, T)`.
        initial_state: A tensor `(B, width)` for each state of the cell, in a list.
        return_attention_scores: Whether the weights are returned too.
        return_state: Whether the cell's final states are returned too.
        training: Whether dropout is active.

    Returns:
        The output. With scores `(output, [weights (B, T, S), ...])`, one for each attention; with
        the state a list of tensors after that.

    Raises:
        ValueError: For options that do not apply or do not fit, a memory that lost its mask, states
            of other widths.
        TypeError: For what is no cell or no attention.

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
        cell: Any,
        attention: Any = None,
        *,
        order: str | None = None,
        input_feeding: bool | None = None,
        attention_units: int | None = None,
        activation: Any = "tanh",
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
        self.attention = list(attention) if isinstance(attention, list | tuple) else [attention]
        for layer in self.attention:
            if not isinstance(layer, SequenceAttention):
                raise TypeError(
                    "`attention` of AttentionDecoder must be AdditiveAttention, LuongAttention, "
                    f"another SequenceAttention, or a list of them. Received: {layer!r}."
                )
            if layer.attention_dropout:
                raise ValueError(
                    "`attention_dropout` cannot be drawn within a recurrent loop. Use `dropout` of "
                    f"AttentionDecoder or of its cell. Received: attention_dropout="
                    f"{layer.attention_dropout} of {layer.name!r}."
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

    def build(self, x_shape, memory_shape=None):
        """Makes the weights: those of a memory only where there is one."""
        if x_shape and isinstance(x_shape[0], list | tuple):
            raise ValueError(
                f"Call layer(x, memory), not layer([x, memory]). Received: a list of {len(x_shape)}"
            )
        if memory_shape is None:
            for name in ("attention", "bridge", "input_feeding"):
                if getattr(self, name):
                    raise ValueError(
                        f"AttentionDecoder with `{name}` needs a `memory`: call layer(x, memory). "
                        "Received: none."
                    )
        elif len(memory_shape) != 3:
            raise ValueError(
                f"`memory` must have shape (B, S, Dm). Received: shape {tuple(memory_shape)}."
            )
        elif self.summary == "ends" and memory_shape[-1] % 2 and self._summarizes:
            raise ValueError(
                "summary='ends' takes halves of the memory: its width must be even. "
                f"Received: shape {tuple(memory_shape)}."
            )
        if self.add_input and x_shape[-1] != self.attention_units:
            raise ValueError(
                f"With `add_input`, `x` must have width `attention_units`, {self.attention_units}. "
                f"Received: shape {tuple(x_shape)}."
            )
        self.has_memory = memory_shape is not None
        width = memory_shape[-1] if self.has_memory else 0
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
        self, name: str, units: int, activation: Any, inputs: int, use_bias: bool = True
    ) -> keras.layers.Dense:
        dense = keras.layers.Dense(
            units, activation, use_bias=use_bias, dtype=self.dtype_policy, name=name
        )
        dense.build((None, inputs))
        return dense

    def compute_output_shape(self, x_shape, memory_shape=None):
        """Returns the shape of the output."""
        width = self.attention_units
        if width is None:
            width = output_width(self.cell)
            if memory_shape is not None:
                width += memory_shape[-1] * max(len(self.attention), 1)
        return (*x_shape[:-1], width)

    def call(
        self,
        x,
        memory=None,
        *,
        memory_mask=None,
        padding_mask=None,
        initial_state=None,
        return_attention_scores=False,
        return_state=False,
        mask=None,
        x_mask=None,
        training=None,
    ):
        """Runs over the sequence."""
        check_rank(x, "x")
        if "float" not in keras.backend.standardize_dtype(x.dtype):
            raise ValueError(
                "`x` must be vectors: embed ids first, by a TokenEmbedding. "
                f"Received: dtype {keras.backend.standardize_dtype(x.dtype)}."
            )
        padding_mask = sequence_mask(x, padding_mask, mask, x_mask)
        check_same_batch(x=x, memory=memory)
        x = self._clean(x, padding_mask)
        if return_attention_scores and not self.attention:
            raise ValueError(
                "Without `attention` there are no scores. Received: return_attention_scores=True."
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
        outputs = [output]
        if return_attention_scores:
            outputs.append(weights)
        if return_state:
            outputs.append(states[: len(self._widths)])
        return tuple(outputs) if len(outputs) > 1 else output

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs."""
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
        """Makes the layer from what `get_config` returned."""
        config = dict(config)
        load = keras.saving.deserialize_keras_object
        config["cell"] = load(config["cell"])
        config["attention"] = [load(layer) for layer in config["attention"]] or None
        return cls(**config)


def _serialized(layer: Any) -> Any:
    """A layer's config without how it was built: this layer builds it, under its own name."""

    def strip(config):
        if isinstance(config, dict):
            config.pop("build_config", None)
        for value in config.values() if isinstance(config, dict) else config:
            if isinstance(value, dict | list):
                strip(value)

    config = keras.saving.serialize_keras_object(layer)
    strip(config)  # in place: Keras marks what is shared in its own copy
    return config
