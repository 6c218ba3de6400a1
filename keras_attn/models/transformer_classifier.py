"""Text classifier with a Transformer encoder."""

from dataclasses import KW_ONLY, dataclass

import keras

from keras_attn.hints import DType, Tensor
from keras_attn.layers import (
    Dropout,
    LearnedPositionalEncoding,
    PositionalEncoding,
    TransformerEncoder,
)
from keras_attn.models.classifier_parts import (
    TextClassifierConfig,
    check_belongs,
    classify,
    drop_words,
    make_embedding,
    make_head,
    make_pooling,
    make_word_dropout,
)
from keras_attn.models.roles import TEXT_CLASSIFIERS
from keras_attn.models.stack_settings import BlockSettings, NormSettings
from keras_attn.settings import setting, size, with_defaults

Layers = dict[str, keras.layers.Layer]

_SEQUENCE_LENGTH = 512  # of BERT


@TEXT_CLASSIFIERS.register("transformer")
@dataclass(frozen=True)
@with_defaults(dim=64, num_layers=1, intermediate_dim=256, dropout=0.2)
class TransformerClassifierConfig(NormSettings, BlockSettings, TextClassifierConfig):
    """Settings of a classifier with a Transformer encoder (Vaswani et al., 2017).

        x      = encoder(dropout(positions(embed(ids))))        (B, S, D)
        logits = pool(x) W + b                                  (B, C)

    W and b are the weights of the output layer. The pooling is attention with one learned query, an
    average, a maximum, or the first token, as in BERT (Devlin et al., 2019). Padding is id 0.

    Args:
        vocabulary_size: Number of tokens; id 0 is padding.
        num_classes: Number C of classes.
        dim: Width D.
        dropout: Dropout rate of embeddings, sublayers and the output.
        word_dropout: Fraction of the tokens that are left out in training.
        attention_dropout: Dropout rate of the attention weights of the encoder.
        num_layers: Number of blocks.
        num_heads: Number of attention heads.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        activation: Activation of the feed-forward networks.
        normalize_first: Whether to use pre-norm instead of post-norm.
        positions: `"sinusoidal"`, for any length, or `"learned"`.
        pooling: `"attention"`, `"average"`, `"max"` or `"first"` (a token such as `[CLS]`).
        attention_units: Width of the hidden layer of the pooling with `pooling="attention"`; D if
            None.
        sequence_length: Maximum number of tokens of a text with `positions="learned"`; 512 if None.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, `num_heads` does not
            divide `dim`, `sequence_length` is given without learned positions, or `attention_units`
            with another pooling.

    Example:

    >>> config = TransformerClassifierConfig(50, num_classes=3, dim=16, intermediate_dim=32)
    >>> tuple(config.build()(keras.ops.array([[5, 6, 2, 0]])).shape)
    (1, 3)
    """

    _: KW_ONLY
    word_dropout: float = setting(
        0.2, "share of the tokens that are left out in training", at_least=0, below=1
    )
    positions: str = setting(
        "sinusoidal", "positions of the tokens", choices=("sinusoidal", "learned")
    )
    pooling: str = setting(
        "attention", "how the states are pooled", choices=("attention", "average", "max", "first")
    )
    attention_units: int | None = setting(
        None, "hidden width of the attention that pools", kind=int, at_least=1
    )
    sequence_length: int | None = size("greatest length with learned positions", default=None)

    encoder = TransformerEncoder

    @property
    def has_positions(self) -> bool:  # type: ignore[override]  # here it depends on a setting
        """Whether the model has `sequence_length` learned positions."""
        return self.positions == "learned"

    def __post_init__(self):
        super().__post_init__()
        check_belongs(self, "sequence_length", "positions", "learned")
        check_belongs(self, "attention_units", "pooling", "attention")

    def layers(self, dtype: DType) -> list[keras.layers.Layer]:
        """Creates the layers of the model.

        Args:
            dtype: Dtype or policy of the layers.

        Returns:
            A list of the layers `embedding`, `word_dropout` (unless its rate is 0), `positions`,
            `embedding_dropout`, `encoder`, `pooling`, `head_dropout` and `head`.
        """
        if self.positions == "learned":
            length = self.sequence_length or _SEQUENCE_LENGTH
            positions = LearnedPositionalEncoding(length, dtype=dtype, name="positions")
        else:
            positions = PositionalEncoding(dtype=dtype, name="positions")
        return [
            make_embedding(self.vocabulary_size, self.dim, dtype),
            *make_word_dropout(self.word_dropout, dtype),
            positions,
            Dropout(self.dropout, dtype=dtype, name="embedding_dropout"),
            TransformerEncoder(self.num_layers, **self.block(), dtype=dtype, name="encoder"),
            make_pooling(self.pooling, self.attention_units, dtype),
            *make_head(self.num_classes, self.dropout, dtype),
        ]

    @staticmethod
    def rest(layers: Layers, embedded: list[Tensor], ids: Tensor) -> Tensor:
        """Computes the logits from the embeddings of ids.

        Args:
            layers: The layers of the model, keyed by name.
            embedded: The result of `embed` for the ids.
            ids: Ids `(B, S)`, from which the padding mask is computed.

        Returns:
            The logits `(B, C)`.
        """
        mask = keras.ops.not_equal(ids, 0)
        x = layers["embedding_dropout"](layers["positions"](drop_words(layers, embedded[0])))
        x = layers["encoder"](x, padding_mask=mask)
        return classify(layers, layers["pooling"](x, mask=mask))
