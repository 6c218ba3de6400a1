"""A captioning run: trained, scored, kept, and taken up where it was left."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attn.datasets import check_images
from keras_attn.datasets.image_problems import (
    ImageProblem,
    describe_image_problems,
    refuse_image_problems,
)
from keras_attn.datasets.images import check_on_error
from keras_attn.files import check_writable, only_one
from keras_attn.models import (
    ImageEncoder,
    applications_encoder,
    patch_encoder,
    small_cnn_encoder,
    vgg16_from_lpips,
)
from keras_attn.tasks.best_weights import BestWeights
from keras_attn.tasks.captioner import Captioner
from keras_attn.tasks.captioning_data import Captioned, checked_captioned, read_pictures
from keras_attn.tasks.captioning_settings import (
    SECTIONS,
    CaptioningDataSettings,
    CaptioningModelSettings,
    CaptioningTrainingSettings,
)
from keras_attn.tasks.compiling import checked_steps
from keras_attn.tasks.run_folder import BEST, tidy_run, train_in_folder
from keras_attn.text import BytePairTokenizer
from keras_attn.training import averaged_weights, caption_scores, compute_on, seed_everything
from keras_attn.training.caption_tokens import metrics_folder

_DIFFERENT = 2  # pictures that CIDEr weighs words by


class CaptioningRun(NamedTuple):
    """What came of `train_captioner`.

    Example:

    >>> CaptioningRun(True, None, 98.5, 3, [], Path("run/best.task")).best_score
    98.5
    """

    complete: bool
    """Whether the run is at its end; False: a signal ended it, and the same call goes on."""
    interrupted_by: int | None
    """Number of that signal."""
    best_score: float
    """Of the development pictures, by the weights that are kept: CIDEr or BLEU-4 times 100, or the
    loss."""
    best_epoch: int
    """The epoch (from 1) after which they were kept; 0: none was at its end."""
    log: list[dict[str, Any]]
    """A dict of figures for each epoch."""
    best: Path
    """The file of the best weights, for `Captioner.load`."""


class DevelopmentCaptions(BestWeights):
    """Captions development pictures after each epoch, and keeps the weights that do it best.

    Adds `val_perplexity` to the logs of the epoch, and `val_cider` and `val_bleu_4` (times 100, of
    the words that `tokenize_captions` finds without Java) where one of these is the score. Where
    the optimizer keeps a moving average of the weights, that is what is scored and kept. Of two
    epochs with the same score the one with the lower perplexity is the better. The regions of an
    encoder that is not trained are computed once, and read from their cache.

    Args:
        captioner: Whose model is trained.
        images: Development pictures, as `Captioner.dataset`.
        path: Where the best weights are saved, for `Captioner.load`.
        score: `"cider"`, `"bleu_4"` or `"perplexity"`; the first two need `pycocoevalcap`.
        beams: Width of the search for the captions.
        cache_dir: As `Captioner.dataset`.
        batch_size: Captions of a batch, for the loss.

    Raises:
        ImportError: `pycocoevalcap` is not installed, and the score needs it.
        ValueError: For what is no captioned picture, and too few for the score.

    Example:

    >>> import tempfile
    >>> images = [(np.full((8, 8, 3), 9 * i, "uint8"), f"number {i}") for i in range(3)]
    >>> tokenizer = BytePairTokenizer.train([text for _, text in images], 260)
    >>> encoder = small_cnn_encoder(8, filters=(4, 8))
    >>> config = {"kind": "soft-attention", "dim": 8, "units": 8}
    >>> captioner = Captioner(tokenizer, encoder, config, train_encoder=True)
    >>> callback = DevelopmentCaptions(
    ...     captioner, images, tempfile.mkdtemp() + "/best.task", "perplexity"
    ... )
    >>> history = captioner.fit(images, epochs=1, verbose=0, callbacks=[callback])
    >>> sorted(history.history)
    ['loss', 'perplexity', 'val_perplexity']
    """

    def __init__(
        self,
        captioner: Captioner,
        images: Sequence[Captioned],
        path: str | os.PathLike,
        score: str = "cider",
        beams: int = 3,
        cache_dir: str | os.PathLike | None = None,
        batch_size: int = 64,
    ):
        super().__init__(captioner, path)
        found = checked_captioned(images)
        if score != "perplexity":
            metrics_folder()
        if score == "cider" and len(found.pictures) < _DIFFERENT:
            raise ValueError(
                "CIDEr weighs words by how many pictures have them. Expected: two development "
                "pictures or more. Received: one. Take score='bleu_4' or 'perplexity'."
            )
        self.score = score
        self.beams = beams
        self.references = found.captions
        self._batches = captioner.dataset(
            list(zip(*found, strict=True)), cache_dir, 0, batch_size=batch_size, shuffle=False
        )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called by Keras."""
        with averaged_weights(self.model):
            figures = self.model.evaluate(self._batches, verbose=0, return_dict=True)
            found = {"val_perplexity": float(figures["perplexity"])}
            if self.score == "perplexity":
                score = -found["val_perplexity"]
            else:
                captions = self.task.caption_source(self._batches.pictures, self.beams)
                scores = caption_scores(captions, self.references, tokenization="plain")
                figures = {"val_cider": scores.cider, "val_bleu_4": scores.bleu_4}
                found |= {name: round(value, 4) for name, value in figures.items()}
                score = found[f"val_{self.score}"]
            self.keep((score, -found["val_perplexity"]), epoch)
        if logs is not None:
            logs.update(found)


