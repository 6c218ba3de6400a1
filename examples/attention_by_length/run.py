"""Shows why attention was needed: translation quality by the length of the source.

    python examples/attention_by_length/run.py --data-dir multi30k --to runs/attention_by_length

trains four translators (a recurrent network with a fixed context, with additive attention and with
Luong's, and a Transformer) on the same examples, translates the test set once with each, and writes
BLEU by the number of source words to `bleu_by_length.csv` and `bleu_by_length.png`.

To provide enough long sources, each example is made of 1 to 5 consecutive sentence pairs, joined by
spaces; `--seed` determines their numbers, in the training set and in the test set. The training set
contains no sentence of the test set and no similar sentence. After an interruption, the same
command resumes: finished parts are not computed again. The data are a folder of Multi30k
(`--data-dir`), a file of pairs such as an archive of Tatoeba (`--pairs`), or, without these
options, human translations that are downloaded once.
"""

import argparse
import csv
import dataclasses
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

import numpy as np

from keras_attn.corpora import load_home_assistant
from keras_attn.files import atomic_write
from keras_attn.records import (
    TranslationPair,
    read_multi30k,
    read_pairs,
    remove_overlap,
    split_pairs,
)
from keras_attn.settings import read_settings
from keras_attn.tasks import PreparedTranslation, TranslationData, Translator
from keras_attn.training import compute_on

MODELS = ("rnn-none", "rnn-additive", "rnn-luong-general", "transformer")
SECTIONS = {**Translator.sections(), **dict.fromkeys(MODELS, Translator.kinds)}
EDGES = (1, 11, 21, 31, 41, 51)  # least number of words in each bin
SETS = ("train", "dev", "test")


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--to", type=Path, default=Path("runs/attention_by_length"), help="default: %(default)s")
    add("--data-dir", type=Path, help="folder of Multi30k's files")
    add("--pairs", type=Path, help="a file of pairs instead: tab-separated, JSON lines, Tatoeba's")
    add("--source", help="language (de), or key or column of --pairs")
    add("--target", help="language (en; of the default data de), or key or column of --pairs")
    add("--models", nargs="+", default=MODELS, choices=MODELS, metavar="NAME", help="default: all")
    add("--epochs", type=int, help="instead of those of the settings")
    add("--seed", type=int, default=0, help="of joining, splits and training (%(default)s)")
    add("--limit", type=int, help="training pairs before they are joined; default: all")
    add("--most-joined", type=int, default=5, help="most pairs in an example (%(default)s)")
    add("--most-words", type=int, default=100, help="most words of a side (%(default)s)")
    add("--test-size", type=int, default=2000, help="pairs drawn for dev and test (%(default)s)")
    add("--settings", type=Path, default=Path(__file__).with_name("settings.toml"))
    add("--device", default="auto", choices=["auto", "cpu", "gpu"], help="default: auto")
    args = parser.parse_args(arguments)
    if args.data_dir and args.pairs:
        parser.error("Give --data-dir or --pairs, not both.")
    return args


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    read = read_settings(args.settings, SECTIONS)
    settings = {name: SECTIONS[name].made(values) for name, values in read.items()}
    check_same_run(args, settings)
    data = prepared(args, settings["data"])
    translations = {}
    with compute_on(args.device):
        for name in args.models:
            print(f"\n=== {name}", flush=True)
            translations[name] = test_translations(args.to / name, name, data, settings, args)
    rows = bleu_by_length(data.test, translations, seed=args.seed)
    write_table(rows, args.to / "bleu_by_length.csv")
    plot(rows, args.to / "bleu_by_length.png")
    print(f"\n{args.to / 'bleu_by_length.csv'}\n{args.to / 'bleu_by_length.png'}")


def check_same_run(args: argparse.Namespace, settings: dict) -> None:
    """Notes what the run is made of; ends the program where the folder holds another one."""
    names = ("data_dir", "pairs", "source", "target", "seed", "limit", "most_joined", "most_words")
    noted = {name: getattr(args, name) for name in (*names, "test_size", "epochs")}
    noted = {name: str(v) if isinstance(v, Path) else v for name, v in noted.items()}
    noted |= {
        name: {key: value for key, value, _ in section.entries()}
        for name, section in settings.items()
    }
    noted = json.loads(json.dumps(noted))  # as it is read again: tuples are lists
    file = args.to / "run.json"
    if file.exists():
        former = json.loads(file.read_text(encoding="utf-8"))
        changed = [name for name in noted if former.get(name) != noted[name]]
        if changed:
            raise SystemExit(
                f"{args.to} holds a run of other settings: {', '.join(changed)}. Give another "
                "folder by --to, or remove that one."
            )
        return
    args.to.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as partial:
        partial.write_text(json.dumps(noted, indent=1) + "\n", encoding="utf-8")


