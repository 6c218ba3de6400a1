"""Low-rank adaptation (LoRA) of trained models."""

from __future__ import annotations

import json
import numbers
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attn.archives import open_archive
from keras_attn.files import atomic_write, check_format, remove_partial_files
from keras_attn.input_files import parse_object, refuse_damaged
from keras_attn.layers import (
    AttentionDecoder,
    AttentionPooling,
    FeedForward,
    SelfAttention,
    WordByWordAttention,
)
from keras_attn.layers.heads import HeadsLayer
from keras_attn.layers.masked_layer import check_positive
from keras_attn.layers.quantization import quick_deletions, sublayers
from keras_attn.layers.sequence_attention import SequenceAttention
from keras_attn.version import __version__

LORA_VERSION = 2  # 1 had one rank and one alpha for all layers
_EXPECTED = "a file of `save_lora`"
_HEADER = "header"
_ATTENTIONS = (
    HeadsLayer,
    SelfAttention,
    SequenceAttention,
    AttentionPooling,
    WordByWordAttention,
)


# `trainable` of a layer that `enable_lora` froze itself. It works like False. If the layer is
# frozen again, Keras sets False itself, so `merge_lora` knows who froze it.
_FROZEN_HERE = 0


class LoraReport(NamedTuple):
    """The layers to which `enable_lora` applied LoRA, and the numbers of weights.

    Example:

    >>> LoraReport(("encoder/block_0/self_attention/qkv",), trainable=25, frozen=75).share
    0.25
    """

    layers: tuple[str, ...]
    """Paths of the `Dense` layers with LoRA."""
    trainable: int
    """Number of weights that are trained."""
    frozen: int
    """Number of weights that are not trained."""

    @property
    def share(self) -> float:
        """Fraction of the weights that are trained."""
        return self.trainable / (self.trainable + self.frozen)


def enable_lora(
    model: keras.layers.Layer,
    rank: int,
    alpha: float | None = None,
    feed_forward: bool = False,
    also: str | None = None,
) -> LoraReport:
    """Prepares a model for training only low-rank changes of its attention (Hu et al., 2022).

        y = x (W + alpha / rank A B) + b,    W (D, U), A (D, rank), B (rank, U)

    A is initialized randomly and B with zeros, so that the outputs do not change at first. Only A
    and B are trained, which are `rank (D + U)` weights instead of `D U` weights; all other weights
    are frozen. LoRA is applied to the projections of queries, keys, values and outputs in all
    attention layers of this package. If queries, keys and values have a fused projection, they
    share A, and each of them has a part of B. Recurrent cells do not support LoRA.
    `keras.layers.Dense.enable_lora` computes the low-rank change.

    Compile the model afterwards; the `fit` methods of tasks do this. Layers that are already frozen
    do not change. The `save` method of a model or task writes merged kernels, so that loading the
    file gives a plain model with the same outputs. (Load a compiled `.keras` file with
    `compile=False`, because its optimizer has only states for A and B.) `save_lora` writes only A
    and B; `save_training_state` writes all weights.

    Args:
        model: A Keras model with layers of this package, or a task. It is changed in place.
        rank: Rank of the changes.
        alpha: Scale of the changes. If None, it is `rank`, so that the factor is 1.
        feed_forward: Whether LoRA is also applied to feed-forward networks.
        also: Regular expression: LoRA is also applied to `Dense` layers whose path contains a
            match. None for no further layers.

    Returns:
        A `LoraReport` with the paths of the layers with LoRA, and the numbers of weights that are
        trained and frozen.

    Raises:
        ValueError: If `rank` or `alpha` is invalid; if the model is not built, already has LoRA, or
            has no suitable layer that is not frozen; or if a suitable layer has a kernel constraint
            or is quantized to float8.

    Example:

    >>> config = TransformerEncoderDecoderConfig(50, num_layers=2, dim=16, intermediate_dim=32)
    >>> model = config.build()
    >>> report = enable_lora(model, rank=2)
    >>> len(report.layers), report.trainable, f"{report.share:.2f}"
    (16, 1280, '0.10')
    >>> report.layers[0]
    'encoder/block_0/self_attention/qkv'
    >>> merge_lora(model)
    """
    check_positive("enable_lora", rank=rank)
    if alpha is not None and (
        isinstance(alpha, bool) or not isinstance(alpha, numbers.Real) or not alpha > 0
    ):
        raise ValueError(f"`alpha` must be a number above 0, or None. Received: {alpha!r}.")
    model = _model(model)
    if with_lora(model):
        raise ValueError(f"{model.name!r} already has LoRA. Call `merge_lora` on it first.")
    projections = _projections(model, feed_forward)
    # Sublayers of a layer that was frozen before it was built are not marked as frozen.
    frozen = {
        id(part)
        for layer in model._flatten_layers()
        if not layer.trainable
        for part in layer._flatten_layers()
    }
    found = {
        path: layer
        for path, layer in sublayers(model)
        if isinstance(layer, keras.layers.Dense)
        and id(layer) not in frozen
        and (id(layer) in projections or (also is not None and re.search(also, path)))
    }
    if not found:
        raise ValueError(
            "Expected a model with at least one trainable attention projection. Received: "
            f"{model.name!r}, with also={also!r} and feed_forward={feed_forward!r}. Unfreeze a "
            "projection, or select other Dense layers with a regular expression (`also`)."
        )
    return _turn_on(model, found, dict.fromkeys(found, (rank, alpha)))


