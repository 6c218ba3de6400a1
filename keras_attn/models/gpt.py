"""GPT (Radford et al., 2019) and decoder-only models similar to Llama."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import keras

from keras_attn.hints import DType
from keras_attn.layers import (
    Dropout,
    LearnedPositionalEncoding,
    TokenEmbedding,
    TransformerDecoder,
)
from keras_attn.layers.attention_settings import check_rotary_width
from keras_attn.models.roles import CONVERSATION_MODELS, LANGUAGE_MODELS
from keras_attn.models.stack_settings import (
    BlockSettings,
    LlamaSettings,
    ScoreSettings,
    WindowSettings,
)
from keras_attn.ops.relative_positions import check_rotary_scaling
from keras_attn.ops.score_options import check_softcap
from keras_attn.settings import setting, size, with_defaults


@CONVERSATION_MODELS.register("gpt")
@LANGUAGE_MODELS.register("gpt")
@dataclass(frozen=True)
@with_defaults(activation="gelu_tanh", attention_dropout=0.1)
class GptConfig(ScoreSettings, WindowSettings, LlamaSettings, BlockSettings):
    """Settings of a Transformer that predicts the next token (GPT-2: Radford et al., 2019).

        x      = dropout(E[ids] + P[positions])                               (B, T, D)
        x      = x + attention(norm(x));  x = x + feed_forward(norm(x))       in each block, causal
        logits = norm(x) E^T, or norm(x) W if not tied                        (B, T, V)

    E is the table of token embeddings, P the table of positions if `positions="learned"`, and W the
    matrix of a separate output layer.

    The defaults are GPT-2's, in a small size. For a model similar to Llama (Touvron et al., 2023),
    set `positions="rotary"`, `normalization="rms_norm"`, `gated=True`, `activation="silu"` and
    `use_bias=False`, and optionally `num_kv_heads` and `tie_embeddings=False`. Qwen 3 adds
    `qk_norm`. Gemma 2 and 3 add `embedding_scale`, `sandwich_norm`, `scale` and windows in some
    blocks; Gemma 2 also has soft caps, and Gemma 3 has `qk_norm`.

    The logits at a position predict the next token. The model sees no later token, so right padding
    does not change the logits of tokens. The loss must ignore padding, either by sample weights or
    by an ignored label (as `MaskedCrossEntropy` does). For padding on the left, pass a mask to
    `hidden_states` or `language_decoder`.

    Args:
        vocabulary_size: Number V of tokens.
        dim: Width D.
        num_layers: Number of blocks.
        num_heads: Number of attention heads.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        num_kv_heads: Number of key and value heads, a divisor of `num_heads`; `num_heads` if None.
        key_dim: Width of a head; D / `num_heads` if None.
        activation: Activation of the feed-forward networks; `"gelu"` is the exact function.
        gated: Whether the feed-forward networks have a gate: SwiGLU with `activation="silu"`.
        normalization: `"layer_norm"` or `"rms_norm"`.
        layer_norm_epsilon: Epsilon of the norms.
        positions: `"learned"` for a table P, or `"rotary"` for rotated queries and keys.
        rotary_base: Base of the wavelengths of rotary positions.
        use_bias: Whether the projections of the blocks have biases.
        tie_embeddings: Whether the output is tied to the embedding.
        dropout: Dropout rate of the embeddings and sublayers.
        attention_dropout: Dropout rate of the attention weights.
        sequence_length: Maximum number of tokens of a text. Rotary positions have no limit; for
            them, this is the length of the training texts.
        rotary_scaling: Scaling of rotary positions, a dict as in `keras_attn.ops.rotary_rates`; no
            scaling if None.
        embedding_scale: Whether embeddings are multiplied by `sqrt(D)`.
        logit_softcap: Limit of the logits, by `keras_attn.ops.softcap`; no limit if None. It
            requires a tied output.
        qk_norm: Norm of queries and keys over the width of a head: `"rms_norm"` or `"layer_norm"`;
            no norm if None.
        softcap: Limit of the attention scores, by `keras_attn.ops.softcap`; no limit if None.
        scale: Factor of the query-key products; `1 / sqrt(key_dim)` if None.
        sandwich_norm: Whether the outputs of sublayers are also normalized.
        sliding_window: Distance from which self-attention hides earlier tokens; no limit if None.
        window_blocks: For each block, whether the block has the sliding window; all blocks have it
            if None.
        window_rotary_base: Base of the rotary positions in blocks with the sliding window, which
            then have no `rotary_scaling`; the base of all other blocks if None.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range, not one of its choices or incompatible with
            another setting.

    Example:

    >>> config = GptConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32)
    >>> tuple(config.build()(keras.ops.array([[1, 5, 6]])).shape)
    (1, 3, 50)
    """

    vocabulary_size: int = size("number of tokens")
    _: KW_ONLY
    num_kv_heads: int | None = setting(
        None, "number of key and value heads; as many as heads if not given", kind=int, at_least=1
    )
    key_dim: int | None = setting(
        None, "width of a head; the width of the model divided by the heads if not given",
        kind=int, at_least=1,
    )  # fmt: skip
    layer_norm_epsilon: float = setting(1e-5, "epsilon of the norms", above=0)
    positions: str = setting("learned", "kind of positions", choices=("learned", "rotary"))
    rotary_base: float = setting(10000.0, "base of the wavelengths of rotary positions", above=1)
    tie_embeddings: bool = setting(True, "tie the output to the embedding")
    sequence_length: int = size("largest number of tokens of a text", default=1024)
    rotary_scaling: dict[str, Any] | None = size(  # noqa: RUF009 - it makes a field
        "scaling of rotary positions", default=None, kind=dict
    )
    embedding_scale: bool = size("scale the embeddings", default=False, kind=bool)
    logit_softcap: float | None = size("limit of logits", default=None, kind=float)

    def __post_init__(self):
        super().__post_init__()
        if self.num_kv_heads is not None and self.num_heads % self.num_kv_heads:
            raise ValueError(
                "`num_heads` must be divisible by `num_kv_heads`. "
                f"Received: num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}."
            )
        check_rotary_scaling(self.rotary_scaling)
        self.check_scores()
        self.check_windows(self.num_layers)
        check_softcap(self.logit_softcap, "logit_softcap")
        if self.logit_softcap is not None and not self.tie_embeddings:
            raise ValueError(
                "`logit_softcap` requires an output layer that shares the weights of the "
                f"embedding. Received: logit_softcap={self.logit_softcap} with "
                "tie_embeddings=False."
            )
        if self.positions == "rotary":
            check_rotary_width(self.head_width)
        defaults = {"rotary_scaling": None, "rotary_base": 10000.0, "window_rotary_base": None}
        for name, default in defaults.items():
            if self.positions != "rotary" and getattr(self, name) != default:
                raise ValueError(
                    f'`{name}` is only used with positions="rotary". Received: '
                    f"{name}={getattr(self, name)!r}, positions={self.positions!r}."
                )

    def check_heads(self) -> None:
        """Raises a ValueError if `key_dim` is None and `num_heads` does not divide `dim`."""
        if self.key_dim is None and self.dim % self.num_heads:
            raise ValueError(
                "`dim` must be divisible by `num_heads` if `key_dim` is not given. Received: "
                f"dim={self.dim}, num_heads={self.num_heads}."
            )

    @property
    def head_width(self) -> int:
        """Width of an attention head."""
        return self.dim // self.num_heads if self.key_dim is None else self.key_dim

    @property
    def initializer_range(self) -> float:
        """Standard deviation of new weights: 0.02 for GPT-2's width of 768, `0.02 sqrt(768/D)`."""
        return 0.02 * (768 / self.dim) ** 0.5

    def layers(self, dtype: DType = None) -> list[keras.layers.Layer]:
        """Creates the layers of the model.

        Args:
            dtype: Dtype or policy of the layers.

        Returns:
            A list of the layers `embedding`, `positions` if positions are learned, `decoder`, and
            `head` if the output is not tied.
        """

        def initializer():
            return keras.initializers.RandomNormal(stddev=self.initializer_range)

        layers = [
            TokenEmbedding(
                self.vocabulary_size,
                self.dim,
                scale=self.embedding_scale,
                logit_softcap=self.logit_softcap,
                mask_zero=False,
                embeddings_initializer=initializer(),
                dtype=dtype,
                name="embedding",
            )
        ]
        if self.positions == "learned":
            layers.append(
                LearnedPositionalEncoding(
                    self.sequence_length,
                    embeddings_initializer=initializer(),
                    dtype=dtype,
                    name="positions",
                )
            )
        layers.append(
            TransformerDecoder(
                self.num_layers,
                **self.block(),
                normalize_first=True,
                positions="rotary" if self.positions == "rotary" else None,
                kernel_initializer=initializer(),
                dtype=dtype,
                name="decoder",
            )
        )
        if not self.tie_embeddings:
            layers.append(
                keras.layers.Dense(
                    self.vocabulary_size,
                    use_bias=False,
                    kernel_initializer=initializer(),
                    dtype=dtype,
                    name="head",
                )
            )
        return layers

    def build(self, dtype: DType = None, name: str = "gpt") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from ids `(B, T)` to logits `(B, T, V)`, built from the layers that
            `layers()` creates and a dropout of the embeddings. To decode with the model, pass it to
            `language_decoder`.
        """
        ids = keras.Input((None,), dtype="int32", name="ids")
        layers = {layer.name: layer for layer in self.layers(dtype)}
        x = layers["embedding"](ids)
        if "positions" in layers:
            x = layers["positions"](x)
        x = Dropout(self.dropout, dtype=dtype, name="embedding_dropout")(x)
        x = layers["decoder"](x)
        logits = layers["head"](x) if "head" in layers else layers["embedding"](x, reverse=True)
        return keras.Model(ids, logits, name=name)
