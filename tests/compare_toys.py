"""The toy of each task for `tests/compare.py`: its files, and the commands that are run on them.

A command is a list of words. `{toy}` stands for the folder of the toy's files, and `{run}` for the
folder of what the commands write.
"""

import json
import random
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

ENCODER = (
    "--dim 16 --num-layers 1 --num-heads 2 --intermediate-dim 16 --dropout 0 "
    "--vocabulary-size 90 --max-length 24"
)
DECODER = "--dim 16 --num-layers 1 --num-heads 2 --intermediate-dim 16 --dropout 0"
SHORT = "--epochs 5 --learning-rate 0.01 --seed 1 --checkpoint-steps 1000"
PEOPLE = "Ada Bob Eva Tom Lee Ida Max Ben".split()
PLACES = "Rome Oslo Bonn Lima Cairo Paris Delhi Kyiv".split()
NUMBERS = "one two three four five six seven eight nine".split()
ZAHLEN = "eins zwei drei vier fünf sechs sieben acht neun".split()
ODD = [
    "",
    " ",
    "Ada",
    "ADA meets Bob in Rome.",
    "one two",
    "naïve café 😀\u2028x",
    "a" * 70,
    "<b>&",
]
"""Texts that every SavedModel of texts is called with."""


@dataclass
class Toy:
    """A task's files by their names, and its commands by their names."""

    files: dict[str, str | bytes]
    commands: dict[str, str]
    wrong: dict[str, str] = field(default_factory=dict)
    """Commands that must fail; their messages are compared."""


def _lines(rows) -> str:
    return "".join(f"{row}\n" for row in rows)


