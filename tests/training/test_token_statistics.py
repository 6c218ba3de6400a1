"""What texts say of their tokens: against scikit-learn, and by hand."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.naive_bayes import MultinomialNB

from keras_attn.training.token_statistics import (
    LEAST_WEIGHT,
    class_association,
    inverse_document_frequency,
)

V = 9
ROWS = [[1, 1, 2, 7], [2, 3], [], [1, 2, 4, 4, 4], [7], [5, 3, 2], [5, 5]]
LABELS = [0, 1, 1, 2, 0, 1, 2]
COUNTS = np.stack([np.bincount(row, minlength=V) if row else np.zeros(V) for row in ROWS])
PRESENT = (COUNTS > 0).astype(float)


def by_naive_bayes(members, smoothing=1.0):
    """|log p(t | c) / p(t | not c)| of one class against the rest."""
    model = MultinomialNB(alpha=smoothing).fit(PRESENT, members)
    return np.abs(np.diff(model.feature_log_prob_, axis=0)[0])


def test_idf_is_that_of_scikit_learn():
    expected = TfidfTransformer(smooth_idf=True).fit(PRESENT).idf_
    found = inverse_document_frequency(ROWS, V)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_array_equal(inverse_document_frequency(map(np.array, ROWS), V), found)
    assert found[2] == pytest.approx(np.log(8 / 5) + 1)  # in four of seven
    assert found[8] == pytest.approx(np.log(8) + 1)
    np.testing.assert_array_equal(inverse_document_frequency([], 3), [1, 1, 1])


@pytest.mark.parametrize("smoothing", [1.0, 0.25])
def test_association_is_the_ratio_of_naive_bayes(smoothing):
    labels = np.array(LABELS)
    ratios = [by_naive_bayes(labels == c, smoothing) for c in range(3)]
    expected = np.maximum(np.max(ratios, axis=0), LEAST_WEIGHT)
    found = class_association(ROWS, LABELS, V, smoothing)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    several = class_association(ROWS, np.eye(3)[labels], V, smoothing)
    np.testing.assert_array_equal(several, found)


def test_association_with_several_labels():
    hot = np.array([[1, 1], [0, 1], [0, 0], [1, 0], [1, 1], [0, 0], [0, 1]], "float32")
    ratios = [by_naive_bayes(column) for column in hot.T]
    expected = np.maximum(np.max(ratios, axis=0), LEAST_WEIGHT)
    np.testing.assert_allclose(class_association(ROWS, hot, V), expected, rtol=1e-12)


def test_what_all_classes_have_says_nothing():
    found = class_association([[1, 2], [1, 3], [1, 2], [1, 3]], [0, 1, 0, 1], 5)
    assert found[[0, 1, 4]].tolist() == [LEAST_WEIGHT] * 3
    assert found[2] == found[3] == pytest.approx(np.log(3))


def test_a_label_for_each_text():
    with pytest.raises(ValueError, match=r"each of the 7 texts\. Received: 2"):
        class_association(ROWS, [0, 1], V)
