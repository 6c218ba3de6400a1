"""New tasks that continue from a saved task of the same class, with all weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_attn.hints import DType
from keras_attn.models import ENCODERS
from keras_attn.models.tensors import LoadReport, model_tensors
from keras_attn.settings import Choice, Settings
from keras_attn.tasks.base.backbones import Backbone, BackboneData, BackboneStart
from keras_attn.tasks.base.saved import Saved
from keras_attn.tasks.base.task_file import config_of, read_task, task_of

_BROUGHT = (
    "tokenizer", "vocabulary_size", "vocabulary_file", "lowercase", "split_digits", "max_answers",
)  # fmt: skip
"""Settings that the saved task determines: its vocabulary and its answers."""


def continues(task: type[Saved], data: Settings) -> bool:
    """Whether the `backbone` in the data settings is a saved task of the same class."""
    place = getattr(data, "backbone", "")
    if not task.continues or not place:
        return False
    if not isinstance(data, BackboneData):
        return bool(task_of(place, task.__name__))
    if not data.backbone_weights:
        return False
    return Path(place).expanduser().is_file() and task_of(place) == task.__name__


def chosen_model(task: type[Saved], data: BackboneStart, chosen: Choice) -> Choice:
    """Returns the settings of the saved model, with dropout rates and pooling from `chosen`."""
    return _chosen(task, config_of(data.backbone, task.__name__), chosen)


def _chosen(task: type[Saved], config: Mapping[str, Any], chosen: Choice) -> Choice:
    settings = dict(config["model"])
    name = settings.pop(task.kinds.key)
    return Backbone(name, settings, None, {}).declared(task.kinds, chosen)


def with_brought(task: type[Saved], data: Any) -> Any:
    """Returns data settings, in which a saved task sets the vocabulary and number of answers, and
    `max_length` if it is not given."""
    if not continues(task, data):
        return data
    config = config_of(data.backbone, task.__name__)
    saved = config["data"]
    own = {field.name: field.default for field in dataclasses.fields(data)}
    if "max_length" in own and data.max_length == own["max_length"]:
        data = dataclasses.replace(data, max_length=saved["max_length"])
    elif "max_length" in own:
        _check_length(task, data, config["model"])
    if isinstance(data, BackboneData):
        return data  # it refuses the other settings beside a backbone
    brought = {name: saved[name] for name in _BROUGHT if name in own and name in saved}
    for name, value in brought.items():
        given = getattr(data, name)
        if given not in (own[name], value):
            raise ValueError(
                f"`{name}` is {value!r} in the backbone, which has its own vocabulary. "
                f"Received: {given!r}. Leave it out."
            )
    return dataclasses.replace(data, **brought)


def _check_length(task: type[Saved], data: Any, model: Mapping[str, Any]) -> None:
    """Raises a ValueError if the saved model has fewer positions than `max_length`."""
    positions = model.get("sequence_length")
    limited = getattr(task.kinds[model[task.kinds.key]], "has_positions", True)
    if positions and limited and data.max_length > positions:
        raise ValueError(
            f"Expected a `max_length` of at most {positions}, the number of positions of the "
            f"backbone {data.backbone}. Received: {data.max_length}. Use max_length={positions} "
            "(--max-length), or leave it out."
        )


def lacking(names: Iterable[str], known: Iterable[str]) -> str:
    """Returns which names are not among the known labels, for `unlike`; empty if all are."""
    known = set(known)
    missing = [repr(name) for name in names if name not in known]
    more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
    return f"labels that it lacks: {', '.join(missing[:5])}{more}" if missing else ""


def check_new_head(task: type[Saved], data: BackboneStart, saved: Any, unlike: str) -> None:
    """Raises a ValueError if a saved task without an encoder cannot continue with the examples.

    A task with an encoder gets a new head instead.
    """
    if isinstance(data, BackboneData) and task.kinds.name_of(saved.config) in ENCODERS:
        return
    raise ValueError(
        f"Expected {task.examples_are} like those of the backbone: {saved!r}. Received: {unlike}. "
        f"Use such {task.examples_are}, or train a new model without `backbone`."
    )


def continued(
    task: type[Saved], data: BackboneStart, model: object, dtype: DType, parts: Mapping[str, Any]
) -> Any:
    """Creates a task from a saved one, with other data settings."""
    for name, kind in task.parts.items():
        if parts.get(name) not in (None, {}, kind()):
            raise ValueError(
                f"`{name}` comes from the backbone. Received: {parts[name]!r}. Leave it out."
            )
    saved = read_task(data.backbone, task.__name__)
    choice = _chosen(task, saved.config, task.kinds.made({} if model is None else model))
    policy = saved.config["dtype"] if dtype is None else dtype

    def make(config: dict[str, Any]) -> Any:
        changed = {"model": {**config["model"], **choice.values}, "data": data.to_dict()}
        return task.from_config({**config, **changed}, policy)

    made = saved.make(make)
    saved.load_into(made.whole)
    made.own_use, made.pretrained, made._created = saved.config.get("use", {}), True, True
    made.loaded = LoadReport([*model_tensors(made.whole)], [], [])
    made._parts = {name: part for name, part in parts.items() if isinstance(part, Settings)}
    return made
