"""Fine-tuning beside `transformers` on PyTorch: same weights, batches and learning rates.

    python -m benchmarks.fine_tuning --data FOLDER --backbone MINILM --to RESULTS

`FOLDER` holds the data by the names of GLUE and of the others (`glue/SST-2`, `glue/CoLA`,
`conll2003`, `squad`, ...). For each task and seed six things are measured and kept in `RESULTS`;
what is there is not done again:

    losses       the first 20 losses of both, without dropout, of the same batches
    ours         development score, with dropout
    reference    the same of `transformers`, whose batches are drawn at random and padded to their
                 longest row, which is its default
    speed        seconds of an epoch of both over 32 batches of examples, in turns
    plain        development score of our bidirectional LSTM, from random weights
    guess        that of a guess without a network: the commonest label, or words in common

Where a task has test examples too, as CoNLL-2003 and SICK have, each training is scored on them
once, at its end. No setting was chosen by them.

Both sides start from the same weights, the new head's too: ours are written by `save_pretrained`.
Both are scored by the same function. The peak of the learning rate is the default of our tasks,
1e-4; nothing was chosen by the development examples.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.fine_tuning_cases import CASES, Case
from benchmarks.fine_tuning_reference import Reference, plain_batches
from keras_attn.files import atomic_write

STEPS = 20
ROUNDS, BATCHES = 3, 32
"""Of the measurement of speed."""
WHATS = ("losses", "ours", "reference", "speed", "plain", "guess")
PLAIN = {"epochs": 10, "batch_size": 32, "learning_rate": 1e-3}
"""Settings of the LSTM's training."""


def build(case: Case, train: list[Any], args: argparse.Namespace, seed: int, dropout: float) -> Any:
    """Our task with the weights of the backbone and a new head."""
    import keras

    keras.utils.set_random_seed(seed)
    data = {"backbone": args.backbone, "max_length": case.max_length}
    model = {"dropout": dropout, "attention_dropout": dropout}
    return case.create(train, data=data, model={"model": "bert", **model})


def settings_of(case: Case, task: Any, seed: int) -> Any:
    """Our settings of the training."""
    return task.Training(weight_decay=0.01, seed=seed, **case.training)


def our_losses(case: Case, task: Any, train: list[Any], seed: int) -> list[float]:
    """The losses of the first batches."""
    training = settings_of(case, task, seed)
    batches = task.batches(train, training)
    task.compile(training.epochs * len(batches), **compiled(case))
    found = []
    for i in range(min(STEPS, len(batches))):
        task.model.reset_metrics()
        found.append(float(task.model.train_on_batch(*batches[i], return_dict=True)["loss"]))
    return found


def compiled(case: Case) -> dict[str, Any]:
    """The settings of the optimizer, those of `fit`."""
    rate = case.training["learning_rate"]
    return {"learning_rate": rate, "weight_decay": 0.01, "clip_norm": 1.0}


def plain(
    case: Case, train: list[Any], dev: list[Any], args: argparse.Namespace, seed: int
) -> dict:
    """A bidirectional LSTM of ours instead of the pretrained encoder."""
    import keras

    keras.utils.set_random_seed(seed)
    task = case.create(train, data={"max_length": case.max_length}, model={"model": case.recurrent})
    task.fit(train, verbose=0, seed=seed, **PLAIN)
    return {**scores(case, task, dev, args.data), "weights": task.model.count_params()}


def guess(case: Case, train: list[Any], dev: list[Any], data: Path) -> dict[str, float]:
    """The figure of a guess without a network; of Matthews' and other correlations it is 0."""
    least = case.least or (lambda train, examples: 0.0)
    found = {"score": least(train, dev)}
    return found if case.test is None else found | {"test": least(train, case.test(data))}


def measure(name: str, case: Case, what: str, seed: int, args: argparse.Namespace) -> dict:
    """One measurement."""
    train, dev = case.read(args.data)
    if args.limit:
        train = [train[i] for i in np.random.default_rng(0).permutation(len(train))[: args.limit]]
    if what == "guess":
        return guess(case, train, dev, args.data)
    if what == "plain":
        return plain(case, train, dev, args, seed)
    task = build(case, train, args, seed, 0.0 if what == "losses" else 0.1)
    training = settings_of(case, task, seed)
    if what == "ours":
        times: list[float] = []
        began = time.perf_counter()
        run = task.fit(
            train, verbose=0, callbacks=[stop_watch(times)], weight_decay=0.01, seed=seed,
            **case.training,
        )  # fmt: skip
        seconds = time.perf_counter() - began
        return {
            **scores(case, task, dev, args.data), "seconds": seconds, "epochs": times,
            "loss": run.history["loss"],
        }  # fmt: skip
    if what == "speed":
        some = np.random.default_rng(0).permutation(len(train))[: BATCHES * training.batch_size]
        return speed(case, task, [train[i] for i in some], seed)
    batches = task.batches(train, training)
    steps = training.epochs * len(batches)
    if what == "losses":
        reference = Reference(case, task, steps)
        theirs = [reference.train_on(batches[i]) for i in range(min(STEPS, len(batches)))]
        return {"ours": our_losses(case, task, train, seed), "reference": theirs}
    import torch

    torch.manual_seed(seed)
    of_epochs = [plain_batches(task, train, case, seed, epoch) for epoch in range(training.epochs)]
    reference = Reference(case, task, sum(map(len, of_epochs)))
    reference.model.train()
    times, losses = [], []
    for batches in of_epochs:
        began = time.perf_counter()
        losses.append(float(np.mean([reference.train_on(batch) for batch in batches])))
        times.append(time.perf_counter() - began)
    reference.hand_over(task)
    return {
        **scores(case, task, dev, args.data), "seconds": sum(times), "epochs": times,
        "loss": losses,
    }  # fmt: skip


