"""Collection of attention weights from whole models."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import keras
import numpy as np

from keras_attn.hints import Nest, Tensor

if TYPE_CHECKING:
    import torch

_Collector: TypeAlias = "AttentionMaps | TracedAttention | None"
_collector: contextvars.ContextVar[_Collector] = contextvars.ContextVar(
    "keras_attn_collector", default=None
)


_role: contextvars.ContextVar[str] = contextvars.ContextVar("keras_attn_role", default="cross")


class AttentionKey(NamedTuple):
    """The source of attention weights: path of the layer, role, and index of the call."""

    path: str
    """`layer.path` of the attention layer."""
    role: str
    """`self` or `cross`; `pooling` for one learned query, `weighting` for `TokenWeighting`."""
    call: int
    """0 for the first call of the layer, 1 for the second (of a shared layer), and so on."""


class AttentionMaps(dict):
    """Attention weights `(B, N, T, S)` as NumPy arrays of float32, keyed by `AttentionKey`.

    Layers without heads give `(B, T, S)`. `AttentionPooling`, whose only query is learned, and
    `TokenWeighting`, which has no queries, give `(B, S)`.
    """

    def __init__(self):
        super().__init__()
        self._unseen = 0
        self._layers: dict[str, list[int]] = {}
        self._calls: dict[AttentionKey, dict[str, Any]] | None = None

    def select(self, role: str | None = None, path: str = "") -> list[np.ndarray]:
        """Returns a list of the maps of a role (any role if None) whose layer path contains `path`.

        The maps are in the order of the calls.
        """
        return [m for k, m in self.items() if role in (None, k.role) and path in k.path]

    def _add(self, layer: keras.layers.Layer, role: str, scores: Tensor, **call: Any) -> None:
        if not is_concrete(scores):
            self._unseen += 1
            return
        path = layer.path or layer.name
        same = self._layers.setdefault(path, [])
        if id(layer) not in same:
            same.append(id(layer))
        if number := same.index(id(layer)):  # another layer of the same path
            path = f"{path}:{number}"
        number_of_call = sum(1 for key in self if key.path == path)
        scores = keras.ops.cast(scores, "float32")
        key = AttentionKey(path, role, number_of_call)
        self[key] = keras.ops.convert_to_numpy(scores)
        if self._calls is not None:
            self._calls[key] = {**call, "weights": scores} if call else {}


def is_concrete(tensor: Tensor) -> bool:
    """Returns whether a tensor has values, unlike a tensor in a traced function."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return not tf.is_symbolic_tensor(tensor)
    if backend == "jax":
        import jax

        return not isinstance(tensor, jax.core.Tracer)
    if backend == "torch":
        return cast("torch.Tensor", tensor).device.type != "meta"
    return True


def active_collector() -> _Collector:
    """Returns the collector of the surrounding `collect_attention`, or None."""
    return _collector.get()


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Disables the collector inside a loop, which adds the weights of all its steps itself."""
    token = _collector.set(None)
    try:
        yield
    finally:
        _collector.reset(token)


@contextlib.contextmanager
def calling_as(role: str) -> Iterator[None]:
    """Sets the role, `self` or `cross`, of the layer that is called inside the block."""
    token = _role.set(role)
    try:
        yield
    finally:
        _role.reset(token)


def current_role() -> str:
    """Returns the role that `calling_as` has set; `cross` by default."""
    return _role.get()


@contextlib.contextmanager
def collect_calls() -> Iterator[dict[AttentionKey, dict[str, Any]]]:
    """Collects the queries, keys, values and options of every attention layer."""
    maps = AttentionMaps()
    maps._calls = {}
    token = _collector.set(maps)
    try:
        yield maps._calls
    finally:
        _collector.reset(token)


@contextlib.contextmanager
def collect_attention() -> Iterator[AttentionMaps]:
    """Collects the weights of every attention layer that is called inside the block.

    Functional, subclassed and nested models and shared layers are supported if they are called
    eagerly, as `model(x)`. Collecting uses the kernel "plain", which changes the outputs at most by
    rounding. It stores nothing on the layers and does not affect other threads. The weights of
    compiled calls cannot be collected: `tf.function` and, on TensorFlow and JAX, `fit` and
    `predict` of a model that was not compiled with `run_eagerly=True`.

    Yields:
        `AttentionMaps`: a dict of NumPy arrays, keyed by `AttentionKey(path, role, call)`.

    Raises:
        RuntimeError: At the end of the block, if attention layers were called only while a function
            was compiled.

    Example:

    >>> layer = MultiHeadSelfAttention(num_heads=2)
    >>> with collect_attention() as maps:
    ...     y = layer(keras.ops.ones((1, 3, 8)))
    >>> [(key.role, weights.shape) for key, weights in maps.items()]
    [('self', (1, 2, 3, 3))]
    """
    maps = AttentionMaps()
    token = _collector.set(maps)
    try:
        yield maps
    finally:
        _collector.reset(token)
    if maps._unseen and not maps:
        raise RuntimeError(
            "`collect_attention` saw attention layers run only inside a compiled function, where "
            "weights have no values. Call the model eagerly: `model(x)`, not `model.predict(x)`, "
            "`fit` or a `tf.function`."
        )


class TracedAttention(list):
    """A list of `(layer, role, weights)` for each call of an attention layer, with tensors."""

    def _add(self, layer: keras.layers.Layer, role: str, scores: Tensor, **call: Any) -> None:
        self.append((layer, role, scores))


@contextlib.contextmanager
def traced_attention() -> Iterator[TracedAttention]:
    """Collects attention weights as tensors, for use in a traced function."""
    calls = TracedAttention()
    token = _collector.set(calls)
    try:
        yield calls
    finally:
        _collector.reset(token)


def attention_maps(model: Callable[..., Any], inputs: Nest, **kwargs: Any) -> AttentionMaps:
    """Returns the attention weights of one call of a model.

    Args:
        model: A Keras model or layer, or any callable that calls attention layers eagerly.
        inputs: Inputs of the model, passed as its first argument.
        **kwargs: Further call arguments. `training` defaults to False for a Keras model.

    Returns:
        An `AttentionMaps`, a dict of NumPy arrays keyed by `AttentionKey(path, role, call)`.

    Raises:
        ValueError: If no attention layer of this package was called. `keras_attn.from_keras`
            converts a model with attention layers of Keras or KerasHub.
        RuntimeError: If attention layers were called only in a compiled function.

    Example:

    >>> x = keras.Input((None, 8))
    >>> model = keras.Model(x, MultiHeadSelfAttention(num_heads=2, name="attend")(x))
    >>> list(attention_maps(model, keras.ops.ones((1, 3, 8))))
    [AttentionKey(path='attend', role='self', call=0)]
    """
    if isinstance(model, keras.Model):
        kwargs.setdefault("training", False)
    with collect_attention() as maps:
        model(inputs, **kwargs)
    if not maps:
        raise ValueError(
            f"No attention layer of keras_attn was called by {type(model).__name__} "
            f"{getattr(model, 'name', model)!r}. Layers of Keras and KerasHub do not report "
            "their weights: convert the model with `keras_attn.from_keras(model)`, or build "
            "it from `keras_attn.layers`. If it has no attention, use gradients to explain "
            "it."
        )
    return maps
