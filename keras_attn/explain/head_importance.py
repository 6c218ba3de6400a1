"""The importance of attention heads, by ablation or by gradients."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.layers import ablate, heads_of
from keras_attn.ops.derivatives import with_pullback
from keras_attn.visualize import plot_head_importance

METHODS = ("ablation", "gradient")


@dataclasses.dataclass(frozen=True, eq=False)
class HeadImportance:
    """The importance of each head of a model, from `head_importance`.

    `print` shows a table, the most important head first.

    Args:
        values: The importance of the heads of each multi-head layer, floats `(N,)`, keyed by the
            path of the layer.
        method: How the importance was measured: `"ablation"` or `"gradient"`.
        score: The score of the model with all heads; None with `method="gradient"`.

    Example:

    >>> found = HeadImportance({"attend": np.array([0.25, 0.5])}, "ablation", 0.75)
    >>> print(found)
    importance  head  layer
          0.5      1  attend
         0.25      0  attend
    by ablation; the score of the whole model is 0.75
    """

    values: Mapping[str, np.ndarray]
    method: str
    score: float | None = None

    def strongest(self, count: int = 5) -> list[tuple[str, int, float]]:
        """Lists the most important heads.

        Args:
            count: Maximum number of heads.

        Returns:
            A list of tuples (path of the layer, index of the head, importance), the most important
            first.

        Example:

        >>> HeadImportance({"attend": np.array([0.25, 0.5])}, "ablation").strongest(1)
        [('attend', 1, 0.5)]
        """
        every = [(p, n, float(x)) for p, row in self.values.items() for n, x in enumerate(row)]
        return sorted(every, key=lambda found: -found[2])[:count]

    def to_dict(self) -> dict[str, Any]:
        """Returns a dict for JSON with `method`, `score` and `layers`.

        `layers` has a list of the importance of each head, keyed by the path of the layer.

        Example:

        >>> HeadImportance({"attend": np.array([0.25, 0.5])}, "gradient").to_dict()
        {'method': 'gradient', 'score': None, 'layers': {'attend': [0.25, 0.5]}}
        """
        layers = {path: row.tolist() for path, row in self.values.items()}
        return {"method": self.method, "score": self.score, "layers": layers}

    def plot(self, path: str | os.PathLike | None = None) -> Any:
        """Draws the importance of the heads with matplotlib, layers as rows and heads as columns.

        Args:
            path: File to write, if any.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.

        Example:

        >>> figure = HeadImportance({"attend": np.array([0.25, 0.5])}, "ablation").plot()
        >>> figure.axes[0].images[0].get_array().shape
        (1, 2)
        """
        return plot_head_importance(self.values, path)

    def __str__(self) -> str:
        rows = [f"{value:10.4g}  {n:4}  {path}" for path, n, value in self.strongest(10**9)]
        whole = "" if self.score is None else f"; the score of the whole model is {self.score:.4g}"
        return "\n".join(["importance  head  layer", *rows, f"by {self.method}{whole}"])


def head_importance(
    model: keras.Model,
    data: Iterable[Any] | None = None,
    score: Callable[[keras.Model], float] | None = None,
    method: str = "ablation",
) -> HeadImportance:
    """Measures how much a model needs each of its attention heads.

    With ablation (Michel et al., 2019, section 3.2), `keras_attn.ablate` switches off one head at a
    time. The importance of a head is the decrease of the score, which is negative if the model is
    better without the head:

        importance_n = score(model) - score(model without head n)

    With gradients (section 4.1 of the same paper), the importance is the absolute derivative of the
    loss with respect to a factor xi_n = 1 of the head's context, averaged over examples. If Wo_n is
    the part of the output projection that belongs to the head, the importance is

        importance_n = mean over examples | sum(Wo_n * dLoss / dWo_n) |

    This method takes one forward and backward pass for each example, which covers all heads, and
    estimates how the loss would change without each head.

    References:
        - [Michel et al., 2019](https://arxiv.org/abs/1905.10650): Are Sixteen Heads Really Better
          than One?

    Args:
        model: A built Keras model. For gradients, or if there is no `score`, it must be compiled.
            For a task, pass `task.model`.
        data: Batches `(x, y)` or `(x, y, sample_weight)`, such as `task.dataset(examples)`. Not
            needed for ablation with a `score`.
        score: For ablation, a function of the model that returns a number, where higher is better,
            such as `lambda model: task.evaluate(examples).accuracy`. If None, the score is minus
            the loss on `data`.
        method: `"ablation"` or `"gradient"`.

    Returns:
        A `HeadImportance`.

    Raises:
        ValueError: If the method is unknown; if the model has no multi-head attention; or if, with
            `method="gradient"` or without a `score`, `data` is missing or empty, or the model is
            not compiled.

    Example:

    >>> x = keras.Input((3, 8))
    >>> y = keras.layers.Dense(1)(MultiHeadSelfAttention(num_heads=2, name="attend")(x))
    >>> model = keras.Model(x, y)
    >>> model.compile("adam", "mse")
    >>> batches = [(np.ones((4, 3, 8)), np.ones((4, 3, 1)))]
    >>> found = head_importance(model, batches, method="gradient")
    >>> found.values["attend"].shape
    (2,)
    """
    if method not in METHODS:
        raise ValueError(f"`method` must be one of {METHODS}. Received: {method!r}.")
    layers = heads_of(model)
    if method == "gradient" or score is None:
        if data is None or not model.compiled:
            raise ValueError(
                "Expected `data`, and a compiled model with a loss"
                + ("." if method == "gradient" else ", or a `score`.")
                + f" Received: data={type(data).__name__}, compiled={model.compiled}."
            )
        batches = [keras.utils.unpack_x_y_sample_weight(batch) for batch in _batches(data)]
        if not batches:
            raise ValueError("Expected at least one batch in `data`. Received: none.")
    if method == "gradient":
        return HeadImportance(_by_gradients(model, layers, batches), method)
    measure = score or (lambda model: -_mean_loss(model, batches))
    whole = float(measure(model))
    values = {}
    for path, layer in layers.items():
        values[path] = np.zeros(layer.num_heads)
        for number in range(layer.num_heads):
            with ablate(model, {path: number}):
                values[path][number] = whole - float(measure(model))
    return HeadImportance(values, method, whole)


def _batches(data: Iterable[Any] | keras.utils.PyDataset) -> Iterable[Any]:
    """The batches of an epoch."""
    if isinstance(data, keras.utils.PyDataset):
        return (data[i] for i in range(len(data)))
    return data


def _loss(model: keras.Model, batch: tuple[Any, Any, Any]) -> Any:
    x, y, weights = batch
    return model.compute_loss(x, y, model(x, training=False), weights, training=False)


def _mean_loss(model: keras.Model, batches: list[tuple[Any, Any, Any]]) -> float:
    sizes = [_size(batch) for batch in batches]
    losses = [float(ops.convert_to_numpy(_loss(model, batch))) for batch in batches]
    return float(np.average(losses, weights=sizes))


def _size(batch: tuple[Any, Any, Any]) -> int:
    return int(np.shape(keras.tree.flatten(batch[0])[0])[0])


def _by_gradients(
    model: keras.Model, layers: Mapping[str, Any], batches: list[tuple[Any, Any, Any]]
) -> dict[str, np.ndarray]:
    kernels = {path: layer.output_dense._kernel for path, layer in layers.items()}
    shapes = {path: tuple(kernel.shape) for path, kernel in kernels.items()}
    places = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes.values())])
    start = ops.concatenate([ops.reshape(k.value, (-1,)) for k in kernels.values()])
    values = np.asarray(ops.convert_to_numpy(start), "float64")
    totals = {path: np.zeros(layer.num_heads) for path, layer in layers.items()}
    count = 0
    for batch in batches:
        for row in range(_size(batch)):
            one = keras.tree.map_structure(
                lambda part, row=row: None if part is None else part[row : row + 1], batch
            )

            def loss(flat: Tensor, one: Any = one) -> Any:
                parts = [flat[a:b] for a, b in itertools.pairwise(places)]
                held = [
                    (kernels[path], ops.reshape(part, shapes[path]))
                    for path, part in zip(kernels, parts, strict=True)
                ]
                with keras.StatelessScope(state_mapping=held):
                    return _loss(model, one)

            found, pull = with_pullback(loss, start)
            products = values * ops.convert_to_numpy(pull(ops.ones_like(found)))
            for i, (path, layer) in enumerate(layers.items()):
                of_heads = products[places[i] : places[i + 1]].reshape(layer.num_heads, -1)
                totals[path] += np.abs(of_heads.sum(axis=1))
            count += 1
    return {path: total / count for path, total in totals.items()}