def train_captioner(
    train: Sequence[Captioned],
    development: Sequence[Captioned],
    run_dir: str | os.PathLike,
    data_settings: CaptioningDataSettings | None = None,
    model_settings: CaptioningModelSettings | None = None,
    training_settings: CaptioningTrainingSettings | None = None,
    log: Callable[[str], Any] = lambda text: None,
    verbose: Any = None,
) -> CaptioningRun:
    """Trains a captioner in a folder; called again, goes on where the folder has it.

    The vocabulary is made of the training captions alone. What an encoder that is not trained makes
    of the pictures is computed once, before the training, and kept in a `FeatureCache`. The folder
    holds `settings.toml`, `log.csv` (a row for each epoch), `best.task` (the weights with the best
    score of the development pictures, for `Captioner.load`) and `checkpoint.npz` (the state of the
    run). No TensorFlow is needed on JAX and PyTorch.

    Args:
        train: Captioned pictures to learn from, as `Captioner.dataset`.
        development: Captioned pictures, captioned after each epoch; no test set.
        run_dir: The run's folder.
        data_settings: Of them those of the vocabulary and of the length are used here, and
            `on_error`: `"skip"` leaves broken pictures out.
        model_settings: Settings of the model; its defaults if None.
        training_settings: Settings of the training; its defaults if None. Their `seed` seeds this
            process, and makes TensorFlow compute the same twice.
        log: Called with a line about each step.
        verbose: Of Keras' progress bar; None: a bar in a terminal, else a line for each epoch.

    Returns:
        `CaptioningRun`.

    Raises:
        ValueError: If the folder holds a run of other settings or data, the folder of the features
            those of another encoder, or pictures are broken.
        ImportError: If `pycocoevalcap` is not installed, and the score needs it.
        DownloadError: If an encoder cannot be downloaded.
        RuntimeError: If a GPU, or more devices, are asked for than there are.
        PermissionError: If the folder cannot be written to; found before the training.
        BlockingIOError: If another process trains in the folder.
        OSError: If the disk is full; the last checkpoint is still good.

    Example:

    >>> import tempfile
    >>> images = [(np.full((8, 8, 3), 9 * i, "uint8"), f"number {i}") for i in range(3)]
    >>> data = CaptioningDataSettings(vocabulary_size=262, max_length=12)
    >>> model = CaptioningModelSettings(filters="4,8", image_size=8, dim=8, units=8)
    >>> training = CaptioningTrainingSettings(epochs=1, score="perplexity")
    >>> run = train_captioner(
    ...     images, images, tempfile.mkdtemp(), data, model, training, verbose=0
    ... )
    >>> run.complete, Captioner.load(run.best).encoder.grid
    (True, (2, 2))
    """
    data = data_settings or CaptioningDataSettings()
    model = model_settings or CaptioningModelSettings()
    training = training_settings or CaptioningTrainingSettings()
    run_dir = check_writable(run_dir).absolute()
    with only_one(run_dir / ".lock", "trains"), compute_on(training.device, training.devices):
        return _train(train, development, run_dir, data, model, training, log, verbose)