# Data


def read_sets(args: argparse.Namespace) -> dict[str, list[TranslationPair]]:
    """Reads sentence pairs; no sentence of one set is like one of another."""
    if args.data_dir:
        languages = {"source": args.source or "de", "target": args.target or "en"}
        train, dev, test = (
            list(read_multi30k(args.data_dir, split=split, **languages))
            for split in ("train", "val", "test_2016_flickr")
        )
        dev = remove_overlap(dev, test)[0]
        train = remove_overlap(train, dev, test)[0]
    else:
        if args.pairs:
            given = {"source": args.source, "target": args.target}
            given = {k: int(v) if v.isdecimal() else v for k, v in given.items() if v}
            pairs = list(read_pairs(args.pairs, **given))
        else:
            pairs = load_home_assistant(args.target or "de")
        splits = split_pairs(pairs, args.test_size, args.test_size, seed=args.seed)
        train, dev, test = splits.train, splits.validation, splits.test
    return {"train": train[: args.limit], "dev": dev, "test": test}


def join(
    pairs: Sequence[TranslationPair], most_joined: int, most_words: int, seed: str
) -> list[TranslationPair]:
    """Joins consecutive pairs, 1 to `most_joined` of them, each number as likely as any other.

    An example gets no further pair that would make one of its sides longer than `most_words`; a
    pair that is longer by itself is left out.
    """
    rng = random.Random(seed)
    joined: list[TranslationPair] = []
    wanted, held = 0, 0
    for pair in pairs:
        sides = [" ".join(side.split()) for side in (pair.source, pair.target)]
        if any(len(side.split()) > most_words for side in sides):
            continue
        if held < wanted:
            longer = [f"{a} {b}" for a, b in zip(joined[-1][:2], sides, strict=True)]
            if all(len(side.split()) <= most_words for side in longer):
                joined[-1] = TranslationPair(*longer)
                held += 1
                continue
        joined.append(TranslationPair(*sides))
        wanted, held = rng.randint(1, most_joined), 1
    return joined


def prepared(args: argparse.Namespace, settings: TranslationData) -> PreparedTranslation:
    """Reads, joins and tokenizes, or loads what was prepared before."""
    folder = args.to / "data"
    if not folder.exists():
        for name, pairs in read_sets(args).items():
            examples = join(pairs, args.most_joined, args.most_words, f"{name} {args.seed}")
            print(f"{name}: {len(pairs):,} pairs joined to {len(examples):,} examples")
            lines = [f"{pair.source}\t{pair.target}\n" for pair in examples]
            with atomic_write(args.to / f"{name}.tsv") as partial:
                partial.write_text("".join(lines), encoding="utf-8")
        files = {name: str(args.to / f"{name}.tsv") for name in SETS}
        PreparedTranslation.prepare(
            dataclasses.replace(settings, format="tsv", **files), folder, print
        )
    data = PreparedTranslation.load(folder)
    most = data.settings.max_length
    rows = [data.source_tokenizer.encode(pair.source, add_end=True) for pair in data.test]
    if data.counts["too_long"] or max(map(len, rows)) > most:
        raise SystemExit(
            f"Some examples have more than `max_length`={most} tokens. Raise it in the settings, "
            "or lower --most-words."
        )
    return data


# Training and test


def test_translations(
    run_dir: Path, name: str, data: PreparedTranslation, settings: dict, args: argparse.Namespace
) -> list[str]:
    """Trains one model and translates the test set, or reads what was translated before."""
    file = run_dir / "test.json"
    if file.exists():
        print("Done before.")
        return json.loads(file.read_text(encoding="utf-8"))["translations"]
    training = dataclasses.replace(settings["training"], seed=args.seed)
    if args.epochs:
        training = dataclasses.replace(training, epochs=args.epochs)
    run = Translator.train(data, data.dev, run_dir, None, settings[name], training, print)
    if not run.complete:
        raise SystemExit("Interrupted. Run the same command again to resume.")
    use = settings["use"]
    scores = (
        Translator.load(run.best).evaluate(data.test, beams=use.beams, alpha=use.alpha)._asdict()
    )
    print(f"BLEU {scores['bleu']:.1f}  {scores['bleu_signature']}")
    with atomic_write(file) as partial:
        text = json.dumps({**scores, "best_epoch": run.best_epoch}, ensure_ascii=False, indent=1)
        partial.write_text(text + "\n", encoding="utf-8")
    return scores["translations"]


