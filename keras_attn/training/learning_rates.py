"""Learning rates that differ between the weights of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from keras_attn.hints import Tensor


def scale_learning_rate(optimizer: keras.optimizers.Optimizer, factors: dict[int, float]) -> None:
    """Makes an optimizer multiply its learning rate by a factor for some variables.

        w <- w - factor(w) * learning_rate * (update + weight_decay * w)

    w is a variable, and `update` is the step of the optimizer for a learning rate of 1.

    References:
        - [Howard and Ruder, 2018](https://arxiv.org/abs/1801.06146): discriminative fine-tuning,
          with a smaller rate for lower layers.

    Args:
        optimizer: An optimizer that has not been used yet. It is changed in place.
        factors: The factor of each variable, keyed by the `id` of the `keras.Variable`. Variables
            that are not in the dict have factor 1.

    Raises:
        ValueError: If a factor is not above 0. Freeze layers instead of passing 0.

    Example:

    >>> slow, fast = keras.Variable([1.0]), keras.Variable([1.0])
    >>> optimizer = keras.optimizers.SGD(0.5)
    >>> scale_learning_rate(optimizer, {id(slow): 0.1})
    >>> optimizer.apply([keras.ops.ones(1), keras.ops.ones(1)], [slow, fast])
    >>> [round(float(v[0]), 3) for v in (slow, fast)]
    [0.95, 0.5]
    """
    if not all(factor > 0 for factor in factors.values()):
        raise ValueError(
            f"Expected factors above 0. Received: {min(factors.values())}. To keep layers as "
            "they are, set their `trainable = False`."
        )
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # inside a scaled loss
    update, decay = optimizer._backend_update_step, optimizer._apply_weight_decay

    def groups(variables: Sequence[Any]) -> dict[float, list[int]]:
        found: dict[float, list[int]] = {}
        for i, variable in enumerate(variables):
            found.setdefault(factors.get(id(variable), 1.0), []).append(i)
        return found

    def scaled_update(grads: Sequence[Any], variables: Sequence[Any], rate: Tensor | float) -> None:
        # What Nadam multiplies in each call, which is to be multiplied once in a step.
        product = getattr(optimizer, "_u_product", None)
        before = None if product is None else product + 0.0
        for i, (factor, members) in enumerate(groups(variables).items()):
            if i and product is not None:
                optimizer.assign(product, before)
            scaled = rate if factor == 1.0 else rate * factor
            update([grads[i] for i in members], [variables[i] for i in members], scaled)

    def scaled_decay(variables: Sequence[Any]) -> None:
        whole = optimizer.weight_decay
        if whole is None:
            return
        for factor, members in groups(variables).items():
            optimizer.weight_decay = whole * factor
            decay([variables[i] for i in members])
        optimizer.weight_decay = whole

    optimizer._backend_update_step = scaled_update
    optimizer._apply_weight_decay = scaled_decay
