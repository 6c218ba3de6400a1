"""Settings of stacks of Transformer blocks and of recurrent layers, which architectures share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keras_attn.layers.activations import check_activation
from keras_attn.layers.attention_settings import check_score_settings, check_windows
from keras_attn.layers.normalization import NORMALIZATIONS
from keras_attn.layers.recurrent_cells import CELLS
from keras_attn.settings import Settings, setting, size

_OF_BLOCKS = (
    "num_heads", "intermediate_dim", "num_kv_heads", "key_dim", "dropout", "attention_dropout",
    "activation", "gated", "use_bias", "normalize_first", "normalization", "layer_norm_epsilon",
    "rotary_base", "rotary_scaling", "rematerialize", "attention_kernel", "right_padding",
    "scale", "qk_norm", "softcap", "sandwich_norm", "norm_bias", "first_norm", "sliding_window",
    "window_blocks", "window_rotary_base",
)  # fmt: skip
"""The settings of `TransformerEncoder` and `TransformerDecoder`."""


@dataclass(frozen=True, kw_only=True)
class BlockSettings(Settings):
    """Settings of a stack of Transformer blocks."""

    dim: int = setting(256, "width of the model", at_least=1)
    num_layers: int = setting(4, "number of layers", at_least=1)
    num_heads: int = setting(4, "number of attention heads", at_least=1)
    intermediate_dim: int = setting(1024, "hidden width of the feed-forward networks", at_least=1)
    activation: str = setting(
        "gelu", "activation of the feed-forward networks", check=check_activation
    )
    dropout: float = setting(
        0.1, "dropout of embeddings, between layers and of the output", at_least=0, below=1
    )
    attention_dropout: float = setting(0.0, "dropout of the attention weights", at_least=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_heads()

    def check_heads(self) -> None:
        """Raises a ValueError if the heads do not divide the width."""
        if self.dim % self.num_heads:
            raise ValueError(
                "`dim` must be divisible by `num_heads`. "
                f"Received: dim={self.dim}, num_heads={self.num_heads}."
            )

    def block(self) -> dict[str, Any]:
        """Returns the settings of the architecture that a stack of blocks accepts, as a dict."""
        return {name: getattr(self, name) for name in _OF_BLOCKS if hasattr(self, name)}


@dataclass(frozen=True, kw_only=True)
class NormSettings(Settings):
    """Settings of the norms of blocks."""

    normalize_first: bool = setting(True, "normalize before each sublayer, not after it")


@dataclass(frozen=True, kw_only=True)
class LlamaSettings(Settings):
    """Block settings of models similar to Llama (Touvron et al., 2023)."""

    gated: bool = setting(False, "give the feed-forward networks a gate")
    normalization: str = setting("layer_norm", "kind of norm", choices=tuple(NORMALIZATIONS))
    use_bias: bool = setting(True, "use biases in the layers")


@dataclass(frozen=True, kw_only=True)
class WindowSettings(Settings):
    """Settings of blocks with a sliding window, and of their rotary positions."""

    sliding_window: int | None = size("keys that a query sees back", default=None)
    window_blocks: list[bool] | None = size(  # noqa: RUF009 - it makes a field
        "which blocks have the window", default=None, kind=list
    )
    window_rotary_base: float | None = size(
        "base of the wavelengths in blocks with a window", default=None, kind=float
    )

    def check_windows(self, num_layers: int) -> None:
        """Raises a ValueError if the windows do not match the number of blocks."""
        windowless = self.sliding_window is None
        base = self.window_rotary_base
        if windowless and base == type(self).window_rotary_base:  # the default, so not given
            base = None
        check_windows(
            type(self).__name__, num_layers, self.sliding_window, self.window_blocks, base
        )


@dataclass(frozen=True, kw_only=True)
class ScoreSettings(Settings):
    """Settings of attention scores and norms in models that are newer than Llama."""

    qk_norm: str | None = size("norm of queries and keys", default=None, kind=str)
    softcap: float | None = size("limit of scores", default=None, kind=float)
    scale: float | None = size("factor of scores", default=None, kind=float)
    sandwich_norm: bool = size("normalize outputs of sublayers too", default=False, kind=bool)

    def check_scores(self) -> None:
        """Raises a ValueError if `qk_norm` is unknown or `softcap` is out of range."""
        check_score_settings(type(self).__name__, "auto", self.qk_norm, self.softcap, False)


@dataclass(frozen=True, kw_only=True)
class RecurrentSettings(Settings):
    """Settings of a stack of recurrent layers, which several architectures share."""

    cell: str = setting("lstm", "kind of cell", choices=tuple(CELLS))
    num_layers: int = setting(1, "number of layers", at_least=1)
    dim: int = setting(64, "width of the embeddings", at_least=1)
    dropout: float = setting(
        0.2, "dropout of embeddings, between layers and of the output", at_least=0, below=1
    )
    recurrent_dropout: float = setting(0.0, "dropout of the states", at_least=0, below=1)
