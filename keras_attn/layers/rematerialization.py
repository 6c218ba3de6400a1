"""Calls whose activations are computed again in the backward pass, with the same noise."""

from typing import Any

import keras

Tensor = Any


class _FromStates(keras.StatelessScope):
    """Lets the generators of random seeds start from given states, and counts their draws.

    All other variables are what they are outside, in another scope of this kind or in none.
    """

    def __init__(self, states: list[tuple[Any, Tensor]]):
        super().__init__(states, initialize_variables=False)
        self.draws = {id(variable): 0 for variable, _ in states}

    def get_current_value(self, variable: Any) -> Tensor | None:
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
    """Calls a built layer, keeping no activations for its gradients: `layer(*inputs, **kwargs)`.

    The backward pass calls it once more. `keras.remat` alone would draw other noise then, as the
    layer's seeds have moved on (on JAX it fails for that); here they start where they started.

    Args:
        layer: A built layer without a state of its own but for seeds.
        *inputs: Tensors that gradients flow to.
        named: Tensors by keyword that gradients flow to, or None.
        **kwargs: All else; no gradients flow to it on TensorFlow.

    Returns:
        What the layer returns: a tensor, or a tuple of tensors.
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
