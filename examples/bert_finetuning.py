"""Measures the effect of pretraining on SST-2 and IMDB: a pretrained encoder and random weights.

    python examples/bert_finetuning.py --backbone run/best.task --sst2 SST-2 --imdb aclImdb

trains classifiers that differ only in their initial weights, with three seeds each:

    random      the sizes and the vocabulary of the encoder, with random weights
    pretrained  the encoder with its weights
    tfidf       no network: TF-IDF and logistic regression

| data | training texts | tested on |
|---|---|---|
| `--sst2` | the 67,349 phrases of `train.tsv` | the 872 sentences of `dev.tsv` |
| `--imdb` | 2,000 training reviews, half of them positive, chosen by the seed | the test set |

The weights of the last epoch are tested, so no test text influences a choice. To choose settings,
use `--trial`, which tests on held-out training texts instead. The table shows the mean over the
seeds with its standard error. Differences are computed for each seed.

After an interruption, the same command resumes: finished parts are not computed again.
"""

import argparse
import hashlib
import json
import random
import statistics
import sys
import time
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

from keras_attn.files import atomic_write
from keras_attn.metrics import evaluate_probabilities
from keras_attn.records import LabelledText, read_imdb, read_sst2
from keras_attn.records.class_labels import class_names_of, label_numbers
from keras_attn.tasks import TextClassifier
from keras_attn.training import compute_on

sys.path.append(str(Path(__file__).parent))  # for the baseline
from tfidf_baseline import TfidfBaseline

SETTINGS = {
    "sst2": {
        "epochs": 1, "batch_size": 32, "learning_rate": 1e-4, "max_length": 64,
        "pooling": "average",
    },
    "imdb": {
        "epochs": 4, "batch_size": 16, "learning_rate": 1e-4, "max_length": 128,
        "pooling": "average",
    },
}  # fmt: skip
NAMES = {"sst2": "SST-2", "imdb": "IMDB"}
READERS = {"sst2": (read_sst2, "dev"), "imdb": (read_imdb, "test")}
STARTS = ("random", "pretrained")
TRIAL = 2000


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--backbone", required=True, help="pretraining's task, or folder of Hugging Face weights")
    add("--sst2", metavar="FOLDER", help="GLUE's folder of SST-2")
    add("--imdb", metavar="FOLDER", help="folder of IMDB's reviews")
    add("--run-dir", type=Path, default=Path("runs/bert_finetuning"), help="default: %(default)s")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], help="default: 0 1 2")
    add("--labels", type=int, default=2000, help="labelled reviews of IMDB (%(default)s)")
    add("--limit", type=int, help="most training phrases of SST-2, drawn at random")
    add("--test-limit", type=int, help="most test texts, drawn at random, always the same")
    add("--trial", action="store_true", help="test on texts held out of the training side")
    add("--epochs", type=int, help="instead of 1 for SST-2 and 4 for IMDB")
    add("--batch-size", type=int, help="instead of 32 and 16")
    add("--learning-rate", type=float, help="instead of 1e-4")
    add("--max-length", type=int, help="instead of 64 and 128 tokens")
    add("--pooling", choices=["first", "average", "max", "attention"], help="instead of average")
    add("--no-baseline", action="store_true", help="leave TF-IDF out")
    add("--device", default="auto", choices=["auto", "cpu", "gpu"], help="default: auto")
    args = parser.parse_args(arguments)
    if not (args.sst2 or args.imdb):
        parser.error("Give --sst2, --imdb or both.")
    return args


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    results = []
    with compute_on(args.device):
        for data in SETTINGS:
            if getattr(args, data):
                results += measure(data, args)
    print("\n" + table(results))


def measure(data: str, args: argparse.Namespace) -> list[dict]:
    """Trains and tests all classifiers on one set of data."""
    train, test = read(data, args)
    settings = {
        name: value if getattr(args, name) is None else getattr(args, name)
        for name, value in SETTINGS[data].items()
    }
    starts = STARTS if args.no_baseline else (*STARTS, "tfidf")
    rows = []
    for seed in args.seeds:
        labelled = draw(data, train, seed, args)
        shape = {
            **settings, "labels": len(labelled), "tested": len(test), "trial": args.trial,
            "backbone": name_of(args.backbone),
        }  # fmt: skip
        for start in starts:
            folder = args.run_dir / data / f"{start}-{seed}"
            row = done(folder / "test.json", shape)
            if row is None:
                print(f"\n=== {NAMES[data]}, {start}, seed {seed}", flush=True)
                began = time.monotonic()
                report = (
                    baseline(labelled, test)
                    if start == "tfidf"
                    else network(start, seed, folder, labelled, test, settings, args)
                )
                seconds = round(time.monotonic() - began, 1)
                row = {
                    "data": data, "start": start, "seed": seed, "seconds": seconds,
                    "settings": shape, **report.to_dict(),
                }  # fmt: skip
                keep(folder / "test.json", row)
                print(report)
            rows.append(row)
    return rows


