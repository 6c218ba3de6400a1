"""Windows of local attention (Luong et al., 2015)."""

from keras import ops

from keras_attn.hints import Tensor


def key_positions(key: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Returns the positions of keys among the real tokens of their row, and the tokens' number.

    Args:
        key: Keys `(B, S, D)`. Without a mask, only their shape is used.
        key_mask: Booleans `(B, S)`, True for tokens; all keys are tokens if None.

    Returns:
        A tuple of the positions, float32 `(B, S)`, 0 for the first token of a row, and the number
        of tokens of each row, float32 `(B, 1)`. Padding does not count: it has the position of the
        last token before it, or -1 before the first token.

    Example:

    >>> positions, lengths = key_positions(ops.ones((1, 3, 2)), ops.array([[False, True, True]]))
    >>> ops.convert_to_numpy(positions)[0, 1:].tolist(), float(lengths[0, 0])
    ([0.0, 1.0], 2.0)
    """
    if key_mask is None:
        is_token = ops.ones_like(key[:, :, 0], dtype="float32")
    else:
        is_token = ops.cast(key_mask, "float32")
    return ops.cumsum(is_token, axis=1) - 1.0, ops.sum(is_token, axis=1, keepdims=True)


def local_window(center: Tensor, positions: Tensor, window_size: int) -> Tensor:
    """Returns the mask that lets each query see the keys around its aligned position.

        visible[t, s] = |positions[s] - center[t]| <= window_size

    Args:
        center: Aligned positions of the queries, float32 `(B, T)`.
        positions: Positions of the keys, float32 `(B, S)`, from `key_positions`.
        window_size: Half-width D of the window, which contains at most `2 D + 1` tokens.

    Returns:
        The mask, booleans `(B, T, S)`. Padding within the window is not hidden.

    Example:

    >>> window = local_window(ops.array([[1.0]]), ops.array([[0.0, 1.0, 2.0, 3.0]]), 1)
    >>> ops.convert_to_numpy(window)[0, 0].tolist()
    [True, True, True, False]
    """
    distance = ops.expand_dims(positions, 1) - ops.expand_dims(center, 2)
    return ops.abs(distance) <= float(window_size)


def gaussian_window(center: Tensor, positions: Tensor, window_size: int) -> Tensor:
    """Computes the factors of local-p attention, which decrease with the distance from the center.

        factor[t, s] = exp(-(positions[s] - center[t])^2 / (2 sigma^2)),  sigma = window_size / 2

    Args:
        center: Aligned positions of the queries, float32 `(B, T)`.
        positions: Positions of the keys, float32 `(B, S)`, from `key_positions`.
        window_size: Half-width of the window.

    Returns:
        The factors, float32 `(B, T, S)`.

    Example:

    >>> factor = gaussian_window(ops.array([[1.0]]), ops.array([[1.0, 2.0]]), 2)
    >>> [round(float(f), 4) for f in factor[0, 0]]
    [1.0, 0.6065]
    """
    distance = ops.expand_dims(positions, 1) - ops.expand_dims(center, 2)
    return ops.exp(-ops.square(distance) / (2.0 * (window_size / 2.0) ** 2))
