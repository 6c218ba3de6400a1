"""Regression: predicts a number with an interval for a text or a pair of texts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attn.arrays import Array, ArrayModule
from keras_attn.batches import TextBatches
from keras_attn.explain.methods import DEFAULT
from keras_attn.fields import Numbers, Signature
from keras_attn.fields.signature import OutputField
from keras_attn.metrics import RegressionReport, conformal_margin, evaluate_numbers
from keras_attn.records import NumberedText, NumberedTexts, read_numbered_texts, split_numbered
from keras_attn.records.labelled_texts import Input
from keras_attn.records.numbered_texts import checked_numbered
from keras_attn.records.reading import Location
from keras_attn.settings import RunDefault, setting, with_defaults
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.doubts import doubt_of, rows_of
from keras_attn.tasks.base.fine_tuning import FineTuning
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.task_run import TrainingRun
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.data_settings import column
from keras_attn.tasks.families.encoder_settings import EncoderTokenizer
from keras_attn.tasks.families.frozen_head import HeadTraining
from keras_attn.tasks.families.text_rows_task import TextRowsData, TextRowsTask
from keras_attn.tasks.families.use_settings import BootstrapTest, WeighedUse
from keras_attn.text.registry import tokenizer_name
from keras_attn.training import num_data_shards

COVERAGE = 0.9
LOSSES = {
    "squared": keras.losses.MeanSquaredError,
    "absolute": keras.losses.MeanAbsoluteError,
    "huber": keras.losses.Huber,
}


class PredictedNumber(NamedTuple):
    """A predicted number and its interval.

    Example:

    >>> PredictedNumber(7.5, 5.0, 10.0).number
    7.5
    """

    number: float
    """The prediction."""
    low: float | None = None
    """The lower end of the interval; None without a margin, see `TextRegressor.calibrate`."""
    high: float | None = None
    """The upper end of the interval; None without a margin."""


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "file of texts with a number",
        "text_pair": "column, or JSON key, of the second texts, to read pairs of texts",
    },
    words={"examples": "texts", "when": "words: ", "then": ""},
)
class RegressionData(TextRowsData):
    """Settings of the texts and numbers, their split, and their tokens."""

    number: str = column("number", "numbers")


@dataclass(frozen=True)
@with_defaults(
    learning_rate=RunDefault(3e-3, lora=1e-3, backbone=1e-4, encoder=5e-4),
    weight_decay=RunDefault(0.0, backbone=0.01),
    help={
        "tune": "what is trained: all; head, only the output layer, by ridge regression on the "
        "vectors of the encoder, which are computed once; or head_first, the head in this way and "
        "then all"
    },
    words={"rows": "texts", "examples": "texts"},
)
class RegressionTraining(HeadTraining, FineTuning):
    """Settings for training a regressor."""

    epochs: int | None = setting(
        default_epochs(4, head=0), "passes over the training texts; 0 with --tune head", at_least=0
    )
    loss_kind: str = setting(
        "squared", "error that training minimizes, in standard deviations of the numbers: squared "
            "predicts means, absolute predicts medians, and huber is absolute above 1",
        choices=tuple(LOSSES),
    )  # fmt: skip
    coverage: float = setting(
        COVERAGE,
        "share of the numbers that the interval of a prediction should contain",
        above=0,
        below=1,
    )


@dataclass(frozen=True)
@with_defaults(
    help={
        "method": "how tokens are weighted: by gradients, by integrated gradients, or by the "
        "attention of the pooling (of a Transformer without it, explain shows what each head "
        "looks at); if none, integrated_gradients, and in an export gradient, which is faster"
    },
    words={"rows": "texts"},
    steps={"method": ("explain", "export")},
)
class RegressionUse(WeighedUse):
    """Settings of predictions, pages and SavedModels of a regressor."""


@dataclass(frozen=True)
@with_defaults(words={"examples": "file of texts with a number, as for fit"})
class RegressionTest(BootstrapTest):
    """Settings for evaluating a regressor."""


@dataclass(frozen=True)
class RegressionLearned(Learned):
    """Learned values of a regressor: its tokenizer, and the distribution of its numbers."""

    tokenizer: EncoderTokenizer
    mean: float = 0.0
    """Mean of the training numbers; it is subtracted before training."""
    deviation: float = 1.0
    """Standard deviation of the training numbers, by which they are divided before training."""
    median: float = 0.0
    """Median of the training numbers, the baseline in `evaluate`."""
    pairs: bool = False
    """Whether the regressor reads pairs of texts."""
    margin: float | None = None
    """Half the width of the intervals; None for no intervals."""

    def __post_init__(self) -> None:
        super().__post_init__()
        tokenizer_name(self.tokenizer)  # one that can be saved
        finite = all(map(math.isfinite, (self.mean, self.deviation, self.median)))
        if not finite or self.deviation <= 0:
            raise ValueError(
                "`mean` and `median` must be finite, and `deviation` must be above 0. "
                f"Received: mean={self.mean}, deviation={self.deviation}, "
                f"median={self.median}."
            )


class TextRegressor(TextRowsTask):
    """A regressor that predicts a number with an interval for texts or pairs of texts.

        prediction = mean + deviation * model(text)
        interval   = prediction - margin  to  prediction + margin

    The model learns standardized numbers, `(y - mean) / deviation` of the training numbers; a new
    run that starts from a saved regressor uses the mean and deviation of its own numbers. The
    margin comes from split conformal prediction on the development texts; see `calibrate`. `.model`
    is the plain Keras model from the ids of B texts to their standardized numbers, `(B, 1)`.

    Args:
        tokenizer: A `BytePairTokenizer`, `SentencePieceTokenizer`, `WordPieceTokenizer` or
            `WordTokenizer`.
        mean: Mean of the training numbers.
        deviation: Standard deviation of the training numbers.
        median: Median of the training numbers.
        pairs: Whether the regressor reads pairs of texts, as one row `first [SEP] second`.
        margin: Half the width of the intervals; None for no intervals.
        model: Settings of the model, as in `TextClassifier`: a settings object, or a dict of some
            settings with the name of the model, `{"model": "rnn", ...}`: `"bag"` (the default),
            `"rnn"`, `"transformer"`, `"bert"`, `"roberta"` or `"modern_bert"`.
        data: Settings of the data: a `RegressionData`, or a dict of some of its settings.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer is not supported, or a setting of the data is
            unknown.
        ValueError: If a setting of the model is unknown, a setting is out of range, `mean` or
            `median` is not finite, or `deviation` is not above 0.

    Example:

    >>> examples = [("good " * n, 5.0) for n in (1, 2)] + [("bad " * n, 1.0) for n in (1, 2)]
    >>> sizes = {"dim": 8, "pair_buckets": 0}
    >>> regressor = TextRegressor.create(examples, model=sizes, data={"vocabulary_size": 260})
    >>> run = regressor.fit(examples, epochs=20, batch_size=4, learning_rate=0.1, verbose=0)
    >>> regressor.predict("a good one").number > regressor.predict("a bad one").number
    True
    """

    name = "regression"
    about = "Predict a number from a text or a pair of texts, such as stars from a review."
    Data, Learned = RegressionData, RegressionLearned
    Training, Use, Test = RegressionTraining, RegressionUse, RegressionTest
    selects = ("mean_absolute_error", "min")
    predicts: ClassVar = {"number": float, "low": float, "high": float}
    continues = True
    data: RegressionData
    learned: RegressionLearned

    @property
    def num_outputs(self) -> int:
        """Number of outputs of the model: 1, the standardized number."""
        return 1

    # What it learns from

    @classmethod
    def read_file(cls, path: Location, data: RegressionData) -> NumberedTexts:
        """Reads texts with numbers from CSV, TSV, JSON lines or Parquet.

        With a column of second texts (--text-pair), pairs are read. Held-out texts determine the
        best weights and the width of the intervals.

        Args:
            path: The file, or a table in memory as `keras_attn.records.Rows`.
            data: Settings of class `Data`.

        Returns:
            `keras_attn.records.NumberedTexts`.
        """
        names = ("text", "number", "text_pair", "format", "on_error")
        settings = {name: getattr(data, name) for name in names}
        return read_numbered_texts(path, delimiter=data.delimiter or None, **settings)

    @classmethod
    def split(
        cls, examples: Sequence[NumberedText], data: RegressionData
    ) -> tuple[list[NumberedText], list[NumberedText]]:
        """Splits texts at random into a list of training texts and a list of development texts.
        With `data.near_duplicates="apart"`, equal and nearly equal texts stay together."""
        apart = data.near_duplicates == "apart"
        return split_numbered(examples, data.dev_share, data.split_seed, apart)

    @classmethod
    def checked(cls, examples: Iterable[object]) -> list[NumberedText]:
        """Checks texts with numbers, and returns them as a list: all single texts, or all pairs."""
        return checked_numbered(examples)

    @classmethod
    def begin(
        cls, examples: Sequence[Any], data: RegressionData, model: Any, dtype: Any, **parts: Any
    ) -> Beginning:
        """Returns the `Beginning` of a new regressor: tokenizer, statistics of the numbers, and
        model. Raises a ValueError if all numbers are equal."""
        checked = cls.checked(examples)
        numbers = np.array([x.number for x in checked])
        if numbers.min() == numbers.max():
            raise ValueError(
                f"Expected texts with different numbers. Received: {numbers[0]:g} for all "
                f"{len(numbers):,}. If another column has the numbers, name it with `number` "
                "(--number)."
            )
        spread: dict[str, Any] = {**_spread(numbers), "pairs": checked[0].second is not None}
        return cls.begin_with(
            checked, data, model, lambda tokenizer: RegressionLearned(tokenizer, **spread)
        )

    def learn_from(self, examples: Sequence[NumberedText]) -> None:
        """Learns the mean, deviation and median of the numbers of a new run that starts from a
        saved regressor: its standardized predictions stay the same. Equal numbers have no
        deviation; the former one is kept."""
        spread = _spread(np.array([x.number for x in self.checked(examples)]))
        spread["deviation"] = spread["deviation"] or self.learned.deviation
        self.relearn(**spread)

    def token_classes(self, examples: Sequence[NumberedText]) -> np.ndarray:
        """Returns an int32 array `(n,)`, from which token weights are initialized: 1 for each text
        whose number is above the median of the training numbers, else 0."""
        return np.array([x.number > self.learned.median for x in examples], "int32")

    def targets(self, examples: Sequence[NumberedText]) -> np.ndarray:
        """Returns the standardized numbers of examples, float32 `(n,)`."""
        numbers = np.array([x.number for x in self.checked(examples)])
        return ((numbers - self.learned.mean) / self.learned.deviation).astype("float32")

    def dataset(self, examples: Iterable[object], **settings: Any) -> TextBatches:
        """Makes batches of ids and standardized numbers for `model.fit`.

        Args:
            examples: Texts or pairs with a number, as for `fit`.
            **settings: Settings of `keras_attn.batches.TextBatches`: `batch_size`, `seed`,
                `shuffle`, ...

        Returns:
            `TextBatches`, with the numbers as float32 `(B, 1)`.

        Raises:
            ValueError: If an example is not a text with a finite number.
        """
        checked = self.checked(examples)
        settings = {"rows_multiple_of": num_data_shards(), **settings}
        inputs = self.asked(self.inputs_of(checked))
        return self.labelled_batches(inputs, self.targets(checked)[:, None], None, **settings)

    def objective(self, training: RegressionTraining) -> dict[str, Any]:
        """Returns a dict with the `loss`: the error of the standardized numbers that
        `training.loss_kind` names (`"squared"`, `"absolute"` or `"huber"`)."""
        # Rows that only fill a batch have no weight.
        return {"loss": LOSSES[training.loss_kind]()}

    def doubt(self, batches: TextBatches, run: TrainingRun) -> str:
        """Returns a warning if a run of at least two epochs ends with a training loss that is not
        below the loss of predicting the same number for all texts; an empty string otherwise."""
        numbers, weights = rows_of(batches)
        loss = keras.losses.get(self.model.loss)
        guesses = [np.full_like(numbers, guess) for guess in (0.0, np.median(numbers))]
        least = min(float(loss(numbers, guess, weights)) for guess in guesses)
        return doubt_of(run, least, "giving all texts the same number")

    def finish(self, dev: Sequence[object], training: RegressionTraining) -> str:
        """Chooses the width of the intervals with `calibrate`, and returns a note about it, which
        is empty without development texts.

        Args:
            dev: Development texts; without any, there are no intervals.
            training: Settings of class `Training`, with the `coverage`.
        """
        if not len(dev):
            self.relearn(margin=None)
            return ""
        margin = self.calibrate(dev, training.coverage)
        if margin is None:
            return f"no intervals, as {len(dev)} development texts are too few for them"
        return f"intervals of +- {margin:.4g} for {training.coverage:.0%} of the numbers"

    def calibrate(
        self,
        examples: Iterable[object],
        coverage: float = COVERAGE,
        batch_size: int = RegressionUse.batch_size,
    ) -> float | None:
        """Chooses the width of the intervals by split conformal prediction.

        `fit` calls this method with the development texts. Because the development texts also
        determined the best weights, the intervals may be slightly too narrow; for exact coverage,
        call this method with other held-out texts.

        Args:
            examples: Texts with numbers that are used neither for training nor for the test.
            coverage: Probability that an interval contains the true number, above 0 and below 1.
            batch_size: Number of texts that are computed at once.

        Returns:
            The margin, half the width of the intervals (see `keras_attn.metrics.conformal_margin`);
            None, for no intervals, if there are too few texts.

        Raises:
            ValueError: If `coverage` is out of range, or an example is not a text with a number.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"`coverage` must be above 0 and below 1. Received: {coverage!r}.")
        checked = self.checked(examples)
        results = self.results(self.inputs_of(checked), self.Use(batch_size=batch_size))
        margin = conformal_margin(
            [x.number for x in checked], [x.number for x in results], coverage
        )
        self.relearn(margin=margin)
        return margin

    def report(
        self,
        examples: Sequence[NumberedText],
        results: Sequence[PredictedNumber],
        *,
        num_bootstrap: int,
        seed: int = 0,
    ) -> RegressionReport:
        """Measures how far predictions are from the numbers of texts.

        Args:
            examples: Texts or pairs with a number, as for `fit`.
            results: The predictions: a `PredictedNumber` for each example.
            num_bootstrap: Bootstrap samples for the confidence intervals; 0 for no intervals.
            seed: Seed of the bootstrap samples.

        Returns:
            A `RegressionReport`, which `print` shows: the mean absolute error, the mean absolute
            error of always predicting the median of the training numbers, the root mean squared
            error, Pearson's and Spearman's correlation and, if the regressor has a margin, the
            share of the numbers that lie in the intervals of their predictions.

        Raises:
            TypeError: If a setting is unknown.
            ValueError: If there is no example, an example is not a text with a finite number, or a
                setting is out of range.
        """
        learned = self.learned
        return evaluate_numbers(
            [x.number for x in examples],
            [x.number for x in results],
            learned.median,
            learned.margin,
            num_bootstrap,
            seed,
        )

    def figures(self, report: RegressionReport) -> dict[str, float]:
        """Returns a dict of `mean_absolute_error`, `root_mean_squared_error`, `pearson` and
        `spearman` of a report."""
        names = ("mean_absolute_error", "root_mean_squared_error", "pearson", "spearman")
        return {name: getattr(report, name).value for name in names}

    # Predictions

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Array], use: RegressionUse
    ) -> dict[str, Array]:
        """Computes the numbers and intervals of a batch, in Python and in the SavedModel.

        Args:
            xp: The array module, `keras.ops`.
            tensors: A dict of `row_ids (B, T)`, the padded ids of B rows, and `row_seconds (B,)`,
                the positions where their second texts begin.
            use: Settings of class `Use`; its `method` determines the token weights.

        Returns:
            A dict of `number (B,)`, the predictions; `low` and `high` `(B,)`, the ends of the
            intervals, if the task has learned a margin; and, if `method` is not None, the `ids`,
            `weights` and `segments` of the tokens and their number `sizes (B,)`. Unless
            `method="attention"`, weights are in the units of the numbers.
        """
        raw, found = self.weighed(tensors, use.method)
        learned = self.learned
        number = learned.mean + learned.deviation * ops.cast(raw, "float32")[:, 0]
        if use.method in ("gradient", "integrated_gradients"):
            found["weights"] = found["weights"] * learned.deviation
        if learned.margin is not None:
            found |= {"low": number - learned.margin, "high": number + learned.margin}
        return {"number": number, **found}

    def results(self, inputs: Sequence[Input], use: RegressionUse) -> list[PredictedNumber]:
        """Predicts the number of a text, or of a pair of texts.

        Args:
            inputs: A text, or a pair of texts as a tuple of two strings; or a list of texts or
                pairs.
            use: Settings of class `Use`.

        Returns:
            A `PredictedNumber` for one input, or a list of `PredictedNumber`s for a list of inputs.

        Raises:
            TypeError: If an input is neither a string nor a pair of strings, or a setting is
                unknown.
            ValueError: If a pair is given where single texts are expected, or the reverse; or if a
                setting is out of range.
        """
        found = self.predicted(inputs, use)
        names = [name for name in PredictedNumber._fields if name in found]
        rows = zip(*(map(float, found[name]) for name in names), strict=True)
        return [PredictedNumber(*row) for row in rows]

    def explained(self, inputs: Sequence[Input], use: RegressionUse) -> Any:
        """Explains predicted numbers by the weight of each token.

        Args:
            inputs: A text, or a pair of texts as a tuple of two strings; or a list of texts or
                pairs.
            use: Settings of class `Use`.

        Returns:
            An `Explanation` for one input, or a list of `Explanation`s for a list of inputs. Unless
            `method="attention"`, weights are in the units of the number, and a token with a
            positive weight increases the number. With `method="attention"`, if the model has only
            self-attention, an `EncoderStudy` of all inputs. `page` creates an HTML page from any of
            these results.

        Raises:
            TypeError: If an input is neither a string nor a pair of strings, or a setting is
                unknown.
            ValueError: If a pair is given where single texts are expected, or the reverse; if
                `method` is unknown; or if `method="attention"` and the model has no attention.
        """
        method = self.checked_method(use.method or DEFAULT)
        return self.shown(inputs, dataclasses.replace(use, method=method))

    def said(
        self, found: Mapping[str, Any], number: int, use: RegressionUse
    ) -> tuple[str, dict[str, float]]:
        """Returns the predicted number of the input with the index `number` as a text of 4
        significant digits, and an empty dict, because there are no probabilities."""
        return f"{found['number'][number]:.4g}", {}

    # The SavedModel

    def signatures(self, use: RegressionUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The input of `serving_default` is `text: string (B,)`, and `second: string (B,)` for pairs.
        Its outputs have the same values as the results of this object:

            number    float32 (B,)    the prediction
            low       float32 (B,)    the lower end of the interval; missing without a margin
            high      float32 (B,)    the upper end of the interval; missing without a margin
            tokens    string (B, S)   tokens that the model read, `""` in padding
            weights   float32 (B, S)  weights of the tokens, as in `explain`
            segments  int32 (B, S)    for pairs: 1 for the tokens of the second text
        """
        names = PredictedNumber._fields if self.learned.margin is not None else ("number",)
        outputs: dict[str, OutputField] = {name: Numbers(name) for name in names}
        return {"serving_default": self.with_tokens(outputs)}

    def checked_use(self, use: WeighedUse) -> WeighedUse:
        """Returns the settings of an export, with `method="gradient"` if `method` is None; raises a
        ValueError if the model does not support the method."""
        return super().checked_use(dataclasses.replace(use, method=use.method or "gradient"))

    @property
    def export_tolerance(self) -> float:
        """Maximum difference between numbers of the SavedModel and of this object; it grows with
        the mean and the deviation of the training numbers."""
        learned = self.learned
        return super().export_tolerance * max(1.0, learned.deviation, abs(learned.mean))


def _spread(numbers: np.ndarray) -> dict[str, float]:
    """The mean, deviation and median of numbers, which float32 must be able to tell apart."""
    mean = float(numbers.mean())
    deviation = float(numbers.std()) if np.ptp(numbers) else 0.0  # which rounding makes 1e-17
    step = float(np.spacing(np.float32(abs(mean))))
    if 0 < deviation < 50 * step:
        raise ValueError(
            f"Expected numbers that differ by more than float32 can resolve, {step:g} here. "
            f"Received: a mean of {mean:.10g} with a standard deviation of {deviation:g}. Subtract "
            "a constant from all numbers, such as the smallest one."
        )
    return {"mean": mean, "deviation": deviation, "median": float(np.median(numbers))}
