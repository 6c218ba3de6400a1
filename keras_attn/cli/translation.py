"""`keras-attn translation`: prepare, fit, evaluate, predict, export."""

import contextlib
import dataclasses
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.options import FILE, merged, settings_options
from keras_attn.datasets import read_pairs
from keras_attn.files import atomic_write, check_writable
from keras_attn.tasks import (
    DataSettings,
    DecodingSettings,
    ModelSettings,
    PreparedTranslation,
    TrainingSettings,
    Translator,
    train_translation,
)
from keras_attn.tasks.translation_settings import SECTIONS
from keras_attn.training import compute_on

_CHUNK = 1024
_config = click.option(
    "--config", type=FILE, help="settings file (TOML); options given here go before it"
)
_model = click.option(
    "--model", "model_file", type=FILE, required=True, help="the model, such as RUN/best.task"
)
_device = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "gpu"]),
    default="auto",
    show_default=True,
    help="where to compute",
)


@click.group()
def translation() -> None:
    """Translate sentences: a Transformer trained on pairs of your own."""


@translation.command()
@click.option("--to", "folder", type=FILE, required=True, help="new folder of prepared data")
@_config
@settings_options(DataSettings)
def prepare(folder: Path, config: Path | None, **given: Any) -> None:
    """Read sentence pairs, check and split them, and write ids for `fit`.

    Pairs come from a tab-separated file, two parallel files (--train and --train-target), JSON
    lines, a folder such as Multi30k's (SPLIT.LANGUAGE[.gz]) or an archive of Tatoeba. Files may
    be gzipped. Development and test pairs are drawn from them where none are given, so that
    none of their sentences stands in the training set.
    """
    settings = merged({"data": DataSettings}, config, given, SECTIONS)["data"]
    PreparedTranslation.prepare(settings, folder, click.echo)
    click.echo(f"Prepared data: {folder}")


@translation.command()
@click.option("--data", "folder", type=FILE, required=True, help="folder made by `prepare`")
@click.option("--run-dir", type=FILE, required=True, help="folder of the run")
@_config
@settings_options(ModelSettings, TrainingSettings)
def fit(folder: Path, run_dir: Path, config: Path | None, **given: Any) -> None:
    """Train; the same command again goes on with a run that was interrupted.

    After each epoch the development set is translated, and the weights with the best BLEU are
    kept in RUN_DIR/best.task. Ctrl-C ends the training after the batch at hand.
    """
    wanted = {"model": ModelSettings, "training": TrainingSettings}
    settings = merged(wanted, config, given, SECTIONS)
    with compute_on(settings["training"].device):
        data = PreparedTranslation.load(folder)
        run = train_translation(data, run_dir, settings["model"], settings["training"], click.echo)
    if not run.complete:
        click.echo("Interrupted. The same command goes on from here.", err=True)
        raise click.exceptions.Exit(128 + (run.interrupted_by or 2))
    click.echo(f"Best on the development set: BLEU {run.best_bleu:.2f}, epoch {run.best_epoch}")
    click.echo(str(run.best))


@translation.command()
@_model
@click.option("--data", "folder", type=FILE, help="folder made by `prepare`, whose set is taken")
@click.option(
    "--split", type=click.Choice(["test", "dev"]), default="test", show_default=True, help="of it"
)
@click.option("--pairs", type=FILE, help="a file or folder of pairs instead")
@click.option("--pairs-target", type=FILE, help="its target side, where it is a file of its own")
@click.option("--source", help="language, key or column of the sources in --pairs")
@click.option("--target", help="language, key or column of the targets in --pairs")
@click.option("--to", "output", type=FILE, help="JSON file of the scores and translations")
@_config
@_device
@settings_options(DecodingSettings)
def evaluate(
    model_file: Path,
    folder: Path | None,
    split: str,
    pairs: Path | None,
    pairs_target: Path | None,
    source: str | None,
    target: str | None,
    output: Path | None,
    config: Path | None,
    device: str,
    **given: Any,
) -> None:
    """Translate a test set and score it with sacrebleu: BLEU, cased and lower-cased, and chrF."""
    if (folder is None) == (pairs is None):
        raise click.UsageError("Give either --data or --pairs.")
    decoding = merged({"decoding": DecodingSettings}, config, given, SECTIONS)["decoding"]
    if output is not None:
        check_writable(output.absolute().parent)
    with compute_on(device):
        translator = Translator.load(model_file)
        if folder is not None:
            examples = getattr(PreparedTranslation.load(folder), split)
        else:
            columns = {"source": source, "target": target}
            columns = {k: int(v) if v.isdecimal() else v for k, v in columns.items() if v}
            examples = list(read_pairs(pairs, pairs_target, **columns))
        scores = translator.evaluate(examples, **dataclasses.asdict(decoding))
    figures = {
        "pairs": len(examples),
        "bleu": scores.bleu,
        "bleu_signature": scores.bleu_signature,
        "bleu_lowercase": scores.bleu_lowercase,
        "bleu_lowercase_signature": scores.bleu_lowercase_signature,
        "chrf": scores.chrf,
        "chrf_signature": scores.chrf_signature,
        "beams": decoding.beams,
        "alpha": decoding.alpha,
    }
    click.echo(f"{len(examples):,} pairs, beam of {decoding.beams}")
    for name in ("bleu", "bleu_lowercase", "chrf"):
        click.echo(f"{name:<15}{figures[name]:6.2f}  {figures[name + '_signature']}")
    if output is not None:
        rows = [
            {"source": pair[0], "translation": translation, "reference": pair[1]}
            for pair, translation in zip(examples, scores.translations, strict=True)
        ]
        with atomic_write(output) as partial:
            text = json.dumps({**figures, "translations": rows}, ensure_ascii=False, indent=1)
            partial.write_text(text + "\n", encoding="utf-8")


