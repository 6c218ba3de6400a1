"""Rules for the next token, shared by greedy search, beam search and sampling."""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from keras import ops

from keras_attn.generation.loops import IMPOSSIBLE, end_ids_of, log_total
from keras_attn.generation.numbers import is_tensor, of_rows
from keras_attn.generation.repetition import History
from keras_attn.hints import Size, Tensor
from keras_attn.ops.masks import check_padding_mask


def check_single(suppressed_ids: Sequence[object]) -> None:
    """Raises a ValueError if sequences of tokens are to be suppressed."""
    several = [i for i in suppressed_ids if isinstance(i, list | tuple)]
    if several:
        raise ValueError(
            "`suppressed_ids` must be ids of single tokens: sequences of tokens (in `bad_words_ids`"
            f" of `transformers`) cannot be suppressed. Received: {several[0]!r}."
        )


class TokenRules:
    """Decides which tokens may come next.

    The rules apply in this order: suppressed tokens are never chosen; the end token is not chosen
    before `min_length`; no n-gram repeats unless no other token is left; and if a token is forced,
    it is the only choice. A forced token is given, not predicted, so its log-probability is 0.

    The rules use tensors with an entry for each row of the logits `(B, V)`: `limits (B,)`, the
    maximum number of new tokens; `lengths (B,)`, the length of the prompt; and `beginning (B, P)`,
    the first new tokens after `forced_first_id`, padded on the right.
    """

    def __init__(
        self,
        size: int | None,
        end_id: int | Sequence[int] | None,
        pad_id: int,
        min_length: int | Tensor,
        suppressed_ids: Sequence[int],
        *,
        limits: Tensor,
        forced_first_id: int | None = None,
        forced_last_id: int | None = None,
        beginning: Tensor | None = None,
        beginning_mask: Tensor | None = None,
        past: History | None = None,
        lengths: Tensor | None = None,
    ):
        if size is None:
            raise ValueError("The last axis of the decoder's logits must be known. Received: None.")
        self.size = size
        self.ends = end_ids_of(end_id)
        check_single(suppressed_ids)
        suppressed = [operator.index(i) for i in suppressed_ids]
        forced = {"forced_first_id": forced_first_id, "forced_last_id": forced_last_id}
        for name, given in [
            ("end_id", self.ends),
            ("pad_id", [pad_id]),
            ("suppressed_ids", suppressed),
            *((name, [operator.index(i)]) for name, i in forced.items() if i is not None),
        ]:
            if any(not 0 <= i < size for i in given):
                raise ValueError(
                    f"`{name}` must be within the vocabulary, 0 to {size - 1}. "
                    f"Received: {', '.join(map(str, given))}."
                )
        self.never = np.isin(np.arange(size), suppressed)
        self._check_left(end_id, min_length)
        self.forced_first_id, self.forced_last_id = forced_first_id, forced_last_id
        self.past = past
        begins = _checked_beginning(beginning, beginning_mask)
        self.begins = begins is not None
        self.rows: dict[str, Any] = {
            "least": of_rows("min_length", min_length),
            "limits": ops.expand_dims(limits, 1),
            "lengths": lengths,
            "beginning": None if begins is None else begins[0],
            "mask": None if begins is None else begins[1],
        }

    def _check_left(self, end_id: int | Sequence[int] | None, min_length: int | Tensor) -> None:
        """Raises a ValueError if too many tokens are suppressed."""
        if self.never.all():
            raise ValueError(
                "`suppressed_ids` must leave at least one token. Received: the whole vocabulary."
            )
        delays = is_tensor(min_length) or min_length > 1  # a tensor may
        if delays and np.isin(np.flatnonzero(~self.never), self.ends).all():
            raise ValueError(
                "`suppressed_ids` must leave at least one token other than `end_id`, which "
                f"is not allowed before `min_length`={min_length}. Received: all ids except "
                f"`end_id`={end_id}."
            )

    @property
    def given(self) -> int | Tensor:
        """Number of given first tokens of each row, int32 `(B, 1)`; 0 if there are none."""
        mask = self.rows["mask"]
        return ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True) if self.begins else 0

    def of_beams(self, count: int) -> Self:
        """Returns rules for beams, in which each row is repeated `count` times."""
        other = copy.copy(self)
        other.rows = {
            name: ops.repeat(x, count, axis=0) if is_tensor(x) and len(x.shape) else x
            for name, x in self.rows.items()
        }
        return other

    def allowed(
        self, logits: Tensor, step: Size, history: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Returns float32 logits `(B, V)`, with -inf for tokens that are forbidden at a step.

        `step` is the number of new tokens so far.
        """
        raw = logits
        logits = ops.cast(logits, "float32")
        if self.never.any():
            logits = ops.where(ops.convert_to_tensor(self.never), IMPOSSIBLE, logits)
        least = self.rows["least"]
        if is_tensor(least) or least:
            is_end = ops.convert_to_tensor(np.isin(np.arange(self.size), self.ends))
            early = ops.logical_and(is_end, step + 1 < least)
            logits = ops.where(early, IMPOSSIBLE, logits)
        repeats = self.past and self.past.repeats(history or {}, self.rows["lengths"] + step)
        if repeats is not None:
            possible = logits > IMPOSSIBLE
            free = ops.logical_and(possible, ops.logical_not(repeats))
            free = ops.where(ops.any(free, axis=-1, keepdims=True), free, possible)
            logits = ops.where(free, logits, IMPOSSIBLE)
        forced = self._forced(step)
        if forced is None:
            return logits
        token, is_forced = forced
        alone = ops.equal(ops.arange(self.size, dtype="int32"), token)
        alone = ops.where(alone, log_total(raw), IMPOSSIBLE)
        return ops.where(is_forced, alone, logits)

    def _forced(self, step: Size) -> tuple[Tensor, Tensor] | None:
        """The token that is forced in each row, int32 `(B, 1)`, and whether one is."""
        nothing = ops.zeros_like(self.rows["limits"])
        token, is_forced = nothing, ops.cast(nothing, "bool")
        cases: list[tuple[Tensor | int, Tensor]] = []
        if self.forced_last_id is not None:
            cases.append((self.forced_last_id, ops.equal(self.rows["limits"], step + 1)))
        if self.forced_first_id is not None:
            cases.append((self.forced_first_id, ops.equal(nothing, step)))
        if self.begins:
            ids, mask = self.rows["beginning"], self.rows["mask"]
            places = ops.cumsum(ops.ones_like(ids), axis=1) - int(self.forced_first_id is None)
            here = ops.logical_and(ops.equal(places, step), mask)
            cases.append((
                ops.sum(ops.where(here, ids, 0), axis=1, keepdims=True),
                ops.any(here, axis=1, keepdims=True),
            ))  # fmt: skip
        for own, where in cases:
            token = ops.where(where, ops.cast(own, "int32"), token)
            is_forced = ops.logical_or(is_forced, where)
        return (token, is_forced) if cases else None


def _checked_beginning(
    beginning: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """The ids and the mask of forced beginnings."""
    if beginning is None:
        if mask is not None:
            raise ValueError(
                "`beginning_mask` requires a `beginning`. Received: beginning=None. Pass "
                "both, or neither."
            )
        return None
    ids = ops.convert_to_tensor(beginning)
    if len(ids.shape) != 2 or "int" not in ops.dtype(ids):
        raise ValueError(
            "`beginning` must be integers of shape (B, P), the first tokens of each row. "
            f"Received: dtype {ops.dtype(ids)}, shape {tuple(ids.shape)}."
        )
    if mask is None:
        return ops.cast(ids, "int32"), ops.ones_like(ids, dtype="bool")
    mask = check_padding_mask(mask, ids.shape[0], ids.shape[1], "beginning_mask")
    return ops.cast(ids, "int32"), mask