# BLEU by length


def bin_of(source: str) -> int:
    """Number of the bin of a source, by its words."""
    words = len(source.split())
    return max(i for i, least in enumerate(EDGES) if words >= least or i == 0)


def bin_name(number: int) -> str:
    """Its words, such as `11-20`."""
    if number == len(EDGES) - 1:
        return f"{EDGES[number]}+"
    return f"{EDGES[number]}-{EDGES[number + 1] - 1}"


def bleu_by_length(
    test: Sequence[TranslationPair],
    translations: dict[str, list[str]],
    resamples: int = 1000,
    seed: int = 0,
) -> list[dict]:
    """Corpus BLEU (sacrebleu, cased) of the examples in each bin, and of all.

    `low` and `high` are the limits of the 95 % bootstrap interval: examples of the bin are drawn
    with replacement, the same ones for each model.
    """
    import sacrebleu

    metric = sacrebleu.BLEU(effective_order=True)  # for the counts of each example alone

    def counts(translation, target):
        score = metric.sentence_score(translation, [target])
        return [*score.counts, *score.totals, score.sys_len, score.ref_len]

    def bleu(total):
        total = [int(n) for n in total]
        return metric.compute_bleu(total[:4], total[4:8], *total[8:], smooth_method="exp").score

    bins = np.array([bin_of(pair.source) for pair in test])
    rows = []
    for name, texts in translations.items():
        pairs = zip(texts, test, strict=True)
        table = np.array([counts(text, pair.target) for text, pair in pairs])
        for number in [*sorted(set(bins.tolist())), None]:
            own = table if number is None else table[bins == number]
            rng = np.random.default_rng([seed, len(EDGES) if number is None else number])
            drawn = rng.integers(len(own), size=(resamples, len(own)))
            resampled = [bleu(own[rows].sum(axis=0)) for rows in drawn]
            low, high = np.percentile(resampled, [2.5, 97.5])
            rows.append(
                {
                    "model": name,
                    "source_words": "all" if number is None else bin_name(number),
                    "examples": len(own),
                    "bleu": round(bleu(own.sum(axis=0)), 2),
                    "low": round(float(low), 2),
                    "high": round(float(high), 2),
                }
            )
    return rows


def write_table(rows: list[dict], path: Path) -> None:
    """Writes the table, and prints it."""
    with atomic_write(path) as partial, open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    print(f"\n{'model':<20}{'source words':>14}{'examples':>10}{'BLEU':>8}  95 %")
    for row in rows:
        print(
            f"{row['model']:<20}{row['source_words']:>14}{row['examples']:>10}{row['bleu']:>8.1f}"
            f"  {row['low']:.1f} to {row['high']:.1f}"
        )


def plot(rows: list[dict], path: Path) -> None:
    """Draws a line for each model; readable without colours."""
    from matplotlib.figure import Figure

    styles = {
        "rnn-none": ("recurrent, fixed context", "#b03030", "o", ":"),
        "rnn-additive": ("recurrent, additive attention", "#1f4e79", "s", "-"),
        "rnn-luong-general": ("recurrent, Luong's attention", "#5b9bd5", "^", "--"),
        "transformer": ("Transformer", "#222222", "D", "-."),
    }
    rows = [row for row in rows if row["source_words"] != "all"]
    names = list(dict.fromkeys(row["model"] for row in rows))
    bins = {row["source_words"]: row["examples"] for row in rows}
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for i, name in enumerate(names):
        label, color, marker, line = styles[name]
        own = [row for row in rows if row["model"] == name]
        x = np.arange(len(own)) + 0.06 * (i - (len(names) - 1) / 2)  # intervals side by side
        y = np.array([row["bleu"] for row in own])
        # Near 0 the interval may lie beside the figure itself.
        below = np.maximum(y - [row["low"] for row in own], 0)
        above = np.maximum([row["high"] for row in own] - y, 0)
        axes.errorbar(
            x, y, [below, above], label=label, color=color, marker=marker, linestyle=line,
            elinewidth=1, capsize=2,
        )  # fmt: skip
    axes.set_xticks(range(len(bins)), [f"{words}\nn={n}" for words, n in bins.items()])
    axes.set_xlabel("source words")
    axes.set_ylabel("BLEU")
    top = max(row["high"] for row in rows)
    axes.set_ylim(0, 5 * math.ceil((top + 1) / 5))
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    with atomic_write(path) as partial:
        figure.savefig(partial, dpi=150, format="png")


if __name__ == "__main__":
    main()
