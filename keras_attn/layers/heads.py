"""Base class of the multi-head attention layers."""

from typing import Any, TypedDict

import keras
from keras import ops

from keras_attn.hints import Shape, Tensor
from keras_attn.layers.attention_settings import check_attention_kernel, check_score_settings
from keras_attn.layers.collect import active_collector
from keras_attn.layers.dense_layer import DenseLayer
from keras_attn.layers.flattening import flat, lengths
from keras_attn.layers.masked_layer import check_attention_bias, check_positive, check_rate
from keras_attn.layers.normalization import NORMALIZATIONS
from keras_attn.layers.patterns import refuse_patterns, with_patterns
from keras_attn.ops import combine_masks, dot_product_attention
from keras_attn.ops.cached_attention import cached_attention
from keras_attn.ops.padding import check_right_padding
from keras_attn.ops.score_options import ScoreOptions


class _Visible(TypedDict):
    mask: Tensor | None
    key_lengths: Tensor | None


class HeadsLayer(DenseLayer):
    """Base class of multi-head attention: heads, masks, scores and the output projection.

    Subclasses project the inputs to queries, keys and values.
    """

    _has_uniform_heads = False

    def __init__(
        self,
        num_heads: int,
        key_dim: int | None = None,
        *,
        value_dim: int | None = None,
        num_kv_heads: int | None = None,
        output_dim: int | None = None,
        attention_dropout: float = 0.0,
        use_bias: bool = True,
        scale: float | None = None,
        seed: int | None = None,
        value_rank: int | None = None,
        attention_kernel: str = "auto",
        right_padding: bool = False,
        qk_norm: str | None = None,
        qk_norm_epsilon: float = 1e-6,
        softcap: float | None = None,
        attention_sinks: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        kind = type(self).__name__
        check_positive(kind, num_heads=num_heads)
        for name, value in [
            ("key_dim", key_dim),
            ("value_dim", value_dim),
            ("num_kv_heads", num_kv_heads),
            ("output_dim", output_dim),
            ("value_rank", value_rank),
        ]:
            if value is not None:
                check_positive(kind, **{name: value})
        if num_kv_heads is not None and num_heads % num_kv_heads:
            raise ValueError(
                f"`num_heads` of {kind} must be a multiple of `num_kv_heads`. "
                f"Received: num_heads={num_heads}, num_kv_heads={num_kv_heads}."
            )
        check_rate(kind, attention_dropout=attention_dropout)
        check_attention_kernel(kind, attention_kernel, attention_dropout)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.num_kv_heads = num_kv_heads
        self.output_dim = output_dim
        self.attention_dropout = attention_dropout
        self.use_bias = use_bias
        self.scale = scale
        self.seed = seed
        self.value_rank = value_rank
        self.attention_kernel = attention_kernel
        self.right_padding = bool(right_padding)
        check_score_settings(kind, attention_kernel, qk_norm, softcap, attention_sinks)
        self.qk_norm = qk_norm
        self.qk_norm_epsilon = qk_norm_epsilon
        self.softcap = softcap
        self.attention_sinks = bool(attention_sinks)
        self.sinks: Any = None
        self.query_norm: keras.layers.Layer | None = None
        self.key_norm: keras.layers.Layer | None = None
        self.seed_generator = keras.random.SeedGenerator(seed) if attention_dropout else None

    def _set_widths(self, query_dim: int | None, value_dim: int | None) -> None:
        kind = type(self).__name__
        if query_dim is None:
            raise ValueError(
                f"The last axis of the input of {kind} must be known. Received: None. "
                "Give it in keras.Input((None, D))."
            )
        if self.key_dim is None and query_dim % self.num_heads:
            raise ValueError(
                f"The width of the input of {kind} must be divisible by `num_heads` if `key_dim` "
                f"is not given. Received: width {query_dim}, num_heads={self.num_heads}. Give "
                "`key_dim`, or another number of heads."
            )
        self._head_dim = self.key_dim or query_dim // self.num_heads
        self._value_head_dim = self.value_dim or self._head_dim
        self._kv_heads = self.num_kv_heads or self.num_heads
        self._values_width = self._kv_heads * self._value_head_dim
        if self.value_rank is not None and value_dim is not None:
            most = min(value_dim, self._values_width)
            if self.value_rank > most:
                raise ValueError(
                    f"`value_rank` of {kind} must be at most {most}, the smaller of the "
                    f"widths of the values ({value_dim}) and of their projection "
                    f"({self._values_width}): a larger rank would limit nothing. Received: "
                    f"value_rank={self.value_rank}. Leave it out for a full rank."
                )

    def _build_value_up(self, value_shape: tuple[int | None, ...]) -> None:
        """Creates Wup if there is a `value_rank`."""
        self.value_up_dense = None
        if self.value_rank is not None:
            self.value_up_dense = self._dense(self._values_width, "value_up")
            self.value_up_dense.build((*value_shape[:-1], self.value_rank))

    def _build_scores(self) -> None:
        """Creates the norms of queries and keys, and the sinks."""
        if self.qk_norm is not None:
            self.query_norm, self.key_norm = (
                NORMALIZATIONS[self.qk_norm](
                    epsilon=self.qk_norm_epsilon, dtype=self.dtype_policy, name=name
                )
                for name in ("query_norm", "key_norm")
            )
            for norm in (self.query_norm, self.key_norm):
                norm.build((None, None, None, self._head_dim))
        if self.attention_sinks:
            self.sinks = self.add_weight(shape=(self.num_heads,), initializer="zeros", name="sinks")

    def _normalized(self, norm: keras.layers.Layer | None, heads: Tensor) -> Any:
        return heads if norm is None else norm(heads)

    def _score_options(self) -> dict[str, Any]:
        """What changes the scores, as arguments of `dot_product_attention`."""
        options = {"softcap": self.softcap, "sinks": self.sinks}
        return {name: value for name, value in options.items() if value is not None}

    def _split_values(self, projected: Tensor) -> Tensor:
        """Splits projected values into heads, after Wup if there is one."""
        if self.value_up_dense is not None:
            projected = flat(self.value_up_dense, projected)
        return self._split(projected, self._kv_heads)

    def compute_output_shape(self, query_shape: Shape, *other_shapes):
        """Returns the shape `(B, T, output_dim)` of the output."""
        return (*query_shape[:-1], self.output_dim or query_shape[-1])

    def _dense(self, units: int, name: str, **settings: Any) -> keras.layers.Dense:
        return super()._dense(units, name, use_bias=self.use_bias, **settings)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return ops.reshape(x, (*lengths(x), heads, x.shape[2] // heads))

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        role: str,
        mask: Tensor | None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
        bias: Tensor | None = None,
        key_lengths: Tensor | None = None,
        sliding_window: int | None = None,
        **options: Any,
    ) -> Any:
        """Attends with projected `(B, T, N, H)`, `(B, S, K, H)`, `(B, S, K, Hv)`."""
        collector = active_collector()
        # Scores need the plain kernel. A forced kernel gives way to a collector, but is an error
        # with `return_attention_scores`.
        collects = collector is not None and not return_attention_scores
        replaced = with_patterns(self, query, options)
        collects = collects or replaced != options
        arguments = {
            "mask": mask,
            "bias": bias,
            "scale": self.scale,
            "use_causal_mask": use_causal_mask,
            "key_lengths": key_lengths,
            "sliding_window": sliding_window,
            **self._score_options(),
            **replaced,
        }
        context = dot_product_attention(
            query,
            key,
            value,
            dropout=self.attention_dropout if training else 0.0,
            seed=self.seed_generator,
            return_attention_scores=return_attention_scores or collector is not None,
            kernel="plain" if collects else self.attention_kernel,
            **arguments,
        )
        if return_attention_scores or collector is not None:
            context, scores = context
            if collector is not None:
                collector._add(
                    self,
                    role,
                    scores,
                    products=(query, key, value),
                    context=context,
                    arguments=arguments,
                )
        width = self.num_heads * self._value_head_dim
        context = ops.reshape(context, (*lengths(context, 2), width))
        output = flat(self.output_dense, context)
        return (output, scores) if return_attention_scores else output

    def _attend_cached(
        self,
        query: Tensor,
        cache: tuple[Tensor, Tensor],
        visible: Tensor | None,
        role: str,
        bias: Tensor | None = None,
        return_attention_scores: bool = False,
        used: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Attends with projected `(M, T, N, H)` to a cache `(B, K, L, ...)`."""
        collector = active_collector()
        wanted = return_attention_scores or collector is not None
        refuse_patterns(self)
        shared = role != "self"  # beams share the memory of their sentence
        options = {**self._score_options(), **options}
        context = cached_attention(
            query,
            *cache,
            visible,
            bias,
            self.scale,
            wanted,
            shared,
            used,
            ScoreOptions(**options) if options else None,
        )
        if wanted:
            context, scores = context
            if collector is not None:
                collector._add(self, role, scores)
        width = self.num_heads * self._value_head_dim
        context = ops.reshape(context, (*lengths(context, 2), width))
        output = flat(self.output_dense, context)
        return (output, scores) if return_attention_scores else output

    def _checked_bias(self, bias: Tensor | None, query: Tensor, key: Tensor) -> Any:
        """An `attention_bias` as a tensor."""
        if bias is not None and self._has_uniform_heads:
            raise ValueError(
                "`ablate` with replace='uniform' requires calls without `attention_bias`, which "
                f"changes the attention weights. Received: a call of {self.path} with "
                "`attention_bias`. Pass an array of ones as `replace` instead."
            )
        return check_attention_bias(bias, query, key, self.num_heads)

    def _combined_mask(
        self, query: Tensor, key: Tensor, attention_mask: Tensor | None, key_mask: Tensor | None
    ) -> Tensor | None:
        return combine_masks(
            tuple(query.shape), tuple(key.shape), self.num_heads, attention_mask, key_mask
        )

    def _visible(
        self, query: Tensor, key: Tensor, attention_mask: Tensor | None, key_mask: Tensor | None
    ) -> _Visible:
        """`mask` and `key_lengths` of `_attend`; lengths replace a mask of right padding."""
        lengths = None
        if self.right_padding and key_mask is not None:
            check_right_padding(key_mask, "mask")
            lengths, key_mask = ops.sum(ops.cast(key_mask, "int32"), axis=1), None
        mask = self._combined_mask(query, key, attention_mask, key_mask)
        return {"mask": mask, "key_lengths": lengths}

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "num_kv_heads": self.num_kv_heads,
            "output_dim": self.output_dim,
            "attention_dropout": self.attention_dropout,
            "use_bias": self.use_bias,
            "scale": self.scale,
            "seed": self.seed,
            "value_rank": self.value_rank,
            "attention_kernel": self.attention_kernel,
            "right_padding": self.right_padding,
            "qk_norm": self.qk_norm,
            "qk_norm_epsilon": self.qk_norm_epsilon,
            "softcap": self.softcap,
            "attention_sinks": self.attention_sinks,
        }
