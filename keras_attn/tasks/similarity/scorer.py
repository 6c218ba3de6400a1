"""Similarity: two texts in, how much alike they are out; and vectors of texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_attn.batches import EncoderBatches, ScoredPairBatches
from keras_attn.files import atomic_write, open_output
from keras_attn.models import paired_encoder, sentence_encoder
from keras_attn.records import ScoredPair, ScoredPairs, read_scored_pairs, split_scored_pairs
from keras_attn.records.columns import numbered
from keras_attn.records.scored_pairs import checked_scored_pairs
from keras_attn.tasks.base.compiling import compiled_alike
from keras_attn.tasks.base.doubts import doubt_of, rows_of
from keras_attn.tasks.base.steps import step, values_for
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import TrainingRun
from keras_attn.tasks.families.encoder_task import (
    EncoderTokenizer,
    EncoderTraining,
)
from keras_attn.tasks.similarity.predictions import SimilarityLearned, SimilarityPredictions
from keras_attn.tasks.similarity.settings import (
    SimilarityData,
    SimilarityTest,
    SimilarityUse,
)
from keras_attn.training import num_data_shards

Scored = ScoredPair | tuple[tuple[str, str], float]


_IN_ORDER = 0.5
"""Spearman's correlation above which scores are in the right order, whatever their values are."""


