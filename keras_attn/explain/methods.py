"""Methods that explain a text classifier, by name."""

import keras
from keras import ops

from keras_attn.explain.attributions import (
    GradientPath,
    attention_function,
    gradient_function,
    has_attention,
)
from keras_attn.fields.encoder_input import EncoderInput
from keras_attn.hints import Tensor
from keras_attn.text.tokenizer import Tokenizer

# Methods, and how explanations name them.
METHOD_NAMES = {
    "attention": "attention",
    "gradient": "gradient x input",
    "integrated_gradients": "integrated gradients",
}
METHODS = tuple(METHOD_NAMES)
DEFAULT = "integrated_gradients"  # for a model whose pooling has no weights


def path_of(
    method: str, tokenizer: Tokenizer, field: EncoderInput | None = None
) -> GradientPath | None:
    """Returns the path of integrated gradients; None for other methods.

    Args:
        method: One of `METHODS`.
        tokenizer: The tokenizer of the model.
        field: The field that adds special tokens to the rows of the model, if there is one.
    """
    if method != "integrated_gradients":
        return None
    mask_id = getattr(tokenizer, "mask_id", None)
    special = () if field is None else (*field.start, *field.between, *field.end)
    kept = tuple(dict.fromkeys((tokenizer.pad_id, *special)))
    return GradientPath(tokenizer.pad_id if mask_id is None else mask_id, kept)


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
    path: GradientPath | None = None,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Computes the logits of rows of ids and the weight of each token, on every backend.

    Gradients, integrated or not, explain `classes (B,)`. Where a class is negative, or if `classes`
    is None, they explain the most probable class. Integrated gradients need a `path`. The log-odds
    are computed from the logits divided by `temperature`.
    """
    if method == "attention":
        return attention_function(model)(ids)
    if classes is None:
        classes = ops.zeros_like(ids[:, 0]) - 1
    return gradient_function(model, multi_label, path, temperature)(ids, classes)
