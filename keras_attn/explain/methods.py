"""Methods that explain a text classifier, by name and compiled."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_attn.explain.attributions import attention_function, gradient_function, has_attention
from keras_attn.generation import CompiledFunction

METHODS = ("attention", "gradient")


def checked_method(model: keras.Model, method: str | None = None) -> str:
    """Chooses the method that weights the tokens of a text classifier."""
    known = METHODS if has_attention(model) else METHODS[1:]
    if method is None:
        return known[0]
    if method not in known:
        why = " The model pools its tokens without weights." if method in METHODS else ""
        raise ValueError(f"`method` must be one of {list(known)}. Received: {method!r}.{why}")
    return method


def check_label(label: str | None, method: str) -> None:
    """Refuses a class where it makes no difference."""
    if label is not None and method == "attention":
        raise ValueError(
            "`label` goes with method='gradient': attention is the same for all classes. "
            f"Received: label={label!r}, method={method!r}."
        )


def compiled_method(
    model: keras.Model, method: str, multi_label: bool = False
) -> Callable[[np.ndarray, int], Any]:
    """Compiles a method for batches of any size."""
    if method == "attention":
        look = attention_function(model)
        compiled = CompiledFunction(lambda ids, length: look(ids), model)
        return lambda ids, of: compiled(ids, 1)
    ask = gradient_function(model, multi_label)
    compiled = CompiledFunction(lambda ids, length, of: ask(ids, of), model)
    return lambda ids, of: compiled(ids, 1, np.full(len(ids), of, "int32"))
