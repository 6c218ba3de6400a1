"""Windows of a long text or of many documents, for language models on any backend."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.batches.bucketing import ceil
from keras_attn.batches.epochs import EpochBatches, check_least
from keras_attn.batches.sentence_shards import Shard
from keras_attn.batches.text_chunks import chunk_sentences

Batch = tuple[np.ndarray, np.ndarray, np.ndarray]


class TextWindows(EpochBatches):
    """Windows of a stream of ids, for training language models.

    Each batch is a tuple `(ids, labels, sample_weight)` of NumPy arrays with the same shape:

        ids            (B, T) int32     start, c_s, ..., c_{s+T-2}
        labels         (B, T) int32     c_s, ..., c_{s+T-1}
        sample_weight  (B, T) float32   1; 0 in rows that only fill a batch

    c is the stream, and s the start of a window. Every window begins with the start token, which
    therefore means "somewhere in a text".

    An epoch is one pass over adjacent windows. With `shuffle=True`, the start of the first window
    is drawn for each epoch, so that the ids at both ends, less than two windows in total, are not
    used. With `shuffle=False`, the first window starts at the first id, and the ids after the last
    whole window are not used. The order of an epoch depends only on `seed` and the index of the
    epoch. To resume a run, call `set_epoch(n)`, or pass the callback `EpochOrder(windows)`, which
    sets the order by the epoch number of `fit`. **Pass `shuffle=False` to `fit`.**

    Args:
        ids: The stream, a vector of at least `sequence_length` ids.
        start_id: Id of the start token of each window.
        sequence_length: Length T of a window.
        batch_size: Maximum number of windows of a batch; rows that only fill a batch repeat its
            windows.
        shuffle: Whether the start and the order of the windows are drawn for each epoch. If False,
            all epochs have the same windows, in their order in the stream.
        seed: Seed of the order, a non-negative integer.
        rows_multiple_of: The number of rows B of each batch is a multiple of this number. With
            `keras.distribution` or `tf.distribute`, set it to the number of devices.

    Raises:
        ValueError: If the stream is not a vector of integers or is too short, or a setting is out
            of range.

    Example:

    >>> windows = TextWindows([5, 6, 7, 8], 1, sequence_length=2, batch_size=2, shuffle=False)
    >>> ids, labels, weight = windows[0]
    >>> ids.tolist(), labels.tolist()
    ([[1, 5], [1, 7]], [[5, 6], [7, 8]])
    """

    def __init__(
        self,
        ids: Sequence[int] | np.ndarray,
        start_id: int,
        sequence_length: int = 256,
        batch_size: int = 64,
        shuffle: bool = True,
        seed: int = 0,
        rows_multiple_of: int = 1,
    ):
        super().__init__(shuffle, seed)
        check_least(
            sequence_length=(sequence_length, 1),
            batch_size=(batch_size, 1),
            rows_multiple_of=(rows_multiple_of, 1),
        )
        ids = np.asarray(ids)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise ValueError(
                f"Expected `ids` to be a vector of integers. Received: {ids.dtype} values of shape "
                f"{ids.shape}."
            )
        if len(ids) < sequence_length:
            raise ValueError(
                f"Expected at least one window of `sequence_length`={sequence_length} ids. "
                f"Received: {len(ids)} ids. Give more text, or shorter windows."
            )
        self.ids = ids.astype("int32")
        self.start_id = start_id
        self.sequence_length = sequence_length
        self.batch_size = batch_size
        self.rows = ceil(batch_size, rows_multiple_of) * rows_multiple_of
        """Rows B of each batch."""
        self._count = self._windows()
        self.set_epoch(0)

    def _windows(self) -> int:
        whole = len(self.ids) // self.sequence_length
        return max(1, whole - 1) if self.shuffle else whole  # drawn places want room to move

    def __len__(self) -> int:
        return ceil(self._count, self.batch_size)

    def __getitem__(self, index: int) -> Batch:
        index, (windows, _) = self._taken(index)
        picked = windows[index * self.batch_size : (index + 1) * self.batch_size]
        # Repeats rows where the batch is not full.
        labels, weight = self._labels(np.resize(picked, self.rows))
        ids = np.concatenate([np.full_like(labels[:, :1], self.start_id), labels[:, :-1]], axis=1)
        weight[len(picked) :] = 0.0
        return ids, labels, weight

    def _labels(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The labels of windows in the plan, and their weights."""
        labels = self.ids[windows[:, None] + np.arange(self.sequence_length)]
        return labels, np.ones(labels.shape, "float32")

    @property
    def num_examples(self) -> int:
        """Number of windows of an epoch."""
        return self._count

    def _make_plan(self) -> tuple[np.ndarray, np.ndarray]:
        """The starts of the windows, and which batches were taken."""
        starts = np.arange(self._count) * self.sequence_length
        if self.shuffle:
            rng = np.random.default_rng([self.seed, self.epoch])
            room = len(self.ids) - self._count * self.sequence_length
            starts = rng.permutation(starts) + rng.integers(room + 1)
        return starts, np.zeros(len(self), "bool")


