"""keras_attn: attention for Keras 3, from Bahdanau to GPT."""

from keras_attn.packages import import_keras

import_keras()  # before what imports it too: its backend may be missing

from keras_attn import (  # noqa: E402
    adapt,
    batches,
    corpora,
    explain,
    fields,
    generation,
    images,
    interop,
    layers,
    metrics,
    models,
    ops,
    records,
    settings,
    tasks,
    text,
    training,
    visualize,
)
from keras_attn.interop import from_keras  # noqa: E402
from keras_attn.layers import *  # noqa: E402, F403  each layer is `keras_attn.X` too
from keras_attn.version import __version__  # noqa: E402

__all__ = [
    *layers.__all__,
    "__version__",
    "adapt",
    "batches",
    "corpora",
    "explain",
    "fields",
    "from_keras",
    "generation",
    "images",
    "interop",
    "layers",
    "metrics",
    "models",
    "ops",
    "records",
    "settings",
    "tasks",
    "text",
    "training",
    "visualize",
]
