"""Checks of the arguments of layers' constructors and calls."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

import keras

# Argument names of Keras, KerasHub and PyTorch, and their counterparts here.
_CONSTRUCTOR_HINTS = {
    "dropout": "`attention_dropout` drops attention weights",
    "output_shape": "`output_dim` is the width of the output",
    "attention_axes": "attention runs over the second axis of (B, T, D)",
    "flash_attention": '`attention_kernel="flash"` asks for the fused kernel',
    "use_scale": '`LuongAttention(score="scaled")` learns a scale, `scale` fixes one',
    "score_mode": '`LuongAttention(score="dot")` and `AdditiveAttention` are the two',
    "head_dim": "`key_dim` is the width of a head",
    "num_query_heads": "`num_heads` is the number of query heads",
    "num_key_value_heads": "`num_kv_heads` is the number of key and value heads",
    "embed_dim": "the width is that of the input; `key_dim` is the width of a head",
    "hidden_dim": "`intermediate_dim` is the width of the feed-forward network",
    "norm_first": "`normalize_first=True` is pre-norm",
    "input_dim": "`vocabulary_size` is the number of ids",
    "output_dim": "`dim` is the width of the embeddings",
    "embedding_dim": "`dim` is the width of the embeddings",
    "tie_weights": "`layer(x, reverse=True)` projects back with the same matrix",
    "num_layers": "this is one block; `TransformerEncoder` and `TransformerDecoder` are stacks",
}
_CALL_HINTS = {
    "inputs": "the first argument is passed by position",
    "decoder_sequence": "`x` is the sequence of the decoder, the first argument",
    "encoder_sequence": "`memory` is the output of the encoder, the second argument",
    "decoder_padding_mask": "`padding_mask` is the padding mask of `x`",
    "encoder_padding_mask": "`memory_mask` is the padding mask of `memory`",
    "decoder_attention_mask": "`attention_mask` restricts self-attention",
    "encoder_attention_mask": "`cross_attention_mask` restricts cross-attention",
    "key_padding_mask": "`{key_mask}` hides padding; True is a token",
    "self_attention_cache": "`prefill` and `step` decode with a cache",
    "memory_key_padding_mask": "`memory_mask` is the padding mask of `memory`; True is a token",
}


def output_spec(layer: keras.layers.Layer, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Traces `call` with symbolic inputs, and raises errors of `call` unchanged.

    Keras would prepend three sentences to such an error, which blame the layer's implementation.
    """
    try:
        return keras.Operation.compute_output_spec(layer, *args, **kwargs)
    except Exception as error:
        ours = error.__context__
        if ours is None or not str(error).endswith(str(ours)):
            raise
        # Else Keras adds its text.
        ours._keras_call_info_injected = True  # type: ignore[attr-defined]  # a mark that Keras reads
        raise ours.with_traceback(error.__traceback__) from None


@functools.cache
def by_position(function: Callable) -> tuple[str, ...]:
    """Returns the names of the arguments that a method takes by position, without `self`."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


@functools.cache
def _takes_any_number(function: Callable) -> bool:
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}
    return inspect.Parameter.VAR_POSITIONAL in kinds


@functools.cache
def named(cls: type, method: str) -> Mapping[str, inspect.Parameter]:
    """Returns the parameters of a method and of the base classes that receive its `**kwargs`."""
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if base is keras.layers.Layer:
            break
        function = vars(base).get(method)
        if function is None:
            continue
        parameters = list(inspect.signature(function).parameters.values())[1:]
        for parameter in parameters:
            found.setdefault(parameter.name, parameter)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return {name: p for name, p in found.items() if p.kind is not p.VAR_KEYWORD}


def check_constructor(
    cls: type[keras.layers.Layer], args: tuple, kwargs: dict[str, Any], hint: str = ""
) -> None:
    """Raises an error for surplus or missing arguments, and for names of other packages."""
    known = named(cast(type, cls), "__init__")
    names = by_position(cls.__init__)
    kind, hint = cls.__name__, hint and f" {hint}"
    if len(args) > len(names) and not _takes_any_number(cls.__init__):
        raise TypeError(
            f"{kind} takes by position: {', '.join(names) or 'nothing'}. Pass everything else by "
            f"keyword. Received: {len(args)} arguments by position, {args!r}.{hint}"
        )
    for name in kwargs:
        if name not in known and name in _CONSTRUCTOR_HINTS:
            raise TypeError(
                f"{kind} has no argument `{name}`: {_CONSTRUCTOR_HINTS[name]}. "
                f"Received: {name}={kwargs[name]!r}."
            )
    given = {*names[: len(args)], *kwargs}
    # A subclass may give the arguments of its base class by itself.
    own = [*inspect.signature(cls.__init__).parameters.values()][1:]
    missing = [
        p.name
        for p in own
        if p.default is p.empty
        and p.name not in given
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if missing and (args or kwargs):  # a copied layer is created without any
        raise TypeError(
            f"{kind} needs {', '.join(f'`{name}`' for name in missing)}. "
            f"Received: {', '.join(sorted(given))}.{hint}"
        )


def check_call(layer: keras.layers.Layer, args: tuple, kwargs: dict[str, Any]) -> None:
    """Raises an error for a call with surplus, doubled or misnamed arguments, or a tensor list."""
    cls = type(layer)
    names, kind = by_position(cls.call), cls.__name__
    hint = f" {layer._call_hint}" if layer._call_hint else ""
    if len(args) > len(names) and not _takes_any_number(cls.call):
        raise TypeError(
            f"{kind} is called with {', '.join(names)} by position. Pass everything else by "
            f"keyword. Received: {len(args)} arguments by position.{hint}"
        )
    for name in names[: len(args)]:
        if name in kwargs:
            raise TypeError(
                f"{kind} received the argument `{name}` twice, by position and by keyword. "
                "Pass it once."
            )
    first = args[0] if args else None
    if isinstance(first, list | tuple) and first and all(hasattr(x, "shape") for x in first):
        raise TypeError(
            f"{kind} takes tensors as separate arguments: layer({', '.join(names)}). "
            f"Received: a {type(first).__name__} of {len(first)} tensors.{hint}"
        )
    known = named(cast(type, cls), "call")
    for name in kwargs:
        if name not in known and name in _CALL_HINTS:
            hint = _CALL_HINTS[name].format(key_mask=layer._key_mask_name or "mask")
            raise TypeError(f"The call of {kind} has no argument `{name}`: {hint}.")
