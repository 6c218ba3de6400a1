"""Quantization of kernels and embeddings."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_attn.layers.quantization import quantized_sublayers, quick_deletions, sublayers

MODES = ("int8", "int4", "float8")
_OF_FLOAT8 = (keras.layers.Dense, keras.layers.EinsumDense)


def quantize(
    whole: keras.Model,
    mode: str = "int8",
    filters: Callable[[Any], bool] | None = None,
    others: Sequence[keras.Model] = (),
) -> None:
    """Quantizes the kernels and embeddings of a trained model in place.

    Args:
        whole: The model; for a task, `task.whole`.
        mode: `"int8"`, `"int4"` or `"float8"` (which does not change embeddings).
        filters: Function that returns whether a layer is quantized. If None, all layers that
            support the mode are quantized.
        others: Further models that share some of the model's layers. Their compiled functions are
            discarded.

    Raises:
        ValueError: If the mode is unknown, no layer can be quantized (for example, because all are
            already quantized), or the mode is `"float8"` and a layer has LoRA.

    Example:

    >>> model = RecurrentLanguageModelConfig(8, units=4).build()
    >>> quantize(model)
    >>> any(weight.dtype == "int8" for weight in model.weights)
    True
    """
    if mode not in MODES:
        raise ValueError(f"`mode` must be one of {list(MODES)}. Received: {mode!r}.")
    float8 = mode == "float8"
    if float8 and any(getattr(layer, "lora_enabled", False) for _, layer in sublayers(whole)):
        raise ValueError(
            f"In Keras, layers with LoRA cannot be in float8. Received: {whole.name!r}, "
            "which has LoRA. Call `merge_lora` on it first, or use int8 or int4."
        )
    done = set(quantized_sublayers(whole))
    chosen = {
        id(layer)
        for path, layer in sublayers(whole)
        if path not in done
        and type(layer).quantize is not keras.layers.Layer.quantize
        and not isinstance(layer, keras.Model)
        and (not float8 or isinstance(layer, _OF_FLOAT8))
        and (filters is None or filters(layer))
    }
    if not chosen:
        why = (
            f"{len(done)} layers are already quantized"
            if done
            else f"none of them supports {mode}, or `filters` excludes them"
        )
        raise ValueError(f"{whole.name!r} has no layers to quantize, because {why}.")
    with quick_deletions():
        whole.quantize(mode, filters=lambda layer: id(layer) in chosen)
    for model in others:  # what they have compiled reads weights that are gone
        model.train_function = model.test_function = model.predict_function = None