class DocumentWindows(TextWindows):
    """Documents packed into windows, for training language models.

    A window contains as many whole documents as fit, each preceded by the start token, and then
    padding. The loss does not count the start token. A document of more than `sequence_length` ids
    is split, and its last part shares a window with the next documents; if such a document has
    `given` ids, a warning is issued. Windows without any id that the loss counts are left out.
    Attention is not restricted to a document: tokens are also predicted from earlier documents in
    the window.

        ids            (B, T) int32     start, d_1, ..., end, start, e_1, ..., end, start, pad, ...
        labels         (B, T) int32     d_1, ..., end, start, e_1, ..., end, start, pad, pad, ...
        sample_weight  (B, T) float32   1; 0 for the start token, padding and `given` ids, and in
                                        rows that only fill a batch

    d and e are documents. With `shuffle=True`, the order of the documents is drawn once, and the
    order of the windows is drawn for each epoch.

    Args:
        documents: Ids of each document, with its end token.
        given: Number of ids at the beginning of each document (its prompt) that the loss does not
            count.
        start_id: Id of the start token of each document.
        pad_id: Id of padding.
        **settings: `sequence_length`, `batch_size`, `shuffle`, `seed` and `rows_multiple_of`, as in
            `TextWindows`.

    Raises:
        ValueError: If there are no documents, `documents` and `given` differ in length, or a
            setting is out of range.

    Example:

    >>> windows = DocumentWindows(
    ...     [[5, 6, 2], [7, 2]], [1, 0], 1, 0, sequence_length=8, batch_size=1, shuffle=False
    ... )
    >>> ids, labels, weight = windows[0]
    >>> ids.tolist(), weight.tolist()
    ([[1, 5, 6, 2, 1, 7, 2, 1]], [[0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]])
    """

    def __init__(
        self,
        documents: Sequence[Sequence[int] | np.ndarray],
        given: Sequence[int],
        start_id: int,
        pad_id: int,
        sequence_length: int = 256,
        shuffle: bool = True,
        seed: int = 0,
        **settings: int,
    ):
        check_least(sequence_length=(sequence_length, 1), seed=(seed, 0))
        if not len(documents):
            raise ValueError("Expected at least one document. Received: none.")
        count = len(documents)
        cut = sum(n > 0 and len(x) > sequence_length for n, x in zip(given, documents, strict=True))
        if cut:
            warnings.warn(
                f"{cut:,} of {count:,} documents with a prompt are longer than a window of "
                f"{sequence_length} tokens and are cut. The rest of their answers is learned "
                "without the prompt.",
                stacklevel=3,
            )
        order = np.random.default_rng(seed).permutation(count) if shuffle else range(count)
        rows = [np.append(np.asarray(documents[i], "int32"), start_id) for i in order]
        learned = [np.arange(len(row)) >= given[i] for i, row in zip(order, rows, strict=True)]
        for row in learned:
            row[-1] = False
        ids, self._learned = np.concatenate(rows), np.concatenate(learned)
        bounds = np.cumsum([0, *map(len, rows)])
        chunks = chunk_sentences(Shard(ids, bounds, np.array([0, count])), sequence_length, 1)
        starts, ends = chunks.units[chunks.starts], chunks.units[chunks.ends]
        before = np.append(0, np.cumsum(self._learned))
        some = before[ends] > before[starts]  # not only prompts
        self._starts, self._sizes, self._pad_id = starts[some], (ends - starts)[some], pad_id
        # So that a window may reach behind the end.
        ids = np.append(ids, np.full(sequence_length, pad_id, "int32"))
        self._learned = np.append(self._learned, np.zeros(sequence_length, "bool"))
        super().__init__(ids, start_id, sequence_length, shuffle=shuffle, seed=seed, **settings)

    @property
    def padded_share(self) -> float:
        """Fraction of the tokens that are padding."""
        return 1 - float(self._sizes.sum()) / (len(self._sizes) * self.sequence_length)

    def _windows(self) -> int:
        return len(self._starts)

    def _make_plan(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the windows, and which batches were taken."""
        windows = np.arange(self._count)
        if self.shuffle:
            windows = np.random.default_rng([self.seed, self.epoch]).permutation(windows)
        return windows, np.zeros(len(self), "bool")

    def _labels(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        within = np.arange(self.sequence_length)
        places = self._starts[windows][:, None] + within
        there = within < self._sizes[windows][:, None]
        labels = np.where(there, self.ids[places], self._pad_id)
        return labels, (there & self._learned[places]).astype("float32")


def scoring_windows(
    ids: ArrayLike,
    start_id: int,
    pad_id: int,
    sequence_length: int,
    context: int,
    given: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Splits a stream into overlapping windows in which each token is scored exactly once.

    In the first window, all tokens are scored; in each later window, the tokens after the first
    `context` tokens are scored. Each token is therefore predicted from at least `context` earlier
    tokens, if the stream has that many. The first `given` tokens of the stream are not scored.

    Args:
        ids: The stream `(N,)`, at least one id.
        start_id: Id of the start token of each window.
        pad_id: Id of the padding of the last window.
        sequence_length: Length T of a window.
        context: Minimum number of earlier tokens, below `sequence_length`.
        given: Number of ids at the beginning of the stream that are not scored.

    Returns:
        A tuple of the R windows, int32 `(R, T + 1)`, each beginning with the start token, and bool
        `(R, T)`, True at position t of a window if its token t + 1 is scored.

    Example:

    >>> windows, scored = scoring_windows([5, 6, 7, 8, 9], 1, 0, sequence_length=4, context=2)
    >>> windows.tolist()
    [[1, 5, 6, 7, 8], [1, 7, 8, 9, 0]]
    >>> scored.astype(int).tolist()
    [[1, 1, 1, 1], [0, 0, 1, 0]]
    """
    ids = np.asarray(ids, "int32")
    T, stride = sequence_length, sequence_length - context
    rows = 1 + max(0, -(-(len(ids) - T) // stride))
    places = np.arange(rows)[:, None] * stride + np.arange(T)
    there = places < len(ids)
    windows = np.where(there, ids[np.minimum(places, len(ids) - 1)], pad_id)
    scored = there & ((np.arange(T) >= context) | (np.arange(rows) == 0)[:, None])
    scored &= places >= given
    start = np.full((rows, 1), start_id)
    return np.concatenate([start, windows], axis=1).astype("int32"), scored
