"""The intermediate results of one attention head of a layer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.hints import Nest, Tensor
from keras_attn.layers.collect import AttentionKey, collect_calls
from keras_attn.ops import dot_product_attention

_TERMS = ("bias", "softcap", "sinks", "score_mod")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class AttentionSteps:
    """The intermediate results of one attention head for one input, from `attention_steps`.

        products = query key^T                          (T, S)
        weights  = softmax(scale * products where visible)
        context  = weights value                        (T, Hv)

    `weights` and `context` are the results of the layer itself.

    The arrays among the arguments are float32, except `visible`. H is the width of queries and
    keys, and Hv the width of values.

    Args:
        path: Path of the layer.
        head: Index of the head, from 0.
        query_tokens: The T tokens of the queries.
        key_tokens: The S tokens of the keys.
        scale: Factor of the products.
        query: Queries `(T, H)`.
        key: Keys `(S, H)`.
        value: Values `(S, Hv)`.
        visible: Boolean `(T, S)`, True for keys that a query may attend to.
        weights: Attention weights `(T, S)`.
        context: Contexts `(T, Hv)`.

    Example:

    >>> layer = MultiHeadSelfAttention(num_heads=2, name="attend")
    >>> steps = attention_steps(layer, keras.random.normal((1, 3, 8)), ["one", "two", "three"])
    >>> steps, steps.products.shape
    (<AttentionSteps of 'attend', head 0: 3 queries, 3 keys>, (3, 3))
    """

    path: str
    head: int
    query_tokens: Sequence[str]
    key_tokens: Sequence[str]
    scale: float
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    visible: np.ndarray
    weights: np.ndarray
    context: np.ndarray

    @property
    def products(self) -> np.ndarray:
        """Dot products of queries and keys, float64 `(T, S)`."""
        return self.query.astype("float64") @ self.key.astype("float64").T

    def __repr__(self) -> str:
        return (
            f"<AttentionSteps of {self.path!r}, head {self.head}: "
            f"{len(self.query_tokens)} queries, {len(self.key_tokens)} keys>"
        )


def attention_steps(
    model: Callable[..., Any],
    inputs: Nest,
    tokens: Sequence[str],
    key_tokens: Sequence[str] | None = None,
    *,
    path: str = "",
    head: int = 0,
    row: int = 0,
) -> AttentionSteps:
    """Calls a model and returns the intermediate results of one attention head.

    The head may belong to a `SelfAttention`, `MultiHeadSelfAttention` or `MultiHeadAttention`
    anywhere in the model. Rotary positions are already applied to the queries and keys. Layers that
    change the products in other ways (an attention bias, ALiBi, relative positions, a soft cap,
    sinks, a `score_mod`) are not supported, because the formulas of `AttentionSteps` do not
    describe them.

    Args:
        model: A Keras model or layer.
        inputs: Inputs of the model, for a batch of one or several rows.
        tokens: The tokens of the queries, without padding.
        key_tokens: The tokens of the keys; `tokens` if None.
        path: Path of the layer, or a part of it such as `"block_3"`. The first matching layer is
            used.
        head: Index of the head, from 0.
        row: Index of the row of the batch, from 0.

    Returns:
        An `AttentionSteps`, which `attention_steps_page` shows.

    Raises:
        ValueError: If no layer matches `path`, the head or the row does not exist, there are no
            tokens, or more tokens than queries or keys, or the layer is not supported.

    Example:

    >>> layer = MultiHeadSelfAttention(num_heads=2)
    >>> steps = attention_steps(layer, keras.random.normal((1, 2, 8)), ["a", "dog"], head=1)
    >>> steps.weights.shape, steps.context.shape
    ((2, 2), (2, 4))
    """
    with collect_calls() as calls:
        model(inputs, **({"training": False} if isinstance(model, keras.Model) else {}))
    known = {key: call for key, call in calls.items() if call}
    chosen = next((key for key in known if path in key.path), None)
    if chosen is None:
        raise ValueError(
            "Expected the path of a dot-product attention layer, one of "
            f"{[key.path for key in known]}. Received: {path!r}."
        )
    return _steps(chosen, known[chosen], list(tokens), key_tokens, head, row)


def _steps(
    place: AttentionKey,
    call: dict[str, Any],
    tokens: Sequence[str],
    key_tokens: Sequence[str] | None,
    head: int,
    row: int,
) -> AttentionSteps:
    query, key, value = call["products"]
    arguments = call["arguments"]
    terms = [name for name in _TERMS if arguments.get(name) is not None]
    if terms:
        raise ValueError(
            "Expected a layer whose weights are the softmax of scaled dot products. "
            f"Received: {place.path}, which also has {', '.join(terms)}."
        )
    key_tokens = list(tokens if key_tokens is None else key_tokens)
    batch, queries, heads, width = query.shape
    if not 0 <= head < heads or not 0 <= row < batch:
        raise ValueError(
            f"{place.path} has heads 0 to {heads - 1} and rows 0 to {batch - 1}. Received: "
            f"head={head}, row={row}."
        )
    if not 0 < len(tokens) <= queries or not 0 < len(key_tokens) <= key.shape[1]:
        raise ValueError(
            f"Expected 1 to {queries} query tokens and 1 to {key.shape[1]} key tokens. "
            f"Received: {len(tokens)} query tokens and {len(key_tokens)} key tokens."
        )
    # With products of 0, exactly the visible keys have a weight.
    _, shares = dot_product_attention(
        query * 0, key * 0, value, return_attention_scores=True, kernel="plain", **arguments
    )
    shared = head // (heads // key.shape[2])

    def cut(x: Tensor, number: int, count: int) -> np.ndarray:
        return _array(x)[row, :count, number]

    scale = arguments["scale"]
    return AttentionSteps(
        place.path,
        head,
        list(tokens),
        key_tokens,
        1 / math.sqrt(width) if scale is None else float(scale),
        cut(query, head, len(tokens)),
        cut(key, shared, len(key_tokens)),
        cut(value, shared, len(key_tokens)),
        _array(shares)[row, head, : len(tokens), : len(key_tokens)] > 0,
        _array(call["weights"]).reshape(batch, heads, queries, -1)[
            row, head, : len(tokens), : len(key_tokens)
        ],
        cut(call["context"], head, len(tokens)),
    )


def _array(x: Tensor) -> np.ndarray:
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")))
