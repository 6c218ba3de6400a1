"""Runs suites: the contenders of a case in turns, round by round, each in its own process."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from benchmarks import children
from benchmarks.suite import Case, Contender, Suite, contenders
from benchmarks.summary import compare, summarize

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    groups: Sequence[str]
    device: str = "cpu"
    rounds: int = 5
    cpu_time: bool = False
    cores: int | None = None
    timeout: float = 600.0
    memory: bool = True  # a new process for each case, whose peak is the case's
    memory_limit: float | None = None  # MB beyond the imports
    only: Sequence[str] = ("*",)  # patterns of contenders
    skip: Sequence[str] = ()

    def takes(self, name: str) -> bool:
        """Whether a contender takes part."""
        taken, skipped = (
            any(fnmatch(name, pattern) for pattern in patterns)
            for patterns in (self.only, self.skip)
        )
        return taken and not skipped

    @property
    def clock(self) -> str:
        """Which of the two times counts."""
        return "cpu_s" if self.cpu_time else "wall_s"


def new_row(suite: Suite, case: Case, contender: Contender) -> dict[str, Any]:
    """What is known before anything is measured."""
    return {
        "suite": suite.name,
        "case": case.name,
        "contender": contender.name,
        "family": contender.family.title,
        "group": contender.group,
        "ours": contender.ours,
        "unit": case.unit,
        "values": case.values,
        "status": "measured",
        "rounds": [],
    }


def run_suite(
    suite: Suite, sizes: dict[str, Any], cases: Sequence[Case], options: Options, say: Say
) -> Iterator[list[dict[str, Any]]]:
    """Yields the rows of each case, with their comparisons."""
    measure = run_fresh if suite.fresh else run_in_turns
    with Pool(options) as pool:
        for case in cases:
            say(f"{suite.name}: {case.name}")
            found = measure(suite, sizes, case, options, say, pool)
            for row in found:
                summarize(row, options.clock)
            compare(found, suite.targets)
            agreement(found)
            yield found


class Pool:
    """The children at work, by contender: one that is there is used again."""

    def __init__(self, options: Options):
        self.options = options
        self.children: dict[str, children.Child] = {}

    def take(self, contender: Contender) -> children.Child:
        """A running child."""
        child = self.children.get(contender.name)
        if child is None or not child.alive:
            options = self.options
            child = children.Child(
                contender.backend, options.device, options.cores, options.timeout
            )
            self.children[contender.name] = child
        return child

    def close(self) -> None:
        """Ends them all."""
        while self.children:
            self.children.popitem()[1].close()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def pick(
    suite: Suite, case: Case, options: Options, say: Say
) -> list[tuple[dict[str, Any], Contender | None]]:
    """A row for each contender; None in the place of one whose packages are not there."""
    picked = []
    for contender in contenders(case, options.groups):
        if not options.takes(contender.name):
            continue
        row, missing = new_row(suite, case, contender), contender.missing()
        if missing:
            row |= {"status": "not installed", "message": ", ".join(missing)}
            say(f"  {contender.name}: not installed ({row['message']})")
        picked.append((row, None if missing else contender))
    return picked


def prepare(
    child: children.Child, contender: Contender, sizes: dict, case: Case, options: Options
) -> dict[str, Any]:
    """Asks a child for its job, which it runs once or twice."""
    return child.ask(
        "prepare",
        module=contender.family.module,
        job=case.job,
        case={**sizes, **case.values},
        settings=contender.settings,
        memory_limit=options.memory_limit,
    )


def failed(row: dict[str, Any], error: children.ChildError, say: Say) -> None:
    """Notes what a child could not do."""
    row |= {"status": error.status, "message": str(error)}
    last = (str(error).strip().splitlines() or [""])[-1]
    say(f"  {row['contender']}: {error.status}: {last[:200]}")


def run_in_turns(
    suite: Suite, sizes: dict, case: Case, options: Options, say: Say, pool: Pool
) -> list[dict[str, Any]]:
    """All are warmed up, then each does a round, and so on."""
    picked = pick(suite, case, options, say)
    running = []
    for row, contender in picked:
        if contender is None:
            continue
        child = pool.take(contender)
        try:
            row |= prepare(child, contender, sizes, case, options)
            running.append((row, child))
            say(f"  {row['contender']}: ready, first run {row['first_s']:.2f} s")
        except children.ChildError as error:
            failed(row, error, say)
            child.close()
    for number in range(min(options.rounds, case.rounds or options.rounds)):
        for row, child in list(running)[:: -1 if number % 2 else 1]:
            try:
                row["rounds"].append(child.ask("run", repeats=row["repeats"]))
            except children.ChildError as error:
                failed(row, error, say)
                running.remove((row, child))
                child.close()
    if options.memory:
        for row, child in running:
            row |= child.ask("memory")
        pool.close()
    return [row for row, _ in picked]


def run_fresh(
    suite: Suite, sizes: dict, case: Case, options: Options, say: Say, pool: Pool
) -> list[dict[str, Any]]:
    """In each round a new process of each, whose first run counts, with building and compiling."""
    picked = pick(suite, case, options, say)
    for _ in range(min(options.rounds, case.rounds or options.rounds)):
        for row, contender in picked:
            if contender is None or row["status"] != "measured":
                continue
            child = pool.take(contender)
            try:
                found = prepare(child, contender, sizes, case, options)
                row["amount"] = found["amount"]
                row["rounds"].append(found["first"])
                row |= child.ask("memory")
            except children.ChildError as error:
                failed(row, error, say)
            pool.close()
    return [row for row, _ in picked]


def agreement(rows: list[dict[str, Any]]) -> None:
    """Notes for each row the share of results that are those of the first measured one."""
    measured = [row for row in rows if row.get("result") is not None]
    for row in measured:
        first = measured[0]["result"]
        same = [a == b for a, b in zip(row["result"], first, strict=True)]
        row["same"] = sum(same) / len(same)
    for row in measured:
        del row["result"]


def stamp() -> str:
    """When."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z")
