"""A text classification run: trained, scored, kept, and taken up where it was left."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_attn.datasets import LabelledText
from keras_attn.files import check_writable, only_one
from keras_attn.tasks.best_weights import BestWeights
from keras_attn.tasks.classification_labels import (
    checked_examples,
    class_names_of,
    label_numbers,
    warn_of_imbalance,
)
from keras_attn.tasks.compiling import checked_steps
from keras_attn.tasks.run_folder import BEST, tidy_run, train_in_folder
from keras_attn.tasks.settings import shaping
from keras_attn.tasks.text_classification_settings import (
    SECTIONS,
    ClassificationDataSettings,
    ClassificationModelSettings,
    ClassificationTrainingSettings,
)
from keras_attn.tasks.text_classifier import TextClassifier
from keras_attn.text import TOKENIZERS
from keras_attn.training import (
    averaged_weights,
    compute_on,
    evaluate_probabilities,
    seed_everything,
)


class TextClassificationRun(NamedTuple):
    """What came of `train_text_classifier`.

    Example:

    >>> TextClassificationRun(True, None, 0.9, 3, 1.2, [], Path("run/best.task")).best_score
    0.9
    """

    complete: bool
    """Whether the run is at its end; False: a signal ended it, and the same call goes on."""
    interrupted_by: int | None
    """Number of that signal."""
    best_score: float
    """Of the development texts, by the weights that are kept."""
    best_epoch: int
    """The epoch (from 1) after which they were kept; 0: none was at its end."""
    temperature: float
    """What `TextClassifier.calibrate` found on the development texts."""
    log: list[dict[str, Any]]
    """A dict of figures for each epoch."""
    best: Path
    """The file of the best weights, for `TextClassifier.load`."""


class DevelopmentAccuracy(BestWeights):
    """Scores development texts after each epoch, and keeps the weights that do it best.

    Adds `val_accuracy`, `val_macro_f1` and `val_log_loss` to the logs of the epoch. Where the
    optimizer keeps a moving average of the weights, that is what is scored and kept. Of two epochs
    with the same score the one with the lower log loss is the better.

    Args:
        classifier: Whose model is trained.
        examples: Development texts.
        path: Where the best weights are saved, for `TextClassifier.load`.
        score: `"accuracy"` or `"macro_f1"`.

    Example:

    >>> import tempfile
    >>> examples = [("good " * n, "yes") for n in (1, 2)] + [("bad " * n, "no") for n in (1, 2)]
    >>> tokenizer = TOKENIZERS["byte_pair"].train([text for text, _ in examples], 260)
    >>> classifier = TextClassifier(tokenizer, ["no", "yes"], {"kind": "bag", "dim": 8})
    >>> callback = DevelopmentAccuracy(classifier, examples, tempfile.mkdtemp() + "/best.task")
    >>> history = classifier.fit(examples, epochs=1, verbose=0, callbacks=[callback])
    >>> sorted(name for name in history.history if name.startswith("val"))
    ['val_accuracy', 'val_log_loss', 'val_macro_f1']
    """

    def __init__(
        self,
        classifier: TextClassifier,
        examples: Sequence[LabelledText],
        path: str | os.PathLike,
        score: str = "accuracy",
    ):
        super().__init__(classifier, path)
        texts, labels = checked_examples(examples)
        self.ids = classifier.tokenizer.encode(texts)
        self.labels = label_numbers(labels, classifier.class_names, classifier.multi_label)
        self.score = score

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called by Keras."""
        with averaged_weights(self.model):
            logits = self.task.logits_of_ids(self.ids)
            found = self.task.probabilities_of_logits(logits)
            report = evaluate_probabilities(self.labels, found, num_bootstrap=0)
            self.keep((getattr(report, self.score).value, -report.log_loss.value), epoch)
        if logs is not None:
            for name in ("accuracy", "macro_f1", "log_loss"):
                logs[f"val_{name}"] = getattr(report, name).value


def train_text_classifier(
    train: Sequence[LabelledText],
    development: Sequence[LabelledText],
    run_dir: str | os.PathLike,
    data_settings: ClassificationDataSettings | None = None,
    model_settings: ClassificationModelSettings | None = None,
    training_settings: ClassificationTrainingSettings | None = None,
    log: Callable[[str], Any] = lambda text: None,
    verbose: Any = None,
) -> TextClassificationRun:
    """Trains a text classifier in a folder; called again, goes on where the folder has it.

    The vocabulary, the classes and what the weights of tokens begin with are made of the training
    texts alone. At the end the temperature is fitted on the development texts. The folder holds
    `settings.toml`, `log.csv` (a row for each epoch), `best.task` (the weights with the best score
    of the development texts, for `TextClassifier.load`) and `checkpoint.npz` (the state of the
    run). No TensorFlow is needed on JAX and PyTorch.

    Args:
        train: Labelled texts to learn from.
        development: Labelled texts, scored after each epoch; no test set.
        run_dir: The run's folder.
        data_settings: Of them those of the tokenizer and of the length are used here.
        model_settings: Settings of the model; its defaults if None.
        training_settings: Settings of the training; its defaults if None. Their `seed` seeds this
            process, and makes TensorFlow compute the same twice.
        log: Called with a line about each step.
        verbose: Of Keras' progress bar; None: a bar in a terminal, else a line for each epoch.

    Returns:
        `TextClassificationRun`.

    Raises:
        ValueError: If the folder holds a run of other settings or data, there is one class only, or
            the development texts have a class that the training texts have not.
        RuntimeError: If a GPU, or more devices, are asked for than there are.
        PermissionError: If the folder cannot be written to; found before the training.
        BlockingIOError: If another process trains in the folder.
        OSError: If the disk is full; the last checkpoint is still good.

    Example:

    >>> import tempfile
    >>> train = [("good " * n, "yes") for n in (1, 2)] + [("bad " * n, "no") for n in (1, 2)]
    >>> data = ClassificationDataSettings(tokenizer="byte_pair", vocabulary_size=270)
    >>> model = ClassificationModelSettings(dim=8, pair_buckets=0)
    >>> training = ClassificationTrainingSettings(epochs=1)
    >>> run = train_text_classifier(
    ...     train, train, tempfile.mkdtemp(), data, model, training, verbose=0
    ... )
    >>> run.complete, TextClassifier.load(run.best).class_names
    (True, ('no', 'yes'))
    """
    data = data_settings or ClassificationDataSettings()
    model = model_settings or ClassificationModelSettings()
    training = training_settings or ClassificationTrainingSettings()
    run_dir = check_writable(run_dir).absolute()
    with only_one(run_dir / ".lock", "trains"), compute_on(training.device, training.devices):
        return _train(train, development, run_dir, data, model, training, log, verbose)


