"""The recurrent language model."""

from dataclasses import asdict, dataclass
from typing import Any

import keras

from keras_attn.layers import AttentionDecoder, Dropout, TokenEmbedding
from keras_attn.layers.recurrent_cells import CELLS
from keras_attn.models.token_decoder import TokenDecoder


@dataclass(frozen=True)
class RecurrentLanguageModelConfig:
    """Settings of `recurrent_language_model`.

    Args:
        vocabulary_size: Number V of tokens.
        cell: `"lstm"` or `"gru"`.
        num_layers: Number of recurrent layers.
        dim: Width of the embeddings.
        units: Width U of the states.
        dropout: Dropout of embeddings, of what is between layers, and of the output.
        recurrent_dropout: Dropout of the states, one mask for all steps.
        tie_embeddings: Whether the output is tied to the embedding; where `dim` is not `units`, a
            layer `tanh(h W)` of width `dim` stands between.

    Raises:
        ValueError: For an unknown cell.

    Example:

    >>> RecurrentLanguageModelConfig(vocabulary_size=70).units
    512
    """

    vocabulary_size: int
    cell: str = "lstm"
    num_layers: int = 1
    dim: int = 64
    units: int = 512
    dropout: float = 0.2
    recurrent_dropout: float = 0.0
    tie_embeddings: bool = False

    def __post_init__(self):
        if self.cell not in CELLS:
            raise ValueError(f"`cell` must be one of {list(CELLS)}. Received: {self.cell!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as a JSON-safe dict."""
        return asdict(self)


def recurrent_language_model(
    config: RecurrentLanguageModelConfig, dtype: Any = None, name: str = "rnn_language_model"
) -> keras.Model:
    """Builds a recurrent language model (Mikolov et al., 2010) as a functional model.

        x      = embed(ids)                                  (B, T, D)
        h      = LSTM(... LSTM(x))                           (B, T, U)
        logits = h W + b, or tanh(h Wp) E^T where tied       (B, T, V)

    The logits at a position are those of the next token. There is no padding inside: a batch that
    is padded on the right gives the same logits on its tokens, and the loss must leave the rest
    out by its weights or by the label (`MaskedCrossEntropy` does).

    Args:
        config: The settings.
        dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
        name: Name of the model.

    Returns:
        A functional model from ids `(B, T)` to logits `(B, T, V)`, with the layers `embedding`,
        `decoder` and, where it is not tied, `head`. `language_decoder` decodes with them.

    Example:

    >>> model = recurrent_language_model(RecurrentLanguageModelConfig(50, dim=8, units=16))
    >>> tuple(model(keras.ops.array([[1, 5, 6]])).shape)
    (1, 3, 50)
    """
    ids = keras.Input((None,), dtype="int32", name="ids")
    embedding = TokenEmbedding(
        config.vocabulary_size, config.dim, mask_zero=False, dtype=dtype, name="embedding"
    )
    cells = [
        CELLS[config.cell](
            config.units,
            # What goes into the first cell has its own dropout.
            dropout=config.dropout if i else 0.0,
            recurrent_dropout=config.recurrent_dropout,
            dtype=dtype,
            name=f"{config.cell}_{i}",
        )
        for i in range(config.num_layers)
    ]
    projects = config.tie_embeddings and config.dim != config.units
    decoder = AttentionDecoder(
        cells,
        attention_units=config.dim if projects else None,
        dropout=config.dropout,
        dtype=dtype,
        name="decoder",
    )
    dropout = Dropout(config.dropout, dtype=dtype, name="embedding_dropout")
    x = decoder(dropout(embedding(ids)))
    if config.tie_embeddings:
        logits = embedding(x, reverse=True)
    else:
        logits = keras.layers.Dense(config.vocabulary_size, dtype=dtype, name="head")(x)
    return keras.Model(ids, logits, name=name)


def language_decoder(model: keras.Model) -> TokenDecoder:
    """Returns what decodes with the layers of a language model; it has no weights of its own.

    Args:
        model: What `recurrent_language_model` returned, or a reloaded one.

    Returns:
        A `TokenDecoder`, for `sample`, `greedy_search` and `beam_search`.

    Raises:
        ValueError: If the model lacks the layers.

    Example:

    >>> model = recurrent_language_model(RecurrentLanguageModelConfig(50, dim=8, units=16))
    >>> logits, state = language_decoder(model).prefill(keras.ops.array([[1, 5]]))
    >>> tuple(logits.shape)
    (1, 50)
    """
    layers = {layer.name: layer for layer in getattr(model, "layers", [])}
    wanted = {"embedding": TokenEmbedding, "decoder": AttentionDecoder}
    missing = [n for n, kind in wanted.items() if not isinstance(layers.get(n), kind)]
    if missing:
        raise ValueError(
            "Expected a model of `recurrent_language_model`. Received: "
            f"{getattr(model, 'name', model)!r} without its layers {missing}. For other models use "
            "`keras_attn.generation.RecomputeDecoder`."
        )
    return TokenDecoder(layers["embedding"], None, layers["decoder"], layers.get("head"))
