"""Configs of models as tasks are given them: an object, or a dict with the name of its kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_attn.models import (
    CAPTIONERS,
    ImageEncoder,
)


def kind_and_fields(
    config: Any, kinds: Mapping[str, tuple[type, Any]], default: str, key: str = "kind"
) -> tuple[type, dict[str, Any]]:
    """Returns the class of a config, and the fields that were given.

    Args:
        config: An object of one of the classes; a dict of the fields of one, with its name; None:
            nothing is given.
        kinds: The names, each with its class and whatever builds its model.
        default: The name where none is given.
        key: Where in the dict the name stands.

    Raises:
        ValueError: For anything else, an unknown name, and fields that the class does not have.

    Example:

    >>> given = {"kind": "transformer", "dim": 8}
    >>> kind, fields = kind_and_fields(given, CAPTIONERS, "soft-attention")
    >>> kind.__name__, fields
    ('TransformerCaptionerConfig', {'dim': 8})
    """
    for kind, _ in kinds.values():
        if isinstance(config, kind):
            return kind, config.to_dict()
    given = {} if config is None else config
    known = {
        name: [field.name for field in dataclasses.fields(kind)]
        for name, (kind, _) in kinds.items()
    }
    name = given.get(key, default) if isinstance(given, dict) else None
    own = known.get(name)
    unknown = [field for field in given if field not in (key, *own)] if own else []
    if not own or unknown:
        fields = "; ".join(f"{key}={name!r}: {fields}" for name, fields in known.items())
        raise ValueError(
            f"`config` must be one of {[kind.__name__ for kind, _ in kinds.values()]}, or a dict "
            f"of the fields of one of them: {fields}. Received: {config!r}"
            + (f", with {unknown}, no fields of {kinds[name][0].__name__}." if unknown else ".")
        )
    return kinds[name][0], {field: value for field, value in given.items() if field != key}


def captioner_config(config: Any, vocabulary_size: int, encoder: ImageEncoder) -> Any:
    """Makes the config of a captioner's decoder, for the regions of its encoder.

    Args:
        config: As `Captioner`.
        vocabulary_size: Of the tokenizer.
        encoder: Whose regions it reads.

    Raises:
        ValueError: As `kind_and_fields`; for settings out of range, and other sizes or another grid
            than these.

    Example:

    >>> encoder = patch_encoder(32, patch_size=8, num_layers=1, dim=16, intermediate_dim=16)
    >>> config = {"kind": "transformer", "region_positions": "learned"}
    >>> made = captioner_config(config, 300, encoder)
    >>> made.vocabulary_size, made.region_dim, made.grid
    (300, 16, (4, 4))
    """
    sizes = {"vocabulary_size": vocabulary_size, "region_dim": encoder.region_dim}
    kind, fields = kind_and_fields(config, CAPTIONERS, "soft-attention")
    if fields.get("region_positions") is not None:
        fields.setdefault("grid", encoder.grid)
    made = kind(**{**sizes, **fields})
    for name, size in sizes.items():
        if getattr(made, name) != size:
            raise ValueError(
                f"`{name}` of the decoder must be that of the tokenizer and of the encoder. "
                f"Expected: {size}. Received: {getattr(made, name)}."
            )
    if getattr(made, "grid", None) not in (None, encoder.grid):
        raise ValueError(
            "`grid` of the decoder must be the encoder's. Expected: "
            f"{encoder.grid}. Received: {made.grid}."
        )
    return made
