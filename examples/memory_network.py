"""Answers questions about stories: does attention find the supporting facts?

    python examples/memory_network.py

generates stories by rule, like bAbI's tasks 1 to 3, whose questions need one, two or three
supporting facts. For each number of facts, it trains these models with three seeds, which also
determine the stories:

    memory network   three hops of attention over the sentences (Sukhbaatar et al., 2015)
    without          the same network with equal weights for all sentences
    BiLSTM           reads the whole story and then the question, word by word; its six epochs take
                     longer than the thirty of the others

The table shows the accuracy on 1,000 other stories. For the memory network, it also shows the share
of the attention on the supporting facts (mean over the hops), and the share of the facts that have
the largest weight in one of the hops, each beside its value by chance. Results are kept in the run
folder, so an interrupted command resumes.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

import keras
import numpy as np

from keras_attn import attention_maps
from keras_attn.corpora import StoryQuestion, make_stories, story_arrays, story_words
from keras_attn.files import atomic_write
from keras_attn.models import MemoryNetworkConfig, RecurrentClassifierConfig

MODELS = ("memory network", "without attention", "BiLSTM")
KEPT = ("stories", "test_stories", "epochs", "linear_epochs", "bilstm_epochs", "dim")
"""Options that decide the figures; runs of other values are done again."""
BATCH, RATE = 128, 5e-3


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--run-dir", type=Path, default=Path("runs/memory_network"), help="default: %(default)s")
    add("--facts", nargs="+", type=int, choices=(1, 2, 3), default=[1, 2, 3], help="default: all")
    add("--models", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], help="default: 0 1 2")
    add("--stories", type=int, default=10_000, help="stories to learn from (%(default)s)")
    add("--test-stories", type=int, default=1_000, help="stories of the test (%(default)s)")
    add("--epochs", type=int, default=20, help="passes over the stories (%(default)s)")
    add("--linear-epochs", type=int, default=10, help="before them, without softmax (%(default)s)")
    add("--bilstm-epochs", type=int, default=6, help="passes of the BiLSTM (%(default)s)")
    add("--dim", type=int, default=32, help="width of the models (%(default)s)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> list[dict]:
    """Trains, measures, prints the table and returns its rows."""
    args = parse_arguments(arguments)
    rows = []
    for facts in args.facts:
        for model in args.models:
            runs = [measured(facts, model, seed, args) for seed in args.seeds]
            rows.append({"facts": facts, "model": model, "runs": runs})
    print("\n| facts | model | weights | accuracy (seeds) | share on the facts (chance) | "
          "facts found (chance) |\n|---|---|---|---|---|---|")  # fmt: skip
    for row in rows:
        print(table_row(row))
    return rows


def table_row(row: dict) -> str:
    """Returns a row of the table: means of the seeds."""
    runs = row["runs"]

    def mean(name: str) -> float:
        return 100 * statistics.mean(run[name] for run in runs)

    each = ", ".join(f"{100 * run['accuracy']:.1f}" for run in runs)
    cells = [row["facts"], row["model"], f"{runs[0]['weights']:,}",
             f"{mean('accuracy'):.1f} % ({each})"]  # fmt: skip
    for name in ("share", "found"):
        shown = f"{mean(name):.0f} % ({mean(f'{name} by chance'):.0f} %)" if name in runs[0] else ""
        cells.append(shown)
    return "| " + " | ".join(map(str, cells)) + " |"


def measured(facts: int, kind: str, seed: int, args: argparse.Namespace) -> dict[str, float]:
    """Trains and tests a model, or reads what an earlier command has measured."""
    file = args.run_dir / f"{facts}-{kind.replace(' ', '-')}-{seed}.json"
    settings = {name: value for name, value in vars(args).items() if name in KEPT}
    if file.exists() and (kept := json.loads(file.read_text()))["settings"] == settings:
        return kept["figures"]
    began = time.monotonic()
    stories = make_stories(args.stories + args.test_stories, facts, seed)
    words = story_words(stories)
    inputs, answers = story_arrays(stories, words)
    if kind == "BiLSTM":
        inputs = in_one_row(inputs)
    keras.utils.set_random_seed(seed)
    model = trained(kind, len(words), inputs, answers, args)
    test = {name: x[args.stories :] for name, x in inputs.items()}
    given = test if len(test) > 1 else next(iter(test.values()))
    guesses = model.predict(given, batch_size=500, verbose=0).argmax(-1)
    figures = {
        "accuracy": float((guesses == answers[args.stories :]).mean()),
        "weights": model.count_params(),
    }
    if kind == "memory network":
        figures |= attention_figures(model, test, stories[args.stories :])
    shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if value <= 1)
    print(
        f"{facts} facts, {kind}, seed {seed}: {shown}; {time.monotonic() - began:.0f} s", flush=True
    )
    args.run_dir.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as path:
        text = json.dumps({"settings": settings, "figures": figures}, indent=1)
        path.write_text(text + "\n", encoding="utf-8")
    return figures


def in_one_row(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns stories and questions as rows of words, padding at the end."""
    both = [np.concatenate([s[s > 0], q[q > 0]]) for s, q in zip(*inputs.values(), strict=True)]
    ids = np.zeros((len(both), max(map(len, both))), "int32")
    for row, words in zip(ids, both, strict=True):
        row[: len(words)] = words
    return {"token_ids": ids}