class SimilarityScorer(SimilarityPredictions):
    """A scorer of pairs of texts: how similar they are, by numbers that people gave.

        bi      score = cosine(vector(first), vector(second))        each text is read alone
        cross   score = pooled([CLS] first [SEP] second [SEP]) W + b

    Both learn scores that are scaled to 0 to 1, by the mean squared error. `bi` gives vectors of
    texts, which can be kept and compared later; `cross` looks at both texts at once, and is mostly
    better after training, but each pair costs a run of the encoder.

    `.model` is the plain Keras model: from ids to `{"vectors": (B, D)}`, or to
    `{"classes": (B, 1)}` of `cross`.

    References:
        - [Reimers and Gurevych, 2019](https://arxiv.org/abs/1908.10084): Sentence-BERT.

    Args:
        tokenizer: A `WordPieceTokenizer`, a `BytePairTokenizer` with `normalize=False`, or a
            `WordTokenizer`.
        lowest: Score of texts that have nothing in common.
        highest: Score of texts that say the same.
        model: Settings of the encoder: a `BertConfig` or `RobertaConfig`, a dict of its settings,
            or None.
        data: Settings `SimilarityData`, or a dict of some of them: `kind` is `"bi"` or `"cross"`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If a setting is unknown or out of range.

    Example:

    >>> pairs = [(("a dog", "a hound"), 5.0), (("a dog", "a red car"), 0.0)] * 4
    >>> sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32}
    >>> data = {"vocabulary_size": 60, "max_length": 16}
    >>> scorer = SimilarityScorer.create(pairs, data=data, model=sizes)
    >>> run = scorer.fit(pairs, epochs=12, batch_size=8, learning_rate=0.01, verbose=0)
    >>> scorer.predict(("a dog", "a hound")) > scorer.predict(("a dog", "a red car"))
    True
    >>> scorer.embed(["a dog", "a car"]).shape
    (2, 16)
    """

    name = "similarity"
    summary = "Score how similar two texts are, and make vectors of texts."
    heads = ("classes",)
    Data = SimilarityData
    Learned = SimilarityLearned
    Training = EncoderTraining
    Use = SimilarityUse
    Test = SimilarityTest
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are = "pairs"
    reads = "only_pairs"
    signature_inputs: ClassVar = {"embed": ("text",)}

    @property
    def pooling(self) -> str | None:
        """Of `"bi"`: `"average"` over all tokens, which None stands for, or `"first"`."""
        return self.data.pooling

    @property
    def num_classes(self) -> int:
        """A score."""
        return 1

    def configured(self, model: Any) -> Any:
        """Returns settings and sizes of the encoder."""
        if self.pooling is not None and self.kind != "bi":
            raise ValueError(
                f"`pooling` belongs to kind='bi'. Received: {self.pooling!r} with "
                f"kind={self.kind!r}."
            )
        return super().configured(model)

    def build(self, dtype: Any) -> None:
        """Builds the encoder of texts, or of pairs."""
        if self.kind == "cross":
            super().build(dtype)
        else:
            pooling = self.pooling or "average"
            self.model = sentence_encoder(self.config, pooling, dtype, self.name)

    def facts(self) -> list[str]:
        """What tells this scorer from others, for its `repr`."""
        return [self.kind, *super().facts(), f"scores from {self.lowest:g} to {self.highest:g}"]

    # Data and training

    @classmethod
    def read(cls, data: SimilarityData) -> Examples:
        """Reads pairs of texts with scores, from CSV, TSV or JSON lines.

        The columns are given by their names, or by their numbers (from 0) in a file without a
        header.
        """
        train = _read(data.train, data)
        if data.dev:
            dev = _read(data.dev, data)
            return Examples(train, dev, f"{train.summary()}\n{dev.summary()}")
        apart = data.near_duplicates == "apart"
        sides = split_scored_pairs(train, data.dev_share, data.split_seed, apart)
        return Examples(*sides, f"{train.summary()} Held out: {len(sides[1]):,}")

    def read_test(self, test: SimilarityTest, data: SimilarityData) -> ScoredPairs:
        """Reads pairs to measure with."""
        return _read(test.data, data)

    @classmethod
    def checked(cls, examples: Iterable[Scored]) -> list[ScoredPair]:
        """Returns pairs with their scores."""
        return checked_scored_pairs(examples)

    @classmethod
    def texts_of(cls, examples: Sequence[ScoredPair], data: SimilarityData) -> Iterable[str]:
        """Returns the texts of all pairs."""
        return (text for pair in examples for text in pair[:2])

    @classmethod
    def learn_beside(
        cls, tokenizer: EncoderTokenizer, examples: Sequence[ScoredPair], data: SimilarityData
    ) -> SimilarityLearned:
        """Returns the range of the scores, where the settings do not say it."""
        scores = [pair.score for pair in examples]
        return _range(tokenizer, data, min(scores), max(scores))

    @classmethod
    def from_backbone(cls, place: str, dtype: Any = None, **data: Any) -> Self:
        """Makes a scorer of a pretrained encoder that is not trained any more.

        Encoders that were trained for it, such as those of Sentence-BERT, give good vectors so.

        Args:
            place: A task with an encoder, or a folder of Hugging Face weights.
            dtype: As in the constructor.
            **data: Settings of the data: `kind`, `pooling`, `max_length`, `lowest` (0 if None),
                `highest` (1 if None).

        Returns:
            A `SimilarityScorer`.
        """
        settings = cls.Data.made({"backbone": str(place), **data})
        start = cls.start(list, settings, None, lambda x: _range(x, settings, 0.0, 1.0))
        return cls.begun(start, settings, dtype)

    def dataset(
        self, examples: Iterable[Scored], **settings: Any
    ) -> EncoderBatches | ScoredPairBatches:
        """Makes batches for `model.fit`; for `bi`, for that of the model of pairs.

        Args:
            examples: `ScoredPair`s, or tuples ((first, second), score).
            **settings: Of `keras_attn.batches.EncoderBatches` or `ScoredPairBatches`: `batch_size`,
                `seed`, `shuffle`, ...

        Returns:
            `EncoderBatches` of pairs that are read at once, or `ScoredPairBatches` of `bi`.

        Raises:
            ValueError: If a score is below the lowest or above the highest one.
        """
        pairs = checked_scored_pairs(examples)
        targets = np.array([pair.score for pair in pairs])
        wrong = (targets < self.lowest) | (targets > self.highest)
        if wrong.any():
            raise ValueError(
                f"Expected scores from {self.lowest:g} to {self.highest:g}. Received: "
                f"{targets[wrong][0]:g} at position {int(wrong.argmax())}. Give `lowest` and "
                "`highest` (--lowest, --highest)."
            )
        targets = ((targets - self.lowest) / (self.highest - self.lowest)).astype("float32")
        texts = [pair.first for pair in pairs], [pair.second for pair in pairs]
        sides = [self.tokenizer.encode(side) for side in texts]
        if self.kind == "cross":
            rows = self.field.rows(*sides)
            return self.row_batches(rows, {"classes": targets[:, None]}, **settings)
        firsts, seconds = ([ids for ids, _ in self.field.rows(side)] for side in sides)
        settings = {
            "segments": self.config.reads_segments,
            "pad_id": self.tokenizer.pad_id,
            "max_length": self.max_length,
            "rows_multiple_of": num_data_shards(),
            **settings,
        }
        return ScoredPairBatches(firsts, seconds, targets, **settings)

    def batches(
        self, examples: Sequence[Scored], training: EncoderTraining, shuffle: bool = True
    ) -> EncoderBatches | ScoredPairBatches:
        """Makes the batches of a training, see `dataset`."""
        return self.dataset(
            examples, batch_size=training.batch_size, seed=training.seed, shuffle=shuffle
        )

    def objective(self, training: EncoderTraining) -> dict[str, Any]:
        """The mean squared error of the scaled scores."""
        output = "classes" if self.kind == "cross" else "similarity"
        return {"loss": {output: keras.losses.MeanSquaredError()}}

    def doubt(self, batches: EncoderBatches | ScoredPairBatches, run: TrainingRun) -> str:
        """Says so if the training ended no better than with the mean score for all pairs.

        Of a bi-encoder the order of the scores may be right where their values are not.
        """
        if self.kind == "bi" and (run.best_score or 0.0) > _IN_ORDER:
            return ""
        scores, weights = rows_of(batches, "classes" if self.kind == "cross" else "similarity")
        scores = scores.reshape(len(scores))
        off = scores - weights @ scores / weights.sum()
        guess = float(weights @ off**2 / len(weights))
        return doubt_of(run, guess, "giving all pairs the mean score")

    def trained_form(self, training: EncoderTraining) -> keras.Model:
        """Returns the compiled model of pairs, with the layers of `model`."""
        if self.kind == "cross":
            return self.model
        return compiled_alike(paired_encoder(self.model), self.model)

    def scored_by(self, training: EncoderTraining) -> tuple[str, int]:
        """Spearman's correlation."""
        return "Spearman", 1

    def score(self, examples: Sequence[Scored]) -> dict[str, float]:
        """Measures both correlations; they are NaN if all scores are the same."""
        report = self.evaluate(examples, num_bootstrap=0)
        return {"spearman": report.spearman.value, "pearson": report.pearson.value}

    # Files and export

    def checked_use(self, use: SimilarityUse) -> SimilarityUse:
        """Returns the settings of an export."""
        if use.normalize:
            self.check_embeds()
        return use

    # The command

    @step(
        "embed",
        takes=("use",),
        reads="lines",
        writes="lines",
        to="file to write, JSON lines or .npy; standard output if none",
        device=True,
    )
    def _embed_lines(
        self, inputs: Iterable[list[str]], to: Path | None, use: SimilarityUse
    ) -> None:
        """Make a vector of each text, with a model of kind bi.

        FILES have one text on each line; standard input is read if there are none. The vectors are
        written as JSON lines, or as one array of float32 if the file of --to ends in .npy.
        """
        self.check_embeds()
        values = values_for(self.embed, use)
        if to is not None and to.suffix == ".npy":
            parts = [self.embed(lines, **values) for lines in inputs]
            with atomic_write(to) as partial, partial.open("wb") as binary:
                np.save(binary, np.concatenate(parts or [self.embed([])]), allow_pickle=False)
            return
        with open_output(to) as file:
            for lines in inputs:
                for text, vector in zip(lines, self.embed(lines, **values), strict=True):
                    row = {"text": text, "vector": [round(float(x), 7) for x in vector]}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()


def _range(
    tokenizer: EncoderTokenizer, data: SimilarityData, lowest: float, highest: float
) -> SimilarityLearned:
    """Returns the range of the scores: what the settings say, else what is given."""
    return SimilarityLearned(
        tokenizer,
        lowest if data.lowest is None else data.lowest,
        highest if data.highest is None else data.highest,
    )


def _read(path: str, data: SimilarityData) -> ScoredPairs:
    first, second, score = numbered(data.first, data.second, data.score)
    return read_scored_pairs(
        path,
        first,
        second,
        score,
        data.format,
        delimiter=data.delimiter or None,
        on_error=data.on_error,
    )
