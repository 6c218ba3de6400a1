"""One toy of every task in an environment without TensorFlow: `installed_tasks.py FOLDER`.

`test_packages.py` runs it where the package is installed with its extras `jax` or `torch`, and
`tasks`. Each task goes through the steps of its command, and what was saved is loaded again.
"""

import contextlib
import io
import json
import os
import sys
from pathlib import Path

import keras_attn
from keras_attn.cli import keras_attn_command, main
from keras_attn.tasks import TextClassifier, classification_view
from keras_attn.visualize import attention_viewer

SIZES = "--dim 8 --num-layers 1 --num-heads 2 --intermediate-dim 8"
SMALL = f"{SIZES} --epochs 1"
WORDS = "dog cat bird cow fox hen pig rat".split()
TEXTS = [f"{a} {b} ran" for a in ("good", "bad") for b in WORDS]
COLORS = {"red": (255, 0, 0), "blue": (0, 0, 255)}
ABSENT = ("tensorflow", "tensorflow_text", "keras_hub")


def table(path, rows):
    """Writes JSON lines."""
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def text_rows():
    table("train.jsonl", [{"text": t, "label": t.split()[0]} for t in TEXTS])
    Path("lines.txt").write_text("good dog\n")


def number_rows():
    table("train.jsonl", [{"text": t, "number": len(t)} for t in TEXTS])
    Path("lines.txt").write_text("good dog\n")


def pair_rows():
    rows = [(t, f"a {t}") for t in TEXTS] + [(t, "no") for t in TEXTS]
    table("train.jsonl", [{"premise": a, "hypothesis": b, "label": "ny"[b > "b"]} for a, b in rows])
    Path("lines.txt").write_text("good dog\ta good dog\n")


def scored_rows():
    rows = [(t, f"a {t}", 5) for t in TEXTS] + [(t, "no", 1) for t in TEXTS]
    table("train.jsonl", [{"sentence1": a, "sentence2": b, "score": s} for a, b, s in rows])
    Path("lines.txt").write_text("good dog\ta good dog\n")


def answer_rows():
    table("train.jsonl", [{"question": f"what {t}", "answer": t} for t in TEXTS])
    Path("lines.txt").write_text("what dog\n")


def span_rows():
    rows = [{"question": f"which {w}?", "text": f"the {w} ran", "answers": [w]} for w in WORDS * 3]
    table("train.jsonl", rows)
    Path("lines.txt").write_text("which dog?\tthe dog ran\n")


def tagged_rows():
    rows = [{"words": t.split(), "labels": ["O", "B-PER", "O"]} for t in TEXTS]
    table("train.jsonl", rows)
    Path("lines.txt").write_text("good dog\n")


def translated_rows(source="source", target="target"):
    table("train.jsonl", [{source: t, target: t[::-1]} for t in TEXTS])
    Path("lines.txt").write_text("good dog\n")


def summarized_rows():
    translated_rows("text", "summary")


def documents():
    Path("pairs.tsv").write_text("dog\tcat\t3\ndog\tran\t1\ncat\tran\t2\n")
    Path("train.txt").write_text("\n\n".join(f"{t}.\n{t[::-1]}.\n{t}." for t in TEXTS * 2))
    Path("lines.txt").write_text("good [MASK] ran\n")


def running_text():
    Path("train.txt").write_text("to be, or not to be: that is the question.\n" * 40)
    Path("lines.txt").write_text("to be\n")


def talks():
    table("train.jsonl", [{"turns": ["hi", t, f"a {t}"]} for t in TEXTS])
    Path("lines.txt").write_text(json.dumps({"turns": ["hi"]}) + "\n")


def pictures(column="caption", question=""):
    """Pictures of one color, and a table that names the color of each."""
    from PIL import Image

    rows = [f"image,{question and 'question,'}{column}"]
    for i in range(12):
        name = [*COLORS][i % 2]
        Image.new("RGB", (8, 8), (*COLORS[name][:1], 9 * i, *COLORS[name][2:])).save(f"{i}.png")
        rows.append(f"{i}.png,{question and question + ','}{name}")
    Path("train.csv").write_text("\n".join(rows))
    Path("lines.txt").write_text(f"0.png\t{question}\n")


def questions():
    pictures("answer", "what color?")


