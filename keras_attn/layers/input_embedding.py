"""Sum of token, segment and position embeddings."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Initializer, Shape, Tensor
from keras_attn.layers.dropout import Dropout
from keras_attn.layers.masked_layer import (
    MaskedLayer,
    check_choice,
    check_mask,
    check_positive,
    check_rate,
    cloned,
)
from keras_attn.layers.normalization import LayerNormalization
from keras_attn.layers.positional_encoding import (
    LearnedPositionalEncoding,
    PositionalEncoding,
    check_longest,
)
from keras_attn.layers.token_embedding import TokenEmbedding, ids_as_integers
from keras_attn.ops import token_positions
from keras_attn.ops.positions import mask_positions, no_negative

POSITIONS = (None, "learned", "sinusoidal")


@keras.saving.register_keras_serializable(package="keras_attn")
class InputEmbedding(MaskedLayer):
    """Adds embeddings of tokens, segments and positions (BERT: Devlin et al., 2019).

        x[b, t] = E[ids[b, t]] + S[segments[b, t]] + P[positions[b, t]]
        output  = dropout(norm(x))                                          (B, T, D)

    With `scale`, `E[ids[b, t]]` is multiplied by `sqrt(D)`. Positions are 0, 1, 2, ... from the
    left. With `first_position` F, only visible tokens are counted, so that padding on the left does
    not shift positions (RoBERTa: Liu et al., 2019):

        positions[b, t] = F - 1 + mask[b, t] sum_{u <= t} mask[b, u]         F - 1 for padding

    This layer keeps the mask of the tokens. In contrast, `tokens + positions`, and
    `keras.layers.Add` of a masked and an unmasked tensor, lose the mask, so that later layers
    attend to padding.

    Shapes: ids `(B, T)` to `(B, T, D)`; with `reverse=True`, x `(..., D)` to logits `(..., V)`.

    Masking: the mask of the output is the explicit `mask`, else `ids != pad_id` if `mask_zero` is
    True, else None. With `reverse=True`, it is the explicit `mask`, else the mask of `x`.

    Args:
        vocabulary_size: Number V of tokens.
        dim: Width D.
        num_segments: Number of segments; no segment embeddings if None.
        positions: "learned", "sinusoidal", or None for no positions, for example if the attention
            has its own.
        sequence_length: Maximum length, for learned positions.
        first_position: Position F of the first visible token; None counts from the left. With a
            number F, the table of learned positions has `F + sequence_length` rows.
        scale: Whether token embeddings are multiplied by `sqrt(D)`.
        mask_zero: Whether the id `pad_id`, 0 by default, is padding.
        pad_id: Id of padding.
        normalize: Whether the sum is normalized by a layer norm.
        layer_norm_epsilon: Epsilon of the norm.
        norm_bias: Whether the norm has a bias.
        dropout: Dropout rate of the output.
        embeddings_initializer: Initializer of all tables; normal with deviation 0.02 if None.
        positions_initializer: Initializer of learned positions; `embeddings_initializer` if None.
        output_bias: Whether logits have a bias `(V,)`, like the logits of masked words in BERT.
        seed: Seed of the dropout.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        x: Integer ids `(B, T)`, or floats `(..., D)` if `reverse` is True.
        segment_ids: Integers `(B, T)` below `num_segments`; all 0 if None.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)`; computed as described above if None.
        reverse: Whether to project `x` to logits with the token table.
        mask: Mask of the output, `(B, T)` or, if `reverse` is True, `(...)`. With `first_position`,
            only tokens for which it is True are counted.
        training: Whether dropout is active.

    Returns:
        Embeddings `(B, T, D)` or, with `reverse=True`, logits `(..., V)`.

    Raises:
        ValueError: If a setting is unknown or out of range; if an input has the wrong rank or
            length; if segments or positions are given to a layer without them; if ids are not
            integers; if a mask has floats; or if `first_position` is given with `positions=None`.

    Example:

    >>> layer = InputEmbedding(100, 16, num_segments=2, sequence_length=32)
    >>> x = layer(ops.array([[5, 7, 9, 0]]), ops.array([[0, 0, 1, 0]]))
    >>> tuple(x.shape), tuple(layer(x, reverse=True).shape)
    ((1, 4, 16), (1, 4, 100))
    """

    _query_mask_name = "mask"

    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        *,
        num_segments: int | None = None,
        positions: str | None = "learned",
        sequence_length: int = 512,
        first_position: int | None = None,
        scale: bool = False,
        mask_zero: bool = True,
        pad_id: int = 0,
        normalize: bool = True,
        layer_norm_epsilon: float = 1e-12,
        norm_bias: bool = True,
        dropout: float = 0.0,
        embeddings_initializer: Initializer | None = None,
        positions_initializer: Initializer | None = None,
        output_bias: bool = False,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive("InputEmbedding", vocabulary_size=vocabulary_size, dim=dim)
        if num_segments is not None:
            check_positive("InputEmbedding", num_segments=num_segments)
        check_choice("InputEmbedding", POSITIONS, positions=positions)
        check_positive("InputEmbedding", sequence_length=sequence_length)
        check_rate("InputEmbedding", dropout=dropout)
        if first_position is not None:
            check_positive("InputEmbedding", first_position=first_position)
            if positions is None:
                raise ValueError(
                    "`first_position` of InputEmbedding is only used in a layer with "
                    f"positions. Received: first_position={first_position} with "
                    "positions=None. Leave it out."
                )
        self.vocabulary_size = vocabulary_size
        self.dim = dim
        self.num_segments = num_segments
        self.positions = positions
        self.sequence_length = sequence_length
        self.first_position = first_position
        self.scale = scale
        self.mask_zero = mask_zero
        self.pad_id = pad_id
        self.normalize = normalize
        self.layer_norm_epsilon = layer_norm_epsilon
        self.norm_bias = norm_bias
        self.dropout = dropout
        if embeddings_initializer is None:
            embeddings_initializer = keras.initializers.RandomNormal(stddev=0.02)
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.positions_initializer = keras.initializers.get(positions_initializer)
        self.output_bias = output_bias
        self.seed = seed

    def build(self, x_shape: Shape | None = None, segment_ids_shape: Shape | None = None):
        """Creates the embedding tables and the norm."""
        policy, shape = self.dtype_policy, (None, None, self.dim)
        self.token_embedding = TokenEmbedding(
            self.vocabulary_size,
            self.dim,
            scale=self.scale,
            mask_zero=self.mask_zero,
            pad_id=self.pad_id,
            embeddings_initializer=cloned(self.embeddings_initializer),
            output_bias=self.output_bias,
            dtype=policy,
            name="tokens",
        )
        self.token_embedding.build()
        self.segment_embedding = self.position_layer = self.norm = None
        if self.num_segments is not None:
            self.segment_embedding = keras.layers.Embedding(
                self.num_segments,
                self.dim,
                embeddings_initializer=cloned(self.embeddings_initializer),
                dtype=policy,
                name="segments",
            )
            self.segment_embedding.build()
        if self.positions == "learned":
            self.position_layer = LearnedPositionalEncoding(
                self.sequence_length + (self.first_position or 0),
                embeddings_initializer=cloned(
                    self.positions_initializer or self.embeddings_initializer
                ),
                dtype=policy,
                name="positions",
            )
            self.position_layer.build(shape)
        elif self.positions == "sinusoidal":
            self.position_layer = PositionalEncoding(dtype=policy, name="positions")
        if self.normalize:
            self.norm = LayerNormalization(
                epsilon=self.layer_norm_epsilon, center=self.norm_bias, dtype=policy, name="norm"
            )
            self.norm.build(shape)
        self.dropout_layer = Dropout(self.dropout, seed=self.seed, dtype=policy, name="dropout")

    def __call__(
        self, x: Tensor, *args, reverse: bool = False, positions: Tensor | None = None, **kwargs
    ):
        """Converts ids to integers and checks the length, then calls the layer."""
        if not reverse:
            x = ids_as_integers(x)
            if self.positions == "learned" and positions is None and len(x.shape) == 2:
                check_longest(self.name, x, self.sequence_length)
        return super().__call__(x, *args, reverse=reverse, positions=positions, **kwargs)

    def call(
        self,
        x: Tensor,
        segment_ids: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        reverse: bool = False,
        mask: Tensor | None = None,
        training: bool | None = None,
    ):
        """Embeds ids `(B, T)`, or if `reverse` is True, computes logits from `x` `(..., D)`."""
        if reverse:
            return self.token_embedding(x, reverse=True, mask=mask)
        if segment_ids is not None and self.segment_embedding is None:
            raise ValueError(
                f"{self.name} has no segments. Received: segment_ids of shape "
                f"{tuple(segment_ids.shape)}. Create it with `num_segments`, or leave "
                "`segment_ids` out."
            )
        if positions is not None and self.position_layer is None:
            raise ValueError(
                f"{self.name} has no positions. Received: `positions`. Create it with "
                'positions="learned" or "sinusoidal", or leave `positions` out.'
            )
        if mask is not None:
            check_mask(mask, x)
        ids = x
        x = self.token_embedding(ids, mask=mask)
        if self.segment_embedding is not None and self.num_segments is not None:
            if segment_ids is None:
                segment_ids = ops.zeros_like(ids)
            check_mask(segment_ids, ids, name="segment_ids")
            x = x + self.segment_embedding(no_negative(segment_ids, self.num_segments))
        if self.position_layer is not None:
            if positions is None and self.first_position is None:
                positions = token_positions(x[:1])
            elif positions is None and self.first_position is not None:
                real = self.token_embedding.compute_mask(ids, mask)
                real = ops.ones_like(ids) if real is None else real
                positions = mask_positions(real, self.first_position)
            x = self.position_layer(x, positions=positions)
        if self.norm is not None:
            x = self.norm(x)
        return self.dropout_layer(x, training=training)

    def compute_output_shape(self, x_shape: Shape, segment_ids_shape: Shape | None = None):
        """Returns the shape `(B, T, D)` of the embeddings of ids `(B, T)`."""
        return (*x_shape, self.dim)

    def compute_mask(self, x: Tensor, previous_mask: Tensor | None = None):
        """Returns the mask of the output: `previous_mask`, unless it is None.

        Otherwise, the mask is `x != pad_id` for integer ids `x` if `mask_zero` is True, else None.
        """
        return self.token_embedding.compute_mask(x, previous_mask)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "dim": self.dim,
            "num_segments": self.num_segments,
            "positions": self.positions,
            "sequence_length": self.sequence_length,
            "first_position": self.first_position,
            "scale": self.scale,
            "mask_zero": self.mask_zero,
            "pad_id": self.pad_id,
            "normalize": self.normalize,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "norm_bias": self.norm_bias,
            "dropout": self.dropout,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
            "positions_initializer": keras.initializers.serialize(self.positions_initializer),
            "output_bias": self.output_bias,
            "seed": self.seed,
        }
