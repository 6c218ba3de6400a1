"""Explanations of a text classifier's answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attn.batches.classification_batches import truncate
from keras_attn.explain import EncoderStudy, Explanation
from keras_attn.explain.attributions import has_attention, has_self_attention
from keras_attn.explain.encoder_study import study_maps
from keras_attn.explain.methods import check_label, checked_method, compiled_method
from keras_attn.layers import attention_maps
from keras_attn.records.labelled_texts import Input

_NAMES = {"attention": "attention", "gradient": "gradient x input"}


class _Row(NamedTuple):
    """The tokens that are read of a text or a pair, and where they stand."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    segments: list[int]


class TextExplainer:
    """Computes how much each token of a text weighed in a classifier's answer.

    Args:
        classifier: A `TextClassifier`. Its own `explain` calls this.

    Example:

    >>> from keras_attn.tasks import TextClassifier
    >>> from keras_attn.text import BytePairTokenizer
    >>> tokenizer = BytePairTokenizer.train(["a text"], 259)
    >>> classifier = TextClassifier(tokenizer, ["no", "yes"], model={"dim": 8, "pair_buckets": 0})
    >>> TextExplainer(classifier).explain(["ab"])[0].tokens
    ('a', 'b')
    """

    def __init__(self, classifier: Any):
        self.classifier = classifier

    def explain(
        self,
        texts: Sequence[Input],
        method: str | None = None,
        label: str | None = None,
        batch_size: int = 32,
    ) -> EncoderStudy | list[Explanation]:
        """Explains texts, as `TextClassifier.explain`.

        Args:
            texts: Strings, or pairs of them.
            method: `"attention"` or `"gradient"`. If None, attention if the tokens have weights.
            label: The class to explain by its gradient. If None, the most probable one.
            batch_size: Number of texts in a batch.

        Returns:
            An `Explanation` for each text; or an `EncoderStudy`, for the attention of a model that
            does not weight its tokens.
        """
        classifier = self.classifier
        rows = self._pairs(texts) if classifier.pairs else self._single(texts)
        model = classifier.model
        if method == "attention" and has_self_attention(model) and not has_attention(model):
            check_label(label, method)
            return self._study(texts, [row.ids for row in rows])
        method = checked_method(model, method)
        logits, weights = self.explain_ids([row.ids for row in rows], method, label, batch_size)
        probabilities = classifier.probabilities_of_logits(logits)
        names = classifier.class_names
        found = []
        for i, row in enumerate(rows):
            given = texts[i]
            text, second = (given, None) if isinstance(given, str) else given
            found.append(
                Explanation(
                    text,
                    classifier.tokenizer.tokens(row.ids),
                    row.offsets,
                    weights[i],
                    names[int(probabilities[i].argmax())] if label is None else label,
                    dict(zip(names, map(float, probabilities[i]), strict=True)),
                    _NAMES[method],
                    second,
                    row.segments,
                )
            )
        return found

    def _study(self, texts: Sequence[Input], rows: Sequence[list[int]]) -> EncoderStudy:
        """What the heads look at in texts, of which these ids are read."""
        if not rows:
            raise ValueError("Expected at least one text. Received: none.")
        classifier = self.classifier
        start, end, pad = classifier.start_id, classifier.end_id, classifier.tokenizer.pad_id
        ends = [[] if mark is None else [mark] for mark in (start, end)]
        # Without any token a row of padding is read.
        rows = [[*ends[0], *row, *ends[1]] or [pad] for row in rows]
        width = max(map(len, rows))
        ids = np.array([[*row, *[pad] * (width - len(row))] for row in rows], "int32")
        real = np.arange(width) < np.array([[len(row)] for row in rows])
        tokenizer = classifier.tokenizer
        special = np.isin(ids, (tokenizer.start_id, tokenizer.end_id, pad))
        titles = [text if isinstance(text, str) else " / ".join(text) for text in texts]
        maps = attention_maps(classifier.model, ids)
        return study_maps(maps, rows, tokenizer.tokens(rows), real, special & real, titles)

    def _single(self, texts: Sequence[Any]) -> list[_Row]:
        """What is read of texts."""
        classifier = self.classifier
        rows = []
        for ids, offsets in zip(*classifier.tokenizer.encode_with_offsets(texts), strict=True):
            kept = truncate(list(range(len(ids))), classifier.room, classifier.truncation)
            rows.append(_Row([ids[k] for k in kept], [offsets[k] for k in kept], []))
        return rows

    def _pairs(self, texts: Sequence[Any]) -> list[_Row]:
        """What is read of pairs: the tokens of both texts, and the separators between them."""
        encode = self.classifier.tokenizer.encode_with_offsets
        first_ids, first_offsets = encode([first for first, _ in texts])
        second_ids, second_offsets = encode([second for _, second in texts])
        rows = []
        for i, (ids, start) in enumerate(self.classifier.field.rows(first_ids, second_ids)):
            behind = len(ids) - start
            end = len(texts[i][0])
            count = len(self.classifier.field.between)
            offsets = [*first_offsets[i][: start - count], *[(end, end)] * count]
            offsets += second_offsets[i][:behind]
            rows.append(_Row(ids, offsets, [0] * start + [1] * behind))
        return rows

    def explain_ids(
        self,
        ids: Sequence[Sequence[int]],
        method: str | None = None,
        label: str | None = None,
        batch_size: int = 32,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Explains tokenized texts, as `TextClassifier.explain_ids`.

        Args:
            ids: The ids of each text.
            method: As in `explain`.
            label: As in `explain`.
            batch_size: As in `explain`.

        Returns:
            Logits `(n, C)`, and the weights of each text's tokens.
        """
        classifier = self.classifier
        method = checked_method(classifier.model, method)
        if label is not None and label not in classifier.class_names:
            raise ValueError(
                f"`label` must be one of {list(classifier.class_names)}. Received: {label!r}."
            )
        check_label(label, method)
        if not len(ids):
            return np.zeros((0, len(classifier.class_names)), "float32"), []
        wanted = -1 if label is None else classifier.class_names.index(label)
        batches = classifier.id_batches(ids, batch_size=batch_size, shuffle=False)
        run = classifier.kept(
            lambda: compiled_method(classifier.model, method, classifier.multi_label),
            "explain",
            method,
        )
        logits, weights = zip(*(run(rows, wanted) for (rows,) in batches), strict=True)
        # One width, to bring the rows of all batches into the order of the texts.
        widest = max(part.shape[1] for part in weights)
        padded = [np.pad(part, ((0, 0), (0, widest - part.shape[1]))) for part in weights]
        first = int(classifier.start_id is not None)
        table = batches.restore(np.concatenate(padded))[:, first:]
        counts = [min(len(row), classifier.room) for row in ids]
        found = [row[:count] for row, count in zip(table, counts, strict=True)]
        return batches.restore(np.concatenate(logits)), found
