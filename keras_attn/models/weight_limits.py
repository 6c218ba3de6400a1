"""A limit on the number of weights, checked before memory is allocated."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import keras
from keras.src.backend.common import global_state
from keras.src.initializers.random_initializers import RandomInitializer

from keras_attn.layers.sinusoidal_initializer import SinusoidalInitializer

_WAITING = "uninitialized_variables"
"""The attribute in which Keras keeps variables created in a `keras.StatelessScope`."""
_TIMES = 4  # int4 weights are two in a byte, and seeds are no weights
_MORE_VARIABLES, _MORE_NUMBERS = 64, 1 << 16


@contextlib.contextmanager
def limited_weights(variables: int, numbers: int, keep: bool = True) -> Iterator[None]:
    """Creates the weights of layers at the end of the block, unless there are too many.

    Inside the block, layers are built without memory for their weights. If they need more weights
    than a weights file contains, an error is raised. Weights that a layer initializes with random
    numbers or sinusoids are 0 until they are loaded: computing them would take longer than loading,
    and JAX would compile a program for each shape.
    """
    waiting = _Counted(variables, numbers)
    outer = global_state.get_global_attribute(_WAITING)
    scope = _Updates(initialize_variables=False)
    global_state.set_global_attribute(_WAITING, waiting)
    try:
        with scope:
            yield
    finally:
        global_state.set_global_attribute(_WAITING, outer)
    if not keep:
        return
    for variable in waiting:
        variable._deferred_initialize()
    for variable, value in scope.updates:
        variable.assign(value)


def check_num_layers(config: object, variables: int) -> None:
    """Raises a ValueError if a config has more layers than a file has weights.

    Without this check, the cells and lists that a model creates before its first weight could fill
    the memory.
    """
    for name, value in config.items() if isinstance(config, Mapping) else ():
        check_num_layers(value, variables)
        if re.fullmatch(r"num_(\w+_)?layers", name) and type(value) is int and value > variables:
            raise ValueError(
                f"the settings require at least {value:,} tensors, but the file has {variables:,}"
            )


class _Updates(keras.StatelessScope):
    """A scope that records assignments in order."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.updates: list[tuple[Any, Any]] = []

    def add_update(self, update: tuple[Any, Any]) -> None:
        self.updates.append(update)
        super().add_update(update)


class _Counted(list):
    """Variables without memory, up to a limit."""

    def __init__(self, variables: int, numbers: int):
        super().__init__()
        self.variables = variables
        self.given = numbers
        self.numbers = 0

    def append(self, variable: keras.Variable) -> None:
        super().append(variable)
        if isinstance(variable._initializer, RandomInitializer | SinusoidalInitializer):
            variable._initializer = keras.initializers.Zeros()
        count = 1
        for size in variable.shape:
            count *= size
        self.numbers += count
        if self.numbers > _TIMES * self.given + _MORE_NUMBERS:
            raise ValueError(
                f"the settings require at least {self.numbers:,} numbers, but the file has "
                f"{self.given:,}"
            )
        if len(self) > _TIMES * self.variables + _MORE_VARIABLES:
            raise ValueError(
                f"the settings require at least {len(self):,} tensors, but the file has "
                f"{self.variables:,}"
            )
