"""What a suite is made of: cases, contenders, targets."""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

OURS = "keras_attn"

# Kinds of computing of a Keras backend: name -> KERAS_BACKEND, and whether XLA compiles.
GROUPS = {
    "TensorFlow": ("tensorflow", False),
    "TensorFlow XLA": ("tensorflow", True),
    "JAX": ("jax", True),
    "PyTorch": ("torch", False),
}


@dataclass(frozen=True)
class Family:
    """A package, or a way to use it: one contender on its own framework, or one a Keras group.

    Args:
        title: Its name in tables.
        module: The module that has its jobs.
        keras: Whether it runs on Keras' backends; else on its own.
        settings: Handed to the job.
        requires: Packages that it needs beside the backend.
        only: Groups that it can run on; all if empty.
    """

    title: str
    module: str
    keras: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def having(self, title: str | None = None, **settings: Any) -> "Family":
        """The same with other settings."""
        return replace(self, title=title or self.title, settings=settings)


@dataclass(frozen=True)
class Contender:
    """A family in one group."""

    family: Family
    group: str = ""

    @property
    def name(self) -> str:
        """Of the row."""
        return f"{self.family.title}, {self.group}" if self.group else self.family.title

    @property
    def ours(self) -> bool:
        """Whether others are compared with it."""
        return self.family.title.split(",")[0] == OURS

    @property
    def backend(self) -> str:
        """For KERAS_BACKEND."""
        return GROUPS[self.group][0] if self.group else "tensorflow"

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the job."""
        more = {"jit": GROUPS[self.group][1]} if self.group else {}
        return {**self.family.settings, **more}

    def missing(self) -> list[str]:
        """Packages that are not installed."""
        backend = [GROUPS[self.group][0]] if self.group else []
        needed = [*backend, *self.family.requires]
        return [name for name in needed if importlib.util.find_spec(name) is None]


@dataclass(frozen=True)
class Case:
    """One thing that all contenders do.

    Args:
        name: Its name in tables.
        job: The function of each family's module that makes it.
        families: Who does it; the first one is ours.
        values: Settings of this case, beside the suite's sizes.
        unit: Of the amount that a job does: rows give it a second. None: rows give milliseconds.
        rounds: Most rounds, where one takes long; None: as many as asked for.
    """

    name: str
    job: str
    families: Sequence[Family]
    values: dict[str, Any] = field(default_factory=dict)
    unit: str | None = None
    rounds: int | None = None


@dataclass(frozen=True)
class Target:
    """What is wanted: our speed at least `ratio` times a peer's.

    Args:
        case: Pattern of the cases' names.
        family: Title of the peer.
        ratio: Least ratio.
        groups: Where it counts; everywhere if empty.
    """

    case: str
    family: str
    ratio: float
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """Cases that belong together.

    Args:
        name: For `--only`.
        title: One line.
        sizes: Settings with their values, which `--set` changes.
        quick: Those of `--quick`.
        cases: A function from sizes to cases.
        targets: What is wanted.
        fresh: Whether a round is the first call in a process of its own, compiling included.
        remarks: A function from (sizes, rows) to lines printed after the table.
    """

    name: str
    title: str
    sizes: dict[str, Any]
    quick: dict[str, Any]
    cases: Callable[[dict[str, Any]], list[Case]]
    targets: Sequence[Target] = ()
    fresh: bool = False
    remarks: Callable[[dict[str, Any], list[dict]], list[str]] | None = None


def contenders(case: Case, groups: Sequence[str]) -> list[Contender]:
    """Those of a case, ours first."""
    found = []
    for family in case.families:
        if not family.keras:
            found.append(Contender(family))
            continue
        wanted = [g for g in groups if not family.only or g in family.only]
        found += [Contender(family, group) for group in wanted]
    return found


def groups_of(backends: Sequence[str], device: str) -> list[str]:
    """The groups of backends; on a GPU TensorFlow is compiled by XLA alone."""
    return [
        name
        for name, (backend, jit) in GROUPS.items()
        if backend in backends and (device == "cpu" or jit or backend != "tensorflow")
    ]
