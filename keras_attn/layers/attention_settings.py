"""Checks of the settings of multi-head attention, which blocks and stacks share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras

from keras_attn.layers.masked_layer import (
    check_choice,
    check_positive,
    check_rotary_base,
)
from keras_attn.layers.normalization import NORMALIZATIONS
from keras_attn.ops.attention_kernels import KERNELS
from keras_attn.ops.relative_positions import check_rotary_scaling
from keras_attn.ops.score_options import check_mods, check_softcap

Function: TypeAlias = Callable[..., Any] | Mapping[str, Any] | str
"""A function, or the config of a registered one."""
POSITIONS = (None, "rotary", "alibi", "relative")


def check_attention_kernel(kind: str, attention_kernel: str, attention_dropout: float) -> None:
    """Raises a ValueError if the kernel is unknown, or does not support dropout."""
    check_choice(kind, KERNELS, attention_kernel=attention_kernel)
    if attention_dropout and attention_kernel in ("chunked", "flash"):
        raise ValueError(
            f'attention_kernel="{attention_kernel}" of {kind} does not support dropout of '
            f"attention weights. Received: attention_dropout={attention_dropout}. Use "
            'attention_dropout=0, or attention_kernel="auto", which supports it in training.'
        )


def check_score_settings(
    kind: str, attention_kernel: str, qk_norm: str | None, softcap: object, attention_sinks: object
) -> None:
    """Raises a ValueError if a change of scores is unknown, or not supported by the kernel."""
    check_choice(kind, (None, *NORMALIZATIONS), qk_norm=qk_norm)
    check_softcap(softcap, f"softcap` of `{kind}")
    for name, wanted in (("softcap", softcap is not None), ("attention_sinks", attention_sinks)):
        if wanted and attention_kernel == "flash":
            raise ValueError(
                f'attention_kernel="flash" of {kind} does not support `{name}`. Use "auto", or '
                '"chunked" for memory linear in the length.'
            )


def check_positions_settings(
    kind: str,
    positions: str | None,
    rotary_base: float,
    rotary_scaling: dict[str, Any] | None,
    num_buckets: int,
    max_distance: int,
    sliding_window: int | None,
) -> None:
    """Raises a ValueError if a setting of positions is unknown or out of range."""
    check_choice(kind, POSITIONS, positions=positions)
    check_rotary_base(rotary_base)
    check_rotary_scaling(rotary_scaling)
    check_buckets(kind, num_buckets, max_distance)
    if sliding_window is not None:
        check_positive(kind, sliding_window=sliding_window)


def check_rotary_width(width: int) -> None:
    """Raises a ValueError if the width of heads is odd, because positions rotate pairs."""
    if width % 2:
        raise ValueError(
            "Rotary positions rotate pairs of channels, and require an even width of heads. "
            f"Received: width {width}. Choose another width or number of heads."
        )


def check_buckets(kind: str, num_buckets: int, max_distance: int) -> None:
    """Raises a ValueError if a setting of the buckets of relative positions is out of range."""
    check_positive(kind, num_buckets=num_buckets, max_distance=max_distance)
    if num_buckets % 2 or num_buckets < 4 or max_distance <= num_buckets // 2:
        raise ValueError(
            f"`num_buckets` of {kind} must be even and at least 4, and `max_distance` "
            f"greater than half of it. Received: num_buckets={num_buckets}, "
            f"max_distance={max_distance}."
        )


def checked_visibility(
    kind: str,
    sliding_window: int | None,
    sink_tokens: int,
    score_mod: Function | None,
    mask_mod: Function | None,
    attention_kernel: str,
) -> tuple[int, Callable[..., Any] | None, Callable[..., Any] | None]:
    """Checks the settings of visibility, and returns them with functions in place of configs."""
    if isinstance(sink_tokens, bool) or not isinstance(sink_tokens, int) or sink_tokens < 0:
        raise ValueError(
            f"`sink_tokens` of {kind} must be an integer of at least 0. Received: {sink_tokens!r}."
        )
    if sink_tokens and sliding_window is None:
        raise ValueError(
            f"`sink_tokens` of {kind} requires a `sliding_window`. Received: "
            f"sink_tokens={sink_tokens} without `sliding_window`. Give both, or neither."
        )
    functions: list[Any] = [
        keras.saving.deserialize_keras_object(function)
        if isinstance(function, str | dict)
        else function
        for function in (score_mod, mask_mod)
    ]
    check_mods(*functions)
    if functions[0] is not None and attention_kernel == "flash":
        raise ValueError(
            f'attention_kernel="flash" of {kind} does not support `score_mod`. Use "auto", or '
            '"chunked" for memory linear in the length.'
        )
    return sink_tokens, functions[0], functions[1]


def function_config(function: Callable[..., Any] | None, name: str) -> Any:
    """Returns the config of a registered function; raises a ValueError if it is not registered."""
    if function is None:
        return None
    registered = keras.saving.get_registered_name(function)
    if keras.saving.get_registered_object(registered) is None:
        raise ValueError(
            f"`{name}` must be registered to be saved. Received: {function!r}. Put "
            "`@keras.saving.register_keras_serializable()` above its definition."
        )
    return keras.saving.serialize_keras_object(function)


def check_windows(
    kind: str,
    num_layers: int,
    sliding_window: int | None,
    window_blocks: int | Sequence[bool] | None,
    window_rotary_base: float | None,
) -> None:
    """Raises a ValueError if a setting of the windows of a stack is wrong."""
    if window_rotary_base is not None:
        check_rotary_base(window_rotary_base, "window_rotary_base")
    for name, value in (
        ("window_blocks", window_blocks), ("window_rotary_base", window_rotary_base),
    ):  # fmt: skip
        if value is not None and sliding_window is None:
            raise ValueError(
                f"`{name}` of {kind} is only used with a `sliding_window`. Received: "
                f"{name}={value!r} without `sliding_window`. Give both, or neither."
            )
    if window_blocks is None:
        return
    if isinstance(window_blocks, Sequence):
        each = list(window_blocks)
        if len(each) == num_layers and all(isinstance(windowed, bool) for windowed in each):
            return
    elif type(window_blocks) is int and window_blocks >= 1:
        return
    raise ValueError(
        f"`window_blocks` of {kind} must be a number n, for a window in blocks 0, n, 2n and so on, "
        f"or a list of {num_layers} booleans, one for each block. Received: {window_blocks!r}."
    )


def has_window(
    block: int, sliding_window: int | None, window_blocks: int | Sequence[bool] | None
) -> bool:
    """Returns whether a block of a stack has a sliding window.

    The function creates no list, because a damaged file may claim a billion blocks.
    """
    if window_blocks is None:
        return sliding_window is not None
    return block % window_blocks == 0 if isinstance(window_blocks, int) else window_blocks[block]
