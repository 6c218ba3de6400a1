"""Leak-free splits of labelled texts."""

from __future__ import annotations

import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from keras_attn.records.label_columns import check_label_counts
from keras_attn.records.labelled_texts import (
    Input,
    Label,
    LabelledText,
    as_labelled,
    count_labels,
    label_names,
)
from keras_attn.records.near_duplicates import duplicate_groups
from keras_attn.records.splitting import Sides, as_count, draw, together

T = TypeVar("T")

Component = list[LabelledText]


@dataclass(frozen=True)
class LabelledSplits(Sides):
    """Training, development and test texts, as returned by `split_labelled`.

    Args:
        train: Training texts.
        dev: Development texts, for choosing settings and for early stopping.
        test: Test texts, for the final evaluation.
        components: Number of components (sets of equal and nearly equal texts), which are divided
            only if `apart=False`.
        largest_component: Number of texts in the largest component.

    Example:

    >>> splits = LabelledSplits([LabelledText("Good.", "pos")], [], [LabelledText("Bad.", "neg")])
    >>> splits.summary()["train"], splits.label_counts()["test"]
    (1, {'neg': 1})
    """

    train: list[LabelledText]
    dev: list[LabelledText]
    test: list[LabelledText]
    components: int = 0
    largest_component: int = 0

    def label_counts(self) -> dict[str, dict[str, int]]:
        """Returns the number of texts with each label in each set: a dict with the keys `train`,
        `dev` and `test`, whose values are dicts keyed by label."""
        sides = {"train": self.train, "dev": self.dev, "test": self.test}
        return {name: count_labels(side) for name, side in sides.items()}


