"""Fine-tuning beside `transformers` on PyTorch: same weights, batches and learning rates.

    python -m benchmarks.fine_tuning --data FOLDER --backbone MINILM --to RESULTS

`FOLDER` holds the data by the names of GLUE and of the others (`glue/SST-2`, `glue/CoLA`,
`conll2003`, `squad`, ...). For each task and seed three things are measured and kept in `RESULTS`;
what is there is not done again:

    losses       the first 20 losses of both, without dropout, of the same batches
    ours         development score and seconds of an epoch, with dropout
    reference    the same of `transformers`, whose batches are drawn at random and padded to their
                 longest row, which is its default

Both sides start from the same weights, the new head's too: ours are written by `save_pretrained`.
Both are scored by the same function.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import machine
from keras_attn.files import atomic_write

STEPS = 20


class Case(NamedTuple):
    """A task with its data."""

    read: Callable[[Path], tuple[list[Any], list[Any]]]
    """Training and development examples."""
    create: Callable[..., Any]
    """Makes our task: `create(examples, data, model)`."""
    score: Callable[[Any, list[Any]], float]
    """The figure of a task on examples."""
    figure: str
    reference: str
    """Class of `transformers`."""
    labels: Callable[[Any], list[str]]
    training: dict[str, Any]
    max_length: int = 128
    head: str = ""
    """Name of the labels in our batches; none if they are not a dict."""
    numbers: bool = False
    """Whether the labels are numbers, learned by their squared error."""


def classification(
    folder: str, figure: str, more: str = "", training: Any = None, **columns: Any
) -> Callable[[], Case]:
    """A classification of GLUE, whose files are `train.tsv` and `dev.tsv`.

    Args:
        folder: Folder of the files.
        figure: Name of the figure.
        more: A file without a header with further training examples, whose columns are those of
            RTE.
        training: Settings of the training that differ from the others'.
        **columns: Of `read_labelled`.
    """

    def make() -> Case:
        from keras_attn.records import read_labelled
        from keras_attn.tasks import TextClassifier

        def read(data: Path) -> tuple[list[Any], list[Any]]:
            sides = ("train.tsv", "dev.tsv")
            train, dev = (list(read_labelled(data / folder / x, **columns)) for x in sides)
            if more:
                train += read_labelled(data / folder / more, 1, 3, text_pair=2, header=False)
            return train, dev

        def score(task: Any, examples: list[Any]) -> float:
            report = task.evaluate(examples, num_bootstrap=0)
            return getattr(report, figure).value

        return Case(
            read,
            TextClassifier.create,
            score,
            figure,
            "AutoModelForSequenceClassification",
            lambda task: list(task.class_names),
            {"epochs": 3, "batch_size": 32, "learning_rate": 5e-5, **(training or {})},
        )

    return make


def stsb() -> Case:
    """Similarity of the STS Benchmark, by one encoder that reads both texts."""
    from keras_attn.records import read_scored_pairs
    from keras_attn.tasks import SimilarityScorer

    def read(data: Path) -> tuple[list[Any], list[Any]]:
        names = ("sts-train.csv", "sts-dev.csv")
        return tuple(list(read_scored_pairs(data / "stsb" / x, 5, 6, 4, "tsv")) for x in names)

    def create(examples: list[Any], data: dict, model: Any) -> Any:
        return SimilarityScorer.create(examples, {"kind": "cross", **data}, model)

    return Case(
        read,
        create,
        lambda task, examples: task.evaluate(examples, num_bootstrap=0).spearman.value,
        "Spearman",
        "AutoModelForSequenceClassification",
        lambda task: ["similarity"],
        {"epochs": 3, "batch_size": 32, "learning_rate": 5e-5},
        head="classes",
        numbers=True,
    )


def conll() -> Case:
    """Named entities of CoNLL-2003."""
    from keras_attn.records import read_tagged
    from keras_attn.tasks import Tagger

    def read(data: Path) -> tuple[list[Any], list[Any]]:
        names = ("train.txt", "valid.txt")
        return tuple(list(read_tagged(data / "conll2003" / name, label_column=1)) for name in names)

    return Case(
        read,
        Tagger.create,
        lambda task, examples: task.evaluate(examples, num_bootstrap=0).f1,
        "entity F1",
        "AutoModelForTokenClassification",
        lambda task: list(task.labels),
        {"epochs": 3, "batch_size": 32, "learning_rate": 1e-4},
        head="tags",
    )


def squad() -> Case:
    """Answers in texts of SQuAD's development set: 38 of its articles to train, 10 to score."""
    from keras_attn.records import read_questions, split_questions
    from keras_attn.tasks import QuestionAnswerer

    def read(data: Path) -> tuple[list[Any], list[Any]]:
        [file] = sorted((data / "squad").glob("*.json*"))
        return split_questions(list(read_questions(file)), 10)

    return Case(
        read,
        QuestionAnswerer.create,
        lambda task, examples: task.evaluate(examples, num_bootstrap=0).f1,
        "F1",
        "AutoModelForQuestionAnswering",
        lambda task: [],
        {"epochs": 2, "batch_size": 16, "learning_rate": 1e-4},
        max_length=384,
        head="spans",
    )


