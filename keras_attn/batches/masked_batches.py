"""Batches for pretraining encoders on any backend: masked words and next sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np

from keras_attn.batches.bucketed_batches import BucketedBatches, Layout, Plan
from keras_attn.batches.bucketing import ceil
from keras_attn.batches.epochs import check_least
from keras_attn.batches.masking import draw_masks, most_masked
from keras_attn.batches.sentence_shards import Shard
from keras_attn.batches.text_chunks import chunk_sentences
from keras_attn.text.word_piece import WordPieceTokenizer

BLOCK = 1 << 14
"""Number of consecutive chunks in a block that is shuffled as a whole."""
_BLOCKS_AT_A_TIME = 4
_PAIR = 2
_Span = tuple[int, int, int]  # a shard, its first id, the id behind the last one


class MaskedBatches(BucketedBatches):
    """Batches of masked words and next sentences, for BERT's pretraining.

    Each batch is a tuple `(inputs, labels, sample_weights)` of dicts of NumPy arrays:

        inputs   token_ids, segment_ids  (B, T) int32     [CLS] first [SEP] second [SEP], padding
                 padding_mask            (B, T) bool
                 masked_positions        (B, M) int32     0 where there are fewer
        labels   masked_words            (B, M) int32     the original tokens
                 next_sentence           (B,) int32       0: the second part follows the first
        weights  of both labels, in their shapes, float32 0 in padding and in repeated rows

    M is `ceil(masked_share * T)`. Each row is built from a chunk: as many consecutive sentences of
    a document as fit. A chunk is split into two parts at a random sentence. In about half of the
    rows, the second part is replaced by the end of a chunk from another document of the batch. The
    replacement is about as long as the original part, so that the length of a row carries no
    information. With `next_sentence=False`, a row is a whole chunk, `[CLS] text [SEP]`, and labels
    and weights have no `next_sentence`.

    About 80 % of the masked tokens are replaced by `[MASK]`, 10 % by a random token, and 10 % are
    kept. Splits, replacements and masks are drawn anew in each epoch, from `seed`, the epoch and
    the index of the batch, so that a resumed run draws the same splits, replacements and masks.
    Blocks of 16,384 consecutive chunks are shuffled, and then the chunks within each four blocks,
    so that files larger than memory are read in large pieces. `BucketedBatches` describes buckets
    and epochs. **Pass `shuffle=False` to `fit`.**

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805): masked words, next sentences.

    Args:
        shards: The ids of the documents, from `open_shards` or `make_shard`.
        tokenizer: A `WordPieceTokenizer` whose vocabulary has `[MASK]`.
        max_length: Maximum number T of ids of a row: at least 5, or 3 with `next_sentence=False`.
        batch_size: Maximum number of rows of a batch.
        next_sentence: Whether rows are pairs.
        segments: Whether the inputs have `segment_ids`.
        masked_share: Fraction of the tokens of each row to mask. At least one token is masked, but
            with `whole_words=True` only if a drawn word has at most M pieces.
        whole_words: Whether all pieces of a word are masked together.
        part: If several processes train together, the index of the part of each batch that this
            process creates; rows of other parts are not read. If None, it is taken from the
            `keras.distribution` in scope, or 0 if there is one part.
        parts: Number of parts of each batch, one for each process. If `part` and `parts` are None,
            it is taken from the `keras.distribution` in scope; otherwise, None means 1. With
            several parts, `rows_multiple_of` must be a multiple of their number, or reading a batch
            may raise a ValueError.
        **layout: `multiple` (default 32), `max_shapes` (4), `rows_multiple_of`, `shuffle`, `seed`,
            `workers` and `max_queue_size`, as in `BucketedBatches`. With `shuffle=False`, all
            epochs have the same batches.

    Raises:
        ValueError: If there are too few sentences or documents for pairs, the tokenizer has no
            `[MASK]`, or a setting is out of range.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer.train(["a b c d e"], 15)
    >>> shard = make_shard([tokenizer.encode(rows) for rows in (["a b", "c"], ["d e", "a"])])
    >>> inputs, labels, weights = MaskedBatches([shard], tokenizer, max_length=8, multiple=8)[0]
    >>> inputs["token_ids"].shape, labels["masked_words"].shape, labels["next_sentence"].shape
    ((2, 8), (2, 2), (2,))
    """

    MULTIPLE, MAX_SHAPES = 32, 4

    def __init__(
        self,
        shards: Sequence[Shard],
        tokenizer: WordPieceTokenizer,
        *,
        max_length: int = 128,
        batch_size: int = 32,
        next_sentence: bool = True,
        segments: bool = True,
        masked_share: float = 0.15,
        whole_words: bool = False,
        part: int | None = None,
        parts: int | None = None,
        **layout: Unpack[Layout],
    ):
        super().__init__(**layout)
        check_least(
            batch_size=(batch_size, 1), max_length=(max_length, 5 if next_sentence else 3)
        )  # fmt: skip
        mask_id = getattr(tokenizer, "mask_id", None)
        if mask_id is None:
            raise ValueError(
                "Expected a tokenizer whose vocabulary has [MASK]. Received: a "
                f"{type(tokenizer).__name__} without [MASK]."
            )
        if not 0 < masked_share < 1:
            raise ValueError(
                f"`masked_share` must be above 0 and below 1. Received: {masked_share!r}."
            )
        self.tokenizer, self._mask_id = tokenizer, mask_id
        self.max_length = max_length
        self.next_sentence = next_sentence
        self.segments = segments
        self.masked_share = masked_share
        self.whole_words = whole_words
        self.part, self.parts = _part(part, parts)
        self._shards = list(shards)
        least = _PAIR if next_sentence else 1
        self._special = 3 if next_sentence else 2
        chunks = [chunk_sentences(s, max_length - self._special, least) for s in self._shards]
        self._chunks = chunks
        self.left_out = sum(c.left_out for c in chunks)
        """Number of tokens in no row, such as documents of one sentence if rows are pairs."""
        sizes = [len(c.starts) for c in chunks]
        self._offsets = np.cumsum([0, *sizes])
        documents = np.cumsum([0, *(len(s.documents) - 1 for s in self._shards)])
        self._documents = np.concatenate(
            [c.documents + first for c, first in zip(chunks, documents, strict=False)]
        )
        self._check_enough(int(documents[-1]))
        lengths = np.concatenate([c.lengths for c in chunks]) + self._special
        self.tokens = self._real_tokens = int(lengths.sum())
        """Number of tokens of an epoch, including special tokens."""
        vocabulary = tokenizer.vocabulary
        self._continues = np.array([token.startswith("##") for token in vocabulary])
        special = {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, mask_id}
        self._ordinary = np.array(
            [i for i in range(len(vocabulary)) if i not in special and i != tokenizer.unknown_id]
        )
        widths = np.minimum(self._rounded(lengths), max_length)
        self._fill(widths, lambda members, shape: {}, batch_size=batch_size)

    def _check_enough(self, documents: int) -> None:
        if self.next_sentence and len(np.unique(self._documents)) < _PAIR:
            raise ValueError(
                "Next sentences need at least two documents of two sentences or more. Received: "
                f"{documents} documents, {len(self._documents)} rows of at least two sentences. "
                "Separate documents by blank lines, or train without next sentences "
                "(next_sentence=False, --no-next-sentence)."
            )

    def _make_plan(self) -> Plan:
        counts = [bucket.packing.batches for bucket in self._buckets]
        owners = np.repeat(np.arange(len(counts)), counts)
        # Without `shuffle` too: neighbors are of one document, and have nothing to exchange.
        rng = np.random.default_rng([self.seed, self.epoch if self.shuffle else 0])
        orders = [by_blocks(len(bucket.members), rng) for bucket in self._buckets]
        if self.shuffle:
            owners = rng.permutation(owners)
        # Keras takes lengths that differ in the first two batches as varying. Two lengths of rows
        # may have room for as many masked words, but not the other way around.
        rooms = [most_masked(bucket.lengths[0], self.masked_share) for bucket in self._buckets]
        differ = np.array(rooms if len(set(rooms)) > 1 else range(len(rooms)))[owners]
        other = np.flatnonzero(differ != differ[0])
        if len(other):
            owners[[1, other[0]]] = owners[[other[0], 1]]
        number = np.zeros(len(owners), "int64")
        for b, count in enumerate(counts):
            number[owners == b] = np.arange(count)
        batches = list(zip(owners.tolist(), number.tolist(), strict=True))
        return orders, batches, np.zeros(len(owners), "bool")

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray], ...]:
        index, plan = self._taken(index)
        bucket, places = self._part(plan, index)
        b, number = plan[1][index]
        picked, (width,) = bucket.members[places], bucket.lengths
        rng = np.random.default_rng([self.seed, self.epoch if self.shuffle else 0, b, number])
        rows = bucket.packing.rows
        if rows % self.parts:
            raise ValueError(
                f"Expected batches whose number of rows is a multiple of {self.parts}, the "
                f"number of processes. Received: {rows} rows. Create the batches with "
                "`rows_multiple_of`."
            )
        share = rows // self.parts
        own = np.arange(self.part * share, (self.part + 1) * share)
        spans, apart = self._spans(picked, width, rng)
        ids, second, real = self._rows([spans[i % len(picked)] for i in own], width)
        masks = draw_masks(
            ids,
            self._maskable(ids, real),
            rng.random((2, rows, width + 1))[:, own],
            rng.choice(self._ordinary, (rows, width))[own],
            self._mask_id,
            self.masked_share,
            self._continues if self.whole_words else None,
        )
        there = (own < len(picked)).astype("float32")
        inputs = {
            "token_ids": masks.ids,
            "segment_ids": second,
            "padding_mask": real,
            "masked_positions": masks.positions,
        }
        if not self.segments:
            del inputs["segment_ids"]
        labels = {"masked_words": masks.labels}
        weights = {"masked_words": masks.weights * there[:, None]}
        if self.next_sentence:
            labels["next_sentence"] = np.resize(apart, rows)[own].astype("int32")
            weights["next_sentence"] = there
        return inputs, labels, weights

    def _maskable(self, ids: np.ndarray, real: np.ndarray) -> np.ndarray:
        return real & (ids != self.tokenizer.start_id) & (ids != self.tokenizer.end_id)

    def _spans(
        self, picked: np.ndarray, width: int, rng: np.random.Generator
    ) -> tuple[list[list[_Span]], np.ndarray]:
        """The parts of each row, and which rows have a replaced second part."""
        shards = np.searchsorted(self._offsets, picked, side="right") - 1
        places = picked - self._offsets[shards]
        firsts, seconds = [], []
        draws = rng.random(len(picked))
        for shard, place, draw in zip(shards.tolist(), places.tolist(), draws, strict=True):
            chunks = self._chunks[shard]
            start, end = int(chunks.starts[place]), int(chunks.ends[place])
            cut = end
            if self.next_sentence:
                cut = start + 1 + int(draw * (end - start - 1))
            firsts.append((shard, int(chunks.units[start]), int(chunks.units[cut])))
            seconds.append((shard, cut, end))
        if not self.next_sentence:
            return [[first] for first in firsts], np.zeros(len(picked), "bool")
        source = _exchanged(self._documents[picked], rng)
        rows = []
        for row, (first, of) in enumerate(zip(firsts, source.tolist(), strict=True)):
            shard, cut, end = seconds[row]
            units = self._chunks[shard].units
            size = int(units[end] - units[cut])
            second = None
            if of != row:
                room = width - self._special - (first[2] - first[1])
                others = self._documents[picked] != self._documents[picked[row]]
                for giver in [of, *np.flatnonzero(others)]:
                    second = self._end_of(int(shards[giver]), int(places[giver]), size, room)
                    if second is not None:
                        break
            if second is None:
                source[row] = row
                second = (shard, int(units[cut]), int(units[end]))
            rows.append([first, second])
        return rows, source != np.arange(len(picked))

    def _end_of(self, shard: int, place: int, size: int, room: int) -> _Span | None:
        """Whole sentences at the end of a chunk with about `size` ids; None if none fit.

        Original second parts are ends of chunks too, so that lengths carry no information.
        """
        chunks = self._chunks[shard]
        start, end = int(chunks.starts[place]), int(chunks.ends[place])
        behind = int(chunks.units[end])
        sizes = behind - chunks.units[start + 1 : end]
        fitting = np.flatnonzero(sizes <= room)
        if not len(fitting):
            return None
        best = fitting[np.argmin(np.abs(sizes[fitting] - size))]
        return shard, behind - int(sizes[best]), behind

    def _rows(
        self, spans: list[list[_Span]], width: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids, segments and the padding mask of rows."""
        ids = np.full((len(spans), width), self.tokenizer.pad_id, "int32")
        segments = np.zeros_like(ids)
        lengths = np.zeros((len(spans), 1), "int64")
        ids[:, 0] = self.tokenizer.start_id
        for row, parts in enumerate(spans):
            at = 1
            for segment, (shard, begin, behind) in enumerate(parts):
                end = at + behind - begin
                ids[row, at:end] = self._shards[shard].ids[begin:behind]
                ids[row, end] = self.tokenizer.end_id
                segments[row, at : end + 1] = segment
                at = end + 1
            lengths[row] = at
        return ids, segments, np.arange(width) < lengths