def split_labelled(
    examples: Iterable[LabelledText | tuple[Any, ...]],
    dev: int | float = 0.1,
    test: int | float = 0.1,
    seed: int = 0,
    *,
    shared: float = 0.5,
    keep_groups: bool = False,
    apart: bool = True,
) -> LabelledSplits:
    """Splits texts at random; by default, equal and nearly equal texts are in the same set.

    Texts that are equal except for case, punctuation, white space and numbers, or that share at
    least a fraction `shared` of their runs of 8 words (`duplicate_groups`), form a *component*,
    which is never divided. The sets are stratified by label as far as possible: a text with several
    labels counts for its rarest label, and a component of texts with different labels counts for
    its most frequent label. The training set gets all components with more than one text and more
    than 1 % of all texts. If a label has only one component, the training set gets it.

    Two pairs of texts belong to the same component if each text of one pair is nearly equal to a
    text of the other pair, in either order. Pairs that share only one text may be in different
    sets.

    The result depends on the texts and on `seed`, not on the order of the texts.

    Args:
        examples: `LabelledText`s, or tuples (text, label) or (text, label, group), where a text may
            be a pair of texts.
        dev: Number of development texts, or their fraction if it is a float below 1; 0 for none. It
            is met exactly if the sizes of the components allow it.
        test: Number of test texts, or their fraction if it is a float below 1; 0 for none.
        seed: Seed of the split, any integer.
        shared: Minimum fraction of their runs of 8 words that nearly equal texts share, as in
            `duplicate_groups`. Above 1, overlapping long texts may be in different sets.
        keep_groups: Whether texts of the same `group` (a film, an author) also form a component.
        apart: Whether components are kept together. If False, equal and nearly equal texts, and
            texts of the same `group`, may be in different sets, which causes a warning. Scores are
            then too high, but for texts generated from a few templates there may be no alternative.

    Returns:
        A `LabelledSplits`; each set is in random order.

    Raises:
        ValueError: If a size or `shared` is out of range, there are too few texts for the sizes, or
            an example is not a labelled text.

    Example:

    >>> examples = [(f"word {chr(97 + i)}", "ab"[i % 2]) for i in range(20)]
    >>> splits = split_labelled([*examples, ("Word, C!", "a")], dev=4, test=0.2)
    >>> splits.label_counts()["dev"], len(splits.test)
    ({'a': 2, 'b': 2}, 4)
    """
    # Sorted first: the order in which they came must not matter.
    given = sorted(
        map(as_labelled, examples),
        key=lambda x: (x.text, x.second or "", label_names(x.label), x.group),
    )
    sizes = {name: as_count(name, n, len(given)) for name, n in (("dev", dev), ("test", test))}
    total = sum(sizes.values())
    if total >= len(given):
        raise ValueError(
            f"`dev` and `test` leave nothing to train on. Received: {len(given)} texts, "
            f"{sizes['dev']} of which are for `dev` and {sizes['test']} for `test`. Lower "
            "these numbers, or add more texts."
        )
    components = _components(given, shared, keep_groups)
    count, largest = len(components), max(map(len, components))
    if not apart:
        alike = sum(len(component) for component in components if len(component) > 1)
        if alike:
            warnings.warn(
                f"{alike:,} of {len(given):,} texts are nearly the same as others and may be "
                "in two splits: scores on these splits are too high.",
                stacklevel=2,
            )
        components = [[example] for example in given]
    rng = random.Random(seed)
    rng.shuffle(components)
    strata = _strata(components)
    sides: dict[str, list[LabelledText]] = {}
    limit = max(1, len(given) // 100)
    for name, size in (("test", sizes["test"]), ("dev", sizes["dev"])):
        drawn = _draw(strata, size, limit, name)
        sides[name] = [example for component in drawn for example in component]
        rng.shuffle(sides[name])
    train = [x for parts in strata.values() for component in parts for x in component]
    rng.shuffle(train)
    return LabelledSplits(train, sides["dev"], sides["test"], count, largest)


def split_alike(
    examples: Sequence[T],
    texts: Callable[[T], tuple[str, str | None]],
    dev: int | float,
    seed: int,
    apart: bool,
) -> tuple[list[T], list[T]]:
    """Splits examples with one or two texts into two sets with the rules of `split_labelled`."""
    # The number of the example is its group, by which it is found again.
    numbered = enumerate(map(texts, examples))
    labelled = [LabelledText(text, "", str(i), second) for i, (text, second) in numbered]
    splits = split_labelled(labelled, dev, 0, seed, apart=apart)
    return (
        [examples[int(x.group)] for x in splits.train],
        [examples[int(x.group)] for x in splits.dev],
    )


def remove_labelled_overlap(
    train: Iterable[LabelledText | tuple[Any, ...]],
    held_out: Iterable[LabelledText | tuple[Any, ...]],
    *more_held_out: Iterable[LabelledText | tuple[Any, ...]],
    shared: float = 0.5,
) -> tuple[list[LabelledText], int]:
    """Removes training texts that are equal or nearly equal to held-out texts.

    Args:
        train: `LabelledText`s, or tuples (text, label) or (text, label, group), where a text may be
            a pair of texts.
        held_out: The texts of a test or development set, in the same form; labels are ignored.
        *more_held_out: The texts of further test or development sets.
        shared: Minimum fraction of their runs of 8 words that nearly equal texts share, as in
            `duplicate_groups`.

    Returns:
        The training texts that are kept, in their order, and the number of removed texts.

    Raises:
        ValueError: If an example is not a labelled text, or `shared` is not above 0.

    Example:

    >>> train = [("Great film!", "pos"), ("Awful.", "neg")]
    >>> remove_labelled_overlap(train, [("great film", "pos")])
    ([LabelledText(text='Awful.', label='neg', group='', second=None)], 1)
    """
    given = [as_labelled(example) for example in train]
    others = [as_labelled(x) for side in (held_out, *more_held_out) for x in side]
    groups = _alike([*others, *given], shared)
    taken = set(groups[: len(others)])
    ours = groups[len(others) :]
    kept = [x for x, group in zip(given, ours, strict=True) if group not in taken]
    return kept, len(given) - len(kept)


def warn_of_contradictions(examples: Iterable[LabelledText]) -> None:
    """Warns if a text has different labels in different examples."""
    labels: dict[Input, set[Label]] = defaultdict(set)
    for example in examples:
        labels[example.input].add(example.label)
    contradictory = [text for text, found in labels.items() if len(found) > 1]
    if contradictory:
        warnings.warn(
            f"{len(contradictory):,} texts have different labels in different lines, such as "
            f"{repr(contradictory[0])[:80]}: one of them must be wrong.",
            stacklevel=3,
        )


def warn_of_shared(train: Iterable[LabelledText], dev: Sequence[LabelledText]) -> None:
    """Warns if development texts are also training texts; pairs are compared in either order."""
    known = {tuple(sorted((x.text, x.second or ""))) for x in train}
    shared = sum(tuple(sorted((x.text, x.second or ""))) in known for x in dev)
    if shared:
        warnings.warn(
            f"{shared:,} of {len(dev):,} development texts are also training texts: scores "
            "on them are too high.",
            stacklevel=3,
        )


def _alike(examples: Sequence[LabelledText], shared: float) -> list[tuple[int, ...]]:
    """The sorted groups of the texts of each example, equal for nearly equal examples.

    The order of a pair of texts does not matter.
    """
    firsts = [example.text for example in examples]
    seconds = [example.second for example in examples if example.second is not None]
    groups = duplicate_groups([*firsts, *seconds], shared).tolist()
    later = iter(groups[len(firsts) :])
    return [
        (group,) if example.second is None else tuple(sorted((group, next(later))))
        for example, group in zip(examples, groups[: len(firsts)], strict=True)
    ]


def _components(
    examples: Sequence[LabelledText], shared: float, keep_groups: bool
) -> list[Component]:
    """Sets of texts that stay together, in the order of their first texts."""
    numbers = _alike(examples, shared)
    parts = together(
        list(zip(numbers, examples, strict=True)),
        lambda x: [x[0], x[1].group] if keep_groups and x[1].group else [x[0]],
    )
    return [[example for _, example in part] for part in parts]


def _strata(components: Sequence[Component]) -> dict[str, list[Component]]:
    """Components by their label in the draw, the rarest label first."""
    counts = Counter(name for part in components for x in part for name in label_names(x.label))

    def rarest(example: LabelledText) -> str:
        return min(label_names(example.label), key=lambda n: (counts[n], n), default="")

    strata: dict[str, list[Component]] = defaultdict(list)
    for component in components:
        votes = Counter(sorted(map(rarest, component)))
        strata[votes.most_common(1)[0][0]].append(component)
    return dict(sorted(strata.items(), key=lambda item: (counts[item[0]], item[0])))


def _draw(strata: dict[str, list[Component]], size: int, limit: int, name: str) -> list[Component]:
    """Takes components from the strata until there are `size` texts, in proportion to labels."""
    sizes = {label: sum(map(len, parts)) for label, parts in strata.items()}
    quotas = _shares(sizes, size)
    drawn: list[Component] = []
    missing = 0
    # What one label could not give comes from the others, in the second round.
    for extra in (False, True):
        for label, parts in strata.items():
            want = missing if extra else quotas[label]
            more, strata[label], left = draw(parts, want, limit, keep_one=True)
            drawn += more
            missing = left if extra else missing + left
    have = size - missing
    if missing >= limit and missing:
        check_label_counts(sizes, "texts")
        raise ValueError(
            f"`{name}`={size} cannot be filled: only {have} texts are available, because "
            "near-duplicates stay in the same split and each label keeps one text for "
            "training. Ask for fewer texts (`dev_share`), add more data, give this split as "
            "a separate file (`fit --dev FILE`), or allow near-duplicates in different "
            "splits (`fit --near-duplicates anywhere`, `apart=False`)."
        )
    return drawn


def _shares(sizes: dict[str, int], size: int) -> dict[str, int]:
    """`size` divided in proportion, by the largest remainders."""
    total = sum(sizes.values())
    quotas = {label: size * count // total for label, count in sizes.items()}
    left = size - sum(quotas.values())
    by_remainder = sorted(sizes, key=lambda label: -(size * sizes[label] % total))
    for label in by_remainder[:left]:
        quotas[label] += 1
    return quotas
