"""Recurrent text classifier with attention."""

from dataclasses import KW_ONLY, dataclass

import keras

from keras_attn.hints import DType, Tensor
from keras_attn.layers import RecurrentEncoder
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
from keras_attn.models.stack_settings import RecurrentSettings
from keras_attn.settings import setting

Layers = dict[str, keras.layers.Layer]


@TEXT_CLASSIFIERS.register("rnn")
@dataclass(frozen=True)
class RecurrentClassifierConfig(RecurrentSettings, TextClassifierConfig):
    """Settings of a bidirectional recurrent classifier with attention over its states.

        x      = encoder(dropout(embed(ids)))           (B, S, U)
        logits = attend(x) W + b                        (B, C)

    `attend` is the pooling, attention by default, and W and b are the weights of the output layer.
    The model is one level of the hierarchical attention network of Yang et al., 2016. Whole
    channels of the embeddings are dropped, as in Gal and Ghahramani, 2016. Padding is id 0.

    Args:
        vocabulary_size: Number of tokens; id 0 is padding.
        num_classes: Number C of classes.
        dim: Width of the embeddings.
        dropout: Dropout rate of whole channels of the embeddings, between layers and of the output.
        word_dropout: Fraction of the tokens that are left out in training.
        recurrent_dropout: Dropout rate of the states, with one mask for all steps.
        cell: `"lstm"` or `"gru"`.
        num_layers: Number of layers.
        units: Width U of the states of both directions together, an even number.
        pooling: `"attention"`, `"average"`, `"max"` or `"last"` (the final states).
        attention_units: Width of the hidden layer of the attention; `units` if None.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, `units` is odd, or
            `attention_units` is given with another pooling.

    Example:

    >>> config = RecurrentClassifierConfig(50, num_classes=3, dim=8, units=16)
    >>> tuple(config.build()(keras.ops.array([[5, 6, 2, 0]])).shape)
    (1, 3)
    """

    _: KW_ONLY
    word_dropout: float = setting(
        0.2, "share of the tokens that are left out in training", at_least=0, below=1
    )
    units: int = setting(128, "width of the states of both directions", at_least=2)
    pooling: str = setting(
        "attention", "how the states are pooled", choices=("attention", "average", "max", "last")
    )
    attention_units: int | None = setting(
        None, "hidden width of the pooling attention", kind=int, at_least=1
    )

    encoder = RecurrentEncoder
    recurrent = True

    def __post_init__(self):
        super().__post_init__()
        if self.units % 2:
            raise ValueError(
                f"`units` must be even: the encoder has two directions. Received: {self.units}."
            )
        check_belongs(self, "attention_units", "pooling", "attention")

    def layers(self, dtype: DType) -> list[keras.layers.Layer]:
        """Creates the layers of the model.

        Args:
            dtype: Dtype or policy of the layers.

        Returns:
            A list of the layers `embedding`, `word_dropout` (unless its rate is 0),
            `embedding_dropout`, `encoder`, `pooling`, `head_dropout` and `head`.
        """
        return [
            make_embedding(self.vocabulary_size, self.dim, dtype),
            *make_word_dropout(self.word_dropout, dtype),
            keras.layers.SpatialDropout1D(self.dropout, dtype=dtype, name="embedding_dropout"),
            RecurrentEncoder(
                self.units // 2,
                num_layers=self.num_layers,
                cell=self.cell,
                dropout=self.dropout,
                recurrent_dropout=self.recurrent_dropout,
                dtype=dtype,
                name="encoder",
            ),
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
        x = layers["encoder"](
            layers["embedding_dropout"](drop_words(layers, embedded[0])), padding_mask=mask
        )
        return classify(layers, layers["pooling"](x, mask=mask))
