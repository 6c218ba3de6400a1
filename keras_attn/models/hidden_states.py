"""States of all layers of an encoder or a decoder."""

from __future__ import annotations

import keras
from keras import ops

from keras_attn.hints import Tensor


def hidden_states(model: keras.Model, inputs: dict[str, Tensor]) -> list[Tensor]:
    """Computes the states of all layers of an encoder or a decoder, without dropout.

    Padding may be on either side. As in transformers, BERT counts positions from the left, whereas
    RoBERTa and GPT count positions from the first token of a row.

    Args:
        model: A model built by `BertConfig` or `RobertaConfig`, with or without heads, or by
            `GptConfig`; it may have been saved and loaded.
        inputs: A dict with `token_ids`, optionally `padding_mask` (all are tokens without it) and,
            for models with segments, optionally `segment_ids` (all 0 without it), each `(B, T)`.

    Returns:
        A list of the embeddings and the output of each block, `(B, T, D)` each. The last output of
        a GPT is normalized: `keras_attn.models.language_decoder(model).logits` converts it to
        logits.

    Raises:
        ValueError: If the model has no layer `embedding`, or no stack of blocks that is named
            `encoder` or `decoder`.

    Example:

    >>> model = BertConfig(50, dim=16, num_layers=2, num_heads=2, intermediate_dim=32).build()
    >>> ids = keras.ops.array([[2, 9, 3]])
    >>> len(hidden_states(model, {"token_ids": ids, "padding_mask": ids != 0}))
    3
    """
    layers = {layer.name: layer for layer in model.layers}
    stack = layers.get("encoder", layers.get("decoder"))
    if stack is None or "embedding" not in layers or not hasattr(stack, "blocks"):
        raise ValueError(
            "Expected a model with layers `embedding` and `encoder` or `decoder`, such as a "
            f"BERT or GPT model. Received: {model.name!r} with {sorted(layers)}."
        )
    ids, mask = ops.convert_to_tensor(inputs["token_ids"]), inputs.get("padding_mask")
    if "encoder" in layers:
        states = [layers["embedding"](ids, inputs.get("segment_ids"), mask=mask)]
    else:
        states = [layers["embedding"](ids)]
        if "positions" in layers:
            positions = None
            if mask is not None:
                positions = ops.maximum(ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1, 0)
            states = [layers["positions"](states[0], positions=positions)]
    for block in stack.blocks:
        states.append(block(states[-1], padding_mask=mask, training=False))
    if stack.norm is not None:
        states[-1] = stack.norm(states[-1])
    return states
