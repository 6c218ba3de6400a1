"""Beams: the sequences that a search keeps and collects, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from keras import ops

from keras_attn.generation.greatest import greatest_k, ordered_top_k
from keras_attn.generation.loops import IMPOSSIBLE, Generation, end_ids_of, is_end, log_total
from keras_attn.generation.ranking import EarlyStopping, Ranking
from keras_attn.hints import Size, Tensor

Chosen: TypeAlias = tuple[Tensor, Generation, Generation, Tensor, Tensor]
"""Next tokens and beams `(B, K)`, the collected sequences `(B, P)`, whether rows have finished `(B,
1)`, and the beams that the new ones continue `(B, K)`."""


class Beams(NamedTuple):
    """Manages the K beams of each row of a batch, and the best sequences that have ended.

    If `early_stopping` is None, beams are frozen: a sequence that has ended keeps its place while
    it is among the K best. Otherwise, all K beams stay open, and a sequence that ends is collected
    if it is among the K best sequences at that step.
    """

    num_beams: int
    """Number K of beams."""
    returned: int
    """Number R of sequences that are returned."""
    vocabulary: int
    limits: Tensor
    """Maximum length of each row, int32 `(B, 1)`."""
    slots: Tensor
    """Indices of the steps, int32 `(1, 1, L)`."""
    ranking: Ranking
    end_id: int | Sequence[int] | None
    pad_id: int
    early_stopping: EarlyStopping

    @property
    def frozen(self) -> bool:
        """Whether sequences that have ended keep their places; always True for a single beam."""
        return self.early_stopping is None or self.num_beams == 1

    @property
    def candidates(self) -> int:
        """Number of best candidates from which the next beams are chosen."""
        ends = 0 if self.frozen else max(1, len(end_ids_of(self.end_id)))
        return self.num_beams * (1 + ends)

    @property
    def most(self) -> int:
        """Number of next tokens of one beam that can be among the candidates."""
        return min(self.candidates, self.vocabulary)

    def nothing(self, count: int) -> Generation:
        """Returns `count` empty sequences with an impossible score for each row."""
        zeros = ops.zeros_like(self.limits) + ops.zeros((1, count), dtype="int32")
        pad = ops.cast(self.pad_id, "int32")
        return Generation(
            tokens=ops.expand_dims(zeros, 2) + ops.zeros_like(self.slots) + pad,
            scores=ops.cast(zeros, "float32") + IMPOSSIBLE,
            lengths=zeros,
            finished=ops.cast(zeros, "bool"),
        )

    def begin(self) -> tuple[Generation, Generation, Tensor]:
        """Returns the initial beams, empty collected sequences, and `over`, all False.

        Only the first beam of each row is possible.
        """
        first = ops.convert_to_tensor(np.arange(self.num_beams)[None] == 0)
        beams = self.nothing(self.num_beams)
        beams = beams._replace(scores=ops.where(first, 0.0, beams.scores))
        kept = self.nothing(self.returned if self.frozen else self.num_beams)
        return beams, kept, ops.cast(ops.zeros_like(self.limits), "bool")

    def following(self, allowed: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the log-probabilities and the ids of the best next tokens, `(..., most)` each.

        `allowed` are logits `(..., V)`, with -inf for forbidden tokens. Probabilities are
        normalized over all `logits`.
        """
        values, tokens = greatest_k(allowed, self.most)
        return values - log_total(logits), tokens

    def choose(
        self,
        step: Size,
        logp: Tensor,
        tokens: Tensor,
        beams: Generation,
        best: Generation,
        over: Tensor,
    ) -> Chosen:
        """Chooses the next beams, after `step` new tokens, by the log-probabilities `(B, K, most)`.

        The scores of `beams` are sums of log-probabilities; the scores of the collected sequences,
        `best`, are divided by the length penalty.
        """
        if self.frozen:
            beams, parent, token, ended = self._frozen(step, logp, tokens, beams)
            best = self._remember(best, beams, ended)
        else:
            found, parent, token = self._candidates(step, logp, tokens, beams)
            ended = ops.logical_not(self._is_open(found))
            among = ops.convert_to_tensor(np.arange(found.scores.shape[1])[None] < self.num_beams)
            new = ops.logical_and(ops.logical_and(ended, among), ops.logical_not(over))
            best = self._remember(best, found, new)
            scores, kept = ordered_top_k(ops.where(ended, IMPOSSIBLE, found.scores), self.num_beams)
            beams = _take(found, kept)._replace(scores=scores)
            parent, token = (ops.take_along_axis(x, kept, axis=1) for x in (parent, token))
        over = ops.logical_or(over, self._over(step + 1, beams, best))
        return token, beams, best, over, parent

    def result(self, best: Generation) -> Generation:
        """Returns the R best collected sequences; rows with fewer sequences are padded."""
        best = Generation(*(x[:, : self.returned] for x in best))
        there = best.scores > IMPOSSIBLE
        return Generation(
            ops.where(ops.expand_dims(there, -1), best.tokens, ops.cast(self.pad_id, "int32")),
            best.scores,
            ops.where(there, best.lengths, 0),
            ops.logical_and(there, best.finished),
        )

    def _is_open(self, beams: Generation) -> Tensor:
        return ops.logical_and(ops.logical_not(beams.finished), beams.lengths < self.limits)

    def _frozen(
        self, step: Size, logp: Tensor, tokens: Tensor, beams: Generation
    ) -> tuple[Generation, Tensor, Tensor, Tensor]:
        """The K best of K beams with their next tokens; sequences that have ended do not change."""
        K, most = self.num_beams, self.most
        once = np.where(np.arange(most) == 0, 0.0, IMPOSSIBLE)
        once = ops.convert_to_tensor(once, "float32")
        open_ = self._is_open(beams)
        goes_on = ops.expand_dims(open_, -1)
        logp = ops.where(goes_on, logp, once)
        tokens = ops.where(goes_on, tokens, ops.cast(self.pad_id, "int32"))
        total = ops.expand_dims(beams.scores, -1) + logp
        beams = beams._replace(lengths=beams.lengths + ops.cast(open_, "int32"))
        penalty = self.ranking.penalty(beams.lengths)
        ranked = total / ops.expand_dims(penalty, -1)
        _, index = ordered_top_k(ops.reshape(ranked, (-1, K * most)), K)
        parent = index // most
        token = ops.take_along_axis(ops.reshape(tokens, (-1, K * most)), index, axis=1)
        was_open = ops.take_along_axis(open_, parent, axis=1)
        beams = _take(beams, parent)
        ended = ops.logical_and(was_open, is_end(token, self.end_id))
        beams = Generation(
            ops.where(ops.equal(self.slots, step), ops.expand_dims(token, -1), beams.tokens),
            ops.take_along_axis(ops.reshape(total, (-1, K * most)), index, axis=1),
            beams.lengths,
            ops.logical_or(beams.finished, ended),
        )
        over = ops.logical_and(was_open, ops.logical_not(self._is_open(beams)))
        return beams, parent, token, over

    def _candidates(
        self, step: Size, logp: Tensor, tokens: Tensor, beams: Generation
    ) -> tuple[Generation, Tensor, Tensor]:
        """The best sequences with one more token, ranked by sums because lengths are equal."""
        width = self.num_beams * self.most
        total = ops.reshape(ops.expand_dims(beams.scores, -1) + logp, (-1, width))
        scores, index = ordered_top_k(total, min(self.candidates, width))
        parent = index // self.most
        token = ops.take_along_axis(ops.reshape(tokens, (-1, width)), index, axis=1)
        found = _take(beams, parent)
        found = Generation(
            ops.where(ops.equal(self.slots, step), ops.expand_dims(token, -1), found.tokens),
            scores,
            ops.zeros_like(found.lengths) + step + 1,
            is_end(token, self.end_id),
        )
        return found, parent, token

    def _remember(self, best: Generation, beams: Generation, which: Tensor) -> Generation:
        """The best of `best` and the beams in `which`; scores are divided by the length penalty."""
        ranked = beams.scores / self.ranking.penalty(beams.lengths)
        beams = beams._replace(scores=ops.where(which, ranked, IMPOSSIBLE))
        pairs = zip(best, beams, strict=True)
        joined = Generation(*(ops.concatenate(pair, axis=1) for pair in pairs))
        return _take(joined, ordered_top_k(joined.scores, best.scores.shape[1])[1])

    def _over(self, length: Size, beams: Generation, best: Generation) -> Tensor:
        """Whether the search of each row has finished, given the length of its open beams."""
        open_scores = ops.where(self._is_open(beams), beams.scores, IMPOSSIBLE)
        top = ops.max(open_scores, axis=1, keepdims=True)
        last = best.scores[:, -1:]
        now, most = (self.ranking.penalty(n) for n in (length, self.limits))
        if self.frozen:
            # The score only falls; its penalty lies between those of the next and maximum length.
            following = self.ranking.penalty(length + 1)
            bound = ops.maximum(top / following, top / most)
        elif self.early_stopping == "never":
            bound = ops.maximum(top / now, top / most)
        else:
            bound = top / now
        over = last >= bound
        if self.early_stopping is True and not self.frozen:
            over = ops.logical_or(over, last > IMPOSSIBLE)
        return over


def _take(beams: Generation, index: Tensor) -> Generation:
    """The beams at `index` (B, n)."""
    tokens = ops.take_along_axis(beams.tokens, ops.expand_dims(index, -1), axis=1)
    return Generation(tokens, *(ops.take_along_axis(x, index, axis=1) for x in beams[1:]))
