"""Text classification: a text in, its class with a probability out, and the words that decided."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attn.datasets import TextBatches, class_weights
from keras_attn.datasets.classification_batches import TRUNCATIONS, truncate
from keras_attn.export import export_in_child_process
from keras_attn.generation import CompiledFunction
from keras_attn.layers.quantization import float_policy
from keras_attn.models import classifier_kind, text_classifier
from keras_attn.tasks.checks import checked_texts
from keras_attn.tasks.classification_labels import (
    Labelled,
    checked_class_names,
    checked_examples,
    label_numbers,
    warn_of_imbalance,
)
from keras_attn.tasks.compiling import fit_task, jit_compile, make_adam, make_schedule
from keras_attn.tasks.configs import classifier_config
from keras_attn.tasks.quantizing import Quantizable
from keras_attn.tasks.task_file import load_weights, read_config, save_task
from keras_attn.tasks.text_classification_export import export_text_classifier
from keras_attn.tasks.text_explainer import TextExplainer
from keras_attn.tasks.token_weights import set_token_weights
from keras_attn.text import TOKENIZERS, tokenizer_name
from keras_attn.training import (
    ClassificationReport,
    evaluate_probabilities,
    fit_temperature,
    num_data_shards,
)

TEMPERATURES = (0.2, 10.0)


class Prediction(NamedTuple):
    """What a classifier says of a text.

    Example:

    >>> Prediction("good", {"bad": 0.25, "good": 0.75}).label
    'good'
    """

    label: str | tuple[str, ...]
    """Name of the most probable class; with several labels the names of those above a half."""
    probabilities: dict[str, float]
    """Probability of each class."""


class TextClassifier(Quantizable):
    """A classifier of texts with its tokenizer.

    `.model` is the plain Keras model from ids to logits, `.dataset(examples)` what its `fit` takes;
    the methods here only join them.

    Args:
        tokenizer: A `BytePairTokenizer` or `WordPieceTokenizer`.
        class_names: Names of the classes, in the order of the logits.
        config: Settings of the model: a `BagClassifierConfig`, `RecurrentClassifierConfig` or
            `TransformerClassifierConfig`, or a dict of the fields of one with its name,
            `{"kind": "rnn", ...}` (`"bag"`, `"rnn"`, `"transformer"`; `"transformer"` if None). The
            sizes of vocabulary and classes, and the `sequence_length` of learned positions where it
            is None, are taken from the other arguments.
        max_length: Most tokens of a text; longer ones are shortened, in training and later.
        truncation: How: `"head"`, `"tail"` or `"head_tail"` (a quarter from the head).
        multi_label: Whether a text may have several labels, or none.
        dtype: Dtype or policy of the model's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: For another tokenizer.
        ValueError: For fewer than two classes, names that come twice, settings that are none or out
            of range.

    Example:

    >>> from keras_attn.text import BytePairTokenizer
    >>> examples = [("good " * n, "yes") for n in (1, 2)] + [("bad " * n, "no") for n in (1, 2)]
    >>> tokenizer = BytePairTokenizer.train([text for text, _ in examples], 260)
    >>> classifier = TextClassifier(tokenizer, ["no", "yes"], {"kind": "bag", "dim": 8})
    >>> history = classifier.fit(examples, epochs=20, batch_size=4, learning_rate=0.1, verbose=0)
    >>> classifier.predict("a good one").label
    'yes'
    """

    def __init__(
        self,
        tokenizer: Any,
        class_names: Sequence[str],
        config: Any = None,
        max_length: int = 512,
        truncation: str = "head_tail",
        multi_label: bool = False,
        dtype: Any = None,
    ):
        tokenizer_name(tokenizer)  # one that can be saved
        self.tokenizer = tokenizer
        self.class_names = checked_class_names(class_names)
        if isinstance(max_length, bool) or not isinstance(max_length, int) or max_length < 2:
            raise ValueError(
                f"`max_length` must be an integer of at least 2. Received: {max_length!r}."
            )
        if truncation not in TRUNCATIONS:
            raise ValueError(
                f"`truncation` must be one of {list(TRUNCATIONS)}. Received: {truncation!r}."
            )
        self.config = classifier_config(
            config, tokenizer.vocabulary_size, len(self.class_names), max_length
        )
        self.max_length = max_length
        self.truncation = truncation
        self.multi_label = bool(multi_label)
        self.temperature = 1.0
        """What logits are divided by before they become probabilities; see `calibrate`."""
        self.model = text_classifier(self.config, dtype=dtype)
        self._explainer = TextExplainer(self)
        self._logits = CompiledFunction(
            lambda ids, length: self.model(ids, training=False), self.model
        )
        self._optimizer: Any = None

    @property
    def start_id(self) -> int | None:
        """The id put before each text: where the first token is the pooling; else None."""
        return self.tokenizer.start_id if _pools_first(self.config) else None

    # Training

    def dataset(
        self,
        examples: Iterable[Labelled],
        class_weight: str | dict[str, float] | None = None,
        **settings: Any,
    ) -> TextBatches:
        """Makes batches for `model.fit`.

        Args:
            examples: `LabelledText`s or (text, label) pairs.
            class_weight: None: every text counts the same. `"balanced"`: every class does. Or the
                weight of each class by its name.
            **settings: Of `keras_attn.datasets.TextBatches`: `batch_size`, `tokens_per_batch`,
                `seed`, `shuffle`, ...

        Returns:
            `TextBatches`.

        Raises:
            ValueError: For examples that are none, labels that are not among the classes, or class
                weights of texts with several labels.
        """
        texts, labels = self._split(examples)
        weights = self._example_weights(labels, class_weight)
        settings = {"rows_multiple_of": num_data_shards(), **settings}
        return self.batches(self.tokenizer.encode(texts), labels, weights, **settings)

    def _split(self, examples: Iterable[Labelled]) -> tuple[list[str], np.ndarray]:
        texts, labels = checked_examples(examples)
        return texts, label_numbers(labels, self.class_names, self.multi_label)

    def _example_weights(
        self, labels: np.ndarray, class_weight: str | dict[str, float] | None
    ) -> np.ndarray | None:
        if class_weight is None:
            return None
        if self.multi_label:
            raise ValueError(
                "`class_weight` is for texts of one label each. Received: it, with multi_label."
            )
        if class_weight == "balanced":
            return class_weights(labels, len(self.class_names))[labels]
        if not isinstance(class_weight, dict) or set(class_weight) != set(self.class_names):
            raise ValueError(
                "`class_weight` must be None, 'balanced' or a dict with a weight for each of "
                f"{list(self.class_names)}. Received: {class_weight!r}."
            )
        return np.array([class_weight[name] for name in self.class_names], "float32")[labels]

    def batches(
        self, ids: Any, labels: Any = None, weights: Any = None, **settings: Any
    ) -> TextBatches:
        """Makes batches of tokenised texts, as the model reads them.

        Args:
            ids: The ids of each text.
            labels: Numbers of classes, zeros and ones, or None.
            weights: Weight of each text, or None.
            **settings: Of `TextBatches`.

        Returns:
            `TextBatches`.
        """
        settings = {
            "max_length": self.max_length,
            "truncation": self.truncation,
            "start_id": self.start_id,
            "pad_id": self.tokenizer.pad_id,
            **settings,
        }
        return TextBatches(ids, labels, weights, **settings)

    def compile(
        self,
        total_steps: int,
        learning_rate: float = 1e-3,
        warmup_steps: int | None = None,
        weight_decay: float = 0.0,
        clip_norm: float = 1.0,
        ema_momentum: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """Compiles `.model` with what suits a classifier. `fit` does so where this was not.

        Adam with linear warm-up and cosine decay, the norm of the gradient clipped; cross-entropy,
        or the binary one of each class where a text may have several labels.
        `classifier.model.compile(...)` sets anything else.

        Args:
            total_steps: Number of updates in all.
            learning_rate: The highest learning rate.
            warmup_steps: Steps until it is reached; a twentieth of all, at most 1000, if None.
            weight_decay: Of AdamW; 0: Adam.
            clip_norm: Largest norm of all gradients together; 0: any.
            ema_momentum: Momentum of the moving average of the weights, which becomes the weights
                at the end of `fit` (see `keras_attn.training.averaged_weights`); 0: none.
            **kwargs: Of `keras.Model.compile`.
        """
        schedule = make_schedule(total_steps, learning_rate, warmup_steps)
        policy = float_policy(self.model.get_layer("head"))
        if self.multi_label:
            loss: Any = keras.losses.BinaryCrossentropy(from_logits=True)
            # Of decisions. The reports' accuracy is of texts that have all labels right.
            metric: Any = keras.metrics.BinaryAccuracy(name="binary_accuracy", threshold=0.0)
        else:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            metric = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        settings = {
            "optimizer": make_adam(schedule, policy, weight_decay, clip_norm, ema_momentum),
            "loss": loss,
            "weighted_metrics": [metric],  # rows that only fill a batch have no weight
            "jit_compile": jit_compile(recurrent=classifier_kind(self.config) == "rnn"),
        }
        self.model.compile(**{**settings, **kwargs})
        self._optimizer = None

    def fit(
        self,
        examples: Iterable[Labelled],
        validation: Iterable[Labelled] | None = None,
        epochs: int = 5,
        batch_size: int = 32,
        class_weight: str | dict[str, float] | None = None,
        seed: int = 0,
        verbose: Any = "auto",
        callbacks: Sequence[keras.callbacks.Callback] = (),
        **compile_settings: Any,
    ) -> keras.callbacks.History:
        """Trains on labelled texts.

        Args:
            examples: `LabelledText`s or (text, label) pairs.
            validation: Some whose loss and accuracy are shown after each epoch.
            epochs: Passes over the examples.
            batch_size: Texts of a batch.
            class_weight: As `dataset`.
            seed: Of the order of the texts. Dropout follows `keras.utils.set_random_seed`.
            verbose: Of Keras' progress bar.
            callbacks: Further Keras callbacks.
            **compile_settings: Of `compile`, with which each `fit` starts anew: its learning rate
                rises and falls over the epochs of this call. A model that was compiled by
                `compile` or `.model.compile` is taken as it is, unless settings are given.

        Returns:
            Keras' `History`.
        """
        examples = list(examples)
        batches = self.dataset(examples, class_weight, batch_size=batch_size, seed=seed)
        if class_weight is None:
            warn_of_imbalance(examples, self.class_names)
        seen = None
        if validation is not None:
            seen = self.dataset(validation, batch_size=batch_size, shuffle=False)
        return fit_task(self, batches, seen, epochs, verbose, callbacks, compile_settings)

    def initialize_token_weights(
        self, examples: Iterable[Labelled], kind: str = "association"
    ) -> None:
        """Begins the learned weights of a bag's tokens and pairs with what the texts say of them.

        Args:
            examples: Training texts with their labels; no others.
            kind: `"association"`: how much each tells of the class
                (`keras_attn.training.token_statistics.class_association`); `"idf"`: TF-IDF's.

        Raises:
            ValueError: For another kind, or a model without such weights.
        """
        texts, labels = self._split(examples)
        rows = self.tokenizer.encode(texts)
        rows = [truncate(row, self.max_length, self.truncation) for row in rows]
        set_token_weights(self.model, rows, labels, kind)

    # Use

    def predict_logits(self, texts: str | Iterable[str], batch_size: int = 64) -> np.ndarray:
        """Computes the logits of texts.

        Args:
            texts: Strings; one string is a list of one.
            batch_size: Texts computed at a time.

        Returns:
            float32 `(n, C)`.

        Raises:
            TypeError: For what is no string.
        """
        texts = checked_texts([texts] if isinstance(texts, str) else texts)
        return self.logits_of_ids(self.tokenizer.encode(texts), batch_size)

    def logits_of_ids(self, ids: Sequence[Sequence[int]], batch_size: int = 64) -> np.ndarray:
        """Computes the logits of tokenised texts, as `predict_logits` does.

        Args:
            ids: The ids of each text.
            batch_size: Texts computed at a time.

        Returns:
            float32 `(n, C)`.
        """
        if not len(ids):
            return np.zeros((0, len(self.class_names)), "float32")
        batches = self.batches(ids, batch_size=batch_size, shuffle=False)
        found = [np.asarray(self._logits(rows, 1), "float32") for (rows,) in batches]
        return batches.restore(np.concatenate(found))

    def probabilities_of_logits(self, logits: Any) -> np.ndarray:
        """Makes probabilities of logits, at the temperature that `calibrate` found.

        Args:
            logits: `(n, C)`.

        Returns:
            float32 `(n, C)`; rows sum to 1, unless a text may have several labels.
        """
        logits = np.asarray(logits, "float64") / self.temperature
        if self.multi_label:
            return (0.5 * (1 + np.tanh(0.5 * logits))).astype("float32")
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return (powers / powers.sum(axis=-1, keepdims=True)).astype("float32")

    def predict_probabilities(self, texts: str | Iterable[str], batch_size: int = 64) -> np.ndarray:
        """Computes the probabilities of the classes.

        Args:
            texts: Strings; one string is a list of one.
            batch_size: Texts computed at a time.

        Returns:
            float32 `(n, C)`, in the order of `class_names`.

        Raises:
            TypeError: For what is no string.
        """
        return self.probabilities_of_logits(self.predict_logits(texts, batch_size))

    def predict(self, texts: str | Iterable[str], batch_size: int = 64) -> Any:
        """Classifies texts.

        Args:
            texts: A string, or several.
            batch_size: Texts computed at a time.

        Returns:
            A `Prediction` for a string, a list of them for several.

        Raises:
            TypeError: For what is no string.
        """
        found = [self._prediction(row) for row in self.predict_probabilities(texts, batch_size)]
        return found[0] if isinstance(texts, str) else found

    def _prediction(self, row: np.ndarray) -> Prediction:
        names = self.class_names
        label: Any = names[int(row.argmax())]
        if self.multi_label:
            label = tuple(name for name, p in zip(names, row, strict=True) if p >= 0.5)
        return Prediction(label, dict(zip(names, map(float, row), strict=True)))

    def calibrate(self, examples: Iterable[Labelled], batch_size: int = 64) -> float:
        """Sets the temperature that makes the probabilities most believable.

        Args:
            examples: Labelled texts that were not trained on, and are no test.
            batch_size: Texts computed at a time.

        Returns:
            The temperature, from 0.2 to 10; above 1 the model was too certain. What lies outside
            tells of too few examples (all of them right: the more certain the better), not of the
            model. No label changes by it.
        """
        texts, labels = self._split(examples)
        found = fit_temperature(self.predict_logits(texts, batch_size), labels)
        self.temperature = float(np.clip(found, *TEMPERATURES))
        return self.temperature

    def evaluate(
        self,
        examples: Iterable[Labelled],
        batch_size: int = 64,
        num_bootstrap: int = 1000,
        seed: int = 0,
    ) -> ClassificationReport:
        """Measures the classifier on labelled texts.

        Args:
            examples: `LabelledText`s or (text, label) pairs.
            batch_size: Texts computed at a time.
            num_bootstrap: Samples for the intervals; 0: none.
            seed: Of these samples.

        Returns:
            A `ClassificationReport`: accuracy, macro F1, AUC, log loss, expected calibration error
            and confusion matrix, with 95 % intervals. `print` shows it.

        Raises:
            ValueError: For labels that are not among the classes.
        """
        texts, labels = self._split(examples)
        found = self.predict_probabilities(texts, batch_size)
        return evaluate_probabilities(labels, found, self.class_names, num_bootstrap, seed)

    def explain(
        self,
        texts: str | Iterable[str],
        method: str | None = None,
        label: str | None = None,
        batch_size: int = 32,
    ) -> Any:
        """Says how much each token weighed in what the model says of a text.

        Args:
            texts: A string, or several.
            method: `"attention"`: the model's own weights, which say where it looked.
                `"gradient"`: gradient times input, which says what spoke for the class and what
                against it. Attention, where the model has it, if None.
            label: Name of the class that gradients are of; the most probable one if None.
            batch_size: Texts computed at a time.

        Returns:
            An `Explanation` for a string, a list of them for several, of the tokens that the model
            read: what `max_length` cuts off is not among them.

        Raises:
            TypeError: For what is no string.
            ValueError: For an unknown method or label, or attention of a model that has none.
        """
        one = isinstance(texts, str)
        texts = checked_texts([texts] if one else texts)
        found = self._explainer.explain(texts, method, label, batch_size)
        return found[0] if one else found

    def explain_ids(
        self,
        ids: Sequence[Sequence[int]],
        method: str | None = None,
        label: str | None = None,
        batch_size: int = 32,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Computes logits and the weights of tokens, of tokenised texts.

        Args:
            ids: The ids of each text.
            method: As `explain`.
            label: As `explain`.
            batch_size: Texts computed at a time.

        Returns:
            float32 `(n, C)`, and for each text the weights of its tokens, as many as are kept.

        Raises:
            ValueError: As `explain`.
        """
        return self._explainer.explain_ids(ids, method, label, batch_size)

    # Files

    def save(self, path: str | os.PathLike) -> None:
        """Saves settings, tokenizer and weights to one file, readable on every backend."""
        config = {
            "config": {"kind": classifier_kind(self.config), **self.config.to_dict()},
            "tokenizer": tokenizer_name(self.tokenizer),
            "vocabulary": self.tokenizer.get_config(),
            "class_names": list(self.class_names),
            "max_length": self.max_length,
            "truncation": self.truncation,
            "multi_label": self.multi_label,
            "temperature": self.temperature,
            "dtype": float_policy(self.model.get_layer("head")).name,
        }
        save_task(path, "TextClassifier", config, self.model)

    @classmethod
    def load(cls, path: str | os.PathLike, dtype: Any = None) -> "TextClassifier":
        """Loads what `save` wrote.

        Args:
            path: The file.
            dtype: As in the constructor; what was saved if None.

        Returns:
            A `TextClassifier`, not compiled.
        """
        config = read_config(path, "TextClassifier")
        classifier = cls(
            TOKENIZERS[config["tokenizer"]].from_config(config["vocabulary"]),
            config["class_names"],
            config["config"],
            config["max_length"],
            config["truncation"],
            config["multi_label"],
            config["dtype"] if dtype is None else dtype,
        )
        classifier.temperature = config["temperature"]
        load_weights(path, classifier.model)
        return classifier

    def export(
        self, path: str | os.PathLike, method: str | None = None, overwrite: bool = False
    ) -> None:
        """Exports a TensorFlow SavedModel from texts to classes.

        Its signature `serving_default` takes `text: string (B,)` and gives

            label          string (B,)      the most probable class (not where there are several)
            probabilities  float32 (B, C)   of the classes, in the order of
            classes        string (C,)
            tokens         string (B, S)    what the model read, `""` in padding
            weights        float32 (B, S)   of the tokens, as `explain` gives them

        equal to what this object gives. It loads with `import tensorflow` and nothing else; a file
        `requirements.txt` in it has the version. Before it is put in its place it is loaded and
        compared with this object. On JAX and PyTorch a child process with the TensorFlow backend
        does the work.

        Args:
            path: Folder of the SavedModel.
            method: As `explain`.
            overwrite: Whether a SavedModel that is there is replaced, at the end, by the new one.

        Raises:
            FileExistsError: If the folder is there and not empty, unless it is a SavedModel and
                `overwrite` is given.
            PermissionError: If its parent cannot be written to.
            RuntimeError: If what was written does not give what this object gives.
            ValueError: For an unknown method, or attention of a model that has none.
        """
        method = self._explainer.checked_method(method)
        if keras.backend.backend() != "tensorflow":
            export_in_child_process(
                "TextClassifier", self.save, path, overwrite=overwrite, method=method
            )
            return
        export_text_classifier(self, path, method, overwrite)


def _pools_first(config: Any) -> bool:
    return getattr(config, "pooling", None) == "first"
