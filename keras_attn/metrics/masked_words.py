"""Scores of masked language models, and counting baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_attn.batches import MaskedBatches
from keras_attn.metrics.reports import json_safe

COMMON = 100
"""Number of most frequent tokens that are ignored as shared words."""
SMOOTHING = 0.01
"""Number added to each count; values below 1 suit large vocabularies."""
_MOST_PAIRS = 1 << 22


class PretrainingReport(NamedTuple):
    """Scores of an encoder for masked words and next sentences.

    Example:

    >>> print(PretrainingReport(20.0, 0.4, 1000, 0.8, 50))
    masked words: 40.0 % right of 1,000, perplexity 20.00
    next sentences: 80.0 % right of 50
    """

    perplexity: float
    """Exponential of the mean `-log p(word)` over the masked words."""
    accuracy: float
    """Fraction of the masked words whose most probable prediction is correct."""
    masked_words: int
    """Number of masked words."""
    next_sentence_accuracy: float | None = None
    """Fraction of the pairs that are classified correctly; None without next sentences."""
    pairs: int = 0
    """Number of pairs."""

    def __str__(self) -> str:
        text = (
            f"masked words: {self.accuracy:.1%} right of {self.masked_words:,}, perplexity "
            f"{self.perplexity:.2f}"
        ).replace("%", " %")
        if self.next_sentence_accuracy is not None:
            text += (
                f"\nnext sentences: {self.next_sentence_accuracy:.1%} right of {self.pairs:,}"
            ).replace("%", " %")
        return text

    def to_dict(self) -> dict[str, Any]:
        """Returns all scores that are not None, keyed by field, as a dict for JSON.

        NaN and infinity become None.
        """
        return {name: json_safe(x) for name, x in self._asdict().items() if x is not None}


def score_masked_words(
    batches: MaskedBatches,
    losses: Callable[[Mapping[str, np.ndarray], np.ndarray], Mapping[str, np.ndarray]],
) -> PretrainingReport:
    """Computes the perplexity and accuracy of masked words, and the accuracy of next sentences.

    Args:
        batches: Batches of held-out documents.
        losses: Function that evaluates the predictions of the model for a batch. It is called with
            the inputs of the batch and the labels of its masked words `(B, M)`, for B rows with up
            to M masked words. It returns a dict with `nats (B, M)`, `-log p(word)` of each masked
            word, and `right (B, M)`, 1 if the word has the greatest probability and 0 otherwise. If
            pairs are classified, the dict also has `apart (B,)`, 1 if the two parts of a pair are
            classified as not consecutive.

    Returns:
        A `PretrainingReport`.

    Example:

    >>> from keras_attn.batches import SentenceIds
    >>> tokenizer = WordPieceTokenizer.train(["a b c d e"], 15)
    >>> ids = SentenceIds.encoded([["a b c d e"] * 2] * 3, tokenizer)
    >>> batches = MaskedBatches(ids.shards, tokenizer, max_length=16, next_sentence=False)
    >>> def losses(inputs, words):
    ...     return {"nats": np.zeros(words.shape), "right": np.ones(words.shape)}
    >>> print(score_masked_words(batches, losses))
    masked words: 100.0 % right of 6, perplexity 1.00
    """
    nats = right = words = pairs_right = pairs = 0.0
    next_sentence = False
    for i in range(len(batches)):
        inputs, labels, weights = batches[i]
        values = losses(inputs, labels["masked_words"])
        of_words = weights["masked_words"].astype("float64")
        nats += float((values["nats"] * of_words).sum())
        right += float((values["right"] * of_words).sum())
        words += float(of_words.sum())
        if "apart" in values:
            next_sentence = True
            some = weights["next_sentence"] > 0
            pairs += int(some.sum())
            pairs_right += int((values["apart"] == labels["next_sentence"])[some].sum())
    report = PretrainingReport(float(np.exp(nats / words)), right / words, int(words))
    if next_sentence:
        accuracy = pairs_right / pairs
        report = report._replace(next_sentence_accuracy=accuracy, pairs=int(pairs))
    return report


class _Rows(NamedTuple):
    """The rows of a batch, without repeated ones."""

    ids: np.ndarray
    """`(B, T)`: the input of a model."""
    real: np.ndarray
    """`(B, T)` bool: False for padding."""
    positions: np.ndarray
    """`(B, M)`: positions of the masked words."""
    labels: np.ndarray
    """`(B, M)`: the original tokens."""
    there: np.ndarray
    """`(B, M)` bool: False for padding."""
    apart: np.ndarray
    """`(B,)` bool: True if the second part does not follow the first."""

    def original(self) -> np.ndarray:
        """The original ids before masking, `(B, T)`."""
        ids = self.ids.copy()
        row, column = np.nonzero(self.there)
        ids[row, self.positions[row, column]] = self.labels[row, column]
        return ids


def unigram_accuracy(train: MaskedBatches, held_out: MaskedBatches) -> float:
    """Computes the accuracy of a baseline that always predicts the most frequent token.

    Special tokens except `[UNK]` are not counted.

    Args:
        train: Batches of training texts, in which tokens are counted.
        held_out: Batches of test texts.

    Returns:
        The fraction of the masked words of `held_out` that are predicted correctly.

    Example:

    >>> from keras_attn.batches import make_shard
    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer.train(["a b c d e"], 15)
    >>> shard = make_shard([tokenizer.encode(["a b c d e", "a a a a"])])
    >>> train = MaskedBatches([shard], tokenizer, max_length=12, next_sentence=False)
    >>> shard = make_shard([tokenizer.encode(["a a a a a"])])
    >>> held_out = MaskedBatches([shard], tokenizer, max_length=12, next_sentence=False)
    >>> unigram_accuracy(train, held_out)
    1.0
    """
    commonest = _by_frequency(train)[0]
    return _share(rows.labels[rows.there] == commonest for rows in _rows(held_out))


def bigram_accuracy(
    train: MaskedBatches,
    held_out: MaskedBatches,
    both_sides: bool = True,
    smoothing: float = SMOOTHING,
) -> float:
    """Computes the accuracy of a baseline that predicts a masked word from its neighbors.

    The prediction between the tokens a and b is the most probable word in a Markov chain:

        argmax_w p(w | a) p(b | w)
        p(y | x) = (count(x, y) + s) / (count(x) + s V)

    In the training texts before masking, `count(x, y)` is the number of times that y follows x, and
    `count(x)` is the number of times that x occurs; s is the smoothing, and V is the size of the
    vocabulary. With `both_sides=False`, the prediction is `argmax_w count(a, w)`, the most frequent
    successor of the previous token.

    The tokens a and b are taken from the masked inputs, where they may be replaced by random
    tokens. If a is also masked, the smoothed frequency `p(w)` replaces `p(w | a)`; if b is masked,
    `p(b | w)` is left out. `[CLS]` and `[SEP]` count as neighbors, but are never predicted. Among
    equally probable words, the most frequent word is predicted.

    Args:
        train: Batches of training texts, in which tokens are counted.
        held_out: Batches of test texts.
        both_sides: Whether the next token is used in addition to the previous token.
        smoothing: Number added to each count.

    Returns:
        The fraction of the masked words of `held_out` that are predicted correctly.

    Example:

    >>> from keras_attn.batches import make_shard
    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer.train(["a b c d e"], 15)
    >>> shard = make_shard([tokenizer.encode(["a b c d e"])])
    >>> batches = MaskedBatches([shard], tokenizer, max_length=12, next_sentence=False)
    >>> bigram_accuracy(batches, batches)
    1.0
    """
    order = _by_frequency(train)
    size = len(train.tokenizer.vocabulary)
    rank = np.full(size, size)
    rank[order] = np.arange(len(order))
    rest = np.setdiff1d(np.arange(size), order)
    rank[rest] = np.arange(len(order), size)  # special tokens last
    after, counts = _pair_counts(train, rank, size)
    turned = np.argsort(after % size * size + after // size, kind="stable")
    before = (after % size * size + after // size)[turned]
    total = np.bincount(after % size, counts, size)  # of each token: [CLS] stands before all
    tables = ((after, counts), (before, counts[turned]))
    masked = rank[train.tokenizer.mask_id]

    def neighbours(table: int, token: int) -> np.ndarray:
        codes, numbers = tables[table]
        begin, end = np.searchsorted(codes, [token * size, (token + 1) * size])
        found = np.full(size, smoothing)
        found[codes[begin:end] % size] += numbers[begin:end]
        return found

    def right(rows: _Rows) -> np.ndarray:
        row, column = np.nonzero(rows.there)
        at = rows.positions[row, column]
        left, behind = rank[rows.ids[row, at - 1]], rank[rows.ids[row, at + 1]]
        found = []
        for a, b in zip(left.tolist(), behind.tolist(), strict=True):
            scores = total + smoothing if a == masked else neighbours(0, a)
            if both_sides and b != masked:
                scores = scores * neighbours(1, b) / (total + smoothing * size)
            found.append(int(np.argmax(scores[: len(order)])))
        return rank[rows.labels[row, column]] == found

    return _share(map(right, _rows(held_out)))


def common_words_accuracy(
    train: MaskedBatches, held_out: MaskedBatches, common: int = COMMON
) -> float:
    """Computes the accuracy of a baseline that recognizes next sentences by shared words.

    The baseline predicts that the second part of a pair follows the first part if the two parts
    share at least t words, where t is the threshold with the highest accuracy on the training
    pairs. Words come from the masked inputs. Words with a masked or unknown piece are ignored, and
    words that are one of the most frequent tokens are ignored because any two texts share them.

    Args:
        train: Batches of training pairs, which determine t.
        held_out: Batches of test pairs.
        common: Number of most frequent training tokens that are ignored.

    Returns:
        The fraction of the pairs of `held_out` that are classified correctly.

    Raises:
        ValueError: If the rows are not pairs.

    Example:

    >>> from keras_attn.batches import make_shard
    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer.train(["a b c d e"], 15)
    >>> documents = [[f"{letter} {letter}"] * 2 for letter in "abcde"]
    >>> shard = make_shard([tokenizer.encode(document) for document in documents])
    >>> batches = MaskedBatches([shard], tokenizer, max_length=9, shuffle=False)
    >>> common_words_accuracy(batches, batches, common=0) > 0.5
    True
    """
    if not (train.next_sentence and held_out.next_sentence):
        raise ValueError(
            "Expected batches of pairs of sentences. Received: batches with next_sentence=False."
        )
    left_out = set(_by_frequency(train)[:common].tolist())
    shared, apart = _shared_words(train, left_out)
    limits = np.arange(shared.max(initial=0) + 2)
    right = [((shared < limit) == apart).mean() for limit in limits]
    limit = limits[int(np.argmax(right))]
    shared, apart = _shared_words(held_out, left_out)
    return float(((shared < limit) == apart).mean())


def _rows(batches: MaskedBatches) -> Iterator[_Rows]:
    for i in range(len(batches)):
        inputs, labels, weights = batches[i]
        there = weights["masked_words"] > 0
        keep = there.any(axis=1)  # every row has a word to guess, except repeated ones
        apart = labels.get("next_sentence", np.zeros(len(there)))
        yield _Rows(
            inputs["token_ids"][keep],
            inputs["padding_mask"][keep],
            inputs["masked_positions"][keep],
            labels["masked_words"][keep],
            there[keep],
            apart[keep].astype(bool),
        )


def _share(right: Iterable[np.ndarray]) -> float:
    return float(np.concatenate(list(right)).mean())


def _by_frequency(batches: MaskedBatches) -> np.ndarray:
    """All ids except special tokens, the most frequent first."""
    tokenizer = batches.tokenizer
    counts = np.zeros(len(tokenizer.vocabulary), "int64")
    for rows in _rows(batches):
        counts += np.bincount(rows.original()[rows.real], minlength=len(counts))
    special = {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.mask_id}
    order = np.argsort(-counts, kind="stable").tolist()
    return np.array([token for token in order if token not in special], "int64")


def _pair_counts(
    batches: MaskedBatches, rank: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of neighbors `before * size + after`, sorted, and their counts."""
    codes, counts = np.zeros(0, "int64"), np.zeros(0, "int64")
    waiting: list[np.ndarray] = []

    def merge() -> tuple[np.ndarray, np.ndarray]:
        some, numbers = np.unique(np.concatenate([*waiting, codes[:0]]), return_counts=True)
        every, place = np.unique(np.concatenate([codes, some]), return_inverse=True)
        sums = np.bincount(place, np.concatenate([counts, numbers]), len(every))
        return every, sums.astype("int64")

    for rows in _rows(batches):
        ranks = rank[rows.original()]
        both = rows.real[:, 1:]  # padding is on the right
        waiting.append((ranks[:, :-1] * size + ranks[:, 1:])[both])
        if sum(map(len, waiting)) > _MOST_PAIRS:
            codes, counts = merge()
            waiting = []
    return merge()


