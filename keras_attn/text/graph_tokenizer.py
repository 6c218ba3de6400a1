"""Base class of tokenizers in TensorFlow graphs."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

Method = TypeVar("Method", bound=Callable[..., Any])


class _GraphMethod:
    """Descriptor that creates a `tf.function` for each instance when it is first used."""

    def __init__(self, method: Callable[..., Any], options: dict[str, Any]) -> None:
        self.method, self.options = method, options

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        function = tf.function(types.MethodType(self.method, instance), **self.options)
        # Found before this descriptor from now on; a cycle, which Python collects.
        return vars(instance).setdefault(self.method.__name__, function)


def graph_method(**options: Any) -> Callable[[Method], Method]:
    """A decorator like `tf.function(**options)` for methods, which keeps their object alive.

    `tf.function` keeps only a weak reference to the object, so that
    `tokenizer.to_graph().encode(text)` would fail.
    """

    def decorate(method: Method) -> Method:
        made: Any = _GraphMethod(method, options)
        return made

    return decorate


class GraphTokenizer(tf.Module):
    """Base class of tokenizers in TensorFlow graphs, from strings to ids and back.

    The ops run on the CPU, because TensorFlow keeps strings there.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(name=tokenizer.assets_name)
        self.vocabulary_size = tokenizer.vocabulary_size
        self.pad_id = tokenizer.pad_id
        self.start_id = tokenizer.start_id
        self.end_id = tokenizer.end_id
        self.unknown_id = tokenizer.unknown_id
        with tf.device("CPU:0"):
            self._tokens = tf.constant(tokenizer.tokens(list(range(self.vocabulary_size))))

    def encode(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Converts strings `(B,)` to ids, ragged int32 `(B, None)`, without start and end tokens.

        Bytes that are not UTF-8 are read as U+FFFD.
        """
        raise NotImplementedError

    def encode_start(self, text: tf.Tensor, count: int) -> tf.RaggedTensor:
        """Converts the start of strings `(B,)` to ids, like `encode(text)[:, :count]`."""
        with tf.device("CPU:0"):
            return self.encode(text)[:, :count]

    @graph_method(reduce_retracing=True, autograph=False)
    def tokens(self, ids: tf.Tensor) -> tf.Tensor:
        """Converts ids of any shape to readable pieces, like `tokens` of the Python tokenizer."""
        with tf.device("CPU:0"):
            return tf.gather(self._tokens, ids)


def lookup_table(
    keys: Iterable, values: Iterable[int], key_dtype: tf.DType, default: int
) -> tf.lookup.StaticHashTable:
    """Creates a table from keys to int64 numbers, with a default for all other keys."""
    initializer = tf.lookup.KeyValueTensorInitializer(
        tf.constant(list(keys), key_dtype),
        tf.constant(np.fromiter(values, np.int64), tf.int64),
    )
    return tf.lookup.StaticHashTable(initializer, default)
