"""Which words of two texts spoke for the class of the pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn.explain import Explanation
from keras_attn.explain.attributions import pair_gradient_function
from keras_attn.generation import CompiledFunction


class PairExplainer:
    """Computes how much each word of a pair added to the log-odds of a class.

    Args:
        classifier: An `EntailmentClassifier`. Its own `explain` calls this.

    Example:

    >>> from keras_attn.tasks import EntailmentClassifier
    >>> examples = [("a dog runs", "it runs", "yes"), ("a dog runs", "it sits", "no")]
    >>> classifier = EntailmentClassifier.create(examples)
    >>> PairExplainer(classifier).explain([("a dog runs", "it runs")], None, 8)[0].tokens
    ('a', 'dog', 'runs', 'it', 'runs')
    """

    def __init__(self, classifier: Any):
        self.classifier = classifier

    def explain(
        self, pairs: Sequence[tuple[str, str]], label: str | None, batch_size: int
    ) -> list[Explanation]:
        """Explains pairs by gradient times input.

        Args:
            pairs: (premise, hypothesis) strings.
            label: The class to explain; the most probable one if None.
            batch_size: Pairs computed at a time.

        Returns:
            An `Explanation` of each pair, with a weight for each word that is read.

        Raises:
            ValueError: If the label is not among the classes.
        """
        classifier = self.classifier
        names = list(classifier.class_names)
        if label is not None and label not in names:
            raise ValueError(f"`label` must be one of {names}. Received: {label!r}.")
        if not pairs:
            return []
        wanted = -1 if label is None else names.index(label)
        logits, weights = self._computed(pairs, wanted, batch_size)
        sides = [
            classifier.tokenizer.encode_with_offsets([pair[side] for pair in pairs])[1]
            for side in (0, 1)
        ]
        words, most = classifier.words(pairs), classifier.max_length
        found = []
        for i, row in enumerate(classifier.probabilities_of_logits(logits)):
            read = [
                (word, place, weight, side)
                for side in (0, 1)
                for word, place, weight in zip(
                    words[i][side], sides[side][i][:most], weights[i][side], strict=False
                )
            ]
            tokens, places, values, segments = zip(*read, strict=True) if read else [()] * 4
            found.append(
                Explanation(
                    pairs[i][0],
                    tokens,
                    places,
                    np.array(values),
                    names[int(row.argmax())] if label is None else label,
                    dict(zip(names, map(float, row), strict=True)),
                    "gradient x input",
                    pairs[i][1],
                    segments,
                )
            )
        return found

    def _computed(
        self, pairs: Sequence[tuple[str, str]], wanted: int, batch_size: int
    ) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Logits `(n, C)`, and the weights of both texts of each pair, with padding."""

        def make() -> CompiledFunction:
            ask = pair_gradient_function(self.classifier.model)
            return CompiledFunction(
                lambda premises, length, hypotheses, of: ask(
                    {"premise_ids": premises, "hypothesis_ids": hypotheses}, of
                ),
                self.classifier.model,
            )

        run = self.classifier.kept(make, "gradients")
        batches = self.classifier.pair_batches(pairs, batch_size=batch_size, shuffle=False)
        found: list[np.ndarray] = []
        weights: list[tuple[np.ndarray, np.ndarray]] = []
        for (inputs,) in batches:
            premises, hypotheses = inputs["premise_ids"], inputs["hypothesis_ids"]
            classes = np.full(len(premises), wanted, "int32")
            logits, of_words = run(premises, 1, hypotheses, classes)
            found.append(logits)
            weights += zip(of_words["premise_ids"], of_words["hypothesis_ids"], strict=True)
        order = batches.restore(np.arange(len(weights)))
        return batches.restore(np.concatenate(found)), [weights[i] for i in order]