def _model(model: keras.layers.Layer) -> keras.Model:
    model = model if isinstance(model, keras.Model) else getattr(model, "model", model)
    if not isinstance(model, keras.Model) or not model.built:
        raise ValueError(
            "Expected a model that is built, or a task with one. Received: "
            f"{getattr(model, 'name', model)!r} of type {type(model).__name__}."
        )
    return model


def with_lora(model: keras.Model) -> dict[str, keras.layers.Dense]:
    """Returns the layers of a model that have LoRA, keyed by path."""
    return {
        path: layer
        for path, layer in sublayers(model)
        if isinstance(layer, keras.layers.Dense) and layer.lora_enabled
    }


def _projections(model: keras.Model, feed_forward: bool) -> set[int]:
    found = set()
    for _, layer in sublayers(model):
        own: list[Any] = []
        if isinstance(layer, _ATTENTIONS) or (feed_forward and isinstance(layer, FeedForward)):
            own = layer._flatten_layers(include_self=False, recursive=False)
        elif isinstance(layer, AttentionDecoder) and layer.attention:
            own = [getattr(layer, "attention_dense", None)]  # the output's
        found |= {id(sub) for sub in own if isinstance(sub, keras.layers.Dense)}
    return found


def _turn_on(
    model: keras.Model,
    found: dict[str, keras.layers.Dense],
    settings: dict[str, tuple[int, float | None]],
) -> LoraReport:
    """Enables LoRA with a rank and an alpha for each layer; changes nothing on failure."""
    for path, layer in found.items():
        mode = layer.quantization_mode
        if mode not in (None, "int8", "int4"):
            raise ValueError(
                f"In Keras, layers in {mode} cannot have LoRA. Received: {model.name!r}, "
                f"whose {path!r} is in {mode}. Use int8 or int4, or train the model with "
                "LoRA first."
            )
        if layer.kernel_constraint:
            raise ValueError(
                "In Keras, layers with a `kernel_constraint` cannot have LoRA. Received: "
                f"{model.name!r}, whose {path!r} has {layer.kernel_constraint}. Remove the "
                "constraint."
            )
    chosen = {id(layer) for layer in found.values()}
    every = {id(layer): layer for layer in model._flatten_layers()}.values()
    for layer in every:
        own = [v for v in layer._trainable_variables if v.trainable]
        # Batch normalization would keep updating its statistics.
        whole = (
            id(layer) not in chosen
            and layer.trainable
            and not list(layer._flatten_layers(include_self=False, recursive=False))
            and bool(layer.non_trainable_weights)
        )
        # For `merge_lora` to undo. Names, because Keras would track variables a second time.
        layer._lora_froze = (whole, tuple(v.path for v in own), len(every))
        if whole:
            layer.trainable = False
            layer._trainable = _FROZEN_HERE
        for variable in own:
            variable.trainable = False
    for path, layer in found.items():
        rank, alpha = settings[path]
        layer.enable_lora(rank, lora_alpha=alpha)
    _changed(model)
    counts = [
        sum(int(np.prod(v.shape)) for v in weights)
        for weights in (model.trainable_weights, model.non_trainable_weights)
    ]
    return LoraReport(tuple(found), *counts)


