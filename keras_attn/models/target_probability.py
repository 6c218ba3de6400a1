"""Log-probabilities of targets given their context."""

from __future__ import annotations

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.token_losses import token_cross_entropy


def target_log_probabilities(
    model: keras.Model,
    ids: Tensor,
    targets: Tensor,
    start_id: int,
    max_length: int | None = None,
    source: str = "source_ids",
) -> Tensor:
    """Computes `log p(token | ids, earlier tokens)` for each token of B targets.

    An encoder-decoder reads `ids` with its encoder. A decoder-only model reads each target directly
    after its ids.

    Args:
        model: An encoder-decoder with the inputs `source` and `target_ids`, or a decoder-only model
            with one input of ids. Its output is logits, and its padding has id 0.
        ids: Ids, int32 `(B, S)`, with padding on the right; or another input of an
            encoder-decoder, such as regions.
        targets: Ids of the targets, int32 `(B, T)`, each with its end token, followed by padding.
            Ignore the results at padding.
        start_id: Id of the token that the decoder of an encoder-decoder reads first.
        max_length: Maximum number of ids and target tokens together, for a decoder-only model; no
            limit if None.
        source: Name of the source input of an encoder-decoder.

    Returns:
        The log-probabilities, float32 `(B, T)`; NaN for ids outside the vocabulary.

    Example:

    >>> model = GptConfig(20, dim=8, num_layers=1, num_heads=2, sequence_length=9).build()
    >>> ids, targets = ops.array([[5, 6], [7, 0]]), ops.array([[8, 9, 2], [9, 2, 0]])
    >>> tuple(target_log_probabilities(model, ids, targets, start_id=1, max_length=9).shape)
    (2, 3)
    """
    ids, targets = ops.convert_to_tensor(ids), ops.convert_to_tensor(targets)
    if isinstance(model.input, dict):
        start = targets[:, :1] * 0 + start_id
        inputs = ops.concatenate([start, targets[:, :-1]], axis=1)
        logits = model({source: ids, "target_ids": inputs}, training=False)
    else:
        length = ops.sum(ops.cast(ops.not_equal(ids, 0), "int32"), axis=1, keepdims=True)
        both = ops.concatenate([ids, targets], axis=1)  # (B, S + T)
        places = ops.cumsum(ops.ones_like(both), axis=1) - 1
        width = ops.shape(ids)[1]
        source = ops.where(places < length, places, places - length + width)
        last = ops.shape(both)[1] - 1
        row = ops.take_along_axis(both, ops.minimum(source, last), axis=1)
        row = ops.where(source > last, ops.zeros_like(row), row)[:, :max_length]
        logits = model(row, training=False)
        slots = ops.cumsum(ops.ones_like(targets), axis=1) - 2 + length  # (B, T)
        logits = ops.take_along_axis(logits, ops.expand_dims(slots, 2), axis=1)
    return ops.negative(token_cross_entropy(targets, ops.cast(logits, "float32")))


def target_log_probability(
    model: keras.Model, ids: Tensor, targets: Tensor, start_id: int, max_length: int
) -> Tensor:
    """Computes `log p(target | ids)`, the sum of `target_log_probabilities` without padding.

    Args:
        model: An encoder-decoder or a decoder-only model, as in `target_log_probabilities`.
        ids: Ids, int32 `(B, S)`, with padding on the right.
        targets: Ids of the targets, int32 `(B, T)`, each with its end token, followed by padding of
            id 0.
        start_id: Id of the token that the decoder of an encoder-decoder reads first.
        max_length: Maximum number of ids and target tokens together, for a decoder-only model.

    Returns:
        The log-probability of each target, float32 `(B,)`.

    Example:

    >>> model = GptConfig(20, dim=8, num_layers=1, num_heads=2, sequence_length=9).build()
    >>> ids, targets = ops.array([[5, 6], [7, 0]]), ops.array([[8, 9, 2], [9, 2, 0]])
    >>> tuple(target_log_probability(model, ids, targets, start_id=1, max_length=9).shape)
    (2,)
    """
    found = target_log_probabilities(model, ids, targets, start_id, max_length)
    return ops.sum(ops.where(ops.equal(targets, 0), 0.0, found), axis=1)
