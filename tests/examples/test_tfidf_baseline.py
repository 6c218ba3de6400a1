"""TF-IDF with logistic regression."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from tfidf_baseline import TfidfBaseline

WORDS = ["film", "plot", "actor", "scene", "music", "end", "day", "it", "a", "was"]


def reviews(count, classes=2, seed=0, noise=0.1):
    """Texts of filler and one telling word of their class, or of another at times."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=count)
    told = np.where(rng.random(count) < noise, rng.integers(classes, size=count), labels)
    texts = [" ".join([*rng.choice(WORDS, 6), f"mark{c}", rng.choice(WORDS)]) for c in told]
    return texts, labels


def test_learns_chooses_and_tells_its_words():
    baseline = TfidfBaseline().fit(*reviews(400))
    texts, labels = reviews(200, seed=1, noise=0)
    probabilities = baseline.predict_probabilities(texts)
    assert probabilities.shape == (200, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (probabilities.argmax(axis=1) == labels).mean() == 1
    assert baseline.top_words(0, 1)[0][0] == "mark0"
    assert baseline.top_words(1, 1)[0][0] == "mark1"
    # A tenth of noisy labels: the least penalty is not the best.
    assert list(baseline.held_out_scores) == [1, 3, 10, 30, 100, 300]
    best = min(baseline.held_out_scores.items(), key=lambda item: item[1][1])[0]
    assert baseline.strength == best < 300
    assert all(0.8 < accuracy <= 1 for accuracy, _ in baseline.held_out_scores.values())


def test_weights_are_those_of_the_formula():
    texts = ["good good film", "bad film", "film I like", "film"]
    baseline = TfidfBaseline([1.0], min_df=1).fit(texts, [1, 0, 1, 0])
    row = baseline._vectorizer.transform(texts[:1]).toarray()[0]

    def idf(found):
        return 1 + math.log((1 + 4) / (1 + found))

    expected = {
        "good": (1 + math.log(2)) * idf(1),
        "film": idf(4),
        "good good": idf(1),
        "good film": idf(1),
    }
    length = math.sqrt(sum(weight**2 for weight in expected.values()))
    found = {word: row[i] for word, i in baseline._vectorizer.vocabulary_.items() if row[i]}
    assert found == pytest.approx({word: weight / length for word, weight in expected.items()})
    assert "i like" in baseline._vectorizer.vocabulary_  # words of one letter count


def test_several_classes_some_of_which_do_not_occur():
    texts, labels = reviews(300, classes=3, noise=0)
    baseline = TfidfBaseline().fit(texts, np.where(labels == 2, 4, labels), num_classes=6)
    probabilities = baseline.predict_probabilities(["mark0", "mark1", "mark2"])
    assert probabilities.argmax(axis=1).tolist() == [0, 1, 4]
    assert (probabilities[:, [2, 3, 5]] == 0).all()
    assert baseline.top_words(4, 1)[0][0] == "mark2"
    assert baseline.top_words(2) == []
    assert baseline.predict_probabilities([]).shape == (0, 6)


def test_several_labels():
    texts, labels = reviews(200, classes=3, noise=0)
    hot = np.eye(4)[labels]
    hot[:, 1] += hot[:, 0]  # who has 0 has 1; none has 3
    baseline = TfidfBaseline().fit(texts, hot)
    probabilities = baseline.predict_probabilities(["mark0 film", "mark1 film", "mark2 film"])
    assert (probabilities > 0.5).astype(int).tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert (probabilities[:, 3] == 0).all() and baseline.top_words(3) == []
    assert {word for word, _ in baseline.top_words(1, 2)} == {"mark0", "mark1"}


def test_class_weights():
    texts = ["x"] * 100
    labels = [0] * 80 + [1] * 20

    def probability(class_weight):
        baseline = TfidfBaseline([1.0]).fit(texts, labels, class_weight)
        return baseline.predict_probabilities(["x"])[0, 1]

    assert probability(None) == pytest.approx(0.2, abs=0.01)
    assert probability("balanced") == pytest.approx(0.5, abs=0.01)
    assert probability({0: 1.0, 1: 4.0, 2: 9.0}) == pytest.approx(0.5, abs=0.01)


def test_the_same_seed_the_same_choice():
    first, again = (TfidfBaseline(seed=3).fit(*reviews(100)) for _ in range(2))
    assert first.held_out_scores == again.held_out_scores


def test_errors():
    with pytest.raises(ValueError, match=r"was not\. Call `fit`"):
        TfidfBaseline().predict_probabilities(["a"])
    with pytest.raises(ValueError, match="`strengths` above 0"):
        TfidfBaseline([0.0])
    with pytest.raises(ValueError, match="`held_out` between"):
        TfidfBaseline(held_out=0)
    one = TfidfBaseline([1.0], min_df=1)
    with pytest.raises(ValueError, match=r"each of the 1 texts.*shape \(2,\)"):
        one.fit(["a"], [0, 1])
    with pytest.raises(ValueError, match=r"at least two classes\. Received: only 1"):
        one.fit(["a", "b"], [1, 1])
    with pytest.raises(ValueError, match="class numbers from 0"):
        one.fit(["a", "b"], ["x", "y"])
    with pytest.raises(ValueError, match=r"2 classes\. Received labels of 3"):
        one.fit(["a", "b"], [0, 2], num_classes=2)
    with pytest.raises(ValueError, match='"balanced" with several'):
        one.fit(["a", "b"], [[0, 1], [1, 0]], {0: 1.0})
    with pytest.raises(ValueError, match="zeros and ones"):
        one.fit(["a", "b"], [[0, 2], [1, 0]])
    with pytest.raises(TypeError, match=r"Expected strings\. Received: 3"):
        one.fit(["a", 3], [0, 1])
    with pytest.raises(ValueError, match=r"Received: 2\. Give one strength"):
        TfidfBaseline(min_df=1).fit(["a", "b"], [0, 1])
    with pytest.raises(ValueError, match=r"from 0 to 1\. Received: 2"):
        one.fit(["a", "b"], [0, 1]).top_words(2)
