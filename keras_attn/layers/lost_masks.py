"""Finds masks that were lost on the way through a functional model."""

from typing import Any

import keras

from keras_attn.ops.masks import static_shape

Tensor = Any


def check_mask_kept(memory: Tensor | None, memory_mask: Tensor | None) -> None:
    """Raises a ValueError where a symbolic memory has no mask, but was made of what had one.

    Operators and many layers drop Keras' masks silently; padding would be attended to.

    Args:
        memory: `(B, S, Dm)`. Only a symbolic tensor knows what it was made of.
        memory_mask: Its mask; with one, nothing is wrong.

    Raises:
        ValueError: Naming the layer that dropped the mask.
    """
    if memory is None or memory_mask is not None or not keras.backend.is_keras_tensor(memory):
        return
    steps, seen, queue = static_shape(memory)[1], set(), [memory]
    while queue:
        tensor = queue.pop(0)
        history = getattr(tensor, "_keras_history", None)
        if history is None or history.operation is None or id(tensor) in seen:
            continue
        seen.add(id(tensor))
        for source in history.operation._inbound_nodes[history.node_index].input_tensors:
            mask = getattr(source, "_keras_mask", None)
            if mask is None:
                queue.append(source)
            elif len(source.shape) > 1 and source.shape[1] == steps:
                raise ValueError(
                    f"`memory` has lost its mask: the input of {history.operation.name!r} has one, "
                    "its output has not, and padding would be attended to. Pass `memory_mask`: the "
                    "mask `(B, S)`, or ones where all of the memory may be seen. Received: memory "
                    f"of shape {tuple(memory.shape)} without a mask."
                )
