"""The steps of captioning that read pictures: predict and explain."""

import contextlib
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.options import FILE, device_option, model_option
from keras_attn.cli.output import check_output, open_output
from keras_attn.cli.pictures import (
    as_text,
    exit_if_broken,
    find_pictures,
    pictures_argument,
    tell_broken,
)
from keras_attn.cli.task_command import step_command, task_command, values_of
from keras_attn.files import check_writable
from keras_attn.images import load_image
from keras_attn.images.loading import as_problem
from keras_attn.tasks import Captioner
from keras_attn.tasks.attention_views import caption_view
from keras_attn.tasks.captioning.data import read_pictures
from keras_attn.training import compute_on
from keras_attn.visualize import attention_viewer

_on_error = click.option(
    "--on-error",
    type=click.Choice(["skip", "error"]),
    default="skip",
    show_default=True,
    help="at a broken picture: name it, go on, and end with exit code 1; or stop",
)


def _predict(
    model_file: Path,
    output: Path | None,
    on_error: str,
    device: str,
    pictures: tuple[Path, ...],
    settings: dict[str, Any],
) -> None:
    check_output(output)
    paths = find_pictures(pictures)
    search = values_of(Captioner, "predict", settings, Captioner.caption)
    with compute_on(device), contextlib.ExitStack() as stack:
        captioner = Captioner.load(model_file)
        file = open_output(output, stack)
        broken = 0
        size, count = captioner.encoder.image_size, search["batch_size"]
        for numbers, pixels, problems in read_pictures(paths, size, count, on_error):
            found = captioner.caption(pixels, return_attention=True, **search)
            for number, best in zip(numbers, found, strict=True):
                line = {"image": as_text(paths[number]), "caption": best.text, "score": best.score}
                print(json.dumps(line, ensure_ascii=False), file=file)
            file.flush()
            broken += tell_broken(problems)
    exit_if_broken(broken)


predict = step_command(
    Captioner,
    "predict",
    _predict,
    """Caption PICTURES, files or folders of them: writes a line of JSON for each.

    It has the picture's path, the caption and its score. Of folders, and the folders within, all
    files are read whose names end as those of pictures do.
    """,
    model_option,
    click.option("--to", "output", type=FILE, help="file of JSON lines; standard output if none"),
    _on_error,
    device_option,
    pictures_argument,
)


def _explain(
    model_file: Path,
    output: Path,
    limit: int,
    title: str,
    on_error: str,
    device: str,
    pictures: tuple[Path, ...],
    settings: dict[str, Any],
) -> None:
    page = _checked_place(output)
    paths = find_pictures(pictures)
    one = bool(output.suffix) and not page and not output.is_dir()
    if one and len(paths) > 1:
        raise click.UsageError(f"{output} is for one picture. Give a folder, or a page (*.html).")
    if len(paths) > limit:
        click.echo(f"Shown: {limit:,} of {len(paths):,} pictures. See --limit.", err=True)
    search = {"beams": settings["use"].beams, "alpha": settings["use"].alpha}
    with compute_on(device):
        captioner = Captioner.load(model_file)
        views, drawn, broken = [], 0, 0
        for number, path in enumerate(paths[:limit]):
            try:
                pixels = load_image(path)
            except (OSError, ValueError) as error:
                if on_error == "error":
                    raise
                broken += tell_broken([as_problem(os.fspath(path), error)])
                continue
            if page:
                view = caption_view(captioner, pixels, None, **search)
                views.append(dataclasses.replace(view, title=_named(path, view.title)))
                continue
            place = output if one else output / f"{number + 1:06d}-{path.stem}.png"
            caption = captioner.caption(pixels, return_attention=True, **search)
            caption.plot(pixels, place, _named(path, caption.text))
            drawn += 1
    if views:
        with contextlib.ExitStack() as stack:
            open_output(output, stack).write(attention_viewer(views, title))
    if views or drawn:
        click.echo(str(output))
    exit_if_broken(broken, "Not shown")


def _checked_place(output: Path) -> bool:
    """Finds out before the work where figures go, and returns whether they are a page."""
    suffix = output.suffix.lower()
    page, one = suffix in (".html", ".htm"), suffix in (".png", ".pdf", ".svg", ".jpg", ".jpeg")
    if suffix and not (page or one or output.is_dir()):
        raise click.UsageError(
            f"--to is a page (*.html), a figure (*.png, *.pdf, *.svg) or a folder, which must be "
            f"there if its name has a dot. Received: {output}."
        )
    if page or one:
        check_output(output)
    else:
        check_writable(output)
    return page


def _named(path: Path, caption: str) -> str:
    """A caption with the name of its picture."""
    return f"{as_text(path.name)}: {caption}"


explain = step_command(
    Captioner,
    "explain",
    _explain,
    """Show where the model looks in PICTURES, files or folders of them, for each word.

    A page has all layers and heads, to look around in, and needs no network. A figure has the
    picture, and beside it the picture for each word; several pictures give a folder of figures.
    """,
    model_option,
    click.option(
        "--to", "output", type=FILE, required=True,
        help="an HTML page (*.html), a figure (*.png, *.pdf, *.svg) or a folder of figures",
    ),
    click.option(
        "--limit", type=click.IntRange(1), default=50, show_default=True,
        help="largest number of pictures",
    ),
    click.option(
        "--title", default="Where it looked", show_default=True, help="title of the page"
    ),
    _on_error,
    device_option,
    pictures_argument,
)  # fmt: skip

captioning = task_command(Captioner)
captioning.add_command(predict)
captioning.add_command(explain)
