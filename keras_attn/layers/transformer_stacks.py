"""Stacks of encoder and decoder blocks."""

from typing import Any

import keras
from keras import ops, tree

from keras_attn.hints import Shape, Size, Tensor
from keras_attn.layers.decoder_block import DecoderBlock
from keras_attn.layers.masked_layer import (
    check_built,
    check_positions,
    check_rank,
    check_same_batch,
    check_step,
    first_mask,
    sequence_mask,
)
from keras_attn.layers.stack import TransformerStack
from keras_attn.layers.transformer_encoder_block import TransformerEncoderBlock
from keras_attn.ops import token_positions
from keras_attn.ops.compilers import compiler, is_one_row
from keras_attn.ops.masks import static_shape
from keras_attn.ops.padding import known_value

MOST_SHARING = 4
"""Number of beams up to which attention to all slots costs less than copies of the caches."""
LEAST_SHARED = 64
"""Number of slots from which this is so for one sentence."""
_OF_MEMORY = ("memory", "memory_mask")


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerEncoder(TransformerStack):
    """A stack of `TransformerEncoderBlock`s (Vaswani et al., 2017).

        x = block_i(x) for i in 0 ... num_layers - 1;  with `normalize_first`, x = norm(x)
        output = output_scale * x

    With `positions="relative"`, all blocks share one table of biases, as in T5.

    Shapes: x `(B, T, D)` to `(B, T, D)`. The inputs are embeddings, with positions unless the
    blocks have them (`positions="rotary"`, `"alibi"` or `"relative"`).

    Masking: as in `TransformerEncoderBlock`, with the same masks for all blocks. `padding_mask`
    `(B, T)`, or the Keras mask of `x`, is the mask of the output.

    Args:
        num_layers: Number of blocks.
        num_heads: Number of attention heads N.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        rematerialize: Whether training keeps only the input of each block, and computes the block
            again for its gradients. This saves memory and costs one more forward pass.
        output_scale: Factor of the output; 1 if None. In T5, the decoder has the factor `1 /
            sqrt(D)` if the logits are tied to the embedding.
        window_blocks: Which blocks have the `sliding_window`: all if None; blocks 0, n, 2n and so
            on for a number n; or a list with a boolean for each block.
        window_rotary_base: Base of the rotary positions in blocks with a window, which then have no
            `rotary_scaling`; `rotary_base` and `rotary_scaling`, as in all other blocks, if None.
        first_norm: Whether the input of the first self-attention is normalized. Only a pre-norm
            stack supports False.
        last_states: Number n of last blocks whose outputs are returned, concatenated along the
            width. Only the last of these outputs gets the final norm and `output_scale`.
        **kwargs: All other arguments of `TransformerEncoderBlock`, and of `keras.layers.Layer`.

    Call arguments:
        x: Inputs `(B, T, D)`.
        padding_mask: Padding mask of `x`, `(B, T)`.
        attention_mask: Mask of query-key pairs, `(B, T, T)` or `(B, 1|N, T, T)`.
        use_causal_mask: Whether later positions are hidden from earlier ones.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether dropout is active.
        attention_bias: Floats `(B|1, N|1, T|1, T|1)`, added to the scaled products of all blocks;
            -inf hides.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)`: positions of the tokens for the settings
            `positions`, `score_mod` and `mask_mod`; `0 ... T-1` if None. A stack without these
            settings raises an error.

    Returns:
        The output `(B, T, n D)`, which is `(B, T, D)` by default. If `return_attention_scores` is
        True, `(output, weights)`, where `weights` is a list with a tensor `(B, N, T, T)` for each
        block.

    Raises:
        ValueError: If a setting is unknown, out of range or does not apply; if an input or a mask
            has the wrong shape; if a mask has floats; if the heads do not divide the width; if a
            mask that is known breaks the promise of `right_padding`; or if a symbolic `x` lost its
            Keras mask on the way to this layer.
        TypeError: If `score_mod` or `mask_mod` cannot be called.

    Example:

    >>> encoder = TransformerEncoder(num_layers=2, num_heads=2, intermediate_dim=32)
    >>> output, weights = encoder(keras.ops.ones((1, 5, 8)), return_attention_scores=True)
    >>> tuple(output.shape), len(weights)
    ((1, 5, 8), 2)
    """

    _block_class = TransformerEncoderBlock
    _needed_masks = TransformerEncoderBlock._needed_masks
    _constructor_hint = (
        "It is a stack of blocks: TransformerEncoder(num_layers, num_heads, intermediate_dim=...). "
        "One block, as KerasHub's layer of this name, is TransformerEncoderBlock(num_heads, "
        "intermediate_dim=...)."
    )

    def __init__(self, num_layers: int, num_heads: int, *, last_states: int = 1, **kwargs):
        super().__init__(num_layers, num_heads, **kwargs)
        if not 1 <= last_states <= num_layers:
            raise ValueError(
                f"`last_states` must be from 1 to {num_layers}, the number of blocks. Received: "
                f"{last_states!r}."
            )
        self.last_states = last_states

    def build(self, x_shape: Shape):
        """Creates the blocks and, for pre-norm, the final norm."""
        self._build_blocks(x_shape)

    def call(
        self,
        x: Tensor,
        *,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
        training: bool | None = None,
        positions: Tensor | None = None,
        attention_bias: Tensor | None = None,
    ):
        """Applies all blocks to `x` `(B, T, D)`; the class describes the arguments."""
        check_rank(x, "x")
        padding_mask = sequence_mask(x, padding_mask, mask, x_mask)
        x = self._clean(x, padding_mask)
        scores, states = [], []
        for block in self.blocks:
            output = self._apply_block(
                block,
                x,
                padding_mask=padding_mask,
                attention_mask=attention_mask,
                use_causal_mask=use_causal_mask,
                return_attention_scores=return_attention_scores,
                training=training,
                positions=positions,
                attention_bias=attention_bias,
            )
            if return_attention_scores:
                output, weights = output
                scores.append(weights)
            states.append(x)
            x = output
        x = self._finish(x)
        if self.last_states > 1:
            x = ops.concatenate([*states[1 - self.last_states :], x], axis=-1)
        return (x, scores) if return_attention_scores else x

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {**super().get_config(), "last_states": self.last_states}


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerDecoder(TransformerStack):
    """A stack of `DecoderBlock`s, with cached step-by-step decoding.

        x = block_i(x, memory) for i in 0 ... num_layers - 1;  with `normalize_first`, x = norm(x)
        output = output_scale * x

    With `positions="relative"`, all blocks share one table of biases, as in T5.

    Shapes: x `(B, T, D)`, memory `(B, S, Dm)` to `(B, T, D)`. The inputs are embeddings, with
    positions unless the blocks have them (`positions="rotary"`, `"alibi"` or `"relative"`). A
    `TokenEmbedding` with `reverse=True`, or a `Dense`, converts the output to logits.
    `keras_attn.models.TokenDecoder` combines embedding, stack and output layer for decoding.

    Masking: as in `DecoderBlock`, with the same masks for all blocks. Self-attention is always
    causal. `padding_mask` `(B, T)`, or the Keras mask of `x`, is the mask of the output.

    Args:
        num_layers: Number of blocks.
        num_heads: Number of attention heads N.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        rematerialize: Whether training keeps only the input of each block, and computes the block
            again for its gradients. This saves memory and costs one more forward pass.
        output_scale: Factor of the output; 1 if None. In T5, the decoder has the factor `1 /
            sqrt(D)` if the logits are tied to the embedding.
        window_blocks: Which blocks have the `sliding_window`: all if None; blocks 0, n, 2n and so
            on for a number n; or a list with a boolean for each block.
        window_rotary_base: Base of the rotary positions in blocks with a window, which then have no
            `rotary_scaling`; `rotary_base` and `rotary_scaling`, as in all other blocks, if None.
        first_norm: Whether the input of the first self-attention is normalized. Only a pre-norm
            stack supports False.
        **kwargs: All other arguments of `DecoderBlock`, and of `keras.layers.Layer`.

    Call arguments:
        x: Inputs `(B, T, D)`.
        memory: Source states `(B, S, Dm)`, or None for a decoder without cross-attention.
        memory_mask: Padding mask of the memory, `(B, S)`.
        padding_mask: Padding mask of `x`, `(B, T)`.
        attention_mask: Mask of query-key pairs, `(B, T, T)` or `(B, 1|N, T, T)`, for
            self-attention.
        attention_bias: Floats `(B|1, N|1, T|1, T|1)`, added to the scaled products of the
            self-attention of all blocks; -inf hides.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether dropout is active.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)`: positions of the tokens for the settings
            `positions`, `score_mod` and `mask_mod`; `0 ... T-1` if None. A stack without these
            settings raises an error.
        cross_attention_mask: Mask of query-memory pairs, `(B, T, S)` or `(B, 1|N, T, S)`, for
            cross-attention.

    Returns:
        The output `(B, T, D)`. If `return_attention_scores` is True, `(output, self_weights,
        cross_weights)`: lists with the weights `(B, N, T, T)` and `(B, N, T, S)` of each block.
        Without a memory, the last list is empty.

    Raises:
        ValueError: If a setting is unknown, out of range or does not apply; if an input or a mask
            has the wrong shape; if a mask has floats or, if it is known, breaks the promise of
            `right_padding`; if the heads do not divide the width; if a memory is given to a decoder
            that was built without a memory; if no memory is given to a decoder that was built with
            a memory; if `memory_mask` or `cross_attention_mask` is given without a memory; or if a
            symbolic `x` or `memory` lost its Keras mask on the way to this layer.
        TypeError: If `score_mod` or `mask_mod` cannot be called, or tensors are passed in a list.

    Example:

    >>> decoder = TransformerDecoder(num_layers=2, num_heads=2, intermediate_dim=32)
    >>> x, memory = keras.ops.ones((1, 5, 8)), keras.ops.ones((1, 7, 8))
    >>> tuple(decoder(x, memory).shape)
    (1, 5, 8)
    """

    _block_class = DecoderBlock
    _needed_masks = DecoderBlock._needed_masks
    _constructor_hint = (
        "It is a stack of blocks: TransformerDecoder(num_layers, num_heads, intermediate_dim=...). "
        "One block, as KerasHub's layer of this name, is DecoderBlock(num_heads, "
        "intermediate_dim=...)."
    )
    _call_hint = DecoderBlock._call_hint

    def build(self, x_shape: Shape, memory_shape: Shape | None = None):
        """Creates the blocks; with cross-attention if `memory_shape` is given."""
        self._build_blocks(x_shape, *([] if memory_shape is None else [memory_shape]))

    def call(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        memory_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
        training: bool | None = None,
        positions: Tensor | None = None,
        attention_bias: Tensor | None = None,
        cross_attention_mask: Tensor | None = None,
    ):
        """Applies all blocks to `x` `(B, T, D)`; the class describes the arguments."""
        check_rank(x, "x")
        padding_mask = sequence_mask(x, padding_mask, mask, x_mask)
        x = self._clean(x, padding_mask)
        if memory is not None:
            check_rank(memory, "memory", shape="(B, S, Dm)")
            memory_mask = sequence_mask(memory, memory_mask, name="memory_mask")
            memory = self._clean(memory, memory_mask)
        own, cross = [], []
        inputs = [] if memory is None else [memory]
        for block in self.blocks:
            output = self._apply_block(
                block,
                x,
                *inputs,
                memory_mask=memory_mask,
                padding_mask=padding_mask,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
                positions=positions,
                cross_attention_mask=cross_attention_mask,
                attention_bias=attention_bias,
            )
            if return_attention_scores:
                output, weights, *rest = output
                own.append(weights)
                cross.extend(rest)
            x = output
        x = self._finish(x)
        return (x, own, cross) if return_attention_scores else x

    def prefill(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        max_length: Size | None = None,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Runs over a prompt of P tokens, and returns its output and the state for `step`.

        Args:
            x: Inputs `(B, P, D)`, right-padded if rows differ in length.
            padding_mask: Padding mask of `x`, `(B, P)`; the Keras mask of `x` if None.
            memory: Source states `(B, S, Dm)`, or None for a decoder without cross-attention. The
                keys and values of the memory are computed here, once.
            memory_mask: Padding mask of the memory, `(B, S)`; the Keras mask of `memory` if None.
            max_length: Number of slots L of the cache, for P and all steps; P + 1 if None.
            positions: Positions of the prompt's tokens, as in a call. Steps continue from the
                greatest position of each row.

        Returns:
            A tuple of the output `(B, P, D)` and the state, a dict of batch-first tensors:
            "visible" `(B, L)`, the slots of tokens; "slot" `(B,)`, the next slot; "cache", a list
            with the keys and values of each block; "positions" `(B, L)`, if the settings use
            positions; and, with a memory, "memory" and "memory_mask".

        Raises:
            ValueError: If the layer is not built; if `max_length` is less than P; if an input or a
                mask has the wrong shape; if a memory is given to a decoder that was built without a
                memory; if no memory is given to a decoder that was built with a memory; or if
                `memory_mask` is given without a memory.
        """
        padding_mask = first_mask(padding_mask, getattr(x, "_keras_mask", None))
        memory_mask = first_mask(memory_mask, getattr(memory, "_keras_mask", None))
        x = ops.convert_to_tensor(x)
        if len(x.shape) != 3:
            raise ValueError(
                f"`x` must be embeddings (B, P, D). Received: shape {tuple(x.shape)}. To "
                "pass ids, combine the stack with its embedding: "
                "keras_attn.models.TokenDecoder(embedding, positions, stack)."
            )
        check_built(self)
        check_same_batch(x=x, memory=memory)
        x = ops.cast(x, self.compute_dtype)  # as Keras does for calls
        memory = None if memory is None else ops.cast(memory, self.compute_dtype)
        length = ops.shape(x)[1]
        max_length = length + 1 if max_length is None else max_length
        if isinstance(length, int) and isinstance(max_length, int) and max_length < length:
            raise ValueError(
                "`max_length` must be at least the length of the prompt. Received: "
                f"max_length={max_length} with a prompt of shape {tuple(x.shape)}."
            )
        ones = ops.ones_like(x[:, :, 0], dtype="bool")
        if padding_mask is not None:
            padding_mask = sequence_mask(x, padding_mask)
            x = self._clean(x, padding_mask)
        visible = ones if padding_mask is None else padding_mask
        state = {
            "visible": ops.pad(visible, [[0, 0], [0, max_length - length]]),
            "slot": ops.sum(ops.cast(ones, "int32"), axis=1),
        }
        if self.reads_positions:
            given = token_positions(x) if positions is None else check_positions(positions, x)
            given = ops.where(ones, ops.cast(given, "int32"), 0)  # (B, P), from one row too
            state["positions"] = ops.pad(given, [[0, 0], [0, max_length - length]])
        if memory is not None:
            if memory_mask is None:
                memory_mask = ops.ones_like(memory[:, :, 0], dtype="bool")
            else:
                memory_mask = sequence_mask(memory, memory_mask, name="memory_mask")
                memory = self._clean(memory, memory_mask)
            state["memory_mask"] = memory_mask
        blocks = []
        for block in self.blocks:
            x, block_state = block.prefill(
                x, padding_mask, memory, memory_mask, max_length, positions
            )
            blocks.append(block_state)
        state["cache"] = [b["cache"] for b in blocks]
        if memory is not None:
            state["memory"] = [b["memory"] for b in blocks]
        return self._finish(x), state

    def step(
        self, x: Tensor, state: dict[str, Any], return_attention_scores: bool = False
    ) -> tuple[Any, ...]:
        """Computes the output of one new position, as in a call on the whole sequence.

        Args:
            x: Inputs `(B, 1, D)`.
            state: State from `prefill` or the last `step`.
            return_attention_scores: Whether to also return the attention weights.

        Returns:
            `(output, state)`, with the output `(B, 1, D)` and the new state. If
            `return_attention_scores` is True, `(output, state, scores)`, where `scores` is a dict:
            "self" is a list of weights `(B, N, 1, L)`, one for each block, and "cross" a list of
            weights `(B, N, 1, S)`, which is empty without a memory.

        Raises:
            ValueError: If `x` has another shape, or the cache is full. A full cache is not detected
                in a graph, nor on PyTorch with a GPU.
        """
        check_step(x)
        x = ops.cast(x, self.compute_dtype)
        slot = ops.max(state["slot"])
        used, length = known_value(slot), static_shape(state["visible"])[1]
        if used is not None and length is not None and used >= length:
            raise ValueError(
                f"The cache of {self.name} is full: it has {length} slots, for the prompt and all "
                f"steps. Received: step {int(used) + 1}. Pass a larger `max_length` to `prefill`."
            )
        here = ops.cumsum(ops.ones_like(state["visible"], dtype="int32"), axis=1) - 1 == slot
        positions = state.get("positions")
        if positions is not None:
            last = ops.max(ops.where(state["visible"], positions, -1), axis=1, keepdims=True)
            positions = ops.where(here, last + 1, positions)
            state = {**state, "positions": positions}
        state = {
            **state,
            "visible": ops.logical_or(state["visible"], here),
            "slot": state["slot"] + 1,
        }
        visible = state["visible"]
        if "owners" in state:
            state["owners"] = _owned(state["owners"], ops.expand_dims(here, 1))
            visible = ops.logical_and(state["owners"], ops.expand_dims(visible, 1))
        scores: dict[str, list[Tensor]] = {"self": [], "cross": []}
        cache = []
        for i, block in enumerate(self.blocks):
            block_state = {"cache": state["cache"][i]}
            if "memory" in state:
                block_state["memory"] = state["memory"][i]
            x, block_state, weights = block.step(
                x,
                block_state,
                slot,
                visible,
                state.get("memory_mask"),
                return_attention_scores,
                positions,
            )
            cache.append(block_state["cache"])
            for role, w in zip(("self", "cross"), weights, strict=False):
                scores[role].append(w)
        state["cache"] = cache
        x = self._finish(x)
        return (x, state, scores) if return_attention_scores else (x, state)

    @staticmethod
    def repeat(state: dict[str, Any], times: int) -> dict[str, Any]:
        """Repeats the rows of a state, for the beams of each sentence.

        Args:
            state: State from `prefill` or `step`.
            times: Number of copies of each row. The copies of a row are adjacent.

        Returns:
            A state with `times` rows for each row. They share the memory, which is not repeated. Up
            to 4 rows also share the slots of their caches, except on TensorFlow without XLA, and
            except for one sentence with fewer than 64 slots: the state then has "owners"
            `(B, times, L)`, which of the rows wrote each slot, and `reorder` copies no cache.

        Raises:
            ValueError: If the rows share slots already.
        """
        if "owners" in state:
            raise ValueError(
                "The rows of a state can be repeated once. Received: a state of "
                f"{state['owners'].shape[1]} beams a sentence."
            )
        shared = {k: v for k, v in state.items() if k in _OF_MEMORY}
        rest = {k: v for k, v in state.items() if k not in shared}
        found = {**tree.map_structure(lambda t: ops.repeat(t, times, axis=0), rest), **shared}
        length = state["visible"].shape[1]
        short = isinstance(length, int) and length < LEAST_SHARED
        quick = keras.backend.backend() != "tensorflow" or compiler() == "xla"
        if 1 < times <= MOST_SHARING and quick and not (short and is_one_row(state["visible"])):
            none = ops.zeros_like(ops.expand_dims(found["visible"], 1))
            none = ops.repeat(none, times, axis=1)
            found["owners"] = _owned(none, ops.logical_not(none))
        return found

    @staticmethod
    def reorder(state: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        """Selects rows of a state, as beam search does among the beams of a sentence.

        Args:
            state: State from `prefill`, `step` or `repeat`.
            rows: int32 `(B,)`: for each new row, the index of the row that it continues. Both rows
                must belong to the same sentence, because the memory and shared slots are not
                reordered.

        Returns:
            The state of the new rows.
        """
        kept = (*_OF_MEMORY, "cache") if "owners" in state else _OF_MEMORY
        taken = {k: v for k, v in state.items() if k not in kept}
        taken = tree.map_structure(lambda t: ops.take(t, rows, axis=0), taken)
        return {**state, **taken}


def _owned(owners: Tensor, where: Tensor) -> Tensor:
    """`owners (B, R, L)`, in which each row owns the slots `where (B, 1, L)` itself."""
    row = ops.cumsum(ops.ones_like(owners[:, :, :1], dtype="int32"), axis=0) - 1
    beam = ops.cumsum(ops.ones_like(owners[:, :, :1], dtype="int32"), axis=1) - 1
    return ops.where(where, ops.equal(row % owners.shape[1], beam), owners)
