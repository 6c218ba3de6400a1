"""Predictions of a model without each of its attention heads."""

from collections.abc import Callable

import keras

from keras_attn.layers import ablate, heads_of
from keras_attn.visualize import HeadOutcomes, Outcome


def head_outcomes(model: keras.layers.Layer, answer: Callable[[], Outcome]) -> HeadOutcomes:
    """Runs a model once with all heads, and once without each head.

    The number of calls is the number of heads plus one, so use this function with small models and
    single inputs. The attention viewer shows the outcomes when its user switches a head off.

    Args:
        model: A built model. For a task, pass `task.whole`.
        answer: Function without arguments that runs the model and returns an `Outcome`. It is
            called once with all heads, and once for each head, while `keras_attn.ablate` switches
            this head off.

    Returns:
        A `HeadOutcomes`, which can be passed to `AttentionView` as `outcomes`.

    Raises:
        ValueError: If the model has no multi-head attention.

    Example:

    >>> layer = MultiHeadSelfAttention(num_heads=2, name="attend")
    >>> x = keras.random.normal((1, 3, 8))
    >>> ask = lambda: Outcome("nothing" if not ops.any(layer(x)) else "something")
    >>> _ = layer(x)
    >>> head_outcomes(layer, ask).whole.text
    'something'
    """
    layers = heads_of(model)
    whole = answer()
    without: dict[str, list[Outcome]] = {}
    for path, layer in layers.items():
        without[path] = []
        for number in range(layer.num_heads):
            with ablate(model, {path: number}):
                without[path].append(answer())
    return HeadOutcomes(whole, without)