def png(red: int, green: int, blue: int, size: int = 16) -> bytes:
    """A picture of one colour, with a darker left half."""
    row = bytes([red // 2, green // 2, blue // 2] * (size // 2) + [red, green, blue] * (size // 2))
    data = zlib.compress((b"\0" + row) * size)
    head = struct.pack(">2I5B", size, size, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", data), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _translation() -> Toy:
    draw = random.Random(0)
    rows = [[draw.randrange(9) for _ in range(draw.randint(2, 4))] for _ in range(160)]
    pairs = sorted({
        (" ".join(NUMBERS[i] for i in row), " ".join(ZAHLEN[i] for i in row)) for row in rows
    })  # fmt: skip
    model = "{run}/best.task"
    return Toy(
        {
            "pairs.tsv": _lines(f"{a}\t{b}" for a, b in pairs),
            "lines.txt": "one two three\n\nnine eight\n",
            "bad.tsv": "one\n",
        },
        {
            "prepare": "--train {toy}/pairs.tsv --dev-size 10 --test-size 10 --vocabulary-size 300 "
            "--max-length 16 --to {run}/data",
            "fit": f"--data {{run}}/data --run-dir {{run}}/fit {DECODER} {SHORT} "
            "--tokens-per-batch 200 --score-pairs 4",
            "evaluate": "--model {run}/fit/best.task --data {run}/data --beams 2",
            "predict": "--model {run}/fit/best.task --beams 2 {toy}/lines.txt",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved --beams 2",
        },
        {
            "prepare": "--train {toy}/bad.tsv --to {run}/no",
            "predict": "--model {toy}/lines.txt {toy}/lines.txt",
            "fit": "--data {toy}/nowhere --run-dir {run}/no",
            "export": f"--model {model} --to {{run}}/saved --beams 0",
        },
    )


def _text_generation() -> Toy:
    text = "To be, or not to be, that is the question.\n" * 60
    return Toy(
        {"book.txt": text},
        {
            "fit": f"--text {{toy}}/book.txt --run-dir {{run}}/fit --model gpt {DECODER} {SHORT} "
            "--sequence-length 16 --tokenizer characters --batch-size 8",
            "evaluate": "--model {run}/fit/best.task --text {toy}/book.txt",
            "predict": "--model {run}/fit/best.task --prompt To --count 2 --num-characters 12 "
            "--temperature 0.7 --top-k 5 --seed 3",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved --temperature 0.7",
        },
        {
            "fit": "--text {toy}/nowhere.txt --run-dir {run}/no",
            "predict": "--model {run}/fit/best.task --prompt To --temperature -1",
        },
    )


def _labelled(count: int, seed: int = 0) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        good = number % 2 == 0
        words = draw.sample(["great", "fine", "lovely"] if good else ["dull", "bad", "boring"], 2)
        about = draw.choice(PEOPLE), draw.choice(PLACES)
        text = f"a {words[0]} film with {about[0]} in {about[1]}, {words[1]} {number}"
        rows.append((text, "good" if good else "bad"))
    return rows


def _text_classification() -> Toy:
    rows = [f'"{text}",{label}' for text, label in _labelled(60)]
    test = [f'"{text}",{label}' for text, label in _labelled(20, seed=1)]
    return Toy(
        {
            "train.csv": _lines(["text,label", *rows]),
            "test.csv": _lines(["text,label", *test]),
            "lines.txt": "A great film\n\ndull and boring\n",
        },
        {
            "fit": "--train {toy}/train.csv --run-dir {run}/fit --dev-share 0.2 --dim 16 "
            f"--pair-buckets 0 --vocabulary-size 300 --batch-size 8 {SHORT}",
            "evaluate": "--model {run}/fit/best.task --data {toy}/test.csv --num-bootstrap 50",
            "predict": "--model {run}/fit/best.task {toy}/lines.txt",
            "explain": "--model {run}/fit/best.task --to {run}/page.html {toy}/lines.txt",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved",
        },
        {
            "fit": "--train {toy}/train.csv --label stars --run-dir {run}/no",
            "evaluate": "--model {run}/fit/best.task --data {toy}/lines.txt",
        },
    )


def _regression() -> Toy:
    number = {"good": "4.5", "bad": "1.5"}
    rows = [f'"{text}",{number[label]}' for text, label in _labelled(60)]
    return Toy(
        {
            "train.csv": _lines(["text,number", *rows]),
            "lines.txt": "A great film\n\ndull and boring\n",
        },
        {
            "fit": "--train {toy}/train.csv --run-dir {run}/fit --dev-share 0.2 --dim 16 "
            f"--pair-buckets 0 --vocabulary-size 300 --batch-size 8 {SHORT}",
            "evaluate": "--model {run}/fit/best.task --data {toy}/train.csv --num-bootstrap 50",
            "predict": "--model {run}/fit/best.task {toy}/lines.txt",
            "explain": "--model {run}/fit/best.task --to {run}/page.html {toy}/lines.txt",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved",
        },
        {"fit": "--train {toy}/train.csv --number stars --run-dir {run}/no"},
    )


def _entailment() -> Toy:
    draw = random.Random(0)
    rows = []
    for number in range(60):
        person, place, other = draw.choice(PEOPLE), *draw.sample(PLACES, 2)
        label = ("ENTAILMENT", "CONTRADICTION", "NEUTRAL")[number % 3]
        second = {0: f"{person} is in {place}", 1: f"{person} is not in {place}"}.get(
            number % 3, f"somebody likes {other}"
        )
        rows.append(f"{person} works in {place} {number},{second},{label}")
    return Toy(
        {
            "pairs.csv": _lines(["premise,hypothesis,label", *rows]),
            "lines.txt": "Ada works in Rome\tAda is in Rome\nBob works\tBob sleeps\n",
        },
        {
            "fit": "--train {toy}/pairs.csv --run-dir {run}/fit --dev-share 0.2 --dim 16 --units 8 "
            f"--dropout 0 --batch-size 8 {SHORT}",
            "evaluate": "--model {run}/fit/best.task --data {toy}/pairs.csv --num-bootstrap 50",
            "predict": "--model {run}/fit/best.task {toy}/lines.txt",
            "explain": "--model {run}/fit/best.task --to {run}/page.html {toy}/lines.txt",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved",
        },
        {"fit": "--train {toy}/lines.txt --run-dir {run}/no"},
    )


def _tagged(count: int, seed: int = 0) -> list[list[tuple[str, str]]]:
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        place = draw.choice(PLACES)
        new = draw.random() < 0.4
        rows.append([
            (draw.choice(PEOPLE), "B-PER"), (draw.choice(["meets", "sees"]), "O"),
            (draw.choice(PEOPLE), "B-PER"), ("in", "O"),
            *([("New", "B-LOC"), (place, "I-LOC")] if new else [(place, "B-LOC")]), (".", "O"),
        ])  # fmt: skip
    return rows


def _tagging() -> Toy:
    def columns(rows) -> str:
        return "\n".join(_lines(f"{word} {label}" for word, label in row) for row in rows)

    return Toy(
        {
            "train.txt": columns(_tagged(40)),
            "test.txt": columns(_tagged(12, seed=1)),
            "lines.txt": "Ada meets Bob in New Rome.\n\n(Tom) codes\n",
            "bad.txt": "Ada B-PER\nRome\n",
        },
        {
            "fit": "--train {toy}/train.txt --run-dir {run}/fit --dev-share 0.3 --batch-size 8 "
            f"{ENCODER} {SHORT}",
            "evaluate": "--model {run}/fit/best.task --data {toy}/test.txt --num-bootstrap 50",
            "predict": "--model {run}/fit/best.task {toy}/lines.txt",
            "explain": "--model {run}/fit/best.task --to {run}/page.html {toy}/lines.txt",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved",
        },
        {"fit": "--train {toy}/bad.txt --run-dir {run}/no"},
    )


def _question_answering() -> Toy:
    draw = random.Random(0)
    articles = []
    for number in range(40):
        person, place = draw.choice(PEOPLE), draw.choice(PLACES)
        context = f"{person} lives in {place}. It is day {number}."
        answer = {"text": place, "answer_start": context.index(place)}
        question = {
            "id": str(number),
            "question": f"Where does {person} live?",
            "answers": [answer],
        }
        paragraph = {"context": context, "qas": [question]}
        articles.append({"title": f"article {number}", "paragraphs": [paragraph]})
    squad = json.dumps({"version": "1.1", "data": articles})
    return Toy(
        {
            "squad.json": squad,
            "lines.txt": "Where does Ada live?\tAda lives in Oslo.\nWho?\tTom and Eva.\n",
            "bad.txt": "no tab here\n",
        },
        {
            "fit": "--train {toy}/squad.json --run-dir {run}/fit --dev-share 0.2 --batch-size 8 "
            f"--max-question-length 10 {ENCODER} {SHORT}",
            "evaluate": "--model {run}/fit/best.task --data {toy}/squad.json --num-bootstrap 50",
            "predict": "--model {run}/fit/best.task --n-best 2 {toy}/lines.txt",
            "explain": "--model {run}/fit/best.task --to {run}/page.html {toy}/lines.txt",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved --n-best 2",
        },
        {"predict": "--model {run}/fit/best.task {toy}/bad.txt"},
    )


def _pretraining() -> Toy:
    draw = random.Random(0)
    sentence = "{} the {} {} in {}."
    documents = [
        _lines(
            sentence.format(draw.choice(PEOPLE), draw.choice(["big", "red"]),
                            draw.choice(["dog", "cat"]), draw.choice(PLACES))
            for _ in range(3)
        )
        for _ in range(40)
    ]  # fmt: skip
    return Toy(
        {"text.txt": "\n".join(documents), "lines.txt": "Ada the big [MASK] in Rome.\n\nRome\n"},
        {
            "fit": "--text {toy}/text.txt --run-dir {run}/fit --batch-size 8 "
            f"{ENCODER} {SHORT}",
            "evaluate": "--model {run}/fit/best.task --text {toy}/text.txt",
            "predict": "--model {run}/fit/best.task --top-k 2 {toy}/lines.txt",
            "explain": "--model {run}/fit/best.task --to {run}/page.html {toy}/lines.txt",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved --top-k 2",
        },
        {"fit": "--text {toy}/nowhere.txt --run-dir {run}/no"},
    )


def _embeddings() -> Toy:
    draw = random.Random(0)
    words = ["king", "queen", "man", "woman", *PEOPLE]
    rows = [" ".join(draw.choices(words, k=8)) for _ in range(60)]
    return Toy(
        {"text.txt": "\n\n".join(rows), "lines.txt": "king\nqueen man\n\nnobody\n"},
        {
            "fit": "--text {toy}/text.txt --run-dir {run}/fit --dim 8 --epochs 5 --min-frequency 1 "
            "--subsample 0 --batch-size 64 --seed 1",
            "predict": "--model {run}/fit/best.task --top-k 3 {toy}/lines.txt",
            "nearest": "--model {run}/fit/best.task --top-k 3 king",
            "analogy": "--model {run}/fit/best.task --top-k 2 man woman king",
            "vectors": "--model {run}/fit/best.task --to {run}/vectors.txt",
            "export": "--model {run}/fit/best.task --to {run}/saved --top-k 3",
        },
        {"nearest": "--model {run}/fit/best.task nobody"},
    )


def _similarity() -> Toy:
    draw = random.Random(0)
    rows = []
    for number in range(60):
        person, place, other = draw.choice(PEOPLE), *draw.sample(PLACES, 2)
        same = number % 2 == 0
        second = f"{place} is where {person} is" if same else f"{other} is big"
        rows.append(f"{person} is in {place} {number},{second},{4.5 if same else 0.5}")
    return Toy(
        {
            "pairs.csv": _lines(["sentence1,sentence2,score", *rows]),
            "lines.txt": "Ada is in Rome\tRome is where Ada is\nBob\tBonn is big\n",
        },
        {
            "fit": "--train {toy}/pairs.csv --run-dir {run}/fit --dev-share 0.2 --batch-size 8 "
            f"{ENCODER} {SHORT}",
            "evaluate": "--model {run}/fit/best.task --data {toy}/pairs.csv --num-bootstrap 50",
            "predict": "--model {run}/fit/best.task {toy}/lines.txt",
            "embed": "--model {run}/fit/best.task --to {run}/vectors.npy {toy}/lines.txt",
            "explain": "--model {run}/fit/best.task --to {run}/page.html {toy}/lines.txt",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved",
        },
        {"fit": "--train {toy}/pairs.csv --score stars --run-dir {run}/no"},
    )


def _answer_selection() -> Toy:
    draw = random.Random(0)
    rows = []
    for number in range(40):
        person, place = draw.choice(PEOPLE), draw.choice(PLACES)
        rows.append(f"where is {person} on day {number}\t{person} is in {place} on day {number}")
    return Toy(
        {
            "faq.tsv": _lines(["question\tanswer", *rows]),
            "lines.txt": "where is Ada on day 3\n\nwho\n",
        },
        {
            "fit": "--train {toy}/faq.tsv --run-dir {run}/fit --dev-share 0.2 --batch-size 8 "
            f"--near-duplicates anywhere {ENCODER} {SHORT}",
            "evaluate": "--model {run}/fit/best.task --data {toy}/faq.tsv --num-bootstrap 50",
            "predict": "--model {run}/fit/best.task --top-k 2 {toy}/lines.txt",
            "explain": "--model {run}/fit/best.task --to {run}/page.html {toy}/lines.txt",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved --top-k 2",
        },
        {"fit": "--train {toy}/faq.tsv --question q --run-dir {run}/no"},
    )


def _conversation() -> Toy:
    rows = []
    for number in range(40):
        person, place = PEOPLE[number % 8], PLACES[number // 8]
        turns = ["Hi.", "Who is there?", f"I am {person} from {place}.", f"Hello {person}."]
        rows.append(json.dumps({"turns": turns}))
    return Toy(
        {
            "talks.jsonl": _lines(rows),
            "lines.txt": "Hi.\nHi.\tWho is there?\tI am Ada from Rome.\n",
        },
        {
            "fit": "--train {toy}/talks.jsonl --run-dir {run}/fit --dev-share 0.2 "
            f"--vocabulary-size 300 --tokens-per-batch 200 {DECODER} {SHORT}",
            "predict": "--model {run}/fit/best.task --search beam --beams 2 {toy}/lines.txt",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved --search beam --beams 2",
        },
        {"predict": "--model {run}/fit/best.task --beams 0 {toy}/lines.txt"},
    )


COLOURS = {"red": (220, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 220)}


def _pictures() -> dict[str, bytes]:
    return {
        f"{name}{number}.png": png(*(max(0, value - 5 * number) for value in colour))
        for name, colour in COLOURS.items()
        for number in range(8)
    }


def _captioning() -> Toy:
    pictures = _pictures()
    rows = [f"{name},a {name[:-5]} square" for name in pictures]
    return Toy(
        {"captions.csv": _lines(["image,caption", *rows]), **pictures},
        {
            "fit": "--train {toy}/captions.csv --run-dir {run}/fit --dev-share 0.25 --batch-size 8 "
            f"--image-size 16 --encoder small-cnn --model transformer {DECODER} {SHORT}",
            "predict": "--model {run}/fit/best.task --beams 2 {toy}/red0.png {toy}/blue1.png",
            "explain": "--model {run}/fit/best.task --to {run}/page.html {toy}/red0.png",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved --beams 2",
        },
        {"predict": "--model {run}/fit/best.task {toy}/captions.csv"},
    )


def _visual_questions() -> Toy:
    pictures = _pictures()
    rows = [
        f"{name},is it {colour}?,{'yes' if name.startswith(colour) else 'no'}"
        for name in pictures
        for colour in COLOURS
    ]
    return Toy(
        {
            "questions.csv": _lines(["image,question,answer", *rows]),
            "lines.txt": "",
            **pictures,
        },
        {
            "fit": "--train {toy}/questions.csv --run-dir {run}/fit --dev-share 0.25 "
            f"--image-size 16 --encoder small-cnn --batch-size 8 --dim 16 --num-heads 2 {SHORT}",
            "predict": "--model {run}/fit/best.task {toy}/asked.tsv",
            "explain": "--model {run}/fit/best.task --to {run}/page.html {toy}/asked.tsv",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved",
        },
        {"predict": "--model {run}/fit/best.task {toy}/questions.csv"},
    )


def _summarization() -> Toy:
    ran = [f"It is {number}.\nThen {name} ran home." for name in PEOPLE for number in NUMBERS]
    rows = [{"text": text, "summary": text.split()[4]} for text in ran]
    return Toy(
        {
            "pairs.jsonl": _lines(json.dumps(row) for row in rows),
            "lines.txt": "It is one. Then Ada ran home.\n\nBob ran.\n",
        },
        {
            "fit": f"--train {{toy}}/pairs.jsonl --run-dir {{run}}/fit {DECODER} {SHORT} "
            "--vocabulary-size 300 --max-length 24 --max-summary-length 6 --tokens-per-batch 200 "
            "--score-pairs 4",
            "evaluate": "--model {run}/fit/best.task --data {toy}/pairs.jsonl --beams 2 "
            "--num-bootstrap 9",
            "predict": "--model {run}/fit/best.task --beams 2 {toy}/lines.txt",
            "quantize": "--model {run}/fit/best.task --to {run}/int8.task",
            "export": "--model {run}/fit/best.task --to {run}/saved --beams 2",
        },
        {
            "predict": "--model {toy}/lines.txt {toy}/lines.txt",
            "fit": "--train {toy}/nowhere.jsonl --run-dir {run}/no",
        },
    )


TOYS = {
    "translation": _translation,
    "summarization": _summarization,
    "text-generation": _text_generation,
    "text-classification": _text_classification,
    "regression": _regression,
    "entailment": _entailment,
    "tagging": _tagging,
    "question-answering": _question_answering,
    "pretraining": _pretraining,
    "embeddings": _embeddings,
    "similarity": _similarity,
    "answer-selection": _answer_selection,
    "conversation": _conversation,
    "captioning": _captioning,
    "visual-questions": _visual_questions,
}


def write(toy: Toy, folder: Path) -> None:
    """Writes the files of a toy."""
    folder.mkdir(parents=True)
    for name, content in toy.files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
    if "lines.txt" in toy.files and not toy.files["lines.txt"]:
        pictures = sorted(folder.glob("*.png"))[::9]
        (folder / "asked.tsv").write_text(_lines(f"{p}\tis it red?" for p in pictures))
