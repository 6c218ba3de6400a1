"""Quantization of sublayers, saved in the configs of their owners."""

import contextlib
import gc
import json
import re
from collections.abc import Iterator
from typing import Any

import keras

from keras_attn.layers.arguments import check_constructor


def sublayers(layer: keras.layers.Layer, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Iterates over all layers inside a layer or a model, at any depth, each once."""
    yield from _sublayers(layer, prefix, set())


def _sublayers(layer: keras.layers.Layer, prefix: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    counts: dict[str, int] = {}
    found = []
    for sublayer in layer._flatten_layers(include_self=False, recursive=False):
        name = _structural_name(sublayer)
        count = counts[name] = counts.get(name, -1) + 1
        if id(sublayer) not in seen:
            seen.add(id(sublayer))
            path = f"{prefix}{name}" + (f":{count}" if count else "")
            found.append((path, sublayer))
    for path, sublayer in found:
        yield path, sublayer
        yield from _sublayers(sublayer, f"{path}/", seen)


def _structural_name(layer: keras.layers.Layer) -> str:
    """The given name of a layer, or its class name if Keras generated the name."""
    base = re.sub(r"_\d+$", "", layer.name)
    made_up = base.replace("_", "").endswith(type(layer).__name__.lower())  # `forward_lstm_1`
    return base if made_up else layer.name


def quantized_sublayers(layer: keras.layers.Layer) -> dict[str, dict[str, Any]]:
    """Returns the quantization settings of each quantized sublayer, keyed by its path."""
    found = {}
    for path, sublayer in sublayers(layer):
        if _is_quantized(sublayer):
            config = getattr(sublayer, "quantization_config", None)
            config = keras.saving.serialize_keras_object(config)
            found[path] = {"mode": sublayer.quantization_mode, "config": config}
    return json.loads(json.dumps(found))  # lists for tuples, as in files


def quantize_sublayers(layer: keras.layers.Layer, how: dict[str, dict[str, Any]]) -> None:
    """Quantizes the sublayers that `quantized_sublayers` returned for an equal layer.

    Sublayers that are already quantized do not change.
    """
    found = dict(sublayers(layer))
    missing = sorted(set(how) - set(found))
    if missing:
        raise ValueError(
            f"{layer.name} lacks quantized sublayers that were saved with it. Missing: "
            f"{missing[:5]}. Create the layer with the settings that it was saved with."
        )
    with quick_deletions():
        for path, made in how.items():
            if not _is_quantized(found[path]):
                config = keras.saving.deserialize_keras_object(made["config"], safe_mode=True)
                found[path].quantize(made["mode"], config=config)


@contextlib.contextmanager
def quick_deletions() -> Iterator[None]:
    """Speeds up the deletion of the weights of many layers.

    Keras runs the garbage collector over all objects of the process for each layer, which takes a
    few tenths of a second with TensorFlow. Inside this block, only new objects are searched.
    """
    if gc.get_freeze_count():  # already frozen by somebody else
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _is_quantized(layer: keras.layers.Layer) -> bool:
    # A quantized policy is not enough: only layers that hold weights count.
    return bool(getattr(layer, "_is_quantized", False))


def float_policy(layer: keras.layers.Layer) -> keras.DTypePolicy:
    """Returns the dtype policy of a layer without quantization."""
    policy = layer.dtype_policy
    if policy.quantization_mode is None:
        return policy
    return keras.DTypePolicy(policy.name.split("_from_", 1)[1])


class CompositeLayer(keras.layers.Layer):
    """A layer that saves and loads quantized sublayers, and freezes them before they are built.

    Keras saves only the dtype policy of the layer itself. When such a layer is loaded, the
    sublayers that `build` creates would have float weights, into which int8 weights cannot be
    loaded. If sublayers are quantized, the config of this class has an entry `quantization`; the
    constructor accepts it, and the sublayers are quantized after `build`, before Keras loads the
    weights.

    `_constructor_hint` and `_call_hint` are sentences for errors about arguments.
    """

    _constructor_hint = ""
    _call_hint = ""

    def __new__(cls, *args, **kwargs):
        """Checks the arguments before base classes receive them."""
        check_constructor(cls, args, kwargs, cls._constructor_hint)
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, quantization: dict[str, dict[str, Any]] | None = None, **kwargs):
        super().__init__(**kwargs)
        self._quantization_wanted = dict(quantization or {})

    def _post_build(self):
        if self._quantization_wanted:
            quantize_sublayers(self, self._quantization_wanted)
        if not self.trainable:
            # For the sublayers that `build` has made. TensorFlow does not set a value again.
            self.trainable = True
            self.trainable = False
        super()._post_build()

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        found = quantized_sublayers(self) or self._quantization_wanted
        return {**super().get_config(), **({"quantization": dict(found)} if found else {})}
