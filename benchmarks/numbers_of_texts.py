"""A number predicted from a text, compared with the median and with TF-IDF and ridge regression.

    python -m benchmarks.numbers_of_texts --train imdb_train.jsonl.gz --test imdb_test.jsonl.gz \\
        --number rating --max-length 1024 --set loss_kind=absolute vocabulary_size=20000 dim=16 \\
        pair_buckets=900000 word_dropout=0.3 epochs=3 batch_size=64 learning_rate=1e-2
    python -m benchmarks.numbers_of_texts --train imdb_train.jsonl.gz --number rating \\
        --backbone minilm --texts 2000 --set tune=head

For each seed, `--texts` texts are drawn from `--train`, and a tenth of them is held out, as in
`keras-attn regression fit`: by these the regressor keeps its best weights, and the ridge regression
chooses its alpha, by the mean absolute error. The ridge regression then learns from all texts that
were drawn, and its predictions are clipped to the range of their numbers. Without `--test` only
errors on the held-out texts are printed. With it, each model is tested once, and the differences of
absolute errors are paired by texts: `d +- s` is their mean with its standard error.
"""

import argparse
import json
import os
import random
import tempfile
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from keras_attn.records import NumberedText, read_numbered_texts, split_numbered
from keras_attn.tasks import TextRegressor

ALPHAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--train", required=True, help="file of texts with a number")
    add("--test", help="file of texts with a number")
    add("--text", default="text", help="column, or JSON key, of the texts (%(default)s)")
    add("--number", default="number", help="column, or JSON key, of the numbers (%(default)s)")
    add("--texts", type=int, help="texts drawn from --train; all if not given")
    add("--seeds", nargs="+", type=int, default=[0], help="default: 0")
    add("--backbone", default="", help="encoder to start from; default: none, random weights")
    add("--model", help="network; default: that of the backbone, else bag")
    add("--max-length", type=int, default=256, help="tokens of a text (%(default)s)")
    add(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="settings of data, model or "
        "training, such as learning_rate=3e-3; the defaults are taken for the others",
    )  # fmt: skip
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    """Trains and measures; prints and returns the mean absolute errors by who had them."""
    args = parse_arguments(arguments)
    every = list(read_numbered_texts(args.train, args.text, args.number))
    test = list(read_numbered_texts(args.test, args.text, args.number)) if args.test else None
    found: dict[str, list[float]] = {}
    for seed in args.seeds:
        texts = random.Random(seed).sample(every, min(args.texts or len(every), len(every)))
        train, dev = split_numbered(texts, 0.1, seed)
        measured = dev if test is None else test
        errors = {
            "median": np.abs(numbers(measured) - np.median(numbers(train))),
            "TF-IDF, ridge": ridge_errors(train, dev, measured, test is not None),
            "keras_attn": regressor_errors(train, dev, measured, seed, args),
        }
        for name, own in errors.items():
            found.setdefault(name, []).append(float(own.mean()))
            less = errors["keras_attn"] - own
            spread = less.std(ddof=1) / np.sqrt(len(own))
            paired = (
                "" if name == "keras_attn" else f", keras_attn {less.mean():+.3f} +- {spread:.3f}"
            )
            print(f"seed {seed}: {name} {own.mean():.3f}{paired}")
    where = "held-out" if test is None else "test"
    print(f"\nmean absolute error of {len(measured):,} {where} texts, {len(texts):,} learned from")
    for name, values in found.items():
        print(f"{name}: {np.mean(values):.3f} ({', '.join(f'{x:.3f}' for x in values)})")
    return found


def numbers(texts: Sequence[NumberedText]) -> np.ndarray:
    """The numbers of texts, `(n,)`."""
    return np.array([x.number for x in texts])


def ridge_errors(
    train: Sequence[NumberedText],
    dev: Sequence[NumberedText],
    measured: Sequence[NumberedText],
    refit: bool,
) -> np.ndarray:
    """Absolute errors of ridge regression on TF-IDF of words and pairs of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import Ridge

    def errors(
        known: Sequence[NumberedText], asked: Sequence[NumberedText], alphas: Sequence[float]
    ) -> list[np.ndarray]:
        vectorizer = TfidfVectorizer(
            token_pattern=r"(?u)\b\w+\b", ngram_range=(1, 2), sublinear_tf=True, min_df=2
        )
        features = vectorizer.fit_transform([x.text for x in known])
        others = vectorizer.transform([x.text for x in asked])
        targets = numbers(known)
        found = []
        for alpha in alphas:
            model = Ridge(alpha, solver="sparse_cg", tol=1e-3).fit(features, targets)
            values = np.clip(model.predict(others), targets.min(), targets.max())
            found.append(np.abs(numbers(asked) - values))
        return found

    tried = errors(train, dev, ALPHAS)
    means = [float(x.mean()) for x in tried]
    best = int(np.argmin(means))
    print(
        "ridge, held-out:", ", ".join(f"{a:g}: {x:.3f}" for a, x in zip(ALPHAS, means, strict=True))
    )
    return errors([*train, *dev], measured, [ALPHAS[best]])[0] if refit else tried[best]


def regressor_errors(
    train: Sequence[NumberedText],
    dev: Sequence[NumberedText],
    measured: Sequence[NumberedText],
    seed: int,
    args: argparse.Namespace,
) -> np.ndarray:
    """Trains a regressor as the command does, and returns its absolute errors."""
    data: dict[str, Any] = {"backbone": args.backbone, "max_length": args.max_length}
    model: dict[str, Any] = {} if args.model is None else {"model": args.model}
    training: dict[str, Any] = {"seed": seed}
    of_data, of_training = (
        [x.name for x in kind.declared()] for kind in (TextRegressor.Data, TextRegressor.Training)
    )
    for name, value in (one.split("=") for one in args.set):
        section = data if name in of_data else training if name in of_training else model
        section[name] = read(value)
    with tempfile.TemporaryDirectory() as folder:
        run = TextRegressor.train(train, dev, folder, data, model, training, print)
        if not run.complete:
            raise SystemExit("Interrupted: nothing is measured.")
        each = ", ".join(f"{row['val_mean_absolute_error']:.3f}" for row in run.log)
        print(f"seed {seed}: epochs {each}; {run.note}")
        regressor = TextRegressor.load(run.best)
    results = regressor.predict([x.text for x in measured])
    margin = regressor.learned.margin
    errors = np.abs(numbers(measured) - np.array([x.number for x in results]))
    if margin is not None:
        print(f"seed {seed}: within {margin:.3f}: {np.mean(errors <= margin):.1%}")
    return errors


def read(value: str) -> Any:
    """A setting of the training: a number, or a word."""
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


if __name__ == "__main__":
    main()