def scores(case: Case, task: Any, dev: list[Any], data: Path) -> dict[str, float]:
    """The figure on development examples, and on test examples where there are some."""
    found = {"score": case.score(task, dev)}
    return found if case.test is None else found | {"test": case.score(task, case.test(data))}


def stop_watch(times: list[float]) -> Any:
    """A callback that notes the seconds of each epoch."""
    import keras

    class Watch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.began = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            times.append(time.perf_counter() - self.began)

    return Watch()


def speed(case: Case, task: Any, train: list[Any], seed: int) -> dict[str, Any]:
    """Seconds of an epoch over the same examples, ours and the reference's in turns."""
    from keras_attn.training import without_autotuning

    settings = settings_of(case, task, seed)
    ours = task.batches(train, settings)
    theirs = plain_batches(task, train, case, seed, 0)
    reference = Reference(case, task, (1 + ROUNDS) * len(theirs))
    reference.model.train()
    task.compile((1 + ROUNDS) * len(ours), **compiled(case))
    rows: dict[str, list[float]] = {"ours": [], "reference": []}
    for _ in range(1 + ROUNDS):  # the first one compiles, and is left out
        began = time.perf_counter()
        task.model.fit(without_autotuning(ours), verbose=0, shuffle=False)
        between = time.perf_counter()
        for batch in theirs:
            reference.train_on(batch)
        rows["ours"].append(between - began)
        rows["reference"].append(time.perf_counter() - between)
    return {name: values[1:] for name, values in rows.items()}


def table(found: dict[str, dict[str, dict]], seeds: list[int]) -> str:
    """All that is there, as a table of Markdown."""
    columns = {
        "task": lambda name, rows: name,
        "figure": lambda name, rows: CASES[name]().figure,
        "ours": lambda name, rows: mean(of_seeds(rows, seeds, "ours", "score")),
        "transformers": lambda name, rows: mean(of_seeds(rows, seeds, "reference", "score")),
        "BiLSTM": lambda name, rows: mean(of_seeds(rows, seeds, "plain", "score")),
        "guess": lambda name, rows: mean(of_seeds(rows, seeds, "guess", "score")),
        "ours, test": lambda name, rows: mean(of_seeds(rows, seeds, "ours", "test")),
        "transformers, test": lambda name, rows: mean(of_seeds(rows, seeds, "reference", "test")),
        "BiLSTM, test": lambda name, rows: mean(of_seeds(rows, seeds, "plain", "test")),
        "guess, test": lambda name, rows: mean(of_seeds(rows, seeds, "guess", "test")),
        "losses differ by": lambda name, rows: largest_gap(rows),
        "times as fast": lambda name, rows: times_as_fast(rows),
    }
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, rows in found.items():
        lines.append(f"| {' | '.join(cell(name, rows) for cell in columns.values())} |")
    return "\n".join(lines)


def of_seeds(rows: dict[str, dict], seeds: list[int], what: str, figure: str) -> list[float]:
    """A figure of each seed that has it, in percent."""
    some = [rows.get(f"{what}-{seed}", {}) for seed in seeds]
    return [100 * row[figure] for row in some if figure in row]


def mean(values: list[float]) -> str:
    """The mean with its standard error."""
    if not values:
        return ""
    error = f" ± {np.std(values, ddof=1) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{error}"


def largest_gap(rows: dict[str, dict]) -> str:
    """The largest difference of the first losses."""
    some = [row for key, row in rows.items() if key.startswith("losses")]
    gaps = [abs(a - b) for row in some for a, b in zip(row["ours"], row["reference"], strict=True)]
    return f"{max(gaps):.1e}" if gaps else ""


def times_as_fast(rows: dict[str, dict]) -> str:
    """The median of the rounds' ratios with their range."""
    some = [row for key, row in rows.items() if key.startswith("speed")]
    ratios = [b / a for row in some for a, b in zip(row["ours"], row["reference"], strict=True)]
    if not ratios:
        return ""
    return f"{np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main(arguments: list[str] | None = None) -> None:
    """Measures what is not there yet, and prints the table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.fine_tuning", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of the data")
    add("--backbone", required=True, help="folder of Hugging Face weights")
    add("--to", type=Path, required=True, help="folder of what is found")
    add("--tasks", nargs="+", default=list(CASES), choices=list(CASES))
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add("--only", nargs="+", default=WHATS, choices=WHATS)
    add("--limit", type=int, help="most training examples, to see whether it runs")
    args = parser.parse_args(arguments)
    found: dict[str, dict[str, dict]] = {}
    for name in args.tasks:
        case = CASES[name]()
        for seed in args.seeds:
            for what in args.only:
                if what in ("losses", "speed", "guess") and seed != args.seeds[0]:
                    continue
                file = args.to / name / f"{what}-{seed}.json"
                if not file.exists():
                    print(f"{name}, {what}, seed {seed}", file=sys.stderr, flush=True)
                    row = measure(name, case, what, seed, args)
                    training = PLAIN if what == "plain" else case.training
                    row |= {"training": training, "limit": args.limit}
                    row |= {"machine": machine.describe(), "versions": machine.versions()}
                    file.parent.mkdir(parents=True, exist_ok=True)
                    with atomic_write(file) as partial:
                        partial.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
                found.setdefault(name, {})[f"{what}-{seed}"] = json.loads(file.read_text())
    described = machine.describe()
    print(", ".join(f"{name}: {value}" for name, value in described.items()))
    print(table(found, args.seeds))


if __name__ == "__main__":
    main()