def _shared_words(batches: MaskedBatches, left_out: set[int]) -> tuple[np.ndarray, np.ndarray]:
    """The number of shared words of each pair, and whether it is not consecutive."""
    tokenizer = batches.tokenizer
    continues = [token.startswith("##") for token in tokenizer.vocabulary]
    special = {tokenizer.start_id, tokenizer.end_id, tokenizer.mask_id, tokenizer.unknown_id}
    shared, apart = [], []
    for rows in _rows(batches):
        for ids, real in zip(rows.ids, rows.real, strict=True):
            row = ids[real].tolist()
            cut = row.index(tokenizer.end_id)  # [CLS] first [SEP] second [SEP]
            first, second = (
                {
                    word
                    for word in _words(part, continues)
                    if special.isdisjoint(word) and not (len(word) == 1 and word[0] in left_out)
                }
                for part in (row[:cut], row[cut:])
            )
            shared.append(len(first & second))
        apart.append(rows.apart)
    return np.array(shared), np.concatenate(apart)


def _words(ids: list[int], continues: list[bool]) -> Iterator[tuple[int, ...]]:
    """The pieces of each word."""
    word: list[int] = []
    for token in ids:
        if word and not continues[token]:
            yield tuple(word)
            word = []
        word.append(token)
    if word:
        yield tuple(word)