def _changed(model: keras.Model) -> None:
    """Discards functions that were compiled for the previous weights."""
    for layer in model._flatten_layers():
        if isinstance(layer, keras.Model):
            layer.train_function = layer.test_function = layer.predict_function = None
        if keras.backend.backend() == "torch":
            layer._track_variables()
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and optimizer.built:
        model.compiled = False  # its optimizer has slots of other weights


def merge_lora(model: keras.layers.Layer) -> None:
    """Merges the low-rank changes of `enable_lora` into the kernels of a model.

        W <- W + alpha / rank A B

    The result is a plain model whose outputs are the same except for rounding; quantized kernels
    are rounded again. Weights that `enable_lora` froze become trainable again, except in layers
    that were frozen later (`layer.trainable = False`). Layers that were unfrozen later do not
    change. Compile the model afterwards.

    Args:
        model: A Keras model or task with LoRA. It is changed in place.

    Raises:
        ValueError: If the model is not built or has no LoRA, or is only a part of the model that
            was passed to `enable_lora`, so that the other layers would stay frozen.

    Example:

    >>> classifier = TransformerClassifierConfig(50, num_classes=2).build()
    >>> weights = len(classifier.trainable_weights)
    >>> report = enable_lora(classifier, rank=2)
    >>> merge_lora(classifier)
    >>> len(classifier.trainable_weights) == weights
    True
    """
    model = _model(model)
    found = with_lora(model)
    if not found:
        raise ValueError(f"{model.name!r} has no LoRA. Call `enable_lora` on it first.")
    _refuse_part(model)
    with quick_deletions():
        for layer in found.values():
            merged: dict[str, Any] = {}
            layer.save_own_variables(merged)
            layer._tracker.unlock()
            del layer.lora_kernel_a, layer.lora_kernel_b
            layer._tracker.lock()
            layer.lora_enabled = False
            layer.lora_rank = layer.lora_alpha = None
            layer.load_own_variables(merged)
    chosen = {id(layer) for layer in found.values()}
    for layer in model._flatten_layers():
        record = getattr(layer, "_lora_froze", None)
        if record is not None:
            whole, names, _ = record
            if whole and layer.trainable is _FROZEN_HERE:
                layer._trainable = True
            for variable in layer._trainable_variables if layer.trainable else ():
                if variable.path in names:
                    variable.trainable = True
            layer._lora_froze = None
        elif id(layer) in chosen and layer.quantization_mode is None:  # by Keras' own method
            layer._kernel.trainable = layer.trainable
    _changed(model)


def _refuse_part(model: keras.Model) -> None:
    layers = {id(layer): layer for layer in model._flatten_layers()}.values()
    records = [r for r in (getattr(x, "_lora_froze", None) for x in layers) if r is not None]
    if records and len(records) < records[0][2]:
        raise ValueError(
            "Expected the whole model that was passed to `enable_lora`, with "
            f"{records[0][2]} layers with LoRA. Received: {model.name!r}, which has "
            f"{len(records)} of them. Merge the whole model, or its other layers would stay "
            "frozen."
        )


