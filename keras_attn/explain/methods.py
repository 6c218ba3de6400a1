"""Methods that explain a text classifier, by name."""

import keras
from keras import ops

from keras_attn.explain.attributions import attention_function, gradient_function, has_attention
from keras_attn.hints import Tensor

# Methods, and how explanations name them.
METHOD_NAMES = {
    "attention": "attention",
    "gradient": "gradient x input",
    "integrated_gradients": "integrated gradients",
}
METHODS = tuple(METHOD_NAMES)
DEFAULT = "integrated_gradients"  # for a model whose pooling has no weights
STEPS = 32  # points of integrated gradients


def steps_of(method: str) -> int | None:
    """Returns the number of points of integrated gradients; None for other methods."""
    return STEPS if method == "integrated_gradients" else None


def checked_method(model: keras.Model, method: str | None = None) -> str:
    """Returns the method or, if it is None, the default method of a text classifier."""
    known = METHODS if has_attention(model) else METHODS[1:]
    if method is None:
        return "attention" if "attention" in known else DEFAULT
    if method not in known:
        why = " The model pools its tokens without weights." if method in METHODS else ""
        raise ValueError(f"`method` must be one of {list(known)}. Received: {method!r}.{why}")
    return method


def check_label(label: str | None, method: str) -> None:
    """Raises an error if a class is given to a method that does not use it."""
    if label is not None and method == "attention":
        raise ValueError(
            "`label` requires method='gradient' or method='integrated_gradients', because "
            f"attention is the same for all classes. Received: label={label!r}, method={method!r}."
        )


def weighed_tokens(
    model: keras.Model,
    ids: Tensor,
    method: str,
    multi_label: bool = False,
    classes: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes the logits of rows of ids and the weight of each token, on every backend.

    Gradients, integrated or not, explain `classes (B,)`. Where a class is negative, or if `classes`
    is None, they explain the most probable class.
    """
    if method == "attention":
        return attention_function(model)(ids)
    if classes is None:
        classes = ops.zeros_like(ids[:, 0]) - 1
    return gradient_function(model, multi_label, steps_of(method))(ids, classes)
