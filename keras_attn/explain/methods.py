"""Methods that explain a text classifier, by name and compiled."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_attn.explain.attributions import attention_function, gradient_function, has_attention
from keras_attn.generation import CompiledFunction

METHODS = ("attention", "gradient")


def checked_method(model: keras.Model, method: str | None = None) -> str:
    """Chooses the method that weights the tokens of a text classifier.

    Args:
        model: The classifier.
        method: Name of the method. If None, attention if the model has it, or else the gradient.

    Returns:
        `"attention"` or `"gradient"`.

    Raises:
        ValueError: If the name is unknown, or the model does not weight its tokens.

    Example:

    >>> from keras_attn.models import BagClassifierConfig
    >>> checked_method(BagClassifierConfig(50, num_classes=2, token_weights="none").build())
    'gradient'
    """
    known = METHODS if has_attention(model) else METHODS[1:]
    if method is None:
        return known[0]
    if method not in known:
        why = " The model pools its tokens without weights." if method in METHODS else ""
        raise ValueError(f"`method` must be one of {list(known)}. Received: {method!r}.{why}")
    return method


def check_label(label: str | None, method: str) -> None:
    """Refuses a class where it makes no difference.

    Args:
        label: Name of the class that is to be explained, or None.
        method: `"attention"` or `"gradient"`.

    Raises:
        ValueError: If there is a label for attention.

    Example:

    >>> check_label("good", "gradient")
    """
    if label is not None and method == "attention":
        raise ValueError(
            "`label` goes with method='gradient': attention is the same for all classes. "
            f"Received: label={label!r}, method={method!r}."
        )


def compiled_method(
    model: keras.Model, method: str, multi_label: bool = False
) -> Callable[[np.ndarray, int], Any]:
    """Compiles a method for batches of any size.

    Args:
        model: The classifier.
        method: `"attention"` or `"gradient"`.
        multi_label: Whether a text may have several labels.

    Returns:
        `function(ids (B, S), class) -> (logits (B, C), weights (B, S))`. A class below 0 stands
        for the one with the greatest logit. Attention is the same for all classes.

    Example:

    >>> from keras_attn.models import BagClassifierConfig
    >>> model = BagClassifierConfig(50, num_classes=2, pair_buckets=0).build()
    >>> logits, weights = compiled_method(model, "gradient")(np.array([[5, 6, 0]]), -1)
    >>> logits.shape, weights.shape
    ((1, 2), (1, 3))
    """
    if method == "attention":
        look = attention_function(model)
        compiled = CompiledFunction(lambda ids, length: look(ids), model)
        return lambda ids, of: compiled(ids, 1)
    ask = gradient_function(model, multi_label)
    compiled = CompiledFunction(lambda ids, length, of: ask(ids, of), model)
    return lambda ids, of: compiled(ids, 1, np.full(len(ids), of, "int32"))
