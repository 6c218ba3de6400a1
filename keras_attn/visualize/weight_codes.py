"""Compression of attention weights for HTML pages."""

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

_SAMPLED = 1 << 21  # weights of a part from which the size of the page is estimated


class Precision(NamedTuple):
    """Rounding of weights to `round(levels * sqrt(w))`; weights below the least weight become 0."""

    levels: int
    least: float


PRECISIONS = [
    Precision(255, 0.0),
    Precision(255, 0.002),
    Precision(127, 0.005),
    Precision(63, 0.01),
    Precision(63, 0.02),
    Precision(31, 0.05),
    Precision(15, 0.1),
    Precision(15, 0.2),
    Precision(7, 0.3),
    Precision(3, 0.5),
]


def choose_precision(parts: Sequence[Sequence[np.ndarray]], most_bytes: float) -> Precision:
    """Returns the finest precision that meets the size limit, or the coarsest if none does."""
    for precision in PRECISIONS[:-1]:
        total = 0.0
        for layers in parts:
            size = sum(layer.size for layer in layers)
            step = max(1, size // _SAMPLED)
            heads = [head for layer in layers for head in layer][::step]
            share = size / sum(head.size for head in heads)
            # base64 writes 3 bytes as 4 characters.
            total += share * len(_compressed(heads, precision)) * 4 / 3
        if total <= most_bytes:
            return precision
    return PRECISIONS[-1]


def encode_weights(
    layers: Sequence[np.ndarray], precision: Precision = PRECISIONS[0]
) -> dict[str, Any]:
    """Encodes the weights of layers, each `(heads, T, S)`, as a dict for the script of the page."""
    most = max(1.0, *(float(layer.max(initial=0)) for layer in layers))
    data = _compressed((head / most for layer in layers for head in layer), precision)
    return {
        "heads": [len(layer) for layer in layers],
        "levels": precision.levels,
        "most": most,
        "weights": base64.b64encode(data).decode(),
    }


def _compressed(heads: Iterable[np.ndarray], precision: Precision) -> bytes:
    """Compresses heads column by column, because columns have longer runs of equal bytes."""

    def pieces() -> Iterator[bytes]:
        compressor = zlib.compressobj(6)
        for head in heads:
            kept = np.where(head >= precision.least, np.clip(head, 0, 1), 0)
            codes = np.rint(np.sqrt(kept.T) * precision.levels).astype("uint8")
            yield compressor.compress(codes.tobytes())
        yield compressor.flush()

    return b"".join(pieces())
