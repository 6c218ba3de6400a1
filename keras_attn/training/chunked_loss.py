"""Cross-entropy over large vocabularies, computed in chunks of tokens."""

from __future__ import annotations

import keras
from keras import ops

from keras_attn.hints import Size, Tensor
from keras_attn.ops.derivatives import custom_gradient, first_derivatives_only
from keras_attn.ops.loops import repeated

SECOND_DERIVATIVE = (
    "`linear_cross_entropy` has first derivatives only on this backend. Take `MaskedCrossEntropy` "
    "of the logits, or JAX."
)


def linear_cross_entropy(
    hidden: Tensor,
    kernel: Tensor,
    labels: Tensor,
    weights: Tensor,
    label_smoothing: float = 0.0,
    bias: Tensor | None = None,
    chunk_size: int | None = None,
    gradient: bool = True,
) -> Tensor:
    """Computes the weighted mean cross-entropy of a linear layer's logits in chunks.

        z_t  = kernel h_t + bias                                              (V,)
        l_t  = logsumexp(z_t) - (1 - e) z_t[y_t] - e mean_k z_t[k]
        loss = sum_t w_t l_t / sum_t w_t                                      0 if all w_t are 0

    t is a token, k an entry of the vocabulary, and e is `label_smoothing`.

    The value and the gradient equal the value and the gradient of `MaskedCrossEntropy` for the
    logits `hidden kernel^T + bias`. Logits are computed for at most `chunk_size` tokens at a time,
    and their part of the gradient is immediately computed from the same logits (as Hsu et al.,
    2024, https://arxiv.org/abs/2410.10989, do on GPUs). Memory is needed for `chunk_size V` logits
    instead of several times `N V` logits, and nothing is computed twice. Second derivatives are
    available on JAX; on other backends, they raise an error.

    Args:
        hidden: Input h of the last layer, `(N, D)`; its dtype is the dtype of the products.
        kernel: Kernel of the last layer, `(V, D)`.
        labels: Labels y, integers `(N,)`. A label that is not in 0 ... V - 1 and has a weight other
            than 0 makes the loss NaN.
        weights: Weights w of the tokens, floats `(N,)`. They get no gradient.
        label_smoothing: Smoothing e, at least 0 and below 1.
        bias: Bias of the last layer, `(V,)`, or None.
        chunk_size: Maximum number of tokens at a time. If None, as many as have about 4 million
            logits, but at least 128.
        gradient: Whether the gradient is computed together with the loss, which triples the work.

    Returns:
        The loss, a float32 scalar.

    Raises:
        ValueError: If `chunk_size` is not an integer of at least 1.

    Example:

    >>> loss = linear_cross_entropy(
    ...     ops.zeros((3, 2)), ops.ones((4, 2)), ops.array([1, 2, 3]), ops.ones((3,)), chunk_size=2
    ... )
    >>> round(float(loss), 4)  # ln 4
    1.3863
    """
    V, D = kernel.shape
    chunk = max(128, 2**22 // V) if chunk_size is None else chunk_size
    if not isinstance(chunk, int) or isinstance(chunk, bool) or chunk < 1:
        raise ValueError(
            f"`chunk_size` must be an integer of at least 1. Received: {chunk_size!r}."
        )
    labels, weights = ops.cast(labels, "int32"), ops.cast(weights, "float32")
    known = ops.logical_and(labels >= 0, labels < V)
    counts = ops.not_equal(weights, 0)
    wrong = ops.any(ops.logical_and(counts, ops.logical_not(known)))
    labels = ops.where(known, labels, 0)
    weights = ops.divide_no_nan(weights, ops.sum(weights))
    # The chunks needed, all of one size, so that there is little padding.
    size = ops.shape(hidden)[0]
    greater = max if isinstance(size, int) else ops.maximum
    number = greater((size + chunk - 1) // chunk, 1)
    chunk = greater((size + number - 1) // number, 1)
    free = number * chunk - size
    labels = ops.reshape(ops.pad(labels, [[0, free]]), (number, chunk))
    weights = ops.reshape(ops.pad(weights, [[0, free]]), (number, chunk))
    largest = ops.max(ops.abs(weights))
    largest = ops.where(largest > 0, largest, 1.0)

    def parts(i: Size, h: Tensor, k: Tensor, b: Tensor, *of_tokens: Tensor) -> tuple[Tensor, ...]:
        """The hidden vectors, labels, weights, float32 logits and their logsumexp of chunk i."""
        rows, y, w = (ops.take(t, i, axis=0) for t in (h, *of_tokens))
        z = ops.cast(ops.matmul(rows, ops.transpose(k)), "float32") + b
        return rows, ops.expand_dims(y, 1), w, z, ops.logsumexp(z, axis=-1)

    def loss_of(y: Tensor, w: Tensor, z: Tensor, total: Tensor) -> Tensor:
        loss = total - (1.0 - label_smoothing) * ops.take_along_axis(z, y, axis=1)[:, 0]
        if label_smoothing:
            loss = loss - label_smoothing * ops.mean(z, axis=-1)
        return ops.sum(ops.where(ops.not_equal(w, 0), loss, 0.0) * w)

    def prepared(h: Tensor, k: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = ops.reshape(ops.pad(h, [[0, free], [0, 0]]), (number, chunk, D))
        return h, ops.cast(k, h.dtype), ops.cast(b, "float32")

    def without_gradient(h: Tensor, k: Tensor, b: Tensor) -> Tensor:
        h, k, b = prepared(h, k, b)

        def turn(i: Size, carry: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return (carry[0] + loss_of(*parts(i, h, k, b, labels, weights)[1:]),)

        return repeated(0, number, turn, (ops.zeros(()),))[0]

    def with_gradient(
        h: Tensor, k: Tensor, b: Tensor, labels: Tensor, weights: Tensor, largest: Tensor
    ):
        inputs, dtypes = prepared(h, k, b), (h.dtype, k.dtype, b.dtype)
        classes = ops.arange(V, dtype="int32")

        def turn(i: Size, carry: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            loss, of_hidden, of_kernel, of_bias = carry
            rows, y, w, z, total = parts(i, *inputs, labels, weights)
            p = ops.exp(z - ops.expand_dims(total, 1))
            chosen = ops.where(ops.equal(classes, y), 1.0 - label_smoothing, 0.0)
            # Shares of the largest weight: a weight itself, one of all tokens' sum, would leave
            # float16 with zeros, before a scaled loss can help.
            g = (p - chosen - label_smoothing / V) * ops.expand_dims(w / largest, 1)
            narrow = ops.cast(g, rows.dtype)
            of_rows = ops.expand_dims(ops.matmul(narrow, inputs[1]), 0)
            of_rows = ops.cast(of_rows, "float32")
            zero = ops.zeros_like(i)
            return (
                loss + loss_of(y, w, z, total),
                ops.slice_update(of_hidden, ops.stack([i, zero, zero]), of_rows),
                of_kernel + ops.cast(ops.matmul(ops.transpose(narrow), rows), "float32"),
                of_bias + ops.sum(g, axis=0),
            )

        of_hidden = ops.zeros_like(inputs[0], dtype="float32")
        start = (ops.zeros(()), of_hidden, ops.zeros((V, D)), ops.zeros((V,)))
        loss, *found = repeated(0, number, turn, start)
        found[0] = ops.reshape(found[0], (-1, D))[:size]

        def gradients(*args, upstream: Tensor | None = None):
            upstream = args[0] if upstream is None else upstream
            results = [
                ops.cast(g * (largest * upstream), dtype)
                for g, dtype in zip(found, dtypes, strict=True)
            ]
            if keras.backend.backend() == "jax":  # which has recorded how `found` was computed
                return tuple(results)
            return tuple(
                first_derivatives_only(x, h, k, b, error=SECOND_DERIVATIVE) for x in results
            )

        return loss, gradients

    bias = ops.zeros((V,)) if bias is None else bias
    constants = labels, weights, largest
    function = custom_gradient(with_gradient, *constants) if gradient else without_gradient
    loss = function(*map(ops.convert_to_tensor, (hidden, kernel, bias)))
    return ops.where(wrong, float("nan"), loss)
