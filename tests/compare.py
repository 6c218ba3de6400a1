"""Compares two versions of the package over a toy of each task: `python tests/compare.py`.

The older version is a revision of git, by default the one that `tests/compare.toml` names. It is
checked out into a temporary folder. The same commands run with both versions, each in a process of
its own, and what they do is compared. A task that the older version lacks is left out:

- names, defaults and help of all options of all commands;
- exit codes, printed lines and error messages;
- the losses in `log.csv`, and which files were written;
- the keys and values of the JSON lines of `predict`, numbers to 1e-6;
- the inputs, outputs and dtypes of the SavedModels' signatures, and what they return.

`tests/compare.toml` lists the differences that are meant, each with a pattern of the places and the
reason. If another difference is found, it is printed and the exit status is 1. The status is also 1
if a listed difference is no longer found. The script takes about ten minutes. Run it by hand before
and after you move code of the tasks.

    python tests/compare.py [--revision 1546ed7] [--only tagging] [--keep FOLDER]
"""

import argparse
import contextlib
import csv
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import compare_toys

HERE = Path(__file__).resolve().parent
LISTED = HERE / "compare.toml"
TOLERANCE = 1e-6
CHANGES = re.compile(
    r"\d+(\.\d+)?(e-?\d+)? ?(ms/step|us/step|s/step|seconds|minutes|min|ms|s|MB|kB|tokens/s)\b"
)
"""What differs from run to run: times, rates and sizes."""


NO_TASK = "this version has no such task"


def probe(only: str) -> dict[str, Any]:
    """What this version does, as a flat table: `task/step/...` to a text, a number or a list."""
    from keras_attn.cli.main import keras_attn_command

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, make in compare_toys.TOYS.items():
            if not re.search(only, name):
                continue
            if name not in keras_attn_command.commands:
                found[name] = NO_TASK
                continue
            place = Path(folder).resolve() / name
            toy = make()
            compare_toys.write(toy, place / "toy")
            (place / "run").mkdir()
            found |= options(name, keras_attn_command.commands[name])
            for step, words in toy.commands.items():
                found |= ran(f"{name}/{step}", [name, step, *words.split()], place)
            for number, (step, words) in enumerate(toy.wrong.items()):
                found |= ran(f"{name}/{step} wrong {number}", [name, step, *words.split()], place)
            found |= written(name, place / "run")
            if (place / "run" / "saved").is_dir():
                found |= served(f"{name}/saved", place / "run" / "saved")
            print(f"  {name}: done", file=sys.stderr, flush=True)
    return found


def options(name: str, group: Any) -> dict[str, Any]:
    """Names, defaults and help of all options of a task."""
    found = {f"{name}/steps": sorted(group.commands)}
    for step, command in group.commands.items():
        for parameter in command.params:
            what = {
                "opts": [*parameter.opts, *parameter.secondary_opts],
                "default": repr(parameter.default),
                "required": parameter.required,
                "help": getattr(parameter, "help", None),
            }
            found |= {
                f"{name}/options/{step}/{parameter.name}/{key}": value
                for key, value in what.items()
            }
    return found


def ran(key: str, arguments: list[str], place: Path) -> dict[str, Any]:
    """Runs a command in this process; returns what it printed and its exit code."""
    from keras_attn.cli import main

    arguments = [word.format(toy=place / "toy", run=place / "run") for word in arguments]
    out, err = io.StringIO(), io.StringIO()
    code: Any = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as stop:
            code = stop.code
        except Exception as error:  # a traceback is what this version does
            code = f"{type(error).__name__}: {error}"
    found: dict[str, Any] = {f"{key}/code": code if isinstance(code, int) else clean(code, place)}
    for stream, text in (("out", out.getvalue()), ("err", err.getvalue())):
        for number, line in enumerate(clean(text, place).splitlines()):
            found |= line_of(f"{key}/{stream}/{number}", line)
    return found


def clean(text: Any, place: Path) -> str:
    """A text without the folder, and without what differs from run to run."""
    text = re.sub(r"\x1b\[[0-9;]*m|[^\n]*\r(?!\n)|\x08", "", str(text)).replace(str(place), "PLACE")
    return CHANGES.sub("SOME", re.sub(r"\S*/(keras_attn/\S+\.py):\d+", r"\1", text))


def line_of(key: str, line: str) -> dict[str, Any]:
    """A printed line; a line of JSON by its keys."""
    if line.startswith(("{", "[")):
        with contextlib.suppress(json.JSONDecodeError):
            return flat(key, json.loads(line))
    return {key: line}


def flat(key: str, value: Any) -> dict[str, Any]:
    """A nest of dicts and lists as a flat table."""
    if isinstance(value, dict):
        parts = [flat(f"{key}/{name}", part) for name, part in value.items()]
    elif isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        parts = [flat(f"{key}/{number}", part) for number, part in enumerate(value)]
    else:
        return {key: value}
    return {name: part for table in parts for name, part in table.items()} or {key: value}


def written(name: str, run: Path) -> dict[str, Any]:
    """Which files the commands wrote, and the rows of the log."""
    found: dict[str, Any] = {
        f"{name}/files": sorted(
            str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()
        )
    }
    log = run / "fit" / "log.csv"
    if log.exists():
        with log.open(newline="") as file:
            for number, row in enumerate(csv.DictReader(file)):
                row.pop("seconds", None)
                found |= {f"{name}/log/{number}/{k}": as_number(v) for k, v in row.items()}
    return found


