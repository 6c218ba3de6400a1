"""What our layers share: how masks and attention scores travel."""

import functools
import inspect
from typing import Any

import keras

from keras_attn.ops import as_boolean_mask, check_padding_mask

Tensor = Any


@functools.cache
def _call_arguments(cls: type) -> tuple[str, ...]:
    return tuple(inspect.signature(cls.call).parameters)[1:]


class MaskedLayer(keras.layers.Layer):
    """A layer that takes masks however they come and hands its own on.

    Keras fills `mask` when a layer is called with one tensor and `<argument>_mask` when it is
    called with several, and sends on the mask of the first argument. This class adds what is
    missing: a mask given explicitly, by position or keyword, wins over the implicit one, is
    checked, and becomes the mask of the output too. A `(B, S)` `attention_mask` is a padding mask.

    Subclasses name the explicit argument that describes their first input in `_query_mask_name`
    and the one that describes the attended sequence in `_key_mask_name`.
    """

    _query_mask_name: str | None = None
    _key_mask_name: str | None = None

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def __call__(self, *args, **kwargs):
        names = _call_arguments(type(self))
        if len(args) > len(names):
            raise TypeError(
                f"{type(self).__name__} takes at most {len(names)} arguments: {', '.join(names)}. "
                f"Received: {len(args)}."
            )
        for name, value in zip(names[1:], args[1:], strict=False):
            if name in kwargs:
                raise TypeError(
                    f"{type(self).__name__} received the argument `{name}` twice, by position and "
                    "by keyword. Pass it once."
                )
            kwargs[name] = value
        args = args[:1]
        given = kwargs.get("attention_mask")
        if given is not None:
            given = kwargs["attention_mask"] = as_boolean_mask(given, "attention_mask")
            if len(given.shape) == 2:
                self._merge(kwargs, self._key_mask_name, kwargs.pop("attention_mask"))
        for name in [n for n in kwargs if n == "mask" or n.endswith("_mask")]:
            if kwargs[name] is not None and name not in ("use_causal_mask", "attention_mask"):
                kwargs[name] = as_boolean_mask(kwargs[name], name)
        explicit = kwargs.get(self._query_mask_name) if self._query_mask_name else None
        if explicit is not None and kwargs.get("mask") is None and "mask" in names:
            kwargs["mask"] = explicit
        return super().__call__(*args, **kwargs)

    @staticmethod
    def _merge(kwargs: dict, name: str, mask: Tensor) -> None:
        other = kwargs.get(name)
        if other is not None:
            mask = keras.ops.logical_and(as_boolean_mask(other, name), mask)
        kwargs[name] = mask

    def compute_output_spec(self, *args, **kwargs):
        """Traces `call`, so that symbolic outputs are what eager ones are, errors included."""
        return keras.Operation.compute_output_spec(self, *args, **kwargs)


def first_mask(*masks: Tensor | None) -> Tensor | None:
    """Returns the first mask that is not None."""
    return next((mask for mask in masks if mask is not None), None)


def sequence_mask(x: Tensor, *masks: Tensor | None, name: str = "padding_mask") -> Tensor | None:
    """Returns the first given of the masks of `x` `(B, S, ...)`, checked against its shape."""
    mask = first_mask(*masks)
    if mask is None:
        return None
    return check_padding_mask(mask, x.shape[0], x.shape[1], name)


def check_rank(x: Tensor, name: str, rank: int = 3, shape: str = "(B, T, D)") -> None:
    """Raises a ValueError where `x` has another rank."""
    if len(x.shape) != rank:
        raise ValueError(f"`{name}` must have shape {shape}. Received: shape {tuple(x.shape)}.")


def check_positive(layer: str, **values: Any) -> None:
    """Raises a ValueError where a setting is not a positive integer."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(
                f"`{name}` of {layer} must be a positive integer. Received: {value!r}."
            )


def check_rate(layer: str, **values: float) -> None:
    """Raises a ValueError where a dropout rate is not in [0, 1)."""
    for name, value in values.items():
        if not 0 <= value < 1:
            raise ValueError(f"`{name}` of {layer} must be in [0, 1). Received: {value!r}.")
