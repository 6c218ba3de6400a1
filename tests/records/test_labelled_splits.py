"""Splits of labelled texts: shares, sizes, and that nothing leaks from side to side."""

import itertools
import random

import numpy as np
import pytest

from keras_attn.records import (
    LabelledText,
    duplicate_groups,
    remove_labelled_overlap,
    split_labelled,
    template,
)

WORDS = [a + b + c for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]


def make_texts(count, seed=0, words=30):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=words)) for _ in range(count)]


def make_examples(count, seed=0):
    rng = random.Random(seed)
    return [LabelledText(t, rng.choice(["a", "b", "b", "c"])) for t in make_texts(count, seed)]


def sides(splits):
    return splits.train, splits.dev, splits.test


def test_groups_of_templates():
    texts = ["Room 12!", "room 7", "Room", ":)", ":(", " :) ", "", "ROOM 3.", "..."]
    assert duplicate_groups(texts).tolist() == [0, 0, 1, 2, 3, 2, 4, 0, 5]
    assert duplicate_groups([]).tolist() == []


def test_groups_of_nearly_equal_texts():
    one, other = make_texts(2, words=60)
    words = one.split()
    shorter = " ".join(words[:40]) + " and " + " ".join(words[45:])
    half = " ".join(words[:30])
    third = " ".join(words[30:50] + other.split()[:40])
    # 13 of 53 runs of 8 words are shared with the first text, and 33 with the second.
    texts = [one, other, shorter, half.upper(), "new text", third]
    assert duplicate_groups(texts).tolist() == [0, 1, 0, 0, 2, 1]
    assert duplicate_groups(texts, shared=0.2).tolist() == [0, 0, 0, 0, 1, 0]
    assert duplicate_groups(texts, shared=2.0).tolist() == list(range(6))
    with pytest.raises(ValueError, match="`shared`"):
        duplicate_groups(texts, shared=0)


def test_groups_agree_with_the_definition():
    rng = random.Random(3)
    texts = make_texts(60, words=25)
    for _ in range(60):
        words = rng.choice(texts).split()
        start = rng.randrange(len(words) - 10)
        extra = rng.choice(texts).split()[: rng.randrange(20)]
        texts.append(" ".join(words[start : start + rng.randrange(8, 25)] + extra))

    def runs(text):
        words = text.split()
        return {tuple(words[i : i + 8]) for i in range(len(words) - 7)}

    every = list(map(runs, texts))
    groups = list(range(len(texts)))
    for i in range(len(texts)):
        for j in range(i):
            least = 0.5 * min(len(every[i]), len(every[j]))
            if len(every[i] & every[j]) >= max(1, least):
                old, new = groups[i], groups[j]
                groups = [new if group == old else group for group in groups]
    expected = np.unique(groups, return_inverse=True)[1]
    found = duplicate_groups(texts)
    assert 60 < len(set(found.tolist())) < 110
    for i in range(len(texts)):  # the same partition
        assert ((found == found[i]) == (expected == expected[i])).all()


def test_many_texts_of_one_mould_stay_together():
    head = make_texts(1, words=40)[0]
    texts = [f"{head} {tail}" for tail in make_texts(300, seed=1, words=5)]
    assert set(duplicate_groups(texts).tolist()) == {0}


def test_sizes_and_shares():
    examples = make_examples(1000)
    splits = split_labelled(examples, dev=100, test=0.2, seed=1)
    assert list(map(len, sides(splits))) == [700, 100, 200]
    assert sorted(x for side in sides(splits) for x in side) == sorted(examples)
    assert splits.summary() == {
        **{"train": 700, "dev": 100, "test": 200},
        **{"components": 1000, "largest_component": 1},
    }
    all_counts = {name: sum(x.label == name for x in examples) for name in "abc"}
    for side, size in (("dev", 0.1), ("test", 0.2)):
        for name, count in splits.label_counts()[side].items():
            assert abs(count - size * all_counts[name]) <= 1
    nothing = split_labelled(examples, dev=0, test=0)
    assert list(map(len, sides(nothing))) == [1000, 0, 0]


def test_the_order_of_the_texts_does_not_matter():
    examples = make_examples(300)
    one = split_labelled(examples, seed=4)
    other = split_labelled(reversed(examples), seed=4)
    assert sides(one) == sides(other)
    assert sides(one) != sides(split_labelled(examples, seed=5))
    assert one.dev != sorted(one.dev)


def test_nothing_leaks():
    rng = random.Random(0)
    examples = make_examples(600)
    for text, label, *_ in examples[:200]:
        words = text.split()
        copy = rng.choice(
            [
                text.upper() + "!",
                f"{text} 12",
                " ".join(words[:25]),
                f"{text} {make_texts(1, rng.random(), 20)[0]}",
            ]
        )
        examples.append(LabelledText(copy, label))
    rng.shuffle(examples)
    splits = split_labelled(examples, dev=0.15, test=0.15)
    assert splits.components == 600
    assert list(map(len, sides(splits)))[1:] == [120, 120]
    train = {template(x.text) for x in splits.train}
    for held_out in (splits.dev, splits.test):
        assert not train & {template(x.text) for x in held_out}
        assert remove_labelled_overlap(splits.train, held_out)[1] == 0
    leaky = split_labelled(examples, dev=0.15, test=0.15, shared=2.0)
    assert remove_labelled_overlap(leaky.train, leaky.dev, leaky.test)[1] > 10


def test_large_components_stay_in_the_training_set():
    examples = [*make_examples(200), *[LabelledText(f"Room {i}", "a") for i in range(30)]]
    for seed in range(3):
        splits = split_labelled(examples, dev=0.2, test=0.2, seed=seed)
        assert splits.largest_component == 30
        assert sum(x.text.startswith("Room") for x in splits.train) == 30


