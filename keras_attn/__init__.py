"""keras_attn: attention for Keras 3, from Bahdanau to GPT."""

from keras_attn import (
    datasets,
    explain,
    fields,
    generation,
    layers,
    models,
    ops,
    settings,
    tasks,
    text,
    training,
    visualize,
)
from keras_attn.layers import *  # noqa: F403  each layer is `keras_attn.X` too
from keras_attn.version import __version__

__all__ = [
    *layers.__all__,
    "__version__",
    "datasets",
    "explain",
    "fields",
    "generation",
    "layers",
    "models",
    "ops",
    "settings",
    "tasks",
    "text",
    "training",
    "visualize",
]
