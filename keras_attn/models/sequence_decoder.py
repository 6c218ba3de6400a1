"""Decoding with the layers of an encoder-decoder model."""

from types import UnionType

import keras
from keras import ops

from keras_attn.generation import Generation
from keras_attn.hints import Tensor
from keras_attn.layers import (
    AttentionDecoder,
    PositionalEncoding,
    RecurrentEncoder,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)
from keras_attn.models.token_decoder import TokenDecoder


class SequenceDecoder:
    """Encodes sources and decodes targets with the layers of an encoder-decoder model.

    The object uses the weights of the model, so later changes to the model take effect.

    Args:
        model: A model built by `TransformerEncoderDecoderConfig`, `RecurrentEncoderDecoderConfig`
            or `T5Config`; it may have been saved and loaded.

    Raises:
        ValueError: If the model does not have the layers of an encoder-decoder.

    Example:

    >>> model = TransformerEncoderDecoderConfig(50, num_layers=1, dim=16, num_heads=2).build()
    >>> memory, mask = SequenceDecoder(model).encode(keras.ops.array([[5, 6, 2, 0]]))
    >>> tuple(memory.shape), tuple(mask.shape)
    ((1, 4, 16), (1, 4))
    """

    def __init__(self, model: keras.Model):
        makers = "`TransformerEncoderDecoderConfig`, `RecurrentEncoderDecoderConfig` or `T5Config`"
        if not isinstance(model, keras.Model):
            raise ValueError(
                f"Expected a model built by {makers}. Received: {type(model).__name__}."
            )
        layers = {layer.name: layer for layer in model.layers}
        wanted: dict[str, type | UnionType] = {
            "source_embedding": TokenEmbedding,
            "encoder": TransformerEncoder | RecurrentEncoder,
            "decoder": TransformerDecoder | AttentionDecoder,
        }
        encoder = layers.get("encoder")
        if isinstance(encoder, TransformerEncoder) and encoder.positions is None:
            wanted["positions"] = PositionalEncoding
        missing = [n for n, kind in wanted.items() if not isinstance(layers.get(n), kind)]
        if missing:
            raise ValueError(
                f"Expected a model built by {makers}. Received: {model.name!r} without its layers "
                f"{missing}. For other models use `keras_attn.generation.RecomputeDecoder`."
            )
        self.source_embedding = layers["source_embedding"]
        self.positions = layers.get("positions")
        self.encoder = layers["encoder"]
        target = layers.get("target_embedding", self.source_embedding)
        self.decoder = TokenDecoder(target, self.positions, layers["decoder"], layers.get("head"))

    @property
    def num_attentions(self) -> int:
        """Number of cross-attention layers of the decoder."""
        stack = self.decoder.decoder
        return len(stack.attention if isinstance(stack, AttentionDecoder) else stack.blocks)

    def encode(
        self, source_ids: Tensor, source_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Runs the encoder on source ids `(B, S)`, and returns the memory and its mask.

        Args:
            source_ids: Ids `(B, S)`.
            source_mask: Padding mask `(B, S)`, True for tokens; `source_ids != pad_id` if None, for
                the `pad_id` of the source embedding.

        Returns:
            A tuple of the memory, source states `(B, S, D)`, and its mask `(B, S)`.
        """
        mask = source_mask
        if mask is None:
            mask = self.source_embedding.compute_mask(ops.convert_to_tensor(source_ids))
        x = self.source_embedding(source_ids)
        x = x if self.positions is None else self.positions(x)
        return self.encoder(x, padding_mask=mask), mask

    def align(
        self,
        memory: Tensor,
        memory_mask: Tensor,
        target_ids: Tensor,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """Runs the decoder on complete targets, and returns its attention weights.

        Args:
            memory: Source states `(B, S, D)`.
            memory_mask: Padding mask of the memory, `(B, S)`.
            target_ids: Inputs `(B, T)` of the decoder, beginning with the start token.
            target_mask: Padding mask of the targets, `(B, T)`, True for tokens; `target_ids !=
                pad_id` if None, for the `pad_id` of the target embedding. If the start token has
                the id of padding, pass a mask that is True for it.

        Returns:
            The mean of the weights over the heads of the last cross-attention, float32 `(B, T, S)`;
            zeros if the model has no attention.
        """
        if target_mask is None:
            target_mask = self.decoder.embedding.compute_mask(ops.convert_to_tensor(target_ids))
        x = self.decoder.embedding(target_ids)
        x = x if self.positions is None else self.positions(x)
        if not self.num_attentions:
            source = ops.expand_dims(ops.zeros_like(memory[:, :, 0], dtype="float32"), 1)
            return source + ops.zeros_like(x[:, :, :1], dtype="float32")
        _, *_, cross = self.decoder.decoder(
            x,
            memory,
            memory_mask=memory_mask,
            padding_mask=target_mask,
            return_attention_scores=True,
            training=False,
        )
        weights = ops.cast(cross[-1], "float32")
        return ops.mean(weights, axis=1) if len(weights.shape) == 4 else weights

    def align_found(
        self, memory: Tensor, memory_mask: Tensor, found: Generation, start_id: int
    ) -> Tensor:
        """Runs the decoder on the sequences of a search, and returns its attention weights.

        Args:
            memory: Source states `(B, S, D)`.
            memory_mask: Padding mask of the memory, `(B, S)`.
            found: The result of `beam_search`, with token ids `(B, R, T)`.
            start_id: Id of the start token of the search.

        Returns:
            The weights of `align` for each sequence, float32 `(B, R, T, S)`. Row t belongs to the
            query that predicts token t. Rows of padding are zero.
        """
        tokens = found.tokens
        count = tokens.shape[1]
        start = ops.zeros_like(tokens[:, :, :1]) + start_id
        inputs = ops.concatenate([start, tokens[:, :, :-1]], axis=2)
        slots = ops.cumsum(ops.ones_like(tokens), axis=2)
        is_token = slots <= ops.expand_dims(found.lengths, 2)
        width = ops.shape(tokens)[2]
        weights = self.align(
            ops.repeat(memory, count, axis=0),
            ops.repeat(memory_mask, count, axis=0),
            ops.reshape(inputs, (-1, width)),  # (B R, T)
            ops.reshape(ops.logical_or(is_token, slots == 1), (-1, width)),
        )
        weights = ops.reshape(weights, (-1, count, width, ops.shape(memory)[1]))
        return weights * ops.cast(ops.expand_dims(is_token, 3), "float32")