# What writes the files, the options of `fit`, and the examples of `evaluate`.
ROWS = "--train train.jsonl"
HELD = f"{ROWS} --dev-share 0.25 --vocabulary-size 290"
TEXT = f"{HELD} --max-length 16 {SMALL}"
PICTURES = "--train train.csv --dev-share 0.25 --image-size 8 --filters 4,4"
CASES = {
    "text-classification": (text_rows, f"{TEXT} --model transformer"),
    "regression": (number_rows, f"{TEXT} --model transformer"),
    "entailment": (pair_rows, f"{HELD} --units 4 --epochs 1"),
    "similarity": (scored_rows, TEXT),
    "answer-selection": (answer_rows, TEXT),
    "question-answering": (span_rows, f"{TEXT} --max-question-length 5"),
    "tagging": (tagged_rows, TEXT),
    "pretraining": (documents, f"--text train.txt --dev-share 0.25 --vocabulary-size 60 {SMALL}"),
    "embeddings": (documents, "--text train.txt --dim 4 --epochs 1 --min-frequency 1"),
    "translation": (
        translated_rows,
        f"{ROWS} --dev-size 4 --vocabulary-size 290 {SMALL}",
    ),
    "summarization": (summarized_rows, f"{HELD} {SMALL}"),
    "text-generation": (
        running_text,
        f"--text train.txt --model gpt --sequence-length 16 --dev-share 0.1 {SMALL}",
    ),
    "conversation": (talks, f"{HELD} --model gpt {SMALL}"),
    "captioning": (pictures, f"{PICTURES} --vocabulary-size 290 --dim 8 --units 8 --epochs 1"),
    "visual-questions": (
        questions,
        f"{PICTURES} --dim 8 --num-heads 2 --intermediate-dim 8 --epochs 1",
    ),
}
GIVEN = {
    "pretraining": "--text train.txt",
    "text-generation": "--text train.txt",
    "embeddings": "--pairs pairs.tsv",
    "translation": "--pairs train.jsonl",
    "conversation": "--data train.jsonl --train train.jsonl",
    "captioning": "--data train.csv",
    "visual-questions": "--data train.csv",
}
"""The options of `evaluate`; others take the examples of the training."""


def command(*arguments):
    """Runs `keras-attn`; returns its exit code, and what it wrote to standard error."""
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            main([*arguments])
        except SystemExit as ended:
            return ended.code or 0, err.getvalue()
    raise AssertionError("it always exits")


def check(*arguments):
    code, err = command(*arguments)
    if code:
        raise AssertionError(f"{' '.join(arguments)}: exit code {code}, {err[-3000:]}")


def run(name):
    """Takes a toy of a task through the steps that every task has, and asks for a SavedModel."""
    write, fit = CASES[name]
    write()
    check(name, "fit", *fit.split(), "--run-dir", "run")
    best = ("--model", "run/best.task")
    steps = keras_attn_command.commands[name].commands
    given = GIVEN.get(name, "--data train.jsonl").split()
    check(name, "evaluate", *best, *given, "--to", "figures.json")
    inputs = "0.png" if name == "captioning" else "lines.txt"
    check(name, "predict", *best, inputs)
    if "explain" in steps:
        check(name, "explain", *best, inputs, "--to", "page.html")
    if "quantize" in steps:
        check(name, "quantize", *best, "--to", "small.task")
    code, err = command(name, "export", *best, "--to", "saved")
    if code != 1 or 'pip install "keras_attn[tensorflow]"' not in err or Path("saved").exists():
        raise AssertionError(f"export: exit code {code}, {err[-3000:]}")


def view():
    """The viewer, of the first classifier."""
    classifier = TextClassifier.load("run/best.task")
    page = attention_viewer([classification_view(classifier, "good dog")])
    assert "<html" in page


if __name__ == "__main__":
    there = Path(sys.argv[1]).resolve()
    print(keras_attn.__file__, flush=True)  # `predict` writes past this buffer
    for name in sys.argv[2:] or CASES:
        (there / name).mkdir(parents=True)
        os.chdir(there / name)
        run(name)
        if name == "text-classification":
            view()
        print(f"\n{name}", flush=True)  # what was predicted may not end a line
    print(json.dumps([name for name in ABSENT if name in sys.modules]))
