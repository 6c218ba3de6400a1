"""Summarizes functions as docstrings, with data that every Python installation has.

    pip install -e ".[examples,summarization]"
    python examples/summarization.py

reads the functions of the installed packages. These steps take about half an hour on two idle
cores:

1. A text is the source of a function without its docstring, with names split into words
   (`get_config` is "get config"). The summary is the first line of the docstring.
2. Some packages are the test set, some are used to choose the best weights, and a Transformer is
   trained on the others. Training functions that resemble a test function, or have the docstring of
   one, are left out.
3. For each seed, ROUGE on the test set is printed beside ROUGE of the first line of the text, the
   name of the function with its arguments. One summary is shown, with a page of the attention.

All files are written to `--run-dir`. After an interruption, the same command resumes the run.
"""

import argparse
import ast
import hashlib
import json
import re
import sysconfig
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

from keras_attn.records import TranslationPair, remove_overlap
from keras_attn.tasks import Summarizer

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
MOST_OF_A_PACKAGE = 700
DATA = {"vocabulary_size": 6000, "max_length": 40, "max_summary_length": 24}
MODEL = {"dim": 128, "num_layers": 2, "num_heads": 4, "intermediate_dim": 256, "dropout": 0.0}

TRAINING = {
    "tokens_per_batch": 1600, "learning_rate": 3e-3, "label_smoothing": 0.0, "score_pairs": 60,
}  # fmt: skip


def words(source: str) -> str:
    """The words of each line of source, in lower case."""
    lines = (" ".join(WORD.findall(line)).lower() for line in source.splitlines())
    return "\n".join(line for line in lines if line)


def functions(source: str) -> Iterator[tuple[str, str]]:
    """The functions of a file: source without docstring, and the docstring's first line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other people's escapes
        tree = ast.parse(source)
    lines = source.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or len(node.body) < 2:
            continue
        docstring = ast.get_docstring(node)
        line = " ".join((docstring or "").strip().split("\n\n")[0].split())
        if 3 <= len(line.split()) <= 16 and line.isascii():
            first, last = node.body[0].lineno - 1, node.body[0].end_lineno
            text = [*lines[node.lineno - 1 : first], *lines[last : node.end_lineno]]
            yield words("\n".join(text)), line


def by_digest(text: str) -> str:
    """A key of an order that is the same everywhere, and not that of the alphabet."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_packages(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Functions of each package of a folder, without those that others brought along."""
    pairs_of: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    for name in sorted(paths, key=by_digest):
        package = name.split("/")[0].removesuffix(".py")
        enough = len(pairs_of[package]) >= MOST_OF_A_PACKAGE
        if enough or re.search(r"vendor|(^|/)(tests?|testing)/|(^|/)test_|_pb2", name):
            continue
        try:
            pairs_of[package].update(dict.fromkeys(functions(paths[name].read_text("utf-8"))))
        except (SyntaxError, UnicodeDecodeError, RecursionError, ValueError):
            continue  # of another Python
    return {name: [*pairs][:MOST_OF_A_PACKAGE] for name, pairs in pairs_of.items() if pairs}


def split(
    packages: dict[str, list[list[str]]], dev: int, test: int
) -> dict[str, list[TranslationPair]]:
    """Packages for the test, for development and for the training; of the first two a part each."""
    sides: dict[str, list[TranslationPair]] = {"test": [], "dev": [], "train": []}
    for name in sorted(packages, key=by_digest):
        side = (
            "test" if len(sides["test"]) < test else "dev" if len(sides["dev"]) < dev else "train"
        )
        most = MOST_OF_A_PACKAGE if side == "train" else MOST_OF_A_PACKAGE // 10
        chosen = [tuple(pair) for pair in packages[name][:most]]
        sides[side] += [TranslationPair(*pair, (name,)) for pair in chosen]
    sides["train"], _ = remove_overlap(sides["train"], sides["dev"], sides["test"])
    return sides


def main() -> None:
    """Runs all steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, default=Path(sysconfig.get_path("purelib")))
    parser.add_argument("--run-dir", type=Path, default=Path("docstrings"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--dev", type=int, default=500)
    parser.add_argument("--test", type=int, default=1000)
    options = parser.parse_args()
    options.run_dir.mkdir(parents=True, exist_ok=True)
    kept = options.run_dir / "packages.json"
    if not kept.exists():
        kept.write_text(json.dumps(read_packages(options.packages)))
    packages = json.loads(kept.read_text())
    sides = split(packages, options.dev, options.test)
    sizes = {name: len(side) for name, side in sides.items()}
    groups = {name: len({pair.groups for pair in side}) for name, side in sides.items()}
    print(f"{len(packages)} packages {groups}, pairs {sizes}")
    figures = []
    for seed in range(options.seeds):
        run_dir = options.run_dir / f"seed_{seed}"
        training = {**TRAINING, "epochs": options.epochs, "seed": seed}
        run = Summarizer.train(
            sides["train"], sides["dev"], run_dir, data=DATA, model=MODEL, training=training,
            log=print,
        )  # fmt: skip
        if not run.complete:
            raise SystemExit("Interrupted. Run the same command again to resume.")
        summarizer = Summarizer.load(run_dir / "best.task")
        report = summarizer.evaluate(sides["test"])
        print(f"seed {seed}\n{report}", flush=True)
        figures.append(report.to_dict())
    results = {"sizes": sizes, "packages": groups, "seeds": figures}
    (options.run_dir / "results.json").write_text(json.dumps(results, indent=1))
    text, docstring, *_ = sides["test"][0]
    print(f"\n{text}\n\nwritten: {summarizer.predict(text)}\ntrue:    {docstring}")
    page = options.run_dir / "attention.html"
    page.write_text(summarizer.page(summarizer.explain(text), "A docstring"), encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
