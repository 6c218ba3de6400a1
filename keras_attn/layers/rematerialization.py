"""Rematerialization that draws the same random numbers in the backward pass."""

from typing import Any

import keras

from keras_attn.hints import Tensor


class _FromStates(keras.StatelessScope):
    """Starts seed generators from given states, and counts their draws.

    All other variables keep their value from the surrounding scope.
    """

    def __init__(self, states: list[tuple[Any, Tensor]]):
        super().__init__(states, initialize_variables=False)
        self.draws = {id(variable): 0 for variable, _ in states}

    def get_current_value(self, variable: keras.Variable) -> Tensor | None:
        value = super().get_current_value(variable)
        if value is None and self.original_scope is not None:
            value = self.original_scope.get_current_value(variable)
        return value

    def add_update(self, update: tuple[Any, Tensor]) -> None:
        super().add_update(update)
        self.draws[id(update[0])] += 1


def rematerialized(
    layer: keras.layers.Layer,
    *inputs: Tensor,
    named: dict[str, Tensor | None] | None = None,
    **kwargs: Any,
) -> Any:
    """Calls `layer(*inputs, **kwargs)` without keeping activations for its gradients.

    The backward pass calls the layer again. With `keras.remat`, the second call would draw other
    random numbers, because the seeds have changed (on JAX it fails). Here, the seeds start from the
    same state.
    """
    weights = {id(v) for v in layer.weights}
    seeds = [v for v in layer.non_trainable_variables if id(v) not in weights]
    states = [(v, v.value * 1) for v in seeds]  # a copy
    draws = []
    named = {name: tensor for name, tensor in (named or {}).items() if tensor is not None}

    def call(*tensors):
        by_name = dict(zip(named, tensors[len(inputs) :], strict=True))
        with _FromStates(states) as scope:
            outputs = layer(*tensors[: len(inputs)], **by_name, **kwargs)
        draws.append(scope.draws)
        return outputs

    outputs = keras.remat(call)(*inputs, *named.values())
    for variable, state in states:
        drawn = keras.ops.convert_to_tensor([0, draws[0][id(variable)]], dtype=variable.dtype)
        variable.assign(state + drawn)
    return outputs