def read(data: str, args: argparse.Namespace) -> tuple[list[LabelledText], list[LabelledText]]:
    """The training side without texts of the test side, and the test side."""
    reader, side = READERS[data]
    train, test = list(reader(getattr(args, data))), []
    rng = random.Random(0)
    if args.trial:
        rng.shuffle(train)
        count = min(TRIAL, len(train) // 4)
        train, test = train[count:], train[:count]
    else:
        test = list(reader(getattr(args, data), side))
    if args.test_limit and args.test_limit < len(test):
        test = rng.sample(test, args.test_limit)
    known = {example.text for example in test}
    return [example for example in train if example.text not in known], test


def draw(
    data: str, train: list[LabelledText], seed: int, args: argparse.Namespace
) -> list[LabelledText]:
    """The texts of a seed: of IMDB a few, as many of each label; of SST-2 all, or `--limit`."""
    rng = random.Random(seed)
    if data == "sst2":
        return rng.sample(train, args.limit) if args.limit and args.limit < len(train) else train
    names = class_names_of([x.label for x in train])
    sides = [[example for example in train if example.label == name] for name in names]
    count = min(args.labels // len(names), *map(len, sides))
    drawn = [example for side in sides for example in rng.sample(side, count)]
    rng.shuffle(drawn)
    return drawn


def network(
    start: str, seed: int, folder: Path, labelled: list, test: list, settings: dict,
    args: argparse.Namespace,
):  # fmt: skip
    """Trains a classifier, or goes on with it, and returns its report."""
    data = {
        "backbone": str(args.backbone), "backbone_weights": start == "pretrained",
        "max_length": settings["max_length"], "truncation": "head_tail",
    }  # fmt: skip
    training = {name: settings[name] for name in ("epochs", "batch_size", "learning_rate")}
    training |= {"seed": seed, "device": args.device}
    model = {
        "model": "bert", "pooling": settings["pooling"], "dropout": 0.1, "attention_dropout": 0.1,
    }  # fmt: skip
    run = TextClassifier.train(labelled, None, folder, data, model, training, print)
    if not run.complete:
        raise SystemExit("Interrupted. Run the same command again to resume.")
    return TextClassifier.load(run.best).evaluate(test)


def baseline(labelled: list, test: list):
    """Fits TF-IDF with logistic regression, and returns its report."""
    names = class_names_of([x.label for x in labelled])
    texts, labels = zip(*((x.text, x.label) for x in labelled), strict=True)
    fitted = TfidfBaseline().fit(list(texts), label_numbers(list(labels), names))
    results = fitted.predict_probabilities([x.text for x in test])
    return evaluate_probabilities(label_numbers([x.label for x in test], names), results, names)


def name_of(backbone: str) -> str:
    """Names an encoder by its content, if it is a file."""
    path = Path(backbone).expanduser()
    if not path.is_file():
        return str(backbone)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def done(file: Path, shape: dict) -> dict | None:
    """What was found before, if it was."""
    if not file.exists():
        return None
    row = json.loads(file.read_text(encoding="utf-8"))
    if row["settings"] != shape:
        other = ", ".join(
            f"{name} is {row['settings'].get(name)!r} there, {value!r} here"
            for name, value in shape.items()
            if row["settings"].get(name) != value
        )
        raise SystemExit(f"{file} has other settings: {other}. Choose another --run-dir.")
    return row


def keep(file: Path, row: dict) -> None:
    """Writes figures, as a whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as partial:
        partial.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")


def table(rows: list[dict]) -> str:
    """All figures as a table of Markdown, in percent."""
    lines = [
        "| data | labelled texts | test texts | start | accuracy | of each seed |",
        "|---|---|---|---|---|---|",
    ]
    for data in dict.fromkeys(row["data"] for row in rows):
        some = [row for row in rows if row["data"] == data]
        sizes = some[0]["settings"]
        before = f"| {NAMES[data]} | {sizes['labels']:,} | {sizes['tested']:,} |"
        scores = {
            start: [100 * row["accuracy"]["value"] for row in some if row["start"] == start]
            for start in dict.fromkeys(row["start"] for row in some)
        }
        gains = [b - a for a, b in zip(*(scores[start] for start in STARTS), strict=True)]
        for start, values in {**scores, "pretrained - random": gains}.items():
            sign = "+" if values is gains else ""
            each = ", ".join(f"{value:{sign}.1f}" for value in values)
            lines.append(f"{before} {start} | {mean_and_error(values, sign)} | {each} |")
    return "\n".join(lines)


def mean_and_error(values: list[float], sign: str = "") -> str:
    """The mean with its standard error, if there are several values."""
    text = f"{statistics.mean(values):{sign}.1f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values) / len(values) ** 0.5:.1f}"
    return text


if __name__ == "__main__":
    main()
