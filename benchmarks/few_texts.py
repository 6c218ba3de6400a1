"""A text classifier trained on few texts with the default settings, beside TF-IDF.

    python -m benchmarks.few_texts --train banking77_train.csv --test banking77_test.csv \\
        --label category --texts 2000 --backbone minilm --max-length 32
    python -m benchmarks.few_texts --train imdb_train.jsonl.gz --test imdb_test.jsonl.gz --texts 300

For each seed, `--texts` texts are drawn from `--train`. A tenth of them (2000 texts: 200) chooses
the best weights, as in `keras-attn text-classification fit`; the rest is what is learned from. The
weights that were chosen are tested once. TF-IDF with logistic regression learns from all texts that
were drawn. `--set learning_rate=3e-3` trains with another setting than the default.
"""

import argparse
import json
import os
import random
import statistics
import tempfile
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from examples.tfidf_baseline import TfidfBaseline
from keras_attn.metrics import evaluate_probabilities
from keras_attn.records import LabelledText, read_labelled, split_labelled
from keras_attn.records.class_labels import class_names_of, label_numbers
from keras_attn.tasks import TextClassifier


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--train", required=True, help="file of labelled texts")
    add("--test", required=True, help="file of labelled texts")
    add("--text", default="text", help="column, or JSON key, of the texts (%(default)s)")
    add("--label", default="label", help="column, or JSON key, of the labels (%(default)s)")
    add("--texts", type=int, help="texts drawn from --train; all if not given")
    add("--test-texts", type=int, help="texts drawn from --test, the same for all seeds; all")
    add("--seeds", nargs="+", type=int, default=[0], help="default: 0")
    add("--backbone", default="", help="encoder to start from; default: none, random weights")
    add("--model", help="network; default: that of the backbone, else bag")
    add("--max-length", type=int, default=256, help="tokens of a text (%(default)s)")
    add(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="settings of the training, such "
        "as learning_rate=3e-3; the defaults are taken for the others",
    )  # fmt: skip
    add("--no-baseline", action="store_true", help="leave TF-IDF out")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    """Trains and tests; prints and returns the accuracies by who had them, in percent."""
    args = parse_arguments(arguments)
    training = {
        name: json.loads(value) for name, value in (one.split("=") for one in args.set)
    }  # fmt: skip
    every = list(read_labelled(args.train, text=args.text, label=args.label))
    test = list(read_labelled(args.test, text=args.text, label=args.label))
    test = drawn(test, args.test_texts, 0)
    found: dict[str, list[float]] = {"keras_attn": []}
    for seed in args.seeds:
        texts = drawn(every, args.texts, seed)
        found["keras_attn"].append(network(texts, test, seed, training, args))
        if not args.no_baseline:
            found.setdefault("TF-IDF", []).append(baseline(texts, test))
    what = f"{len(texts):,} texts, {len(class_names_of([x.label for x in every]))} classes"
    print(f"\naccuracy in percent, {what}, tested on {len(test):,}")
    for name, values in found.items():
        each = ", ".join(f"{value:.1f}" for value in values)
        print(f"{name}: {statistics.mean(values):.1f} ({each})")
    return found


def drawn(examples: list[LabelledText], count: int | None, seed: int) -> list[LabelledText]:
    """So many of the examples, at random."""
    some = len(examples) if count is None else min(count, len(examples))
    return random.Random(seed).sample(examples, some)


def network(
    texts: list, test: list, seed: int, training: dict[str, Any], args: argparse.Namespace
) -> float:
    """Trains a classifier as the command does, and returns its accuracy in percent."""
    splits = split_labelled(texts, dev=0.1, test=0, seed=seed)
    data = {"backbone": args.backbone, "max_length": args.max_length}
    model = {} if args.model is None else {"model": args.model}
    with tempfile.TemporaryDirectory() as folder:
        run = TextClassifier.train(
            splits.train, splits.dev, folder, data, model, {"seed": seed, **training}, print
        )
        if not run.complete:
            raise SystemExit("Interrupted: nothing is measured.")
        print(f"seed {seed}: loss {run.history['loss'][0]:.3f} to {run.history['loss'][-1]:.3f}, "
              f"epoch {run.best_epoch} of {len(run.log)} is the best. {run.note}")  # fmt: skip
        classifier = TextClassifier.load(run.best)
    results = classifier.predict([x.text for x in test])
    right = sum(result.label == x.label for result, x in zip(results, test, strict=True))
    return 100 * right / len(test)


def baseline(texts: list, test: list) -> float:
    """Fits TF-IDF with logistic regression, and returns its accuracy in percent."""
    names = class_names_of([x.label for x in texts])
    known = [x for x in test if x.label in names]
    labels = label_numbers([x.label for x in texts], names)
    fitted = TfidfBaseline().fit([x.text for x in texts], labels, num_classes=len(names))
    probabilities = fitted.predict_probabilities([x.text for x in known])
    found = evaluate_probabilities(
        label_numbers([x.label for x in known], names), probabilities, num_bootstrap=0
    )
    return 100 * found.accuracy.value * len(known) / len(test)


if __name__ == "__main__":
    main()
