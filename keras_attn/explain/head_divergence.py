"""The divergence between attention heads."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_attn.explain.attention_rows import Maps, attention_of_texts, row_entropy


def head_divergence(
    maps: Maps, padding_mask: npt.ArrayLike | None = None, special_mask: npt.ArrayLike | None = None
) -> np.ndarray:
    """Measures how much the attention of the heads of an encoder differs.

    The measure is the Jensen-Shannon divergence, as in Clark et al. (2019). For the attention
    weights P and Q of two heads from the same word (a token that is neither padding nor special):

        M  = (P + Q) / 2
        JS = (KL(P || M) + KL(Q || M)) / 2 = H(M) - (H(P) + H(Q)) / 2

    KL is the Kullback-Leibler divergence, and H the entropy. The divergence is measured in nats and
    averaged over the words of all texts. It is 0 if two heads have the same attention weights, and
    log 2 = 0.693 if they never attend to the same token. The square root of the divergence is a
    distance. The computing time grows with the square of the number of heads: 72 heads and 2,900
    words in short sentences take about a second on one core.

    References:
        - [Clark et al., 2019](https://arxiv.org/abs/1906.04341): What Does BERT Look At?

    Args:
        maps: Result of `attention_maps(model, inputs)`, of which only self-attention is used, or an
            array `(B, N, T, T)` for each layer, with B texts, N heads and T tokens.
        padding_mask: `(B, T)`, True for tokens. If None, there is no padding.
        special_mask: `(B, T)`, True for special tokens such as `[CLS]` and `[SEP]`. If None, there
            are none.

    Returns:
        A symmetric matrix, float64 `(layers * heads, layers * heads)`, with a zero diagonal. Row
        `layer * heads + head` belongs to head `head` of layer `layer`.

    Raises:
        ValueError: If there is no self-attention, the shapes of maps and masks do not match, a
            weight is negative or not finite, a token attends to padding, or there is no word.

    Example:

    >>> same, left = np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> head_divergence([np.stack([same, same, left])[None]]).round(3).tolist()
    [[0.0, 0.0, 0.347], [0.0, 0.0, 0.347], [0.347, 0.347, 0.0]]
    """
    total: Any = 0
    tokens = 0
    for text in attention_of_texts(maps, padding_mask, special_mask):
        if text.words.any():
            heads = np.concatenate([layer[:, text.words] for layer in text.layers])
            total = total + _divergences(heads)
            tokens += int(text.words.sum())
    if not tokens:
        raise ValueError(
            "Expected at least one token that is neither padding nor special. Received: none."
        )
    return np.clip(total / tokens, 0, np.log(2))


def _divergences(heads: np.ndarray) -> np.ndarray:
    """The divergences of all pairs of heads `(H, words, n)`, summed over the words."""
    entropy = row_entropy(heads).sum(axis=1)
    result = np.zeros((len(heads), len(heads)))
    for i in range(len(heads) - 1):
        mixed = row_entropy((heads[i] + heads[i + 1 :]) / 2).sum(axis=1)
        result[i, i + 1 :] = mixed - (entropy[i] + entropy[i + 1 :]) / 2
    return result + result.T
