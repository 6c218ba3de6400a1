"""A classifier of texts as bags of tokens and token pairs."""

from dataclasses import asdict, dataclass
from typing import Any

import keras

from keras_attn.layers import (
    Dropout,
    HashedTokenPairs,
    MaskedAveragePooling,
    TokenWeighting,
)
from keras_attn.layers.pooling import COMBINERS
from keras_attn.models.classifier_parts import (
    build_classifier,
    check_classifier,
    classify,
    drop_words,
    embed_tokens,
    make_embedding,
    make_head,
    make_word_dropout,
)

Tensor = Any
Layers = dict[str, keras.layers.Layer]


@dataclass(frozen=True)
class BagClassifierConfig:
    """Settings of `bag_classifier`.

    Args:
        vocabulary_size: Number of tokens; id 0 is padding.
        num_classes: Number C of classes.
        dim: Width of the embeddings of tokens.
        dropout: Dropout of the averages, and of the hidden layer.
        word_dropout: Share of the tokens, and of the pairs, that are left out in training.
        pair_buckets: Number of hashed ids of pairs of neighbours; 0: tokens alone.
        pair_dim: Width of the embeddings of pairs.
        weighting: Whether each token and pair has a learned weight.
        combiner: `"mean"` or `"sqrtn"`, see `MaskedAveragePooling`.
        hidden_dim: Width of a hidden layer; None: no such layer.

    Raises:
        ValueError: For settings out of range.

    Example:

    >>> BagClassifierConfig(vocabulary_size=8000, num_classes=2).dim
    64
    """

    vocabulary_size: int
    num_classes: int
    dim: int = 64
    dropout: float = 0.2
    word_dropout: float = 0.0
    pair_buckets: int = 0
    pair_dim: int = 8
    weighting: bool = True
    combiner: str = "mean"
    hidden_dim: int | None = None

    def __post_init__(self):
        choices = {"combiner": COMBINERS, "weighting": (True, False)}
        check_classifier(self, choices, ("pair_dim", "hidden_dim"))
        if self.pair_buckets != 0 and not 2 <= self.pair_buckets <= 2**30:
            raise ValueError(
                "`pair_buckets` of BagClassifierConfig must be 0, or from 2 to 2 ** 30. "
                f"Received: {self.pair_buckets!r}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as a JSON-safe dict."""
        return asdict(self)


def bag_classifier(
    config: BagClassifierConfig, dtype: Any = None, name: str = "bag_classifier"
) -> keras.Model:
    """Builds a classifier that knows which tokens there are, and nothing of their order.

        tokens = mean over s of w[id[s]] E[id[s]]                    (B, D)
        pairs  = mean over s of v[hash(id[s], id[s+1])] F[...]       (B, P)
        logits = [tokens; pairs] W + b                               (B, C)

    This is TF-IDF with a linear classifier in which all is learned: the embeddings (Joulin et al.,
    2017, "fastText"), and the weights w in place of the IDF, which `TokenWeighting` begins with
    where `model.get_layer("weighting").set_token_weights(idf)` is called. The embeddings of pairs
    begin as 0, so that a pair that no training text has says nothing.

    Padding is id 0. A text without a token gets the logits of zeros.

    Args:
        config: The settings.
        dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
        name: Name of the model.

    Returns:
        A functional model from ids `(B, S)` to logits `(B, C)`.

    Example:

    >>> model = bag_classifier(BagClassifierConfig(50, num_classes=2, pair_buckets=100))
    >>> tuple(model(keras.ops.array([[5, 6, 2, 0]])).shape)
    (1, 2)
    """
    layers = _embedding_layers(config, "", config.vocabulary_size, config.dim, dtype)
    if config.pair_buckets:
        layers.append(HashedTokenPairs(config.pair_buckets, name="pairs"))
        layers += _embedding_layers(config, "pair_", config.pair_buckets, config.pair_dim, dtype)
        layers.append(keras.layers.Concatenate(dtype=dtype, name="both"))
    if config.hidden_dim is not None:
        layers.append(Dropout(config.dropout, dtype=dtype, name="hidden_dropout"))
        layers.append(keras.layers.Dense(config.hidden_dim, "relu", dtype=dtype, name="hidden"))
    layers += make_head(config.num_classes, config.dropout, dtype)
    return build_classifier(layers, embed_bag, rest_of_bag, name)


def _embedding_layers(
    config: BagClassifierConfig, prefix: str, vocabulary_size: int, dim: int, dtype: Any
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
    if config.weighting:
        name = f"{prefix}weighting"
        layers.append(
            TokenWeighting(vocabulary_size, activation="softplus", dtype=dtype, name=name)
        )
    layers += make_word_dropout(config.word_dropout, dtype, prefix)
    layers.append(
        MaskedAveragePooling(combiner=config.combiner, dtype=dtype, name=f"{prefix}pooling")
    )
    return layers


def embed_bag(layers: Layers, ids: Tensor) -> list[Tensor]:
    """The embeddings of the tokens, and of the pairs where there are some."""
    embedded = embed_tokens(layers, ids)
    if "pairs" in layers:
        embedded.append(layers["pair_embedding"](layers["pairs"](ids)))
    return embedded


def rest_of_bag(layers: Layers, embedded: list[Tensor], ids: Tensor) -> Tensor:
    """Logits of those embeddings."""
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