def _train(
    train: Sequence[Captioned],
    development: Sequence[Captioned],
    run_dir: Path,
    data: CaptioningDataSettings,
    model: CaptioningModelSettings,
    training: CaptioningTrainingSettings,
    say: Callable[[str], Any],
    verbose: Any,
) -> CaptioningRun:
    sections = {"data": data, "model": model, "training": training}
    tidy_run(run_dir, SECTIONS, sections)
    if training.score != "perplexity":
        metrics_folder()  # before the work
    if not len(development):
        raise ValueError(
            "Expected development pictures, which the best weights are chosen by. Received: none. "
            "Bring more pictures, a greater `dev_share`, or a file of them."
        )
    seed_everything(training.seed)
    captions = [caption for found in checked_captioned(train).captions for caption in found]
    captioner = Captioner(
        BytePairTokenizer.train(captions, data.vocabulary_size, allow_fewer=True),
        make_encoder(model, training.precision),
        model.config(),
        data.max_length,
        model.trains_encoder,
        training.precision,
    )
    digest = "random" if model.has_random_encoder else captioner.encoder.fingerprint()["weights"]
    cache_dir = training.cache_dir or None
    shown = 0 if verbose == 0 else 1
    train = whole_pictures(captioner, train, data.on_error, cache_dir, say, shown)
    development = _some(development, training.score_pictures, data.split_seed)
    development = whole_pictures(captioner, development, data.on_error, cache_dir, say, shown)
    scores = DevelopmentCaptions(
        captioner,
        development,
        run_dir / BEST,
        training.score,
        training.score_beams,
        cache_dir,
        training.batch_size,
    )
    batches = captioner.dataset(
        train, cache_dir, 0, batch_size=training.batch_size, seed=training.seed
    )
    captioner.compile(
        total_steps=training.epochs * len(batches),
        learning_rate=training.learning_rate,
        warmup_steps=None if training.warmup_steps < 0 else training.warmup_steps,
        label_smoothing=training.label_smoothing,
        weight_decay=training.weight_decay,
        clip_norm=training.clip_norm,
        ema_momentum=training.ema,
        steps_per_execution=checked_steps(training.steps_per_execution),
    )
    rows, columns = captioner.encoder.grid
    say(
        f"{len(train):,} pictures, {batches.num_examples:,} captions, "
        f"{captioner.tokenizer.vocabulary_size:,} tokens, {rows} x {columns} regions, "
        f"{captioner.model.count_params():,} weights, {len(batches):,} batches an epoch, "
        f"{batches.padded_share:.0%} padding, {keras.backend.backend()}"
    )
    complete, interrupted, table = train_in_folder(
        run_dir,
        captioner.model,
        batches,
        sections,
        {
            "data": _digest(train, development),
            "encoder": digest,
            **{k: v for settings in sections.values() for k, v in settings.shaping().items()},
        },
        [scores],
        say,
        verbose,
    )
    best = -scores.best_score if training.score == "perplexity" else scores.best_score
    return CaptioningRun(complete, interrupted, best, scores.best_epoch, table, run_dir / BEST)


def make_encoder(settings: CaptioningModelSettings, precision: str = "float32") -> ImageEncoder:
    """Makes the encoder of a run.

    Args:
        settings: Those of the encoder.
        precision: Dtype policy of encoders that are trained from the beginning.

    Returns:
        An `ImageEncoder`.

    Raises:
        DownloadError: If weights cannot be downloaded.
        FileNotFoundError: If there are no such weights.
        ValueError: For sizes that do not fit.

    Example:

    >>> make_encoder(CaptioningModelSettings(encoder="patches", image_size=32)).grid
    (4, 4)
    """
    size = settings.image_size or None
    if settings.encoder == "small-cnn":
        filters, attention = settings.filter_numbers, settings.image_attention
        return small_cnn_encoder(
            size or 64,
            filters,
            None if attention == "none" else attention,
            min(16, *filters) if attention in ("channel", "cbam") else None,
            dropout=settings.encoder_dropout,
            dtype=precision,
        )
    if settings.encoder == "patches":
        return patch_encoder(
            size or 64,
            settings.patch_size,
            settings.patch_layers,
            settings.patch_dim,
            settings.patch_heads,
            4 * settings.patch_dim,
            settings.encoder_dropout,
            dtype=precision,
        )
    weights = os.path.expanduser(settings.encoder_weights)
    if settings.encoder == "vgg16-lpips":
        return vgg16_from_lpips(weights or None, image_size=size or 224)
    chosen = None if weights == "none" else weights or "imagenet"
    return applications_encoder(settings.encoder, chosen, size)


