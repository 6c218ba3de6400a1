"""Heads fitted by logistic regression on the vectors of a frozen model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attn.batches import TextBatches
from keras_attn.generation import CompiledFunction
from keras_attn.packages import needed
from keras_attn.settings import Settings, setting

STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Candidates for C, the factor of the loss relative to the penalty; the best is chosen."""
FOLDS = 5


@dataclass(frozen=True)
class HeadTraining(Settings):
    """Settings of the weights that are trained."""

    tune: str = setting(
        "all",
        "weights that are trained: all; head, which is only the output layer, by logistic "
        "regression on encoder vectors that are computed once; or head_first, which trains "
        "the head in this way and then all weights",
        choices=("all", "head", "head_first"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        epochs = getattr(self, "epochs", None)
        if epochs is not None and (epochs == 0) != (self.tune == "head"):
            raise ValueError(
                "`epochs` must be at least 1, and 0 with tune='head', which has no epochs. "
                f"Received: epochs={epochs} with tune={self.tune!r}."
            )


class Head(NamedTuple):
    """The weights of an output layer: `kernel (D, C)` and `bias (C,)`."""

    kernel: np.ndarray
    bias: np.ndarray

    def logits(self, vectors: np.ndarray) -> np.ndarray:
        """Returns the logits `(n, C)` of vectors `(n, D)`."""
        return vectors @ self.kernel + self.bias


def vectors_of(model: keras.Model, batches: TextBatches) -> np.ndarray:
    """Computes the inputs of the layer `head` of a model, `(n, D)` in the order of the texts."""
    head = model.get_layer("head")
    below = keras.Model(model.input, head._inbound_nodes[0].input_tensors[0])
    run = CompiledFunction(lambda ids, length: {"x": below(ids, training=False)}, model)
    inputs: list[Any] = [batches[i][0] for i in range(len(batches))]
    rows = [run(ids, 1)["x"] for ids in inputs]
    return batches.restore(np.concatenate(rows)).astype("float32")


def fit_layer(
    model: keras.Model,
    sides: Sequence[tuple[TextBatches, np.ndarray]],
    weights: np.ndarray | None,
    seed: int,
) -> str:
    """Fits the layer `head` of a model; returns a line for the log.

    `sides` contains the batches and the labels of the training examples, and then those of
    held-out examples, if there are any.
    """
    (vectors, labels), *held = [(vectors_of(model, batches), labels) for batches, labels in sides]
    layer = model.get_layer("head")
    head, strength = fit_head(vectors, labels, layer.units, weights, next(iter(held), None), seed)
    layer.kernel.assign(head.kernel)
    layer.bias.assign(head.bias)
    return f"head: fitted to {len(vectors):,} vectors of {vectors.shape[1]}, C={strength:g}"


def fit_head(
    vectors: np.ndarray,
    labels: np.ndarray,
    num_classes: int,
    weights: np.ndarray | None = None,
    held: tuple[np.ndarray, np.ndarray] | None = None,
    seed: int = 0,
) -> tuple[Head, float]:
    r"""Fits a linear layer to vectors, and chooses the strength of the penalty.

        min_{W,b}  C sum_i w_i loss(W x_i / s + b, y_i) + |W|^2 / 2

    s is the root mean square of the centred vectors, so that the same values of C suit all
    encoders. The loss is the cross-entropy for classes, the binary cross-entropy of each class for
    labels of 0 and 1, or half the squared error for numbers. C is the value with the lowest loss on
    the held-out examples, or in cross-validation if there are none.

    Args:
        vectors: x, `(n, D)`.
        labels: y: classes, int32 `(n,)`; labels of 0 and 1, float32 `(n, C)`; or numbers, float32
            `(n,)`.
        num_classes: Number of classes or labels; 1 for numbers.
        weights: w, `(n,)`, or `(n, C)` for labels of 0 and 1; None for weights of 1.
        held: Vectors and labels of held-out examples; None for cross-validation.
        seed: Seed of the folds of the cross-validation.

    Returns:
        A `Head` for the unscaled vectors, and the chosen factor C of the loss.
    """
    spread = float(vectors.std(axis=0).mean()) or 1.0
    weights = np.ones(len(vectors)) if weights is None else weights
    centre = vectors.mean(axis=0)

    def scaled(some: np.ndarray) -> np.ndarray:
        return ((some - centre) / spread).astype("float64")

    def heads(rows: np.ndarray, strengths: Iterable[float]) -> Iterator[Head]:
        return _heads(scaled(vectors[rows]), labels[rows], num_classes, weights[rows], strengths)

    every = np.arange(len(vectors))
    if held is not None:
        parts, out = [every], [(scaled(held[0]), held[1])]
    else:
        fold = np.random.default_rng(seed).permutation(every) % min(FOLDS, len(vectors))
        parts = [every[fold != number] for number in np.unique(fold)]
        out = [(scaled(vectors[x]), labels[x]) for x in (np.delete(every, y) for y in parts)]
    best, least = STRENGTHS[0], np.inf
    for strength, *some in zip(STRENGTHS, *(heads(x, STRENGTHS) for x in parts), strict=True):
        loss = sum(
            _loss(head.logits(x), y) * len(y) for head, (x, y) in zip(some, out, strict=True)
        )
        if loss >= least:  # greater ones fit the training examples only
            break
        best, least = strength, loss
    (head,) = heads(every, [best])
    kernel = head.kernel / spread
    return Head(kernel, head.bias - centre @ kernel), best


def _heads(
    vectors: np.ndarray,
    labels: np.ndarray,
    num_classes: int,
    weights: np.ndarray,
    strengths: Iterable[float],
) -> Iterator[Head]:
    """Yields the heads of rising strengths, each of which starts the next one."""
    with needed("A head on frozen vectors"):
        from sklearn.linear_model import LogisticRegression, Ridge

    if labels.ndim == 1 and labels.dtype.kind == "f":
        for c in strengths:
            ridge = Ridge(1 / c).fit(vectors, labels, weights)
            yield Head(ridge.coef_[:, None], np.atleast_1d(ridge.intercept_))
        return
    if labels.ndim == 2:
        columns = labels.astype("int32").T
        strengths = list(strengths)
        of_columns = np.broadcast_to(weights.reshape(len(weights), -1), labels.shape).T
        pairs = zip(columns, of_columns, strict=True)
        each = (_heads(vectors, column, 2, some, strengths) for column, some in pairs)
        for heads in zip(*each, strict=True):
            # The difference of the two logits is that of yes.
            kernel, bias = (np.stack(x, axis=-1) for x in zip(*heads, strict=True))
            yield Head(kernel[:, 1] - kernel[:, 0], bias[1] - bias[0])
        return
    classes = np.unique(labels)
    solver = LogisticRegression(max_iter=1000, tol=1e-4, warm_start=True)
    for c in strengths:
        kernel = np.zeros((vectors.shape[1], num_classes))
        bias = np.full(num_classes, _NEVER)
        bias[classes] = 0.0
        if len(classes) > 1:
            solver.set_params(C=c).fit(vectors, labels, weights)
            rows, offsets = solver.coef_, solver.intercept_
            if len(classes) == 2:
                rows, offsets = np.stack([-rows[0], rows[0]]) / 2, np.array([-1, 1]) * offsets / 2
            kernel[:, classes], bias[classes] = rows.T, offsets
        yield Head(kernel, bias)


_NEVER = -10.0
"""The logit of a class without an example."""


def _loss(logits: np.ndarray, labels: np.ndarray) -> float:
    """The mean loss of logits."""
    if labels.ndim == 2:
        return float(np.mean(np.logaddexp(0, logits) - labels * logits))
    if labels.dtype.kind == "f":
        return float(np.mean((logits[:, 0] - labels) ** 2))
    logits = logits - logits.max(axis=1, keepdims=True)
    right = logits[np.arange(len(labels)), labels]
    return float(np.mean(np.log(np.exp(logits).sum(axis=1)) - right))
