"""A weight of our models, and the tensors of another library that make it up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attn.interop.tensor_files import StoredTensor


class Weight(NamedTuple):
    """A weight of our models, and the Hugging Face tensors from which it is concatenated."""

    ours: str
    """Name of the weight in our models."""
    theirs: tuple[str, ...]
    """Names of the Hugging Face tensors, without the prefix of the encoder or decoder."""
    shape: tuple[int, ...]
    """Shape of each Hugging Face tensor."""
    turned: bool = False
    """Whether the Hugging Face tensors are matrices `(outputs, inputs)`."""
    rows: tuple[int, ...] | None = None
    """Size of the first axis of each Hugging Face tensor, if the sizes differ."""
    added: float = 0.0
    """What ours have more than theirs: Gemma's norms multiply by 1 and their weight."""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the Hugging Face tensors."""
        rows = self.rows or (self.shape[0],) * len(self.theirs)
        return [(row, *self.shape[1:]) for row in rows]

    def join(self, tensors: Sequence[np.ndarray]) -> np.ndarray:
        """Returns our weight, joined from the Hugging Face tensors."""
        joined = np.concatenate(tensors) if len(tensors) > 1 else tensors[0]
        joined = joined + np.float32(self.added) if self.added else joined
        return np.ascontiguousarray(joined.T) if self.turned else joined

    def split(self, weight: np.ndarray) -> list[np.ndarray]:
        """Returns the Hugging Face tensors, split from our weight."""
        ends = list(accumulate(shape[0] for shape in self.shapes))
        weight = weight - np.float32(self.added) if self.added else weight
        return np.split(weight.T if self.turned else weight, ends[:-1])

    @property
    def our_shape(self) -> tuple[int, ...]:
        """The shape of the weight in our models."""
        whole = (sum(shape[0] for shape in self.shapes), *self.shape[1:])
        return whole[::-1] if self.turned else whole


def check_stored(weight: Weight, stored: Mapping[str, StoredTensor], folder: Path) -> None:
    """Raises an error if a tensor is missing or has a wrong shape or dtype."""
    for name, shape in zip(weight.theirs, weight.shapes, strict=True):
        if name not in stored:
            raise ValueError(
                f"{folder}: its config.json requires a tensor {name}, which is not in the file."
            )
        if stored[name].shape != shape:
            raise ValueError(
                f"{stored[name].file}: {stored[name].name} must have the shape {shape} according "
                f"to config.json. Received: {stored[name].shape}."
            )
        stored[name].check_dtype()


def read_weights(
    weights: Iterable[Weight], stored: Mapping[str, StoredTensor]
) -> dict[str, np.ndarray]:
    """Returns weights keyed by our names, read from tensors that `check_stored` has checked."""
    return {w.ours: w.join([stored[name].read() for name in w.theirs]) for w in weights}


def check_shapes(weights: Iterable[Weight], tensors: Mapping[str, np.ndarray], kind: str) -> None:
    """Raises a ValueError if the weights of a model do not match its settings."""
    expected = {weight.ours: weight.our_shape for weight in weights}
    received = {name: tuple(array.shape) for name, array in tensors.items()}
    if expected != received:
        names = sorted(n for n in {*expected, *received} if expected.get(n) != received.get(n))
        raise ValueError(
            f"Expected the weights of a {kind}. Received: a model that differs in "
            f"{names[:5]}. Merge adapters, and convert int8 weights to floats first."
        )
