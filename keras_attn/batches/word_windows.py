"""Batches of words, their context and noise words for word2vec, on any backend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.batches.bucketing import ceil
from keras_attn.batches.epochs import EpochBatches, check_least

SPAN = 16
"""Number P of consecutive words that form a row and share noise words."""

Batch = tuple[dict[str, np.ndarray], np.ndarray]


def kept_shares(counts: ArrayLike, subsample: float) -> np.ndarray:
    """Computes the probability with which word2vec keeps each word.

        p = min(1, sqrt(t / f) + t / f)       f: fraction of all words, t: `subsample`

    Args:
        counts: Number of occurrences of each word, `(V,)`.
        subsample: The threshold t; 0 keeps every word.

    Returns:
        The probability of each word, float64 `(V,)`; 1 for words that do not occur.

    Example:

    >>> kept_shares([90, 9, 1], 0.01).round(3).tolist()
    [0.117, 0.444, 1.0]
    """
    counts = np.asarray(counts, "float64")
    if not subsample:
        return np.ones(len(counts))
    ratio = subsample * counts.sum() / np.maximum(counts, 1e-9)
    return np.minimum(1.0, np.sqrt(ratio) + ratio)


def noise_shares(counts: ArrayLike, noise_power: float = 0.75) -> np.ndarray:
    """Returns the probability of each word as a noise word, count^power / sum(count^power)."""
    counts = np.asarray(counts, "float64")
    noise = np.where(counts > 0, counts**noise_power, 0.0)
    return noise / noise.sum()


def row_loads(
    counts: ArrayLike,
    *,
    batch_size: int,
    window: int,
    negatives: int,
    subsample: float,
    noise_power: float = 0.75,
    cbow: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the mean number of updates of each word in a batch.

    The original word2vec makes these updates one after the other. A batch sums their gradients,
    and the sum overshoots if a word gets hundreds of updates.

    Args:
        counts: Number of occurrences of each word, `(V,)`.
        batch_size: Number of words of a batch.
        window: Maximum number of context words on each side.
        negatives: Number of noise words for each pair.
        subsample: Threshold of subsampling; 0 keeps every word.
        noise_power: Exponent of the noise distribution.
        cbow: Whether the batches are for CBOW instead of skip-gram.

    Returns:
        A tuple of two float64 arrays `(V,)`: the number of updates of each word's vector, and of
        its context vector.

    Example:

    >>> settings = {"batch_size": 10, "window": 1, "negatives": 2, "subsample": 0}
    >>> words, others = row_loads([0, 1, 1], **settings)  # 10 words, 2 pairs each
    >>> words.tolist(), others.tolist()
    ([0.0, 30.0, 30.0], [0.0, 30.0, 30.0])
    """
    kept = np.asarray(counts, "float64") * kept_shares(counts, subsample)
    share, noise = kept / kept.sum(), noise_shares(counts, noise_power)
    steps = batch_size * (1 if cbow else window + 1)
    return steps * share * (1 + negatives), steps * (share + negatives * noise)


