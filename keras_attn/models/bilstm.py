"""Bidirectional LSTM as an encoder of texts."""

from __future__ import annotations

from dataclasses import dataclass

import keras

from keras_attn.hints import DType
from keras_attn.layers import FinalStatesPooling, InputEmbedding, RecurrentEncoder
from keras_attn.layers.activations import check_keras_activation
from keras_attn.models.roles import ENCODERS
from keras_attn.models.text_encoder import Layers, Tensor, TextEncoderConfig
from keras_attn.settings import setting, size


@ENCODERS.register("bilstm")
@dataclass(frozen=True)
class BiLstmConfig(TextEncoderConfig):
    """Settings of a bidirectional LSTM that encodes texts (Graves and Schmidhuber, 2005).

        x        = dropout(norm(E[ids] + S[segments]))                        (B, T, D)
        sequence = lstm_N(... lstm_1(x))                                      (B, T, D)
        pooled   = activation([forward[l]; backward[f]] W + b)                (B, D)

    E and S are the tables of tokens and segments, N is `num_layers`, and W and b are the weights of
    the pooler. Each direction computes half of the states `sequence`; f and l are the first and the
    last token. The heads are the same as for `BertConfig`, so that both kinds of encoders can be
    compared. The encoder has no attention, and therefore no attention weights.

    Args:
        vocabulary_size: Number V of tokens.
        dim: Width D of the embeddings, and of the states of both directions; an even number.
        num_layers: Number of layers.
        dropout: Dropout rate of the embeddings, between layers, and of the states that heads for
            classes and tags read.
        recurrent_dropout: Dropout rate of the states, with one mask for all steps.
        layer_norm_epsilon: Epsilon of the norm of the embeddings.
        sequence_length: Maximum number of tokens of a text. There is no table of positions.
        num_segments: Number of segments; None for no segments. With 1 or None, the model has no
            input for segments.
        pooler_activation: Activation of the pooled vector; None for an encoder without a pooler.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, or the width is odd.

    Example:

    >>> model = BiLstmConfig(50, dim=16, num_layers=1).build()
    >>> ids = keras.ops.array([[2, 9, 3, 0]])
    >>> inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids != 0}
    >>> {name: tuple(x.shape) for name, x in model(inputs).items()}
    {'sequence': (1, 4, 16), 'pooled': (1, 16)}
    """

    vocabulary_size: int = size("number of tokens")
    dim: int = setting(256, "width of the model", at_least=2)
    num_layers: int = setting(1, "number of layers", at_least=1)
    dropout: float = setting(
        0.3, "dropout of embeddings, between layers and of the output", at_least=0, below=1
    )
    recurrent_dropout: float = setting(0.0, "dropout of the states", at_least=0, below=1)
    layer_norm_epsilon: float = setting(1e-6, "epsilon of the norms", above=0)
    sequence_length: int = size("largest number of tokens of a text", default=512)
    num_segments: int | None = size("number of segments", default=2, optional=True)
    pooler_activation: str | None = size(
        "activation of the pooler", default="tanh", kind=str, optional=True,
        check=check_keras_activation,
    )  # fmt: skip

    head_activation = "gelu"
    reads_words = True

    def __post_init__(self):
        super().__post_init__()
        if self.dim % 2:
            raise ValueError(
                f"`dim` must be even: the encoder has two directions. Received: {self.dim}."
            )

    @property
    def initializer_range(self) -> float:
        """Standard deviation of the weights of heads, `D ** -0.5`."""
        return self.dim**-0.5

    def layers(self, dtype: DType = None, output_bias: bool = False) -> list[keras.layers.Layer]:
        """Creates the layers of the encoder.

        Args:
            dtype: Dtype or policy of the layers.
            output_bias: Whether the embedding has a bias for logits.

        Returns:
            A list of the layers `embedding`, `encoder` and, unless `pooler_activation` is None,
            `ends` and `pooler`.
        """
        layers = [
            InputEmbedding(
                self.vocabulary_size,
                self.dim,
                num_segments=self.num_segments,
                positions=None,
                mask_zero=False,
                layer_norm_epsilon=self.layer_norm_epsilon,
                dropout=self.dropout,
                output_bias=output_bias,
                dtype=dtype,
                name="embedding",
            ),
            RecurrentEncoder(
                self.dim // 2,
                num_layers=self.num_layers,
                cell="lstm",
                dropout=self.dropout,
                recurrent_dropout=self.recurrent_dropout,
                dtype=dtype,
                name="encoder",
            ),
        ]
        if self.pooler_activation is not None:
            layers.append(FinalStatesPooling(dtype=dtype, name="ends"))
            layers.append(
                keras.layers.Dense(
                    self.dim, activation=self.pooler_activation, dtype=dtype, name="pooler"
                )
            )
        return layers

    @staticmethod
    def encode(layers: Layers, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Calls the layers on the inputs of the encoder.

        Args:
            layers: The layers, keyed by name.
            inputs: `token_ids`, `segment_ids` (if there are several segments) and `padding_mask`,
                `(B, T)`.

        Returns:
            A dict with `sequence` `(B, T, D)` and, if there is a pooler, `pooled` `(B, D)`, which
            is computed from the final states of both directions.
        """
        mask = inputs["padding_mask"]
        x = layers["embedding"](inputs["token_ids"], inputs.get("segment_ids"), mask=mask)
        found = {"sequence": layers["encoder"](x, padding_mask=mask)}
        if "pooler" in layers:
            found["pooled"] = layers["pooler"](layers["ends"](found["sequence"], mask=mask))
        return found
