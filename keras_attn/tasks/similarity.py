"""Similarity: scores the similarity of two texts, and computes vectors of texts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_attn.arrays import Array, ArrayModule, unit_length
from keras_attn.batches import EncoderBatches, ScoredPairBatches
from keras_attn.explain import Explanation
from keras_attn.explain.attributions import only_class
from keras_attn.fields import (
    ODD_TEXTS,
    Numbers,
    SeparateTexts,
    Signature,
    TextRows,
    checked_pairs,
)
from keras_attn.files import atomic_write, open_output
from keras_attn.metrics import CorrelationReport, evaluate_scores
from keras_attn.models import paired_encoder, sentence_encoder
from keras_attn.records import ScoredPair, ScoredPairs, read_scored_pairs, split_scored_pairs
from keras_attn.records.columns import numbered
from keras_attn.records.reading import Location
from keras_attn.records.scored_pairs import checked_scored_pairs
from keras_attn.settings import setting, with_defaults
from keras_attn.tasks.base.compiling import compiled_alike
from keras_attn.tasks.base.doubts import doubt_of, rows_of
from keras_attn.tasks.base.fine_tuning import EncoderTraining
from keras_attn.tasks.base.steps import step, values_for
from keras_attn.tasks.base.task_run import TrainingRun
from keras_attn.tasks.families.data_settings import (
    COLUMN_OR_NUMBER,
    Files,
    NearDuplicates,
    Tables,
    column,
)
from keras_attn.tasks.families.encoder_settings import (
    EncoderLearned,
    EncoderTokenizer,
)
from keras_attn.tasks.families.text_vectors import TextVectors, VectorData
from keras_attn.tasks.families.use_settings import BootstrapTest, PageUse

Pair = tuple[str, str]
Scored = ScoredPair | tuple[Pair, float]

_OF_VECTORS = ("pooling", "unit_length", "prompt")
_IN_ORDER = 0.5
"""Spearman's correlation above which scores are in the right order, whatever their values are."""


@dataclass(frozen=True)
@with_defaults(
    help={"train": "pairs of texts with scores to learn from"},
    words={"examples": "pairs", "bi": "bi: "},
)
class SimilarityData(VectorData, Tables, NearDuplicates, Files):
    """Settings of the pairs of texts with scores, and of the encoder."""

    first: str = column("sentence1", "first texts", COLUMN_OR_NUMBER)
    second: str = column("sentence2", "second texts", COLUMN_OR_NUMBER)
    score: str = column("score", "scores", COLUMN_OR_NUMBER)
    kind: str = setting(
        "bi", "bi encodes the texts separately and compares their vectors; cross reads both "
              "together",
        choices=("bi", "cross"),
    )  # fmt: skip
    prompt: str | None = setting(
        None, "bi: prefix of each text; if none, the prompt of a sentence-transformers "
        "backbone", kind=str,
    )  # fmt: skip
    lowest: float | None = setting(
        None, "score of unrelated texts; if none, the lowest of --train",
        kind=float,
    )  # fmt: skip
    highest: float | None = setting(
        None, "score of equivalent texts; if none, the highest of --train", kind=float
    )


@dataclass(frozen=True)
@with_defaults(
    words={
        "rows": "texts",
        "shown": "both texts with the words that made them similar, or what each head looks at",
    },
    steps={"batch_size": ("predict", "explain", "evaluate", "embed", "export")},
)
class SimilarityUse(PageUse):
    """Settings of predictions, vectors, pages and SavedModels of a similarity scorer."""

    normalize: bool = setting(False, "divide vectors by their lengths", steps=("embed", "export"))


@dataclass(frozen=True)
@with_defaults(words={"examples": "pairs with scores, as for fit"})
class SimilarityTest(BootstrapTest):
    """Settings for evaluating a similarity scorer."""


@dataclass(frozen=True)
class SimilarityLearned(EncoderLearned):
    """Learned values of a similarity scorer: its tokenizer and the range of the scores."""

    lowest: float = 0.0
    highest: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        lowest, highest = float(self.lowest), float(self.highest)
        object.__setattr__(self, "lowest", lowest)
        object.__setattr__(self, "highest", highest)
        if not (math.isfinite(lowest) and math.isfinite(highest) and lowest < highest):
            raise ValueError(
                "`lowest` must be below `highest`, and both must be finite. Received: "
                f"lowest={lowest}, highest={highest}."
            )


