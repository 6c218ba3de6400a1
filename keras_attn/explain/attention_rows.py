"""The self-attention of each text of a batch, without padding."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import keras
import numpy as np
import numpy.typing as npt

from keras_attn.layers.collect import AttentionMaps
from keras_attn.ops.masks import check_padding_mask

Maps: TypeAlias = AttentionMaps | Sequence[npt.ArrayLike]
"""The result of `attention_maps`, or an array `(B, N, T, T)` for each layer."""

_MOST_ON_PADDING = 1e-3


class TextAttention(NamedTuple):
    """The self-attention of one text of n tokens, including special tokens."""

    layers: list[np.ndarray]
    """Weights of each layer, float64 `(N, n, n)`; each row sums to 1 or is zero."""
    special: np.ndarray
    """Boolean `(n,)`, True for special tokens."""

    @property
    def words(self) -> np.ndarray:
        """Boolean `(n,)`, True for all tokens that are not special tokens."""
        return ~self.special


def attention_of_texts(
    maps: Maps, padding_mask: npt.ArrayLike | None = None, special_mask: npt.ArrayLike | None = None
) -> Iterator[TextAttention]:
    """Yields a `TextAttention` without padding for each text of a batch."""
    given = maps.select("self") if isinstance(maps, AttentionMaps) else list(maps)
    layers = [np.asarray(layer) for layer in given]
    if not layers:
        raise ValueError("Expected self-attention weights of at least one layer. Received: none.")
    shape = layers[0].shape
    for i, layer in enumerate(layers):
        if layer.shape != shape or layer.ndim != 4 or shape[2] != shape[3] or 0 in shape:
            raise ValueError(
                "Expected self-attention weights of the same shape (batch, heads, T, T) in "
                f"all layers. Received: shape {layer.shape} in layer {i}, and {shape} in "
                "layer 0."
            )
    batch, length = shape[0], shape[2]
    real = np.ones((batch, length), bool)
    if padding_mask is not None:
        real = _mask(padding_mask, batch, length, "padding_mask")
    special = np.zeros((batch, length), bool)
    if special_mask is not None:
        special = _mask(special_mask, batch, length, "special_mask")
    for row in range(batch):
        places = np.flatnonzero(real[row])
        kept = [_without_padding(layer[row], places) for layer in layers]
        yield TextAttention(kept, special[row, places])


def _mask(mask: npt.ArrayLike, batch: int, length: int, name: str) -> np.ndarray:
    checked = check_padding_mask(np.asarray(mask), batch, length, name)
    return keras.ops.convert_to_numpy(checked).astype(bool)


def _without_padding(weights: np.ndarray, places: np.ndarray) -> np.ndarray:
    rows = weights[:, places].astype("float64")
    kept = rows[:, :, places]
    total = rows.sum(axis=2, keepdims=True)
    lost = (total[..., 0] - kept.sum(axis=2)).max(initial=0)
    if not np.isfinite(total).all() or (rows < 0).any() or lost > _MOST_ON_PADDING:
        raise ValueError(
            "Expected finite weights of 0 or more, and no weight on padding. Received: "
            f"weights from {rows.min()} to {rows.max()}, up to {lost:.3f} of a token's "
            "weight on padding. Pass the padding mask that the model was called with."
        )
    total = kept.sum(axis=2, keepdims=True)
    return kept / np.where(total > 0, total, 1)


def row_entropy(weights: np.ndarray) -> np.ndarray:
    """Computes the entropy of each row, `-sum_k w[k] log w[k]`, in nats."""
    # The smallest normal number instead of 0: its logarithm is finite, and 0 times it is 0.
    logarithm = np.log(np.maximum(weights, np.finfo(weights.dtype).tiny))
    return np.abs(np.einsum("...k,...k->...", weights, logarithm))
