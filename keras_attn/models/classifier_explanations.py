"""What a text classifier looked at: its own attention, and gradients of its decision."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn.layers import AttentionPooling, TokenWeighting
from keras_attn.layers.collect import traced_attention
from keras_attn.models.text_classifier import classifier_kind, embedding_and_rest

Tensor = Any


def has_attention(model: keras.Model) -> bool:
    """Whether a text classifier gives its tokens weights of its own.

    Args:
        model: The classifier.

    Returns:
        True where its pooling is attention, or where it is a bag whose tokens are weighted.

    Example:

    >>> from keras_attn.models import BagClassifierConfig
    >>> has_attention(BagClassifierConfig(50, num_classes=2, token_weights="none").build())
    False
    """
    classifier_kind(model)
    kinds = (AttentionPooling, TokenWeighting)
    return any(isinstance(layer, kinds) for layer in model.layers)


def attention_function(model: keras.Model) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Makes a function that classifies and says how much each token weighed.

    With attention pooling the weights are those of the pooling. In a bag they are the tokens'
    shares in the sum of the learned weights; where it has pairs, the mean of that and of the
    pairs' shares, of which each of the two tokens gets a half.

    Args:
        model: A text classifier, reloaded perhaps.

    Returns:
        `function(ids (B, S)) -> (logits (B, C), weights (B, S))`, for eager use and in graphs of
        any backend, in inference. Weights are not below 0 and sum to 1 over the tokens of a row, or
        are 0 in a row without a token.

    Raises:
        ValueError: If the model has no attention of its own.

    Example:

    >>> from keras_attn.models import RecurrentClassifierConfig
    >>> config = RecurrentClassifierConfig(50, num_classes=3, dim=8, units=16)
    >>> logits, weights = attention_function(config.build())(ops.array([[5, 6, 0]]))
    >>> tuple(logits.shape), [round(float(w), 3) for w in ops.sum(weights, axis=1)]
    ((1, 3), [1.0])
    """
    if not has_attention(model):
        raise ValueError(
            f"{model.name} has no attention of its own: its tokens are pooled without weights. "
            "Explain it by gradients, or build it with pooling='attention' (a bag: token_weights)."
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
    """Gives each token half of what belongs to the pair before it and of that behind it.

    Args:
        values: `(B, S)`; position s is of the pair of the tokens s and s + 1, the last one is 0.

    Returns:
        `(B, S)`, of the same sum.

    Example:

    >>> ops.convert_to_numpy(split_pairs_evenly(ops.array([[2.0, 4.0, 0.0]]))).tolist()
    [[1.0, 3.0, 2.0]]
    """
    before = ops.concatenate([ops.zeros_like(values[:, :1]), values[:, :-1]], axis=1)
    return 0.5 * (values + before)


def gradient_function(
    model: keras.Model, multi_label: bool = False
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Makes a function that classifies and says what each token added to the decision.

    It is gradient times input (Shrikumar et al., 2016): with e[s] the embedding of token s and c
    the class that is explained,

        weights[s] = e[s] . d odds_c / d e[s]
        odds_c     = logit_c - log sum_{k != c} exp(logit_k) = log(p_c / (1 - p_c))

    above 0 where the token speaks for the class, below 0 where it speaks against it. (A logit alone
    says nothing: with the softmax only differences of logits matter.) For two classes and a model
    that is linear in its embeddings, as the bag without a hidden layer, they and the difference of
    the biases sum to the log-odds. What belongs to a pair of tokens is split evenly between the
    two.

    Args:
        model: A text classifier, reloaded perhaps.
        multi_label: Whether a text may have several labels, so that the log-odds of a class are its
            logit.

    Returns:
        `function(ids (B, S), classes (B,)) -> (logits (B, C), weights (B, S))`, in inference; a
        class below 0 stands for the one with the greatest logit.

    Raises:
        TypeError: For another model.

    Example:

    >>> from keras_attn.models import BagClassifierConfig
    >>> model = BagClassifierConfig(50, num_classes=2, pair_buckets=0).build()
    >>> logits, weights = gradient_function(model)(ops.array([[5, 6, 0]]), ops.array([1]))
    >>> bool(abs(float(ops.sum(weights)) - float(logits[0, 1] - logits[0, 0])) < 1e-6)
    True
    """
    embed, rest = embedding_and_rest(model)

    def run(ids: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        ids = ops.convert_to_tensor(ids)  # Keras takes no lists of both tensors and arrays

        def decide(embedded: list[Tensor]) -> tuple[Tensor, Tensor]:
            logits = ops.cast(rest([*embedded, ids], training=False), "float32")
            best = ops.cast(ops.argmax(logits, axis=-1), "int32")
            chosen = ops.where(classes < 0, best, ops.cast(classes, "int32"))
            picked = ops.one_hot(chosen, logits.shape[-1], dtype="float32")
            odds = ops.sum(picked * logits, axis=1)
            if not multi_label:
                # A number that no logit comes near, in place of the class itself.
                odds = odds - ops.logsumexp(ops.where(picked > 0, -1e9, logits), axis=1)
            return ops.sum(odds), logits

        embedded = embed(ids)
        logits, gradients = _gradients(decide, embedded)
        of_each = [
            ops.sum(ops.cast(e, "float32") * ops.cast(g, "float32"), axis=-1)
            for e, g in zip(embedded, gradients, strict=True)
        ]
        weights = of_each[0]
        for of_pairs in of_each[1:]:
            weights = weights + split_pairs_evenly(of_pairs)
        return logits, weights

    return run


def _gradients(function: Callable, inputs: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """`function(inputs) -> (scalar, aux)`: returns aux and the scalar's gradients."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(inputs)
            value, aux = function(inputs)
        return aux, tape.gradient(value, inputs, unconnected_gradients="zero")
    if backend == "jax":
        import jax

        (_, aux), gradients = jax.value_and_grad(function, has_aux=True)(inputs)
        return aux, gradients
    if backend == "torch":
        import torch

        with torch.enable_grad():
            inputs = [x.detach().requires_grad_(True) for x in inputs]
            value, aux = function(inputs)
            gradients = torch.autograd.grad(value, inputs)
        return aux.detach(), list(gradients)
    raise NotImplementedError(f"Gradients of the {backend} backend are not known here.")
