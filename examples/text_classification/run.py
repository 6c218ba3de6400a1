"""Measures classifiers on IMDB's reviews and on SST-2, as the table of the README has them.

    python examples/text_classification/run.py --settings imdb --data-dir aclImdb
    python examples/text_classification/run.py --settings sst2 --data-dir SST-2 --seeds 0 1 2

trains the model of a settings file once for each seed, on the training side of the folder, tests
each once (IMDB: the 25,000 test reviews; SST-2: the 872 sentences of `dev.tsv`, which no setting
was chosen by), and the TF-IDF baseline beside them. Then it deletes the words of most weight from
texts of the run's own development set, by attention, by gradients and at random, to see which of
them name the words that decide. What is there is not done again: a run that was interrupted goes
on.
"""

import argparse
import dataclasses
import json
import statistics
import sys
import time
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

from keras_attn.corpora import read_labelled_texts
from keras_attn.explain import deletion_curve
from keras_attn.files import atomic_write
from keras_attn.metrics import evaluate_probabilities
from keras_attn.records.class_labels import class_names_of, label_numbers
from keras_attn.settings import read_settings
from keras_attn.tasks import TextClassifier
from keras_attn.text.truncation import truncate
from keras_attn.training import compute_on

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # for the baseline
from tfidf_baseline import TfidfBaseline

TESTS = {"imdb": "test", "sst2": "dev"}
METHODS = ("attention", "gradient", "integrated_gradients")
DELETED = 300


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    known = sorted(path.stem for path in HERE.glob("*.toml"))
    add("--settings", default="imdb", choices=known, help="default: %(default)s")
    add("--data-dir", required=True, help="folder of the data")
    add("--run-dir", type=Path, default=Path("runs/text_classification"), help="%(default)s")
    add("--seeds", nargs="+", type=int, default=[0], help="default: 0")
    add("--epochs", type=int, help="instead of those of the settings")
    add("--no-baseline", action="store_true", help="leave TF-IDF out")
    add("--device", default="auto", choices=["auto", "cpu", "gpu"], help="default: auto")
    args = parser.parse_args(arguments)
    folder = args.run_dir / args.settings
    read = read_settings(HERE / f"{args.settings}.toml", TextClassifier.sections())
    sections = TextClassifier.sections()
    settings = {name: sections[name].made(read[name]) for name in ("data", "model", "training")}
    settings["data"] = dataclasses.replace(settings["data"], train=args.data_dir)
    if args.epochs:
        settings["training"] = dataclasses.replace(settings["training"], epochs=args.epochs)
    with compute_on(args.device):
        rows = [network(seed, folder, settings, args) for seed in args.seeds]
    found = [] if args.no_baseline else [baseline(folder, settings, args)]
    print("\n| model | accuracy (95 %) | macro F1 | AUC | log loss | ECE | training, s |")
    print("|---|---|---|---|---|---|---|")
    for row in [*found, *rows]:
        print(table_row(row))
    mean = statistics.mean(row["accuracy"]["value"] for row in rows)
    print(f"| mean of {len(rows)} | {mean:.4f} | | | | | |")
    print("\n| seed | deleted | area | at random | gained |\n|---|---|---|---|---|")
    for row in rows:
        for method in METHODS:
            curve = row[f"deletion_{method}"]
            gained = curve["random_area"] - curve["area"]
            print(
                f"| {row['name']} | {method} | {curve['area']:.3f} | {curve['random_area']:.3f} "
                f"| {gained:.3f} |"
            )


def network(seed: int, folder: Path, settings: dict, args: argparse.Namespace) -> dict:
    """Trains and tests one network, or reads what was found before."""
    print(f"\n=== {args.settings}, seed {seed}", flush=True)
    run_dir = folder / str(seed)
    texts = TextClassifier.read(settings["data"])
    training = dataclasses.replace(settings["training"], seed=seed)
    start = time.monotonic()
    run = TextClassifier.train(
        texts.train, texts.dev, run_dir, settings["data"], settings["model"], training, print
    )
    if not run.complete:
        raise SystemExit("Interrupted. Run the same command again to resume.")
    file = run_dir / "test.json"
    if file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    seconds = time.monotonic() - start
    classifier = TextClassifier.load(run.best)
    test = read_labelled_texts(
        args.data_dir, settings["data"].format, TESTS[settings["data"].format]
    )
    report = classifier.evaluate(test)
    print(report)
    row = {"name": f"seed {seed}", "seconds": seconds, "dev": run.best_score, **report.to_dict()}
    row["weights"] = classifier.model.count_params()
    shown = [example.text for example in texts.dev][:DELETED]
    ids = [
        truncate(row, classifier.max_length, classifier.truncation)
        for row in classifier.tokenizer.encode(shown)
    ]
    for method in METHODS:
        _, weights = classifier.explain_ids(ids, method)
        curve = deletion_curve(
            lambda rows: classifier.probabilities_of_logits(classifier.logits_of_ids(rows)),
            ids,
            weights,
        )
        row[f"deletion_{method}"] = curve.to_dict()
    keep(file, row)
    return row


def baseline(folder: Path, settings: dict, args: argparse.Namespace) -> dict:
    """Fits and tests TF-IDF with logistic regression, or reads what was found before."""
    file = folder / "tfidf.json"
    if file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    print("\n=== TF-IDF", flush=True)
    train = read_labelled_texts(args.data_dir, settings["data"].format)
    names = class_names_of(train.labels)
    start = time.monotonic()
    fitted = TfidfBaseline().fit(train.texts, label_numbers(train.labels, names))
    seconds = time.monotonic() - start
    test = read_labelled_texts(
        args.data_dir, settings["data"].format, TESTS[settings["data"].format]
    )
    found = fitted.predict_probabilities(test.texts)
    report = evaluate_probabilities(label_numbers(test.labels, names), found, names)
    row = {"name": "TF-IDF", "seconds": seconds, "C": fitted.strength, **report.to_dict()}
    keep(file, row)
    return row


def keep(file: Path, row: dict) -> None:
    """Writes figures, as a whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as partial:
        partial.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")


def table_row(row: dict) -> str:
    """A row of Markdown."""
    low, high = row["accuracy"]["interval"]
    cells = [
        row["name"],
        f"{row['accuracy']['value']:.4f} ({low:.4f} to {high:.4f})",
        *(f"{row[name]['value']:.4f}" for name in ("macro_f1", "auc", "log_loss", "ece")),
        f"{row['seconds']:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
