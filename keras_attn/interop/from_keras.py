"""Conversion of Keras layers and models to attention layers of this package, with a comparison."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

import keras
import numpy as np
from keras import ops, tree
from keras.src.models.functional import Functional

from keras_attn.hints import Nest
from keras_attn.interop.keras_layers import kind_of, replacement

Layer = TypeVar("Layer", bound=keras.layers.Layer)
_LENGTH, _PADDING = 7, 2


def from_keras(
    layer: keras.layers.Layer, inputs: Nest | None = None, *, padding: bool = True
) -> Any:
    """Converts attention layers of Keras and KerasHub to layers of this package.

    The function converts `MultiHeadAttention`, `GroupQueryAttention`, `Attention` and
    `AdditiveAttention` of `keras.layers`, and `TransformerEncoder` and `TransformerDecoder` of
    `keras_hub.layers`, and keeps their weights. The original and the result are then called on
    random inputs, with masks and without dropout, and an error is raised if their outputs differ.
    Unsupported settings raise an error that names them. In a model, each layer of these classes is
    replaced, and all other layers are copied with their weights. Attention layers inside your own
    layers are not replaced. The original is not modified.

    Args:
        layer: A built layer of one of the classes above, or a functional or Sequential model that
            contains layers of these classes, also in nested models.
        inputs: Inputs of a model for the comparison; None for layers. By default, they are random:
            integers are ids below the size of the smallest `Embedding`, or ones (and zeros for
            padding) if the name of the input contains `mask`.
        padding: Whether a model is also compared on random inputs with padding (id 0, and 0 in
            masks); not used with `inputs`.
            `keras.layers.MultiHeadAttention` clears the Keras masks of its inputs, so that layers
            after it may attend to padding, whereas our layers keep the masks. A model in which this
            happens gives different outputs, which is an error unless `padding` is False.

    Returns:
        The converted layer, with the name, dtype policy and weights of the original, or the
        converted model. A compiled model is compiled with the same settings and a new optimizer
        state.

    Raises:
        TypeError: If `layer` is neither a layer of one of the classes above nor a functional or
            Sequential model.
        ValueError: If a layer is not built or has an unsupported setting, the model has no layer to
            convert, `inputs` are given for a layer, or the outputs differ.

    Example:

    >>> theirs = keras.layers.MultiHeadAttention(num_heads=2, key_dim=4)
    >>> x = keras.random.normal((2, 5, 8))
    >>> expected = theirs(x, x)
    >>> layer = from_keras(theirs)
    >>> type(layer).__module__.partition(".")[0], layer.num_heads
    ('keras_attn', 2)
    >>> bool(np.allclose(layer(x, x), expected, atol=1e-5))
    True
    """
    rng = np.random.default_rng(0)
    if isinstance(layer, keras.Model):
        if not layer.built:
            raise ValueError("from_keras needs a model with weights. Call it once.")
        rebuilt = _rebuilt(layer)
        draws = [inputs] if inputs is not None else [_drawn(layer, rng, False)]
        if padding and inputs is None:
            draws.append(_drawn(layer, rng, True))
        for number, batch in enumerate(draws):
            theirs, found = (f(batch, training=False) for f in (layer, rebuilt))
            _compare(layer, theirs, found, padded=number == 1)
        return rebuilt
    if inputs is not None:
        raise ValueError(
            "`inputs` of from_keras are only used with models. Received: a layer with "
            "`inputs`. Leave them out."
        )
    ours, kind = replacement(layer), kind_of(layer)
    if kind is not None:
        for given in kind.draw(layer, rng):
            theirs = layer(**given, training=False)
            _compare(layer, theirs, ours(**kind.translate(layer, given), training=False))
    return ours


def _compare(layer: keras.layers.Layer, theirs: Any, ours: Any, padded: bool = False) -> None:
    """Raises a ValueError if outputs differ by more than rounding."""
    half = layer.compute_dtype in ("float16", "bfloat16")
    for a, b in zip(tree.flatten(theirs), tree.flatten(ours), strict=True):
        a, b = (ops.convert_to_numpy(ops.cast(x, "float32")) for x in (a, b))
        if padded and a.ndim > 2 and a.shape[1] > _PADDING:
            a, b = a[:, :-_PADDING], b[:, :-_PADDING]  # what padding gives is not read
        difference = float(np.abs(a - b).max(initial=0.0))
        if not difference <= (0.03 if half else 1e-4) * max(1.0, np.abs(a).max(initial=0.0)):
            why = (
                "The inputs had padding: keras.layers.MultiHeadAttention clears the masks of its "
                "inputs, so that layers after it see padding. With padding=False from_keras "
                "returns the model, which hides padding everywhere."
                if padded
                else "Please report this."
            )
            raise ValueError(
                f"`{layer.name}` and its replacement differ by {difference:.2g} on random inputs. "
                f"{why}"
            )


def _rebuilt(model: keras.Model, done: dict[int, Any] | None = None) -> keras.Model:
    """Clones a model with attention layers replaced and all weights copied."""
    top, done = done is None, {} if done is None else done
    functional = isinstance(model, Functional)
    if not isinstance(model, keras.Sequential) and not functional:
        raise TypeError(
            "from_keras rebuilds functional and Sequential models. Received: "
            f"{type(model).__name__}, which is subclassed: convert its layers one by one."
        )
    originals: dict[int, keras.layers.Layer] = {}  # of replaced layers, by the id of ours

    def clone(operation: Any) -> Any:
        if id(operation) not in done:
            if isinstance(operation, keras.Sequential | Functional):
                copy = _rebuilt(operation, done)
            elif kind_of(operation) is not None:
                copy = replacement(operation)
            else:
                copy = type(operation).from_config(operation.get_config())
            done[id(operation)] = copy
        copy = done[id(operation)]
        if kind_of(operation) is not None:
            originals[id(copy)] = operation
        return copy

    def call(operation: Any, *args: Any, **kwargs: Any) -> Any:
        original: Any = originals.get(id(operation))
        kind = kind_of(original)
        if kind is None:
            return operation(*args, **kwargs)
        given = inspect.signature(original.call).bind(*args, **kwargs).arguments
        return operation(**kind.translate(original, given))

    result = keras.models.clone_model(
        model, clone_function=clone, call_function=call if functional else None
    )
    if top and not any(kind_of(layer) for layer in model._flatten_layers()):
        raise ValueError(f"from_keras found no layer to replace in `{model.name}`.")
    for original in model.layers:
        copy = done.get(id(original))
        if copy is None or kind_of(original) is not None or isinstance(original, keras.Model):
            continue
        copy.set_weights(original.get_weights())
        for theirs, ours in zip(original._flatten_layers(), copy._flatten_layers(), strict=True):
            ours.trainable = theirs.trainable
    return result


def _drawn(model: keras.Model, rng: np.random.Generator, padded: bool) -> Any:
    """Random inputs; the last positions of the first row are padding."""
    tables = [x for x in model._flatten_layers() if isinstance(x, keras.layers.Embedding)]
    ids = min([table.input_dim for table in tables], default=2)

    def draw(spec: Any) -> np.ndarray:
        shape = tuple(2 if i == 0 else n or _LENGTH for i, n in enumerate(spec.shape))
        dtype = keras.backend.standardize_dtype(spec.dtype)
        if "float" in dtype and "mask" not in spec.name:
            return rng.normal(size=shape).astype(dtype)
        mask = "mask" in spec.name or dtype == "bool"
        x = np.ones(shape, dtype) if mask else rng.integers(1, max(ids, 2), shape).astype(dtype)
        if padded and len(shape) > 1 and shape[-1] > _PADDING:
            x[0, ..., -_PADDING:] = 0
        return x

    return tree.map_structure(
        draw, model.input if isinstance(model, Functional) else model.inputs[0]
    )
