"""Batches with masked words and pairs of sentences, to pretrain encoders on any backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attn.batches.bucketing import Packing, ceil, merge_buckets, pack
from keras_attn.batches.epochs import EpochBatches, check_least
from keras_attn.batches.masking import draw_masks
from keras_attn.batches.sentence_shards import Shard
from keras_attn.batches.text_chunks import chunk_sentences

BLOCK = 1 << 14
"""Number of chunks that lie side by side in the files and are drawn together."""
_BLOCKS_AT_A_TIME = 4
_PAIR = 2


class _Bucket(NamedTuple):
    members: np.ndarray  # numbers of chunks, in the order of the files
    width: int
    packing: Packing


class MaskedBatches(EpochBatches):
    """Batches of masked words, and of pairs of which half follow each other (BERT).

    Each batch is `(inputs, labels, sample_weights)`, dicts of NumPy arrays:

        inputs   token_ids, segment_ids  (B, T) int32     [CLS] first [SEP] second [SEP], padding
                 padding_mask            (B, T) bool
                 masked_positions        (B, M) int32     0 where there are fewer
        labels   masked_words            (B, M) int32     what stood there
                 next_sentence           (B,) int32       0: the second part follows the first
        weights  of both, in their shapes, float32        0 in padding, and in rows that fill up

    A row is made of a chunk: as many consecutive sentences of a document as fit. Its cut into first
    and second part is drawn. In half of the rows the second part is the end of another row's chunk,
    of another document: as many whole sentences as are nearest in length to its own second part, so
    that the length of a row does not tell. Without `next_sentence` a row is a whole chunk,
    `[CLS] text [SEP]`.

    Cuts, exchanges and masks are drawn anew in each epoch, from `seed`, the epoch and the number of
    the batch alone, so that a run goes on exactly. The order of an epoch is drawn by blocks: chunks
    that lie side by side in the files are shuffled among about 65,000, so that files that are
    larger than memory are read in large pieces. As with `TokenBatches`: `set_epoch(n)` takes up a
    run, `EpochOrder(batches)` binds the order to the epochs that `fit` counts, and **`fit` wants
    `shuffle=False`**.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805): masked words, next sentences.

    Args:
        shards: The ids, as `open_shards` or `make_shard` give them.
        tokenizer: Has `vocabulary_size`, the ids `pad_id`, `start_id`, `end_id` and `mask_id`, and
            `vocabulary`.
        max_length: Largest number T of ids of a row.
        batch_size: Largest number of rows of a batch.
        next_sentence: Whether rows are pairs.
        segments: Whether the inputs have `segment_ids`.
        masked_share: Share of the words that are to be guessed.
        whole_words: Whether all pieces of a word are masked together.
        multiple: Lengths are padded to multiples of this.
        max_shapes: Largest number of shapes of batches.
        rows_multiple_of: The number of rows is a multiple of this: the number of devices, with
            `keras.distribution` or `tf.distribute`.
        shuffle: False: always the same batches, for measuring.
        seed: Any integer >= 0.
        part: Which part of each batch this process makes, if several train together; it reads no
            other rows. None: that of the `keras.distribution` in scope.
        parts: Number of parts.

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

    def __init__(
        self,
        shards: Sequence[Shard],
        tokenizer: Any,
        *,
        max_length: int = 128,
        batch_size: int = 32,
        next_sentence: bool = True,
        segments: bool = True,
        masked_share: float = 0.15,
        whole_words: bool = False,
        multiple: int = 32,
        max_shapes: int = 4,
        rows_multiple_of: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        part: int | None = None,
        parts: int | None = None,
    ):
        super().__init__(shuffle, seed)
        check_least(
            batch_size=(batch_size, 1), multiple=(multiple, 1), max_shapes=(max_shapes, 1),
            max_length=(max_length, 5 if next_sentence else 3),
        )  # fmt: skip
        if getattr(tokenizer, "mask_id", None) is None:
            raise ValueError(
                "Expected a tokenizer whose vocabulary has [MASK]. Received: a "
                f"{type(tokenizer).__name__} without it."
            )
        if not 0 < masked_share < 1:
            raise ValueError(
                f"`masked_share` must be above 0 and below 1. Received: {masked_share!r}."
            )
        self.tokenizer = tokenizer
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
        """Number of tokens in no row: those of documents of one sentence, if rows are pairs."""
        sizes = [len(c.starts) for c in chunks]
        self._offsets = np.cumsum([0, *sizes])
        documents = np.cumsum([0, *(len(s.documents) - 1 for s in self._shards)])
        self._documents = np.concatenate(
            [c.documents + first for c, first in zip(chunks, documents, strict=False)]
        )
        self._check_enough(int(documents[-1]))
        lengths = np.concatenate([c.lengths for c in chunks]) + self._special
        self.tokens = int(lengths.sum())
        """Number of tokens of an epoch, special ones included."""
        widths = np.minimum(ceil(lengths, multiple) * multiple, max_length)[:, None]
        every = np.ones(len(lengths), "bool")
        self._buckets = [
            _Bucket(members, width, pack(len(members), batch_size, rows_multiple_of))
            for (width,), members in merge_buckets(widths, every, max_shapes)
        ]
        vocabulary = tokenizer.vocabulary
        self._continues = np.array([token.startswith("##") for token in vocabulary])
        special = {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.mask_id}
        self._ordinary = np.array(
            [i for i in range(len(vocabulary)) if i not in special and i != tokenizer.unknown_id]
        )
        self.set_epoch(0)

    def _check_enough(self, documents: int) -> None:
        if self.next_sentence and len(np.unique(self._documents)) < _PAIR:
            raise ValueError(
                "Next sentences need at least two documents of two sentences or more. Received: "
                f"{documents} documents, {len(self._documents)} rows of at least two sentences. "
                "Are documents parted by blank lines? Else leave it out "
                "(next_sentence=False, --no-next-sentence)."
            )

    def __len__(self) -> int:
        return sum(bucket.packing.count for bucket in self._buckets)

    @property
    def num_examples(self) -> int:
        """Number of rows of an epoch, without those that fill batches up."""
        return len(self._documents)

    @property
    def padded_share(self) -> float:
        """Share of padding in all positions of an epoch, before parts are exchanged."""
        positions = sum(b.packing.count * b.packing.rows * b.width for b in self._buckets)
        return 1.0 - self.tokens / positions

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Rows and length of the batches, from short to long."""
        return [(bucket.packing.rows, bucket.width) for bucket in self._buckets]

    def _make_plan(self) -> tuple[list[np.ndarray], list[tuple[int, int]], np.ndarray]:
        """The order of each bucket, which part of which bucket each batch is, those taken."""
        counts = [bucket.packing.count for bucket in self._buckets]
        owners = np.repeat(np.arange(len(counts)), counts)
        # Without `shuffle` too: neighbours are of one document, and have nothing to exchange.
        rng = np.random.default_rng([self.seed, self.epoch if self.shuffle else 0])
        orders = [by_blocks(len(bucket.members), rng) for bucket in self._buckets]
        if self.shuffle:
            owners = rng.permutation(owners)
        other = np.flatnonzero(owners != owners[0])
        if len(other):  # Keras takes lengths that differ in the first two batches as varying
            owners[[1, other[0]]] = owners[[other[0], 1]]
        number = np.zeros(len(owners), "int64")
        for b, count in enumerate(counts):
            number[owners == b] = np.arange(count)
        batches = list(zip(owners.tolist(), number.tolist(), strict=True))
        return orders, batches, np.zeros(len(owners), "bool")

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray], ...]:
        index, (orders, batches, _) = self._taken(index)
        b, number = batches[index]
        bucket = self._buckets[b]
        most = bucket.packing.examples
        picked = bucket.members[orders[b][number * most : (number + 1) * most]]
        rng = np.random.default_rng([self.seed, self.epoch if self.shuffle else 0, b, number])
        rows = bucket.packing.rows
        if rows % self.parts:
            raise ValueError(
                f"Expected batches whose rows are a multiple of the {self.parts} processes' parts. "
                f"Received: {rows} rows. Make them with `rows_multiple_of`."
            )
        share = rows // self.parts
        own = np.arange(self.part * share, (self.part + 1) * share)
        spans, apart = self._spans(picked, bucket.width, rng)
        ids, second, real = self._rows([spans[i % len(picked)] for i in own], bucket.width)
        masks = draw_masks(
            ids,
            self._maskable(ids, real),
            rng.random((2, rows, bucket.width + 1))[:, own],
            rng.choice(self._ordinary, (rows, bucket.width))[own],
            self.tokenizer.mask_id,
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
    ) -> tuple[list[list[tuple[int, int, int]]], np.ndarray]:
        """The parts of each row, as (shard, first id, id behind), and which rows are exchanged."""
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

    def _end_of(self, shard: int, place: int, size: int, room: int) -> tuple[int, int, int] | None:
        """The end of a chunk, whole sentences, whose size is nearest to the one that is wanted.

        Parts that follow are ends of chunks too, so that their lengths tell nothing. None if no
        sentence fits.
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
        self, spans: list[list[tuple[int, int, int]]], width: int
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
    """Draws an order in which numbers that are close stay within a few blocks.

    Blocks of consecutive numbers are shuffled, then the numbers of each four blocks.

    Args:
        count: How many numbers, from 0.
        rng: What draws.
        block: Numbers of a block.

    Returns:
        A permutation.

    Example:

    >>> order = by_blocks(40, np.random.default_rng(0), block=5)
    >>> sorted(order.tolist()) == list(range(40)), len(set(order[:20] // 5))
    (True, 4)
    """
    blocks = rng.permutation(ceil(count, block))
    found = []
    for i in range(0, len(blocks), _BLOCKS_AT_A_TIME):
        some = blocks[i : i + _BLOCKS_AT_A_TIME]
        numbers = [np.arange(b * block, min((b + 1) * block, count)) for b in some]
        found.append(rng.permutation(np.concatenate(numbers)))
    return np.concatenate(found)


def _exchanged(documents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each row the row whose second part it gets: for half of them one of another document."""
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
    """The part of this process, and their number, by the distribution in scope if not given."""
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
