"""Quantized sublayers: found, remembered in a config, and made again."""

import contextlib
import gc
import json
import re
from collections.abc import Iterator
from typing import Any

import keras

from keras_attn.layers.arguments import check_constructor


def sublayers(layer: keras.layers.Layer, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Goes through all layers within a layer or a model, however deep, each of them once.

    Args:
        layer: A built layer or model.
        prefix: Put before the paths.

    Yields:
        The path of names from `layer`, and the sublayer: `"block_0/feed_forward/hidden"`. A name
        that Keras made up, such as `dense_7`, is that of the class, `dense`. Of equal names in one
        layer the second has `:1` after it, the third `:2`. Unlike Keras' paths these depend neither
        on what `layer` is in nor on the layers that were made before.

    Example:

    >>> block = TransformerEncoderBlock(num_heads=2, intermediate_dim=8)
    >>> block.build((None, None, 4))
    >>> [path for path, _ in sublayers(block) if path.startswith("feed_forward/")]
    ['feed_forward/hidden', 'feed_forward/output', 'feed_forward/dropout']
    """
    yield from _sublayers(layer, prefix, set())


def _sublayers(layer: Any, prefix: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
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


def _structural_name(layer: Any) -> str:
    """The name that was given to a layer, or that of its class where Keras made one up."""
    base = re.sub(r"_\d+$", "", layer.name)
    made_up = base.replace("_", "").endswith(type(layer).__name__.lower())  # `forward_lstm_1`
    return base if made_up else layer.name


def quantized_sublayers(layer: keras.layers.Layer) -> dict[str, dict[str, Any]]:
    """Returns how the sublayers of a layer or model are quantized, as JSON-safe values.

    Args:
        layer: A layer or model.

    Returns:
        For the path of each quantized sublayer its mode and Keras' settings of it.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=10, dim=4)
    >>> embedding.build()
    >>> embedding.embedding.quantize("int8")
    >>> {path: how["mode"] for path, how in quantized_sublayers(embedding).items()}
    {'embedding': 'int8'}
    """
    found = {}
    for path, sublayer in sublayers(layer):
        if _is_quantized(sublayer):
            config = getattr(sublayer, "quantization_config", None)
            config = keras.saving.serialize_keras_object(config)
            found[path] = {"mode": sublayer.quantization_mode, "config": config}
    return json.loads(json.dumps(found))  # as files have it: lists for tuples


def quantize_sublayers(layer: keras.layers.Layer, how: dict[str, dict[str, Any]]) -> None:
    """Quantizes sublayers as `quantized_sublayers` says; those that are quantized stay.

    Args:
        layer: A built layer or model, of the same sublayers.
        how: What `quantized_sublayers` returned.

    Raises:
        ValueError: If one of them is not there.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=10, dim=4)
    >>> embedding.build()
    >>> quantize_sublayers(embedding, {"embedding": {"mode": "int8", "config": None}})
    >>> embedding.embedding.quantization_mode
    'int8'
    """
    found = dict(sublayers(layer))
    missing = sorted(set(how) - set(found))
    if missing:
        raise ValueError(
            f"{layer.name} has not the quantized sublayers that it was saved with. Missing: "
            f"{missing[:5]}. Was it made by other settings?"
        )
    with quick_deletions():
        for path, made in how.items():
            if not _is_quantized(found[path]):
                config = keras.saving.deserialize_keras_object(made["config"])
                found[path].quantize(made["mode"], config=config)


@contextlib.contextmanager
def quick_deletions() -> Iterator[None]:
    """Makes it quick to delete weights of many layers.

    Keras collects garbage for each of them, among all objects of the process: with TensorFlow that
    takes some tenths of a second. Here it looks at new objects alone.

    Yields:
        Nothing.

    Example:

    >>> dense = keras.layers.Dense(2)
    >>> dense.build((None, 3))
    >>> with quick_deletions():
    ...     dense.quantize("int8")
    """
    if gc.get_freeze_count():  # somebody has done it
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _is_quantized(layer: keras.layers.Layer) -> bool:
    # Of a policy alone a composite layer is not: only what holds the weights can be.
    return bool(getattr(layer, "_is_quantized", False))


def float_policy(layer: keras.layers.Layer) -> keras.DTypePolicy:
    """Returns the dtype policy that a layer had before it was quantized, or has.

    Args:
        layer: A layer.

    Returns:
        A policy of floats.

    Example:

    >>> dense = keras.layers.Dense(2, dtype="mixed_bfloat16")
    >>> dense.build((None, 3))
    >>> dense.quantize("int8")
    >>> dense.dtype_policy.name, float_policy(dense).name
    ('int8_from_mixed_bfloat16', 'mixed_bfloat16')
    """
    policy = layer.dtype_policy
    if policy.quantization_mode is None:
        return policy
    return keras.DTypePolicy(policy.name.split("_from_", 1)[1])


class CompositeLayer(keras.layers.Layer):
    """A layer whose sublayers may be quantized, saved and made again.

    Keras remembers of a layer only its own dtype policy: sublayers that are made by `build` would
    be floats again, into which int8 weights cannot be loaded. The config of this class has a
    further entry, `quantization`, where sublayers are quantized; the constructor takes it back, and
    `build` is followed by quantizing them. It is Keras' part to load the weights.

    `_constructor_hint` and `_call_hint` are sentences for errors about arguments.
    """

    _constructor_hint = ""
    _call_hint = ""

    def __new__(cls, *args, **kwargs):
        """Checks the names and numbers of arguments, before they are lost in base classes."""
        check_constructor(cls, args, kwargs, cls._constructor_hint)
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, quantization: dict[str, dict[str, Any]] | None = None, **kwargs):
        super().__init__(**kwargs)
        self._quantization_wanted = dict(quantization or {})

    def _post_build(self):
        if self._quantization_wanted:
            quantize_sublayers(self, self._quantization_wanted)
        super()._post_build()

    def get_config(self) -> dict[str, Any]:
        """Returns the config."""
        found = quantized_sublayers(self) or self._quantization_wanted
        return {**super().get_config(), **({"quantization": dict(found)} if found else {})}
