"""Entities that labels mark and their scores, by hand and by seqeval."""

import warnings

import numpy as np
import pytest
from seqeval import metrics as seqeval
from seqeval.scheme import BILOU, IOBES, Entities

from keras_attn.arrays import label_tables
from keras_attn.metrics import (
    Entity,
    entities_of,
    repair_labels,
    score_tags,
)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("O O", "O O"),
        ("I-A I-A O I-A", "B-A I-A O B-A"),
        ("B-A I-B I-B", "B-A B-B I-B"),
        ("I-A B-A I-A", "B-A B-A I-A"),  # the older scheme: two entities side by side
        ("B-A I-A B-A I-B", "B-A I-A B-A B-B"),
        ("I-A-B I-A", "B-A-B B-A"),
        ("", ""),
    ],
)
def test_repairing(labels, expected):
    labels, expected = labels.split(), expected.split()
    changed = sum(a != b for a, b in zip(labels, expected, strict=True))
    assert repair_labels(labels) == (expected, changed)
    assert repair_labels(expected) == (expected, 0)


def test_entities():
    labels = "B-A I-A O B-B B-B I-B".split()
    assert entities_of(labels) == [Entity("A", 0, 2), Entity("B", 3, 4), Entity("B", 4, 6)]
    assert entities_of(["O"]) == entities_of([]) == []


def test_scores_by_hand():
    truth = ["B-PER I-PER O B-LOC", "B-ORG O", "O O"]
    found = ["B-PER I-PER O B-ORG", "B-ORG I-ORG", "B-LOC O"]
    report = score_tags([t.split() for t in truth], [f.split() for f in found])
    # Of four found entities only the person is right; there are three.
    assert report.accuracy == 5 / 8 and report.words == 8
    assert (report.precision, report.recall) == (0.25, pytest.approx(1 / 3))
    assert report.f1 == pytest.approx(2 / 7) and report.entities == 3
    assert report.of_kinds["PER"] == {"f1": 1.0, "precision": 1.0, "recall": 1.0, "entities": 1}
    for kind in ("LOC", "ORG"):
        assert report.of_kinds[kind] == {
            "f1": 0.0, "precision": 0.0, "recall": 0.0, "entities": 1,
        }  # fmt: skip
    assert "entities: F1 28.6 %, precision 25.0 %, recall 33.3 % of 3" in str(report)
    assert "interval" not in report.to_dict() and "95 %" not in str(report)


def test_both_schemes_of_the_same_entities_have_full_accuracy():
    older = [["I-PER", "I-PER", "O", "I-LOC", "B-LOC"]]
    report = score_tags(older, [["B-PER", "I-PER", "O", "B-LOC", "B-LOC"]])
    assert (report.accuracy, report.f1) == (1.0, 1.0)
    assert score_tags(older, [["B-PER", "I-PER", "O", "B-LOC", "O"]]).accuracy == 0.8


def drawn(seed, labels, sentences=40):
    rng = np.random.default_rng(seed)
    return [rng.choice(labels, rng.integers(1, 12)).tolist() for _ in range(sentences)]


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_those_of_seqeval(seed):
    """Of labels as a model may give them: with I-X anywhere."""
    labels = ["O", "O", "B-A", "I-A", "B-B", "I-B", "I-C"]
    truth = drawn(seed, labels)
    rng = np.random.default_rng(seed + 10)
    found = [[x if rng.random() < 0.7 else str(rng.choice(labels)) for x in r] for r in truth]
    report = score_tags(truth, found, num_bootstrap=200)
    expected = seqeval.classification_report(truth, found, output_dict=True, zero_division=0)
    for name, of in (("f1", "f1-score"), ("precision", "precision"), ("recall", "recall")):
        assert getattr(report, name) == pytest.approx(expected["micro avg"][of])
        for kind in "ABC":
            assert report.of_kinds[kind][name] == pytest.approx(expected[kind][of])
    assert report.f1 == pytest.approx(seqeval.f1_score(truth, found))
    assert report.entities == expected["micro avg"]["support"]
    low, high = report.interval
    assert low < report.f1 < high and high - low < 0.3
    again = score_tags(truth, found, num_bootstrap=200)
    assert again == report != score_tags(truth, found, num_bootstrap=200, seed=1)


