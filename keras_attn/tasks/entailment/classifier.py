"""Entailment: a premise and a hypothesis in, what the first says of the second out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_attn.batches.pair_batches import PairBatches
from keras_attn.explain import Alignment
from keras_attn.explain.explained_page import explained_page
from keras_attn.fields import ODD_TEXTS
from keras_attn.metrics import evaluate_probabilities
from keras_attn.models import PAIR_CLASSIFIERS
from keras_attn.settings import Choice
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.doubts import doubt_of, doubt_of_guesses, loss_of_shares
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored, TrainingRun
from keras_attn.tasks.base.word_vectors import read_vectors, sized_by_vectors, train_words
from keras_attn.tasks.entailment.data import (
    LabelledPair,
    LabelledPairs,
    checked_pairs,
    read_labelled_pairs,
    training_pairs,
)
from keras_attn.tasks.entailment.graph import graph_function
from keras_attn.tasks.entailment.predictions import EntailmentLearned, EntailmentPredictions
from keras_attn.tasks.entailment.settings import (
    EntailmentData,
    EntailmentTest,
    EntailmentTraining,
    EntailmentUse,
)
from keras_attn.tasks.families.class_weights import ClassWeight
from keras_attn.tasks.text_classification.labels import (
    class_names_of,
    example_weights,
    warn_of_imbalance,
)
from keras_attn.text.registry import vocabulary_digest
from keras_attn.training import num_data_shards
from keras_attn.visualize.web_page import escaped, web_page

FEWEST_FOR_TEMPERATURE = 30
"""With fewer development pairs `fit` leaves the temperature at 1."""
_STYLE = "body{font:16px sans-serif;margin:2em}section{margin:0 0 2.5em}h2{font-size:1em}"


class EntailmentClassifier(EntailmentPredictions):
    """A classifier of pairs of texts with its tokenizer of words.

    `.model` is the plain Keras model from ids to logits, `.dataset(examples)` what its `fit` takes.

    Args:
        tokenizer: A `WordTokenizer`.
        class_names: Names of the classes, in the order of the logits.
        temperature: What logits are divided by before they become probabilities.
        model: Settings of the model: an `EntailmentConfig`, or a dict of some of its settings. The
            sizes of vocabulary and classes are taken from the other arguments.
        data: Settings `EntailmentData`, or a dict of some of them, such as `max_length`.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If there are fewer than two classes, a name comes twice, or a setting is unknown
            or out of range.

    Example:

    >>> examples = [("a dog runs", "a dog runs", "yes"), ("a dog runs", "a cat runs", "no")]
    >>> sizes = {"dim": 8, "units": 8, "projection_dim": 0}
    >>> classifier = EntailmentClassifier.create(examples, model=sizes)
    >>> run = classifier.fit(examples, epochs=1, verbose=0)
    >>> alignment = classifier.explain(("a dog runs", "a cat runs"))
    >>> alignment.source_tokens, alignment.weights.shape
    (['a', 'dog', 'runs'], (3, 3))
    """

    name = "entailment"
    summary = "Say whether a text follows from another one, and which words were compared."
    kinds = PAIR_CLASSIFIERS
    Data = EntailmentData
    Training = EntailmentTraining
    Use = EntailmentUse
    Test = EntailmentTest
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    examples_are = "pairs"
    decide_nothing = ("word_vectors",)
    reads = "only_pairs"

    def model_sizes(self) -> dict[str, Any]:
        """Returns the sizes of vocabulary and classes."""
        return {
            "vocabulary_size": self.tokenizer.vocabulary_size,
            "num_classes": len(self.class_names),
        }

    def facts(self) -> list[str]:
        """What tells this classifier from others, for its `repr`."""
        return [
            f"attention={self.config.attention!r}",
            f"{len(self.class_names)} classes: {', '.join(self.class_names[:5])}",
            f"{self.tokenizer.vocabulary_size:,} words",
        ]

    # Data and training

    @classmethod
    def read(cls, data: EntailmentData) -> Examples:
        """Reads labelled pairs: a table with named columns, JSON lines, SICK or SNLI.

        The best weights are chosen by the pairs of --dev, by SICK's trial pairs, or by a part of
        the pairs, which has other premises. No test set is read.
        """
        return training_pairs(data)

    def read_test(self, test: EntailmentTest, data: EntailmentData) -> LabelledPairs:
        """Reads pairs labelled with classes of this classifier."""
        return read_labelled_pairs(test.data, data, test.split, labels=self.class_names)

    @classmethod
    def model_of(cls, data: EntailmentData, model: Any) -> Choice:
        """Returns the settings of the model of a run, as wide as its word vectors."""
        chosen = super().model_of(data, model)
        if not data.word_vectors:
            return chosen
        return sized_by_vectors(cls.kinds, chosen, data.word_vectors)

    @classmethod
    def begin(
        cls,
        examples: Iterable[LabelledPair],
        data: EntailmentData,
        model: Any,
        dtype: Any,
        **parts: Any,
    ) -> Beginning:
        """Makes the vocabulary of the pairs, and learns their classes."""
        pairs = checked_pairs(examples, labelled=True)
        texts = [text for pair in pairs for text in pair[:2]]
        tokenizer, vectors = train_words(texts, data.vocabulary_size, data), None
        if data.word_vectors:
            model = cls.model_of(data, model)
            tokenizer, vectors = read_vectors(tokenizer, data)
        names = class_names_of([(pair.premise, pair.label) for pair in pairs])
        return Beginning(EntailmentLearned(tokenizer, names), model, None, vectors)

    def dataset(
        self,
        examples: Iterable[LabelledPair],
        class_weight: ClassWeight = None,
        **settings: Any,
    ) -> PairBatches:
        """Makes batches for `model.fit`.

        Args:
            examples: ((premise, hypothesis), label) tuples.
            class_weight: None: every pair has the same weight. `"balanced"`: every class has. Or
                the weights of classes by their names; a class that is not named has weight 1.
            **settings: Of `keras_attn.batches.PairBatches`: `batch_size`, `seed`, `shuffle`, ...

        Returns:
            `PairBatches`.

        Raises:
            ValueError: If an example is not a labelled pair, a label or a name of `class_weight`
                is not among the classes, or a weight is not one.
        """
        pairs, labels = self._split(examples)
        weights = example_weights(labels, self.class_names, class_weight)
        settings = {"rows_multiple_of": num_data_shards(), **settings}
        return self.pair_batches(pairs, labels, weights, **settings)

    def batches(
        self,
        examples: Sequence[LabelledPair],
        training: EntailmentTraining,
        shuffle: bool = True,
    ) -> PairBatches:
        """Makes the batches of a training, see `dataset`."""
        found = checked_pairs(examples, labelled=True)
        if training.class_weight is None:
            warn_of_imbalance([(pair.premise, pair.label) for pair in found], self.class_names)
        return self.dataset(
            found,
            training.class_weight,
            batch_size=training.batch_size,
            seed=training.seed,
            shuffle=shuffle,
        )

    def objective(self, training: EntailmentTraining) -> dict[str, Any]:
        """Cross-entropy."""
        # Rows that only fill a batch have no weight.
        return {
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "weighted_metrics": [keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        }

    def doubt(self, batches: PairBatches, run: TrainingRun) -> str:
        """Says so if the training ended no better than a guess that is the same for all texts."""
        return doubt_of(run, loss_of_shares(batches), "guessing labels by their shares alone")

    def doubt_guesses(self, dev: Sequence[LabelledPair]) -> str:
        """Says so if all development pairs are guessed to have the same label."""
        if not len(dev):
            return ""
        pairs, labels = self._split(dev)
        names, found = self.class_names, self.predict_probabilities(pairs).argmax(axis=-1)
        return doubt_of_guesses([names[i] for i in found], [names[i] for i in labels], "pairs")

    def scored_by(self, training: EntailmentTraining) -> tuple[str, int]:
        """The accuracy, or the macro F1."""
        return training.score, 1

    def scorer(
        self, dev: Iterable[LabelledPair], training: EntailmentTraining
    ) -> Callable[[keras.Model], Scored]:
        """Scores development pairs; of equal scores the lower log loss is better."""
        pairs, labels = self._split(dev)

        def score(model: keras.Model) -> Scored:
            found = self.predict_probabilities(pairs)
            report = evaluate_probabilities(labels, found, self.class_names, num_bootstrap=0)
            names = ("accuracy", "macro_f1", "log_loss")
            figures = {f"val_{name}": float(getattr(report, name).value) for name in names}
            return Scored((figures[f"val_{training.score}"], -figures["val_log_loss"]), figures)

        return score

    def finish(self, dev: Sequence[LabelledPair], training: EntailmentTraining) -> str:
        """Fits the temperature to the development pairs, if there are enough of them."""
        if len(dev) < FEWEST_FOR_TEMPERATURE:
            self.temperature = 1.0
            return f"temperature 1, as {len(dev)} development pairs are too few to fit it"
        return f"temperature {self.calibrate(dev):.2f}"

    def describe(self, batches: PairBatches) -> list[str]:
        """Says what is trained, what it starts from, and what of long texts is not read."""
        lines = [] if self.word_vectors is None else [str(self.word_vectors)]
        lines += super().describe(batches)
        trained = sum(int(np.prod(w.shape)) for w in self.model.trainable_weights)
        of_words = self.tokenizer.vocabulary_size * self.config.dim
        own = trained - (0 if self.data.freeze_word_vectors else of_words)
        lines.append(f"{own:,} of the weights are not of the embedding.")
        if batches.truncated:
            lines.append(
                f"{batches.truncated:,} pairs have a text of more than {self.max_length} words: "
                f"{batches.lost_share:.1%} of all words are not read."
            )
        return lines

    # Use

    @staticmethod
    def page(explanations: Sequence[Any], title: str) -> str:
        """Returns an HTML page of what `explain` returned for a list."""
        if not all(isinstance(found, Alignment) for found in explanations):
            return explained_page(explanations, title)
        maps = "".join(
            f"<section><h2>{escaped(found.title)}</h2>{found._repr_html_()}"
            f"{'' if found.weights.size else '<p>A text has no word to compare.</p>'}</section>"
            for found in explanations
        )
        return web_page(title, maps, _STYLE, "style-src 'unsafe-inline'")

    # Files and export

    def vocabularies(self) -> dict[str, str]:
        """Returns what names the vocabulary of the embedding."""
        return {"embedding": vocabulary_digest(self.tokenizer)}

    def export_examples(self) -> dict[str, Any]:
        """Returns odd texts beside ordinary ones, each against another one."""
        return {"premise": ODD_TEXTS, "hypothesis": ODD_TEXTS[::-1]}

    def expected(self, examples: Mapping[str, Any], use: Any) -> dict[str, dict[str, Any]]:
        """Returns what this object gives, as the SavedModel is to give it."""
        pairs = list(zip(examples["premise"], examples["hypothesis"], strict=True))
        logits, weights = self._logits_and_weights(pairs, len(pairs))
        probabilities = self.probabilities_of_logits(logits)
        sides = list(zip(*self.words(pairs), strict=True))
        widths = [max(1, *map(len, words)) for words in sides]
        padded = [
            [[*row, *[""] * (width - len(row))] for row in words]
            for words, width in zip(sides, widths, strict=True)
        ]
        found = {
            "label": [self.class_names[i] for i in probabilities.argmax(axis=1)],
            "probabilities": probabilities,
            "classes": [list(self.class_names)] * len(pairs),
            "premise_words": padded[0],
            "hypothesis_words": padded[1],
        }
        if self.config.attention != "none":
            rows = 1 if self.config.attention == "last" else widths[1]
            table = np.zeros((len(pairs), rows, widths[0]), "float32")
            for row, scores in zip(table, weights, strict=True):
                part = scores[:rows, : widths[0]]
                row[: part.shape[0], : part.shape[1]] = part
            found["alignment"] = table
        return {"serving_default": found}

    def serve(self, tf: Any, use: Any) -> tuple[dict[str, Callable], list[Any]]:
        """Returns the function of the SavedModel, `serving_default`.

        It takes `premise: string (B,)` and `hypothesis: string (B,)` and gives, equal to what this
        object gives,

            label             string (B,)        the most probable class
            probabilities     float32 (B, C)     of the classes
            classes           string (B, C)      their names, in each row
            premise_words     string (B, S)      the words that are read, `""` in padding
            hypothesis_words  string (B, T)
            alignment         float32 (B, T, S)  the attention; `(B, 1, S)` with attention="last",
                                                 not there with attention="none"
        """
        function, tokenizer = graph_function(self, tf)
        return {"serving_default": function}, [tokenizer]
