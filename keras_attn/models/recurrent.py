"""Recurrent encoder-decoder with and without attention."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import keras

from keras_attn.hints import DType
from keras_attn.layers import (
    AdditiveAttention,
    AttentionDecoder,
    Dropout,
    LuongAttention,
    RecurrentEncoder,
    SequenceAttention,
    TokenEmbedding,
)
from keras_attn.layers.attention_decoder import ORDERS
from keras_attn.layers.recurrent_cells import CELLS
from keras_attn.layers.sequence_attention import WINDOWS
from keras_attn.models.roles import CONVERSATION_MODELS, ENCODER_DECODERS
from keras_attn.models.stack_settings import RecurrentSettings
from keras_attn.settings import setting, size, with_defaults

ATTENTIONS = (
    "none",
    "additive",
    "additive-normalized",
    "luong-dot",
    "luong-general",
    "luong-concat",
    "luong-scaled",
)


@CONVERSATION_MODELS.register("rnn")
@ENCODER_DECODERS.register("rnn")
@dataclass(frozen=True)
@with_defaults(
    cell="gru",
    dim=256,
    dropout=0.1,
    help={"num_layers": "layers of the encoder, and of the decoder"},
)
class RecurrentEncoderDecoderConfig(RecurrentSettings):
    """Settings of a recurrent encoder-decoder, with or without attention.

        memory = encoder(embed(source_ids))                                (B, S, units)
        logits = decoder(embed(target_ids), memory) E^T                    (B, T, V)

    With `attention="none"`, each step reads the fixed context of Cho et al., 2014: the final states
    of both directions of the encoder. `attention="additive"` gives the model of Bahdanau et al.,
    2015, and the values that begin with `"luong-"` the models of Luong et al., 2015. The initial
    state of the decoder is always computed from the final states of the encoder, and the output is
    tied to the target embedding E. Padding is id 0 in sources and targets.

    Args:
        source_vocabulary_size: Number of source tokens; id 0 is padding.
        target_vocabulary_size: Number of target tokens. If None, sources and targets share one
            vocabulary and one embedding.
        attention: `"none"` (the fixed context), `"additive"`, `"additive-normalized"`,
            `"luong-dot"`, `"luong-general"`, `"luong-concat"` or `"luong-scaled"`.
        cell: `"gru"` or `"lstm"`.
        num_layers: Number of layers of the encoder and of the decoder.
        dim: Width of the embeddings and of the decoder's output.
        units: Width of the decoder's states and of the encoder's output, an even number. Each
            direction of the encoder has half of this width.
        dropout: Dropout rate of embeddings, between layers and of the output.
        recurrent_dropout: Dropout rate of the states, with one mask for all steps.
        order: Whether the decoder attends from its current state (`"luong"`) or from its previous
            state (`"bahdanau"`), as in `AttentionDecoder`. If None, the order is `"luong"` for
            attentions that begin with `"luong-"`, otherwise `"bahdanau"`.
        input_feeding: Whether the attention vector is an input of the next step. If None, it is an
            input only with the order `"luong"`.
        window: Window of the attention, `"monotonic"` or `"predictive"`; no window if None.
        window_size: Half-width of the window; 10 if None.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, `units` is odd, an
            option of the attention is given with `attention="none"`, or `window_size` without
            `window`.

    Example:

    >>> model = RecurrentEncoderDecoderConfig(50, dim=8, units=16).build()
    >>> ids = keras.ops.array([[5, 6, 2]])
    >>> tuple(model({"source_ids": ids, "target_ids": ids}).shape)
    (1, 3, 50)
    """

    source_vocabulary_size: int = size("number of source tokens")
    target_vocabulary_size: int | None = size("number of target tokens", default=None)
    _: KW_ONLY
    attention: str = setting(
        "additive", "kind of attention; none means a fixed context", choices=ATTENTIONS
    )
    units: int = setting(512, "width of the states, an even number", at_least=2)
    order: str | None = setting(
        None,
        "attend from the previous state (bahdanau) or the current one (luong); if none, as in the "
        "paper of the attention",
        kind=str,
        choices=ORDERS,
    )
    input_feeding: bool | None = setting(
        None,
        "feed the attention vector to the next step; if none, only in Luong's order",
        kind=bool,
    )
    window: str | None = setting(None, "window of the attention", kind=str, choices=WINDOWS)
    window_size: int | None = setting(
        None, "half-width of the window in tokens; 10 if none", kind=int, at_least=1
    )

    recurrent: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        if self.attention == "none":
            given = [n for n in ("order", "window", "window_size") if getattr(self, n) is not None]
            given += ["input_feeding"] * bool(self.input_feeding)
            if given:
                raise ValueError(
                    f"{' and '.join(f'`{name}`' for name in given)} can only be used with "
                    "attention. Received: attention='none'. Leave them out, or choose an "
                    "attention."
                )
        if self.window_size is not None and self.window is None:
            raise ValueError(
                f"`window_size` requires a `window`, one of {list(WINDOWS)}. Received: "
                f"window_size={self.window_size!r} without `window`."
            )
        if self.units % 2:
            raise ValueError(
                f"`units` must be even: the encoder has two directions. Received: {self.units}."
            )

    def build(self, dtype: DType = None, name: str = "rnn") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from `{"source_ids": (B, S), "target_ids": (B, T)}` to logits
            `(B, T, V)`. `SequenceDecoder` decodes with it.
        """
        source_ids = keras.Input((None,), dtype="int32", name="source_ids")
        target_ids = keras.Input((None,), dtype="int32", name="target_ids")
        source_embedding = TokenEmbedding(
            self.source_vocabulary_size, self.dim, dtype=dtype, name="source_embedding"
        )
        target_embedding = source_embedding
        if self.target_vocabulary_size is not None:
            target_embedding = TokenEmbedding(
                self.target_vocabulary_size, self.dim, dtype=dtype, name="target_embedding"
            )
        dropout = Dropout(self.dropout, dtype=dtype, name="embedding_dropout")
        encoder = RecurrentEncoder(
            self.units // 2,
            num_layers=self.num_layers,
            cell=self.cell,
            dropout=self.dropout,
            recurrent_dropout=self.recurrent_dropout,
            dtype=dtype,
            name="encoder",
        )
        attention = _attention(self, dtype)
        decoder = AttentionDecoder(
            [_cell(self, i, dtype) for i in range(self.num_layers)],
            attention,
            order=_order(self),
            input_feeding=self.input_feeding,
            attention_units=self.dim,
            bridge=True,
            summary="ends",
            dropout=self.dropout,
            dtype=dtype,
            name="decoder",
        )
        memory = encoder(dropout(source_embedding(source_ids)))
        output = decoder(dropout(target_embedding(target_ids)), memory)
        logits = target_embedding(output, reverse=True)
        inputs = {"source_ids": source_ids, "target_ids": target_ids}
        return keras.Model(inputs, logits, name=name)


def _order(config: RecurrentEncoderDecoderConfig) -> str:
    default = "luong" if config.attention.startswith("luong") else "bahdanau"
    return config.order or default


def _cell(config: RecurrentEncoderDecoderConfig, number: int, dtype: DType) -> keras.layers.Layer:
    return CELLS[config.cell](
        config.units,
        dropout=config.dropout if number else 0.0,
        recurrent_dropout=config.recurrent_dropout,
        dtype=dtype,
        name=f"cell_{number}",
    )


def _attention(config: RecurrentEncoderDecoderConfig, dtype: DType) -> SequenceAttention | None:
    settings: dict[str, Any] = {
        "window": config.window,
        "window_size": config.window_size,
        "dtype": dtype,
        "name": "attention",
    }
    if config.attention == "none":
        return None
    if config.attention.startswith("luong-"):
        return LuongAttention(score=config.attention.removeprefix("luong-"), **settings)
    normalize = config.attention == "additive-normalized"
    return AdditiveAttention(config.units, use_bias=True, normalize=normalize, **settings)