@pytest.mark.parametrize("scheme", [IOBES, BILOU])
@pytest.mark.parametrize("valid", [True, False])
def test_scores_are_those_of_seqeval_in_strict_mode(scheme, valid):
    """Of valid sequences, and of any after the repair, which makes them valid."""
    name = {IOBES: "BIOES"}.get(scheme, "BILOU")
    alone, last = ("S", "E") if scheme is IOBES else ("U", "L")
    labels = ["O", "B-A", "I-A", f"{last}-A", f"{alone}-A", f"{alone}-B", "I-B"]
    truth, found = drawn(0, labels, 60), drawn(1, labels, 60)
    found = [[*a[: len(a) // 2], *(b * 12)[: len(a) - len(a) // 2]]
             for a, b in zip(truth, found, strict=True)]  # fmt: skip
    truth, repaired = ([repair_labels(row, name)[0] for row in side] for side in (truth, found))
    report = score_tags(truth, repaired if valid else found)
    settings = {"mode": "strict", "scheme": scheme, "zero_division": 0}
    expected = seqeval.classification_report(truth, repaired, output_dict=True, **settings)
    whole = expected["micro avg"]
    assert report.f1 == pytest.approx(whole["f1-score"]) and 0.2 < report.f1 < 0.9
    assert (report.precision, report.entities) == (
        pytest.approx(whole["precision"]), whole["support"],
    )  # fmt: skip
    for kind in "AB":
        assert report.of_kinds[kind]["f1"] == pytest.approx(expected[kind]["f1-score"])
    strict = Entities(repaired, scheme).entities
    for row, own in zip(repaired, strict, strict=True):
        assert entities_of(row, name) == [(x.tag, x.start, x.end) for x in own]
        assert repair_labels(row, name) == (row, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: entities_of(["B-A"], "IOB"),
        lambda: repair_labels(["B-A"], "bio"),
        lambda: score_tags([["B-A"]], [["B-A"]], scheme="IOBES"),
        lambda: label_tables(["B-A"], "IOB"),
    ],
)
def test_unknown_schemes(call):
    with pytest.raises(ValueError, match=r"`scheme` must be one of 'BIO', 'BIOES', 'BILOU'\. Rec"):
        call()


def test_schemes_are_not_mixed():
    with pytest.raises(ValueError, match="by one scheme"):
        score_tags([["S-A"]], [["U-A"]])


@pytest.mark.slow
def test_the_interval_is_that_of_resampled_sentences():
    truth, found = drawn(0, ["O", "B-A", "I-A"]), drawn(1, ["O", "B-A", "I-A"])
    found = [(b + a)[: len(a)] for a, b in zip(truth, found, strict=True)]
    report = score_tags(truth, found, num_bootstrap=300, seed=3)
    samples = np.random.default_rng(3).integers(len(truth), size=(300, len(truth)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = [
            seqeval.f1_score([repair_labels(truth[i])[0] for i in rows],
                             [repair_labels(found[i])[0] for i in rows])
            for rows in samples
        ]  # fmt: skip
    assert report.interval == pytest.approx(tuple(np.quantile(scores, [0.025, 0.975])))


def test_types_on_one_side_only():
    report = score_tags([["B-A", "O"], ["B-B", "O"]], [["B-A", "B-C"], ["O", "O"]])
    assert report.f1 == pytest.approx(0.5)
    assert report.of_kinds["B"]["recall"] == 0.0 and report.of_kinds["B"]["entities"] == 1
    assert report.of_kinds["C"] == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "entities": 0}
    nothing = score_tags([["B-A", "O"]], [["O", "O"]])
    assert (nothing.f1, nothing.precision, nothing.recall) == (0.0, 0.0, 0.0)


def test_labels_that_mark_nothing():
    report = score_tags([["NN", "VB"], ["NN"]], [["NN", "NN"], ["NN"]], num_bootstrap=50)
    assert report.f1 is None and report.accuracy == pytest.approx(2 / 3)
    assert report.interval[0] <= 2 / 3 <= report.interval[1]
    assert str(report).startswith("accuracy 66.7 % of 3 words\n95 % interval of accuracy:")
    assert "f1" not in report.to_dict()


def test_no_entity_in_the_truth_but_some_found():
    """False alarms are not hidden: there is no such entity, so the F1 is 0."""
    report = score_tags([["O", "O"]], [["B-A", "O"]], num_bootstrap=10)
    assert (report.f1, report.precision, report.entities) == (0.0, 0.0, 0)
    assert report.accuracy == 0.5


def test_whether_labels_mark_entities_can_be_said():
    nothing = score_tags([["O", "O"]], [["O", "O"]], num_bootstrap=10, scheme="BIO")
    assert (nothing.f1, nothing.entities, nothing.of_kinds) == (0.0, 0, {})
    plain = score_tags([["B-A"]], [["B-A"]], scheme="")
    assert plain.f1 is None and plain.accuracy == 1.0
    # A label that is of no entity is wrong, and in none; an entity behind it begins there.
    truth, found = [["B-A", "X", "I-A"]], [["B-A", "O", "B-A"]]
    report = score_tags(truth, found, num_bootstrap=10, scheme="BIO")
    assert (report.f1, report.entities, set(report.of_kinds)) == (1.0, 2, {"A"})
    assert report.interval == (1.0, 1.0) and report.accuracy == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("truth", "found"),
    [([], []), ([["O"]], []), ([["O"]], [["O", "O"]]), ([["O"], ["O"]], [["O"]])],
)
def test_sides_must_fit(truth, found):
    with pytest.raises(ValueError, match="same number of labels on both sides"):
        score_tags(truth, found)
