"""Measures a baseline for text classifiers: logistic regression on TF-IDF."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_attn.fields import checked_texts
from keras_attn.metrics import evaluate_probabilities

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class TfidfBaseline:
    """Logistic regression on the TF-IDF of words and word pairs, by scikit-learn.

    A text is a row of weights, one for each word and each pair of words that stand side by side
    and occur in `min_df` training texts or more:

        weight = (1 + log(count in the text)) * (1 + log((1 + n) / (1 + texts that have it)))

    scaled to length 1. That is attention that looks at nothing but the word: fixed once counted,
    the same in every text. Words are runs of letters, digits and `_`, in lower case; in languages
    without spaces that is a poor baseline.

    Args:
        strengths: The C of the regression, the inverse of its L2 penalty; of several, the one with
            the least log loss on a part of the training texts that is held out is taken.
        min_df: Least number of training texts that a word or pair must occur in.
        held_out: Share of the training texts to choose C on; all are trained on in the end.
        seed: Of the choice of these, and of the order in which the regression reads the texts.

    Example:

    >>> texts = ["a good film", "good fun", "a bad film", "bad, bad"]
    >>> baseline = TfidfBaseline(strengths=[10.0], min_df=1).fit(texts, [1, 1, 0, 0])
    >>> baseline.predict_probabilities(["what a good thing"]).argmax(axis=1)
    array([1])
    >>> [word for word, weight in baseline.top_words(0, 1)]
    ['bad']
    """

    def __init__(
        self,
        strengths: Sequence[float] = STRENGTHS,
        min_df: int = 2,
        held_out: float = 0.1,
        seed: int = 0,
    ):
        self.strengths = sorted({float(strength) for strength in strengths})
        if not self.strengths or not self.strengths[0] > 0:
            raise ValueError(f"Expected `strengths` above 0. Received: {list(strengths)}.")
        if not 0 < held_out < 1:
            raise ValueError(f"Expected `held_out` between 0 and 1. Received: {held_out!r}.")
        self.min_df = min_df
        self.held_out = held_out
        self.seed = seed
        self.strength: float | None = None
        """The C that was taken."""
        self.held_out_scores: dict[float, tuple[float, float]] = {}
        """For each C that was tried, accuracy and log loss on the texts that were held out."""
        self.num_classes = 0
        self._vectorizer: Any = None
        self._classifiers: list[Any] = []
        self._several = False

    def fit(
        self,
        texts: Sequence[str],
        labels: Any,
        class_weight: Mapping[int, float] | str | None = None,
        num_classes: int | None = None,
    ) -> "TfidfBaseline":
        """Counts the words, chooses C, and fits the regression on all texts.

        Args:
            texts: n training texts.
            labels: `(n,)` class numbers, or `(n, C)` zeros and ones with a regression for each.
            class_weight: `"balanced"`, or class number to weight; with several labels a text, only
                `"balanced"` or None.
            num_classes: Number of classes, if there may be more than occur; those that do not
                occur get probability 0.

        Returns:
            Itself.

        Raises:
            ValueError: If labels do not fit, or there is but one class.

        Example:

        >>> texts = ["yes", "no", "yes yes", "no no"] * 5
        >>> baseline = TfidfBaseline([1.0, 100.0]).fit(texts, [1, 0, 1, 0] * 5)
        >>> baseline.strength, baseline.held_out_scores[100.0][0]
        (100.0, 1.0)
        """
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = checked_texts(texts)
        labels = _checked_labels(labels, len(texts), class_weight)
        self._several = labels.ndim == 2
        num_seen = labels.shape[1] if self._several else int(labels.max()) + 1
        self.num_classes = num_seen if num_classes is None else num_classes
        if num_seen > self.num_classes or (self._several and num_seen != self.num_classes):
            raise ValueError(f"Expected {self.num_classes} classes. Received labels of {num_seen}.")
        self._vectorizer = TfidfVectorizer(
            token_pattern=r"(?u)\b\w+\b", ngram_range=(1, 2), sublinear_tf=True, min_df=self.min_df
        )
        features = self._vectorizer.fit_transform(texts)
        self.held_out_scores = {}
        self.strength = self.strengths[0]
        if len(self.strengths) > 1:
            self._choose(features, labels, class_weight)
        self._classifiers = self._regressions(features, labels, self.strength, class_weight)
        return self

    def predict_probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Gives the probability of each class.

        Args:
            texts: n texts.

        Returns:
            `(n, C)` of float64. Rows sum to 1 unless it was fitted with several labels a text.

        Raises:
            ValueError: If it was not fitted.

        Example:

        >>> baseline = TfidfBaseline([1.0], min_df=1).fit(["yes", "no"], [1, 0])
        >>> baseline.predict_probabilities(["maybe"]).round(2)
        array([[0.5, 0.5]])
        """
        self._check_fitted()
        texts = checked_texts(texts)
        if not texts:
            return np.zeros((0, self.num_classes))
        return self._probabilities(self._classifiers, self._vectorizer.transform(texts))

    def top_words(self, class_number: int, count: int = 20) -> list[tuple[str, float]]:
        """Lists the words and pairs that speak most for a class.

        Args:
            class_number: Which class.
            count: How many at most.

        Returns:
            (word, its coefficient), the highest first.

        Raises:
            ValueError: If it was not fitted, or there is no such class.

        Example:

        >>> baseline = TfidfBaseline([1.0], min_df=1).fit(["yes sir", "no sir"], [1, 0])
        >>> [word for word, weight in baseline.top_words(1, 2)]
        ['yes', 'yes sir']
        """
        self._check_fitted()
        if not 0 <= class_number < self.num_classes:
            raise ValueError(
                f"Expected a class from 0 to {self.num_classes - 1}. Received: {class_number!r}."
            )
        coefficients = self._coefficients(class_number)
        words = self._vectorizer.get_feature_names_out()
        best = np.argsort(-coefficients, kind="stable")[:count]
        return [(str(words[i]), float(coefficients[i])) for i in best if coefficients[i] > 0]

    def _choose(self, features: Any, labels: np.ndarray, class_weight: Any) -> None:
        """Takes the C of the least log loss on every k-th text, in the order of the labels."""
        every = max(round(1 / self.held_out), 2)
        shuffled = np.random.default_rng(self.seed).permutation(len(labels))
        kinds = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
        order = shuffled[np.argsort(kinds[shuffled], kind="stable")]
        chosen = np.zeros(len(labels), bool)
        chosen[order[every // 2 :: every]] = True
        if not chosen.any() or len(np.unique(kinds[~chosen])) < 2:
            raise ValueError(
                f"Expected enough texts to hold out {self.held_out:.0%} of them. Received: "
                f"{len(labels)}. Give one strength."
            )
        for strength in self.strengths:
            fitted = self._regressions(features[~chosen], labels[~chosen], strength, class_weight)
            probabilities = self._probabilities(fitted, features[chosen])
            report = evaluate_probabilities(labels[chosen], probabilities, num_bootstrap=0)
            self.held_out_scores[strength] = (report.accuracy.value, report.log_loss.value)
        self.strength = min(self.held_out_scores, key=lambda c: self.held_out_scores[c][1])

    def _regressions(
        self, features: Any, labels: np.ndarray, strength: float, class_weight: Any
    ) -> list[Any]:
        """One classifier; or one a class, and a constant where that occurs never or always."""
        from sklearn.linear_model import LogisticRegression

        def fitted(targets: np.ndarray) -> Any:
            if targets.min() == targets.max():
                return float(targets[0])
            # L-BFGS with its usual tolerance stops early, which costs about 0.5 % accuracy on
            # 25,000 film reviews; with a lower one it takes several times as long as LIBLINEAR,
            # which knows two classes only.
            two = len(np.unique(targets)) == 2
            solver = {"solver": "liblinear", "dual": True} if two else {"tol": 1e-5}
            regression = LogisticRegression(
                C=strength,
                class_weight=class_weight,
                max_iter=2000,
                random_state=self.seed,
                **solver,
            )
            return regression.fit(features, targets)

        if labels.ndim == 2:
            return [fitted(column) for column in labels.T]
        if isinstance(class_weight, Mapping):  # it must not name what does not occur
            occur = set(labels.tolist())
            class_weight = {c: weight for c, weight in class_weight.items() if c in occur}
        return [fitted(labels)]

    def _probabilities(self, classifiers: list[Any], features: Any) -> np.ndarray:
        probabilities = np.zeros((features.shape[0], self.num_classes))
        if self._several:
            for c, classifier in enumerate(classifiers):
                constant = isinstance(classifier, float)
                probabilities[:, c] = (
                    classifier if constant else classifier.predict_proba(features)[:, 1]
                )
        else:
            probabilities[:, classifiers[0].classes_] = classifiers[0].predict_proba(features)
        return probabilities

    def _coefficients(self, class_number: int) -> np.ndarray:
        classifier = self._classifiers[class_number if self._several else 0]
        none = np.zeros(len(self._vectorizer.vocabulary_))
        if isinstance(classifier, float):
            return none
        if self._several:
            return classifier.coef_[0]
        places = np.flatnonzero(classifier.classes_ == class_number)
        if not places.size:
            return none
        if len(classifier.classes_) == 2:  # one row, of the second
            return classifier.coef_[0] * (1 if places[0] else -1)
        return classifier.coef_[places[0]]

    def _check_fitted(self) -> None:
        if not self._classifiers:
            raise ValueError("Expected a fitted baseline. Received: one that was not. Call `fit`.")


def _checked_labels(labels: Any, count: int, class_weight: Any) -> np.ndarray:
    labels = np.asarray(labels)
    if not count or labels.ndim not in (1, 2) or len(labels) != count:
        raise ValueError(
            f"Expected a label for each of the {count} texts, and at least one. Received: "
            f"labels of shape {labels.shape}."
        )
    if labels.ndim == 2:
        if not ((labels == 0) | (labels == 1)).all():
            raise ValueError("Expected zeros and ones as labels of shape (n, C).")
        if isinstance(class_weight, Mapping):
            raise ValueError(
                'Expected `class_weight` None or "balanced" with several labels a text. '
                f"Received: {class_weight!r}."
            )
        return labels.astype("int64")
    if labels.dtype.kind not in "biu" or labels.min() < 0:
        raise ValueError(f"Expected class numbers from 0 as labels. Received: {labels[:5]}.")
    if labels.min() == labels.max():
        raise ValueError(f"Expected at least two classes. Received: only {labels[0]}.")
    return labels.astype("int64")
