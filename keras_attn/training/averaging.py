"""Moving averages of weights."""

import contextlib
from collections.abc import Iterator

import keras

from keras_attn.training.distribution import whole_value


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[bool]:
    """Replaces a model's weights by their moving average inside a `with` block.

        average_1 = weights_1,    average_t = m average_(t-1) + (1 - m) weights_t

    weights_t are the weights after t batches (with gradient accumulation, not all of them change
    the weights). Keras optimizers keep this average with
    `use_ema=True, ema_momentum=m` (Polyak and Juditsky, 1992). A translation model usually scores
    better with averaged weights than with its last weights, especially while the learning rate is
    high. At the end of the block, even after an error, the original weights are restored.

    Args:
        model: A compiled model.

    Yields:
        True if the optimizer has an average; False if it does not use one or has made no update, in
        which case the weights are unchanged.

    Example:

    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile(keras.optimizers.SGD(use_ema=True), "mse")
    >>> with averaged_weights(model) as is_averaged:
    ...     print(is_averaged)
    False
    >>> history = model.fit(keras.ops.ones((4, 3)), keras.ops.ones((4, 2)), verbose=0)
    >>> with averaged_weights(model) as is_averaged:
    ...     print(is_averaged)
    True
    """
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    # Before the first step the average is zero.
    steps = _number(optimizer._iterations) if optimizer.built else 0
    if not getattr(optimizer, "use_ema", False) or not steps:
        yield False
        return
    pairs = [
        (variable, average)
        for variable, average in zip(
            optimizer._trainable_variables, optimizer._model_variables_moving_average, strict=True
        )
        if average is not None
    ]
    # Copies: PyTorch would return a view of changing values. JAX would share a buffer between two
    # variables, and a step that donates the buffer of one would destroy the other.
    kept = [whole_value(variable) for variable, _ in pairs]
    try:
        for variable, average in pairs:
            variable.assign(whole_value(average))
        yield True
    finally:
        for (variable, _), value in zip(pairs, kept, strict=True):
            variable.assign(value)


def _number(variable: keras.Variable) -> int:
    return int(keras.ops.convert_to_numpy(variable))
