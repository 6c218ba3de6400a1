"""What a function that continues texts is compiled for, and its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attn.generation import row_seeds
from keras_attn.generation.numbers import sampling_inputs
from keras_attn.text import BytePairTokenizer, CharacterTokenizer


class WritingKind(NamedTuple):
    """All that decides how texts are continued, except for numbers, which are inputs."""

    tokenizer: CharacterTokenizer | BytePairTokenizer
    ends: bool
    beams: int | None
    numbers: tuple[str, ...]
    """Names of the numbers: a filter that is off has none."""
    fixed: tuple[tuple[str, int], ...]
    """Further arguments of `sample`."""


def writing_kind(
    tokenizer: CharacterTokenizer | BytePairTokenizer,
    ends: bool,
    settings: Mapping[str, float | None],
    min_length: int,
    beams: int | None = None,
) -> tuple[WritingKind, dict[str, float]]:
    """Returns what a function is compiled for, and the numbers that are its inputs.

    Args:
        tokenizer: Tokenizer of the texts.
        ends: Whether the end token ends a text.
        settings: Arguments of `keras_attn.generation.sample`, which beams do not have.
        min_length: Number of new tokens before which a text does not end.
        beams: Width of a beam search, or None.

    Example:

    >>> tokenizer = CharacterTokenizer.train(["to be"])
    >>> kind, numbers = writing_kind(tokenizer, False, {"temperature": 0.8, "top_k": 5}, 0)
    >>> kind.numbers, numbers
    (('temperature', 'top_k'), {'temperature': 0.8, 'top_k': 5})
    """
    numbers, fixed = sampling_inputs({} if beams else settings)
    if min_length:
        numbers["min_length"] = min_length
    return WritingKind(tokenizer, ends, beams, tuple(numbers), tuple(fixed.items())), numbers


def seeds_of(seed: Any, count: int) -> np.ndarray:
    """Returns the seeds of so many texts, int32 `(count,)`.

    Args:
        seed: An integer, or one for each text.
        count: Number of texts.

    Raises:
        ValueError: If there is another number of seeds.

    Example:

    >>> seeds_of([4, 5], 2).tolist()
    [4, 5]
    """
    seeds = np.asarray(seed)
    if seeds.ndim and len(seeds) != count:
        raise ValueError(
            f"`seed` must be an integer, or one for each of the {count} prompts. "
            f"Received: {len(seeds)}."
        )
    if not count:
        return np.zeros(0, "int32")
    seed = seed if seeds.ndim == 0 else seeds
    return ops.convert_to_numpy(row_seeds(seed, ops.arange(count, dtype="int32")))