def as_number(text: str) -> Any:
    """A number if the text is one."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def served(key: str, folder: Path) -> dict[str, Any]:
    """Signatures of a SavedModel, and what those with plain inputs return."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder))
    found: dict[str, Any] = {}
    for name, signature in sorted(loaded.signatures.items()):
        inputs = signature.structured_input_signature[1]
        for side, specs in (("inputs", inputs), ("outputs", signature.structured_outputs)):
            for spec_name, spec in specs.items():
                shape = spec.shape.as_list() if spec.shape.rank is not None else None
                found[f"{key}/{name}/{side}/{spec_name}"] = f"{spec.dtype.name} {shape}"
        given = {n: example(tf, n, spec) for n, spec in inputs.items()}
        if all(value is not None for value in given.values()):
            for output, tensor in signature(**given).items():
                found[f"{key}/{name}/returns/{output}"] = plain(tensor.numpy())
    return found


def example(tf: Any, name: str, spec: Any) -> Any:
    """What an input is called with; None if that cannot be told from its name and dtype."""
    texts = compare_toys.ODD
    if spec.dtype == tf.string and "image" in name:
        pictures = [compare_toys.png(200, 30, 30), compare_toys.png(30, 30, 200)]
        rows = [pictures[number % 2] for number in range(len(texts))]
        return tf.constant(rows) if spec.shape.rank == 1 else None
    if spec.dtype == tf.string and spec.shape.rank == 1:
        return tf.constant(texts)
    if spec.dtype == tf.string and spec.shape.rank == 2:
        return tf.constant([[text, "Ada"] for text in texts])
    return None


def plain(array: Any) -> Any:
    """An array as lists, with bytes as texts."""
    values = array.tolist()

    def text(value: Any) -> Any:
        if isinstance(value, list):
            return [text(part) for part in value]
        return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value

    return text(values)


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same, numbers within the tolerance."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float | int) and isinstance(b, float | int):
        equal = math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        return equal or (math.isnan(a) and math.isnan(b))
    return a == b


def differences(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The places where two tables differ, with both values."""
    absent = "(nothing)"
    return {
        key: (short(old.get(key, absent)), short(new.get(key, absent)))
        for key in [*old, *(key for key in new if key not in old)]
        if key not in old or key not in new or not same(old[key], new[key])
    }


def short(value: Any) -> str:
    """A value on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:197]}..."


def run_probe(tree: Path, only: str) -> dict[str, Any]:
    """Runs the probe in a process of its own with the package of a tree."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        command = [sys.executable, "-P", str(Path(__file__).resolve()), "--probe", str(out)]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{tree}{os.pathsep}{HERE}",
            "KERAS_BACKEND": "tensorflow",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_DETERMINISTIC_OPS": "1",
            "COLUMNS": "100",
        }
        print(f"{tree}:", file=sys.stderr, flush=True)
        subprocess.run([*command, "--only", only], env=environment, cwd=folder, check=True)
        return json.loads(out.read_text(encoding="utf-8"))


def compare(old: Path, only: str, keep: str) -> int:
    """Runs both versions, prints the differences; returns the exit status."""
    tables = [run_probe(tree, only) for tree in (old, HERE.parent)]
    for name in [key for key, value in tables[0].items() if value == NO_TASK]:
        print(f"{name}: not compared, as the older version does not have it")
        del tables[0][name]
        tables[1] = {k: v for k, v in tables[1].items() if not k.startswith(f"{name}/")}
    if keep:
        for name, found in zip(("old", "new"), tables, strict=True):
            Path(keep, f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False))
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8")).get("difference", [])
    seen, new = [0] * len(listed), []
    found = differences(*tables)
    for key, values in found.items():
        numbers = [n for n, item in enumerate(listed) if re.fullmatch(item["where"], key)]
        for number in numbers:
            seen[number] += 1
        if not numbers:
            new.append(key)
            print(f"{key}\n    old: {values[0]}\n    new: {values[1]}")
    print(f"{len(tables[0]):,} places compared; {len(found):,} differ:")
    for count, item in zip(seen, listed, strict=True):
        print(f"{count:6}  {item['reason']}")
    print(f"{len(new):6}  not listed")
    gone = [item["where"] for count, item in zip(seen, listed, strict=True) if not count]
    if gone and only == ".":
        print("Listed and not seen any more:", *gone, sep="\n    ")
    return int(bool(new or (gone and only == ".")))


def main() -> int:
    """Compares, or is the probe."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--revision", default="", help="the older version")
    parser.add_argument("--only", default=".", help="regular expression over the names of tasks")
    parser.add_argument("--keep", default="", help="folder for old.json and new.json")
    parser.add_argument("--probe", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        table = json.dumps(probe(options.only), ensure_ascii=False)
        Path(options.probe).write_text(table, encoding="utf-8")
        return 0
    revision = options.revision or tomllib.loads(LISTED.read_text(encoding="utf-8"))["revision"]
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder).resolve() / "old"
        git = ["git", "-C", str(HERE.parent), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(old), revision], check=True)
        try:
            return compare(old, options.only, options.keep)
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)


if __name__ == "__main__":
    sys.exit(main())
