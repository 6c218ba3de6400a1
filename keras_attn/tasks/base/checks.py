"""Checks of the arguments of tasks."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras

from keras_attn.inputs import listed
from keras_attn.records import TranslationPair

Pairs = Iterable[Sequence[str]]


def checked_pairs(pairs: Pairs) -> list[tuple[str, str]]:
    """Returns (source, target) pairs as tuples; a ValueError names the position of a wrong pair."""
    checked = []
    given = listed(pairs, "(source, target) pairs", 2, "keras_attn.records.read_pairs(path)")
    for i, pair in enumerate(given):
        sides: list[Any] = []
        if isinstance(pair, Iterable) and not isinstance(pair, str | bytes | Mapping):
            sides = list(pair[:2] if isinstance(pair, TranslationPair) else pair)
        if len(sides) != 2 or not all(isinstance(side, str) for side in sides):
            raise ValueError(
                "Expected (source, target) pairs of strings. Received: "
                f"{pair!r:.100} at position {i}."
            )
        checked.append((sides[0], sides[1]))
    if not checked:
        raise ValueError("Expected at least one (source, target) pair. Received: none.")
    return checked


def check_padding(tokenizer: Any) -> None:
    """Refuses a tokenizer whose padding id is not 0, the padding id of the models."""
    if tokenizer.pad_id != 0:
        raise ValueError(
            "Expected a tokenizer with padding id 0, the only padding id that this model "
            f"supports. Received: `pad_id`={tokenizer.pad_id}. Use another tokenizer, or a model "
            "that was pretrained with this one."
        )


def checked_temperature(temperature: Any) -> float:
    """Returns a temperature, or raises a ValueError if it is not a positive number."""
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if not is_number or not math.isfinite(temperature) or temperature <= 0:
        raise ValueError(
            f"`temperature` must be a finite number above 0. Received: {temperature!r}."
        )
    return float(temperature)


def check_formats(
    settings: Any, of_formats: Mapping[tuple[str, ...], tuple[str, ...]], found: set[str], what: str
) -> None:
    """Refuses settings of a file format if no file has this format."""
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    for names, formats in of_formats.items():
        given = [name for name in names if getattr(settings, name) != defaults[name]]
        if given and not found & set(formats):
            raise ValueError(
                f"{' and '.join(f'`{name}`' for name in given)} can only be used with the "
                f"format {' or '.join(map(repr, formats))}. Received: {what} of format "
                f"{' and '.join(map(repr, sorted(found)))}."
            )


def is_count(value: Any, least: int = 1) -> bool:
    """Returns whether a value is an integer of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def check_count(name: str, value: Any) -> None:
    """Raises a ValueError if a value is not a positive integer."""
    if not is_count(value):
        raise ValueError(f"`{name}` must be a positive integer. Received: {value!r}.")


OF_BATCHES = ("num_examples", "padded_share", "seed", "set_epoch")
"""The attributes that training batches need in addition to `len` and `[i]`."""


def check_batches(batches: Any, task: Any) -> None:
    """Refuses batches that lack attributes needed for training."""
    missing = [name for name in OF_BATCHES if not hasattr(batches, name)]
    if missing or not isinstance(batches, keras.utils.PyDataset):
        what = f", without {', '.join(map(repr, missing))}" if missing else ""
        raise TypeError(
            f"`batches` of {type(task).__name__} must return a `keras.utils.PyDataset`, such as "
            f"`keras_attn.batches.TextBatches`, with {', '.join(map(repr, OF_BATCHES))}. Received: "
            f"{type(batches).__name__}{what}. See `Task.batches`."
        )
