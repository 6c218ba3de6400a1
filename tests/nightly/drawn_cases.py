"""Runs drawn cases of a nightly script, counts what became of them, and prints a line of JSON."""

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

Case = Callable[[np.random.Generator, Path], str]
"""Draws a case and checks it in a new folder; returns the name of its outcome, or raises."""


def options(description, cases, numbered=True):
    """Returns a parser of what all scripts take."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--cases", type=int, default=cases, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    if numbered:
        parser.add_argument("--only", type=int, help="the number of one case, to look at it again")
    parser.add_argument("--minutes", type=float, help="draw no further case after so many")
    return parser


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def run(case: Case, args) -> None:
    """Runs all cases; exits with an error if one fails."""
    began, outcomes, failures = time.monotonic(), Counter(), []
    for number in range(args.cases) if args.only is None else [args.only]:
        if args.minutes and time.monotonic() - began > 60 * args.minutes:
            break
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcomes[case(np.random.default_rng([args.seed, number]), Path(folder))] += 1
            except Exception as error:
                failures.append(number)
                print(f"case {number}: {error!r}", file=sys.stderr)
                if len(failures) <= 3:
                    traceback.print_exc()
    report(args, outcomes, failures, began)


def report(args, outcomes, failures, began) -> None:
    """Prints the line of JSON, and ends with an error if a case failed."""
    outcomes = {name: count for name, count in outcomes.items() if name != "failed"}
    done = {
        "cases": sum(outcomes.values()) + len(failures),
        "seed": args.seed,
        **outcomes,
        "failures": failures,
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(done))
    sys.exit(bool(failures))