def _train(
    train: Sequence[LabelledText],
    development: Sequence[LabelledText],
    run_dir: Path,
    data: ClassificationDataSettings,
    model: ClassificationModelSettings,
    training: ClassificationTrainingSettings,
    say: Callable[[str], Any],
    verbose: Any,
) -> TextClassificationRun:
    sections = {"data": data, "model": model, "training": training}
    tidy_run(run_dir, SECTIONS, sections)
    seed_everything(training.seed)
    texts, labels = checked_examples(train)
    class_names = class_names_of(train)
    if not len(development):
        raise ValueError(
            "Expected development texts, which the best weights are chosen by. Received: none. "
            "Bring more texts, a greater `dev_share`, or a file of them."
        )
    multi_label = any(not isinstance(label, str) for label in labels)
    if multi_label and training.balanced:
        raise ValueError(
            "`balanced` is for texts of one label each. Received: balanced=True, with texts of "
            "several labels. Leave it out."
        )
    if not training.balanced:
        warn_of_imbalance(train, class_names)
    classifier = TextClassifier(
        make_tokenizer(texts, data),
        class_names,
        model.config(),
        max_length=data.max_length,
        truncation=data.truncation,
        multi_label=multi_label,
        dtype=training.precision,
    )
    scores = DevelopmentAccuracy(classifier, development, run_dir / BEST, training.score)
    batches = classifier.dataset(
        train,
        "balanced" if training.balanced else None,
        batch_size=training.batch_size,
        seed=training.seed,
    )
    if model.model == "bag" and model.token_weights not in ("none", "one"):
        classifier.initialize_token_weights(train, model.token_weights)
    classifier.compile(
        total_steps=training.epochs * len(batches),
        learning_rate=training.learning_rate,
        warmup_steps=None if training.warmup_steps < 0 else training.warmup_steps,
        weight_decay=training.weight_decay,
        clip_norm=training.clip_norm,
        ema_momentum=training.ema,
        steps_per_execution=checked_steps(training.steps_per_execution),
    )
    say(
        f"{len(texts):,} texts, {classifier.tokenizer.vocabulary_size:,} tokens, "
        f"{classifier.model.count_params():,} weights, {len(batches):,} batches an epoch, "
        f"{batches.padded_share:.0%} padding, {keras.backend.backend()}"
    )
    if batches.truncated:
        say(
            f"{batches.truncated:,} texts are longer than {data.max_length} tokens and shortened "
            f"({data.truncation}): {batches.lost_share:.1%} of all tokens are not read."
        )
    digest = hashlib.sha256()
    for part in (zip(texts, labels, strict=True), zip(*checked_examples(development), strict=True)):
        for text, label in part:
            digest.update(f"{text}\x00{label}\x00".encode("utf-8", "replace"))
        digest.update(b"\x01")
    complete, interrupted, rows = train_in_folder(
        run_dir,
        classifier.model,
        batches,
        sections,
        {
            "data": digest.hexdigest()[:16],
            "ids": classifier.tokenizer.vocabulary_size,
            **{k: v for settings in sections.values() for k, v in shaping(settings).items()},
        },
        [scores],
        say,
        verbose,
    )
    temperature = 1.0
    if complete:
        best = TextClassifier.load(run_dir / BEST)
        temperature = best.calibrate(development)
        best.save(run_dir / BEST)
    return TextClassificationRun(
        complete,
        interrupted,
        scores.best_score,
        scores.best_epoch,
        temperature,
        rows,
        run_dir / BEST,
    )


def make_tokenizer(texts: Sequence[str], settings: ClassificationDataSettings) -> Any:
    """Makes the tokenizer of a run, from its training texts.

    Args:
        texts: Training texts.
        settings: `tokenizer`, `vocabulary_size`, `vocabulary_file`.

    Returns:
        A tokenizer.

    Raises:
        ValueError: If a vocabulary file is given for a tokenizer that has none.

    Example:

    >>> make_tokenizer(["a text"], ClassificationDataSettings(tokenizer="byte_pair")).pad_id
    0
    """
    kind = TOKENIZERS[settings.tokenizer]
    if settings.vocabulary_file:
        if settings.tokenizer != "word_piece":
            raise ValueError(
                "`vocabulary_file` is BERT's and belongs to tokenizer='word_piece'. Received: it, "
                f"with tokenizer={settings.tokenizer!r}."
            )
        return kind.from_vocabulary_file(settings.vocabulary_file)
    return kind.train(texts, settings.vocabulary_size, allow_fewer=True)
