"""Compares three ways to use a translator for other texts: unchanged, with LoRA, or fully trained.

    python examples/translation.py
    python examples/adaptation.py --model runs/translation/translator.task --pairs deu-eng.zip \\
        --source 0 --target 1 --before runs/translation/unseen_sentences.tsv

The pairs are of another kind than the pairs that the translator was trained on: here, sentences of
Tatoeba (https://www.manythings.org/anki, English first) instead of the texts of a program. Some
pairs are held out; neither they nor similar pairs are used for training. For each way, the table
shows the score on the held-out pairs, the score on the original test set (`--before`, a file that
the first command writes), the training time, and the size of a file with only the changes. `--to`
saves the adapted models.
"""

import argparse
import tempfile
import time
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

import keras

from keras_attn.adapt import enable_lora, save_lora
from keras_attn.records import read_pairs, read_tsv, split_pairs
from keras_attn.tasks import Translator

WAYS = ("as it was", "LoRA", "all weights")


def column(text: str) -> int | str:
    """The number of a column, or a name."""
    return int(text) if text.isdecimal() else text


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", type=Path, required=True, help="a translator's file")
    add("--pairs", type=Path, required=True, help="pairs to adapt to, as `read_pairs` takes them")
    add("--before", type=Path, help="test set of before: tab-separated, references in column 2")
    add("--source", type=column, help="column from 0, key or language of the sources in --pairs")
    add("--target", type=column, help="that of the targets")
    add("--to", type=Path, help="folder for the adapted translators and the change of LoRA")
    add("--train-size", type=int, default=5000, help="pairs to train with (%(default)s)")
    add("--test-size", type=int, default=500, help="pairs held out (%(default)s)")
    add("--score", default="test", choices=["dev", "test"], help="pairs to score (%(default)s)")
    add("--epochs", type=int, default=5, help="(%(default)s)")
    add("--rank", type=int, default=8, help="of LoRA (%(default)s)")
    add("--lora-learning-rate", type=float, default=1e-2, help="(%(default)s)")
    add("--learning-rate", type=float, default=1e-3, help="of all weights (%(default)s)")
    add("--beams", type=int, default=4, help="(%(default)s)")
    add("--seed", type=int, default=0, help="of everything random (%(default)s)")
    return parser.parse_args(argv)


def adapted(way: str, args: argparse.Namespace, pairs: list) -> tuple[Translator, float, int]:
    """The translator, the seconds of its training, and the bytes of the change."""
    keras.utils.set_random_seed(args.seed)
    translator = Translator.load(args.model)
    if way == "as it was":
        return translator, 0.0, 0
    rate = args.learning_rate
    if way == "LoRA":
        report = enable_lora(translator, rank=args.rank)
        rate = args.lora_learning_rate
        print(f"{report.trainable:,} weights are trained, {report.frozen:,} are not.")
    start = time.perf_counter()
    settings = {"epochs": args.epochs, "seed": args.seed, "learning_rate": rate}
    translator.fit(pairs, tokens_per_batch=2048, verbose=2, **settings)
    seconds = time.perf_counter() - start
    name = "lora" if way == "LoRA" else "all_weights"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(args.to or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if way == "LoRA":
            path = folder / "lora.npz"
            save_lora(translator, path)
        else:
            path = Path(temporary, "all.weights.h5")
            plain = keras.Model(translator.model.inputs, translator.model.outputs)
            plain.save_weights(path)  # without the optimizer
        if args.to:
            translator.save(folder / f"{name}.task")
        return translator, seconds, path.stat().st_size


def main(argv: list[str] | None = None) -> list[dict]:
    """Trains, scores, and prints a table."""
    args = arguments(argv)
    columns = {k: v for k in ("source", "target") if (v := getattr(args, k)) is not None}
    pairs = read_pairs(args.pairs, unique=True, on_error="skip", **columns)
    if pairs.problems:
        print(f"{len(pairs.problems)} lines of {args.pairs} give no pair and are left out.")
    splits = split_pairs(pairs, args.test_size, args.test_size, seed=args.seed)
    train = splits.train[: args.train_size]
    sets = {"new": splits.test if args.score == "test" else splits.validation}
    if args.before:
        sets["before"] = read_tsv(args.before, 0, 2, header=True)
    print(f"{len(train):,} pairs to train with; scored on {args.score}.")
    rows = []
    for way in WAYS:
        print(f"=== {way}")
        translator, seconds, size = adapted(way, args, train)
        row = {"way": way, "seconds": seconds, "bytes": size}
        for name, given in sets.items():
            row[name] = translator.evaluate(given, beams=args.beams)
        rows.append(row)
    print(f"BLEU {rows[0]['new'].bleu_signature}")
    print(
        "| weights that change | training, s | bytes of the change |",
        *(f"BLEU, {n} |" for n in sets),
    )
    print("|---|---|---|" + "---|" * len(sets))
    for row in rows:
        scores = (f"{row[name].bleu:.1f} |" for name in sets)
        print(f"| {row['way']} | {row['seconds']:.0f} | {row['bytes']:,} |", *scores)
    return rows


if __name__ == "__main__":
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
    main()
