"""Captions by a recurrent decoder with soft attention."""

import numbers
from dataclasses import asdict, dataclass
from typing import Any

import keras

from keras_attn.layers import (
    AdditiveAttention,
    AttentionDecoder,
    DoublyStochasticLoss,
    TokenEmbedding,
)
from keras_attn.layers.masked_layer import check_positive, check_rate

Tensor = Any


@dataclass(frozen=True)
class SoftAttentionCaptionerConfig:
    """Settings of `soft_attention_captioner`.

    Args:
        vocabulary_size: Number V of tokens; id 0 is padding.
        region_dim: Width D of a region: `region_dim` of the `ImageEncoder`.
        dim: Width m of the embeddings.
        units: Width n of the states of the LSTM.
        attention_units: Width of the hidden layer of the attention; `units` if None.
        initial_units: Width of a hidden layer of both networks that make the initial state; None:
            they have none, as in the code of the paper.
        context_gate: Whether the context is scaled by the gate beta.
        activation: Of the deep output: `"linear"` in the paper, `"tanh"` in its code.
        dropout: Dropout of the deep output.
        doubly_stochastic: The factor lambda of the doubly stochastic loss; 0: there is none.

    Raises:
        ValueError: For settings out of range.

    Example:

    >>> SoftAttentionCaptionerConfig(vocabulary_size=4000, region_dim=512).units
    512
    """

    vocabulary_size: int
    region_dim: int
    dim: int = 256
    units: int = 512
    attention_units: int | None = None
    initial_units: int | None = None
    context_gate: bool = True
    activation: str = "linear"
    dropout: float = 0.5
    doubly_stochastic: float = 1.0

    def __post_init__(self):
        counts = {n: getattr(self, n) for n in ("vocabulary_size", "region_dim", "dim", "units")}
        for name in ("attention_units", "initial_units"):
            if getattr(self, name) is not None:
                counts[name] = getattr(self, name)
        check_positive("SoftAttentionCaptionerConfig", **counts)
        check_rate("SoftAttentionCaptionerConfig", dropout=self.dropout)
        if not isinstance(self.context_gate, bool):
            raise ValueError(
                f"`context_gate` must be True or False. Received: {self.context_gate!r}."
            )
        value = self.doubly_stochastic
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not value >= 0:
            raise ValueError(
                f"`doubly_stochastic` must be a number, 0 or greater. Received: {value!r}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as a JSON-safe dict."""
        return asdict(self)


def soft_attention_captioner(
    config: SoftAttentionCaptionerConfig, dtype: Any = None, name: str = "soft_attention"
) -> keras.Model:
    """Builds the captioner with soft attention of Xu et al., 2015 ("Show, Attend and Tell").

    For regions a_i, i = 1 ... R, and tokens y_t with embeddings E y_t:

        h_0, c_0 = tanh(W_h mean_i(a_i) + b_h), tanh(W_c mean_i(a_i) + b_c)
        e_ti     = v . tanh(W_a a_i + U_a h_{t-1} + b)
        alpha_t  = softmax(e_t)                                        (R,)
        beta_t   = sigmoid(w_beta . h_{t-1} + b_beta)
        z_t      = beta_t sum_i alpha_ti a_i                           (D,)
        h_t, c_t = LSTM([E y_{t-1}; z_t], h_{t-1}, c_{t-1})            (n,)
        logits_t = L_o dropout(f(E y_{t-1} + L_h h_t + L_z z_t)) + b_o (V,)

    with f the identity. A caption begins with a start token, where the paper has a zero vector.
    `fit` adds the doubly stochastic loss, see `DoublyStochasticLoss`. Padding is id 0; regions are
    computed once, or by an `ImageEncoder` within a larger functional model.

    Args:
        config: The settings.
        dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
        name: Name of the model.

    Returns:
        A functional model from `{"regions": (B, R, D), "target_ids": (B, T)}` to logits
        `(B, T, V)`, for any number of regions; decoded by `CaptionDecoder`.

    Example:

    >>> config = SoftAttentionCaptionerConfig(50, region_dim=6, dim=8, units=16)
    >>> model = soft_attention_captioner(config)
    >>> inputs = {"regions": ops.ones((1, 9, 6)), "target_ids": ops.array([[1, 5, 6]])}
    >>> tuple(model(inputs).shape), len(model.losses)
    ((1, 3, 50), 1)
    """
    regions = keras.Input((None, config.region_dim), name="regions")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    embedding = TokenEmbedding(config.vocabulary_size, config.dim, dtype=dtype, name="embedding")
    attention = AdditiveAttention(
        config.units if config.attention_units is None else config.attention_units,
        use_bias=True,
        dtype=dtype,
        name="attention",
    )
    decoder = AttentionDecoder(
        keras.layers.LSTMCell(config.units, dtype=dtype, name="cell"),
        attention,
        order="bahdanau",
        attention_units=config.dim,
        activation=config.activation,
        bridge=True,
        bridge_units=config.initial_units,
        summary="mean",
        context_gate=config.context_gate,
        add_input=True,
        dropout=config.dropout,
        dtype=dtype,
        name="decoder",
    )
    x = embedding(target_ids)
    if config.doubly_stochastic:
        x, [weights] = decoder(x, regions, return_attention_scores=True)
        loss = DoublyStochasticLoss(config.doubly_stochastic, dtype=dtype, name="doubly_stochastic")
        x = loss(x, weights)
    else:
        x = decoder(x, regions)
    logits = keras.layers.Dense(config.vocabulary_size, dtype=dtype, name="head")(x)
    return keras.Model({"regions": regions, "target_ids": target_ids}, logits, name=name)
