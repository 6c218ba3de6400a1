"""Base class of classifiers of texts and pairs of texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np

from keras_attn.batches import TextBatches
from keras_attn.metrics import ClassificationReport, evaluate_probabilities, fit_temperature
from keras_attn.metrics.unknown import evaluate_unknown
from keras_attn.records.class_labels import class_names_of, label_numbers
from keras_attn.settings import Settings
from keras_attn.tasks.base.continuing import lacking
from keras_attn.tasks.base.doubts import doubt_of, loss_of_shares
from keras_attn.tasks.base.task_run import Scored, TrainingRun
from keras_attn.tasks.families.class_predictions import ClassLearned, ClassPredictions
from keras_attn.tasks.families.class_weights import (
    ClassTraining,
    ClassWeight,
    example_weights,
    warn_of_imbalance,
    weights_of_classes,
)
from keras_attn.tasks.families.unknown import check_one_label
from keras_attn.tasks.families.use_settings import ClassUse, SplitTest
from keras_attn.training import WeightedBinaryCrossentropy, num_data_shards

TEMPERATURES = (0.2, 10.0)
FEWEST_FOR_TEMPERATURE = 30
"""With fewer development examples `fit` leaves the temperature at 1."""


class ClassTask(ClassPredictions):
    """Base class of tasks that classify texts or pairs of texts.

    A subclass implements `labelled_batches` and the methods that `ClassPredictions` needs.
    """

    Test: ClassVar[type[Settings]] = SplitTest
    batched_by = ("batch_size", "seed", "class_weight")
    continues = True

    @classmethod
    def unlike(cls, learned: ClassLearned, examples: Any, data: Any) -> str:
        """Returns which labels of the examples, other than `unknown`, a saved classifier lacks, or
        that `unknown` is one of its classes; empty otherwise."""
        unknown = getattr(data, "unknown", "")
        if unknown in learned.class_names:
            return f"its class {unknown!r} as the label `unknown` of no class"
        labels = cls.labels_of(cls.checked(examples))
        names = class_names_of([x for x in labels if not unknown or x != unknown])
        lacks = lacking(names, learned.class_names)
        return lacks or super().unlike(learned, examples, data)

    def of_classes(self, examples: Sequence[Any]) -> list[Any]:
        """Returns checked examples, without those whose label is `unknown`; raises a ValueError if
        all have this label."""
        if self.multi_label:
            check_one_label(self.unknown)
        labels = self.labels_of(examples) if self.unknown else [None] * len(examples)
        pairs = zip(examples, labels, strict=True)
        found = [x for x, label in pairs if label is None or label != self.unknown]
        if examples and not found:
            raise ValueError(
                f"Expected {self.examples_are} with a class, one of {list(self.class_names)}. "
                f"Received: {len(examples):,}, all with the label {self.unknown!r} of `unknown` "
                "(--unknown). Add some with a class."
            )
        return found

    def numbers_of(self, examples: Sequence[Any]) -> np.ndarray:
        """Returns the labels of examples as numbers: int32 `(n,)`, or float32 `(n, C)` of 0 and 1
        if an example may have several labels."""
        return label_numbers(self.labels_of(examples), self.class_names, self.multi_label)

    def dataset(
        self, examples: Iterable[object], class_weight: ClassWeight = None, **settings: Any
    ) -> TextBatches:
        """Creates batches for `model.fit`.

        Args:
            examples: Labelled texts or pairs, as for `fit`.
            class_weight: None gives every example the same weight, and `"balanced"` gives every
                class the same total weight. A dict has weights of classes, keyed by name; other
                classes have weight 1. If examples have several labels, it must be None, because
                the loss applies the weights: pass `class_weight` to `fit` instead.
            **settings: Settings of the batches: `batch_size`, `seed`, `shuffle`, ...

        Returns:
            `keras_attn.batches.TextBatches`, or `PairBatches` if the model reads the two texts of a
            pair separately.

        Raises:
            ValueError: If an example has no label, a label or a name in `class_weight` is not
                among the classes, or `class_weight` is given although examples have several
                labels.
        """
        checked = self.of_classes(self.checked(examples))
        labels, inputs = self.numbers_of(checked), self.asked(self.inputs_of(checked))
        if self.multi_label and class_weight is not None:
            raise ValueError(
                "If examples have several labels, `class_weight` is a setting of the loss. "
                f"Received: class_weight={class_weight!r}. Pass it to `fit`, or compile the "
                "model with keras_attn.training.WeightedBinaryCrossentropy."
            )
        weights = example_weights(labels, self.class_names, class_weight)
        settings = {"rows_multiple_of": num_data_shards(), **settings}
        return self.labelled_batches(inputs, labels, weights, **settings)

    def batches(
        self, examples: Sequence[object], training: ClassTraining, shuffle: bool = True
    ) -> TextBatches:
        """Creates the batches of a training run with `dataset`, and warns about rare classes."""
        of_rows = dataclasses.replace(training, class_weight=None) if self.multi_label else training
        batches = super().batches(examples, of_rows, shuffle)
        if training.class_weight is None:
            warn_of_imbalance(self.labels_of(self.checked(examples)), self.class_names)
        return batches

    def for_examples(self, training: ClassTraining, examples: Sequence[Any]) -> ClassTraining:
        """Returns the training settings that `objective` receives. If examples have several labels,
        `class_weight="balanced"` is replaced by a dict of the weights of the labels."""
        if not self.multi_label or training.class_weight != "balanced":
            return training
        weights = weights_of_classes(self.targets(examples), self.class_names, "balanced")
        table = dict(zip(self.class_names, weights.tolist(), strict=True))
        return dataclasses.replace(training, class_weight=table)

    def objective(self, training: ClassTraining) -> dict[str, Any]:
        """Returns a dict of `loss` and `weighted_metrics`: cross-entropy and accuracy or, if an
        example may have several labels, binary cross-entropy and the accuracy of the decisions on
        all labels."""
        loss: keras.losses.Loss
        metric: keras.metrics.Metric
        if self.multi_label:
            loss = keras.losses.BinaryCrossentropy(from_logits=True)
            if training.class_weight == "balanced":
                raise ValueError(
                    "`class_weight` must be a table from labels to weights here, because the "
                    "examples are not known before `fit`. Received: 'balanced'. Pass it to "
                    "`fit`."
                )
            if training.class_weight is not None:
                weights = weights_of_classes([], self.class_names, training.class_weight)
                loss = WeightedBinaryCrossentropy(weights.tolist())
            # Of decisions. The reports' accuracy is of texts that have all labels right.
            metric = keras.metrics.BinaryAccuracy(name="binary_accuracy", threshold=0.0)
        else:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            metric = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        # Rows that only fill a batch have no weight.
        return {"loss": loss, "weighted_metrics": [metric]}

    def doubt(self, batches: TextBatches, run: TrainingRun) -> str:
        """Returns a warning if the final training loss is not below the loss of a constant guess;
        an empty string otherwise."""
        weights = getattr(getattr(self.model, "loss", None), "pos_weight", None)
        guess = loss_of_shares(batches, weights)
        return doubt_of(run, guess, "guessing labels only by their shares")

    def guesses(
        self, examples: Sequence[Any], results: Mapping[str, Any]
    ) -> tuple[list[str], list[str]]:
        """Returns the names of the predicted labels, and the names of the examples' labels."""
        return [*map(_name_of, self._labels(results))], [*map(_name_of, self.labels_of(examples))]

    def scored_by(self, training: ClassTraining) -> tuple[str, int]:
        """Returns `training.score` (`"accuracy"` or `"macro_f1"`), and 1: higher is better."""
        return training.score, 1

    def scorer(
        self, dev: Iterable[object], training: ClassTraining
    ) -> Callable[[keras.Model], Scored]:
        """Returns a function that computes the accuracy, macro F1 and log loss of development
        examples. If scores are equal, the weights with the lower log loss are better."""
        dev = list(dev)
        if not dev:
            raise ValueError(
                f"Expected development {self.examples_are}, by which the best weights are chosen. "
                f"Received: none. Use more {self.examples_are}, a larger `dev_share`, or a file "
                "of development examples."
            )
        examples = self.of_classes(self.checked(dev))
        labels, inputs = self.numbers_of(examples), self.asked(self.inputs_of(examples))
        tensors, use = self.encoded(inputs), self.Use()

        def score(model: keras.Model) -> Scored:
            found = self.computed(tensors, use)["probabilities"]
            report = evaluate_probabilities(
                labels, found, num_bootstrap=0, thresholds=self.thresholds
            )
            names = ("accuracy", "macro_f1", "log_loss")
            figures = {f"val_{name}": float(getattr(report, name).value) for name in names}
            return Scored((figures[f"val_{training.score}"], -figures["val_log_loss"]), figures)

        return score

    def prepare(
        self, examples: Sequence[Any], dev: Sequence[Any], training: Any, log: Callable[[str], Any]
    ) -> None:
        """Prepares a new training run; raises a ValueError if the setting `unknown` is given and no
        development example has this label."""
        if self.unknown and self.unknown not in self.labels_of(self.checked(dev) if dev else []):
            raise ValueError(
                f"Expected development {self.examples_are} with the label {self.unknown!r} of "
                "`unknown` (--unknown), by which the threshold is chosen. Received: none of "
                f"{len(dev):,}. Provide some, or leave `unknown` out."
            )
        super().prepare(examples, dev, training, log)

    def targets(self, examples: Sequence[Any]) -> np.ndarray:
        """Returns the labels of examples as numbers, without examples whose label is `unknown`."""
        return self.numbers_of(self.of_classes(self.checked(examples)))

    def weights_for(self, targets: np.ndarray, training: ClassTraining) -> np.ndarray | None:
        """Returns the weight of each example in the loss, `(n,)`, or of each of its labels,
        `(n, C)`; None without `class_weight`."""
        return example_weights(targets, self.class_names, training.class_weight)

    def forget(self) -> None:
        """Resets the temperature to 1; subclasses also reset what `decide` chose."""
        self.temperature = 1.0

    def finish(self, dev: Sequence[object], training: ClassTraining) -> str:
        """Fits the temperature to at least 30 development examples, and chooses thresholds.

        With fewer examples, the temperature is set to 1. Returns a note about the temperature and
        the thresholds.
        """
        if len(dev) < FEWEST_FOR_TEMPERATURE:
            self.forget()
            few = f"{len(dev)} development {self.examples_are}"
            return "; ".join(
                [f"temperature 1, because {few} are too few to fit it", *self.decide(dev, True)]
            )
        return "; ".join([f"temperature {self.calibrate(dev):.2f}", *self.decide(dev, False)])

    def decide(self, dev: Sequence[object], few: bool) -> list[str]:
        """Chooses thresholds of probabilities or scores with development examples.

        Args:
            dev: Development examples; empty if there are none.
            few: Whether there are too few examples to fit the temperature.

        Returns:
            A text for the log about each choice.
        """
        return []

    def measured(self, examples: Sequence[Any], use: ClassUse) -> dict[str, Any]:
        """Returns the result of `predicted`, which has the `probabilities (n, C)`, for the inputs
        of n checked examples."""
        self.of_classes(examples)  # some of them must have a class
        return self.predicted(self.asked(self.inputs_of(examples)), use)

    def report(
        self,
        examples: Sequence[Any],
        results: Mapping[str, Any],
        *,
        num_bootstrap: int,
        seed: int = 0,
    ) -> ClassificationReport:
        """Evaluates the classifier on labelled examples.

        Args:
            examples: Labelled texts or pairs, as for `fit`.
            seed: Seed of the bootstrap samples.

        Returns:
            A `ClassificationReport`, which `print` shows: accuracy, macro F1, AUC, log loss and
            expected calibration error, each with a 95 % confidence interval unless `num_bootstrap`
            is 0, and the confusion matrix. If examples have the label of texts of no class, and a
            threshold was chosen, it also shows how well these texts are detected.

        Raises:
            ImportError: If scikit-learn is not installed.
            TypeError: If a setting is unknown.
            ValueError: If a label is not among the classes, or a setting is out of range.
        """
        found = results["probabilities"]
        apart = np.array(
            [bool(self.unknown) and x == self.unknown for x in self.labels_of(examples)]
        )
        labels = self.numbers_of(self.of_classes(examples))
        report = evaluate_probabilities(
            labels, found[~apart], self.class_names, num_bootstrap, seed, self.thresholds
        )
        limit = self.unknown_below
        if limit is None or not apart.any():
            return report
        settings = {"share": self.data.false_alarms, "num_bootstrap": num_bootstrap, "seed": seed}
        unknown = evaluate_unknown(results["sure"], apart, limit.at, **settings)
        return dataclasses.replace(report, unknown=unknown)

    def calibrate(self, examples: Iterable[object], batch_size: int = ClassUse.batch_size) -> float:
        """Sets the temperature that best calibrates the probabilities.

        Args:
            examples: Labelled examples that are used neither for training nor for the test.
            batch_size: Number of inputs that are computed at once.

        Returns:
            The temperature, from 0.2 to 10. A temperature above 1 means that the model was
            overconfident; 0.2 or 10 indicates too few examples. Predicted labels do not change.
        """
        checked = self.of_classes(self.checked(examples))
        logits = self.predict_logits(self.inputs_of(checked), batch_size)
        found = fit_temperature(logits, self.numbers_of(checked))
        self.temperature = float(np.clip(found, *TEMPERATURES))
        return self.temperature


def _name_of(label: str | tuple[str, ...]) -> str:
    """The name of a class, or the names of several."""
    return label if isinstance(label, str) else ", ".join(label) or "no class"
