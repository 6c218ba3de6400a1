"""What the harness has to know of a layer, and its tools."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops, tree

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
LENGTHS = {"T": 4, "S": 5}


@dataclass
class LayerCase:
    """What the harness has to know of a layer.

    Args:
        make: Makes a fresh layer; takes `dtype` and `name`.
        inputs: Call arguments and their shapes without the batch, such as `{"x": ("T", 8)}`; the
            first one is the query. A shape without a width is one of ids, of two lengths too.
        masks: Names of the explicit masks of the inputs, such as `{"x": "padding_mask"}`.
        hides: The inputs whose masks hide keys.
        attention_mask: The inputs `(query, keys)` and number of heads of an `attention_mask`.
        scores: Names of the inputs `(query, keys)` and number of heads of each of the scores; a
            query of None where there is one of them for all.
        causal: Call arguments that make it causal; None: it cannot be.
        repeats: Whether it can be applied three times in a row.
        call: Further arguments of every call.
        as_dict: Whether the inputs are one dict, as those of functional models are.
        partial_weights: Whether rows of weights may sum to less than 1 (a predicted window).
        normalized: Whether weights are those of a softmax.
        role: Role of the weights in the collector; that of the inputs' names if None.
        keeps_mask: Whether the output has the positions of the first input, and its mask.
        pools: Whether there is one output for all positions.
        output_dtype: Dtype of the output; that of the policy if None.
        loops: Whether it loops over positions, which takes long to compile.
    """

    make: Callable[..., Any]
    inputs: dict[str, tuple]
    masks: dict[str, str]
    hides: tuple[str, ...] = ()
    attention_mask: tuple[str, str, int] | None = None
    scores: tuple[tuple[str, str, int], ...] = ()
    causal: dict[str, bool] | None = None
    repeats: bool = False
    call: dict[str, Any] = field(default_factory=dict)
    as_dict: bool = False
    partial_weights: bool = False
    normalized: bool = True
    role: str | None = None
    keeps_mask: bool = True
    pools: bool = False
    output_dtype: str | None = None
    loops: bool = False
    layers: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def layer(self, policy: str = "float32") -> Any:
        """One layer a dtype policy, shared by the checks: building costs more than calling."""
        if policy not in self.layers:
            self.layers[policy] = self.make(dtype=policy, name="layer")
        return self.layers[policy]

    @property
    def first(self) -> str:
        return next(iter(self.inputs))

    def length(self, name: str) -> int:
        return LENGTHS[self.inputs[name][0]]

    def role_of(self, query: str | None, keys: str) -> str:
        return self.role or ("self" if query == keys else "cross")

    def shape_of_weights(self, query: str | None, keys: str, heads: int) -> tuple[int, ...]:
        if query is None:
            return (2, self.length(keys))
        shape = (2, heads, self.length(query), self.length(keys))
        return shape if heads else (shape[0], *shape[2:])

    def arrays(self, batch: int = 2, seed: int = 0) -> dict[str, np.ndarray]:
        """Random inputs."""
        rng = np.random.default_rng(seed)
        arrays = {}
        for name, sizes in self.inputs.items():
            shape = (batch, *(LENGTHS.get(size, size) for size in sizes))
            ids = rng.integers(1, 11, shape).astype("int32")
            arrays[name] = ids if self.takes_ids(name) else rng.normal(size=shape).astype("float32")
        return arrays

    def takes_ids(self, name: str) -> bool:
        return all(isinstance(size, str) for size in self.inputs[name])

    def some_masks(self, batch: int = 2) -> dict[str, np.ndarray]:
        """Masks that hide the last position of the first row, by name of their input."""
        masks = {}
        for name in self.masks:
            masks[name] = np.ones((batch, self.length(name)), bool)
            masks[name][0, -1] = False
        return masks

    def symbolic(self, known: bool) -> dict[str, Any]:
        return {
            name: keras.Input(
                [
                    size if size not in LENGTHS else LENGTHS[size] if known else None
                    for size in sizes
                ],
                batch_size=2 if known else None,
                dtype="int32" if self.takes_ids(name) else "float32",
                name=name,
            )
            for name, sizes in self.inputs.items()
        }

    def __call__(self, layer: Any, inputs: dict[str, Any], **kwargs) -> Any:
        if self.as_dict:
            return layer(inputs, **{**self.call, **kwargs})
        first, *others = inputs.items()
        return layer(first[1], **dict(others), **{**self.call, **kwargs})


def numpy(nest: Any) -> Any:
    return tree.map_structure(ops.convert_to_numpy, nest)


def mask_of(tensor: Any) -> np.ndarray | None:
    mask = getattr(tensor, "_keras_mask", None)
    return None if mask is None else ops.convert_to_numpy(mask)


def masked(x: np.ndarray, mask: np.ndarray | None) -> Any:
    """A fresh tensor with an implicit mask."""
    x = tf.constant(x)
    if mask is not None:
        x._keras_mask = tf.constant(mask)
    return x


def explicit(case: LayerCase, masks: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {case.masks[name]: mask for name, mask in masks.items()}


def assert_equal(actual: Any, expected: Any, atol: float = 1e-6) -> None:
    tree.assert_same_structure(actual, expected)
    for a, b in zip(tree.flatten(numpy(actual)), tree.flatten(numpy(expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def set_biases(layer: Any) -> None:
    """Zero biases would hide where they are added."""
    rng = np.random.default_rng(1)
    for variable in layer.trainable_variables:
        if variable.name in ("bias", "beta"):
            variable.assign(rng.normal(size=variable.shape))


def values_and_gradients(layer: Any, case: LayerCase, inputs: dict, **kwargs) -> tuple[Any, list]:
    """Outputs, and gradients of a weighted sum of them: of float inputs and of the weights."""
    inputs = {name: tf.convert_to_tensor(x) for name, x in inputs.items()}
    floats = [x for x in inputs.values() if x.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(floats)
        outputs = case(layer, inputs, **kwargs)
        loss = tf.add_n(
            [
                tf.reduce_sum(
                    tf.cos(tf.cast(tf.range(tf.size(y)), tf.float32))
                    * tf.reshape(tf.cast(y, tf.float32), [-1])
                )
                for y in tree.flatten(outputs)
            ]
        )
    variables = [v.value for v in layer.trainable_variables]
    return outputs, tape.gradient(loss, floats + variables)