def by_blocks(count: int, rng: np.random.Generator, block: int = BLOCK) -> np.ndarray:
    """Draws a random order of indices in which neighboring indices stay within a few blocks.

    Blocks of consecutive indices are shuffled, and then the indices within every four blocks.
    """
    blocks = rng.permutation(ceil(count, block))
    order = []
    for i in range(0, len(blocks), _BLOCKS_AT_A_TIME):
        some = blocks[i : i + _BLOCKS_AT_A_TIME]
        numbers = [np.arange(b * block, min((b + 1) * block, count)) for b in some]
        order.append(rng.permutation(np.concatenate(numbers)))
    return np.concatenate(order)


def _exchanged(documents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The source row of each second part: for half of the rows, a row of another document."""
    rows = len(documents)
    source = np.arange(rows)
    count = (rows + int(rng.integers(2))) // 2
    if count == 1:  # one alone has nothing to exchange
        count = 2 * int(rng.integers(2))
    chosen = rng.permutation(rows)[:count]
    if len(chosen) < 2:
        return source
    # Sorted by document, and moved on by as many as one document has: no two are of one document,
    # unless one has more than half.
    chosen = chosen[np.argsort(documents[chosen], kind="stable")]
    most = int(np.unique(documents[chosen], return_counts=True)[1].max())
    givers = np.roll(chosen, most)
    other = documents[chosen] != documents[givers]
    source[chosen[other]] = givers[other]
    return source


def _part(part: int | None, parts: int | None) -> tuple[int, int]:
    """The index of this process's part and the number of parts."""
    distribution = keras.distribution.distribution()
    if parts is None:
        parts = 1
        if distribution is not None and part is None:
            parts = min(distribution.num_processes, distribution.num_model_replicas)
    if part is None:
        part = 0 if parts == 1 else distribution.data_shard_id
    if not 0 <= part < parts:
        raise ValueError(f"`part` must be from 0 to {parts - 1}. Received: {part!r}.")
    return part, parts
