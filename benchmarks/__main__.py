"""Runs benchmarks, lists them, and draws what they found; and all that a GPU should be asked.

    python -m benchmarks list
    python -m benchmarks run --only decoding --cpu-time --output decoding.json
    python -m benchmarks run --only "training/encoder stack*" --set dim=128 length=32
    python -m benchmarks draw decoding.json figures/
    python -m benchmarks gpu --to FOLDER

Each contender runs in a process of its own, with its framework and its threads, and is told in
turn to do a round: a machine that slows down slows all of them. A speed is the median of the
rounds; a ratio is the median of the rounds' ratios, above 1 in favour of keras_attn. `--cpu-time`
counts seconds of the processor, of all threads, instead of the clock's: where other programs use
the same cores. The JSON file has both. Peak memory is a process's beyond its imports, or the GPU's.
"""

import argparse
import signal
import sys
from fnmatch import fnmatch
from pathlib import Path

from benchmarks import machine, report
from benchmarks.runner import Options, run_suite
from benchmarks.suite import Suite, groups_of
from benchmarks.suites import SUITES

BACKENDS = ("tensorflow", "jax", "torch")


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    made = argparse.ArgumentParser(
        "python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(dest="do", required=True)
    commands.add_parser("list", help="the suites and their cases")
    run = commands.add_parser("run", help="run suites")
    add = run.add_argument
    add(
        "--only", nargs="+", default=["*"], metavar="NAME",
        help="suites, or SUITE/CASE with * for anything",
    )  # fmt: skip
    add("--contenders", nargs="+", default=["*"], metavar="NAME", help='such as "keras_*"')
    add("--skip", nargs="+", default=[], metavar="NAME", help='contenders, such as "*compile"')
    add("--device", choices=("cpu", "gpu"), default="cpu")
    add("--backend", nargs="+", choices=BACKENDS, default=["tensorflow", "jax"])
    add("--quick", action="store_true", help="tiny sizes and two rounds: does it run?")
    add("--set", nargs="+", default=[], metavar="SIZE=VALUE", help="sizes, as `list` names them")
    add("--rounds", type=int, default=None, help="5, or 2 with --quick")
    add("--cpu-time", action="store_true", help="processor time counts: other programs run too")
    add("--cores", type=int, help="processors that each contender may use")
    add("--timeout", type=float, default=600.0, help="most seconds of one run (600)")
    add("--no-memory", action="store_true", help="keep processes from case to case: no peaks")
    add("--memory-limit", type=float, metavar="MB", help="more is 'out of memory'")
    add("--output", type=Path, metavar="FILE.json")
    draw = commands.add_parser("draw", help="draw figures")
    draw.add_argument("file", type=Path, metavar="FILE.json")
    draw.add_argument("folder", type=Path)
    gpu = commands.add_parser(
        "gpu",
        help="check and measure a GPU, in steps",
        description=(
            "Checks and measures keras_attn on a GPU. Steps that have no result in the folder yet "
            "are done in order of importance, as long as there is time for the next one; the same "
            "command goes on. Every step is a process of its own. FOLDER/report.md is written "
            "again after each. The exit status is 1 if a result is wrong."
        ),
    )
    add = gpu.add_argument
    add("--to", type=Path, required=True, metavar="FOLDER", help="folder of the results")
    add("--minutes", type=float, default=8.5, help="time for this call (%(default)s)")
    add(
        "--only", nargs="+", default=["*"], metavar="PATTERN",
        help="steps or groups of steps, such as right or 'fast/encoder*'",
    )  # fmt: skip
    add("--data", type=Path, metavar="FOLDER", help="prepared data for the trainings")
    add("--device", choices=("gpu", "cpu"), default="gpu", help="where to compute (%(default)s)")
    add("--tiny", action="store_true", help="tiny sizes, to see that the steps run")
    add("--again", action="store_true", help="remove the results of these steps first")
    add("--list", action="store_true", help="list the steps and their results, and end")
    return made


def on_gpu(args: argparse.Namespace) -> int:
    """Does steps of `benchmarks.gpu`, or lists them; returns the exit status."""
    from benchmarks.gpu import run as gpu
    from benchmarks.gpu.steps import steps

    options = gpu.Options(
        args.to, args.minutes, args.only, args.tiny, args.device, args.data and args.data.resolve()
    )
    known = steps()
    chosen = [step for step in known if options.takes(step.name)]
    if not chosen:
        raise ValueError(f"Expected --only to match steps of --list. Received: {args.only}.")
    if args.list:
        for step in chosen:
            print(gpu.line(step, options))
        return 0
    if args.device == "gpu" and not machine.gpus():
        raise ValueError(
            "Expected a machine with an NVIDIA GPU and its driver. Received: none. "
            "For a trial there is --device cpu --tiny."
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C
    return gpu.run(known, options, say, args.again)


def with_sizes(suite: Suite, quick: bool, changes: list[str]) -> dict:
    """The sizes of a suite after `--quick` and `--set`.

    Raises:
        ValueError: For a value of another type than the size has.
    """
    sizes = {**suite.sizes, **(suite.quick if quick else {})}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in sizes:
            continue
        old = sizes[name]
        try:
            if isinstance(old, list):
                sizes[name] = [type(old[0])(part) for part in value.split(",")]
            else:
                sizes[name] = type(old)(value)
        except ValueError:
            shown = ",".join(map(str, old)) if isinstance(old, list) else old
            raise ValueError(
                f"Expected a value such as {name}={shown}. Received: {change!r}."
            ) from None
    return sizes


def chosen(patterns: list[str], quick: bool, changes: list[str]) -> list[tuple]:
    """Suites with their sizes and the cases that were asked for."""
    found = []
    for suite in SUITES.values():
        sizes = with_sizes(suite, quick, changes)
        cases = [
            case
            for case in suite.cases(sizes)
            if any(
                fnmatch(suite.name, pattern) or fnmatch(f"{suite.name}/{case.name}", pattern)
                for pattern in patterns
            )
        ]
        if cases:
            found.append((suite, sizes, cases))
    return found


def check(args: argparse.Namespace, picked: list[tuple]) -> None:
    """Refuses names that are nowhere."""
    if not picked:
        raise ValueError(f"Expected --only to name {', '.join(SUITES)}. Received: {args.only}.")
    known = {name for suite, _, _ in picked for name in suite.sizes}
    for change in args.set:
        if change.partition("=")[0] not in known or "=" not in change:
            raise ValueError(
                f"Expected --set with SIZE=VALUE, a size of {', '.join(sorted(known))}. "
                f"Received: {change!r}."
            )
    if args.device == "gpu" and not machine.gpus():
        raise ValueError("Expected a GPU for --device gpu. Received: a machine without one.")


def run(args: argparse.Namespace) -> None:
    """Runs, prints and writes."""
    picked = chosen(args.only, args.quick, args.set)
    check(args, picked)
    options = Options(
        groups=groups_of(args.backend, args.device),
        device=args.device,
        rounds=args.rounds or (2 if args.quick else 5),
        cpu_time=args.cpu_time,
        cores=args.cores,
        timeout=args.timeout,
        memory=not args.no_memory,
        memory_limit=args.memory_limit,
        only=args.contenders,
        skip=args.skip,
    )
    rows, sizes, remarks = [], {}, {}
    made = report.document(rows, sizes, remarks, options)
    print(report.heading(made), flush=True)
    for suite, values, cases in picked:
        sizes[suite.name] = values
        own = []
        for found in run_suite(suite, values, cases, options, say):
            print(report.table(found, options.clock), flush=True)
            own += found
            rows += found
            if args.output:  # after each case: an interrupted run leaves what it has
                report.write(args.output, made)
        remarks[suite.name] = suite.remarks(values, own) if suite.remarks else []
        print("\n".join(["", *remarks[suite.name]]), flush=True)
    if args.output:
        report.write(args.output, made)


def say(line: str) -> None:
    """How far it is."""
    print(line, file=sys.stderr, flush=True)


def show() -> None:
    """The list."""
    for suite in SUITES.values():
        print(f"{suite.name}: {suite.title}")
        print("    " + ", ".join(f"{k}={v}" for k, v in suite.sizes.items()))
        for case in suite.cases(suite.sizes):
            print(f"    {suite.name}/{case.name}: {', '.join(f.title for f in case.families)}")


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    args = parser().parse_args(arguments)
    try:
        if args.do == "list":
            show()
        elif args.do == "run":
            run(args)
        elif args.do == "gpu":
            return on_gpu(args)
        else:
            from benchmarks.figures import draw

            for path in draw(report.read(args.file), args.folder):
                print(path)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
