"""Finds people, places, organisations and dates in sentences: from labelled words to a SavedModel.

    python examples/tagging.py

generates sentences from templates. These steps take some minutes on a CPU:

1. Training and test sentences are generated. The test set has other templates and names.
2. An encoder with a head for the label of each word is trained from random weights, or from the
   weights of `--backbone`.
3. Precision, recall and F1 of whole entities are measured.
4. Entities in a text, which `--text` changes, are shown in colours, in the terminal and on a page.
   Another page shows which words decided the label of the first entity of each text.
5. The tagger is exported as a SavedModel, which needs only TensorFlow.

`--data` takes sentences of your own in CoNLL columns or JSON lines. All files are written to
`--run-dir`. After an interruption, the same command resumes the run.
"""

import argparse
import html
import json
import random
import sys
import time
from pathlib import Path

from keras_attn_command import plain_output

FIRST = """Ada Bruno Carla Dario Elena Felix Greta Hugo Irene Jonas Karin Luca Marta Nils Olga Paul
    Rita Simon Tessa Viktor Wanda Yusuf Zoe Amir Bianca Cyril Dora Emil Fatima Gustav""".split()
SYLLABLES = "ba be bor da del fen gar hol ka lin mar nor pel ros sen tal ver vik wen zan".split()
FAMILIES = "son sen ski ini ez er wood mann".split()
PLACES = "ford bury ton mouth field burg stad ville".split()
SORTS = "Bank Institute Motors Airlines University Press Foods Energy Council Museum".split()
MONTHS = """January February March April May June July August September October November
    December""".split()
