"""`keras-attn translation`: prepare, fit, evaluate, predict, quantize, export."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.lines import check_files, files_argument, read_chunks
from keras_attn.cli.options import (
    FILE,
    config_option,
    device_option,
    merged,
    model_option,
    settings_options,
)
from keras_attn.cli.output import check_output, exit_if_interrupted, open_output, write_json
from keras_attn.cli.quantizing import quantize_command
from keras_attn.datasets import read_pairs
from keras_attn.datasets.parallel import normalize_whitespace
from keras_attn.files import check_writable
from keras_attn.models import SequenceDecoder
from keras_attn.tasks import (
    PreparedTranslation,
    TranslationDataSettings,
    TranslationDecodingSettings,
    TranslationModelSettings,
    TranslationTrainingSettings,
    Translator,
    train_translation,
)
from keras_attn.tasks.translation_data import columns
from keras_attn.tasks.translation_settings import SECTIONS, TOKENIZE
from keras_attn.training import compute_on


@click.group()
def translation() -> None:
    """Translate sentences: a Transformer, or a recurrent network, trained on your own pairs."""


@translation.command()
@click.option("--to", "folder", type=FILE, required=True, help="new folder of prepared data")
@config_option
@settings_options(TranslationDataSettings)
def prepare(folder: Path, config: Path | None, **given: Any) -> None:
    """Read sentence pairs, check and split them, and write ids for `fit`.

    Pairs come from a tab-separated file, two parallel files (--train and --train-target), JSON
    lines, a folder such as Multi30k's (SPLIT.LANGUAGE[.gz]) or an archive of Tatoeba. Files may
    be gzipped. Development and test pairs are drawn from them where none are given, so that
    none of their sentences stands in the training set.
    """
    settings = merged({"data": TranslationDataSettings}, config, given, SECTIONS)["data"]
    PreparedTranslation.prepare(settings, folder, click.echo)
    click.echo(f"Prepared data: {folder}")


@translation.command()
@click.option("--data", "folder", type=FILE, required=True, help="folder made by `prepare`")
@click.option("--run-dir", type=FILE, required=True, help="folder of the run")
@config_option
@settings_options(TranslationModelSettings, TranslationTrainingSettings)
def fit(folder: Path, run_dir: Path, config: Path | None, **given: Any) -> None:
    """Train; the same command again goes on with a run that was interrupted.

    `--model rnn` is a recurrent network, with the attention that `--attention` names; a setting of
    the other kind of model is an error. After each epoch the development set is translated, and the
    weights with the best BLEU are kept in RUN_DIR/best.task. Ctrl-C ends the training after the
    batch at hand.
    """
    wanted = {"model": TranslationModelSettings, "training": TranslationTrainingSettings}
    settings = merged(wanted, config, given, SECTIONS)
    data = PreparedTranslation.load(folder)
    run = train_translation(data, run_dir, settings["model"], settings["training"], click.echo)
    exit_if_interrupted(run)
    click.echo(f"Best on the development set: BLEU {run.best_bleu:.2f}, epoch {run.best_epoch}")
    click.echo(str(run.best))


@translation.command()
@model_option
@click.option("--data", "folder", type=FILE, help="folder made by `prepare`, whose set is taken")
@click.option(
    "--split",
    help="test or dev of --data, or a split of a folder of --pairs  [default: test]",
)
@click.option("--pairs", type=FILE, help="a file or folder of pairs instead")
@click.option("--pairs-target", type=FILE, help="its target side, where it is a file of its own")
@click.option("--source", help="language, key or column of the sources in --pairs")
@click.option("--target", help="language, key or column of the targets in --pairs")
@click.option(
    "--tokenize",
    type=click.Choice(TOKENIZE),
    default="13a",
    show_default=True,
    help="sacrebleu's tokenizer of BLEU: char or zh for scripts without spaces",
)
@click.option("--to", "output", type=FILE, help="JSON file of the scores and translations")
@config_option
@device_option
@settings_options(TranslationDecodingSettings)
def evaluate(
    model_file: Path,
    folder: Path | None,
    split: str | None,
    pairs: Path | None,
    pairs_target: Path | None,
    source: str | None,
    target: str | None,
    tokenize: str,
    output: Path | None,
    config: Path | None,
    device: str,
    **given: Any,
) -> None:
    """Translate a test set and score it with sacrebleu: BLEU, cased and lower-cased, and chrF."""
    if (folder is None) == (pairs is None):
        raise click.UsageError("Give either --data or --pairs.")
    if folder is not None and (pairs_target or source or target):
        raise click.UsageError("--pairs-target, --source and --target belong to --pairs.")
    if folder is not None and split not in (None, "test", "dev"):
        raise click.UsageError("--split of --data is test or dev.")
    if pairs is not None and pairs.is_dir() != (split is not None):
        raise click.UsageError("--pairs wants --split where it is a folder, and only there.")
    decoding = merged({"decoding": TranslationDecodingSettings}, config, given, SECTIONS)[
        "decoding"
    ]
    check_output(output)
    with compute_on(device):
        translator = Translator.load(model_file)
        if folder is not None:
            examples = getattr(PreparedTranslation.load(folder), split or "test")
        else:
            more = {} if split is None else {"split": split}
            examples = list(read_pairs(pairs, pairs_target, **columns(source, target), **more))
        scores = translator.evaluate(examples, **dataclasses.asdict(decoding), tokenize=tokenize)
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
        write_json(output, {**figures, "translations": rows})


@translation.command()
@model_option
@click.option("--to", "output", type=FILE, help="file of the translations; standard output if none")
@click.option("--alignments", type=FILE, help="file of word alignments, `i-j` from 0, a line each")
@click.option("--heat-maps", type=FILE, help="folder of pictures of the alignments (matplotlib)")
@config_option
@device_option
@settings_options(TranslationDecodingSettings)
@files_argument
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

    Lines end at newlines only. A blank line gives a blank line. White space is read as `prepare`
    reads it. Bytes that are no UTF-8 are read as U+FFFD, with a warning.
    """
    decoding = merged({"decoding": TranslationDecodingSettings}, config, given, SECTIONS)[
        "decoding"
    ]
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
        search = dataclasses.asdict(decoding)
        out = open_output(output, stack)
        links = open_output(alignments, stack) if alignments is not None else None
        number = cut = 0
        for lines in read_chunks(files, normalize_whitespace):
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


@translation.command()
@model_option
@click.option("--to", "folder", type=FILE, required=True, help="folder of the SavedModel")
@click.option("--overwrite", is_flag=True, help="replace a SavedModel that is there")
@click.option(
    "--num-return-sequences", type=click.IntRange(1), help="translations of the signature `details`"
)
@config_option
@settings_options(TranslationDecodingSettings)
def export(
    model_file: Path,
    folder: Path,
    overwrite: bool,
    num_return_sequences: int | None,
    config: Path | None,
    **given: Any,
) -> None:
    """Export a SavedModel from strings to strings, which needs TensorFlow alone."""
    decoding = merged({"decoding": TranslationDecodingSettings}, config, given, SECTIONS)[
        "decoding"
    ]
    more = {} if num_return_sequences is None else {"num_return_sequences": num_return_sequences}
    translator = Translator.load(model_file)
    translator.export(folder, decoding.beams, decoding.alpha, overwrite=overwrite, **more)
    click.echo(f"SavedModel: {folder}")


translation.add_command(quantize_command(Translator))
