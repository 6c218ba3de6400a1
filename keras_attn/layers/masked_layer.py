"""Base class of the layers that accept masks, and checks of their arguments."""

import functools
import inspect
import numbers
from collections.abc import Callable, Collection
from typing import Any, cast

import keras
import numpy as np

from keras_attn.hints import Initializer, Shape, Tensor
from keras_attn.layers.arguments import check_call, named, output_spec
from keras_attn.layers.collect import calling_as
from keras_attn.layers.lost_masks import check_mask_kept
from keras_attn.layers.quantization import CompositeLayer
from keras_attn.ops import as_boolean_mask, check_padding_mask
from keras_attn.ops.masks import check_not_rank_2, dtypes_are_guessed, static_shape
from keras_attn.ops.padding import without_nan_in_padding


@functools.cache
def _call_arguments(call: Callable) -> tuple[str, ...]:
    return tuple(inspect.signature(call).parameters)[1:]


class MaskedLayer(CompositeLayer):
    """A layer that accepts explicit and implicit masks and propagates them.

    Keras sets the argument `mask` when a layer is called with one tensor, and `<argument>_mask`
    when it is called with several tensors, and propagates the mask of the first argument. In this
    class, an explicit mask, given by position or keyword, overrides the implicit mask. It is
    checked, and is also the mask of the output. An `attention_mask` of rank 2 raises an error.

    In subclasses, `_query_mask_name` is the mask argument of the first input and `_key_mask_name`
    is the mask argument of the attended sequence. `_needed_masks` lists the inputs whose padding
    would change the result, each with its mask arguments. NaN and infinity in the padding of inputs
    are set to zero; `_cleans_padding` is False if the layer that owns this one has done so.
    """

    _query_mask_name: str | None = None
    _key_mask_name: str | None = None
    _needed_masks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    _cleans_padding = True

    def _clean(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return without_nan_in_padding(x, mask) if self._cleans_padding else x

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def __call__(self, *args, **kwargs):
        """Checks and sorts the masks, then calls the layer."""
        check_call(self, args, kwargs)
        names = _call_arguments(type(self).call)
        kwargs.update(zip(names[1:], args[1:], strict=False))
        args = args[:1]
        padding = {"attention_mask": self._key_mask_name, "cross_attention_mask": "memory_mask"}
        for name in [n for n in kwargs if n == "mask" or n.endswith("_mask")]:
            if kwargs[name] is None or name == "use_causal_mask":
                continue
            kwargs[name] = as_boolean_mask(kwargs[name], name)
            if name in padding:
                causal = name == "attention_mask" and "use_causal_mask" in names
                check_not_rank_2(kwargs[name], name, padding[name], causal)
        first = args[0] if args else kwargs.get(names[0])
        self._fill_unnamed_masks(first, names, kwargs)
        explicit = first_mask(
            *(kwargs.get(n) for n in (self._query_mask_name, "mask", f"{names[0]}_mask") if n)
        )
        if explicit is not None and "mask" in names:
            kwargs["mask"] = explicit
        # Keras may cast one tensor that is given twice to two, so compare here.
        with calling_as("self" if kwargs.get("value") is first else "cross"):
            return super().__call__(*args, **kwargs)

    def _fill_unnamed_masks(self, first: Tensor, names: tuple[str, ...], kwargs: dict) -> None:
        """Fills in Keras masks for a subclass whose `call` passes on `**kwargs`.

        Keras fills only the arguments that the signature of `call` has.
        """
        masks = [
            n
            for n in named(cast(type, type(self)), "call")
            if n.endswith("mask") and n not in names
        ]
        if not masks:
            return
        own = next((n for n in (self._query_mask_name, "mask") if n in masks), None)
        for name in masks:
            x = first if name == own else kwargs.get(name.removesuffix("_mask"))
            mask = getattr(x, "_keras_mask", None)
            if mask is not None and kwargs.get(name) is None:
                kwargs[name] = mask

    def compute_output_shape(self, x_shape: Shape, *other_shapes):
        """Returns the shape of the first input; subclasses may override it."""
        return tuple(x_shape)

    def compute_output_spec(self, *args, **kwargs):
        """Traces `call`, so that symbolic and eager calls have the same outputs and errors."""
        names = _call_arguments(type(self).call)
        for name, masks in self._needed_masks:
            x = args[0] if args and name == names[0] else kwargs.get(name)
            check_mask_kept(name, x, masks[0], first_mask(*(kwargs.get(m) for m in masks)))
        args, kwargs = keras.tree.map_structure(_dense, (args, kwargs))
        return output_spec(self, args, kwargs)


def _dense(x: object) -> object:
    """Undoes the sparse flag that Keras sets on a symbolic `x * 2.0`."""
    if isinstance(x, keras.KerasTensor) and x.sparse:
        return keras.KerasTensor(x.shape, x.dtype)
    return x


def cloned(initializer: Initializer) -> Any:
    """Copies an initializer, because an object that is used twice gives the same weights twice."""
    return initializer.clone() if hasattr(initializer, "clone") else initializer


def sub_seed(seed: int | None, *place: int) -> int | None:
    """Returns a seed for a part of a layer; None if `seed` is None.

    Adding a number to the seed is not enough, because Keras on PyTorch adds the number of draws:
    two layers would draw the same numbers, one step apart.
    """
    if seed is None:
        return None
    return int(np.random.SeedSequence([seed % 2**63, *place]).generate_state(1)[0]) % 2**31


def first_mask(*masks: Tensor | None) -> Tensor | None:
    """Returns the first mask that is not None."""
    return next((mask for mask in masks if mask is not None), None)


def sequence_mask(x: Tensor, *masks: Tensor | None, name: str = "padding_mask") -> Tensor | None:
    """Returns the first mask of `x` `(B, S, ...)` that is not None, checked against its shape."""
    mask = first_mask(*masks)
    if mask is None:
        return None
    batch, length = static_shape(x)[:2]
    return check_padding_mask(mask, batch, length, name)


def check_mask(mask: Tensor, x: Tensor, axes: int = 2, name: str = "mask") -> None:
    """Raises a ValueError if `mask` does not have the shape of the first axes of `x`."""
    shape, wanted = static_shape(mask), static_shape(x)[:axes]
    if len(shape) != len(wanted) or any(
        None not in (a, b) and a != b for a, b in zip(shape, wanted, strict=False)
    ):
        raise ValueError(
            f"`{name}` must have one value per token, shape {wanted} here. Received: shape "
            f"{shape}, for an input of shape {static_shape(x)}."
        )


def check_same_length(key: Tensor, value: Tensor) -> None:
    """Raises a ValueError if keys and values are known to differ in length."""
    lengths = static_shape(key)[1], static_shape(value)[1]
    if None not in lengths and lengths[0] != lengths[1]:
        raise ValueError(
            "`key` and `value` must have the same length. Received: key of shape "
            f"{static_shape(key)}, value of shape {static_shape(value)}."
        )


def check_same_batch(**inputs: Tensor | None) -> None:
    """Raises a ValueError if inputs are known to have different numbers of rows."""
    rows = {name: static_shape(x)[0] for name, x in inputs.items() if x is not None}
    if len(set(rows.values()) - {None}) > 1:
        names = " and ".join(f"`{name}`" for name in rows)
        shapes = ", ".join(
            f"{name} of shape {static_shape(x)}" for name, x in inputs.items() if x is not None
        )
        raise ValueError(f"{names} must have the same batch size. Received: {shapes}.")


def check_built(layer: keras.layers.Layer) -> None:
    """Raises a ValueError if a decoder whose methods are called directly is not built."""
    if not layer.built:
        raise ValueError(
            f"{layer.name} has no weights yet. Call it once, or build it with the shapes of `x` "
            "and `memory`."
        )


def check_positions(positions: Tensor, x: Tensor) -> Tensor:
    """Returns integer positions of `x` `(B, T, ...)` as `(1, T)` or `(B, T)`.

    Raises a ValueError if they are floats, or have another shape than `(T,)`, `(1, T)` or `(B, T)`.
    """
    positions = keras.ops.convert_to_tensor(positions)
    dtype = keras.backend.standardize_dtype(positions.dtype)
    if "int" not in dtype:
        if not dtypes_are_guessed():
            raise ValueError(f"`positions` must be integers. Received: dtype {dtype}.")
        positions = keras.ops.cast(positions, "int32")
    if len(positions.shape) == 1:
        positions = keras.ops.expand_dims(positions, 0)
    shape, wanted = static_shape(positions), static_shape(x)[:2]
    if len(shape) != 2 or any(
        None not in (a, b) and a != b and (a != 1 or axis)
        for axis, (a, b) in enumerate(zip(shape, wanted, strict=False))
    ):
        raise ValueError(
            f"`positions` must have shape (T,), (1, T) or (B, T), here {wanted}. "
            f"Received: shape {shape}, with x of shape {tuple(x.shape)}."
        )
    return positions


def check_choice(layer: str, choices: Collection[object], **values: object) -> None:
    """Raises a ValueError if a setting is not one of the choices."""
    for name, value in values.items():
        if value not in tuple(choices):
            wanted = ", ".join(repr(choice) for choice in choices)
            raise ValueError(f"`{name}` of {layer} must be one of {wanted}. Received: {value!r}.")


def check_rotary_base(base: object, name: str = "rotary_base") -> None:
    """Raises a ValueError if `base` is not a number above 1."""
    if isinstance(base, bool) or not isinstance(base, numbers.Real) or not cast(float, base) > 1:
        raise ValueError(f"`{name}` must be a number greater than 1. Received: {base!r}.")


def check_attention_bias(bias: Tensor | None, query: Tensor, key: Tensor, heads: int) -> Any:
    """Returns a bias of scores as a tensor; raises a ValueError if its dtype or shape is wrong."""
    if bias is None:
        return None
    bias = bias if keras.backend.is_keras_tensor(bias) else keras.ops.convert_to_tensor(bias)
    shape = static_shape(bias)
    wanted = (static_shape(query)[0], heads, static_shape(query)[1], static_shape(key)[1])
    fits = len(shape) == 4 and all(
        a is None or b is None or a in (1, b) for a, b in zip(shape, wanted, strict=True)
    )
    dtype = keras.backend.standardize_dtype(bias.dtype)
    if not fits or "float" not in dtype:
        raise ValueError(
            "`attention_bias` must be floats of shape (B or 1, N or 1, T or 1, S or 1), here "
            f"{wanted}: it is added to the scaled scores. Received: dtype {dtype}, shape {shape}. "
            "Pass a mask as `attention_mask`."
        )
    return bias


def check_rank(x: Tensor, name: str, rank: int = 3, shape: str = "(B, T, D)") -> None:
    """Raises a ValueError if `x` has another rank."""
    if len(x.shape) != rank:
        raise ValueError(f"`{name}` must have shape {shape}. Received: shape {tuple(x.shape)}.")


def check_width(layer: keras.layers.Layer, **shapes: tuple[int | None, ...]) -> None:
    """Raises a ValueError if an input is not a batch of sequences of known width."""
    for name, shape in shapes.items():
        if len(shape) != 3 or shape[-1] is None:
            raise ValueError(
                f"`{name}` of {type(layer).__name__} must have shape (B, T, D) with a known width "
                f"D. Received: shape {tuple(shape)}."
            )


def check_step(x: Tensor) -> None:
    """Raises a ValueError if `x` is not one position of each row, `(B, 1, D)`."""
    shape = static_shape(x)
    if len(shape) != 3 or shape[1] not in (None, 1):
        raise ValueError(
            "A step takes one position of each row, shape (B, 1, D). Received: shape "
            f"{tuple(shape)}. Pass several positions at once to `prefill`."
        )


def check_positive(layer: str, **values: Any) -> None:
    """Raises a ValueError if a setting is not a positive integer."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(
                f"`{name}` of {layer} must be a positive integer. Received: {value!r}."
            )


def check_rate(layer: str, **values: float) -> None:
    """Raises a ValueError if a dropout rate is not in [0, 1)."""
    for name, value in values.items():
        if not isinstance(value, numbers.Real) or not 0 <= value < 1:
            raise ValueError(f"`{name}` of {layer} must be in [0, 1). Received: {value!r}.")
