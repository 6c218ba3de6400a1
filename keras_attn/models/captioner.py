"""Image captioners combined with image encoders, and decoding of captions."""

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.layers import AttentionDecoder, TokenEmbedding, TransformerDecoder
from keras_attn.models.image_encoder import ImageEncoder
from keras_attn.models.sequence_decoder import SequenceDecoder
from keras_attn.models.token_decoder import TokenDecoder

_DECODERS = {"head": AttentionDecoder, "region_projection": TransformerDecoder}


def image_captioner(
    encoder: ImageEncoder, captioner: keras.Model, name: str = "image_captioner"
) -> keras.Model:
    """Builds a model from images to captions that shares the layers of an encoder and a captioner.

        logits = captioner(encoder(images), target_ids)

    Args:
        encoder: An `ImageEncoder`. If its `trainable` is False, it is not trained.
        captioner: A model built by the config of a captioner.
        name: Name of the model.

    Returns:
        A functional model from `{"images": (B, H, W, 3), "target_ids": (B, T)}` to logits
        `(B, T, V)`.

    Raises:
        ValueError: If the number or width of the encoder's regions does not match the captioner.

    Example:

    >>> encoder = small_cnn_encoder(16, filters=(4, 8))
    >>> model = SoftAttentionCaptionerConfig(50, region_dim=8, dim=8, units=16).build()
    >>> joined = image_captioner(encoder, model)
    >>> tuple(joined({"images": ops.ones((1, 16, 16, 3)), "target_ids": ops.array([[1]])}).shape)
    (1, 1, 50)
    """
    wanted = captioner.get_layer("regions").output.shape[1:]
    regions = encoder.output.shape[1:]
    if wanted[1] != regions[1] or wanted[0] not in (None, regions[0]):
        raise ValueError(
            "The image encoder must return regions of the shape that the captioner reads, "
            f"(R, D) = {tuple(wanted)}. Received: regions of shape {tuple(regions)} from "
            f"{encoder.name!r}."
        )
    images = keras.Input((None, None, 3), dtype="float32", name="images")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    logits = captioner({"regions": encoder(images), "target_ids": target_ids})
    return keras.Model({"images": images, "target_ids": target_ids}, logits, name=name)


class CaptionDecoder(SequenceDecoder):
    """Decodes captions with the layers of a captioner.

    The object uses the weights of the model, so later changes to the model take effect. Pass its
    attribute `decoder` to the searches of `keras_attn.generation`. `align` returns the attention
    weights over the regions.

    Args:
        model: A model built by the config of a captioner; it may have been saved and loaded. If it
            is part of a larger model, such as one with an `ImageEncoder` before it, pass
            `model.get_layer(...)`.

    Raises:
        TypeError: If `model` was not built by the config of a captioner.

    Example:

    >>> model = SoftAttentionCaptionerConfig(50, region_dim=6, dim=8, units=16).build()
    >>> captions = CaptionDecoder(model)
    >>> memory, mask = captions.encode(ops.ones((2, 9, 6)))
    >>> found = greedy_search(
    ...     captions.decoder, ops.ones((2, 1), "int32"), None, memory, mask, max_length=4, end_id=2
    ... )
    >>> tuple(found.tokens.shape), tuple(captions.align(memory, mask, found.tokens).shape)
    ((2, 4), (2, 4, 9))
    """

    def __init__(self, model: keras.Model):
        layers = {layer.name: layer for layer in getattr(model, "layers", [])}
        if not isinstance(layers.get("embedding"), TokenEmbedding) or not any(
            name in layers and isinstance(layers.get("decoder"), kind)
            for name, kind in _DECODERS.items()
        ):
            raise TypeError(
                "Expected a captioner that was built from its config, with "
                f"`config.build(...)`. Received: {getattr(model, 'name', model)!r} of type "
                f"{type(model).__name__}."
            )
        self.region_dim = model.get_layer("regions").output.shape[-1]
        names = ("region_projection", "region_positions", "region_norm")
        self.encoder = [layers[name] for name in names if name in layers]
        self.positions = layers.get("positions")
        self.decoder = TokenDecoder(
            layers["embedding"], self.positions, layers["decoder"], layers.get("head")
        )

    def encode(  # type: ignore[override]  # regions have no padding
        self, regions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Computes the memory that the decoder attends to, and its mask.

        Args:
            regions: Regions `(B, R, Dr)`, the input of the model. If the images of a batch have
                different numbers of regions, pad the regions, and replace the returned mask by a
                mask that hides the padding.

        Returns:
            A tuple of the memory `(B, R, D)`, and a mask `(B, R)` that is True for all regions. A
            Transformer captioner projects the regions to its width D; otherwise, the memory is the
            regions themselves, and D is Dr.

        Raises:
            ValueError: If `regions` has the wrong shape.
        """
        memory = ops.convert_to_tensor(regions)
        if len(memory.shape) != 3 or memory.shape[-1] != self.region_dim:
            raise ValueError(
                f"`regions` must have shape (B, R, {self.region_dim}). Received: shape "
                f"{tuple(memory.shape)}."
            )
        memory = ops.cast(memory, "float32")
        mask = ops.ones_like(memory[:, :, 0], dtype="bool")
        for layer in self.encoder:
            memory = layer(memory)
        return memory, mask
