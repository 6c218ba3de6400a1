"""Captions of pictures, and how good they are."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np

from keras_attn.fields import checked_texts
from keras_attn.files import open_output, path_text
from keras_attn.images import ImageProblem, load_image
from keras_attn.images.captioned_images import Captioned, checked_captioned
from keras_attn.images.loading import as_problem
from keras_attn.images.pictures import as_pictures, check_picture, read_pictures
from keras_attn.layers import attention_maps
from keras_attn.metrics import CaptionScores, caption_scores
from keras_attn.metrics.caption_tokens import metrics_folder
from keras_attn.records.problems import many
from keras_attn.tasks.base.checks import check_decoding, check_n_best
from keras_attn.tasks.base.steps import Note, step
from keras_attn.tasks.captioning.decoding import CaptionSearch
from keras_attn.tasks.captioning.settings import (
    CaptionedFiles,
    CaptionFigures,
    CaptioningData,
    CaptioningTest,
    CaptioningUse,
    check_figures,
    is_figure,
    is_page,
)
from keras_attn.tasks.captioning.sources import TestPictures
from keras_attn.tasks.families.picture_sources import picture_source
from keras_attn.tasks.families.picture_task import PictureLearned, PictureTask
from keras_attn.text import BytePairTokenizer
from keras_attn.text.readable import readable_tokens
from keras_attn.visualize import AttentionView, attention_viewer


@dataclass(frozen=True)
class CaptioningLearned(PictureLearned):
    """What a captioner is made of: its tokenizer and the encoder of pictures."""

    reads: ClassVar[type] = BytePairTokenizer


class CaptioningPredictions(PictureTask):
    """The predictions of a captioner: a base class of `Captioner`."""

    Learned = CaptioningLearned
    data: CaptioningData
    gives = "caption"

    @property
    def captioner(self) -> keras.Model:
        """The model from regions and tokens to logits."""
        return self.reader

    @property
    def _search(self) -> CaptionSearch:
        return self.kept(
            lambda: CaptionSearch(self.encoder, self.captioner, self.tokenizer, self.max_length),
            "search",
        )

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
        problems: list[ImageProblem] = []
        for numbers, regions in self._read_regions(pictures, batch_size, on_error, problems):
            ids = self._search.best(regions, beams, alpha, batch_size)
            for number, text in zip(numbers, self.tokenizer.decode(ids), strict=True):
                results[number] = text
        self._warn(problems, len(pictures))
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
        problems: list[ImageProblem] = []
        for numbers, regions in self._read_regions(pictures, batch_size, on_error, problems):
            found = self._search.n_best(regions, beams, alpha, count, batch_size)
            for number, captions in zip(numbers, found, strict=True):
                results[number] = captions
        self._warn(problems, len(pictures))
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
            regions = self._regions(rows, batch_size) if self.train_encoder else rows
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

    @step(
        "predict",
        takes=("use",),
        settings=CaptionedFiles,
        reads="pictures",
        writes="lines",
        to="file of JSON lines; standard output if none",
        device=True,
    )
    def _caption_files(
        self, inputs: Sequence[Path], use: CaptioningUse, predict: CaptionedFiles
    ) -> Iterator[str | Note]:
        """Caption PICTURES, files or folders of them: writes a line of JSON for each.

        It has the picture's path, the caption and its score. Of folders, and the folders within,
        all files are read whose names end as those of pictures do.
        """
        size, count = self.encoder.image_size, use.batch_size
        broken = 0
        for numbers, pixels, problems in read_pictures(inputs, size, count, predict.on_error):
            found = self.caption(pixels, use.beams, use.alpha, True, count)
            for number, best in zip(numbers, found, strict=True):
                place = path_text(inputs[number])
                line = {"image": place, "caption": best.text, "score": best.score}
                yield json.dumps(line, ensure_ascii=False)
            yield from map(_broken, problems)
            broken += len(problems)
        if broken:
            yield Note(f"Without a caption: {many(broken, 'picture')}.", failed=True)

    @step(
        "explain",
        takes=("use",),
        settings=CaptionFigures,
        reads="pictures",
        writes="figures",
        device=True,
        check=check_figures,
    )
    def _show_files(
        self, inputs: Sequence[Path], to: Path, use: CaptioningUse, explain: CaptionFigures
    ) -> Iterator[str | Note]:
        """Show where the model looks in PICTURES, files or folders of them, for each word.

        A page has all layers and heads, to look around in, and needs no network. A figure has the
        picture, and beside it the picture for each word; several pictures give a folder of figures.
        """
        if len(inputs) > explain.limit:
            yield Note(f"Shown: {explain.limit:,} of {len(inputs):,} pictures. See --limit.")
        views, drawn, broken = [], 0, 0
        for number, path in enumerate(inputs[: explain.limit]):
            try:
                pixels = load_image(path)
            except (OSError, ValueError) as error:
                if explain.on_error == "error":
                    raise
                yield _broken(as_problem(os.fspath(path), error))
                broken += 1
                continue
            name = path_text(path.name)
            if is_page(to):
                view = self._view(pixels, None, use.beams, use.alpha)
                views.append(dataclasses.replace(view, title=f"{name}: {view.title}"))
                continue
            place = to if is_figure(to) else to / f"{number + 1:06d}-{path.stem}.png"
            caption = self.caption(pixels, use.beams, use.alpha, return_attention=True)
            caption.plot(pixels, place, f"{name}: {caption.text}")
            drawn += 1
        if views:
            with open_output(to) as file:
                file.write(attention_viewer(views, explain.title))
        if views or drawn:
            yield str(to)
        if broken:
            yield Note(f"Not shown: {many(broken, 'picture')}.", failed=True)

    def _view(self, image: Any, caption: str | None, beams: int, alpha: float) -> AttentionView:
        """All attention of the decoder for one picture, see `caption_view`."""
        check_picture(image, 0)
        regions = self.regions(image, batch_size=1)
        if caption is None:
            (target,) = self._search.best(regions, beams, alpha, batch_size=1)
        else:
            (caption,) = checked_texts([caption])
            target = self.tokenizer.encode(caption, add_end=True)
        inputs = [self.tokenizer.start_id, *target[:-1]]
        maps = attention_maps(
            self._search.captioner, {"regions": regions, "target_ids": np.array([inputs], "int32")}
        )
        return AttentionView.from_maps(
            maps,
            None,
            readable_tokens(self.tokenizer, target),
            input_tokens=self.tokenizer.tokens(inputs),
            image=load_image(image),
            grid=self.encoder.grid,
            title=self.tokenizer.decode(target),
        )


def _broken(problem: ImageProblem) -> Note:
    return Note(f"{path_text(problem.where)}: {problem.what}")
