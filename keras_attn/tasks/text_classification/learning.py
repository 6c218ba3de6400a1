"""What a text classifier learns from, and by: batches, losses and scores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np

from keras_attn.batches import TextBatches
from keras_attn.batches.classification_batches import truncate
from keras_attn.metrics import evaluate_probabilities
from keras_attn.tasks.base.doubts import doubt_of, doubt_of_guesses, loss_of_shares
from keras_attn.tasks.base.task_run import Scored, TrainingRun
from keras_attn.tasks.families.class_weights import ClassWeight
from keras_attn.tasks.text_classification.labels import (
    Labelled,
    checked_examples,
    example_weights,
    warn_of_imbalance,
)
from keras_attn.tasks.text_classification.predictions import TextClassificationPredictions
from keras_attn.tasks.text_classification.settings import TextClassificationTraining
from keras_attn.tasks.text_classification.token_weights import set_token_weights
from keras_attn.training import num_data_shards

FEWEST_FOR_TEMPERATURE = 30
"""With fewer development texts `fit` leaves the temperature at 1."""


class TextClassificationLearning(TextClassificationPredictions):
    """The training of a text classifier: a base class of `TextClassifier`."""

    def dataset(
        self,
        examples: Iterable[Labelled],
        class_weight: ClassWeight = None,
        **settings: Any,
    ) -> TextBatches:
        """Makes batches for `model.fit`.

        Args:
            examples: `LabelledText`s or (text, label) pairs, where a text may be a pair of texts.
            class_weight: None: every text has the same weight. `"balanced"`: every class has. Or
                the weights of classes by their names; a class that is not named has weight 1.
            **settings: Of `keras_attn.batches.TextBatches`: `batch_size`, `tokens_per_batch`,
                `seed`, `shuffle`, ...

        Returns:
            `TextBatches`.

        Raises:
            ValueError: If an example is not a labelled text, a label is not among the classes, or
                class weights are given for texts with several labels.
        """
        texts, labels = self._split(examples)
        weights = example_weights(labels, self.class_names, class_weight, self.multi_label)
        settings = {"rows_multiple_of": num_data_shards(), **settings}
        if not self.pairs:
            return self.id_batches(self.encode(texts), labels, weights, **settings)
        sides = self.encoded_sides(texts)
        between = len(self.field.between)
        lengths = [len(first) + between + len(second) for first, second in zip(*sides, strict=True)]
        settings = {"given_lengths": lengths, **settings}
        return self.id_batches(self.joined(sides), labels, weights, **settings)

    def batches(
        self,
        examples: Sequence[Labelled],
        training: TextClassificationTraining,
        shuffle: bool = True,
    ) -> TextBatches:
        """Makes the batches of a training, see `dataset`."""
        batches = self.dataset(
            examples,
            training.class_weight,
            batch_size=training.batch_size,
            seed=training.seed,
            shuffle=shuffle,
        )
        if training.class_weight is None:
            warn_of_imbalance(examples, self.class_names)
        return batches

    def objective(self, training: TextClassificationTraining) -> dict[str, Any]:
        """Cross-entropy, or the binary one of each class where a text may have several labels."""
        if self.multi_label:
            loss: Any = keras.losses.BinaryCrossentropy(from_logits=True)
            # Of decisions. The reports' accuracy is of texts that have all labels right.
            metric: Any = keras.metrics.BinaryAccuracy(name="binary_accuracy", threshold=0.0)
        else:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            metric = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        # Rows that only fill a batch have no weight.
        return {"loss": loss, "weighted_metrics": [metric]}

    def doubt(self, batches: TextBatches, run: TrainingRun) -> str:
        """Says so if the training ended no better than a guess that is the same for all texts."""
        return doubt_of(run, loss_of_shares(batches), "guessing labels by their shares alone")

    def doubt_guesses(self, dev: Sequence[Labelled]) -> str:
        """Says so if all development texts are guessed to have the same class, or classes."""
        if not len(dev):
            return ""
        texts, labels = self._split(dev)
        found = self.probabilities_of_logits(self.logits_of_ids(self.encode(texts)))
        if not self.multi_label:
            names = self.class_names
            guesses = [names[i] for i in found.argmax(axis=-1)]
            return doubt_of_guesses(guesses, [names[i] for i in labels], "texts")
        guesses, true = ([self._named(row) for row in side] for side in (found >= 0.5, labels))
        return doubt_of_guesses(guesses, true, "texts")

    def _named(self, row: np.ndarray) -> str:
        names = [name for name, given in zip(self.class_names, row, strict=True) if given]
        return ", ".join(names) or "no class"

    def scored_by(self, training: TextClassificationTraining) -> tuple[str, int]:
        """The accuracy, or the macro F1."""
        return training.score, 1

    def scorer(
        self, dev: Iterable[Labelled], training: TextClassificationTraining
    ) -> Callable[[keras.Model], Scored]:
        """Scores development texts; of equal scores the lower log loss is better."""
        dev = list(dev)
        if not dev:
            raise ValueError(
                "Expected development texts, by which the best weights are chosen. Received: none. "
                "Bring more texts, a greater `dev_share`, or a file of them."
            )
        texts, labels = self._split(dev)
        ids = self.encode(texts)

        def score(model: keras.Model) -> Scored:
            found = self.probabilities_of_logits(self.logits_of_ids(ids))
            report = evaluate_probabilities(labels, found, num_bootstrap=0)
            names = ("accuracy", "macro_f1", "log_loss")
            figures = {f"val_{name}": float(getattr(report, name).value) for name in names}
            return Scored((figures[f"val_{training.score}"], -figures["val_log_loss"]), figures)

        return score

    def finish(self, dev: Sequence[Labelled], training: TextClassificationTraining) -> str:
        """Fits the temperature to the development texts, if there are enough of them."""
        if len(dev) < FEWEST_FOR_TEMPERATURE:
            self.temperature = 1.0
            return f"temperature 1, as {len(dev)} development texts are too few to fit it"
        return f"temperature {self.calibrate(dev):.2f}"

    def describe(self, batches: TextBatches) -> list[str]:
        """Says what is trained, and what of long texts is not read."""
        lines = [] if self.loaded is None else str(self.loaded).split("\n")
        lines += [] if self.word_vectors is None else [str(self.word_vectors)]
        lines += super().describe(batches)
        if batches.truncated:
            lines.append(
                f"{batches.truncated:,} texts are longer than {self.max_length} tokens and "
                f"shortened ({self.truncation}): {batches.lost_share:.1%} of all tokens are not "
                "read."
            )
        return lines

    def digest(self, examples: Sequence[Labelled], dev: Sequence[Labelled]) -> str:
        """Names the texts and labels of a run."""
        digest = hashlib.sha256()
        for side in (examples, dev):
            for text, label in zip(*checked_examples(side), strict=True) if len(side) else ():
                text = text if isinstance(text, str) else "\x00".join(text)
                digest.update(f"{text}\x00{label}\x00".encode("utf-8", "replace"))
            digest.update(b"\x01")
        return digest.hexdigest()[:16]

    def initialize_token_weights(
        self, examples: Iterable[Labelled], kind: str = "association"
    ) -> None:
        """Starts the learned weights of a bag's tokens and pairs from statistics of the texts.

        Args:
            examples: Training texts with their labels; no others.
            kind: `"association"`: how much each tells of the class
                (`keras_attn.training.token_statistics.class_association`); `"idf"`: TF-IDF's.

        Raises:
            ValueError: If the kind is unknown, or the model has no such weights.
        """
        texts, labels = self._split(examples)
        encoded = self.encode(texts)
        rows = [truncate(row, self.max_length, self.truncation) for row in encoded]
        set_token_weights(self.model, rows, labels, kind)
