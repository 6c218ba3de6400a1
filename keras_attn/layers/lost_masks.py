"""Finds masks that were lost on the way through a functional model."""

from collections.abc import Iterator
from typing import Any

import keras

from keras_attn.ops.masks import static_shape

Tensor = Any

_ATTENTIONS = (
    keras.layers.AdditiveAttention,
    keras.layers.Attention,
    keras.layers.GroupQueryAttention,
    keras.layers.MultiHeadAttention,
)


def check_mask_kept(name: str, x: Tensor | None, mask_name: str, mask: Tensor | None) -> None:
    """Raises a ValueError where a symbolic input has no mask, but was made of what had one.

    Operators and many layers drop Keras' masks silently; padding would be taken for tokens.

    Args:
        name: The argument's name.
        x: `(B, S, D)`. Only a symbolic tensor knows what it was made of.
        mask_name: The argument that says what is padding.
        mask: What was given for it; with a mask, nothing is wrong.

    Raises:
        ValueError: Naming the layer that dropped the mask.

    Example:

    >>> ids = keras.Input((None,), dtype="int32")
    >>> x = TokenEmbedding(vocabulary_size=10, dim=4)(ids)
    >>> check_mask_kept("x", x, "padding_mask", None)
    """
    if x is None or mask is not None or not keras.backend.is_keras_tensor(x):
        return
    if getattr(x, "_keras_mask", None) is not None:  # Keras will fill it in
        return
    seen, queue = set(), [x]
    while queue:
        tensor = queue.pop(0)
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        for source, operation in _sources(tensor):
            lengths = {static_shape(t)[1] for t in (source, x) if len(t.shape) > 1}
            if len(source.shape) < 3 or len(lengths - {None}) > 1:
                continue  # ids, one vector for all, or another length: not these positions
            if getattr(source, "_keras_mask", None) is None:
                queue.append(source)
                continue
            raise ValueError(
                f"`{name}` has lost its mask: the input of {operation.name!r} has one, its output "
                f"has not, and padding would be taken for tokens. Pass `{mask_name}`: the mask "
                f"(B, S), or ones where all of `{name}` is to be seen. Received: {name} of shape "
                f"{tuple(x.shape)} without a mask."
            )


def _sources(tensor: Tensor) -> Iterator[tuple[Tensor, Any]]:
    """The tensors whose positions a tensor may have, and what made it of them."""
    history = getattr(tensor, "_keras_history", None)
    operation = None if history is None else history.operation
    if operation is None:
        return
    if isinstance(operation, keras.Model) and hasattr(operation, "_nodes_by_depth"):
        # A functional model hands on its masks when it runs, but not where it is built.
        inner = keras.tree.flatten(operation.outputs)[history.tensor_index]
        if getattr(inner, "_keras_mask", None) is None:
            yield from _sources(inner)
        return
    inputs = operation._inbound_nodes[history.node_index].input_tensors
    # Outputs of attention, ours or Keras', have the positions of the first input.
    if hasattr(operation, "_query_mask_name") or isinstance(operation, _ATTENTIONS):
        inputs = inputs[:1]
    for source in inputs:
        yield source, operation
