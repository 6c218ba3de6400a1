"""Interface of decoders, and a decoder for any model."""

import inspect
import operator
from collections.abc import Callable
from typing import Any, Protocol, SupportsIndex, TypeVar, cast

from keras import ops, tree

from keras_attn.hints import Size, Tensor
from keras_attn.ops.compilers import is_one_row
from keras_attn.ops.masks import static_shape, token_mask
from keras_attn.ops.padding import known_value

State = TypeVar("State")


class Decoder(Protocol[State]):
    """The interface of decoders: searches call `prefill` once, and `step` for each further token.

    `state` is a nest of batch-first tensors.

    If the beams of a sentence share a part of the state, such as the memory, a decoder may have two
    further methods. `repeat(state, times)` returns a state in which row `i * times + j` is the j-th
    beam of row i. `reorder(state, rows)` returns a state in which row i continues row `rows[i]` of
    the same sentence. A third method, `laid_out()`, may return an equivalent decoder that is faster
    for a search over several rows. An attribute `longest` may limit the number of tokens of a row;
    None means no limit.
    """

    def prefill(
        self,
        prompt: Tensor,
        prompt_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        max_length: Size | None = None,
    ) -> tuple[Tensor, State]:
        """Reads prompts, and returns the logits for the next token and the first state.

        Args:
            prompt: Ids `(B, P)`.
            prompt_mask: `(B, P)`, True for tokens; all if None.
            memory: Source states for cross-attention, `(B, S, Dm)`, or None.
            memory_mask: `(B, S)`, True for tokens of the memory; all if None.
            max_length: Maximum number of tokens, including the prompt, that the state has room for;
                searches always pass it.

        Returns:
            A tuple of the logits `(B, V)` for the token after each prompt, and the state.
        """

    def step(
        self, tokens: Tensor, positions: Tensor, state: State, return_scores: bool = False
    ) -> tuple[Any, ...]:
        """Reads one token per row, and returns the logits for the next token and the new state.

        Args:
            tokens: Ids `(B,)`.
            positions: Number of earlier tokens of each row, integers `(B,)`.
            state: State from `prefill` or the last `step`.
            return_scores: Whether attention weights are also returned, if the decoder supports it.

        Returns:
            A tuple of the logits `(B, V)` for the next token and the new state, followed by the
            attention weights if `return_scores` is True.
        """


def integer(name: str, value: object, least: int) -> int:
    """Converts an integer of any type to an int; raises a ValueError if it is below `least`."""
    try:
        number = operator.index(cast(SupportsIndex, value))
    except TypeError:
        number = None
    if number is None or number < least or isinstance(value, bool):
        raise ValueError(f"`{name}` must be an integer of at least {least}. Received: {value!r}.")
    return number


def reorder(decoder: Decoder[State], state: State, rows: Tensor) -> State:
    """Returns a state whose row i continues row `rows[i]` of the same sentence."""
    if hasattr(decoder, "reorder"):
        return decoder.reorder(state, rows)
    return tree.map_structure(lambda t: ops.take(t, rows, axis=0), state)


def repeat(decoder: Decoder[State], state: State, times: int) -> State:
    """Returns the state with `times` copies of each row next to each other."""
    if hasattr(decoder, "repeat"):
        return decoder.repeat(state, times)
    return repeat_rows(state, times)


def laid_out(decoder: Decoder, prompt: Tensor, beams: int = 1) -> Decoder:
    """Returns the decoder that is fastest for the steps of a search with `beams` beams."""
    if not hasattr(decoder, "laid_out") or (beams == 1 and is_one_row(prompt)):
        return decoder
    return decoder.laid_out()


def repeat_rows(state: State, times: int) -> State:
    """Repeats each row of a nest of batch-first tensors `times` times in succession."""
    return tree.map_structure(lambda t: ops.repeat(t, times, axis=0), state)