def save_lora(model: keras.layers.Layer, path: str | os.PathLike) -> None:
    """Writes A, B, rank and alpha of each layer with LoRA to a file, which all backends can load.

    Args:
        model: A Keras model or task with LoRA.
        path: The file; its folder must exist.

    Raises:
        ValueError: If the model is not built or has no LoRA.
        OSError: If the file cannot be written, for example because its folder does not exist.

    Example:

    >>> import os, tempfile
    >>> config = TransformerClassifierConfig(50, num_classes=2)
    >>> model, other = config.build(), config.build()
    >>> other.set_weights(model.get_weights())
    >>> report = enable_lora(model, rank=2)
    >>> path = os.path.join(tempfile.mkdtemp(), "adapter.npz")
    >>> save_lora(model, path)
    >>> load_lora(other, path) == report
    True
    """
    found = with_lora(_model(model))
    if not found:
        raise ValueError(f"{_model(model).name!r} has no LoRA. Call `enable_lora` on it first.")
    header = {
        "format_version": LORA_VERSION,
        "keras_attn": __version__,
        "layers": list(found),
        "ranks": [layer.lora_rank for layer in found.values()],
        "alphas": [layer.lora_alpha for layer in found.values()],
    }
    arrays = {_HEADER: np.frombuffer(json.dumps(header).encode(), "uint8")}
    for i, layer in enumerate(found.values()):
        arrays[f"a/{i}"] = keras.ops.convert_to_numpy(layer.lora_kernel_a)
        arrays[f"b/{i}"] = keras.ops.convert_to_numpy(layer.lora_kernel_b)
    path = Path(path).expanduser()
    remove_partial_files(path)
    with atomic_write(path) as partial, open(partial, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # no array has the name of an option


def load_lora(model: keras.layers.Layer, path: str | os.PathLike) -> LoraReport:
    """Enables LoRA with the settings and weights from a file written by `save_lora`.

    If the file does not match the model, the model is not changed.

    Args:
        model: A Keras model or task. It must have the weights that the saved model had before
            LoRA, because the file contains only the changes of the weights.
        path: The file.

    Returns:
        A `LoraReport`, as from `enable_lora`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file was not written by `save_lora`, is damaged, has a newer format or
            does not match the model; if the model is not built or already has LoRA; or if a layer
            of the file has a kernel constraint or is quantized to float8.

    Example:

    >>> load_lora(BagClassifierConfig(50, num_classes=2).build(), "nowhere.npz")
    Traceback (most recent call last):
        ...
    FileNotFoundError: Expected a file of `save_lora` at nowhere.npz. There is nothing.
    """
    model, path = _model(model), Path(path).expanduser()
    header, arrays = _read_adapter(path)
    if with_lora(model):
        raise ValueError(f"{model.name!r} already has LoRA. Call `merge_lora` on it first.")
    known = dict(sublayers(model))
    found, settings, weights = {}, {}, []
    for i, name in enumerate(header["layers"]):
        a, b = arrays[f"a/{i}"], arrays[f"b/{i}"]
        shape = a.shape[0], b.shape[1]
        layer = known.get(name)
        if not isinstance(layer, keras.layers.Dense) or tuple(layer.kernel.shape) != shape:
            here = getattr(layer, "kernel", None)
            here = "no such Dense" if here is None else f"shape {tuple(here.shape)}"
            raise ValueError(
                f"{path} does not fit {model.name!r}. Expected: a kernel of shape {shape} in "
                f"{name!r}. Received: {here}."
            )
        found[name], settings[name] = layer, (header["ranks"][i], header["alphas"][i])
        weights.append((a, b))
    report = _turn_on(model, found, settings)
    for layer, (a, b) in zip(found.values(), weights, strict=True):
        layer.lora_kernel_a.assign(a)
        layer.lora_kernel_b.assign(b)
    return report


def _read_adapter(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads and checks the header and arrays of a file of `save_lora`."""
    with open_archive(path, _EXPECTED) as archive:
        if _HEADER not in archive.arrays():
            raise ValueError(
                f"Expected {_EXPECTED}. Received: {path}, which is another kind of file."
            )
        arrays = {name: archive.array(name) for name in archive.arrays()}
    header = parse_object(arrays[_HEADER].tobytes(), path, _EXPECTED)
    check_format(path, header, LORA_VERSION)
    if header["format_version"] == 1 and {"layers", "rank", "alpha"} <= set(header):
        count = len(header["layers"])
        header |= {"ranks": [header["rank"]] * count, "alphas": [header["alpha"]] * count}
    if missing := [name for name in ("layers", "ranks", "alphas") if name not in header]:
        refuse_damaged(path, f"its header has not {missing}", _EXPECTED)
    if len({len(header[name]) for name in ("layers", "ranks", "alphas")}) > 1:
        refuse_damaged(path, "its header has other numbers of layers and ranks", _EXPECTED)
    for i, name in enumerate(header["layers"]):
        factors = [arrays[f"{x}/{i}"] for x in "ab" if f"{x}/{i}" in arrays]
        if [factor.ndim for factor in factors] != [2, 2]:
            refuse_damaged(path, f"it has not both factors of {name!r}", _EXPECTED)
        rank, alpha = header["ranks"][i], header["alphas"][i]
        if not factors[0].shape[1] == factors[1].shape[0] == rank:
            refuse_damaged(path, f"the factors of {name!r} have different ranks", _EXPECTED)
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not alpha > 0:
            refuse_damaged(path, f"the alpha of {name!r} is not above 0", _EXPECTED)
        if not all(np.isfinite(factor).all() for factor in factors):
            refuse_damaged(path, f"the factors of {name!r} are not finite", _EXPECTED)
    return header, arrays