TEMPLATES = {
    "train": """{PER} joined {ORG} on {DATE} .
        On {DATE} {PER} travelled from {LOC} to {LOC} .
        {ORG} , based in {LOC} , hired {PER} .
        {PER} and {PER} met near {LOC} in {DATE} .
        The head of {ORG} , {PER} , spoke in {LOC} .
        It rained in {LOC} , so {PER} stayed at home .
        Since {DATE} {ORG} has had an office in {LOC} .
        {PER} wrote to {ORG} about the plan .
        Nobody in the town knew what the plan was .
        {PER} , who was born in {LOC} , left {ORG} .
        A spokesman for {ORG} said nothing on {DATE} .
        The road from {LOC} to {LOC} is closed until {DATE} .
        {LOC} and {LOC} are far from each other .
        {DATE} was a good month for {ORG} , said {PER} .
        In {LOC} {PER} met the head of {ORG} .
        Until {DATE} {PER} had worked at {ORG} with {PER} .
        In {DATE} it rained at home , wrote {PER} .
        The plan of {PER} and {PER} was known in {LOC} .
        {PER} left for {LOC} on {DATE} , and {PER} stayed .
        {ORG} closed the office near {LOC} in {DATE} .""",
    "test": """In {DATE} {PER} left {LOC} and joined {ORG} .
        {ORG} and {ORG} met in {LOC} .
        Nobody at {ORG} knew that {PER} was born near {LOC} .
        On {DATE} the road to {LOC} was closed , said {PER} .
        {PER} , head of {ORG} since {DATE} , wrote to {PER} .""",
}
TEXT = (
    "On 7 March 2019 Marta Garlinsen left Upper Pelverford and joined Rosbaburg Energy, and Emil "
    "Zantalski stayed in Linwikbury until May 2021."
)
COLOURS = {"PER": 153, "LOC": 157, "ORG": 223, "DATE": 218}
"""Backgrounds of a terminal with 256 colours."""
PAGE_COLOURS = ("#cfe3ff", "#cdf3cd", "#ffe8b8", "#ffd3e6", "#e3d8ff", "#d4f1f1")


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--run-dir", type=Path, default=Path("runs/tagging"), help="default: %(default)s")
    add("--data", help="your own sentences with labels: CoNLL columns or JSON lines")
    add("--test-data", help="such a file to test on; else a fifth of --data")
    add("--backbone", default="", help="a task or folder of weights to start from")
    add("--sentences", type=int, default=2000, help="made to learn from (%(default)s)")
    add("--vocabulary-size", type=int, default=800, help="word pieces (%(default)s)")
    add("--max-length", type=int, default=64, help="most word pieces of a row (%(default)s)")
    add("--dim", type=int, default=96, help="width of the encoder (%(default)s)")
    add("--num-layers", type=int, default=2, help="its layers (%(default)s)")
    add("--num-heads", type=int, default=4, help="heads of each layer (%(default)s)")
    add("--epochs", type=int, default=8, help="of training (%(default)s)")
    add("--learning-rate", type=float, default=1e-3, help="peak (%(default)s)")
    add("--text", help="a text to find entities in")
    add("--seed", type=int, default=0, help="of everything random (%(default)s)")
    args = parser.parse_args(arguments)
    if args.test_data and not args.data:
        parser.error("--test-data belongs to --data.")
    for name in ("vocabulary_size", "dim", "num_layers", "num_heads"):
        if args.backbone and getattr(args, name) != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} is that of the --backbone.")
    return args


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    plain_output()
    args.run_dir.mkdir(parents=True, exist_ok=True)

    from saved_models import call_saved_model

    from keras_attn.tasks import Tagger
    from keras_attn.visualize import text_weights_html

    began = time.monotonic()
    say("1. Sentences whose words have labels")
    train, dev, test = read_data(args)
    print(f"{len(train):,} for training, {len(dev):,} for development, {len(test):,} for testing")
    for words, labels in train[:2]:
        print(" ".join(f"{w}/{label}" for w, label in zip(words, labels, strict=True)))

    say("2. Training")
    tagger = Tagger.load(trained(train, dev, args))

    say("3. Test")
    report = tagger.evaluate(test)
    print(report)

    say("4. Entities in a text")
    text = args.text or TEXT
    tagged = tagger.predict(text)
    print(in_colours(tagged))
    page = args.run_dir / "entities.html"
    shown = [tagged, *tagger.predict([words_of(x) for x in test[:8]])]
    page.write_text(entities_page(shown), encoding="utf-8")
    spoke = args.run_dir / "why.html"
    reasons = tagger.explain([text, *map(words_of, test[:8])], method="integrated_gradients")
    spoke.write_text(text_weights_html(reasons, "Which words spoke for a label"), encoding="utf-8")
    for word, weight in reasons[0].strongest(4):
        print(f"    {weight:+.2f}  {word}")
    print(f"These spoke for {reasons[0].label} ({reasons[0].method}).")

    say("5. A SavedModel, called in a process without this package")
    saved_model = args.run_dir / "saved_model"
    tagger.export(saved_model, overwrite=True)
    outputs = call_saved_model(saved_model, text=[text])
    rows = zip(outputs["entities"], outputs["kinds"], strict=True)
    served = [[[e, k] for e, k in zip(*row, strict=True) if k] for row in rows]
    print(served)
    if served != [[[e.text, e.kind] for e in tagged.entities]]:
        raise RuntimeError("The SavedModel and the Python object differ.")

    minutes = (time.monotonic() - began) / 60
    results = {"test": report.to_dict(), "minutes": round(minutes, 2)}
    (args.run_dir / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    say(f"Done in {minutes:.1f} minutes. All of it is in {args.run_dir}; open {page}")


def read_data(args: argparse.Namespace) -> tuple[list, list, list]:
    """Returns sentences to learn from, to choose weights and to test on."""
    from keras_attn.records import read_tagged, split_tagged

    try:
        if args.data:
            rest = list(read_tagged(args.data))
            if args.test_data:
                test = list(read_tagged(args.test_data))
            else:
                rest, test = split_tagged(rest, 0.2, args.seed)
        else:
            rest = make_sentences(args.sentences, args.seed, "train")
            test = make_sentences(args.sentences // 5, args.seed + 1, "test")
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    train, dev = split_tagged(rest, 0.1, args.seed)
    if not (dev and test):
        sys.exit(f"Expected three different sentences or more in {args.data}. Received: fewer.")
    return train, dev, test


def make_sentences(count: int, seed: int, side: str) -> list:
    """Makes sentences of a side; the names of both sides have nothing in common but first names."""
    from keras_attn.records import TaggedText

    rng = random.Random(seed)
    families, places = (names_of(side, endings) for endings in (FAMILIES, PLACES))
    made = {
        "PER": lambda: f"{rng.choice(FIRST)} {rng.choice(families)}",
        "LOC": lambda: rng.choice(["", "", "New ", "Upper "]) + rng.choice(places),
        "ORG": lambda: f"{rng.choice([*places, *families])} {rng.choice(SORTS)}",
        "DATE": lambda: (
            f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {rng.randint(1950, 2029)}"
            if rng.random() < 0.5
            else f"{rng.choice(MONTHS)} {rng.randint(1950, 2029)}"
        ),
    }
    templates = [line.split() for line in TEMPLATES[side].splitlines()]
    found = []
    for _ in range(count):
        words, labels = [], []
        for part in rng.choice(templates):
            kind = part.strip("{}")
            given = made[kind]().split() if kind in made else [part]
            words += given
            labels += [f"{'I' if i else 'B'}-{kind}" if kind in made else "O"
                       for i in range(len(given))]  # fmt: skip
        found.append(TaggedText(tuple(words), tuple(labels)))
    return found


def names_of(side: str, endings: list[str]) -> list[str]:
    """Half of the names of two syllables and an ending: those of a side."""
    names = [(a + b + end).title() for a in SYLLABLES for b in SYLLABLES for end in endings]
    random.Random(0).shuffle(names)
    return names[::2] if side == "train" else names[1::2]


def trained(train: list, dev: list, args: argparse.Namespace) -> Path:
    """Trains a tagger, or goes on with it, and returns the file of the best weights."""
    from keras_attn.tasks import Tagger

    data = {
        "vocabulary_size": args.vocabulary_size, "max_length": args.max_length,
        "backbone": args.backbone,
    }  # fmt: skip
    sizes = {
        "dim": args.dim, "num_layers": args.num_layers, "num_heads": args.num_heads,
        "intermediate_dim": 4 * args.dim,
    }  # fmt: skip
    training = {
        "epochs": args.epochs, "learning_rate": args.learning_rate, "seed": args.seed,
        "batch_size": 32,
    }  # fmt: skip
    model = {} if args.backbone else sizes
    run = Tagger.train(train, dev or None, args.run_dir / "tagger", data, model, training, print)
    if not run.complete:
        sys.exit("Interrupted. Run the same command again to resume.")
    return run.best


def words_of(sentence) -> str:
    """The words of a sentence as a text."""
    return " ".join(sentence.words)


def in_colours(tagged) -> str:
    """A text for a terminal, whose entities have a background and their type."""
    line, end = "", 0
    for entity in tagged.entities:
        colour = COLOURS.get(entity.kind, 253)
        line += tagged.text[end : entity.start]
        line += f"\x1b[38;5;16;48;5;{colour}m {entity.text} \x1b[1m{entity.kind} \x1b[0m"
        end = entity.end
    return line + tagged.text[end:]


def entities_page(found: list) -> str:
    """A page of HTML with the entities of texts in colours."""
    kinds = sorted({entity.kind for tagged in found for entity in tagged.entities})
    colours = {kind: PAGE_COLOURS[i % len(PAGE_COLOURS)] for i, kind in enumerate(kinds)}
    rows = []
    for tagged in found:
        line, end = "", 0
        for entity in tagged.entities:
            line += html.escape(tagged.text[end : entity.start])
            line += (
                f'<mark style="background:{colours[entity.kind]}">{html.escape(entity.text)} '
                f"<small>{html.escape(entity.kind)}</small></mark>"
            )
            end = entity.end
        rows.append(f"<p>{line}{html.escape(tagged.text[end:])}</p>")
    style = "body{font:1rem/2 sans-serif;max-width:45rem;margin:2rem auto}mark{padding:.2em .3em}"
    return (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>Entities</title>'
        f"<style>{style}</style></head><body><h1>Entities</h1>\n{chr(10).join(rows)}\n"
        "</body></html>\n"
    )


def say(what: str) -> None:
    """Prints a heading."""
    print(f"\n=== {what}", flush=True)


if __name__ == "__main__":
    main()
