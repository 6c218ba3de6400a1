"""Batches of texts or pairs for encoders, with any kind of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.batches.bucketed_batches import Batch, BucketedBatches, Layout, Rows
from keras_attn.batches.bucketing import Ids, flatten, padded
from keras_attn.batches.epochs import check_least

Row = tuple[Sequence[int] | np.ndarray, int]
"""Ids including special tokens, and the start of the second segment (or the number of ids)."""

Labels = Sequence[float] | Ids | np.ndarray


class EncoderBatches(BucketedBatches):
    """Batches of rows of ids for an encoder, bucketed by length.

    Each batch is `(inputs, labels, sample_weight)`, or `(inputs,)` if there are no labels:

        inputs         {"token_ids", "segment_ids", "padding_mask"}, each (B, T)
        labels         {head: (B, ...)}, or (B, T) for labels of each token
        sample_weight  {head: (B,)}, or (B, T); 0 in repeated rows, and for tokens without a label

    Ids are int32, the mask is bool and True for ids, and weights are float32. Segments are 0 for
    the first segment and for padding, and 1 for the second segment. `BucketedBatches` describes
    buckets and epochs. **Pass `shuffle=False` to `fit`.**

    Args:
        rows: For each row, a tuple of its ids, including special tokens, and the index where its
            second segment starts (the number of ids if there is only one segment).
        labels: For each head, an array with an entry for each row. For a head with token labels, a
            list with a sequence of labels for each row, one per id; -1 means no label.
        weights: Weight of each row, at least 0; 1 if None.
        token_labels: Names of the heads with token labels.
        label_weights: A dict from heads with token labels to arrays with the weight of each class,
            by which the weights of tokens are multiplied; 1 by default.
        batch_size: Maximum number of rows of a batch.
        segments: Whether the inputs have `segment_ids`.
        pad_id: Id of padding; it must not occur in the data.
        max_length: Maximum number of ids that a row may have; no limit if None.
        **layout: `multiple` (default 16), `max_shapes` (12), `rows_multiple_of`, `shuffle`, `seed`,
            `workers` and `max_queue_size`, as in `BucketedBatches`.

    Raises:
        ValueError: If there are no rows, the number of labels or weights differs from the number of
            rows, the number of token labels differs from the number of ids, ids are not
            non-negative integers, `pad_id` is in the data, a weight is negative, a row is longer
            than `max_length`, or a setting is out of range.

    Example:

    >>> rows = [([2, 7, 3], 3), ([2, 8, 3, 9, 3], 3)]
    >>> batches = EncoderBatches(rows, {"classes": [0, 1]}, multiple=8, shuffle=False)
    >>> inputs, labels, weights = batches[0]
    >>> inputs["segment_ids"].tolist()
    [[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0]]
    >>> labels["classes"].tolist(), weights["classes"].tolist()
    ([0, 1], [1.0, 1.0])
    """

    MULTIPLE = 16

    def __init__(
        self,
        rows: Sequence[Row],
        labels: Mapping[str, Labels] | None = None,
        weights: ArrayLike | None = None,
        *,
        token_labels: Sequence[str] = (),
        label_weights: Mapping[str, np.ndarray] | None = None,
        batch_size: int = 32,
        segments: bool = True,
        pad_id: int = 0,
        max_length: int | None = None,
        **layout: Unpack[Layout],
    ):
        super().__init__(**layout)
        check_least(batch_size=(batch_size, 1), max_length=(max_length, 1))
        if not len(rows):
            raise ValueError("Expected at least one row. Received: none.")
        self.segments = segments
        self.pad_id = pad_id
        flat, lengths = flatten([ids for ids, _ in rows], "rows", pad_id)
        if max_length is not None and lengths.max() > max_length:
            raise ValueError(
                f"Expected rows of at most max_length={max_length} ids. Received: "
                f"{int(lengths.max())} ids in row {int(lengths.argmax())}."
            )
        starts = np.fromiter((second for _, second in rows), "int32", len(rows))
        weights = np.ones(len(rows)) if weights is None else np.asarray(weights)
        if weights.shape != (len(rows),) or not (weights >= 0).all():
            raise ValueError(
                f"Expected `weights` to be {len(rows)} numbers of at least 0. Received: values of "
                f"shape {weights.shape}."
            )
        self._labels: dict[str, np.ndarray] = {}
        self._of_tokens = tuple(token_labels)
        self._label_weights = dict(label_weights or {})
        self._tokens: dict[str, np.ndarray] = {}
        self._lengths = lengths
        for name, given in (labels or {}).items():
            if len(given) != len(rows):
                raise ValueError(
                    f"Expected labels {name!r} for {len(rows)} rows. Received: labels for "
                    f"{len(given)} rows."
                )
            if name in self._of_tokens:
                self._tokens[name] = _of_tokens(name, given, lengths)
            else:
                array = np.asarray(given)
                wide = {"f": "float32", "i": "int32", "u": "int32", "b": "int32"}
                self._labels[name] = array.astype(wide.get(array.dtype.kind, array.dtype))
        self._weights = weights.astype("float32")
        self._real_tokens = int(lengths.sum())

        def arrays(members: np.ndarray, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
            rows = {"ids": padded(flat, lengths, members, shape[0], pad_id)}
            for name, values in self._tokens.items():
                rows[name] = padded(values, lengths, members, shape[0], -1)
            return {**rows, "lengths": lengths[members], "starts": starts[members]}

        widths = self._rounded(lengths)
        self._fill(widths, arrays, batch_size=batch_size, limit=max_length)

    def _batch(self, rows: Rows) -> Batch:
        arrays = rows.arrays
        places = np.arange(arrays["ids"].shape[1], dtype="int32")[None]
        real = places < arrays["lengths"][:, None]
        inputs = {
            "token_ids": arrays["ids"],
            "segment_ids": ((places >= arrays["starts"][:, None]) & real).astype("int32"),
            "padding_mask": real,
        }
        if not self.segments:
            del inputs["segment_ids"]
        if not self._labels and not self._of_tokens:
            return (inputs,)
        weights = rows.weights(self._weights)
        labels = {name: values[rows.members] for name, values in self._labels.items()}
        of_heads = dict.fromkeys(labels, weights)
        for name in self._of_tokens:
            labels[name] = np.maximum(arrays[name], 0)
            of_heads[name] = (arrays[name] >= 0) * weights[:, None]
            if name in self._label_weights:
                of_heads[name] *= self._label_weights[name][labels[name]]
        return inputs, labels, of_heads

    def guessing_loss(self) -> float | None:
        """Computes the cross-entropy of a model that always predicts the label frequencies.

            -sum_c share_c log share_c      summed over the heads

        share_c is the weighted fraction of label c among the labels of a head; negative labels are
        left out.

        Returns:
            The loss in nats; None if there are no labels, or the labels of any head are not one
            integer for each row or token.
        """
        total = 0.0
        for name in (*self._labels, *self._of_tokens):
            if name in self._tokens:
                labels, weights = self._tokens[name], np.repeat(self._weights, self._lengths)
            else:
                labels, weights = self._labels[name], self._weights
            if labels.dtype.kind != "i" or labels.ndim != 1:
                return None
            some = labels >= 0
            shares = np.bincount(labels[some], weights[some])
            if name in self._label_weights:
                shares = shares * np.asarray(self._label_weights[name])[: len(shares)]
            shares = shares[shares > 0] / shares.sum()
            total -= float((shares * np.log(shares)).sum())
        return total if self._labels or self._of_tokens else None


def _of_tokens(name: str, given: Labels, lengths: np.ndarray) -> np.ndarray:
    """The labels of all tokens as one vector."""
    sizes = np.fromiter(map(np.size, given), "int64", len(given))
    if (sizes != lengths).any():
        row = int(np.argmax(sizes != lengths))
        raise ValueError(
            f"Expected a label {name!r} for each token, -1 for none. Received: a row of "
            f"{sizes[row]} for the {lengths[row]} tokens of row {row}."
        )
    return np.concatenate([np.asarray(row, "int32") for row in given])
