"""Answers questions by a part of a text: from training questions to a SavedModel.

    python examples/question_answering.py

generates questions by rule. These steps take some minutes on a CPU:

1. Texts about ships, people and projects are generated, with questions. The names and values of the
   test set do not occur in the training set; its second half also has other sentences and wordings.
2. An encoder with scores for the first and the last token of the answer is trained from random
   weights.
3. Its exact match and F1 are compared with a baseline that counts common words.
4. Answers are marked in their texts, and a page shows which words decided.
5. The model is exported as a SavedModel, which needs only TensorFlow.

With a file in SQuAD's format and a pretrained encoder

    python examples/question_answering.py --data dev-v1.1.json --backbone FOLDER --seeds 3

the encoder is fine-tuned on all articles except ten, once for each seed, and tested on these ten:
the articles whose names have the lowest SHA-256 (`keras_attn.records.split_questions`). A tenth of
the other articles is used to choose the weights. All files are written to `--run-dir`. After an
interruption, the same command resumes the run.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

from keras_attn_command import plain_output

SYLLABLES = "ba be bor da del fen gar hol ka lin mar nor pel ros sen tal ver vik wen zan".split()
ENDINGS = {
    "ship": "a ina ora ania".split(),
    "person": "son sen ski ini".split(),
    "project": "us ex ion ium".split(),
    "place": "ford bury ton burg".split(),
}
FIRST = "Ada Bruno Carla Dario Elena Felix Greta Hugo Irene Jonas Karin Luca Marta Nils".split()
MONTHS = "January March April June July September October November".split()
WORK = "baker nurse painter teacher farmer lawyer miner tailor sailor printer".split()
CARGO = "coal wool salt timber copper sugar rice cotton tea wine".split()
# Of each fact: sentences, then questions. The last of both are for the test alone.
FACTS = {
    "ship": {
        "place": (
            ["The {x} was built in {v}.", "In {v} the {x} was built.",
             "Workers of {v} built the {x}.", "It was the yard of {v} that built the {x}."],
            ["Where was the {x} built?", "In which town was the {x} built?",
             "Which town built the {x}?"],
        ),
        "date": (
            ["The {x} sailed in {v}.", "In {v} the {x} sailed.",
             "The {x} first sailed in {v}.", "It was not before {v} that the {x} sailed."],
            ["When did the {x} sail?", "In which month did the {x} sail?",
             "Since when has the {x} sailed?"],
        ),
        "cargo": (
            ["The {x} carried {v}.", "{v} was carried by the {x}.",
             "The {x} was full of {v}.", "On board the {x} was {v}."],
            ["What did the {x} carry?", "What was carried by the {x}?",
             "What was the {x} full of?"],
        ),
    },
    "person": {
        "place": (
            ["{x} lived in {v}.", "In {v} lived {x}.",
             "{x} had a home in {v}.", "The home of {x} was in {v}."],
            ["Where did {x} live?", "In which town did {x} live?", "Where was the home of {x}?"],
        ),
        "date": (
            ["{x} married in {v}.", "In {v} {x} married.",
             "{x} first married in {v}.", "It was not before {v} that {x} married."],
            ["When did {x} marry?", "In which month did {x} marry?",
             "Since when has {x} been married?"],
        ),
        "work": (
            ["{x} was a {v}.", "{x} worked as a {v}.",
             "As a {v} worked {x}.", "{x} had a home and was a {v}."],
            ["What was {x}?", "What did {x} work as?", "As what did {x} work?"],
        ),
    },
    "project": {
        "place": (
            ["Project {x} was run in {v}.", "In {v} project {x} was run.",
             "Project {x} had an office in {v}.", "The office of project {x} was in {v}."],
            ["Where was project {x} run?", "In which town was project {x} run?",
             "Where was the office of project {x}?"],
        ),
        "date": (
            ["Project {x} ended in {v}.", "In {v} project {x} ended.",
             "Project {x} first ended in {v}.", "It was not before {v} that project {x} ended."],
            ["When did project {x} end?", "In which month did project {x} end?",
             "Since when has project {x} been at its end?"],
        ),
        "head": (
            ["{v} led project {x}.", "Project {x} was led by {v}.",
             "The head of project {x} was {v}.", "Project {x} had {v} as its head."],
            ["Who led project {x}?", "By whom was project {x} led?",
             "Who was the head of project {x}?"],
        ),
    },
}  # fmt: skip
FILLERS = {
    "train": ["It rained for a week.", "Nobody knew what it was for.", "The town was full."],
    "test": ["For a month it rained.", "It was full of people.", "Nobody was on board."],
}


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--run-dir", type=Path, default=Path("runs/question_answering"), help="%(default)s")
    add("--data", help="your own questions: SQuAD's JSON, or JSON lines")
    add("--test-articles", type=int, help="articles of --data to test on (10; a fifth at most)")
    add("--limit", type=int, help="use so many questions of each side at most, to try it")
    add("--backbone", default="", help="a task or folder of weights to start from")
    add("--texts", type=int, default=5000, help="made to learn from (%(default)s)")
    add("--vocabulary-size", type=int, default=700, help="word pieces (%(default)s)")
    add("--max-length", type=int, help="tokens of a window (96, or 384 with --data)")
    add("--dim", type=int, default=64, help="width of the encoder (%(default)s)")
    add("--num-layers", type=int, default=3, help="its layers (%(default)s)")
    add("--num-heads", type=int, default=4, help="heads of each layer (%(default)s)")
    add("--epochs", type=int, help="of training (10, or 3 with a backbone)")
    add("--learning-rate", type=float, help="peak (0.002, or 0.0001 with a backbone)")
    add("--seeds", type=int, default=1, help="number of trainings (%(default)s)")
    add("--seed", type=int, default=0, help="of the questions, and of the first training")
    args = parser.parse_args(arguments)
    tuned = bool(args.backbone)
    args.max_length = args.max_length or (384 if args.data else 96)
    args.epochs = args.epochs or (3 if tuned else 10)
    args.learning_rate = args.learning_rate or (1e-4 if tuned else 2e-3)
    return args


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    plain_output()
    args.run_dir.mkdir(parents=True, exist_ok=True)

    from saved_models import call_saved_model

    from keras_attn.metrics import common_words_answer, score_answers
    from keras_attn.tasks import QuestionAnswerer

    began = time.monotonic()
    say("1. Questions with answers")
    train, dev, tests = read_data(args)
    sizes = ", ".join(f"{len(questions):,} of {name}" for name, questions in tests.items())
    print(f"{len(train):,} for training, {len(dev):,} for development; for testing: {sizes}")
    for q in train[:2]:
        print(f"{q.text}\n    {q.question} {q.answers[0].text}")

    say("2. Training")
    files = [trained(train, dev, args, args.seed + i) for i in range(args.seeds)]

    say("3. Test")
    results = {}
    for name, questions in tests.items():
        right = [[answer.text for answer in q.answers] for q in questions]
        counted = score_answers([common_words_answer(q.question, q.text) for q in questions], right)
        rows = {"common words": counted}
        for i, file in enumerate(files):
            rows[f"seed {args.seed + i}"] = QuestionAnswerer.load(file).evaluate(questions)
        results[name] = {row: report.to_dict() for row, report in rows.items()}
        print(table(f"{len(questions):,} questions of {name}", rows))

    say("4. Answers in their texts")
    answerer = QuestionAnswerer.load(files[0])
    shown = [q for questions in tests.values() for q in questions[:: len(questions) // 5 + 1]]
    pairs = [(q.question, q.text) for q in shown]
    answers = answerer.predict(pairs)
    for (question, text), answer in zip(pairs, answers, strict=True):
        print(f"{question}\n    {marked(text, answer.start, answer.end)}")
    page = args.run_dir / "answers.html"
    reasons = answerer.explain(pairs)
    page.write_text(answerer.page(reasons, "Answers, and what spoke for them"), encoding="utf-8")
    strongest = ", ".join(f"{word} {weight:+.2f}" for word, weight in reasons[0].strongest(5))
    print(f"What spoke for the first one: {strongest}")

    say("5. A SavedModel, called in a process without this package")
    saved_model = args.run_dir / "saved_model"
    answerer.export(saved_model, overwrite=True)
    questions, passages = map(list, zip(*pairs, strict=True))
    served = call_saved_model(saved_model, question=questions, text=passages)["answer"]
    print(served)
    if served != [answer.text for answer in answers]:
        raise RuntimeError("The SavedModel and the Python object differ.")

    minutes = (time.monotonic() - began) / 60
    results = {"test": results, "minutes": round(minutes, 2)}
    (args.run_dir / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    say(f"Done in {minutes:.1f} minutes. All of it is in {args.run_dir}; open {page}")


def read_data(args: argparse.Namespace) -> tuple[list, list, dict[str, list]]:
    """Returns questions to learn from, to choose weights, and to test on by names."""
    from keras_attn.records import read_questions, split_questions

    if args.data:
        try:
            questions = read_questions(args.data)
            articles = len({question.title for question in questions})
            if articles < 3:
                raise ValueError(
                    f"{args.data}: expected questions about at least three articles, to split "
                    f"them into training, development and test questions. Received: {articles}."
                )
            count = args.test_articles or max(min(10, articles // 5), 1)
            if count > articles - 2:
                raise ValueError(
                    f"--test-articles must be at most {articles - 2}, so that two of {articles} "
                    f"are left. Received: {count}."
                )
            rest, test = split_questions(questions, count)
        except (ValueError, OSError) as error:
            sys.exit(str(error))
        tests = {f"{count} article{'s' * (count != 1)}": test}
    else:
        count, seed = args.texts, args.seed
        rest = make_questions(count, seed, "train", "train")
        tests = {
            "new names": make_questions(count // 8, seed + 1, "test", "train"),
            "new names, sentences and wordings": make_questions(
                count // 8, seed + 2, "test", "test"
            ),
        }
    articles = len({question.title for question in rest})
    train, dev = split_questions(rest, max(articles // 10, 1))
    if args.limit:
        train, dev = train[: args.limit], dev[: args.limit]
        tests = {name: questions[: args.limit] for name, questions in tests.items()}
    return train, dev, tests


def make_questions(count: int, seed: int, names: str, wordings: str) -> list:
    """Makes texts about two or three things of a kind each, with three questions.

    Args:
        count: Number of texts.
        seed: Seed of the draws.
        names: `"train"` or `"test"`: which half of the names is drawn from.
        wordings: `"train"` or `"test"`: which sentences and wordings.
    """
    from keras_attn.records import AnsweredQuestion, TextAnswer

    rng = random.Random(seed)
    own = {kind: names_of(names, endings) for kind, endings in ENDINGS.items()}
    years = range(1800 + (names == "test"), 2000, 2)
    make = {
        "place": lambda: rng.choice(own["place"]),
        "date": lambda: f"{rng.choice(MONTHS)} {rng.choice(years)}",
        "cargo": lambda: rng.choice(CARGO),
        "work": lambda: rng.choice(WORK),
        "head": lambda: f"{rng.choice(FIRST)} {rng.choice(own['person'])}",
    }
    part = slice(None, -1) if wordings == "train" else slice(-1, None)
    found = []
    for number in range(count):
        kind = rng.choice([*FACTS])
        begins = rng.sample(SYLLABLES, 3)  # names that begin alike are hard to tell apart
        things = [rng.choice([x for x in own[kind] if x.lower().startswith(b)]) for b in begins]
        if kind == "person":
            things = [" ".join(x) for x in zip(rng.sample(FIRST, 3), things, strict=True)]
        fact, other = rng.sample([*FACTS[kind]], 2)
        told = [(x, fact, make[fact]()) for x in things[: rng.randint(2, 3)]]
        told.append((rng.choice(things), other, make[other]()))
        rng.shuffle(told)
        text, places = "", []
        for x, fact, value in told:
            if rng.random() < 0.15:
                text += rng.choice(FILLERS[wordings]) + " "
            sentence = rng.choice(FACTS[kind][fact][0][part])
            sentence = sentence.replace("{x}", x)
            at = sentence.index("{v}")
            shown = value[0].upper() + value[1:] if at == 0 else value
            places.append(TextAnswer(shown, len(text) + at))
            text += sentence.replace("{v}", shown) + " "
        text = text.strip()
        for i in rng.sample(range(len(told)), 3):
            x, fact, _ = told[i]
            question = rng.choice(FACTS[kind][fact][1][part]).replace("{x}", x)
            name = f"{number}-{i}"
            found.append(AnsweredQuestion(question, text, (places[i],), f"text {number}", name))
    return found


def names_of(side: str, endings: list[str]) -> list[str]:
    """Half of the names of two syllables and an ending: those of a side."""
    names = [(a + b + end).title() for a in SYLLABLES for b in SYLLABLES for end in endings]
    random.Random(0).shuffle(names)
    return names[::2] if side == "train" else names[1::2]


def trained(train: list, dev: list, args: argparse.Namespace, seed: int) -> Path:
    """Trains an answerer, or goes on with it, and returns the file of the best weights."""
    from keras_attn.tasks import QuestionAnswerer

    data = {"train": args.data or "made", "max_length": args.max_length}
    if args.backbone:
        data["backbone"] = args.backbone
    else:
        data["vocabulary_size"] = args.vocabulary_size
    if not args.data:
        data |= {"max_question_length": 24, "overlap": 24}
    sizes = {
        "dim": args.dim, "num_layers": args.num_layers, "num_heads": args.num_heads,
        "intermediate_dim": 4 * args.dim, "dropout": 0.0, "attention_dropout": 0.0,
    }  # fmt: skip
    training = {
        "epochs": args.epochs, "learning_rate": args.learning_rate, "seed": seed,
        "batch_size": 16 if args.data else 32,
    }  # fmt: skip
    model = {} if args.backbone else sizes
    folder = args.run_dir / f"seed-{seed}"
    run = QuestionAnswerer.train(train, dev or None, folder, data, model, training, print)
    if not run.complete:
        sys.exit("Interrupted. Run the same command again to resume.")
    return run.best


def table(title: str, rows: dict) -> str:
    """A table of exact match and F1 in percent with 95 % intervals."""
    lines = [f"{title:<44}{'exact match':>22}{'F1':>22}"]
    for name, report in rows.items():
        cells = [
            f"{100 * value:.1f} ({100 * low:.1f} to {100 * high:.1f})"
            for value, (low, high) in (
                (report.exact, report.exact_interval),
                (report.f1, report.interval),
            )
        ]
        lines.append(f"    {name:<40}{cells[0]:>22}{cells[1]:>22}")
    own = [report for name, report in rows.items() if name.startswith("seed")]
    if len(own) > 1:
        means = [sum(100 * getattr(r, key) for r in own) / len(own) for key in ("exact", "f1")]
        lines.append(f"    {'mean of the seeds':<40}{means[0]:>22.1f}{means[1]:>22.1f}")
    return "\n".join(lines)


def marked(text: str, start: int, end: int) -> str:
    """A text for a terminal whose answer has a background."""
    if start == end:
        return f"{text} (no answer)"
    return f"{text[:start]}\x1b[38;5;16;48;5;157m{text[start:end]}\x1b[0m{text[end:]}"


def say(what: str) -> None:
    """Prints a heading."""
    print(f"\n=== {what}", flush=True)


if __name__ == "__main__":
    main()
