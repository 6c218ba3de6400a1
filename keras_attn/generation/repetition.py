"""Penalties and blocks of repeated tokens."""

from collections.abc import Mapping

from keras import ops

from keras_attn.generation.numbers import is_tensor, of_rows
from keras_attn.hints import Size, Tensor
from keras_attn.ops.masks import token_mask


class History:
    """Tracks the tokens of each row, in order to penalize or block repetitions.

    The history is a dict of tensors, as part of the state of a loop. With a repetition penalty, the
    dict has `"seen"`, bool `(B, V)`; if repeated n-grams are blocked, the dict has `"ids"`, int32
    `(B, L)`.
    """

    def __init__(
        self,
        prompt: Tensor,
        prompt_mask: Tensor | None,
        logits: Tensor,
        repetition_penalty: float | Tensor,
        no_repeat_ngram_size: int,
    ):
        self.prompt = ops.cast(prompt, "int32")
        self.prompt_mask = token_mask(self.prompt, prompt_mask)
        self.size = logits.shape[-1]
        self.penalty = of_rows("repetition_penalty", repetition_penalty)
        self.penalizes = is_tensor(repetition_penalty) or repetition_penalty != 1
        self.n = no_repeat_ngram_size

    def start(self, max_length: Size) -> dict[str, Tensor]:
        """Returns the history of the prompts, with room for `max_length` new tokens."""
        history = {}
        if self.penalizes:
            history["seen"] = self._marked(self.prompt, self.prompt_mask)
        if self.n:
            index = ops.cumsum(ops.ones_like(self.prompt), axis=1) - 1
            length = ops.shape(self.prompt)[1]
            # Left-aligned: tokens first, in their order.
            order = ops.argsort(ops.where(self.prompt_mask, index, index + length), axis=1)
            ids = ops.take_along_axis(self.prompt, order, axis=1)
            history["ids"] = ops.pad(ids, [[0, 0], [0, max_length + self.n]])
        return history

    def penalized(self, logits: Tensor, history: dict[str, Tensor]) -> Tensor:
        """Returns logits `(B, V)`, with the repetition penalty applied to tokens of the history."""
        if "seen" not in history:
            return logits
        less = ops.where(logits < 0, logits * self.penalty, logits / self.penalty)
        return ops.where(history["seen"], less, logits)

    def repeats(self, history: Mapping[str, Tensor], count: Tensor) -> Tensor | None:
        """Returns which tokens would repeat an n-gram, bool `(B, V)`; None if all may repeat."""
        if "ids" not in history:
            return None
        ids, before = history["ids"], self.n - 1
        count = ops.expand_dims(count, 1)
        index = ops.cumsum(ops.ones_like(ids), axis=1) - 1  # (B, L), starts of n-grams
        found = index + before < count
        for j in range(before):
            wanted = ops.take_along_axis(ids, ops.maximum(count - before + j, 0), axis=1)
            found = ops.logical_and(found, ops.equal(_shifted(ids, j), wanted))
        return self._marked(_shifted(ids, before), found)

    def extended(self, history: dict[str, Tensor], token: Tensor, count: Tensor) -> dict:
        """Adds a token to each row of the history, which has `count (B,)` tokens so far."""
        token, count = ops.expand_dims(token, 1), ops.expand_dims(count, 1)
        history = dict(history)
        if "seen" in history:
            is_token = ops.equal(ops.arange(self.size, dtype="int32"), token)
            history["seen"] = ops.logical_or(history["seen"], is_token)
        if "ids" in history:
            index = ops.cumsum(ops.ones_like(history["ids"]), axis=1) - 1
            history["ids"] = ops.where(ops.equal(index, count), token, history["ids"])
        return history

    def _marked(self, ids: Tensor, wanted: Tensor) -> Tensor:
        """Whether each token of the vocabulary is among the wanted `ids`, bool `(B, V)`."""
        rows = ops.cumsum(ops.ones_like(ids), axis=0) - 1
        ids = ops.where(wanted, ids, self.size)  # other ids go to an extra column
        index = ops.stack([ops.reshape(rows, (-1,)), ops.reshape(ids, (-1,))], axis=1)
        marks = ops.zeros_like(ids[:, :1]) + ops.zeros((1, self.size + 1), dtype="int32")
        marks = ops.scatter_update(marks, index, ops.ones_like(index[:, 0]))
        return ops.cast(marks[:, :-1], "bool")


def _shifted(ids: Tensor, by: int) -> Tensor:
    """`ids[:, by:]`, padded on the right to the same width."""
    return ids if by == 0 else ops.pad(ids[:, by:], [[0, 0], [0, by]])
