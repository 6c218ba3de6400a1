"""Recurrent language model."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import keras

from keras_attn.hints import DType
from keras_attn.layers import AttentionDecoder, Dropout, TokenEmbedding
from keras_attn.layers.recurrent_cells import CELLS
from keras_attn.models.roles import LANGUAGE_MODELS
from keras_attn.models.stack_settings import RecurrentSettings
from keras_attn.settings import setting, size


@LANGUAGE_MODELS.register("rnn")
@dataclass(frozen=True)
class RecurrentLanguageModelConfig(RecurrentSettings):
    """Settings of a recurrent language model (Mikolov et al., 2010).

        x      = embed(ids)                                  (B, T, D)
        h      = LSTM(... LSTM(x))                           (B, T, U)
        logits = h W + b, or tanh(h Wp) E^T if tied          (B, T, V)

    E is the embedding, and W, b and Wp are weights; `cell="gru"` replaces the LSTMs by GRUs. If the
    output is tied and D = U, the logits are `h E^T`.

    The logits at a position predict the next token. The model has no mask, because right padding
    does not change the logits of tokens. The loss must ignore padding, either by sample weights or
    by an ignored label (as `MaskedCrossEntropy` does).

    Args:
        vocabulary_size: Number V of tokens.
        cell: `"lstm"` or `"gru"`.
        num_layers: Number of recurrent layers.
        dim: Width D of the embeddings.
        units: Width U of the states.
        dropout: Dropout rate of embeddings, between layers and of the output.
        recurrent_dropout: Dropout rate of the states, with one mask for all steps.
        tie_embeddings: Whether the output is tied to the embedding. If it is tied and D differs
            from U, a layer `tanh(h Wp)` of width D is inserted before the output.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices.

    Example:

    >>> model = RecurrentLanguageModelConfig(50, dim=8, units=16).build()
    >>> tuple(model(keras.ops.array([[1, 5, 6]])).shape)
    (1, 3, 50)
    """

    vocabulary_size: int = size("number of tokens")
    _: KW_ONLY
    units: int = setting(512, "width of the states", at_least=1)
    tie_embeddings: bool = setting(False, "tie the output to the embedding")

    recurrent: ClassVar[bool] = True

    def build(self, dtype: DType = None, name: str = "rnn_language_model") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from ids `(B, T)` to logits `(B, T, V)`, with the layers `embedding`,
            `decoder` and, if the output is not tied, `head`. `language_decoder` decodes with these
            layers.
        """
        ids = keras.Input((None,), dtype="int32", name="ids")
        embedding = TokenEmbedding(
            self.vocabulary_size, self.dim, mask_zero=False, dtype=dtype, name="embedding"
        )
        cells = [
            CELLS[self.cell](
                self.units,
                # The input of the first cell has its own dropout.
                dropout=self.dropout if i else 0.0,
                recurrent_dropout=self.recurrent_dropout,
                dtype=dtype,
                name=f"{self.cell}_{i}",
            )
            for i in range(self.num_layers)
        ]
        projects = self.tie_embeddings and self.dim != self.units
        decoder = AttentionDecoder(
            cells,
            attention_units=self.dim if projects else None,
            dropout=self.dropout,
            dtype=dtype,
            name="decoder",
        )
        dropout = Dropout(self.dropout, dtype=dtype, name="embedding_dropout")
        x = decoder(dropout(embedding(ids)))
        if self.tie_embeddings:
            logits = embedding(x, reverse=True)
        else:
            logits = keras.layers.Dense(self.vocabulary_size, dtype=dtype, name="head")(x)
        return keras.Model(ids, logits, name=name)
