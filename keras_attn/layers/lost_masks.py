"""Detection of masks that were lost in a functional model."""

from collections.abc import Iterator
from typing import Any

import keras

from keras_attn.hints import Tensor
from keras_attn.ops.masks import static_shape

_OF_LENGTH = (
    "AveragePooling1D", "Concatenate", "Conv1D", "Cropping1D", "GetItem", "MaxPooling1D", "Pad",
    "SeparableConv1D", "Slice", "UpSampling1D", "ZeroPadding1D",
)  # fmt: skip
"""Operations that keep a sequence although they change its length."""
_ATTENTIONS = (
    keras.layers.AdditiveAttention,
    keras.layers.Attention,
    keras.layers.GroupQueryAttention,
    keras.layers.MultiHeadAttention,
)


def check_mask_kept(name: str, x: Tensor | None, mask_name: str, mask: Tensor | None) -> None:
    """Raises a ValueError if a symbolic input lost its mask on the way to this layer.

    Operators and many layers drop Keras masks silently, so that padding would count as tokens.
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
            lengths = {static_shape(t)[1] for t in (source, tensor) if len(t.shape) > 1}
            other = len(lengths - {None}) > 1 and type(operation).__name__ not in _OF_LENGTH
            if len(source.shape) < 3 or other:
                continue  # ids, one vector for all, or another length: other positions
            if getattr(source, "_keras_mask", None) is None:
                queue.append(source)
                continue
            raise ValueError(
                f"`{name}` has lost its mask: the input of {operation.name!r} has one, its output "
                f"has none, and padding would count as tokens. Pass the mask (B, S) as "
                f"`{mask_name}`, or ones if all of `{name}` may be seen. Received: {name} of shape "
                f"{tuple(x.shape)} without a mask."
            )


def _sources(tensor: Tensor) -> Iterator[tuple[Tensor, Any]]:
    """Inputs whose positions a tensor may share, each with the operation that reads it."""
    history = getattr(tensor, "_keras_history", None)
    if history is None or history.operation is None:
        return
    operation = history.operation
    if isinstance(operation, keras.Model) and hasattr(operation, "_nodes_by_depth"):
        # A functional model passes on its masks when it runs, but not when it is built.
        inner = keras.tree.flatten(operation.outputs)[history.tensor_index]
        if getattr(inner, "_keras_mask", None) is None:
            yield from _sources(inner)
        return
    inputs = operation._inbound_nodes[history.node_index].input_tensors
    # The output of an attention layer has the positions of the first input.
    if hasattr(operation, "_query_mask_name") or isinstance(operation, _ATTENTIONS):
        inputs = inputs[:1]
    for source in inputs:
        yield source, operation