def test_a_share_of_few_texts_is_one_at_least():
    examples = [(f"word {chr(97 + i)}", "ab"[i % 2]) for i in range(4)]
    splits = split_labelled(examples, dev=0.1, test=0.01)
    assert [len(side) for side in (splits.train, splits.dev, splits.test)] == [2, 1, 1]
    assert not split_labelled(examples, dev=0.1, test=0.0).test


def test_rare_labels_stay_in_the_training_set():
    examples = [*make_examples(100), LabelledText("only one", "d"), LabelledText("this", "e")]
    examples.append(LabelledText("or that", "e"))
    for seed in range(5):
        counts = split_labelled(examples, dev=0.3, test=0.3, seed=seed).label_counts()
        assert counts["train"]["d"] == 1
        assert counts["train"]["e"] >= 1


def test_components_are_counted_before_they_are_divided():
    examples = [*((text, "a") for text in make_texts(10)), ("One more.", "b"), ("one more", "b")]
    with pytest.warns(UserWarning, match="2 of 12 texts are nearly the same"):
        divided = split_labelled(examples, dev=3, test=3, apart=False)
    whole = split_labelled(examples, dev=3, test=3)
    for splits in (divided, whole):
        assert (splits.components, splits.largest_component) == (11, 2)


def test_groups_stay_together_where_that_is_wanted():
    examples = [
        LabelledText(t, "ab"[i % 2], f"film {i // 3}") for i, t in enumerate(make_texts(600))
    ]
    splits = split_labelled(examples, dev=60, test=60, keep_groups=True)
    assert splits.components == 200
    films = [{x.group for x in side} for side in sides(splits)]
    assert not (films[0] & films[1] or films[0] & films[2] or films[1] & films[2])
    assert (len(splits.dev), len(splits.test)) == (60, 60)
    loose = split_labelled(examples, dev=60, test=60)
    assert {x.group for x in loose.dev} & {x.group for x in loose.train}
    # No group is no group of its own.
    nowhere = [x._replace(group="") for x in examples]
    assert split_labelled(nowhere, dev=60, test=60, keep_groups=True).components == 600


def test_several_labels():
    rng = random.Random(0)
    examples = []
    for text in make_texts(1000):
        names = [n for n, share in (("a", 0.6), ("b", 0.3), ("c", 0.03)) if rng.random() < share]
        examples.append(LabelledText(text, tuple(names)))
    splits = split_labelled(examples, dev=0.2, test=0.2)
    total = split_labelled(examples, dev=0, test=0).label_counts()["train"]
    for side in ("dev", "test"):
        counts = splits.label_counts()[side]
        assert abs(counts["c"] - 0.2 * total["c"]) <= 1
        assert abs(counts["b"] - 0.2 * total["b"]) <= 0.05 * total["b"]
        assert abs(counts["a"] - 0.2 * total["a"]) <= 0.05 * total["a"]


def test_sizes_are_checked():
    examples = make_examples(100)
    for wrong in (-1, 1.0, 1.5, True, "3", float("nan")):
        with pytest.raises(ValueError, match="`dev` to be an integer >= 0 or a share below 1"):
            split_labelled(examples, dev=wrong)
    with pytest.raises(ValueError, match="leave nothing to train on"):
        split_labelled(examples, dev=50, test=50)
    with pytest.raises(ValueError, match="leave nothing to train on"):
        split_labelled([])
    same = [LabelledText(f"Room {i}", "a") for i in range(100)]
    with pytest.raises(ValueError, match=r"`test`=10 cannot be filled: only 0 texts"):
        split_labelled(same)
    with pytest.raises(ValueError, match=r"\(text, label\) pairs"):
        split_labelled(["text"])


def test_overlap():
    long, other = make_texts(2, words=40)
    train = [("Good!", "x"), (long, "x"), ("Bad", "y", "g"), (other, "y"), (f"so: {long}", "x")]
    kept, removed = remove_labelled_overlap(train, [("good", "y")], [(long[:120] + " end", "x")])
    assert [x[:3] for x in kept] == [("Bad", "y", "g"), (other, "y", "")]
    assert removed == 3
    assert remove_labelled_overlap(train, []) == ([LabelledText(*x) for x in train], 0)


def test_pairs_leak_neither_way_round():
    rng = random.Random(1)
    texts = make_texts(120)
    pairs = [tuple(rng.sample(texts, 2)) for _ in range(300)]
    turned = [(second.upper() + "!", first) for first, second in pairs[:100]]
    again = [(first, second + " ") for first, second in pairs[100:150]]
    examples = [(pair, rng.choice("ab")) for pair in [*pairs, *turned, *again]]
    splits = split_labelled(examples, dev=0.2, test=0.2, seed=3)
    sides = [splits.train, splits.dev, splits.test]
    assert [len(side) for side in sides] == [270, 90, 90]

    def known(example):
        return frozenset(template(text) for text in example.input)

    for one, other in itertools.combinations(sides, 2):
        assert not set(map(known, one)) & set(map(known, other))
    # A pair is not linked with what has one of its texts alone, nor with that text.
    assert splits.largest_component < 9
    train = [(("Good!", "Bad."), "x"), (("good", "fine"), "x"), ("good", "y")]
    kept, removed = remove_labelled_overlap(train, [(("bad", "good"), "y")])
    assert ([x.input for x in kept], removed) == ([("good", "fine"), "good"], 1)
    # The order in which they come does not matter.
    other = split_labelled(examples[::-1], dev=0.2, test=0.2, seed=3)
    assert other.train == splits.train
