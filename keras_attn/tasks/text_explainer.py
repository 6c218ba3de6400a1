"""How a text classifier explains itself."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_attn.batches.classification_batches import truncate
from keras_attn.generation import CompiledFunction
from keras_attn.models.classifier_explanations import (
    attention_function,
    gradient_function,
    has_attention,
)
from keras_attn.tasks.explanation import Explanation

METHODS = ("attention", "gradient")
_NAMES = {"attention": "attention", "gradient": "gradient x input"}


class TextExplainer:
    """Says how much each token weighed in what a classifier says of a text.

    Args:
        classifier: A `TextClassifier`, which hands its own `explain` on to this.

    Example:

    >>> from keras_attn.tasks import TextClassifier
    >>> from keras_attn.text import BytePairTokenizer
    >>> tokenizer = BytePairTokenizer.train(["a text"], 259)
    >>> classifier = TextClassifier(tokenizer, ["no", "yes"], {"dim": 8, "pair_buckets": 0})
    >>> TextExplainer(classifier).explain(["ab"])[0].tokens
    ('a', 'b')
    """

    def __init__(self, classifier: Any):
        self.classifier = classifier
        self._compiled: dict[str, CompiledFunction] = {}

    def checked_method(self, method: str | None) -> str:
        """Returns the name of a method, attention where the model has it if None.

        Args:
            method: Its name, or None.

        Returns:
            `"attention"` or `"gradient"`.

        Raises:
            ValueError: For another one, or attention of a model that has none.
        """
        known = METHODS if has_attention(self.classifier.model) else METHODS[1:]
        if method is None:
            return known[0]
        if method not in known:
            why = " The model has no attention of its own." if method in METHODS else ""
            raise ValueError(f"`method` must be one of {list(known)}. Received: {method!r}.{why}")
        return method

    def explain(
        self,
        texts: list[str],
        method: str | None = None,
        label: str | None = None,
        batch_size: int = 32,
    ) -> list[Explanation]:
        """Explains texts, as `TextClassifier.explain`.

        Args:
            texts: Strings.
            method: As there.
            label: As there.
            batch_size: As there.

        Returns:
            An `Explanation` for each.
        """
        method = self.checked_method(method)
        classifier = self.classifier
        ids, offsets = classifier.tokenizer.encode_with_offsets(texts)
        logits, weights = self.explain_ids(ids, method, label, batch_size)
        probabilities = classifier.probabilities_of_logits(logits)
        names = classifier.class_names
        room = classifier.max_length - (classifier.start_id is not None)
        found = []
        for i, text in enumerate(texts):
            kept = truncate(list(range(len(ids[i]))), room, classifier.truncation)
            found.append(
                Explanation(
                    text,
                    classifier.tokenizer.tokens([ids[i][k] for k in kept]),
                    [offsets[i][k] for k in kept],
                    weights[i],
                    names[int(probabilities[i].argmax())] if label is None else label,
                    dict(zip(names, map(float, probabilities[i]), strict=True)),
                    _NAMES[method],
                )
            )
        return found

    def explain_ids(
        self,
        ids: Sequence[Sequence[int]],
        method: str | None = None,
        label: str | None = None,
        batch_size: int = 32,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Explains tokenised texts, as `TextClassifier.explain_ids`.

        Args:
            ids: As there.
            method: As there.
            label: As there.
            batch_size: As there.

        Returns:
            Logits `(n, C)`, and the weights of each text's tokens.
        """
        classifier, method = self.classifier, self.checked_method(method)
        if label is not None and label not in classifier.class_names:
            raise ValueError(
                f"`label` must be one of {list(classifier.class_names)}. Received: {label!r}."
            )
        if label is not None and method == "attention":
            raise ValueError(
                "`label` goes with method='gradient': attention is the same for all classes. "
                f"Received: label={label!r}, method={method!r}."
            )
        if not len(ids):
            return np.zeros((0, len(classifier.class_names)), "float32"), []
        wanted = -1 if label is None else classifier.class_names.index(label)
        batches = classifier.id_batches(ids, batch_size=batch_size, shuffle=False)
        run = self._function(method)
        logits, weights = zip(*(run(rows, wanted) for (rows,) in batches), strict=True)
        # One width, to bring the rows of all batches into the order of the texts.
        widest = max(part.shape[1] for part in weights)
        padded = [np.pad(part, ((0, 0), (0, widest - part.shape[1]))) for part in weights]
        first = int(classifier.start_id is not None)
        table = batches.restore(np.concatenate(padded))[:, first:]
        counts = [min(len(row), classifier.max_length - first) for row in ids]
        found = [row[:count] for row, count in zip(table, counts, strict=True)]
        return batches.restore(np.concatenate(logits)), found

    def _function(self, method: str) -> Callable[[np.ndarray, int], Any]:
        """`function(ids (B, S), class) -> (logits, weights)`, compiled once."""
        model = self.classifier.model
        if method not in self._compiled:
            if method == "attention":
                look = attention_function(model)
                made = CompiledFunction(lambda ids, length: look(ids), model)
            else:
                ask = gradient_function(model, self.classifier.multi_label)
                made = CompiledFunction(lambda ids, length, of: ask(ids, of), model)
            self._compiled[method] = made
        compiled = self._compiled[method]
        if method == "attention":
            return lambda rows, wanted: compiled(rows, 1)
        return lambda rows, wanted: compiled(rows, 1, np.full(len(rows), wanted, "int32"))
