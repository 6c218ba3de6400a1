"""The recurrent encoder-decoder, with attention and without."""

from dataclasses import asdict, dataclass
from typing import Any

import keras

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
from keras_attn.layers.masked_layer import check_positive, check_rate
from keras_attn.layers.recurrent_cells import CELLS
from keras_attn.layers.sequence_attention import WINDOWS

Tensor = Any

ATTENTIONS = (
    "none",
    "additive",
    "additive-normalized",
    "luong-dot",
    "luong-general",
    "luong-concat",
    "luong-scaled",
)


@dataclass(frozen=True)
class RecurrentConfig:
    """Settings of `recurrent_encoder_decoder`.

    Args:
        source_vocabulary_size: Number of source tokens; id 0 is padding.
        target_vocabulary_size: Number of target tokens; None: one vocabulary and one embedding for
            both sides.
        attention: `"none"` (the fixed context), `"additive"`, `"additive-normalized"`,
            `"luong-dot"`, `"luong-general"`, `"luong-concat"` or `"luong-scaled"`.
        cell: `"gru"` or `"lstm"`.
        num_layers: Number of layers of the encoder and of the decoder.
        dim: Width of the embeddings, and of what is compared with them for the output.
        units: Width of the decoder's states and of the encoder's output, half of it for each
            direction: an even number.
        dropout: Dropout of embeddings, of what is between layers and of the output.
        recurrent_dropout: Dropout of the states, one mask for all steps.
        order: `"luong"` or `"bahdanau"`, see `AttentionDecoder`; None: Bahdanau's for `"none"` and
            the additive ones, else Luong's.
        input_feeding: Whether the attention vector is an input of the next step; None: in Luong's
            order.
        window: Window of the attention: None, `"monotonic"` or `"predictive"`.
        window_size: Half-width of the window; 10 if None.

    Raises:
        ValueError: For unknown names, odd units, and options that do not apply.

    Example:

    >>> RecurrentConfig(source_vocabulary_size=4000, attention="luong-general").units
    512
    """

    source_vocabulary_size: int
    target_vocabulary_size: int | None = None
    attention: str = "additive"
    cell: str = "gru"
    num_layers: int = 1
    dim: int = 256
    units: int = 512
    dropout: float = 0.3
    recurrent_dropout: float = 0.0
    order: str | None = None
    input_feeding: bool | None = None
    window: str | None = None
    window_size: int | None = None

    def __post_init__(self):
        choices = {
            "attention": ATTENTIONS,
            "cell": tuple(CELLS),
            "order": (None, *ORDERS),
            "input_feeding": (None, True, False),
            "window": (None, *WINDOWS),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"`{name}` must be one of {list(known)}. Received: {getattr(self, name)!r}."
                )
        if self.attention == "none":
            given = [n for n in ("order", "window", "window_size") if getattr(self, n) is not None]
            given += ["input_feeding"] * bool(self.input_feeding)
            if given:
                raise ValueError(
                    f"{' and '.join(f'`{name}`' for name in given)} belong to an attention. "
                    "Received: attention='none'."
                )
        counts = {name: getattr(self, name) for name in ("num_layers", "dim", "units")}
        if self.window_size is not None:
            counts["window_size"] = self.window_size
            if self.window is None:
                raise ValueError(
                    f"`window_size` belongs to a `window`, one of {list(WINDOWS)}. "
                    f"Received: window_size={self.window_size!r} without it."
                )
        check_positive("RecurrentConfig", **counts)
        check_rate(
            "RecurrentConfig", dropout=self.dropout, recurrent_dropout=self.recurrent_dropout
        )
        if self.units % 2:
            raise ValueError(
                f"`units` must be even: the encoder has two directions. Received: {self.units}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as a JSON-safe dict."""
        return asdict(self)


def recurrent_encoder_decoder(
    config: RecurrentConfig, dtype: Any = None, name: str = "rnn"
) -> keras.Model:
    """Builds the recurrent encoder-decoder as a functional model.

        memory = encoder(embed(source_ids))                                (B, S, units)
        logits = decoder(embed(target_ids), memory) E^T                    (B, T, V)

    With `attention="none"` this is the fixed context of Cho et al., 2014: the final states of both
    directions of the encoder, at each step; with `"additive"` the model of Bahdanau et al., 2015,
    with `"luong-..."` that of Luong et al., 2015. In each of them the decoder's initial state is
    bridged from those final states, and the output is tied to the target embedding. Padding is id 0
    on both sides.

    Args:
        config: The settings.
        dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
        name: Name of the model.

    Returns:
        A functional model from `{"source_ids": (B, S), "target_ids": (B, T)}` to logits
        `(B, T, V)`, decoded by `SequenceDecoder`.

    Example:

    >>> model = recurrent_encoder_decoder(RecurrentConfig(50, dim=8, units=16))
    >>> ids = keras.ops.array([[5, 6, 2]])
    >>> tuple(model({"source_ids": ids, "target_ids": ids}).shape)
    (1, 3, 50)
    """
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    source_embedding = TokenEmbedding(
        config.source_vocabulary_size, config.dim, dtype=dtype, name="source_embedding"
    )
    target_embedding = source_embedding
    if config.target_vocabulary_size is not None:
        target_embedding = TokenEmbedding(
            config.target_vocabulary_size, config.dim, dtype=dtype, name="target_embedding"
        )
    dropout = Dropout(config.dropout, dtype=dtype, name="embedding_dropout")
    encoder = RecurrentEncoder(
        config.units // 2,
        num_layers=config.num_layers,
        cell=config.cell,
        dropout=config.dropout,
        recurrent_dropout=config.recurrent_dropout,
        dtype=dtype,
        name="encoder",
    )
    attention = _attention(config, dtype)
    decoder = AttentionDecoder(
        [_cell(config, i, dtype) for i in range(config.num_layers)],
        attention,
        order=_order(config),
        input_feeding=config.input_feeding,
        attention_units=config.dim,
        bridge=True,
        summary="ends",
        dropout=config.dropout,
        dtype=dtype,
        name="decoder",
    )
    memory = encoder(dropout(source_embedding(source_ids)))
    output = decoder(dropout(target_embedding(target_ids)), memory)
    logits = target_embedding(output, reverse=True)
    inputs = {"source_ids": source_ids, "target_ids": target_ids}
    return keras.Model(inputs, logits, name=name)


def _order(config: RecurrentConfig) -> str:
    default = "luong" if config.attention.startswith("luong") else "bahdanau"
    return config.order or default


def _cell(config: RecurrentConfig, number: int, dtype: Any) -> keras.layers.Layer:
    return CELLS[config.cell](
        config.units,
        dropout=config.dropout if number else 0.0,
        recurrent_dropout=config.recurrent_dropout,
        dtype=dtype,
        name=f"cell_{number}",
    )


def _attention(config: RecurrentConfig, dtype: Any) -> SequenceAttention | None:
    settings = {
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