@translation.command()
@_model
@click.option("--to", "output", type=FILE, help="file of the translations; standard output if none")
@click.option("--alignments", type=FILE, help="file of word alignments, `i-j` from 0, a line each")
@click.option("--heat-maps", type=FILE, help="folder of pictures of the alignments (matplotlib)")
@_config
@_device
@settings_options(DecodingSettings)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
def predict(
    model_file: Path,
    output: Path | None,
    alignments: Path | None,
    heat_maps: Path | None,
    config: Path | None,
    device: str,
    files: tuple[Path, ...],
    **given: Any,
) -> None:
    """Translate FILES, a sentence a line, in their order; standard input if there are none.

    Lines end at newlines only. A blank line gives a blank line. Bytes that are no UTF-8 are read
    as U+FFFD, with a warning.
    """
    decoding = merged({"decoding": DecodingSettings}, config, given, SECTIONS)["decoding"]
    for path in files:
        if str(path) != "-" and not path.is_file():
            raise FileNotFoundError(f"Expected a file. Received: {path}, which is none.")
    for path in (output, alignments):
        if path is not None:
            check_writable(path.absolute().parent)
    if heat_maps is not None:
        check_writable(heat_maps)
    with compute_on(device), contextlib.ExitStack() as stack:
        translator = Translator.load(model_file)
        search = dataclasses.asdict(decoding)
        write = _writer(output, stack)
        write_links = _writer(alignments, stack) if alignments is not None else None
        number = 0
        for lines in _chunks(_lines(files)):
            real = [line for line in lines if line.strip()]
            if write_links is None and heat_maps is None:
                answers = iter([(t, None) for t in translator.translate(real, **search)])
            else:
                found = translator.translate_n_best(real, 1, **search)
                answers = iter([(best.translations[0], best.alignments[0]) for best in found])
            for line in lines:
                number += 1
                translated, alignment = next(answers) if line.strip() else ("", None)
                write(" ".join(translated.split()))  # a line must stay a line
                if write_links is not None:
                    write_links(alignment.to_pharaoh() if alignment is not None else "")
                if heat_maps is not None and alignment is not None:
                    alignment.plot(heat_maps / f"{number:06d}.png")


@translation.command()
@_model
@click.option("--to", "folder", type=FILE, required=True, help="folder of the SavedModel")
@click.option("--overwrite", is_flag=True, help="replace a SavedModel that is there")
@click.option(
    "--num-return-sequences", type=click.IntRange(1), help="translations of the signature `details`"
)
@_config
@settings_options(DecodingSettings)
def export(
    model_file: Path,
    folder: Path,
    overwrite: bool,
    num_return_sequences: int | None,
    config: Path | None,
    **given: Any,
) -> None:
    """Export a SavedModel from strings to strings, which needs TensorFlow alone."""
    decoding = merged({"decoding": DecodingSettings}, config, given, SECTIONS)["decoding"]
    more = {} if num_return_sequences is None else {"num_return_sequences": num_return_sequences}
    translator = Translator.load(model_file)
    translator.export(folder, decoding.beams, decoding.alpha, overwrite=overwrite, **more)
    click.echo(f"SavedModel: {folder}")


def _lines(files: tuple[Path, ...]) -> Iterator[str]:
    """The lines of files, split at newlines alone."""
    broken = 0
    for path in files or (Path("-"),):
        standard = str(path) == "-"
        with open(0 if standard else path, "rb", closefd=not standard) as file:
            for line in file:
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                try:
                    yield line.decode("utf-8")
                except UnicodeDecodeError:
                    broken += 1
                    yield line.decode("utf-8", errors="replace")
    if broken:
        click.echo(f"{broken} lines are no UTF-8: bad bytes were read as U+FFFD.", err=True)


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    lines = iter(lines)
    size = 1 if sys.stdin.isatty() else _CHUNK  # who types wants an answer
    while chunk := list(itertools.islice(lines, size)):
        yield chunk


def _writer(path: Path | None, stack: contextlib.ExitStack) -> Any:
    """Returns a function that writes a line; a file appears when it is whole."""
    place = os.dup(1) if path is None else stack.enter_context(atomic_write(path))
    file = open(place, "w", encoding="utf-8", newline="\n")  # noqa: SIM115
    stack.enter_context(file)

    def write(line: str) -> None:
        file.write(line + "\n")
        if sys.stdin.isatty():
            file.flush()

    return write