CASES = {
    "sst2": classification("glue/SST-2", "accuracy", text="sentence", label="label"),
    "cola": classification("glue/CoLA", "matthews", text=3, label=1, header=False),
    "mrpc": classification(
        "glue/MRPC",
        "accuracy",
        training={"batch_size": 16},
        text="#1 String",
        text_pair="#2 String",
        label="Quality",
    ),
    "rte": classification(
        "glue/RTE",
        "accuracy",
        "val.tsv",
        {"epochs": 5, "batch_size": 16},
        text="sentence1",
        text_pair="sentence2",
        label="label",
    ),
    "stsb": stsb,
    "conll": conll,
    "squad": squad,
}


def build(case: Case, train: list[Any], args: argparse.Namespace, seed: int, dropout: float) -> Any:
    """Our task with the weights of the backbone and a new head."""
    import keras

    keras.utils.set_random_seed(seed)
    data = {"backbone": args.backbone, "max_length": case.max_length}
    model = {"dropout": dropout, "attention_dropout": dropout}
    return case.create(train, data, {"model": "bert", **model})


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
    """The settings of the optimizer."""
    return {"learning_rate": case.training["learning_rate"], "weight_decay": 0.01}


class Reference:
    """A model of `transformers` with our weights, trained as ours is."""

    def __init__(self, case: Case, task: Any, total_steps: int):
        import torch
        import transformers

        from keras_attn.interop import save_pretrained

        self.torch, self.case = torch, case
        self.pad, self.separator = task.tokenizer.pad_id, task.tokenizer.end_id
        self.folder = tempfile.mkdtemp()
        save_pretrained(
            self.folder, task.model, task.config, task.tokenizer, labels=case.labels(task) or None
        )
        kind = getattr(transformers, case.reference)
        self.model = kind.from_pretrained(self.folder, attn_implementation="sdpa")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.0, weight_decay=0.01)
        from keras_attn.tasks.compiling import make_schedule

        schedule = make_schedule(total_steps, case.training["learning_rate"])
        self.rates = [float(np.asarray(schedule(i))) for i in range(total_steps)]
        self.step = 0

    def loss(self, batch: Any) -> Any:
        """The weighted mean of the losses, as ours."""
        torch = self.torch
        inputs, labels, weights = batch
        if self.case.head:
            labels, weights = labels[self.case.head], weights[self.case.head]
        output = self.model(**self.tensors(inputs))
        if self.case.head == "spans":
            return self.span_loss(output, torch.as_tensor(labels).long(), torch.as_tensor(weights))
        logits = output.logits
        if self.case.numbers:
            errors = (logits - torch.as_tensor(labels).float().reshape(-1, 1)) ** 2
            return (errors[:, 0] * torch.as_tensor(weights).flatten()).mean()
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, -2), torch.as_tensor(labels).long().flatten(), reduction="none"
        )
        weights = torch.as_tensor(weights).flatten()
        # Keras' mean is over all rows; of labelled tokens ours is over the tokens that count.
        total = weights.sum() if self.case.head == "tags" else len(weights)
        return (losses * weights).sum() / total

    def span_loss(self, output: Any, labels: Any, weights: Any) -> Any:
        """Cross-entropy of the first and the last token, among the tokens of each row."""
        torch = self.torch
        logits = torch.stack([output.start_logits, output.end_logits], 1)
        there = torch.arange(logits.shape[-1]) < labels[:, 2:]
        logits = logits.masked_fill(~there[:, None], float("-inf"))
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels[:, :2].flatten(), reduction="none"
        ).reshape(-1, 2)
        return (losses.mean(1) * weights.flatten()).mean()

    def tensors(self, inputs: Any) -> dict[str, Any]:
        """Our inputs by the names of `transformers`."""
        torch = self.torch
        if isinstance(inputs, dict):
            found = {
                "input_ids": inputs["token_ids"],
                "attention_mask": inputs["padding_mask"],
                "token_type_ids": inputs.get("segment_ids"),
            }
        else:
            there = inputs != self.pad
            ends = np.cumsum(inputs == self.separator, axis=1)
            second = (ends - (inputs == self.separator) > 0) & there
            found = {"input_ids": inputs, "attention_mask": there, "token_type_ids": second}
        return {n: torch.as_tensor(np.asarray(x)).long() for n, x in found.items() if x is not None}

    def train_on(self, batch: Any) -> float:
        """One update; returns the loss before it."""
        loss = self.loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rates[self.step]
            # Keras adds epsilon before it corrects the bias of the second moment.
            group["eps"] = 1e-7 / (1 - 0.999 ** (self.step + 1)) ** 0.5
        self.optimizer.step()
        self.step += 1
        return float(loss)

    def hand_over(self, task: Any) -> None:
        """Puts the trained weights into our task, which is scored then."""
        from keras_attn.interop import read_pretrained
        from keras_attn.models.tensors import load_tensors

        self.model.save_pretrained(self.folder)
        load_tensors(task.model, renamed(task, read_pretrained(self.folder).tensors), strict=False)


