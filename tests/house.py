"""Measures the size and the types of the package: `python tests/house.py`.

It prints a table. If a number is above the one in `tests/house.toml`, the exit status is 1.
`--update` writes the numbers that have fallen into that file. `.ci/run` runs this script.

- *Code* is every line except blank lines, comments and docstrings.
- *Untyped parameters* have no annotation, `Any`, or a name that stands for `Any`; `self`, `cls`,
  `*args` and `**kwargs` do not count.
- *Type errors* are those that mypy finds with `MYPY_FLAGS`.

`tests/test_package.py` checks which room may import which.
"""

import argparse
import ast
import io
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "keras_attn"
BASELINE = HERE / "house.toml"
MYPY_FLAGS = ("--ignore-missing-imports",)
TASK_LINES = 400
FILE_LINES = 300


class Source:
    """A Python file: its text, its tree and the numbers of its lines of code."""

    def __init__(self, path: Path):
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.lines = self.text.count("\n")
        self.code = len(self._lines_of_code())

    @property
    def room(self) -> str:
        """The room, or the name of a file that stands beside the rooms."""
        return self.path.relative_to(PACKAGE).parts[0]

    @property
    def module(self) -> str:
        """The name by which other files import it."""
        return ".".join(self.path.relative_to(PACKAGE.parent).with_suffix("").parts)

    def _lines_of_code(self) -> set[int]:
        ignored = {
            tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
            tokenize.ENDMARKER,
        }  # fmt: skip
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in ignored:
                lines.update(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            for statement in body if isinstance(body, list) else ():
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    lines -= set(range(statement.lineno, (statement.end_lineno or 0) + 1))
        return lines


def sources() -> list[Source]:
    """All files of the package, in the order of their names."""
    return [Source(path) for path in sorted(PACKAGE.rglob("*.py"))]


def aliases_of_any(file: Source) -> set[str]:
    """Names that stand for `Any` in a file: `Tensor = Any` at its top."""
    return {
        target.id
        for node in file.tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value) in ("Any", "typing.Any")
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def parameters(files: list[Source]) -> tuple[int, int]:
    """How many parameters are untyped, and how many there are."""
    aliases = {file.module: aliases_of_any(file) for file in files}
    untyped = total = 0
    for file in files:
        names = {"Any"} | aliases[file.module]
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ImportFrom):
                known = aliases.get(node.module or "", set())
                names |= known & {alias.name for alias in node.names}
        for node in ast.walk(file.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = node.args
                every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                for argument in every:
                    if argument.arg in ("self", "cls"):
                        continue
                    total += 1
                    hint = argument.annotation
                    untyped += hint is None or ast.unparse(hint).removeprefix("typing.") in names
    return untyped, total


def type_errors() -> list[str]:
    """The errors that mypy finds, a line each."""
    command = [sys.executable, "-m", "mypy", *MYPY_FLAGS, "--no-color-output", "keras_attn"]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"mypy failed:\n{done.stdout}{done.stderr}")
    return [line for line in done.stdout.splitlines() if ": error: " in line]


def unexplained_ignores(files: list[Source]) -> int:
    """Comments `type: ignore` without the code of the error, or without a reason behind it."""
    count = 0
    for file in files:
        for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
            if token.type == tokenize.COMMENT and "type: ignore" in token.string:
                rest = token.string.split("type: ignore", 1)[1]
                count += not (rest.startswith("[") and rest.partition("]")[2].strip(" #"))
    return count


def measure(types: bool) -> dict[str, float]:
    """All numbers, by the names that `house.toml` has for them."""
    files = sources()
    tasks = [file for file in files if file.room == "tasks"]
    of_task: dict[str, list[Source]] = {}
    for file in tasks:
        name = file.path.relative_to(PACKAGE / "tasks").parts[0].removesuffix(".py")
        if name not in ("__init__", "base", "families"):
            of_task.setdefault(name, []).append(file)
    untyped, total = parameters(files)
    numbers: dict[str, float] = {
        "package, lines of code": sum(file.code for file in files),
        "package, all lines": sum(file.lines for file in files),
        "tasks, lines of code": sum(file.code for file in tasks),
        "tasks, all lines": sum(file.lines for file in tasks),
        "tasks of more files than one": sum(len(files) > 1 for files in of_task.values()),
        "tasks above 400 lines": sum(
            sum(file.lines for file in files) > TASK_LINES for files in of_task.values()
        ),
        "lines of the largest task": max(
            sum(file.lines for file in files) for files in of_task.values()
        ),
        "tasks above 400 lines of code": sum(
            sum(file.code for file in files) > TASK_LINES for files in of_task.values()
        ),
        "lines of code of the largest task": max(
            sum(file.code for file in files) for files in of_task.values()
        ),
        "other files above 300 lines of code": sum(
            file.code > FILE_LINES for file in files if [file] not in of_task.values()
        ),
        "files called graph.py": sum(file.path.name == "graph.py" for file in tasks),
        "functions called expected": sum(
            isinstance(node, ast.FunctionDef) and node.name == "expected"
            for file in tasks
            for node in ast.walk(file.tree)
        ),
        "untyped parameters, per cent": round(100 * untyped / total, 1),
        "type ignores without code and reason": unexplained_ignores(files),
    }
    if types:
        errors = type_errors()
        numbers["type errors"] = len(errors)
        for room in ("layers", "ops", "tasks"):
            numbers[f"type errors in {room}"] = sum(f"keras_attn/{room}/" in e for e in errors)
    return numbers


def table(numbers: dict[str, float], baseline: dict[str, float]) -> list[str]:
    """Prints the numbers beside those of the baseline; returns the names that have risen."""
    risen = []
    print(f"{'':38} {'now':>8} {'at most':>8}")
    for name, number in numbers.items():
        limit = baseline.get(name)
        above = limit is not None and number > limit
        risen += [name] if above else []
        print(f"{name:38} {number:8,} {'' if limit is None else f'{limit:,}':>8}", end="")
        print("  has risen" if above else "")
    return risen


def write(numbers: dict[str, float]) -> None:
    """Writes the baseline."""
    lines = [f'"{name}" = {number}' for name, number in numbers.items()]
    head = "# Numbers of tests/house.py, which may only fall."
    BASELINE.write_text("\n".join([head, "", *lines, ""]), encoding="utf-8")


def main() -> int:
    """Prints the table; the exit status is 1 if a number has risen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the numbers that have fallen")
    parser.add_argument("--no-types", action="store_true", help="leave mypy out")
    options = parser.parse_args()
    baseline: dict[str, float] = tomllib.loads(BASELINE.read_text(encoding="utf-8"))
    numbers = measure(types=not options.no_types)
    risen = table(numbers, baseline)
    if options.update:
        write({name: min(limit, numbers.get(name, limit)) for name, limit in baseline.items()})
    if risen:
        print(f"Risen: {', '.join(risen)}. Make them fall again: the baseline is {BASELINE.name}.")
    return int(bool(risen))


if __name__ == "__main__":
    sys.exit(main())
