"""Captions by a recurrent decoder with soft attention."""

from dataclasses import dataclass
from typing import ClassVar

import keras

from keras_attn.hints import DType
from keras_attn.layers import (
    AdditiveAttention,
    AttentionDecoder,
    DoublyStochasticLoss,
    TokenEmbedding,
)
from keras_attn.layers.activations import check_keras_activation
from keras_attn.models.roles import CAPTIONERS
from keras_attn.settings import Settings, setting, size


@CAPTIONERS.register("soft-attention")
@dataclass(frozen=True)
class SoftAttentionCaptionerConfig(Settings):
    """Settings of the captioner of Xu et al., 2015 ("Show, Attend and Tell").

    For regions a_i, i = 1 ... R, and tokens y_t with embeddings E y_t:

        h_0, c_0 = tanh(W_h mean_i(a_i) + b_h), tanh(W_c mean_i(a_i) + b_c)
        e_ti     = v . tanh(W_a a_i + U_a h_{t-1} + b)
        alpha_t  = softmax(e_t)                                        (R,)
        beta_t   = sigmoid(w_beta . h_{t-1} + b_beta)
        z_t      = beta_t sum_i alpha_ti a_i                           (D,)
        h_t, c_t = LSTM([E y_{t-1}; z_t], h_{t-1}, c_{t-1})            (n,)
        logits_t = L_o dropout(f(E y_{t-1} + L_h h_t + L_z z_t)) + b_o (V,)

    where f is `activation`, and all W, U, L, v, w and b are weights. A caption begins with a start
    token; the paper uses a zero vector. With `context_gate=False`, beta_t is 1. Unless
    `doubly_stochastic=0`, `fit` adds the loss of `DoublyStochasticLoss`. Padding is id 0. The
    regions are computed in advance, or by an `ImageEncoder` within a larger functional model.

    Args:
        vocabulary_size: Number V of tokens; id 0 is padding.
        region_dim: Width D of a region: `region_dim` of the `ImageEncoder`.
        dim: Width m of the embeddings.
        units: Width n of the states of the LSTM.
        attention_units: Width of the hidden layer of the attention; `units` if None.
        initial_units: Width of a hidden layer in both networks that compute the initial state; no
            hidden layer if None, as in the code of the paper.
        context_gate: Whether the context is scaled by the gate beta.
        activation: Activation f of the deep output: `"linear"` in the paper, `"tanh"` in its code.
        dropout: Dropout of the deep output.
        doubly_stochastic: Factor lambda of the doubly stochastic loss; 0 leaves it out.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range, or `activation` is unknown.

    Example:

    >>> model = SoftAttentionCaptionerConfig(50, region_dim=6, dim=8, units=16).build()
    >>> inputs = {"regions": ops.ones((1, 9, 6)), "target_ids": ops.array([[1, 5, 6]])}
    >>> tuple(model(inputs).shape), len(model.losses)
    ((1, 3, 50), 1)
    """

    vocabulary_size: int = size("number of tokens")
    region_dim: int = size("width of a region")
    dim: int = setting(256, "width of the embeddings", at_least=1)
    units: int = setting(256, "width of the LSTM", at_least=1)
    attention_units: int | None = setting(
        None, "width of the attention; the width of the LSTM if none", kind=int, at_least=1
    )
    initial_units: int | None = setting(
        None, "hidden width of the networks that compute the initial state; no hidden layer if "
              "none",
        kind=int, at_least=1,
    )  # fmt: skip
    context_gate: bool = setting(True, "scale the context with a gate")
    activation: str = setting(
        "linear", "activation of the deep output", check=check_keras_activation
    )
    dropout: float = setting(0.3, "dropout of the decoder", at_least=0, below=1)
    doubly_stochastic: float = setting(
        1.0, "weight of the doubly stochastic loss; 0 leaves it out", at_least=0
    )

    recurrent: ClassVar[bool] = True

    def build(self, dtype: DType = None, name: str = "soft_attention") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from `{"regions": (B, R, D), "target_ids": (B, T)}` to logits
            `(B, T, V)`, for any number of regions. `CaptionDecoder` decodes with it.
        """
        regions = keras.Input((None, self.region_dim), name="regions")
        target_ids = keras.Input((None,), dtype="int32", name="target_ids")
        embedding = TokenEmbedding(self.vocabulary_size, self.dim, dtype=dtype, name="embedding")
        attention = AdditiveAttention(
            self.units if self.attention_units is None else self.attention_units,
            use_bias=True,
            dtype=dtype,
            name="attention",
        )
        decoder = AttentionDecoder(
            keras.layers.LSTMCell(self.units, dtype=dtype, name="cell"),
            attention,
            order="bahdanau",
            attention_units=self.dim,
            activation=self.activation,
            bridge=True,
            bridge_units=self.initial_units,
            summary="mean",
            context_gate=self.context_gate,
            add_input=True,
            dropout=self.dropout,
            dtype=dtype,
            name="decoder",
        )
        x = embedding(target_ids)
        if self.doubly_stochastic:
            x, [weights] = decoder(x, regions, return_attention_scores=True)
            loss = DoublyStochasticLoss(
                self.doubly_stochastic, dtype=dtype, name="doubly_stochastic"
            )
            x = loss(x, weights)
        else:
            x = decoder(x, regions)
        logits = keras.layers.Dense(self.vocabulary_size, dtype=dtype, name="head")(x)
        return keras.Model({"regions": regions, "target_ids": target_ids}, logits, name=name)