def trained(
    kind: str,
    words: int,
    inputs: dict[str, np.ndarray],
    answers: np.ndarray,
    args: argparse.Namespace,
) -> keras.Model:
    """Trains a model; the memory network without its softmax first, as in the paper."""

    def fit(model: keras.Model, epochs: int, planned: int) -> None:
        steps = max(1, planned * args.stories // BATCH)
        rate = keras.optimizers.schedules.CosineDecay(RATE, steps)
        model.compile(
            keras.optimizers.Adam(rate, clipnorm=1.0),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        train = {name: x[: args.stories] for name, x in inputs.items()}
        given = train if len(train) > 1 else next(iter(train.values()))
        model.fit(given, answers[: args.stories], batch_size=BATCH, epochs=epochs, verbose=0)

    if kind == "BiLSTM":
        model = RecurrentClassifierConfig(
            words, words, dim=args.dim, units=2 * args.dim, pooling="last", dropout=0.1,
            word_dropout=0.0,
        ).build()  # fmt: skip
        fit(model, args.bilstm_epochs, args.bilstm_epochs)
        return model
    size = {"dim": args.dim, "memory_size": inputs["story_ids"].shape[1]}
    if kind == "without attention":
        model = MemoryNetworkConfig(words, **size, attention="uniform").build()
        fit(model, args.epochs, args.epochs)
        return model
    model = MemoryNetworkConfig(words, **size).build()
    if args.linear_epochs:
        linear = MemoryNetworkConfig(words, **size, attention="linear").build()
        fit(linear, args.linear_epochs, 2 * args.linear_epochs)
        model.set_weights(linear.get_weights())
    fit(model, args.epochs, args.epochs)
    return model


def attention_figures(
    model: keras.Model, inputs: dict[str, np.ndarray], stories: list[StoryQuestion]
) -> dict[str, float]:
    """Returns how much of the attention is on the supporting facts, and what chance gives.

    Chance for the share is uniform attention. Chance for the facts that are found is a sentence
    drawn in each hop.
    """
    maps = np.stack([w[:, 0] for w in attention_maps(model, inputs).select(path="hop")], axis=1)
    share, found, by_chance, found_by_chance = [], [], [], []
    for weights, story in zip(maps, stories, strict=True):  # (hops, S)
        facts, count = list(story.facts), len(story.sentences)
        share.append(weights[:, facts].sum(axis=1).mean())
        found.append(np.isin(facts, weights.argmax(axis=1)).mean())
        by_chance.append(len(facts) / count)
        found_by_chance.append(1 - (1 - 1 / count) ** len(weights))
    values = {"share": share, "share by chance": by_chance, "found": found,
              "found by chance": found_by_chance}  # fmt: skip
    return {name: float(np.mean(each)) for name, each in values.items()}


if __name__ == "__main__":
    main()
