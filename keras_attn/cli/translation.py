"""The steps of translation that other tasks have not: pairs prepared, lines with alignments."""

import contextlib
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.lines import check_files, files_argument, read_chunks
from keras_attn.cli.options import FILE, device_option, model_option
from keras_attn.cli.output import check_output, open_output
from keras_attn.cli.task_command import step_command, task_command, values_of
from keras_attn.files import check_writable
from keras_attn.models import SequenceDecoder
from keras_attn.tasks import PreparedTranslation, Translator
from keras_attn.training import compute_on


def _prepare(folder: Path, settings: dict[str, Any]) -> None:
    PreparedTranslation.prepare(settings["data"], folder, click.echo)
    click.echo(f"Prepared data: {folder}")


prepare = step_command(
    Translator,
    "prepare",
    _prepare,
    """Read sentence pairs, check and split them, and write ids for `fit`.

    Pairs come from a tab-separated file, two parallel files (--train and --train-target), JSON
    lines, a folder such as Multi30k's (SPLIT.LANGUAGE[.gz]) or an archive of Tatoeba. Files may
    be gzipped. Development and test pairs are drawn from them where none are given, so that
    none of their sentences stands in the training set.
    """,
    click.option("--to", "folder", type=FILE, required=True, help="new folder of prepared data"),
)


def _predict(
    model_file: Path,
    output: Path | None,
    alignments: Path | None,
    heat_maps: Path | None,
    device: str,
    files: tuple[Path, ...],
    settings: dict[str, Any],
) -> None:
    check_files(files)
    for path in (output, alignments):
        check_output(path)
    if output is not None and alignments is not None and output.resolve() == alignments.resolve():
        raise click.UsageError("--to and --alignments are one file.")
    if heat_maps is not None:
        check_writable(heat_maps)
    with compute_on(device), contextlib.ExitStack() as stack:
        translator = Translator.load(model_file)
        if (alignments or heat_maps) and not SequenceDecoder(translator.model).num_attentions:
            raise ValueError(
                "--alignments and --heat-maps belong to a model with attention. "
                f"Received: {model_file}, which has none."
            )
        search = values_of(Translator, "predict", settings, Translator.translate)
        out = open_output(output, stack)
        links = open_output(alignments, stack) if alignments is not None else None
        number = cut = 0
        for lines in read_chunks(files, str.strip):
            real = [line for line in lines if line]
            if links is None and heat_maps is None:
                answers = iter([(t, None) for t in translator.translate(real, **search)])
            else:
                found = translator.translate_n_best(real, 1, **search)
                cut += sum(best.source_truncated for best in found)
                answers = iter([(best.translations[0], best.alignments[0]) for best in found])
            for line in lines:
                number += 1
                translated, alignment = next(answers) if line else ("", None)
                print(" ".join(translated.split()), file=out)  # a line must stay a line
                if links is not None:
                    print(alignment.to_pharaoh() if alignment is not None else "", file=links)
                if heat_maps is not None and alignment is not None:
                    alignment.plot(heat_maps / f"{number:06d}.png")
            out.flush()
        if cut:
            click.echo(f"{cut} lines are longer than the model reads, and were cut.", err=True)


predict = step_command(
    Translator,
    "predict",
    _predict,
    """Translate FILES, a sentence a line, in their order; standard input if there are none.

    A line ends at a line feed, a carriage return, or both. A blank line gives a blank line. Bytes
    that are not UTF-8 are read as U+FFFD, with a warning.
    """,
    model_option,
    click.option(
        "--to", "output", type=FILE, help="file of the translations; standard output if none"
    ),
    click.option(
        "--alignments", type=FILE, help="file of word alignments, `i-j` from 0, a line each"
    ),
    click.option(
        "--heat-maps", type=FILE, help="folder of pictures of the alignments (matplotlib)"
    ),
    device_option,
    files_argument,
)

translation = task_command(Translator)
translation.add_command(prepare)
translation.add_command(predict)
