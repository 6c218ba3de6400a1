"""Base class of the stacks of encoder and decoder blocks."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.layers.attention_settings import check_windows, has_window
from keras_attn.layers.block import TransformerBlock
from keras_attn.layers.collect import active_collector
from keras_attn.layers.masked_layer import check_positive, sub_seed
from keras_attn.layers.rematerialization import rematerialized


class TransformerStack(TransformerBlock):
    """Base class of stacks of Transformer blocks. A pre-norm stack ends with a norm."""

    _query_mask_name = "padding_mask"
    _key_mask_name = "padding_mask"
    _block_class: type

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        *,
        intermediate_dim: int,
        rematerialize: bool = False,
        output_scale: float | None = None,
        window_blocks: int | Sequence[bool] | None = None,
        window_rotary_base: float | None = None,
        first_norm: bool = True,
        **kwargs,
    ):
        super().__init__(num_heads=num_heads, intermediate_dim=intermediate_dim, **kwargs)
        check_positive(type(self).__name__, num_layers=num_layers)
        self.num_layers = num_layers
        self.output_scale = output_scale
        check_windows(
            type(self).__name__, num_layers, self.sliding_window, window_blocks, window_rotary_base
        )
        self.window_blocks = (
            list(window_blocks) if isinstance(window_blocks, Sequence) else window_blocks
        )
        self.window_rotary_base = window_rotary_base
        if not first_norm and not self.normalize_first:
            raise ValueError(
                f"`first_norm` of {type(self).__name__} requires normalize_first=True. "
                "Received: first_norm=False with normalize_first=False."
            )
        self.first_norm = bool(first_norm)
        self.rematerialize = rematerialize

    def _build_blocks(self, x_shape: tuple, *memory_shape: tuple) -> None:
        self.blocks: list[TransformerBlock] = []
        for i in range(self.num_layers):
            # Blocks with one seed would drop the same units.
            settings = {**self._settings(), **self._weight_settings(), **self._settings_of(i)}
            settings["seed"] = sub_seed(self.seed, i)
            block = self._block_class(**settings, name=f"block_{i}", dtype=self.dtype_policy)
            block._cleans_padding = False  # the stack does
            if self.blocks:  # one table of relative positions for all
                first = self.blocks[0].self_attention
                block._shared_relative_bias = first.relative_bias
            block.build(x_shape, *memory_shape)
            self.blocks.append(block)
        self.norm = self._norm(x_shape, "norm") if self.normalize_first else None

    def _settings_of(self, block: int) -> dict[str, Any]:
        """The settings of a block that differ from the stack's."""
        changed: dict[str, Any] = {}
        if not has_window(block, self.sliding_window, self.window_blocks):
            changed = {"sliding_window": None, "sink_tokens": 0}
        elif self.window_rotary_base is not None:
            changed = {"rotary_base": self.window_rotary_base, "rotary_scaling": None}
        if block == 0 and not self.first_norm:
            changed["attention_norm"] = False
        return changed

    def _apply_block(
        self,
        block: keras.layers.Layer,
        *inputs: Tensor,
        training: bool | None,
        attention_bias: Tensor | None,
        **kwargs: Any,
    ) -> Any:
        named = {"attention_bias": attention_bias}
        # A rematerialized call cannot hand scores to a collector.
        if self.rematerialize and training and active_collector() is None:
            return rematerialized(block, *inputs, named=named, training=training, **kwargs)
        return block(*inputs, training=training, **named, **kwargs)

    def _finish(self, x: Tensor) -> Tensor:
        x = x if self.norm is None else self.norm(x)
        if self.output_scale is None:
            return x
        return x * ops.convert_to_tensor(self.output_scale, x.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "rematerialize": self.rematerialize,
            "output_scale": self.output_scale,
            "window_blocks": self.window_blocks,
            "window_rotary_base": self.window_rotary_base,
            "first_norm": self.first_norm,
        }
