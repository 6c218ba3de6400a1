"""Encoder-decoder Transformer for packed rows."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.layers import TransformerEncoder
from keras_attn.models.sequence_decoder import SequenceDecoder
from keras_attn.ops import segment_mask, segment_positions


def packed_transformer(model: keras.Model, name: str = "packed_transformer") -> keras.Model:
    """Builds a model for rows with several packed pairs from the layers of `model`.

        visible(t, s) = tokens t and s belong to one pair

    All attentions have this mask, and the self-attention of the decoder is also causal. Positions
    restart with each pair.

    The new model shares the weights of `model`. Logits and gradients are the same as with one pair
    per row.

    Args:
        model: A model built by `TransformerEncoderDecoderConfig` or `T5Config`; it may have been
            saved and loaded.
        name: Name of the new model.

    Returns:
        A functional model from `{"source_ids", "source_segments": (B, S), "target_ids",
        "target_segments": (B, T)}`, the batches of `keras_attn.batches.PackedBatches`, to logits
        `(B, T, V)`.

    Raises:
        ValueError: If `model` was not built by `TransformerEncoderDecoderConfig` or `T5Config`.

    Example:

    >>> model = TransformerEncoderDecoderConfig(50, num_layers=1, dim=16).build()
    >>> packed = packed_transformer(model)
    >>> packed.compile("adam", MaskedCrossEntropy(), jit_compile=False)
    >>> data = {"sources": [[5, 6, 2], [7, 2]], "targets": [[8], [9]]}
    >>> batches = PackedBatches(**data, start_id=1, end_id=2, tokens_per_row=8)
    >>> history = packed.fit(batches, shuffle=False, verbose=0)  # and `model` has learned
    """
    parts = SequenceDecoder(model)
    if not isinstance(parts.encoder, TransformerEncoder):
        raise ValueError(
            "Packing several pairs into a row requires a model built by "
            "`TransformerEncoderDecoderConfig` or `T5Config`, because a recurrent network carries "
            f"its state from one pair to the next. Received: {model.name!r}."
        )
    dropout = model.get_layer("embedding_dropout")
    stack = parts.decoder.decoder
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("source_ids", "source_segments", "target_ids", "target_segments")
    }
    source, target = inputs["source_segments"], inputs["target_segments"]

    def embedded(
        embedding: keras.layers.Layer, ids: Tensor, segments: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns embeddings, and the masks and positions for a stack."""
        real = ops.not_equal(segments, 0)  # a start token may have the id of padding
        x, positions = embedding(ids, mask=real), segment_positions(segments)
        told = {"attention_mask": segment_mask(segments)}
        if parts.positions is None:
            told["positions"] = positions
        else:
            x = parts.positions(x, positions=positions)
        return dropout(x), told

    x, told = embedded(parts.source_embedding, inputs["source_ids"], source)
    memory = parts.encoder(x, **told)
    x, told = embedded(parts.decoder.embedding, inputs["target_ids"], target)
    x = stack(x, memory, cross_attention_mask=segment_mask(target, source), **told)
    return keras.Model(inputs, parts.decoder.logits(x), name=name)
