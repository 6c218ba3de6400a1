"""Loop of the recurrent decoder over a whole sequence or single steps."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops, tree

from keras_attn.hints import Nest, Size, Tensor
from keras_attn.layers.collect import no_collection
from keras_attn.layers.masked_layer import (
    MaskedLayer,
    check_built,
    check_rank,
    check_step,
    first_mask,
    sequence_mask,
)
from keras_attn.layers.recurrent_cells import dropout_masks, no_state, output_width, run_loop
from keras_attn.ops import summarize


class RecurrentLoop(MaskedLayer):
    """Base class of `AttentionDecoder` with its steps, in training and in decoding.

    `AttentionDecoder` creates and documents the settings and weights. The `source` (the memory, its
    keys and its summary) is the same at each step, and is computed once per call. Nothing is stored
    on the layer.
    """

    @property
    def _feeds(self) -> bool:
        if self.input_feeding is None:
            return self.has_memory and self.order == "luong"
        return self.input_feeding

    @property
    def _summarizes(self) -> bool:
        return self.bridge or not self.attention

    def _source(self, memory: Tensor | None, memory_mask: Tensor | None) -> dict[str, Any]:
        """Those parts of the memory, its keys, mask and summary that the layer needs."""
        if (memory is None) == self.has_memory:
            made = "with" if self.has_memory else "without"
            raise ValueError(
                f"{self.name} was built {made} a memory. Received: memory="
                f"{None if memory is None else tuple(memory.shape)}."
            )
        if memory is None:
            if memory_mask is not None:
                raise ValueError(
                    "`memory_mask` requires a `memory`. Received: only `memory_mask`. Pass "
                    "both, or neither."
                )
            return {}
        check_rank(memory, "memory", shape="(B, S, Dm)")
        memory_mask = sequence_mask(memory, memory_mask, name="memory_mask")
        memory = self._clean(memory, memory_mask)
        source: dict[str, Any] = {}
        if self._summarizes:
            source["summary"] = summarize(memory, memory_mask, self.summary)
        if self.attention:
            source["memory"] = memory
            source["keys"] = [layer.project_key(memory) for layer in self.attention]
            if memory_mask is not None:
                source["memory_mask"] = memory_mask
        return source

    def _initial(self, x: Tensor, source: dict[str, Any], given: Nest | None) -> list[Tensor]:
        """The states before the first step: cell states, a[t-1] and the position."""
        nothing = no_state(x)
        if given is not None:
            if self.bridge:
                raise ValueError(
                    "The bridge makes the initial state from the memory. Received: an "
                    "`initial_state` as well. To pass `initial_state`, create the layer with "
                    "bridge=False."
                )
            states = [ops.cast(state, x.dtype) for state in tree.flatten(given)]
            shapes = [tuple(state.shape) for state in states]
            if [shape[1:] for shape in shapes] != [(width,) for width in self._widths]:
                raise ValueError(
                    "`initial_state` must have one tensor (B, width) for each state of the "
                    f"cell, with the widths {self.state_size}. Received: shapes {shapes}."
                )
        elif self.bridge:
            summaries = [hidden(source["summary"]) for hidden in self.bridge_hidden]
            summaries = summaries or [source["summary"]] * len(self.bridge_denses)
            states = [d(s) for d, s in zip(self.bridge_denses, summaries, strict=True)]
        elif hasattr(self.cell, "get_initial_state"):
            states = tree.flatten(self.cell.get_initial_state(batch_size=ops.shape(x)[0]))
            states = [ops.cast(state, x.dtype) for state in states]
        else:
            states = [nothing + ops.zeros((1, w), x.dtype) for w in self._widths]
        if self._feeds:
            states.append(nothing + ops.zeros((1, self._feed_width), x.dtype))
        if self._counts:
            states.append(nothing + ops.zeros((1, 2), x.dtype))
        return states

    def _run(
        self,
        x: Tensor,
        padding_mask: Tensor | None,
        states: list[Tensor],
        source: dict[str, Any],
        scored: bool,
        training: bool | None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Runs the loop; each output is followed by the weights of its step."""

        def step(x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
            output, weights, states = self._advance(x, states, source, training)
            return ops.concatenate([output, *weights], axis=-1) if scored else output, states

        rnn = keras.layers.RNN(
            StepCell(step, [state.shape[-1] for state in states], self.compute_dtype),
            return_sequences=True,
            return_state=True,
            zero_output_for_mask=True,  # else Keras outputs the first state on JAX
            dtype=self.dtype_policy,
            name="rnn",
        )
        with no_collection(), dropout_masks(self.cell, x, self._input_width, training):
            output, *states = run_loop(rnn, x, states, padding_mask)
        return output, states

    def _advance(
        self, x: Tensor, states: Sequence[Tensor], source: dict[str, Any], training: bool | None
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """One step `(B, D)`: the output (a[t] if it is fed, else [h; c]), weights and states."""
        count = len(self._widths)
        cell_states, others = list(states[:count]), list(states[count:])
        position = others.pop() if self._counts else None
        inputs, context, weights = [x], list[Tensor](), list[Tensor]()
        if source and self.order == "bahdanau":
            context, weights = self._attend(cell_states[self._query_state], source, position)
            inputs += context
        packed = tree.pack_sequence_as(self._packed, cell_states)
        more = {"training": training} if getattr(self.cell, "_call_has_training_arg", 0) else {}
        output, cell_states = self.cell(ops.concatenate(inputs + others, axis=-1), packed, **more)
        output = ops.cast(output, x.dtype)  # the cell may have another dtype
        if source and self.order == "luong":
            context, weights = self._attend(output, source, position)
        output = ops.concatenate([output, *context], axis=-1) if context else output
        states = [ops.cast(state, x.dtype) for state in tree.flatten(cell_states)]
        if self._feeds:
            if self.attention_units is not None:
                output = self._vector(output, x)
                states.append(output)
            else:
                states.append(ops.concatenate(context, axis=-1))
        if position is not None:
            states.append(_next(position))
        return output, weights, states

    @property
    def _packed(self) -> Any:
        size = self.cell.state_size
        return size if isinstance(size, list | tuple) else [size]

    def _attend(
        self, query: Tensor, source: dict[str, Any], position: Tensor | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Contexts `(B, Dm)` and weights `(B, S)` of one query `(B, U)`."""
        if not self.attention:
            return [source["summary"]], []
        contexts, weights = [], []
        for layer, keys in zip(self.attention, source["keys"], strict=True):
            more = {}
            if layer.window == "monotonic":
                digits = ops.cast(position, "int32")  # Keras would cast floats back
                more["positions"] = digits[:, :1] * _BASE + digits[:, 1:]
            context, scores = layer(
                ops.expand_dims(query, 1),
                source["memory"],
                value_mask=source.get("memory_mask"),
                projected_key=keys,
                return_attention_scores=True,
                **more,
            )
            contexts.append(ops.cast(context[:, 0], self.compute_dtype))
            weights.append(ops.cast(scores[:, 0], self.compute_dtype))
        if self.context_gate:
            gates = self.gate_dense(query)
            contexts = [c * gates[:, i : i + 1] for i, c in enumerate(contexts)]
        return contexts, weights

    def _vector(self, output: Tensor, x: Tensor) -> Tensor:
        """The attention vector a[t] from [h[t]; c[t]] and x[t], for one step or for all."""
        output = self.attention_dense(output)
        if self.add_input:
            output = self.activation(ops.cast(x, output.dtype) + output)
        return output

    def _finish(
        self,
        output: Tensor,
        x: Tensor,
        source: dict[str, Any],
        scored: bool,
        training: bool | None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Outputs and weights `(B, T, ...)` from the output of the loop."""
        weights = []
        if scored:
            # A slice with an unknown end would have an unknown width: reshape.
            start, (rows, steps, _) = self._loop_width(source), ops.shape(output)
            length = ops.shape(source["memory"])[1]
            for i in range(len(self.attention)):
                here = start + i * length
                scores = output[:, :, here : here + length]
                weights.append(ops.reshape(scores, (rows, steps, length)))
            output = ops.reshape(output[:, :, :start], (rows, steps, start))
        if self.attention_units is not None and not self._feeds:
            output = self._vector(output, x)
        return self.dropout_layer(output, training=training), weights

    def _loop_width(self, source: dict[str, Any]) -> int:
        if self._feeds and self.attention_units is not None:
            return self.attention_units
        width = source["memory"].shape[-1] * len(self.attention)
        return output_width(self.cell) + width

    # Decoding

    def prefill(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        max_length: Size | None = None,
        initial_state: Nest | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Runs over a prompt and returns the state that `step` continues.

        Args:
            x: Inputs `(B, P, D)`, padded on either side if rows differ in length.
            padding_mask: Padding mask of `x`, `(B, P)`; the Keras mask of `x` if None.
            memory: Source states `(B, S, Dm)`, or None. Its keys and summary are computed here,
                once.
            memory_mask: Padding mask of the memory, `(B, S)`; the Keras mask of `memory` if None.
            max_length: Ignored, since the state of a recurrent network does not grow.
            initial_state: Initial states of the cell, as in a call.

        Returns:
            The output `(B, P, U)` and the state, a nest of batch-first tensors.
        """
        check_built(self)
        check_rank(x, "x", shape="(B, P, D)")
        padding_mask = first_mask(padding_mask, getattr(x, "_keras_mask", None))
        memory_mask = first_mask(memory_mask, getattr(memory, "_keras_mask", None))
        x = ops.cast(x, self.compute_dtype)
        memory = None if memory is None else ops.cast(memory, self.compute_dtype)
        padding_mask = None if padding_mask is None else sequence_mask(x, padding_mask)
        x = self._clean(x, padding_mask)
        source = self._source(memory, memory_mask)
        states = self._initial(x, source, initial_state)
        output, states = self._run(x, padding_mask, states, source, False, False)
        return self._finish(output, x, source, False, False)[0], {"states": states, **source}

    def step(
        self, x: Tensor, state: dict[str, Any], return_attention_scores: bool = False
    ) -> tuple[Any, ...]:
        """Computes one new position, with the result of the call on the whole sequence.

        Args:
            x: Inputs `(B, 1, D)`.
            state: State from `prefill` or the last `step`.
            return_attention_scores: Whether to also return the attention weights.

        Returns:
            `(output (B, 1, U), state)`, or `(output, state, scores)` with scores
            `{"self": [], "cross": [(B, 1, S), ...]}`.

        Raises:
            ValueError: If `x` has another shape.
        """
        check_step(x)
        with no_collection(), dropout_masks(self.cell, x, self._input_width, False):
            source = {name: value for name, value in state.items() if name != "states"}
            output, weights, states = self._advance(x[:, 0], state["states"], source, False)
        states = [ops.cast(s, o.dtype) for s, o in zip(states, state["states"], strict=True)]
        output = ops.cast(ops.expand_dims(output, 1), self.compute_dtype)
        output, _ = self._finish(output, x, state, False, False)
        state = {**state, "states": states}
        if not return_attention_scores:
            return output, state
        return output, state, {"self": [], "cross": [ops.expand_dims(w, 1) for w in weights]}

    @staticmethod
    def reorder(state: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        """Selects rows of a state, as beam search does among the beams of a sentence.

        Args:
            state: The state.
            rows: int32 `(B,)`, the row that each new row continues. It must belong to the same
                sentence, because the memory is not reordered.

        Returns:
            The state of the new rows.
        """
        return {**state, "states": [ops.take(s, rows, axis=0) for s in state["states"]]}


class StepCell:
    """A temporary cell for `keras.layers.RNN` that owns no layers."""

    def __init__(
        self,
        step: Callable[[Tensor, Sequence[Tensor]], tuple[Tensor, list[Tensor]]],
        widths: list[int],
        compute_dtype: str,
    ):
        self.call = step
        self.state_size = widths
        self.compute_dtype = compute_dtype

    def __call__(self, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Computes one step, and returns its output and the new states."""
        return self.call(x, states)


_BASE = 256  # bfloat16 counts to 256; Keras keeps all states in the dtype of the layer


def _next(position: Tensor) -> Tensor:
    """Adds 1 to a position of two digits `(B, 2)`."""
    high, low = position[:, :1], position[:, 1:] + 1
    full = ops.cast(low >= _BASE, position.dtype)
    return ops.concatenate([high + full, low * (1 - full)], axis=-1)
