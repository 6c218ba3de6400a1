"""Token weights of text models by attention or by gradients."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import keras
import numpy as np
from keras import ops

from keras_attn.arrays import Array, unit_length
from keras_attn.hints import Tensor
from keras_attn.layers import AttentionPooling, TokenWeighting
from keras_attn.layers.collect import traced_attention
from keras_attn.models.text_classifier import embedding_and_rest, known_kind

_ROUNDS = 32, 96, 288  # points of integrated gradients, until the sum is right
_ERROR = 0.02


class GradientPath(NamedTuple):
    """The path of integrated gradients, from the vectors of a blank text to the text's vectors.

    The blank text is the text with `blank_id` in place of each word: `[MASK]`, or padding if the
    tokenizer has no such token. Ids in `kept`, such as special tokens, are not replaced.
    (Zero vectors would be no good beginning: the output of a model with norms jumps there.)
    """

    blank_id: int
    kept: tuple[int, ...]

    def blank(self, ids: Tensor) -> Tensor:
        """Returns the ids of the blank text."""
        found = ops.full_like(ids, self.blank_id)
        for number in self.kept:
            found = ops.where(ops.equal(ids, number), ids, found)
        return found


def has_attention(model: keras.Model) -> bool:
    """Returns whether a text classifier has attention pooling or learned weights of tokens."""
    kinds = (AttentionPooling, TokenWeighting)
    return known_kind(model) is not None and any(isinstance(layer, kinds) for layer in model.layers)


def has_self_attention(model: keras.Model) -> bool:
    """Returns whether a text classifier has self-attention."""
    return known_kind(model) in ("transformer", "bert")


def attention_function(model: keras.Model) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Returns a function from ids to the logits and the attention weight of each token.

    With attention pooling, the weights are the weights of the pooling. In a bag classifier, a
    token's weight is its share of the sum of the learned weights. If the bag has pairs of tokens,
    each pair's share is split evenly between its two tokens, and the token's weight is the mean of
    its own share and its parts of the pairs' shares.
    """
    if not has_attention(model):
        raise ValueError(
            f"Expected a model that weights its tokens. Received: {model.name}, which pools "
            "tokens without weights. Explain it by gradients, or build it with "
            "pooling='attention' (a bag: token_weights)."
        )
    names = {layer.name for layer in model.layers}

    def run(ids: Tensor) -> tuple[Tensor, Tensor]:
        with traced_attention() as calls:
            logits = model(ids, training=False)
        found = {layer.name: weights for layer, _, weights in calls}
        if "pooling" in found:
            return logits, ops.cast(found["pooling"], "float32")
        weights = _shares(found["weighting"])
        if "pairs" in names:
            of_pairs = split_pairs_evenly(_shares(found["pair_weighting"]))
            # A text of one token has no pairs: all is the token's.
            some = ops.sum(of_pairs, axis=1, keepdims=True) > 0
            weights = ops.where(some, 0.5 * (weights + of_pairs), weights)
        return logits, weights

    return run


def _shares(weights: Tensor) -> Tensor:
    weights = ops.abs(ops.cast(weights, "float32"))
    total = ops.sum(weights, axis=1, keepdims=True)
    return weights / ops.where(total > 0, total, ops.ones_like(total))


def split_pairs_evenly(values: Tensor) -> Tensor:
    """Splits the value of each pair of tokens evenly between the two tokens."""
    before = ops.concatenate([ops.zeros_like(values[:, :1]), values[:, :-1]], axis=1)
    return 0.5 * (values + before)


