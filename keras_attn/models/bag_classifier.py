"""Classifier of texts as bags of tokens and token pairs."""

from dataclasses import dataclass

import keras

from keras_attn.hints import DType, Tensor
from keras_attn.layers import (
    Dropout,
    HashedTokenPairs,
    MaskedAveragePooling,
    TokenWeighting,
)
from keras_attn.layers.pooling import COMBINERS
from keras_attn.models.classifier_parts import (
    TextClassifierConfig,
    classify,
    drop_words,
    make_embedding,
    make_head,
    make_word_dropout,
)
from keras_attn.models.roles import TEXT_CLASSIFIERS
from keras_attn.settings import setting

Layers = dict[str, keras.layers.Layer]


@TEXT_CLASSIFIERS.register("bag")
@dataclass(frozen=True)
class BagClassifierConfig(TextClassifierConfig):
    """Settings of a bag-of-tokens classifier, which ignores the order of tokens.

        tokens = mean over s of w[id[s]] E[id[s]]                                        (B, D)
        pairs  = mean over s of v[hash(id[s], id[s+1])] F[hash(id[s], id[s+1])]          (B, P)
        logits = [tokens; pairs] W + b                                                   (B, C)

    E and F are the embeddings of tokens and pairs, `hash` maps a pair of ids to one of
    `pair_buckets` ids, and W and b are the weights of the output layer. With `pair_buckets=0`,
    there are no pairs. With `hidden_dim`, a hidden layer with a ReLU precedes the output layer.

    Without a hidden layer, the model is a linear classifier over TF-IDF features in which all parts
    are learned: the embeddings (Joulin et al., 2017, "fastText"), and weights w and v in place of
    the IDF.
    `token_weights` determines how the weights are initialized. The embeddings of pairs are
    initialized with 0, so that pairs that occur in no training text have no effect.

    Padding is id 0. For a text without tokens, the averages are 0.

    Args:
        vocabulary_size: Number of tokens; id 0 is padding.
        num_classes: Number C of classes.
        dim: Width D of the embeddings of tokens.
        dropout: Dropout rate of the averages and of the hidden layer.
        word_dropout: Fraction of the tokens and pairs that are left out in training.
        pair_buckets: Number of hashed ids of adjacent pairs; 0 uses only tokens.
        pair_dim: Width P of the embeddings of pairs.
        hidden_dim: Width of a hidden layer; no hidden layer if None.
        token_weights: Initial values of the learned weights of tokens and pairs: `"association"` or
            `"idf"` (statistics of the training texts, which a task computes) or `"one"`. With
            `"none"`, there are no weights, and all tokens count equally.
        combiner: Divisor of the sums over n tokens: `"mean"` divides by n, `"sqrtn"` by the square
            root of n.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, or `pair_dim` is given
            with `pair_buckets=0`.

    Example:

    >>> config = BagClassifierConfig(vocabulary_size=50, num_classes=2, pair_buckets=100)
    >>> tuple(config.build()(keras.ops.array([[5, 6, 2, 0]])).shape)
    (1, 2)
    """

    dim: int = setting(64, "width of the embeddings", at_least=1)
    dropout: float = setting(0.2, "dropout rate of the averages", at_least=0, below=1)
    word_dropout: float = setting(
        0.2, "share of the tokens that are left out in training", at_least=0, below=1
    )
    pair_buckets: int = setting(
        500_000, "hashed pairs of adjacent tokens; 0 uses only tokens", at_least=0
    )
    pair_dim: int = setting(8, "width of the embeddings of pairs", at_least=1)
    hidden_dim: int | None = setting(None, "width of a hidden layer", kind=int, at_least=1)
    token_weights: str = setting(
        "association",
        "initial values of the learned weights of tokens; none for no weights",
        choices=("association", "idf", "one", "none"),
    )
    combiner: str = setting("mean", "how embeddings are combined", choices=COMBINERS)

    def __post_init__(self):
        super().__post_init__()
        if self.pair_buckets != 0 and not 2 <= self.pair_buckets <= 2**30:
            raise ValueError(
                f"`pair_buckets` must be 0, or from 2 to 2 ** 30. Received: {self.pair_buckets!r}."
            )
        if self.pair_buckets == 0 and self.pair_dim != BagClassifierConfig.pair_dim:
            raise ValueError(
                "`pair_dim` requires `pair_buckets` above 0. Received: "
                f"pair_dim={self.pair_dim}, pair_buckets=0."
            )

    def layers(self, dtype: DType) -> list[keras.layers.Layer]:
        """Creates the layers of the model.

        Args:
            dtype: Dtype or policy of the layers.

        Returns:
            A list of the layers: `embedding`, `weighting`, `word_dropout` and `pooling`; the same
            layers with the prefix `pair_`, `pairs` and `both` if there are pairs; `hidden_dropout`
            and `hidden` if there is a hidden layer; `head_dropout` and `head`. Without
            `token_weights` or `word_dropout`, their layers are missing.
        """
        layers = _embedding_layers(self, "", self.vocabulary_size, self.dim, dtype)
        if self.pair_buckets:
            layers.append(HashedTokenPairs(self.pair_buckets, name="pairs"))
            layers += _embedding_layers(self, "pair_", self.pair_buckets, self.pair_dim, dtype)
            layers.append(keras.layers.Concatenate(dtype=dtype, name="both"))
        if self.hidden_dim is not None:
            layers.append(Dropout(self.dropout, dtype=dtype, name="hidden_dropout"))
            layers.append(keras.layers.Dense(self.hidden_dim, "relu", dtype=dtype, name="hidden"))
        return layers + make_head(self.num_classes, self.dropout, dtype)

    @staticmethod
    def embed(layers: Layers, ids: Tensor) -> list[Tensor]:
        """Computes the embeddings of ids.

        Args:
            layers: The layers of the model, keyed by name.
            ids: Ids `(B, S)`.

        Returns:
            A list of the embeddings of the tokens, `(B, S, D)`, and, if the model uses pairs, of
            the pairs, `(B, S, P)`.
        """
        embedded = [layers["embedding"](ids)]
        if "pairs" in layers:
            embedded.append(layers["pair_embedding"](layers["pairs"](ids)))
        return embedded

    @staticmethod
    def rest(layers: Layers, embedded: list[Tensor], ids: Tensor) -> Tensor:
        """Computes the logits from the embeddings of ids.

        Args:
            layers: The layers of the model, keyed by name.
            embedded: The result of `embed` for the ids.
            ids: Ids `(B, S)`, from which the padding mask and the pairs are computed.

        Returns:
            The logits `(B, C)`.
        """
        averages = []
        for prefix, x in zip(("", "pair_"), embedded, strict=False):
            own_ids = layers["pairs"](ids) if prefix else ids
            mask = keras.ops.not_equal(own_ids, 0)
            if f"{prefix}weighting" in layers:
                x = layers[f"{prefix}weighting"](x, own_ids, mask=mask)
            x = drop_words(layers, x, prefix)
            averages.append(layers[f"{prefix}pooling"](x, mask=mask))
        x = layers["both"](averages) if len(averages) > 1 else averages[0]
        if "hidden" in layers:
            x = layers["hidden"](layers["hidden_dropout"](x))
        return classify(layers, x)


def _embedding_layers(
    config: BagClassifierConfig, prefix: str, vocabulary_size: int, dim: int, dtype: DType
) -> list[keras.layers.Layer]:
    """The layers between ids and an average."""
    layers = [
        make_embedding(
            vocabulary_size,
            dim,
            dtype,
            scale=False,
            embeddings_initializer="zeros" if prefix else "uniform",
            name=f"{prefix}embedding",
        )
    ]
    if config.token_weights != "none":
        name = f"{prefix}weighting"
        layers.append(
            TokenWeighting(vocabulary_size, activation="softplus", dtype=dtype, name=name)
        )
    layers += make_word_dropout(config.word_dropout, dtype, prefix)
    layers.append(
        MaskedAveragePooling(combiner=config.combiner, dtype=dtype, name=f"{prefix}pooling")
    )
    return layers
