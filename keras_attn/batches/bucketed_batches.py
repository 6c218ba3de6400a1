"""Base class of batches that are bucketed by length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np

from keras_attn.batches.bucketing import Packing, join_small, merge_buckets, pack
from keras_attn.batches.epochs import EpochBatches, check_least
from keras_attn.progress import report

Batch = tuple[np.ndarray | dict[str, np.ndarray], ...]
UNLIMITED = 2**31


class Layout(TypedDict, total=False):
    """Settings of all bucketed batches, which `BucketedBatches` describes."""

    multiple: int
    max_shapes: int
    rows_multiple_of: int
    shuffle: bool
    seed: int
    workers: int
    max_queue_size: int


class Rows(NamedTuple):
    """The rows of a batch: examples of a bucket, repeated if they do not fill the batch."""

    arrays: dict[str, np.ndarray]
    members: np.ndarray  # the number of the example of each row
    real: int  # the rows from here on are repeated ones
    share: np.float32  # rows of a batch / examples of a full batch

    def weights(self, of_examples: np.ndarray) -> np.ndarray:
        """Returns the weights of the rows, float32 `(rows,)`; 0 for repeated rows.

        All other weights are multiplied by the number of rows of a batch, divided by the number of
        examples of a full batch, so that repeated rows do not change means over rows.

        Args:
            of_examples: Weights of all examples, float32 `(N,)`.
        """
        weights = of_examples[self.members] * self.share
        weights[self.real :] = 0.0
        return weights


class Bucket(NamedTuple):
    """Examples of similar lengths, padded to one shape."""

    members: np.ndarray  # numbers of the examples
    arrays: dict[str, np.ndarray]  # each with a row for each example
    lengths: tuple[int, ...]  # to which the sides of the examples are padded
    packing: Packing

    def rows(self, picked: np.ndarray) -> Rows:
        """Returns the `Rows` of a batch with the picked examples of the bucket."""
        rows = np.resize(picked, self.packing.rows)
        arrays = {name: array[rows] for name, array in self.arrays.items()}
        share = np.float32(self.packing.rows / self.packing.examples)
        return Rows(arrays, self.members[rows], len(picked), share)


Plan = tuple[list[np.ndarray], list[tuple[int, int]], np.ndarray]
"""The order of each bucket, the bucket and part of each batch, and the batches taken."""


class BucketedBatches(EpochBatches):
    """Base class of batches of examples that are bucketed by length.

    Examples whose lengths are equal after rounding up to a multiple of `multiple` form a bucket,
    and all batches of a bucket have the same shape. Buckets are merged until there are at most
    `max_shapes` buckets, beginning with the merges that add the fewest padding tokens. A backend
    that compiles for each shape (JAX, XLA) therefore compiles at most `max_shapes` times, and all
    `shapes` occur in the first epoch. All batches of a bucket have the same number of examples,
    except the last one, which may have fewer. If a batch is not full, or its number of rows is not
    a multiple of `rows_multiple_of`, some rows are repeated with weight 0. Each batch has the same
    examples for any `rows_multiple_of`, so that a run can resume on a different number of devices.

    An epoch contains each example once. Its order depends only on `seed` and the index of the
    epoch. Successive epochs of `fit` use successive orders. To resume a run, call `set_epoch(n)`,
    or use the callback `EpochOrder(batches)` or `fit_resumable`, which set the order by the epoch
    number of `fit`. **Pass `shuffle=False` to `fit`**: by default, `fit` shuffles the batches again
    with Python's global random numbers.

    The `__init__` of a subclass calls `_fill` with the rounded lengths of all examples, and with a
    function that returns the arrays of given examples. The `_batch` method of a subclass converts
    the arrays of a batch to inputs, labels and weights for `fit`.

    Args:
        multiple: Lengths are padded to multiples of this number, but not beyond the maximum length
            that a subclass passes to `_fill`. If None, the class attribute `MULTIPLE`, by default
            8.
        max_shapes: Maximum number of different shapes of batches. If None, the class attribute
            `MAX_SHAPES`, by default 12.
        rows_multiple_of: The number of rows of each batch is a multiple of this number. With
            `keras.distribution` or `tf.distribute`, set it to the number of devices.
        shuffle: Whether each epoch has a different order; use False for validation and predictions.
        seed: Seed of the orders, a non-negative integer.
        workers: Number of threads that create batches in advance; 1 for none. Several threads only
            help if images are read from files.
        max_queue_size: Maximum number of batches that workers create in advance.

    Raises:
        ValueError: If a setting is out of range.

    Example:

    >>> from keras_attn.batches.bucketing import flatten, padded
    >>> class Numbers(BucketedBatches):
    ...     def __init__(self, ids, targets, **layout):
    ...         super().__init__(**layout)
    ...         flat, lengths = flatten(ids, "ids", 0)
    ...         self._targets, self._real_tokens = np.float32(targets), int(lengths.sum())
    ...         rows = lambda members, shape: {"ids": padded(flat, lengths, members, shape[0], 0)}
    ...         self._fill(self._rounded(lengths), rows, batch_size=32)
    ...     def _batch(self, rows):
    ...         weights = rows.weights(np.ones(len(self._targets), "float32"))
    ...         return rows.arrays["ids"], self._targets[rows.members], weights
    >>> ids, targets, weights = Numbers([[5, 6, 7], [8]], [0.5, 2.0], multiple=4, shuffle=False)[0]
    >>> ids.tolist(), targets.tolist(), weights.tolist()
    ([[5, 6, 7, 0], [8, 0, 0, 0]], [0.5, 2.0], [1.0, 1.0])
    """

    MULTIPLE, MAX_SHAPES = 8, 12
    """Defaults of `multiple` and `max_shapes`."""

    _buckets: list[Bucket]
    _real_tokens: int
    _num_examples: int
    _dropped: int = 0
    _evenly: bool = False

    def __init__(
        self,
        *,
        multiple: int | None = None,
        max_shapes: int | None = None,
        rows_multiple_of: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        workers: int = 1,
        max_queue_size: int = 10,
    ):
        super().__init__(shuffle, seed, workers, max_queue_size)
        self._multiple = self.MULTIPLE if multiple is None else multiple
        self._max_shapes = self.MAX_SHAPES if max_shapes is None else max_shapes
        self._rows_multiple_of = rows_multiple_of
        check_least(
            multiple=(self._multiple, 1),
            max_shapes=(self._max_shapes, 1),
            rows_multiple_of=(rows_multiple_of, 1),
        )

    def _rounded(self, lengths: np.ndarray) -> np.ndarray:
        """Lengths rounded up to the multiple, at least one multiple."""
        return np.maximum(1, -(-lengths // self._multiple)) * self._multiple

    def _fill(
        self,
        widths: np.ndarray,
        arrays: Callable[[np.ndarray, tuple[int, ...]], dict[str, np.ndarray]],
        *,
        kept: np.ndarray | None = None,
        batch_size: int | None = None,
        tokens_per_batch: int | None = None,
        limit: int | Sequence[int] | None = None,
        least: int = 1,
    ) -> None:
        """Creates the buckets, at the end of `__init__`.

        `widths` are rounded lengths, `(N,)` or `(N, sides)`; `arrays(members, widths)` pads some
        examples; `kept` is the result of `_keep`. Buckets of fewer than `least` examples are
        joined. With a `least` above 1, the examples of a bucket are spread evenly over its batches.
        """
        self._evenly = least > 1
        if kept is None:
            kept = np.ones(len(widths), "bool")
            self._num_examples = len(widths)
        widths = widths.reshape(len(widths), -1)
        self._buckets = []
        for longest, members in join_small(merge_buckets(widths, kept, self._max_shapes), least):
            # The limit need not be a multiple.
            shape = tuple(np.minimum(longest, UNLIMITED if limit is None else limit).tolist())
            most = len(members) if batch_size is None else batch_size
            if tokens_per_batch is not None:
                most = min(most, tokens_per_batch // max(shape))
            packing = pack(len(members), most, self._rows_multiple_of)
            self._buckets.append(Bucket(members, arrays(members, shape), shape, packing))
        self._ready()

    def _ready(self) -> None:
        """Begins the first epoch, after the buckets are created."""
        self._batches = [
            (b, i) for b, bucket in enumerate(self._buckets) for i in range(bucket.packing.batches)
        ]
        self.set_epoch(0)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Batch:
        index, plan = self._taken(index)
        bucket, picked = self._part(plan, index)
        return self._batch(bucket.rows(picked))

    def _batch(self, rows: Rows) -> Batch:
        """The arguments of `fit`: inputs, and optionally labels and weights."""
        raise NotImplementedError

    def members(self, index: int) -> np.ndarray:
        """Returns the indices of the examples in a batch of this epoch, without repetitions.

        Args:
            index: Index of the batch.

        Returns:
            Integers `(n,)`, in the order of the first n rows of the batch.
        """
        bucket, picked = self._part(self._plan, index)
        return bucket.members[picked]

    def computed(
        self,
        function: Callable[[Any, np.ndarray], Mapping[str, np.ndarray]],
        what: str = "rows",
    ) -> list[dict[str, np.ndarray]]:
        """Computes values for all examples of this epoch, batch by batch.

        Args:
            function: `function(inputs, members)` receives the inputs of a batch and the index of
                the example in each row, and returns a dict of arrays with an entry for each row.
            what: Name of the unit that the progress bar counts.

        Returns:
            A list with a dict for each example that is not left out, in the order of the examples.
            The dict has the keys that `function` returned, and the entries of the example.
        """
        values: dict[int, dict[str, np.ndarray]] = {}
        for index in range(len(self)):
            bucket, picked = self._part(self._plan, index)
            rows = bucket.rows(picked)
            outputs = function(self._batch(rows)[0], rows.members)
            for place, member in enumerate(rows.members[: rows.real].tolist()):
                values[member] = {name: entries[place] for name, entries in outputs.items()}
            report(len(values), self._num_examples, what)
        return [values[member] for member in sorted(values)]

    def _keep(self, lengths: np.ndarray, name: str, most: int | None, noun: str) -> np.ndarray:
        """Which examples are short enough; the others are counted in `dropped`."""
        kept = np.ones(len(lengths), "bool") if most is None else lengths <= most
        if not kept.any():
            raise ValueError(
                f"No {noun} is left: all {len(lengths)} are longer than `{name}`={most} (the "
                f"shortest has {int(lengths.min())} ids). Raise `{name}`."
            )
        self._num_examples = int(np.sum(kept))
        self._dropped = len(kept) - self._num_examples
        return kept

    def _part(self, plan: Plan, index: int) -> tuple[Bucket, np.ndarray]:
        """The bucket of a batch, and its rows in the bucket."""
        orders, batches, _ = plan
        number, part = batches[index]
        packing = self._buckets[number].packing
        if self._evenly:
            return self._buckets[number], np.array_split(orders[number], packing.batches)[part]
        most = packing.examples
        return self._buckets[number], orders[number][part * most : (part + 1) * most]

    @property
    def num_examples(self) -> int:
        """Number of examples of an epoch: pairs, captions or texts."""
        return self._num_examples

    @property
    def dropped(self) -> int:
        """Number of examples that are left out because they are too long."""
        return self._dropped

    @property
    def padded_share(self) -> float:
        """Fraction of padding among all positions of an epoch; repeated rows count as padding."""
        positions = sum(
            bucket.packing.batches * bucket.packing.rows * self._positions(bucket.lengths)
            for bucket in self._buckets
        )
        return 1.0 - self._real_tokens / positions

    @staticmethod
    def _positions(lengths: tuple[int, ...]) -> int:
        """The number of positions of a row."""
        return sum(lengths)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the buckets, from short to long: the rows and padded lengths of a batch.

        For pairs of texts, a shape is `(rows, first length, second length)`.
        """
        return [(bucket.packing.rows, *bucket.lengths) for bucket in self._buckets]

    def _make_plan(self) -> Plan:
        sizes = [len(bucket.members) for bucket in self._buckets]
        if self.shuffle:
            rng = np.random.default_rng([self.seed, self.epoch])
            orders = [rng.permutation(size) for size in sizes]
            batches = rng.permutation(len(self._batches))
        else:
            orders = [np.arange(size) for size in sizes]
            batches = np.arange(len(self._batches))
        order = [self._batches[batch] for batch in self._vary_first_two(batches)]
        return orders, order, np.zeros(len(order), "bool")

    def _vary_first_two(self, batches: np.ndarray) -> np.ndarray:
        """Makes the first two batches differ in each length that varies.

        On TensorFlow, Keras infers the shapes of all batches from the first two; only lengths that
        differ in these may vary later.
        """
        shapes = np.array(self.shapes)[:, 1:]
        varies = (shapes != shapes[0]).any(axis=0)
        shapes = shapes[[self._batches[batch][0] for batch in batches]]
        for first in range(len(batches)):
            differ = ((shapes != shapes[first]) | ~varies).all(axis=1)
            if differ.any():
                second = int(np.argmax(differ))
                pair = [first, second] if first < second else [second, first]
                if second == first:  # one shape only: nothing varies
                    return batches
                return np.concatenate([batches[pair], np.delete(batches, pair)])
        return batches
