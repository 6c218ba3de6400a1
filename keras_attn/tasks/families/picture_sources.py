"""Training data of image tasks: images or regions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from keras_attn.batches import CachedRegions, PictureFiles
from keras_attn.batches.picture_sources import PictureArrays
from keras_attn.images import ImageProblem, check_images
from keras_attn.images.image_problems import describe_image_problems, refuse_image_problems
from keras_attn.images.loading import check_on_error
from keras_attn.images.pictures import Picture, read_pictures
from keras_attn.tasks.families.picture_task import PictureTask
from keras_attn.training import num_data_shards

Folder = str | os.PathLike[str] | None


def batch_settings(task: PictureTask) -> dict[str, Any]:
    """Returns the settings of batches that the model of a task determines."""
    return {
        "name": "images" if task.train_encoder else "regions",
        "max_length": task.max_length,
        "pad_id": task.tokenizer.pad_id,
        # With batches of several shapes, statistics of batch normalisation would tell them.
        "max_shapes": 1 if task.train_encoder else 4,
        "rows_multiple_of": num_data_shards(),
    }


def picture_source(
    task: PictureTask, pictures: Sequence[Picture], cache_dir: Folder = None, verbose: Any = "auto"
) -> CachedRegions | PictureFiles | PictureArrays:
    """Returns the images for batches if the encoder of a task is trained, otherwise their regions.

    `pictures` are either all paths, or all arrays or bytes. See `dataset` of `PictureTask` for
    `cache_dir` and `verbose`.
    """
    paths = _paths(task, pictures, cache_dir)
    if paths is None:
        if task.train_encoder:
            [(_, pixels, _)] = read_pictures(pictures, task.encoder.image_size, len(pictures))
            return PictureArrays(pixels)
        return PictureArrays(task.regions(pictures))
    if task.train_encoder:
        return PictureFiles(paths, task.encoder.image_size)
    cache = task.feature_cache(cache_dir)
    task.fill_cache(cache, paths, verbose)
    return CachedRegions(cache, paths)


def whole_pictures(
    task: PictureTask,
    pictures: Sequence[Picture],
    on_error: str,
    cache_dir: Folder = None,
    verbose: Any = 0,
) -> tuple[list[int], list[ImageProblem]]:
    """Reads images before training; returns the indices of intact images, and faults of the others.

    If the encoder is not trained, the regions of images in files are computed and stored in a
    `FeatureCache`. With `on_error="error"`, a broken image raises an error.
    """
    check_on_error(on_error)
    paths = _paths(task, pictures, cache_dir)
    numbers: list[int] = []
    problems: list[ImageProblem] = []
    if paths is None:
        for some, _, broken in read_pictures(pictures, task.encoder.image_size, 32, "skip"):
            numbers += some
            problems += broken
        if on_error == "error":
            refuse_image_problems("pictures", "whole pictures", len(pictures), problems)
    else:
        if task.train_encoder:
            problems = check_images(paths, on_error).problems
        else:
            cache = task.feature_cache(cache_dir)
            problems = task.fill_cache(cache, paths, verbose, on_error).problems
        bad = {os.path.abspath(problem.where) for problem in problems}
        numbers = [n for n, p in enumerate(paths) if os.path.abspath(os.fspath(p)) not in bad]
    if not numbers:
        described = describe_image_problems(problems)
        raise ValueError(
            f"Expected at least one intact image. Received: {len(pictures):,} images, none "
            f"of which is intact: {described}"
        )
    return numbers, problems


def _paths(
    task: PictureTask, pictures: Sequence[Picture], cache_dir: Folder
) -> list[str | os.PathLike[str]] | None:
    """The images, if all are files; None if all are in memory, where there is no `cache_dir`."""
    paths = [picture for picture in pictures if isinstance(picture, str | os.PathLike)]
    in_memory = len(pictures) - len(paths)
    if paths and in_memory:
        raise ValueError(
            "Expected images that are all paths, or all arrays or bytes. Received: "
            f"{len(pictures)} images, {in_memory} of which are in memory."
        )
    if cache_dir is not None and not paths:
        raise ValueError("`cache_dir` is for images in files. Received: images in memory.")
    if cache_dir is not None and task.train_encoder:
        raise ValueError(
            "`cache_dir` stores the regions of an encoder that is not trained. Received: "
            "`cache_dir` with train_encoder=True. Leave `cache_dir` out."
        )
    return paths or None