class SimilarityScorer(TextVectors):
    """Scores the similarity of two texts, trained on human scores.

        bi      y = cosine(vector(first), vector(second))        each text is read separately
        cross   y = pooled([CLS] first [SEP] second [SEP]) W + b

        score = lowest + (highest - lowest) y

    The data setting `kind` is `"bi"` or `"cross"`; W and b are the weights of the output layer.
    Training minimizes the mean squared error of y, for scores scaled to 0 to 1. `kind="bi"` has
    vectors of texts, which can be stored and compared later. `kind="cross"` reads both texts
    together; it is usually more accurate after training, but must run the encoder for each pair.

    `.model` is the plain Keras model from ids to `{"vectors": (B, D)}` with `kind="bi"`, or to
    `{"classes": (B, 1)}` with `kind="cross"`.

    References:
        - [Reimers and Gurevych, 2019](https://arxiv.org/abs/1908.10084): Sentence-BERT.

    Args:
        tokenizer: A `WordPieceTokenizer`, a `SentencePieceTokenizer`, a `BytePairTokenizer` with
            `normalize=False`, or a `WordTokenizer`.
        lowest: Score of unrelated texts.
        highest: Score of equivalent texts.
        model: Settings of the encoder: a `BertConfig`, `RobertaConfig`, `ModernBertConfig` or
            `BiLstmConfig`; a dict of some settings, such as `{"model": "roberta", "dim": 128}`; or
            None for the defaults of BERT.
        data: Settings of the data: a `SimilarityData`, or a dict of some of its settings: `kind` is
            `"bi"` or `"cross"`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer is not supported, or a setting of the data is
            unknown.
        ValueError: If a setting of the model is unknown, a setting is out of range, `lowest` is not
            below `highest`, the settings `pooling`, `unit_length` or `prompt` are given with
            `kind="cross"`, or the tokenizer normalizes texts.

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
    about = "Score how similar two texts are, and make vectors of texts."
    heads = ("classes",)
    num_classes = 1
    Data, Learned, Training = SimilarityData, SimilarityLearned, EncoderTraining
    Use, Test = SimilarityUse, SimilarityTest
    data: SimilarityData
    learned: SimilarityLearned
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are, inputs_are = "pairs", "pairs of strings"
    reads = "only_pairs"
    input_columns: ClassVar = {"first": "", "second": ""}
    predicts: ClassVar = {"score": float}
    signature_inputs: ClassVar = {"embed": ("text",)}
    backbone_settings = ("max_length", *_OF_VECTORS)

    @property
    def kind(self) -> str:
        """`"bi"` if the two texts are encoded separately, `"cross"` if they are read together."""
        return self.data.kind

    @property
    def pooling(self) -> str | None:
        """Pooling of token states to a vector with `kind="bi"`: `"average"` (also if None),
        `"first"` or `"max"`."""
        return self.data.pooling

    @property
    def prompts(self) -> tuple[str, str]:
        """The text that is added before each first text, and the text that is added before each
        second text. Both are the data setting `prompt`, or empty if it is None."""
        return (self.data.prompt or "",) * 2

    @property
    def lowest(self) -> float:
        """Score of unrelated texts."""
        return self.learned.lowest

    @property
    def highest(self) -> float:
        """Score of equivalent texts."""
        return self.learned.highest

    def configured(self, model: Any) -> Any:
        """Returns the settings object of the encoder; raises a ValueError if settings of vectors
        are given with `kind="cross"`."""
        for name in _OF_VECTORS:
            if getattr(self.data, name) is not None and self.kind != "bi":
                raise ValueError(
                    f"`{name}` is only used with kind='bi'. Received: "
                    f"{getattr(self.data, name)!r} with kind={self.kind!r}."
                )
        return super().configured(model)

    def build(self, dtype: Any) -> None:
        """Builds `.model`: with `kind="bi"`, an encoder of single texts; with `kind="cross"`, an
        encoder of pairs with an output for the score."""
        if self.kind == "cross":
            super().build(dtype)
        else:
            how = self.sentences
            self.model = sentence_encoder(
                self.config, how.pooling, dtype, self.name, how.unit_length
            )

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the kind, the encoder and the range of the scores."""
        return [self.kind, *super().facts(), f"scores from {self.lowest:g} to {self.highest:g}"]

    # Data and training

    @classmethod
    def reads_alone(cls, data: SimilarityData) -> bool:
        """Returns whether each text is encoded separately: True with `kind="bi"`."""
        return data.kind == "bi"

    @classmethod
    def read_file(cls, path: Location, data: SimilarityData) -> ScoredPairs:
        """Reads pairs of texts with scores from CSV, TSV, JSON lines or Parquet.

        Args:
            path: The file, or a table in memory as `keras_attn.records.Rows`.
            data: Settings of class `Data`.

        Returns:
            `keras_attn.records.ScoredPairs`.
        """
        first, second, score = numbered(data.first, data.second, data.score)
        return read_scored_pairs(
            path, first, second, score, data.format, delimiter=data.delimiter or None,
            on_error=data.on_error,
        )  # fmt: skip

    @classmethod
    def split(
        cls, examples: ScoredPairs, data: SimilarityData
    ) -> tuple[list[ScoredPair], list[ScoredPair]]:
        """Splits pairs at random into a list of training pairs and a list of development pairs.
        With `data.near_duplicates="apart"`, equal and nearly equal pairs stay together."""
        apart = data.near_duplicates == "apart"
        return split_scored_pairs(examples, data.dev_share, data.split_seed, apart)

    @classmethod
    def checked(cls, examples: Iterable[Scored]) -> list[ScoredPair]:
        """Checks pairs with scores, and returns them as a list of `ScoredPair`s."""
        return checked_scored_pairs(examples)

    @classmethod
    def texts_of(cls, examples: Sequence[ScoredPair], data: SimilarityData) -> Iterable[str]:
        """Returns the texts of all pairs, from which a tokenizer is trained."""
        return (text for pair in examples for text in pair[:2])

    @classmethod
    def learn_beside(
        cls, tokenizer: EncoderTokenizer, examples: Sequence[ScoredPair], data: SimilarityData
    ) -> SimilarityLearned:
        """Returns a `SimilarityLearned` with the tokenizer, and the lowest and the highest score:
        the settings `lowest` and `highest` of `data` or, where they are None, of the scores of the
        examples."""
        scores = [pair.score for pair in examples]
        return _range(tokenizer, data, min(scores), max(scores))

    @classmethod
    def from_backbone(cls, place: str, dtype: Any = None, **data: Any) -> Self:
        """Creates a scorer from a pretrained encoder, without examples.

        With `kind="bi"`, encoders that were trained for similarity, such as Sentence-BERT, need no
        further training. With `kind="cross"`, the output layer is random, so the scorer must be
        trained.

        Args:
            place: A file of a task with an encoder, or a folder or hub name of Hugging Face
                weights. With `kind="bi"`, a sentence-transformers model determines the settings
                `pooling`, `unit_length`, `max_length` and `prompt` that are not given.
            dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.
            **data: Settings of the data: `kind`, `pooling`, `unit_length`, `prompt`, `max_length`,
                `lowest` (0 if None), `highest` (1 if None).

        Returns:
            A `SimilarityScorer`, not compiled.

        Raises:
            ImportError: If `place` is a hub name, and the package that downloads it is not
                installed.
            OSError: If the file or folder does not exist, or the model cannot be downloaded.
            TypeError: If a setting is unknown or has the wrong type.
            ValueError: If the backbone has no encoder or no tokenizer, a setting is out of range,
                or a setting of `kind="bi"` is given with `kind="cross"`.
        """
        settings = cls.data_of((), {"backbone": str(place), **data})
        return cls.untrained(settings, dtype, lambda x: _range(x, settings, 0.0, 1.0))

    def dataset(
        self, examples: Iterable[Scored], **settings: Any
    ) -> EncoderBatches | ScoredPairBatches:
        """Creates batches for `fit` of the model that `trained_form` returns.

        Args:
            examples: `ScoredPair`s, or tuples ((first, second), score).
            **settings: Settings of `keras_attn.batches.EncoderBatches` or `ScoredPairBatches`:
                `batch_size`, `seed`, `shuffle`, ...

        Returns:
            `EncoderBatches` of rows with both texts if `kind="cross"`, or `ScoredPairBatches` if
            `kind="bi"`.

        Raises:
            ValueError: If an example has the wrong form, or a score is below `lowest` or above
                `highest`.
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
        texts = self.inputs_of(pairs)
        if self.kind == "bi":
            return self.pair_batches(texts, targets, **settings)
        rows = self.field.rows(*map(self.tokenizer.encode, zip(*texts, strict=True)))
        return self.row_batches(rows, {"classes": targets[:, None]}, **settings)

    def objective(self, training: EncoderTraining) -> dict[str, Any]:
        """Returns a dict with the `loss`: the mean squared error of scores scaled to 0 to 1."""
        output = "classes" if self.kind == "cross" else "similarity"
        return {"loss": {output: keras.losses.MeanSquaredError()}}

    def doubt(self, batches: EncoderBatches | ScoredPairBatches, run: TrainingRun) -> str:
        """Returns a warning if a run of at least two epochs ends with a training loss that is not
        below the loss of predicting the mean score for all pairs; an empty string otherwise.

        With `kind="bi"`, there is also no warning if Spearman's correlation of the development
        pairs is above 0.5.
        """
        if self.kind == "bi" and (run.best_score or 0.0) > _IN_ORDER:
            return ""
        scores, weights = rows_of(batches, "classes" if self.kind == "cross" else "similarity")
        scores = scores.reshape(len(scores))
        off = scores - weights @ scores / weights.sum()
        guess = float(weights @ off**2 / len(weights))
        return doubt_of(run, guess, "giving all pairs the mean score")

    def trained_form(self, training: EncoderTraining) -> keras.Model:
        """Returns the compiled model that `fit` trains: `model` with `kind="cross"`, and a model of
        pairs with the layers of `model` with `kind="bi"`."""
        if self.kind == "cross":
            return self.model
        return compiled_alike(paired_encoder(self.model), self.model)

    # Measuring

    def scored_by(self, training: EncoderTraining) -> tuple[str, int]:
        """Returns `"Spearman"`, for Spearman's correlation, and 1, because higher is better."""
        return "Spearman", 1

    def score(self, examples: Sequence[Scored]) -> dict[str, float]:
        """Returns a dict of `spearman` and `pearson`, the correlations between predicted and true
        scores. Both are NaN if all predicted scores or all true scores are equal."""
        report = self.evaluate(examples, num_bootstrap=0)
        return {"spearman": report.spearman.value, "pearson": report.pearson.value}

    def inputs_of(self, examples: Sequence[ScoredPair]) -> list[Pair]:
        """Returns the two texts of each scored pair."""
        return [(pair.first, pair.second) for pair in examples]

    def report(
        self,
        examples: Sequence[ScoredPair],
        results: Sequence[float],
        *,
        num_bootstrap: int,
        seed: int = 0,
    ) -> CorrelationReport:
        """Measures how well the predictions agree with the scores of examples.

        Args:
            examples: `ScoredPair`s, or tuples ((first, second), score).
            results: The predictions: a number for each example.
            num_bootstrap: Bootstrap samples for the confidence intervals; 0 for no intervals.
            seed: Seed of the bootstrap samples.

        Returns:
            A `CorrelationReport`, which `print` shows: Pearson's and Spearman's correlation.

        Raises:
            TypeError: If a setting is unknown.
            ValueError: If there is no example, an example has the wrong form, or a setting is out
                of range.
        """
        return evaluate_scores([x.score for x in examples], results, num_bootstrap, seed)

    # Predictions

    def signatures(self, use: SimilarityUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The inputs of `serving_default` are `text: string (B,)` and `second: string (B,)`, and its
        output is `score: float32 (B,)`. With `kind="bi"`, the signature `embed` has the input
        `text: string (B,)` and the output `vectors: float32 (B, D)`, of length 1 if `normalize` or
        the data setting `unit_length` is True.
        """
        alone = self.kind == "bi"
        prompt = self.prompts[0]
        rows = SeparateTexts(self.field, prompt) if alone else TextRows(self.field)
        compare = Signature(("text", "second"), rows, {"score": Numbers("score")})
        embed = {"embed": self.embed_signature(prompt)} if alone else {}
        return {"serving_default": compare, **embed}

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Array], use: SimilarityUse
    ) -> dict[str, Array]:
        """Computes scores or vectors from the outputs of the model.

        Args:
            xp: The array module: `numpy`, or `keras.ops` in the SavedModel.
            tensors: A dict of `classes (B, 1)`, the outputs for pairs; or of `vectors (R, D)` and,
                for scores, `first` and `second` `(B,)`, the row numbers of the texts of each pair.
            use: Settings of class `Use`.

        Returns:
            A dict of `score (B,)`; or, if `tensors` has `vectors` without `first`, of `vectors
            (R, D)`, of length 1 if `normalize` is True.
        """
        if "classes" in tensors:
            shares = tensors["classes"][:, 0]
        else:
            units = unit_length(xp, tensors["vectors"])
            if "first" not in tensors:
                return {"vectors": units if use.normalize else tensors["vectors"]}
            first, second = (xp.take(units, tensors[x], axis=0) for x in ("first", "second"))
            shares = xp.sum(first * second, axis=-1)
        return {"score": self.lowest + shares * (self.highest - self.lowest)}

    @staticmethod
    def is_one(inputs: Any) -> bool:
        """Returns whether the argument is a single pair: a tuple."""
        return isinstance(inputs, tuple)

    def asked(self, inputs: Any) -> list[Pair]:
        """Checks inputs, and returns them as a list of pairs of strings."""
        return checked_pairs(inputs)

    def results(self, pairs: Sequence[Pair], use: SimilarityUse) -> list[float]:
        """Predicts the similarity of two texts.

        Args:
            pairs: A tuple of two strings, or a list of such tuples.
            use: Settings of class `Use`.

        Returns:
            A number for a pair, or a list of numbers for a list, in the units of the training
            scores. Numbers may be below the lowest or above the highest training score.

        Raises:
            TypeError: If an input is not a pair of strings, or a setting is unknown.
            ValueError: If a setting is out of range.
        """
        text, second = zip(*pairs, strict=True)
        return self._computed({"text": text, "second": second}, use)["score"]

    def check_embeds(self) -> None:
        """Raises a ValueError with `kind="cross"`, which has no vectors of single texts."""
        if self.kind != "bi":
            raise ValueError(
                "Vectors of texts require kind='bi', which reads each text separately. "
                f"Received: kind={self.kind!r}, which reads both texts at once."
            )

    def studied(self, inputs: list[Pair]) -> list[Any]:
        """Returns the inputs whose attention `explain` shows: pairs with `kind="cross"`, and each
        distinct text with the prompt before it with `kind="bi"`."""
        if self.kind == "cross":
            return inputs
        return list(dict.fromkeys(text for pair in self.prompted(inputs) for text in pair))

    def reasons(self, pairs: list[Pair], use: SimilarityUse) -> list[Explanation]:
        """Computes how much each word contributes to the similarity of two texts, or collects the
        attention of all heads.

        Args:
            pairs: A tuple of two strings, or a list of such tuples.
            use: Settings of class `Use`.

        Returns:
            With `method="gradient"` (gradient times input) and `method="integrated_gradients"`, an
            `Explanation` for a tuple, or a list of `Explanation`s for a list. An `Explanation` has
            the contribution of each word of both texts to the score, in the units of the scores; a
            positive weight raises the score. With `method="attention"`, an `EncoderStudy` of single
            texts (`kind="bi"`) or of pairs (`kind="cross"`), whose `html()` returns a page.

        Raises:
            TypeError: If an input is not a pair of strings, or a setting is unknown.
            ValueError: If `method` has another value, a setting is out of range, or
                `method="attention"` and the encoder has no attention.
        """
        weights = self.cosine_weights if self.kind == "bi" else self._weights_together
        scores, spread = self.results(pairs, use), self.highest - self.lowest
        return self.explanations(
            pairs, scores, weights(pairs, use.batch_size, use.method), use.method, spread
        )

    def _weights_together(
        self, pairs: list[Pair], batch_size: int, method: str
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The weights of the pieces of the first and the second texts, which are read at once."""
        rows = self.field.rows(*map(self.tokenizer.encode, zip(*pairs, strict=True)))
        index = np.zeros(len(rows), "int32")
        weights = self.gradients(rows, only_class, index, batch_size, method)
        between = len(self.field.between)
        both = [(row, begin) for row, (_, begin) in zip(weights, rows, strict=True)]
        return [row[1 : begin - between] for row, begin in both], [row[b:-1] for row, b in both]

    @staticmethod
    def readable(result: float) -> str:
        """Returns a score with four decimals, as the command writes it."""
        return f"{result:.4f}"

    # The command and the SavedModel

    def checked_use(self, use: SimilarityUse) -> SimilarityUse:
        """Returns the settings of an export unchanged; raises a ValueError if `normalize` is True
        and `kind="cross"`."""
        if use.normalize:
            self.check_embeds()
        return use

    def export_examples(self) -> dict[str, Any]:
        """Returns a dict of `text` and `second`: ordinary and unusual texts to check an export."""
        return {"text": ODD_TEXTS, "second": ODD_TEXTS[3:] + ODD_TEXTS[:3]}

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