class RecomputeDecoder:
    """Decodes with any model by running it on the whole sequence at each step.

    This is slow, but works with every causal model, and serves as a reference for cached decoders.

    Args:
        function: `function(ids (B, L), memory, memory_mask) -> logits (B, L, V)`, where L is the
            `max_length` of `prefill`, and the memory and its mask are the arguments of `prefill`,
            or None. The logits at a position must not depend on later ids. If the function has an
            argument `padding_mask`, it receives a boolean `(B, L)`, True for tokens. A model that
            treats an id as padding needs this mask, because a search may generate that id as a
            token.
        pad_id: Id of the padding after the last token.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=20, dim=8)
    >>> model = lambda ids, memory, memory_mask: embedding(embedding(ids), reverse=True)
    >>> result = greedy_search(RecomputeDecoder(model), ops.array([[1]]), max_length=3, end_id=2)
    >>> tuple(result.tokens.shape)
    (1, 3)
    """

    def __init__(self, function: Callable[..., Tensor], pad_id: int = 0):
        self.function = function
        self.pad_id = pad_id
        self._takes_mask = "padding_mask" in inspect.signature(function).parameters

    def prefill(
        self,
        prompt: Tensor,
        prompt_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        max_length: Size | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Reads prompts, and returns the logits for the next token and the first state.

        Args:
            prompt: Ids `(B, P)`.
            prompt_mask: `(B, P)`, True for tokens, with padding on either side; all if None.
            memory: Memory that is passed to the function, or None.
            memory_mask: Mask of the memory that is passed to the function, or None.
            max_length: Maximum number L of tokens, including the prompt; P + 1 if None.

        Returns:
            A tuple of the logits `(B, V)` for the token after each prompt, and the state, a dict.
        """
        prompt = ops.convert_to_tensor(prompt)
        length = ops.shape(prompt)[1]
        max_length = length + 1 if max_length is None else max_length
        mask = token_mask(prompt, prompt_mask)
        index = ops.cumsum(ops.ones_like(prompt), axis=1) - 1
        order = ops.argsort(ops.where(mask, index, index + length), axis=1)
        ids = ops.take_along_axis(ops.where(mask, prompt, self.pad_id), order, axis=1)
        ids = ops.pad(ids, [[0, 0], [0, max_length - length]], constant_values=self.pad_id)
        count = ops.sum(ops.cast(mask, "int32"), axis=1)
        state = {"ids": ids, "visible": _index(ids) < ops.expand_dims(count, 1)}
        if memory is not None:
            state["memory"] = memory
        if memory_mask is not None:
            state["memory_mask"] = memory_mask
        return self._at(state, ops.maximum(count - 1, 0)), state

    def step(
        self,
        tokens: Tensor,
        positions: Tensor,
        state: dict[str, Tensor],
        return_scores: bool = False,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Reads one token per row, and returns the logits for the next token and the new state.

        Args:
            tokens: Ids `(B,)`.
            positions: Number of earlier tokens of each row, integers `(B,)`.
            state: State from `prefill` or the last `step`.
            return_scores: Must be False, because attention weights are not available.

        Returns:
            A tuple of the logits `(B, V)` for the next token, and the new state.

        Raises:
            ValueError: If `return_scores` is True, or a position is known to be outside the
                `max_length` of `prefill`.
        """
        if return_scores:
            raise ValueError(
                "RecomputeDecoder cannot return attention scores, because it calls the model "
                "as a whole. Received: return_scores=True. Use "
                "`keras_attn.attention_maps(model, inputs)`."
            )
        last, length = known_value(positions), static_shape(state["ids"])[1]
        if last is not None and length is not None and last.max(initial=0) >= length:
            raise ValueError(
                f"The cache has room for {length} tokens, including the prompt. Received: "
                f"position {int(last.max())}. Pass a larger `max_length` to `prefill`."
            )
        here = ops.equal(_index(state["ids"]), ops.cast(ops.expand_dims(positions, 1), "int32"))
        tokens = ops.cast(ops.expand_dims(tokens, 1), state["ids"].dtype)
        state = {
            **state,
            "ids": ops.where(here, tokens, state["ids"]),
            "visible": ops.logical_or(state["visible"], here),
        }
        return self._at(state, positions), state

    def _at(self, state: dict[str, Tensor], positions: Tensor) -> Tensor:
        more = {"padding_mask": state["visible"]} if self._takes_mask else {}
        logits = self.function(state["ids"], state.get("memory"), state.get("memory_mask"), **more)
        return ops.take_along_axis(logits, ops.reshape(positions, (-1, 1, 1)), axis=1)[:, 0]


def _index(ids: Tensor) -> Tensor:
    """Positions `0 ... L-1` of each row, int32 `(B, L)`."""
    return ops.cumsum(ops.ones_like(ids, dtype="int32"), axis=1) - 1


def check_room(decoder: object, count: Size) -> None:
    """Raises a ValueError if a decoder has positions for fewer than `count` tokens."""
    longest = getattr(decoder, "longest", None)
    if longest is not None and isinstance(count, int) and count > longest:
        raise ValueError(
            f"The decoder has learned positions for {longest} tokens (`sequence_length`). "
            f"Received: {count} tokens, including the tokens to generate. Shorten the "
            "prompt, lower `max_length`, or use `keras_attn.generation.WindowDecoder`, which "
            "has no limit."
        )
