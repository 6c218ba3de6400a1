"""Guesses of masked words, whether sentences follow each other, and how good both are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attn.batches import MaskedBatches
from keras_attn.explain import EncoderStudy, study_texts
from keras_attn.fields import EncoderInput
from keras_attn.generation import CompiledFunction
from keras_attn.generation.numbers import rounded_count
from keras_attn.inputs import listed
from keras_attn.ops.token_losses import token_cross_entropy
from keras_attn.tasks.base.checks import check_count
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.pretraining.data import PretrainingLearned, SentenceIds
from keras_attn.tasks.pretraining.settings import PretrainingData, PretrainingUse
from keras_attn.text import WordPieceTokenizer
from keras_attn.training import num_data_shards
from keras_attn.visualize import LECTURE_SENTENCES

Tensor = Any
_WIDTHS = 16


class Guess(NamedTuple):
    """What a pretrained encoder says of a text.

    Example:

    >>> Guess("a [MASK]", [[("dog", 0.5), ("cat", 0.2)]], "a dog").filled
    'a dog'
    """

    text: str
    """The text, or the first of two."""
    masks: list[list[tuple[str, float]]]
    """For each `[MASK]` the most probable words with their probabilities, the best first."""
    filled: str
    """The text, or both with a space between them, with the best words in the masks."""
    second: str | None = None
    """The second text, if there is one."""
    follows: float | None = None
    """Probability that the second text follows the first."""


class PretrainingReport(NamedTuple):
    """How well an encoder guesses masked words and next sentences.

    Example:

    >>> print(PretrainingReport(20.0, 0.4, 1000, 0.8, 50))
    masked words: 40.0 % right of 1,000, perplexity 20.00
    next sentences: 80.0 % right of 50
    """

    perplexity: float
    """Exponential of the mean of `-log p(word)` over the masked words."""
    accuracy: float
    """Share of the masked words whose most probable guess is right."""
    masked_words: int
    """Number of masked words."""
    next_sentence_accuracy: float | None = None
    """Share of the pairs that are taken for what they are; None without next sentences."""
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
        """Returns the figures as a JSON-safe dict."""
        return {name: value for name, value in self._asdict().items() if value is not None}


Text = SentenceIds | Sequence[Sequence[str]]


class PretrainingPredictions(Task):
    """The predictions of a pretrained encoder: a base class of `Pretrainer`."""

    data: PretrainingData
    learned: PretrainingLearned

    @property
    def tokenizer(self) -> WordPieceTokenizer:
        """The tokenizer."""
        return self.learned.tokenizer

    @property
    def max_length(self) -> int:
        """Largest number of ids of a row, special tokens included."""
        return self.data.max_length

    @property
    def next_sentence(self) -> bool:
        """Whether the encoder learns which sentences follow each other."""
        return self.data.next_sentence

    def dataset(self, documents: Text, **settings: Any) -> MaskedBatches:
        """Makes batches for `model.fit`.

        Args:
            documents: Documents, each a list of sentences; or `SentenceIds`.
            **settings: Of `keras_attn.batches.MaskedBatches`: `batch_size`, `seed`, `shuffle`, ...

        Returns:
            `MaskedBatches`.

        Raises:
            ValueError: If there are too few documents, or they were encoded by another tokenizer.
        """
        ids = self.sentence_ids(documents)
        settings = {
            "max_length": self.max_length,
            "next_sentence": self.next_sentence,
            "segments": self.config.reads_segments,
            "rows_multiple_of": num_data_shards(),
            **settings,
        }
        return MaskedBatches(ids.shards, self.tokenizer, **settings)

    def sentence_ids(self, documents: Text) -> SentenceIds:
        """Encodes documents, if they are not encoded yet.

        Args:
            documents: Documents, each a list of sentences; or `SentenceIds`.

        Returns:
            `SentenceIds`.

        Raises:
            ValueError: If they were encoded by another tokenizer.
        """
        if not isinstance(documents, SentenceIds):
            return SentenceIds.encoded(documents, self.tokenizer)
        if documents.tokenizer.get_config() != self.tokenizer.get_config():
            raise ValueError(
                "Expected ids of this task's tokenizer. Received: those of another, with "
                f"{documents.tokenizer.vocabulary_size:,} tokens."
            )
        return documents

    @property
    def field(self) -> EncoderInput:
        """From texts to rows of ids."""
        between = self.config.ends_between
        return self.kept(
            lambda: EncoderInput(self.tokenizer, self.max_length, between=between), "field"
        )

    def predict(
        self,
        texts: Any,
        top_k: int = PretrainingUse.top_k,
        batch_size: int = PretrainingUse.batch_size,
    ) -> Any:
        """Guesses the words for each `[MASK]`, and whether a second text follows the first.

        Args:
            texts: A string, or a tuple of two strings; or a list of these.
            top_k: Number of words guessed for each `[MASK]`.
            batch_size: Texts computed at a time.

        Returns:
            A `Guess` for a text or pair, a list of them for a list. Masks behind the `max_length`
            tokens that are read have no guesses.

        Raises:
            TypeError: If an input is neither a string nor a pair of strings.
            ValueError: If a pair is given to an encoder that has not learned next sentences, or
                `top_k` is greater than the vocabulary.
        """
        check_count("batch_size", batch_size)
        check_count("top_k", top_k)
        if top_k > self.tokenizer.vocabulary_size:
            raise ValueError(
                f"`top_k` must be at most {self.tokenizer.vocabulary_size:,}, the number of "
                f"tokens. Received: {top_k}."
            )
        one = isinstance(texts, str | tuple)
        given = [_as_pair(text) for text in listed([texts] if one else texts, "texts")]
        if not self.next_sentence and any(second is not None for _, second in given):
            raise ValueError(
                "Expected single texts: this encoder has not learned which sentences follow each "
                "other. Received: a pair."
            )
        found: list[Any] = [None] * len(given)
        for paired in (False, True):
            rows = [i for i, (_, second) in enumerate(given) if (second is not None) == paired]
            for start in range(0, len(rows), batch_size):
                some = rows[start : start + batch_size]
                for i, guess in zip(
                    some, self._guesses([given[i] for i in some], top_k), strict=True
                ):
                    found[i] = guess
        return found[0] if one else found

    def _guesses(self, given: list[tuple[str, str | None]], top_k: int) -> list[Guess]:
        seconds = [second for _, second in given if second is not None] or None  # of all, or none
        ids, segments = self.field.encode([text for text, _ in given], seconds, _WIDTHS)
        at = [np.flatnonzero(row == self.tokenizer.mask_id) for row in ids]
        most = max([1, *map(len, at)])
        places = np.zeros((len(ids), 1 << (most - 1).bit_length()), "int32")
        for row, masks in zip(places, at, strict=True):
            row[: len(masks)] = masks
        most = min(rounded_count(top_k), self.tokenizer.vocabulary_size)
        run = self._run(("guess", most), self._guess_function(most))
        outputs = run(ids, 1, segments, places)
        words = self.tokenizer.tokens(outputs["ids"][..., :top_k])
        found = []
        for i, (text, second) in enumerate(given):
            guessed = [
                list(zip(words[i][m], outputs["probabilities"][i, m, :top_k].tolist(), strict=True))
                for m in range(len(at[i]))
            ]
            follows = float(outputs["follows"][i]) if second is not None else None
            best = [guesses[0][0] for guesses in guessed]
            of_first = int((segments[i, at[i]] == 0).sum())
            filled = _filled(text, best[:of_first])
            if second is not None:
                filled += f" {_filled(second, best[of_first:])}"
            found.append(Guess(text, guessed, filled, second, follows))
        return found

    def _guess_function(self, top_k: int) -> Callable:
        return lambda ids, length, segments, places: self.guess(ids, segments, places, top_k)

    def guess(self, ids: Tensor, segments: Tensor, places: Tensor, top_k: int) -> dict[str, Tensor]:
        """Computes guesses, on every backend and in the SavedModel.

        Args:
            ids: `(B, T)`; 0 is padding.
            segments: `(B, T)`.
            places: `(B, M)`: where words are guessed.
            top_k: Number of words guessed for each place.

        Returns:
            `ids` and `probabilities` `(B, M, top_k)`, and `follows` `(B,)` if the encoder has
            learned it.
        """
        logits = self.logits(ids, segments, places)
        p = ops.softmax(ops.cast(logits["masked_words"], "float32"), axis=-1)
        best, which = ops.top_k(p, top_k)
        found = {"ids": which, "probabilities": best}
        if self.next_sentence:
            p = ops.softmax(ops.cast(logits["next_sentence"], "float32"), axis=-1)
            found["follows"] = p[:, 0]
        return found

    def logits(self, ids: Tensor, segments: Tensor, places: Tensor) -> dict[str, Tensor]:
        """Calls the model for inference.

        Args:
            ids: `(B, T)`; 0 is padding.
            segments: `(B, T)`.
            places: `(B, M)`.

        Returns:
            The logits of each head.
        """
        ids = ops.convert_to_tensor(ids)  # Keras refuses dicts of tensors and arrays
        inputs = {
            "token_ids": ids,
            "segment_ids": ops.convert_to_tensor(segments),
            "padding_mask": ops.not_equal(ids, self.tokenizer.pad_id),
            "masked_positions": ops.convert_to_tensor(places),
        }
        return self.model({x: inputs[x] for x in self.model.input}, training=False)

    def explain(self, texts: Any = None) -> EncoderStudy:
        """Collects what each head of the encoder looks at in texts.

        Args:
            texts: A string, a pair of strings, or a list of these; the sentences of the lectures
                (`keras_attn.visualize.LECTURE_SENTENCES`) if None.

        Returns:
            An `EncoderStudy`: views for `attention_viewer`, the roles of the heads over all texts,
            and how far the heads differ. Its `html()` is a page.

        Raises:
            TypeError: If an input is neither a string nor a pair of strings.
            ValueError: If there is no text.
        """
        if texts is None:
            texts = [s.text if s.second is None else (s.text, s.second) for s in LECTURE_SENTENCES]
        texts = [texts] if isinstance(texts, str | tuple) else texts
        pairs = [_as_pair(text) for text in listed(texts, "texts")]
        return study_texts(self.model, self.field, [a if b is None else (a, b) for a, b in pairs])

    @staticmethod
    def page(explanations: EncoderStudy, title: str) -> str:
        """Returns an HTML page of what `explain` returned."""
        return explanations.html(title=title)

    def evaluate(
        self, documents: Any, batch_size: int = PretrainingUse.batch_size, seed: int = 0
    ) -> PretrainingReport:
        """Measures how well masked words and next sentences of documents are guessed.

        Args:
            documents: Documents, each a list of sentences; or `SentenceIds`.
            batch_size: Rows computed at a time.
            seed: Seed of the masks and pairs.

        Returns:
            A `PretrainingReport`. `print` shows it.

        Raises:
            ValueError: If there are too few documents.
        """
        batches = self.dataset(documents, batch_size=batch_size, seed=seed, shuffle=False)
        run = self._run("evaluate", self._losses)
        nats = right = words = pairs_right = pairs = 0.0
        for i in range(len(batches)):
            inputs, labels, weights = batches[i]
            segments = inputs.get("segment_ids", np.zeros_like(inputs["token_ids"]))
            found = run(
                inputs["token_ids"], 1, segments, inputs["masked_positions"], labels["masked_words"]
            )
            of_words = weights["masked_words"].astype("float64")
            nats += float((found["nats"] * of_words).sum())
            right += float((found["right"] * of_words).sum())
            words += float(of_words.sum())
            if self.next_sentence:
                some = weights["next_sentence"] > 0
                pairs += int(some.sum())
                pairs_right += int((found["apart"] == labels["next_sentence"])[some].sum())
        report = PretrainingReport(float(np.exp(nats / words)), right / words, int(words))
        if self.next_sentence:
            accuracy = pairs_right / pairs
            report = report._replace(next_sentence_accuracy=accuracy, pairs=int(pairs))
        return report

    def _losses(
        self, ids: Tensor, length: Any, segments: Tensor, places: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        logits = self.logits(ids, segments, places)
        of_words = ops.cast(logits["masked_words"], "float32")
        found = {
            "nats": token_cross_entropy(labels, of_words),
            "right": ops.cast(ops.equal(ops.argmax(of_words, axis=-1), labels), "int32"),
        }
        if self.next_sentence:
            found["apart"] = ops.argmax(logits["next_sentence"], axis=-1)
        return found

    def _run(self, key: Any, function: Callable) -> CompiledFunction:
        return self.kept(lambda: CompiledFunction(function, self.model), "run", key)

    @staticmethod
    def readable(result: Guess) -> str:
        """Returns a guess as the command writes it: a JSON object."""
        found = {
            "text": result.text,
            "second": result.second,
            "follows": None if result.follows is None else round(result.follows, 6),
            "filled": result.filled,
            "masks": [
                [{"word": word, "probability": round(p, 6)} for word, p in guesses]
                for guesses in result.masks
            ],
        }
        return json.dumps(found, ensure_ascii=False)


def _filled(text: str, words: list[str]) -> str:
    """Puts words into the first masks of a text."""
    for word in words:
        text = text.replace("[MASK]", word, 1)
    return text


def _as_pair(text: Any) -> tuple[str, str | None]:
    """A text and None, or two texts."""
    if isinstance(text, str):
        return text, None
    if isinstance(text, Iterable) and not isinstance(text, bytes):
        parts = tuple(text)
        if len(parts) == 2 and all(isinstance(part, str) for part in parts):
            return parts
    raise TypeError(f"Expected a string or a pair of strings. Received: {text!r:.100}.")
