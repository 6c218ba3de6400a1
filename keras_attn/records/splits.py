"""Leak-free splits of sentence pairs."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from keras_attn.records.parallel import TranslationPair, unique_pairs
from keras_attn.records.splitting import Sides, check_size, draw, together

Component = list[TranslationPair]

_OPTIONS = {"test_size": "--test-size", "validation_size": "--dev-size"}


def template(text: str) -> str:
    """Reduces a text to its words, ignoring case, punctuation, symbols and the values of numbers.

    The text is normalized by Unicode NFKC and casefold; punctuation, symbols and invisible
    characters are removed; each run of digits, with any punctuation in it, becomes one `0`; each
    run of white space becomes one space.

    Args:
        text: Any string.

    Returns:
        The template, which may be empty.

    Example:

    >>> template("Channel 12: on!")
    'channel 0 on'
    >>> template("CHANNEL 3 (on)") == template("Channel 12: on!")
    True
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    kept: list[str] = []
    for character in text:
        category = unicodedata.category(character)
        if character.isspace():
            kept.append(" ")
        elif category == "Nd":
            if not kept or kept[-1] != "0":
                kept.append("0")
        elif category[0] not in "PSC":
            kept.append(character)
    return " ".join("".join(kept).split())


@dataclass(frozen=True)
class TranslationSplits(Sides):
    """Training, validation, test and held-out pairs, as returned by `split_pairs`.

    Args:
        train: Training pairs.
        validation: Validation pairs, for choosing settings and for early stopping.
        test: Test pairs, drawn at random.
        holdout: Pairs that occur only in `holdout_groups`: a second test set, from domains that do
            not occur in training.
        holdout_groups: Names of the groups that were held out.
        surplus: Number of pairs of held-out groups that are in no set.
        components: Number of components (sets of pairs that stay together).
        largest_component: Number of pairs in the largest component.
    """

    train: list[TranslationPair]
    validation: list[TranslationPair]
    test: list[TranslationPair]
    holdout: list[TranslationPair]
    holdout_groups: tuple[str, ...] = ()
    surplus: int = 0
    components: int = 0
    largest_component: int = 0


