"""Decoding of any length with a model that reads a limited number of tokens."""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

from keras import ops

from keras_attn.generation.decoders import Decoder, integer, reorder, repeat_rows
from keras_attn.hints import Size, Tensor
from keras_attn.ops.masks import static_shape, token_mask

State: TypeAlias = dict[str, Any]


class WindowDecoder:
    """Decodes texts of any length with a model of at most `sequence_length` tokens.

    Every `sequence_length // 4` steps, the last tokens are read again as a prompt after the start
    token, and decoding continues from there. Each token is therefore predicted from at least three
    quarters of a window, if there are that many earlier tokens. The windows depend only on the
    number of steps, so the result of a row depends neither on its batch nor on the number of tokens
    that follow.

    Args:
        decoder: Any object with `prefill` and `step`, without a memory.
        sequence_length: Maximum number of tokens T that the decoder can read.
        start_id: Id of the token that begins each prompt and each window.

    Raises:
        ValueError: If `sequence_length` is not an integer of at least 2, or greater than the
            decoder's table of positions.

    Example:

    >>> model = GptConfig(9, dim=8, num_heads=2, num_layers=1, sequence_length=8).build()
    >>> decoder = WindowDecoder(language_decoder(model), sequence_length=8, start_id=1)
    >>> found = greedy_search(decoder, ops.array([[1, 5]]), max_length=20, end_id=None)
    >>> tuple(found.tokens.shape), decoder.longest_prompt
    ((1, 20), 6)
    """

    def __init__(self, decoder: Decoder, sequence_length: int, start_id: int):
        self.decoder = decoder
        self.sequence_length = integer("sequence_length", sequence_length, 2)
        longest = getattr(decoder, "longest", None)
        if longest is not None and self.sequence_length > longest:
            raise ValueError(
                f"The decoder has learned positions for {longest} tokens. Received: a window of "
                f"sequence_length={sequence_length}."
            )
        self.start_id = start_id
        self._steps = self.sequence_length // 4
        self.longest_prompt = self.sequence_length - self._steps
        """Maximum number of tokens of a prompt, including the start token."""

    def prefill(
        self,
        prompt: Tensor,
        prompt_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        max_length: Size | None = None,
    ) -> tuple[Tensor, State]:
        """Reads prompts, and returns the logits for the first new token.

        Args:
            prompt: Ids `(B, P)`, P at most `longest_prompt`; each row begins with the start token.
            prompt_mask: `(B, P)`, True for tokens, with padding on either side; all if None.
            memory: Must be None, because memories are not supported.
            memory_mask: Must be None.
            max_length: Ignored, because the state always has the size of a window.

        Returns:
            A tuple of the logits `(B, V)` after the last token of each row, and the state.

        Raises:
            ValueError: If P is known to be greater than `longest_prompt`, or there is a memory.
        """
        if memory is not None or memory_mask is not None:
            raise ValueError(
                "WindowDecoder does not support a memory. Received: a `memory`. Leave it out."
            )
        prompt = ops.cast(ops.convert_to_tensor(prompt), "int32")
        width, longest = static_shape(prompt)[1], self.longest_prompt
        if width is not None and width > longest:
            raise ValueError(
                f"A prompt may have at most {longest} tokens, three quarters of the window. "
                f"Received: a prompt of shape {tuple(prompt.shape)}. Shorten the prompt."
            )
        mask = token_mask(prompt, prompt_mask)
        logits, inner = self.decoder.prefill(prompt, mask, max_length=self.sequence_length)
        count = ops.sum(ops.cast(mask, "int32"), axis=1)
        index = ops.cumsum(ops.ones_like(prompt), axis=1) - 1
        order = ops.argsort(ops.where(mask, index, index + ops.shape(prompt)[1]), axis=1)
        tokens = ops.take_along_axis(prompt, order, axis=1)  # those of each row first
        # The last ones of each row, at the right, without the start token.
        places = ops.expand_dims(count, 1) - ops.flip(self._columns(longest - 1) + 1, axis=1)
        recent = ops.take_along_axis(tokens, ops.maximum(places, 0), axis=1)
        state = {
            "inner": inner,
            "recent": recent,
            "seen": places > 0,
            "length": count,
            "steps": ops.zeros_like(count),
        }
        return logits, state

    def step(
        self, tokens: Tensor, positions: Tensor, state: State, return_scores: bool = False
    ) -> tuple[Tensor, State]:
        """Reads one token for each row, and returns the logits for the next token.

        Args:
            tokens: Ids `(B,)`.
            positions: Ignored, because positions are counted within the window.
            state: State from `prefill` or the last `step`.
            return_scores: Must be False, because attention weights are not available.

        Returns:
            `(logits (B, V), state)`.

        Raises:
            ValueError: If `return_scores` is True.
        """
        if return_scores:
            raise ValueError(
                "WindowDecoder cannot return attention scores, because its window moves. "
                "Received: return_scores=True."
            )
        tokens = ops.cast(tokens, "int32")
        new = ops.expand_dims(tokens, 1)
        recent = ops.concatenate([state["recent"][:, 1:], new], axis=1)
        seen = ops.concatenate([state["seen"][:, 1:], ops.ones_like(new, dtype="bool")], axis=1)

        def further():
            # JAX evaluates this also for a full window, with the positions known outside of a loop.
            places = ops.minimum(state["length"], self.sequence_length - 1)
            logits, inner = self.decoder.step(tokens, places, state["inner"])
            return logits, inner, state["length"] + 1, state["steps"] + 1

        def again():
            count = ops.sum(ops.cast(seen, "int32"), axis=1)
            first = ops.expand_dims(self.longest_prompt - 1 - count, 1)
            columns = self._columns(self.longest_prompt)
            ids = ops.concatenate([new * 0, recent], axis=1)
            ids = ops.where(columns == first, ops.cast(self.start_id, "int32"), ids)
            logits, inner = self.decoder.prefill(
                ids, columns >= first, max_length=self.sequence_length
            )
            return logits, inner, count + 1, state["steps"] * 0

        full = ops.max(state["steps"]) >= self._steps
        logits, inner, length, steps = ops.cond(full, again, further)
        return logits, {
            "inner": inner, "recent": recent, "seen": seen, "length": length, "steps": steps,
        }  # fmt: skip

    @staticmethod
    def _columns(count: int) -> Tensor:
        return ops.expand_dims(ops.arange(count, dtype="int32"), 0)

    def laid_out(self) -> WindowDecoder:
        """Returns an equivalent decoder that may be faster for a search over several rows.

        The new decoder uses `laid_out()` of the inner decoder; without this method, the window
        decoder itself is returned.
        """
        if not hasattr(self.decoder, "laid_out"):
            return self
        other = copy.copy(self)
        other.decoder = self.decoder.laid_out()
        return other

    def reorder(self, state: State, rows: Tensor) -> State:
        """Returns a state in which row i continues row `rows[i]` of the given state.

        Args:
            state: State of `prefill` or `step`, with B rows.
            rows: Indices of rows, integers `(B,)`; row `rows[i]` is a beam of the same sentence as
                row i.
        """
        taken = {n: ops.take(t, rows, axis=0) for n, t in state.items() if n != "inner"}
        return {**taken, "inner": reorder(self.decoder, state["inner"], rows)}

    def repeat(self, state: State, times: int) -> State:
        """Returns a state in which each row is repeated `times` times in succession.

        Args:
            state: State of `prefill` or `step`, with B rows.
            times: Number of beams of each row.
        """
        return repeat_rows(state, times)  # `again` of `step` knows no slots that beams share