def whole_pictures(
    captioner: Captioner,
    images: Sequence[Captioned],
    on_error: str,
    cache_dir: str | os.PathLike | None = None,
    log: Callable[[str], Any] = lambda text: None,
    verbose: int = 0,
) -> list[Captioned]:
    """Reads pictures before the training does, and leaves broken ones out.

    Those of an encoder that is not trained are encoded, and kept in its `FeatureCache`. Pictures in
    memory are named by their positions, from 0.

    Args:
        captioner: That reads them.
        images: As `Captioner.dataset`.
        on_error: `"error"`: a broken picture is one. `"skip"`: it is left out, and named.
        cache_dir: As `Captioner.dataset`.
        log: Called with a line about what was left out.
        verbose: Whether to show the progress.

    Returns:
        The whole ones.

    Raises:
        OSError: A file is not there or cannot be read.
        ValueError: A picture is broken; none is whole; the cache is of another encoder.

    Example:

    >>> tokenizer, encoder = BytePairTokenizer.train(["a"], 259), small_cnn_encoder(8, (4, 4))
    >>> captioner = Captioner(tokenizer, encoder, {"units": 8}, train_encoder=True)
    >>> len(whole_pictures(captioner, [("nowhere.png", "A dog.")], "error"))
    Traceback (most recent call last):
        ...
    ValueError: pictures: expected whole pictures. Received: 1 of 1 that are not: ...
    """
    check_on_error(on_error)
    images = list(images)
    pictures = checked_captioned(images).pictures
    problems: list[ImageProblem] = []
    if not all(isinstance(picture, str | os.PathLike) for picture in pictures):
        whole = []
        for numbers, _, broken in read_pictures(pictures, captioner.encoder.image_size, 32, "skip"):
            whole += [images[number] for number in numbers]
            problems += broken
        if on_error == "error":
            refuse_image_problems("pictures", "whole pictures", len(images), problems)
    else:
        if captioner.train_encoder:
            problems = check_images(pictures, on_error).problems
        else:
            cache = captioner.feature_cache(cache_dir)
            problems = captioner.fill_cache(cache, pictures, verbose, on_error).problems
        names = {os.path.abspath(problem.where) for problem in problems}
        whole = [image for image in images if os.path.abspath(os.fspath(image[0])) not in names]
    if not problems:
        return images
    described = describe_image_problems(problems)
    if not whole:
        raise ValueError(f"Expected whole pictures. Received: none of {len(images):,}: {described}")
    log(f"{len(images) - len(whole):,} of {len(images):,} pictures are left out: {described}.")
    return whole


def _some(images: Sequence[Captioned], most: int, seed: int) -> list[Captioned]:
    """At most so many, drawn at random, in their order."""
    images = list(images)
    if len(images) <= most:
        return images
    return [images[i] for i in sorted(random.Random(seed).sample(range(len(images)), most))]


def _digest(*sides: Sequence[Captioned]) -> str:
    """Names pictures and captions: files by their names and sizes, so that they can be moved."""
    digest = hashlib.sha256()
    for side in sides:
        for picture, captions in zip(*checked_captioned(side), strict=True):
            if isinstance(picture, str | os.PathLike):
                name = f"{os.path.basename(picture)}\x00{os.path.getsize(picture)}"
                digest.update(name.encode("utf-8", "surrogateescape"))
            else:
                digest.update(np.asarray(picture).tobytes())
            digest.update("\x00".join(["", *captions, ""]).encode("utf-8", "replace"))
        digest.update(b"\x01")
    return digest.hexdigest()[:16]