def split_pairs(
    pairs: Iterable[TranslationPair | tuple[Any, ...]],
    test_size: int = 1000,
    validation_size: int = 500,
    holdout_groups_size: int = 0,
    seed: int = 0,
    options: Mapping[str, str] = _OPTIONS,
) -> TranslationSplits:
    """Splits pairs so that test sentences, and similar ones, do not occur in the training set.

    Pairs whose sources or targets have the same `template` are linked. Pairs that are linked
    directly or through other pairs form a *component*, which is never divided. Therefore a source
    or target sentence occurs in only one set, even with other digits, case or punctuation. Test and
    validation sets consist of components drawn at random; components with more than one pair and
    more than 1 % of all pairs always stay in the training set. Repeated pairs are merged first.

    If `holdout_groups_size` is above 0, whole groups (for example documents) are held out first.
    They are drawn at random until there are enough pairs; groups with more than a tenth of this
    number come last. A pair is in `holdout` only if all pairs of its component occur only in
    held-out groups; all other pairs of these groups are split like the remaining pairs. No group
    contributes more than a tenth of `holdout` (rounded up). The further pairs of a group, the
    `surplus`, are in no set, so that held-out groups stay unseen.

    The result depends on the set of pairs and on `seed`, not on the order of the pairs.

    Args:
        pairs: `TranslationPair`s, or tuples (source, target) or (source, target, groups).
        test_size: Number of test pairs, which is met exactly if the sizes of the components allow
            it.
        validation_size: Number of validation pairs, which is met in the same way.
        holdout_groups_size: Number of pairs from held-out groups; 0 for none.
        seed: Seed of the split, any integer.
        options: What a command calls the sizes, keyed by argument; errors name these options too.

    Returns:
        A `TranslationSplits`; each set is in random order.

    Raises:
        ValueError: If a size is negative, or there are too few pairs for the sizes.

    Example:

    >>> pairs = [(f"word {chr(97 + i)}", f"Wort {chr(97 + i)}") for i in range(20)]
    >>> pairs.append(("Word, C!", "Wort c."))
    >>> split_pairs(pairs, test_size=4, validation_size=2).summary()["train"]
    15
    """
    sizes = {
        "test_size": test_size,
        "validation_size": validation_size,
        "holdout_groups_size": holdout_groups_size,
    }
    for name, size in sizes.items():
        check_size(name, size)
    shown = {
        name: f"`{name}`={size}" + (f" ({options[name]})" if name in options else "")
        for name, size in sizes.items()
    }
    asked = ", ".join(shown[name] for name, size in sizes.items() if size)
    unique = sorted(unique_pairs(TranslationPair(*pair) for pair in pairs))
    if sum(sizes.values()) >= len(unique):
        raise ValueError(
            f"Expected more unique pairs than the test sets take ({sum(sizes.values()):,}: "
            f"{asked}). Received: {len(unique):,} unique pairs. Ask for smaller test sets, "
            "or add more data."
        )
    rng = random.Random(f"keras_attn split {seed}")
    components = together(unique, _templates)
    largest = max(map(len, components))
    count = len(components)
    rng.shuffle(components)
    limit = max(1, len(unique) // 100)

    held: list[Component] = []
    groups: set[str] = set()
    surplus = 0
    if holdout_groups_size:
        held, groups, surplus, components = _hold_out(components, holdout_groups_size, limit, rng)
    test, components = _draw(components, test_size, limit, shown["test_size"])
    validation, components = _draw(components, validation_size, limit, shown["validation_size"])
    train, *tests = (
        [pair for part in side for pair in part] for side in (components, validation, test, held)
    )
    if not train:
        raise ValueError(
            f"No pair is left to train on. Received: {len(unique):,} unique pairs, with test "
            f"sets of {asked}. Ask for smaller test sets, or add more data."
        )
    for side in (train, *tests):
        rng.shuffle(side)
    names = tuple(sorted(groups))
    return TranslationSplits(train, tests[0], tests[1], tests[2], names, surplus, count, largest)


def remove_overlap(
    train: Iterable[TranslationPair | tuple[Any, ...]],
    held_out: Iterable[TranslationPair | tuple[Any, ...]],
    *more_held_out: Iterable[TranslationPair | tuple[Any, ...]],
) -> tuple[list[TranslationPair], int]:
    """Removes training pairs whose source or target is similar to a held-out source or target.

    Use this function for test sets in separate files. Two texts are similar if they have the same
    `template`, so that they differ only in case, punctuation, symbols, white space or numbers.
    Sources are compared with held-out sources, and targets with held-out targets, so that training
    contains no test sentence and no reference. Held-out sets are not compared with each other.

    Args:
        train: `TranslationPair`s, or tuples (source, target) or (source, target, groups).
        held_out: Pairs of a test or validation set.
        *more_held_out: Pairs of further test or validation sets.

    Returns:
        The training pairs that are kept, in their order, and the number of removed pairs.

    Raises:
        ValueError: If an example is not a pair of strings.

    Example:

    >>> train = [("One dog.", "Ein Hund."), ("A cat", "Eine Katze"), ("No.", "Nein.")]
    >>> kept, removed = remove_overlap(train, [("one dog!", "Ein Hund!")], [("Nope.", "Nein")])
    >>> [pair.source for pair in kept], removed
    (['A cat'], 2)
    """
    sources, targets = set(), set()
    for pairs in (held_out, *more_held_out):
        for pair in map(_as_pair, pairs):
            sources.add(template(pair.source))
            targets.add(template(pair.target))
    given = [_as_pair(pair) for pair in train]
    kept = [
        pair
        for pair in given
        if template(pair.source) not in sources and template(pair.target) not in targets
    ]
    return kept, len(given) - len(kept)


def _as_pair(pair: object) -> TranslationPair:
    if (
        not isinstance(pair, tuple | list)
        or len(pair) not in (2, 3)
        or not all(isinstance(text, str) for text in pair[:2])
    ):
        raise ValueError(f"Expected (source, target) pairs of strings. Received: {pair!r}.")
    return TranslationPair(*pair)


def _templates(pair: TranslationPair) -> list[tuple[str, str]]:
    return [("source", template(pair.source)), ("target", template(pair.target))]


def _draw(
    components: list[Component], size: int, limit: int, shown: str
) -> tuple[list[Component], list[Component]]:
    """Takes components in their (random) order until there are `size` pairs; returns them and the
    rest."""
    drawn, rest, missing = draw(components, size, limit)
    if missing >= limit and missing:
        raise ValueError(
            f"{shown} cannot be filled: only {size - missing} pairs are free of "
            "sentences that are alike in many other pairs. Ask for fewer pairs, or add more "
            "data."
        )
    return drawn, rest


def _hold_out(
    components: list[Component], size: int, limit: int, rng: random.Random
) -> tuple[list[Component], set[str], int, list[Component]]:
    """Holds out groups until `size` pairs occur only in held-out groups.

    Returns the chosen components, the groups, the surplus and the components of other groups.
    """
    cap = -(-size // 10)
    reach = [frozenset(g for pair in part for g in pair.groups) for part in components]
    # A pair without a group belongs to no group that could be held out.
    ungrouped = [any(not pair.groups for pair in part) for part in components]
    of_group: dict[str, list[int]] = defaultdict(list)
    own: Counter[str] = Counter()
    for index, names in enumerate(reach):
        for name in names:
            of_group[name].append(index)
        if len(names) == 1:
            own[next(iter(names))] += len(components[index])
    order = sorted(of_group)
    rng.shuffle(order)
    order.sort(key=lambda name: own[name] > cap)

    groups: set[str] = set()
    inside: set[int] = set()
    chosen: list[int] = []
    given: Counter[str] = Counter()
    have = 0
    for group in order:
        if have == size:
            break
        groups.add(group)
        for index in of_group[group]:
            if ungrouped[index] or index in inside or not reach[index] <= groups:
                continue
            inside.add(index)
            part = components[index]
            shares = Counter(name for pair in part for name in pair.groups)
            fits = all(given[name] + share <= cap for name, share in shares.items())
            if fits and len(part) <= min(limit, size - have):
                chosen.append(index)
                given.update(shares)
                have += len(part)
    rest = [part for index, part in enumerate(components) if index not in inside]
    if have < size or not rest:
        raise ValueError(
            f"`holdout_groups_size`={size} cannot be filled: {len(order)} groups, all held "
            f"out, give {have} pairs that occur nowhere else (at most {cap} of them from one "
            "group). Ask for fewer pairs, or add pairs of more groups."
        )
    surplus = sum(len(components[index]) for index in inside) - have
    return [components[index] for index in chosen], groups, surplus, rest