class WordWindows(EpochBatches):
    """Batches of words and their context, for skip-gram and CBOW with negative sampling.

    A row is a span of P = 16 consecutive words, so that the vectors of its words, its context and
    its noise words are fetched only once. With G spans in a batch, W = `window`, C = P + 2W and N =
    `noise_words`, a batch for skip-gram is

        word_ids     (G, P)      int32   the words of each span
        context_ids  (G, C + N)  int32   from W before to W after the span, then noise words
        labels       (G, P, C)   uint8   1 for context words of a word

    and a batch for CBOW is

        context_ids      (G, C)      int32
        context_weights  (G, P, C)   float32   1/n for the n context words, else 0
        word_ids         (G, P + N)  int32     the words of each span, then noise words
        labels           (G, P, P)   uint8     1 on the diagonal, for words with context words

    in the form that the models and `NegativeSamplingLoss` expect. The width of the context is drawn
    from 1 to W for each word in each epoch; the context never extends into another text. Before
    spans are formed, frequent words are left out at random (`kept_shares`). Noise words are drawn
    with probability `count^noise_power / sum(count^noise_power)`.

    An epoch depends only on `seed` and the index of the epoch, and a batch also on its own index.
    All epochs have the same number of batches, so a few spans may be left out. To resume a
    run, call `set_epoch(n)`, or pass the callback `EpochOrder(windows)`, which sets the order by
    the epoch number of `fit`. **Pass `shuffle=False` to `fit`.**

    References:
        - [Mikolov et al., 2013](https://arxiv.org/abs/1310.4546): negative sampling, subsampling.

    Args:
        ids: The concatenated word ids of all texts, integers `(n,)`.
        lengths: Number of words of each text.
        counts: Number of occurrences of each id, `(V,)`, for subsampling and noise.
        window: Maximum number W of context words on each side.
        noise_words: Number N of noise words of a span.
        subsample: Threshold of subsampling; 0 keeps every word.
        noise_power: Exponent of the noise distribution.
        batch_size: Number of words of a batch, rounded up to whole spans.
        cbow: Whether the batches are for CBOW.
        shuffle: Whether to shuffle the spans. If False, the spans are in order, and each epoch uses
            the same random numbers.
        seed: Seed of the order, a non-negative integer.

    Raises:
        ValueError: If there are fewer than two words, the sum of `lengths` is not the number of
            ids, an id has no entry in `counts`, or a setting is out of range.

    Example:

    >>> settings = {"window": 1, "subsample": 0, "shuffle": False}
    >>> windows = WordWindows([4, 5, 6], [3], [0, 0, 0, 0, 1, 1, 1], **settings)
    >>> inputs, labels = windows[0]
    >>> inputs["word_ids"][0, :4].tolist(), inputs["context_ids"][0, :5].tolist()
    ([4, 5, 6, 0], [0, 4, 5, 6, 0])
    >>> labels[0, :4, :5].tolist()
    [[0, 0, 1, 0, 0], [0, 1, 0, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]]
    """

    def __init__(
        self,
        ids: ArrayLike,
        lengths: Sequence[int] | np.ndarray,
        counts: ArrayLike,
        *,
        window: int = 5,
        noise_words: int = 32,
        subsample: float = 1e-3,
        noise_power: float = 0.75,
        batch_size: int = 2048,
        cbow: bool = False,
        shuffle: bool = True,
        seed: int = 0,
    ):
        super().__init__(shuffle, seed)
        check_least(
            window=(window, 1),
            noise_words=(noise_words, 1),
            batch_size=(batch_size, 1),
            subsample=(subsample, 0),
        )
        self.ids = np.asarray(ids, "int32")
        self.counts = np.asarray(counts, "int64")
        lengths = np.asarray(lengths, "int64")
        if self.ids.ndim != 1 or lengths.sum() != len(self.ids) or len(self.ids) < 2:
            raise ValueError(
                "Expected the words of texts, at least two, and the length of each text. Received: "
                f"ids of shape {self.ids.shape}, lengths with the sum {lengths.sum()}."
            )
        if self.ids.min() < 0 or self.ids.max() >= len(self.counts):
            raise ValueError(
                f"Expected ids below {len(self.counts)}, for which there are counts. "
                f"Received: ids from {self.ids.min()} to {self.ids.max()}."
            )
        self.window, self.noise_words, self.cbow = window, noise_words, cbow
        self._texts = np.repeat(np.arange(len(lengths), dtype="int32"), lengths)
        self._kept = kept_shares(self.counts, subsample).astype("float32")
        self._noise = np.cumsum(noise_shares(self.counts, noise_power))
        self.rows = ceil(batch_size, SPAN)
        """Number G of spans of a batch."""
        expected = float(np.take(self._kept, self.ids).sum(dtype="float64"))
        self._count = max(1, ceil(int(expected), self.rows * SPAN))
        self.set_epoch(0)

    @staticmethod
    def places(batch_size: int) -> int:
        """Returns a number of words, rounded up to whole spans of 16 words.

        Args:
            batch_size: Number of words of a batch.
        """
        return ceil(batch_size, SPAN) * SPAN

    def __len__(self) -> int:
        return self._count

    @property
    def num_examples(self) -> int:
        """Number of words of the texts."""
        return len(self.ids)

    def __getitem__(self, index: int) -> Batch:
        index, (order, ids, starts, ends, _) = self._taken(index)
        W, rng = self.window, np.random.default_rng([self.seed, self._drawn, index])
        first = order[index * self.rows : (index + 1) * self.rows, None] * SPAN
        # `ids` has W more places before the words, and W + P or more behind them.
        words = ids[first + np.arange(SPAN) + W]
        around = ids[first + np.arange(SPAN + 2 * W)]
        reach = rng.integers(1, W + 1, words.shape)
        places = first + np.arange(SPAN)
        there = places < len(starts)
        inside = np.minimum(places, len(starts) - 1)
        left = np.where(there, np.minimum(reach, places - starts[inside]), 0)[..., None]
        right = np.where(there, np.minimum(reach, ends[inside] - places), 0)[..., None]
        offsets = np.arange(SPAN + 2 * W) - np.arange(SPAN)[:, None] - W  # (P, C)
        labels = (offsets >= -left) & (offsets <= right) & (offsets != 0)
        drawn = rng.random((self.rows, self.noise_words))
        noise = np.searchsorted(self._noise, drawn * self._noise[-1], side="right").astype("int32")
        if not self.cbow:
            context = np.concatenate([around, noise], axis=1)
            return {"word_ids": words, "context_ids": context}, labels.view("uint8")
        sizes = labels.sum(axis=-1, keepdims=True, dtype="float32")
        inputs = {
            "context_ids": around,
            "context_weights": labels / np.maximum(sizes, np.float32(1)),
            "word_ids": np.concatenate([words, noise], axis=1),
        }
        return inputs, np.eye(SPAN, dtype="uint8") * (sizes > 0).astype("uint8")

    def _make_plan(self) -> tuple[np.ndarray, ...]:
        """The order of the spans, the words that are kept, and the ends of their texts."""
        self._drawn = self.epoch if self.shuffle else 0
        rng = np.random.default_rng([self.seed, self._drawn])
        kept = rng.random(len(self.ids), "float32") < np.take(self._kept, self.ids)
        texts = self._texts[kept]
        change = np.flatnonzero(np.diff(texts)) + 1
        sizes = np.diff([0, *change.tolist(), len(texts)]) if len(texts) else np.zeros(0, int)
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        ends = np.repeat(np.cumsum(sizes) - 1, sizes)
        if not len(texts):  # nothing was kept of a handful of words
            starts = ends = np.zeros(1, "int64")
        wanted = self._count * self.rows
        spans = max(wanted, ceil(len(texts), SPAN))
        ids = np.zeros(spans * SPAN + 2 * self.window, "int32")
        ids[self.window : self.window + len(texts)] = self.ids[kept]
        order = rng.permutation(spans) if self.shuffle else np.arange(spans)
        return order[:wanted], ids, starts, ends, np.zeros(self._count, "bool")
