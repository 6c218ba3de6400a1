import random
import re
import unicodedata
from collections import Counter
from functools import cache

import pytest

from keras_attn.records import TranslationPair, remove_overlap, split_pairs, template

WORDS = [a + b for a in "bdfgklmnprstvw" for b in ("a", "e", "i", "o", "u")]


@cache
def plain(text):
    """The rule once more, in other words: what remains without case, digits, punctuation."""
    text = unicodedata.normalize("NFKC", text).lower().replace("ß", "ss")
    text = re.sub(r"[^\w\s]|_", "", text)
    return re.sub(r"\s+", " ", re.sub(r"\d+", "#", text)).strip()


def alike(a, b):
    return plain(a.source) == plain(b.source) or plain(a.target) == plain(b.target)


def make_pairs(count=1200, groups=60, seed=0):
    """Pairs of few words, many of them alike in the source or in the target."""
    rng = random.Random(seed)
    pairs = []
    while len(pairs) < count:
        source = " ".join(rng.choices(WORDS, k=3))
        target = " ".join(rng.choices(WORDS, k=3)) + "ß"
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            kind = rng.randrange(4)
            number = rng.randrange(100)
            variant = [source.upper() + "!", f"{source} {number}", source, f"«{source}»"][kind]
            other = [target, f"{target} {number}.", target.upper(), "x " + target][kind]
            if kind == 2:
                other = " ".join(rng.choices(WORDS, k=3))
            names = rng.sample(range(groups), rng.choice([1, 1, 1, 2]))
            pairs.append(TranslationPair(variant, other, tuple(sorted(f"g{n:02}" for n in names))))
    return pairs


def components(pairs):
    """Connected components by a search over all couples of pairs."""
    left, found = list(pairs), []
    while left:
        part, todo = [], [left.pop()]
        while todo:
            one = todo.pop()
            part.append(one)
            near = [other for other in left if alike(one, other)]
            left = [other for other in left if other not in near]
            todo += near
        found.append(part)
    return found


@pytest.fixture(scope="module")
def pairs():
    groups = {}
    for pair in make_pairs():
        groups.setdefault(pair[:2], set()).update(pair.groups)
    return [TranslationPair(*texts, tuple(sorted(names))) for texts, names in groups.items()]


@pytest.fixture(scope="module")
def parts(pairs):
    return components(pairs)


@pytest.fixture(scope="module")
def splits(pairs):
    return split_pairs(pairs, 100, 50, 60, seed=3)


def sides(splits):
    return [splits.train, splits.validation, splits.test, splits.holdout]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Phase 12, Voltage!", "phase 0 voltage"),
        ("1.5 kW (2nd)", "0 kw 0nd"),
        ("STRASSE", template("Straße")),
        ("  a\tb\u00a0 c ", "a b c"),
        ("e\u0301", "é"),
        ("１２３", "0"),
        ("a\u200bb → c", "ab c"),
        ("🙂!", ""),
    ],
)
def test_template(text, expected):
    assert template(text) == expected


def test_sizes_are_exact_and_every_pair_is_somewhere(pairs, parts, splits):
    train, validation, test, holdout = sides(splits)
    assert (len(validation), len(test), len(holdout)) == (50, 100, 60)
    everything = train + validation + test + holdout
    assert len(set(everything)) == len(everything) == len(pairs) - splits.surplus
    assert set(everything) <= set(pairs)
    assert splits.summary() == {
        **{"train": len(train), "validation": 50, "test": 100, "holdout": 60},
        "holdout_groups": len(splits.holdout_groups),
        "surplus": splits.surplus,
        "components": len(parts),
        "largest_component": max(map(len, parts)),
    }


def test_the_data_have_what_is_to_be_kept_apart(parts):
    sizes = Counter(map(len, parts))
    assert sizes[1] > 100
    assert sizes[2] > 50
    assert sizes[3] > 20


def test_no_two_sides_have_pairs_that_are_alike(splits):
    for i, one in enumerate(sides(splits)):
        for other in sides(splits)[i + 1 :]:
            assert not any(alike(a, b) for a in one for b in other)


