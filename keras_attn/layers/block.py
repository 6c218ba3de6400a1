"""Base class of the encoder and decoder blocks."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Activation, Tensor
from keras_attn.layers.activations import activation as get_activation
from keras_attn.layers.activations import activation_config
from keras_attn.layers.attention_settings import (
    Function,
    check_attention_kernel,
    check_positions_settings,
    check_score_settings,
    checked_visibility,
    function_config,
)
from keras_attn.layers.dense_layer import DenseLayer
from keras_attn.layers.dropout import Dropout
from keras_attn.layers.feed_forward import FeedForward
from keras_attn.layers.masked_layer import (
    check_choice,
    check_positive,
    check_rate,
    check_width,
    sub_seed,
)
from keras_attn.layers.multi_head_self_attention import MultiHeadSelfAttention
from keras_attn.layers.normalization import NORMALIZATIONS

_SEEDED = ("dropout", "self_attention", "cross_attention")
"""Sublayers that draw random numbers."""


class TransformerBlock(DenseLayer):
    """Base class of blocks: settings, residual connections and norms, which subclasses connect."""

    def __init__(
        self,
        num_heads: int,
        *,
        intermediate_dim: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        num_kv_heads: int | None = None,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation: Activation = "relu",
        normalize_first: bool = False,
        layer_norm_epsilon: float = 1e-5,
        seed: int | None = None,
        value_rank: int | None = None,
        normalization: str = "layer_norm",
        gated: bool = False,
        use_bias: bool = True,
        positions: str | None = None,
        rotary_base: float = 10000.0,
        rotary_scaling: dict[str, Any] | None = None,
        num_buckets: int = 32,
        max_distance: int = 128,
        sliding_window: int | None = None,
        scale: float | None = None,
        attention_kernel: str = "auto",
        right_padding: bool = False,
        qk_norm: str | None = None,
        softcap: float | None = None,
        attention_sinks: bool = False,
        sink_tokens: int = 0,
        score_mod: Function | None = None,
        mask_mod: Function | None = None,
        sandwich_norm: bool = False,
        norm_bias: bool = True,
        attention_norm: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        kind = type(self).__name__
        check_choice(kind, NORMALIZATIONS, normalization=normalization)
        check_positions_settings(
            kind,
            positions,
            rotary_base,
            rotary_scaling,
            num_buckets,
            max_distance,
            sliding_window,
        )
        check_positive(kind, num_heads=num_heads, intermediate_dim=intermediate_dim)
        if value_rank is not None:
            check_positive(kind, value_rank=value_rank)
        check_rate(kind, dropout=dropout, attention_dropout=attention_dropout)
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.num_kv_heads = num_kv_heads
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation = get_activation(activation)
        self.normalize_first = normalize_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.seed = seed
        self.value_rank = value_rank
        self.normalization = normalization
        self.gated = gated
        self.use_bias = use_bias
        self.positions = positions
        self.rotary_base = rotary_base
        self.rotary_scaling = rotary_scaling
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.sliding_window = sliding_window
        self.scale = scale
        self._shared_relative_bias = None
        check_attention_kernel(kind, attention_kernel, attention_dropout)
        self.attention_kernel = attention_kernel
        self.right_padding = bool(right_padding)
        check_score_settings(kind, attention_kernel, qk_norm, softcap, attention_sinks)
        self.qk_norm = qk_norm
        self.softcap = softcap
        self.attention_sinks = bool(attention_sinks)
        self.sink_tokens, self.score_mod, self.mask_mod = checked_visibility(
            kind, sliding_window, sink_tokens, score_mod, mask_mod, attention_kernel
        )
        if not normalize_first and (sandwich_norm or not attention_norm):
            raise ValueError(
                f"`sandwich_norm` and `attention_norm` of {kind} require "
                f"normalize_first=True. Received: sandwich_norm={sandwich_norm}, "
                f"attention_norm={attention_norm} with normalize_first=False."
            )
        self.sandwich_norm = bool(sandwich_norm)
        self.norm_bias = bool(norm_bias)
        self.attention_norm = bool(attention_norm)

    @property
    def reads_positions(self) -> bool:
        """Whether the self-attention uses `positions`."""
        return not self.positions is self.score_mod is self.mask_mod is None

    def _build_common(self, x_shape: tuple[int | None, ...]) -> None:
        check_width(self, x=x_shape)
        self.self_attention = self._attention(
            MultiHeadSelfAttention,
            "self_attention",
            positions=self.positions,
            rotary_base=self.rotary_base,
            rotary_scaling=self.rotary_scaling,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
            sliding_window=self.sliding_window,
            sink_tokens=self.sink_tokens,
            score_mod=self.score_mod,
            mask_mod=self.mask_mod,
        )
        self.self_attention.relative_bias = self._shared_relative_bias
        self.self_attention._cleans_padding = False  # the block does
        self.self_attention.build(x_shape)
        self.self_attention_norm = None
        if self.attention_norm:
            self.self_attention_norm = self._norm(x_shape, "self_attention_norm")
        self.self_attention_output_norm = self.feed_forward_output_norm = None
        if self.sandwich_norm:
            self.self_attention_output_norm = self._norm(x_shape, "self_attention_output_norm")
            self.feed_forward_output_norm = self._norm(x_shape, "feed_forward_output_norm")
        self.feed_forward = FeedForward(
            self.intermediate_dim,
            activation=self.activation,
            gated=self.gated,
            use_bias=self.use_bias,
            **self._weight_settings(),
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward.build(x_shape)
        self.feed_forward_norm = self._norm(x_shape, "feed_forward_norm")
        self.dropout_layer = Dropout(
            self.dropout, seed=self._seed_of("dropout"), dtype=self.dtype_policy, name="dropout"
        )

    def _attention(self, cls: type, name: str, **settings: Any) -> Any:
        return cls(
            num_heads=self.num_heads,
            key_dim=self.key_dim,
            value_dim=self.value_dim,
            num_kv_heads=self.num_kv_heads,
            attention_dropout=self.attention_dropout,
            use_bias=self.use_bias,
            scale=self.scale,
            **self._weight_settings(),
            seed=self._seed_of(name),
            value_rank=self.value_rank,
            attention_kernel=self.attention_kernel,
            right_padding=self.right_padding,
            qk_norm=self.qk_norm,
            qk_norm_epsilon=self.layer_norm_epsilon,
            softcap=self.softcap,
            attention_sinks=self.attention_sinks,
            dtype=self.dtype_policy,
            name=name,
            **settings,
        )

    def _seed_of(self, name: str) -> int | None:
        """The seed of a sublayer; with one shared seed, all would drop the same units."""
        return sub_seed(self.seed, _SEEDED.index(name))

    def _norm(self, x_shape: tuple, name: str) -> keras.layers.Layer:
        settings = {}
        if self.normalization == "layer_norm" and not self.norm_bias:
            settings["center"] = False
        norm = NORMALIZATIONS[self.normalization](
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name, **settings
        )
        norm.build(x_shape)
        return norm

    def _residual(
        self,
        x: Tensor,
        norm: keras.layers.Layer | None,
        sublayer: Callable[[Tensor], tuple[Tensor, Any]],
        training: bool | None,
        output_norm: keras.layers.Layer | None = None,
    ) -> tuple[Tensor, Any]:
        """Applies `sublayer` (`x -> (output, extra)`) with its norms and residual connection."""
        output, extra = sublayer(x if norm is None or not self.normalize_first else norm(x))
        if output_norm is not None:
            output = output_norm(output)
        # Not `+`: the summands have two dtypes if the norms have a policy of their own.
        x = ops.add(x, self.dropout_layer(output, training=training))
        return (x if norm is None or self.normalize_first else norm(x)), extra

    def _feed_forward(self, x: Tensor, training: bool | None) -> Tensor:
        return self._residual(
            x,
            self.feed_forward_norm,
            lambda h: (self.feed_forward(h, training=training), None),
            training,
            self.feed_forward_output_norm,
        )[0]

    def _settings(self) -> dict[str, Any]:
        """The arguments of the constructor, without those of Keras."""
        return {
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "num_kv_heads": self.num_kv_heads,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation": self.activation,
            "normalize_first": self.normalize_first,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "seed": self.seed,
            "value_rank": self.value_rank,
            "normalization": self.normalization,
            "gated": self.gated,
            "use_bias": self.use_bias,
            "positions": self.positions,
            "rotary_base": self.rotary_base,
            "rotary_scaling": self.rotary_scaling,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "sliding_window": self.sliding_window,
            "scale": self.scale,
            "attention_kernel": self.attention_kernel,
            "right_padding": self.right_padding,
            "qk_norm": self.qk_norm,
            "softcap": self.softcap,
            "attention_sinks": self.attention_sinks,
            "sink_tokens": self.sink_tokens,
            "score_mod": self.score_mod,
            "mask_mod": self.mask_mod,
            "sandwich_norm": self.sandwich_norm,
            "norm_bias": self.norm_bias,
            "attention_norm": self.attention_norm,
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            **self._settings(),
            "activation": activation_config(self.activation),
            "score_mod": function_config(self.score_mod, "score_mod"),
            "mask_mod": function_config(self.mask_mod, "mask_mod"),
        }


def with_scores(result: Any, wanted: bool) -> tuple[Any, Any]:
    """Returns `(output, scores)`; scores are None if they were not wanted."""
    return result if wanted else (result, None)