def renamed(task: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """Tensors of a classifier by the names of its layers: its head is `head` there."""
    own = {layer.name for layer in task.model.layers}
    if "classes" in own or "head" not in own:
        return tensors
    return {name.replace("classes/", "head/"): x for name, x in tensors.items()}


def plain_batches(task: Any, train: list[Any], case: Case, seed: int, epoch: int) -> list[Any]:
    """Batches in random order, each padded to its longest row."""
    size = case.training["batch_size"]
    whole = task.dataset(train, batch_size=1, multiple=1, max_shapes=10**6, shuffle=False)
    order = np.random.default_rng([seed, epoch]).permutation(len(whole))
    batches = []
    for i in range(0, len(order), size):
        batches.append(joined([whole[int(k)] for k in order[i : i + size]], task.tokenizer.pad_id))
    return batches


def joined(rows: list[Any], pad: int) -> Any:
    """Batches of one row as one batch, padded to the longest."""
    first = rows[0]
    if isinstance(first, dict):
        return {name: joined([row[name] for row in rows], pad) for name in first}
    if isinstance(first, tuple):
        return tuple(joined([row[i] for row in rows], pad) for i in range(len(first)))
    if first.ndim < 2:
        return np.concatenate(rows)
    width = max(row.shape[1] for row in rows)
    return np.concatenate([np.pad(row, ((0, 0), (0, width - row.shape[1]))) for row in rows])


def measure(name: str, case: Case, what: str, seed: int, args: argparse.Namespace) -> dict:
    """One measurement."""
    train, dev = case.read(args.data)
    if args.limit:
        train = [train[i] for i in np.random.default_rng(0).permutation(len(train))[: args.limit]]
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
            "score": case.score(task, dev), "seconds": seconds, "epochs": times,
            "loss": run.history["loss"],
        }  # fmt: skip
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
        "score": case.score(task, dev), "seconds": sum(times), "epochs": times, "loss": losses
    }  # fmt: skip


def stop_watch(times: list[float]) -> Any:
    """A callback that notes the seconds of each epoch."""
    import keras

    class Watch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.began = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            times.append(time.perf_counter() - self.began)

    return Watch()


def table(found: dict[str, dict[str, dict]], seeds: list[int]) -> str:
    """All that is there, as a table of Markdown."""
    lines = [
        "| task | figure | ours | transformers | difference | largest difference of the first "
        "losses | epoch, times as fast |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, rows in found.items():
        sides = {
            side: [100 * rows[f"{side}-{s}"]["score"] for s in seeds if f"{side}-{s}" in rows]
            for side in ("ours", "reference")
        }
        gap = [
            max(abs(a - b) for a, b in zip(row["ours"], row["reference"], strict=True))
            for key, row in rows.items()
            if key.startswith("losses")
        ]
        both = [s for s in seeds if f"ours-{s}" in rows and f"reference-{s}" in rows]
        ratio = [
            np.median(rows[f"reference-{s}"]["epochs"]) / np.median(rows[f"ours-{s}"]["epochs"])
            for s in both
        ]
        apart = [100 * (rows[f"ours-{s}"]["score"] - rows[f"reference-{s}"]["score"]) for s in both]
        cells = [mean(sides["ours"]), mean(sides["reference"]), mean(apart, "+")]
        cells += [f"{max(gap):.1e}" if gap else "", f"{np.median(ratio):.2f}" if ratio else ""]
        lines.append(f"| {name} | {CASES[name]().figure} | {' | '.join(cells)} |")
    return "\n".join(lines)


def mean(values: list[float], sign: str = "") -> str:
    """The mean with its standard error."""
    if not values:
        return ""
    error = f" ± {np.std(values, ddof=1) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):{sign}.1f}{error}"


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
    add("--only", nargs="+", default=["losses", "ours", "reference"], metavar="WHAT")
    add("--limit", type=int, help="most training examples, to see whether it runs")
    args = parser.parse_args(arguments)
    found: dict[str, dict[str, dict]] = {}
    for name in args.tasks:
        case = CASES[name]()
        for seed in args.seeds:
            for what in args.only:
                if what == "losses" and seed != args.seeds[0]:
                    continue
                file = args.to / name / f"{what}-{seed}.json"
                if not file.exists():
                    print(f"{name}, {what}, seed {seed}", file=sys.stderr, flush=True)
                    row = measure(name, case, what, seed, args)
                    row |= {"training": case.training, "limit": args.limit}
                    file.parent.mkdir(parents=True, exist_ok=True)
                    with atomic_write(file) as partial:
                        partial.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
                found.setdefault(name, {})[f"{what}-{seed}"] = json.loads(file.read_text())
    described = machine.describe()
    print(", ".join(f"{name}: {value}" for name, value in described.items()))
    print(table(found, args.seeds))


if __name__ == "__main__":
    main()