def gradient_function(
    model: keras.Model,
    multi_label: bool = False,
    path: GradientPath | None = None,
    temperature: float = 1.0,
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Returns a function from ids and classes to the logits and the contribution of each token.

    Without a `path`, the function computes gradient times input (Shrikumar et al., 2016). With e[s]
    the embedding of token s and c the explained class,

        weights[s] = e[s] . d odds_c / d e[s]
        odds_c     = logit_c - log sum_{k != c} exp(logit_k) = log(p_c / (1 - p_c))

    The logits of the model are divided by `temperature`.

    A positive weight supports the class; a negative weight speaks against it. (The softmax depends
    only on differences of logits, so the gradient of a single logit would not explain the
    prediction.) If there are two classes and the model is linear in its embeddings, like a bag
    without a hidden layer, the weights and the difference of the biases sum to the log-odds. The
    weight of a pair of tokens is split evenly between its two tokens.

    Layer norms make a model almost independent of the lengths of its vectors. In such a model, a
    weight may be near 0 or have the wrong sign, although the prediction depends on the token.
    Integrated gradients (Sundararajan et al., 2017) do not have this fault. With a `path`, the
    function computes them from the gradients at n points between the embeddings b of the blank text
    and the embeddings e of the text:

        weights[s] = (e[s] - b[s]) . 1/n sum_{i < n} d odds_c / d e[s] at b + (i + 1/2) / n (e - b)

    These weights sum to the log-odds minus the log-odds of the blank text. With n = 32, the sum is
    compared with this difference; if the error exceeds 2 % of the sum of the absolute weights, n is
    96 for this text, and then 288.
    """
    embed, rest = embedding_and_rest(model)

    def run(ids: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        ids = ops.convert_to_tensor(ids)  # Keras refuses lists of tensors and arrays

        def decide(embedded: list[Tensor], found: Tensor | None = None) -> tuple[Tensor, Tensor]:
            logits = ops.cast(rest([*embedded, ids], training=False), "float32")
            chosen = _chosen(logits if found is None else found, classes)
            return log_odds(logits / temperature, chosen, multi_label), logits

        # Without the implicit mask of the layer, which Keras would warn about.
        embedded = [ops.stop_gradient(x) for x in embed(ids)]
        blank = None if path is None else embed(path.blank(ids))
        logits, (weights, *others) = _contributions(decide, embedded, blank)
        for of_pairs in others:
            weights = weights + split_pairs_evenly(of_pairs)
        return logits, weights

    return run


def log_odds(logits: Tensor, classes: Tensor, multi_label: bool = False) -> Tensor:
    """Computes the log-odds of a class of each row, `log(p / (1 - p))`."""
    picked = ops.one_hot(classes, logits.shape[-1], dtype="float32")
    odds = ops.sum(picked * logits, axis=1)
    if multi_label:
        return odds
    # A number that no logit comes near, in place of the class itself.
    return odds - ops.logsumexp(ops.where(picked > 0, -1e9, logits), axis=1)


def encoder_gradient_function(
    model: keras.Model,
    pick: Callable[[dict[str, Tensor], Any], Tensor],
    path: GradientPath | None = None,
) -> Callable[[dict[str, Tensor], Tensor], tuple[dict[str, Tensor], Tensor]]:
    """Returns a function that computes the contribution of each token of an encoder with heads.

    The contribution is gradient times input, where e[t] is the sum of the embeddings of token t,
    its segment and its position, after the norm:

        weights[t] = e[t] . d pick(logits) / d e[t]

    With a `path`, the contribution is that of integrated gradients, as in `gradient_function`.
    """
    layers = {layer.name: layer for layer in model.layers}
    if "embedding" not in layers:
        raise ValueError(
            f"Expected an encoder with a layer `embedding`. Received: {model.name!r} with "
            f"{sorted(layers)}."
        )
    embedded = layers["embedding"].output
    embed = keras.Model(model.input, embedded, name="embed")
    others = {n: x for n, x in model.input.items() if n not in ("token_ids", "segment_ids")}
    outputs, tied = {}, set()
    for name, output in model.output.items():
        operation, node, _ = output._keras_history
        if operation is layers["embedding"]:  # again, where Keras cannot cut a graph
            output = operation._inbound_nodes[node].input_tensors[0]
            tied.add(name)
        outputs[name] = output
    rest = keras.Model([embedded, others], outputs, name="rest")

    def run(
        inputs: dict[str, Tensor], index: Tensor | None = None
    ) -> tuple[dict[str, Tensor], Tensor]:
        def decide(embedded: list[Tensor], _: Any = None) -> tuple[Tensor, dict[str, Tensor]]:
            found = rest([*embedded, {name: inputs[name] for name in others}], training=False)
            found |= {name: layers["embedding"](found[name], reverse=True) for name in tied}
            logits = {name: ops.cast(x, "float32") for name, x in found.items()}
            return pick(logits, index), logits

        # Without the implicit mask of the layer, which Keras would warn about.
        embedded = ops.stop_gradient(embed(dict(inputs), training=False))
        blank = None
        if path is not None:
            blank_ids = path.blank(inputs["token_ids"])
            blank = [embed({**inputs, "token_ids": blank_ids}, training=False)]
        logits, (weights,) = _contributions(decide, [embedded], blank)
        return logits, weights

    return run


def pair_gradient_function(
    model: keras.Model, path: GradientPath | None = None, temperature: float = 1.0
) -> Callable[[dict[str, Tensor], Tensor], tuple[Tensor, dict[str, Tensor]]]:
    """Returns a function that computes the logits of text pairs and the contribution of each word.

    The contribution is gradient times input of the log-odds of a class or, with a `path`, the
    integrated gradient, as in `gradient_function`.
    """
    layer = model.get_layer("embedding")
    embedded = {
        name: node.output_tensors[0]
        for node in layer._inbound_nodes
        for name, ids in model.input.items()
        if node.input_tensors[0] is ids
    }
    rest = keras.Model([embedded, model.input], model.output, name="rest")

    def run(ids: dict[str, Tensor], classes: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        names = list(embedded)

        def decide(vectors: list[Tensor], found: Tensor | None = None) -> tuple[Tensor, Tensor]:
            given = dict(zip(names, vectors, strict=True))
            logits = ops.cast(rest([given, ids], training=False), "float32")
            chosen = _chosen(logits if found is None else found, classes)
            return log_odds(logits / temperature, chosen), logits

        vectors = [ops.stop_gradient(layer(ids[name])) for name in names]
        blank = None if path is None else [layer(path.blank(ids[name])) for name in names]
        logits, weights = _contributions(decide, vectors, blank)
        return logits, dict(zip(names, weights, strict=True))

    return run


def _chosen(logits: Tensor, classes: Tensor) -> Tensor:
    """The classes; negative ones are replaced by the class with the greatest logit."""
    best = ops.cast(ops.argmax(logits, axis=-1), "int32")
    return ops.where(classes < 0, best, ops.cast(classes, "int32"))


def _contributions(
    decide: Callable, inputs: list[Tensor], blank: list[Tensor] | None
) -> tuple[Any, list[Tensor]]:
    """Computes gradient times input of each position or, from `blank`, the integrated gradient.

    Args:
        decide: Function `(inputs, found=None) -> (numbers (B,), found)`, where `found` are the
            outputs of the model. `found` is given for other points, and has the outputs for the
            inputs.
        inputs: Tensors `(B, S, D)`.
        blank: The tensors with which a path to the inputs begins, or None.

    Returns:
        The outputs for the inputs, and a list of the contributions `(B, S)`.
    """
    if blank is None:
        found, gradients = _gradients(decide, inputs)
        return found, _products(inputs, gradients)
    blank = [ops.stop_gradient(x) for x in blank]
    numbers, found = keras.tree.map_structure(ops.stop_gradient, decide(inputs))
    gained = numbers - ops.stop_gradient(decide(blank, found)[0])
    ways = [x - b for x, b in zip(inputs, blank, strict=True)]
    left = ops.convert_to_tensor(1 - _places())

    def wrong(sums: list[Tensor], count: Tensor) -> Tensor:
        """Whether the weights of each row do not sum to what it gained."""
        weights = [w / count for w in _products(ways, sums)]
        total = sum(ops.sum(w, axis=1) for w in weights)
        size = sum(ops.sum(ops.abs(w), axis=1) for w in weights)
        return ops.abs(total - gained) > _ERROR * size

    def goes_on(step: Tensor, counts: Tensor, active: Tensor, *sums: Tensor) -> Tensor:
        return ops.logical_and(step < _ROUNDS[-1], ops.any(active))

    def add(step: Tensor, counts: Tensor, active: Tensor, *sums: Tensor) -> tuple[Tensor, ...]:
        back = ops.take(left, step)
        pairs = zip(inputs, ways, strict=True)
        points = [x - ops.cast(back, x.dtype) * way for x, way in pairs]
        _, gradients = _gradients(lambda given: decide(given, found), points)
        new = [
            ops.where(active[:, None, None], x + ops.cast(g, "float32"), x)
            for x, g in zip(sums, gradients, strict=True)
        ]
        step = step + 1
        counts = counts + ops.cast(active, "float32")
        ends = functools.reduce(ops.logical_or, [ops.equal(step, n) for n in _ROUNDS])
        still = ops.logical_or(ops.logical_not(ends), wrong(new, ops.cast(step, "float32")))
        return (step, counts, ops.logical_and(active, still), *new)

    zeros = ops.zeros_like(gained, dtype="float32")
    begin = (ops.zeros((), "int32"), zeros, ops.equal(zeros, 0.0))
    _, counts, _, *sums = ops.while_loop(
        goes_on, add, (*begin, *(ops.zeros_like(x, dtype="float32") for x in inputs))
    )
    return found, [x / counts[:, None] for x in _products(ways, sums)]


def _places() -> np.ndarray:
    """The points of all rounds, from 0 to 1. Each round adds points until all points are the
    middles of equal parts."""
    first, *more = _ROUNDS
    places = [(np.arange(first) + 0.5) / first]
    places += [(np.arange(n)[np.arange(n) % 3 != 1] + 0.5) / n for n in more]
    return np.concatenate(places).astype("float32")


def _products(inputs: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
    """Gradient times input of each position."""
    return [
        ops.sum(ops.cast(x, "float32") * ops.cast(g, "float32"), axis=-1)
        for x, g in zip(inputs, gradients, strict=True)
    ]


def _gradients(function: Callable, inputs: list[Tensor]) -> tuple[Any, list[Tensor]]:
    """Returns aux and the gradients of the sum of a `function(inputs) -> (numbers (B,), aux)`."""
    backend = keras.backend.backend()

    def summed(given: list[Tensor]) -> tuple[Tensor, Any]:
        numbers, aux = function(given)
        return ops.sum(numbers), aux

    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(inputs)
            value, aux = summed(inputs)
        return aux, tape.gradient(value, inputs, unconnected_gradients="zero")
    if backend == "jax":
        import jax

        (_, aux), gradients = jax.value_and_grad(summed, has_aux=True)(inputs)
        return aux, gradients
    if backend == "torch":
        import torch

        with torch.enable_grad():
            tensors = [cast(torch.Tensor, x).detach().requires_grad_(True) for x in inputs]
            value, aux = summed(cast(list[Tensor], tensors))
            gradients = torch.autograd.grad(cast(torch.Tensor, value), tensors)
        return keras.tree.map_structure(lambda x: x.detach(), aux), list(gradients)
    raise NotImplementedError(f"Gradients are not implemented for the {backend} backend.")


def label_log_odds(logits: Mapping[str, Tensor], index: Tensor) -> Tensor:
    """Returns the log-odds `(B,)` of labels from `tags (B, T, C)`; `index (B, 2)` has position and
    label."""
    at = ops.take_along_axis(logits["tags"], index[:, :1, None], axis=1)[:, 0]
    return log_odds(at, index[:, 1])


def span_score(logits: Mapping[str, Tensor], index: Tensor) -> Tensor:
    """Returns the scores `(B,)` of spans from `spans (B, T, 2)`; `index (B, 2)` has the first and
    last token."""
    picked = ops.take_along_axis(logits["spans"], index[:, :, None], axis=1)  # (B, 2, 2)
    return picked[:, 0, 0] + picked[:, 1, 1]


def cosine(logits: Mapping[str, Array], index: Array) -> Array:
    """Computes the cosines `(B,)` of `vectors (B, D)` and unit vectors `index (B, D)`."""
    vectors = unit_length(ops, cast(Array, logits["vectors"]))
    return ops.sum(vectors * index, axis=-1)


def only_class(logits: Mapping[str, Tensor], index: Tensor) -> Tensor:
    """Returns the output `(B,)` of a head with one class, `classes (B, 1)`."""
    return logits["classes"][:, 0]