def test_holdout_groups_are_held_out(parts, splits):
    held = set(splits.holdout_groups)
    assert 0 < len(held) < 60
    assert all(set(pair.groups) <= held for pair in splits.holdout)
    share = Counter(name for pair in splits.holdout for name in pair.groups)
    assert max(share.values()) <= 6
    assert splits.surplus > 0
    rest = set(splits.train + splits.validation + splits.test)
    surplus = 0
    for part in parts:
        reach = {name for pair in part for name in pair.groups}
        if reach <= held:
            assert not rest & set(part)
            surplus += sum(pair not in splits.holdout for pair in part)
        else:
            assert set(part) <= rest
    assert surplus == splits.surplus


def test_order_of_the_input_does_not_matter_but_the_seed_does(pairs, splits):
    shuffled = pairs + pairs[:10]
    random.Random(1).shuffle(shuffled)
    assert split_pairs(shuffled, 100, 50, 60, seed=3) == splits
    other = split_pairs(pairs, 100, 50, 60, seed=4)
    assert set(other.test) != set(splits.test)
    assert other.holdout_groups != splits.holdout_groups


def test_large_components_stay_in_train():
    pairs = [(f"{a} {b}", f"{b} {a}x") for a in WORDS[:20] for b in WORDS[20:40]]
    pairs += [(f"zone {n}", f"Zone {n} ein") for n in range(50)]
    splits = split_pairs(pairs, 200, 100)
    assert splits.largest_component == 50
    assert sum(pair.source.startswith("zone") for pair in splits.train) == 50


def test_links_are_transitive():
    chain = [("a a", "u"), ("A A!", "v"), ("b", "V."), ("b 1", "w 1"), ("b 2", "w")]
    pairs = chain + [(w, w + "x") for w in WORDS]
    for seed in range(20):
        splits = split_pairs(pairs, 30, 10, seed=seed)
        assert splits.largest_component == 3  # "b" and "b 1" differ in more than digits
        homes = [
            i for i, side in enumerate(sides(splits)) for p in side if p.source in ("a a", "b")
        ]
        assert len(homes) == 2
        assert len(set(homes)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"test_size": 10, "validation_size": 5},
            r"more unique pairs.*15: `test_size`=10 \(--test-size\), "
            r"`validation_size`=5 \(--dev-size\)\).*Received: 10",
        ),
        ({"test_size": -1}, "`test_size` to be an integer >= 0. Received: -1"),
        ({"validation_size": 1.5}, "`validation_size` to be an integer"),
        ({"test_size": 1, "validation_size": 1, "holdout_groups_size": 2}, "0 groups.*give 0"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        split_pairs([(word, word) for word in WORDS[:10]], **arguments)


def test_one_large_component_cannot_be_split():
    with pytest.raises(ValueError, match=r"`test_size`=5 \(--test-size\) cannot be filled: only 0"):
        split_pairs([(f"zone {n}", f"Zone {n}") for n in range(50)], 5, 5)


def test_remove_overlap_leaves_nothing_alike(pairs):
    rng = random.Random(5)
    shuffled = rng.sample(pairs, len(pairs))
    first, second, train = shuffled[:80], shuffled[80:120], shuffled[120:]
    kept, removed = remove_overlap(train, first, second)
    like = [pair for pair in train if any(alike(pair, other) for other in first + second)]
    assert kept == [pair for pair in train if pair not in like]
    assert removed == len(like) > 20
    fewer = remove_overlap(train, first)
    assert removed > fewer[1] > 0
    assert remove_overlap(kept, iter(first), second) == (kept, 0)


def test_remove_overlap_compares_each_side_with_its_like():
    train = [("a", "b"), ["c", "d"], ("e", "f", ("g",)), ("x", "y"), ("x", "y")]
    assert remove_overlap(iter(train), [("b", "a"), ("C!", "z")]) == (
        [("a", "b", ()), ("e", "f", ("g",)), ("x", "y", ()), ("x", "y", ())],
        1,
    )
    assert remove_overlap(train, [("u", "Y"), ("u", "f.")]) == ([("a", "b", ()), ("c", "d", ())], 3)
    assert remove_overlap([], train) == ([], 0)
    assert remove_overlap(train[:1], [])[1] == 0


@pytest.mark.parametrize(
    ("train", "held_out"),
    [
        (["ab"], [("a", "b")]),
        ([("a", "b")], TranslationPair("aa", "bb")),
        ([("a", 1)], []),
        ([("a",)], []),
    ],
)
def test_remove_overlap_wants_pairs(train, held_out):
    with pytest.raises(ValueError, match=r"Expected \(source, target\) pairs of strings. Received"):
        remove_overlap(train, held_out)
