"""Captions of pictures, and how good they are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_attn.metrics import CaptionScores, caption_scores
from keras_attn.metrics.caption_tokens import metrics_folder
from keras_attn.tasks.captioning.data import (
    Captioned,
    as_pictures,
    checked_captioned,
    picture_source,
)
from keras_attn.tasks.captioning.decoding import CaptionSearch
from keras_attn.tasks.captioning.settings import (
    CaptioningTest,
    CaptioningUse,
)
from keras_attn.tasks.captioning.sources import TestPictures
from keras_attn.tasks.checks import check_decoding, check_n_best
from keras_attn.tasks.picture_regions import PictureRegions
from keras_attn.text import BytePairTokenizer


class CaptioningPredictions(PictureRegions):
    """The predictions of a captioner: a base class of `Captioner`."""

    tokenizer: BytePairTokenizer
    _search: CaptionSearch

    def _regions(self, images: Any, batch_size: int) -> np.ndarray:
        return self._search.regions(images, batch_size)

    def caption(
        self,
        images: Any,
        beams: int = CaptioningUse.beams,
        alpha: float = CaptioningUse.alpha,
        return_attention: bool = False,
        batch_size: int = CaptioningUse.batch_size,
        on_error: str = "error",
    ) -> Any:
        """Captions pictures.

        Args:
            images: A path, the bytes of a file, an array `(H, W, 3)` of uint8, or several: a list,
                or an array `(n, H, W, 3)`.
            beams: Width of the beam search; 1 is greedy search.
            alpha: Exponent of the length penalty.
            return_attention: Whether to return `Caption`s, which say where the model looked.
            batch_size: Pictures captioned at a time.
            on_error: `"error"`: a picture that cannot be read is one. `"skip"`: its caption is
                None, and a warning names it.

        Returns:
            For a picture a string, or a `Caption`; for several a list, in their order.

        Raises:
            OSError: A file is not there or cannot be read.
            TypeError: For what is no picture.
            ValueError: A picture is broken; settings that are no numbers or out of range.
        """
        check_decoding(alpha, beams=beams, batch_size=batch_size)
        pictures, one = as_pictures(images)
        if return_attention:
            found = self.caption_n_best(pictures, 1, beams, alpha, batch_size, on_error)
            best = [captions and captions[0] for captions in found]
            return best[0] if one else best
        results: list[str | None] = [None] * len(pictures)
        for numbers, regions in self._read(pictures, batch_size, on_error):
            ids = self._search.best(regions, beams, alpha, batch_size)
            for number, text in zip(numbers, self.tokenizer.decode(ids), strict=True):
                results[number] = text
        return results[0] if one else results

    def caption_n_best(
        self,
        images: Any,
        num_return_sequences: int | None = None,
        beams: int = CaptioningUse.beams,
        alpha: float = CaptioningUse.alpha,
        batch_size: int = CaptioningUse.batch_size,
        on_error: str = "error",
    ) -> Any:
        """Finds several captions of each picture, with scores and where the model looked.

        Args:
            images: As `caption`.
            num_return_sequences: Number of captions of each, at most `beams`; `beams` if None.
            beams: Width of the beam search.
            alpha: Exponent of the length penalty.
            batch_size: Pictures captioned at a time.
            on_error: As `caption`.

        Returns:
            For a picture a list of `Caption`s, the best first; for several a list of such lists.

        Raises:
            OSError: As `caption`.
            TypeError: As `caption`.
            ValueError: As `caption`.
        """
        count = check_n_best(beams, alpha, num_return_sequences, batch_size=batch_size)
        pictures, one = as_pictures(images)
        results: list[Any] = [None] * len(pictures)
        for numbers, regions in self._read(pictures, batch_size, on_error):
            found = self._search.n_best(regions, beams, alpha, count, batch_size)
            for number, captions in zip(numbers, found, strict=True):
                results[number] = captions
        return results[0] if one else results

    def caption_source(
        self,
        source: Any,
        beams: int = CaptioningUse.beams,
        alpha: float = CaptioningUse.alpha,
        batch_size: int = CaptioningUse.batch_size,
    ) -> list[str]:
        """Captions what `model` is trained on: regions, or pictures where the encoder is trained.

        Args:
            source: As `keras_attn.batches.CaptionBatches` reads it; `dataset(...).pictures`.
            beams: As `caption`.
            alpha: As `caption`.
            batch_size: As `caption`.

        Returns:
            A caption for each picture.
        """
        check_decoding(alpha, beams=beams, batch_size=batch_size)
        found = []
        for start in range(0, len(source), batch_size):
            rows = source.read(np.arange(start, min(start + batch_size, len(source))))
            regions = self._search.regions(rows, batch_size) if self.train_encoder else rows
            found += self._search.best(regions, beams, alpha, batch_size)
        return self.tokenizer.decode(found)

    def evaluate(
        self,
        images: Iterable[Captioned],
        beams: int = CaptioningUse.beams,
        alpha: float = CaptioningUse.alpha,
        batch_size: int = CaptioningUse.batch_size,
        train_captions: Iterable[str] | None = None,
        tokenization: str = CaptioningTest.tokenization,
        meteor: bool = CaptioningTest.meteor,
        cache_dir: str | os.PathLike | None = None,
    ) -> CaptionScores:
        """Captions pictures and scores the captions against theirs.

        Args:
            images: As `dataset`, or what `read_test` returns, which has the training captions too.
            beams: As `caption`.
            alpha: As `caption`.
            batch_size: As `caption`.
            train_captions: Captions that were trained on, to count copies.
            tokenization: As `keras_attn.metrics.caption_scores`.
            meteor: As `keras_attn.metrics.caption_scores`.
            cache_dir: Folder of a `FeatureCache` to take the regions from, rounded to
                `cache_dtype`, and to add them to.

        Returns:
            `keras_attn.metrics.CaptionScores`: BLEU-1 to 4, ROUGE-L, CIDEr; `print` shows it.

        Raises:
            ImportError: If `pycocoevalcap` is not installed.
            ValueError: If something is not a captioned picture, or a picture is broken.
        """
        check_decoding(alpha, beams=beams, batch_size=batch_size)
        metrics_folder()  # before the work
        if train_captions is None and isinstance(images, TestPictures):
            train_captions = images.learnt
        found = checked_captioned(images)
        if not cache_dir:
            captions = self.caption(found.pictures, beams, alpha, batch_size=batch_size)
        else:
            source = picture_source(self, found.pictures, cache_dir, 0)
            captions = self.caption_source(source, beams, alpha, batch_size)
        names = found.names()
        return caption_scores(
            dict(zip(names, captions, strict=True)),
            dict(zip(names, found.captions, strict=True)),
            train_captions,
            tokenization,
            meteor,
        )

    predict = caption  # as all tasks call what they are for
