"""A task as a server uses it: its fields, rows of JSON, settings, predictions and explanations."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_attn.generation.noise import seeds_of
from keras_attn.serve.problems import RequestProblem
from keras_attn.settings import Option
from keras_attn.tasks import Explanation, Task, TextGenerator
from keras_attn.tasks.base.calls import options_for

_FIELDS = {
    "lines": ("text",),
    "pairs": ("text", "text"),
    "only_pairs": ("text", "text"),
    "pictures": ("picture",),
    "picture_pairs": ("picture", "text"),
    "turns": ("turns",),
}
"""Kinds of the fields of an input, by what a task reads."""
_MOST = {"beams": 16, "seed": 2**31 - 1}
_MOST_OF_OTHERS = 1000  # a setting that decides how much is computed
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mNoaGgAAAMEAYF1LgG8AAAAAElFTkSuQmCC"
)
"""A PNG of one grey pixel."""
_NOT_OF_REQUESTS = ("batch_size", "num_return_sequences")


class Field(NamedTuple):
    """A field of a model's input, such as a text or an image.

    Example:

    >>> Field("text", "text").optional
    False
    """

    name: str
    kind: str
    """`"text"`, `"picture"` (the bytes of a file, as base64) or `"turns"` (strings)."""
    optional: bool = False


class SeededRow(NamedTuple):
    """A row with the seed of its sample, which is drawn alike in any batch.

    Example:

    >>> SeededRow("to be", 7).seed
    7
    """

    row: object
    seed: int


class ServedModel:
    """A task that answers requests in TensorFlow Serving's JSON.

    The inputs and the signature of the task determine the fields, and the settings of its `predict`
    determine the settings of requests. A prediction has the values that the command `predict` adds
    to tables as columns.

    Args:
        name: Name of the model in requests.
        task: The task.

    Example:

    >>> from keras_attn.text import WordTokenizer
    >>> from keras_attn.tasks import TextClassifier
    >>> classifier = TextClassifier(WordTokenizer.train(["so good", "so good"]), ["no", "yes"])
    >>> model = ServedModel("films", classifier)
    >>> model.fields
    [Field(name='text', kind='text', optional=False)]
    >>> model.rows({"instances": ["so good"]})
    (['so good'], True)
    """

    def __init__(self, name: str, task: Task):
        self.name = name
        self.task = task
        kinds = _FIELDS.get(task.reads, ("text",))
        signature = task.signatures(task.used({}))["serving_default"]
        names = [*signature.inputs[:1], "second"] if task.reads == "pairs" else signature.inputs
        self.fields = [
            Field(field, kind, number == 1 and task.reads == "pairs")
            for number, (field, kind) in enumerate(zip(names, kinds, strict=False))
        ]
        self.explains = "explain" in task.steps
        self.settings = _options(task, "predict")
        self.explanation_settings = _options(task, "explain") if self.explains else {}

    def described(self) -> dict[str, object]:
        """Returns a JSON-compatible dict that describes the model to pages and clients.

        The keys are `task`, `about`, `fields`, `settings`, `explains` and `explanation_settings`.
        """
        return {
            "task": self.task.name,
            "about": self.task.about,
            "fields": [field._asdict() for field in self.fields],
            "settings": self._described(self.settings),
            "explains": self.explains,
            "explanation_settings": self._described(self.explanation_settings),
        }

    def _described(self, options: Mapping[str, Option]) -> list[dict[str, object]]:
        own = dict(self.task.own_use)
        return [
            {
                "name": name,
                "kind": "choice" if option.choices else option.kind.__name__,
                # A seed is drawn for each request.
                "default": plain(own.get(name, None if name == "seed" else option.default)),
                "choices": list(option.choices or ()),
                "help": option.help,
            }
            for name, option in options.items()
        ]

    # Requests

    def rows(self, body: Mapping[str, object]) -> tuple[list[object], bool]:
        """Reads the rows of a request.

        Args:
            body: A JSON object with `instances`, a list of rows; or with `inputs`, a list for each
                field, keyed by field.

        Returns:
            The rows in the form that `predict` of the task accepts, and whether they were given as
            `instances`.

        Raises:
            RequestProblem: If the request has another form.
        """
        given = [name for name in ("instances", "inputs") if name in body]
        if len(given) != 1:
            raise bad(
                "`instances` (rows) or `inputs` (columns)", ", ".join(body) or "an empty object"
            )
        if given == ["instances"]:
            rows = body["instances"]
            if not isinstance(rows, list) or not rows:
                raise bad("a list of rows as `instances`", shown(rows))
            return [self._row(row, number) for number, row in enumerate(rows)], True
        columns = body["inputs"]
        if not isinstance(columns, dict):
            columns = {self.fields[0].name: columns}
        lists = [value if isinstance(value, list) else [value] for value in columns.values()]
        if not lists or not lists[0] or len({len(values) for values in lists}) > 1:
            raise bad("columns of equal length as `inputs`", shown([len(x) for x in lists]))
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]
        return [self._row(row, number) for number, row in enumerate(rows)], False

    def _row(self, row: object, number: int) -> object:
        named = row if isinstance(row, dict) and "b64" not in row else {self.fields[0].name: row}
        known = [field.name for field in self.fields]
        needed = [field.name for field in self.fields if not field.optional]
        if not set(needed) <= set(named) <= set(known):
            raise bad(f"{', '.join(known)} in row {number}", shown(row))
        values = tuple(
            _value(field, named[field.name], number)
            for field in self.fields
            if named.get(field.name) is not None or not field.optional
        )
        return values if len(values) > 1 else values[0]

    def parameters(
        self, body: Mapping[str, object], options: Mapping[str, Option]
    ) -> dict[str, object]:
        """Checks and returns the `parameters` of a request, a dict of settings.

        Args:
            body: The request.
            options: The settings that it may have: `settings` or `explanation_settings`.

        Raises:
            RequestProblem: If a setting is unknown or out of range.
        """
        given = body.get("parameters", {})
        if not isinstance(given, dict):
            raise bad("an object as `parameters`", shown(given))
        for name, value in given.items():
            if name not in options:
                raise bad(f"`parameters` among {', '.join(options) or 'none'}", shown(name))
            most = _MOST.get(name, _MOST_OF_OTHERS)
            if isinstance(value, list | dict) or (isinstance(value, int) and value > most):
                raise bad(f"a `{name}` of at most {most}", shown(value))
        try:
            self.task.used(given)
        except (TypeError, ValueError) as error:
            raise RequestProblem(400, str(error)) from error
        return given

    def seeded(
        self, rows: list[object], settings: Mapping[str, object]
    ) -> tuple[list[object], dict[str, object]]:
        """Gives the samples of a request their seeds, independent of other requests.

        Args:
            rows: The rows of the request.
            settings: Its settings. Without a `seed`, one is drawn, unless the task has its own.

        Returns:
            The rows and settings for `predict`. If the seeds of a task depend on the positions of
            rows, the rows are of class `SeededRow`.
        """
        use = self.task.used(settings)
        search = getattr(use, "search", "beam" if getattr(use, "beams", None) else "sample")
        if "seed" not in self.settings or search != "sample":
            return rows, dict(settings)
        own = {"seed": self.task.own_use.get("seed", secrets.randbelow(2**31)), **settings}
        if not isinstance(self.task, TextGenerator):
            return rows, own
        seeds = seeds_of(own.pop("seed"), len(rows)).tolist()
        return [SeededRow(row, seed) for row, seed in zip(rows, seeds, strict=True)], own

    def small_row(self) -> object:
        """Returns a small row in the form that `predict` of the task accepts."""
        values = {"text": "a", "turns": ["a"], "picture": {"b64": _PIXEL}}
        row = {field.name: values[field.kind] for field in self.fields if not field.optional}
        return self._row(row, 0)

    # Answers

    def predict(self, rows: list[object], settings: dict[str, object]) -> list[object]:
        """Returns the prediction for each row as a JSON value, or as a dict of named values."""
        if seeded := [row for row in rows if isinstance(row, SeededRow)]:
            settings = {**settings, "seed": [row.seed for row in seeded]}
            rows = [row.row for row in seeded]
        return [self._prediction(result) for result in self.task.predict(rows, **settings)]

    def _prediction(self, result: object) -> object:
        if isinstance(result, str | float):
            return plain(result)
        if self.task.predicts:
            return plain(self.task.cells(result))
        return plain(result if isinstance(result, dict) else json.loads(self.task.readable(result)))

    def explain(self, rows: list[object], settings: dict[str, object], title: str) -> object:
        """Returns a dict with `explanations`, a list for JSON, and `page`, an HTML page of them."""
        found = self.task.explain(rows, **settings)
        told = (
            [plain(dataclasses.asdict(x)) for x in found if isinstance(x, Explanation)]
            if isinstance(found, list)
            else []
        )
        return {"explanations": told, "page": self.task.page(found, title)}


def _options(task: Task, step: str) -> dict[str, Option]:
    """The settings of a step that a request may have: numbers and choices, keyed by name."""
    return {
        option.name: option
        for option in options_for(task.Use, step)
        if option.name not in _NOT_OF_REQUESTS
        and not option.path
        and (option.choices or option.kind in (int, float, bool))
    }


def bad(expected: str, received: str) -> RequestProblem:
    """Returns the `RequestProblem` of a malformed request, with HTTP status 400."""
    return RequestProblem(400, f"Expected {expected}. Received: {received}.")


def shown(value: object) -> str:
    """Returns the beginning of a JSON value for a message."""
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _value(field: Field, value: object, number: int) -> object:
    """A value of JSON as the task takes it. A picture is never a path."""
    where = f"`{field.name}` in row {number}"
    if field.kind == "picture":
        code = value.get("b64") if isinstance(value, dict) else None
        if not isinstance(code, str):
            raise bad(f'the bytes of an image, {{"b64": "..."}}, as {where}', shown(value))
        try:
            return base64.b64decode(code, validate=True)
        except (binascii.Error, ValueError) as error:
            raise bad(f"base64 as {where}", str(error)) from error
    if field.kind == "turns":
        turns = value if isinstance(value, list) else [value]
        if not turns:
            raise bad(f"a list of turns as {where}", "an empty list")
        return tuple(_text(turn, where) for turn in turns)
    return _text(value, where)


def _text(value: object, where: str) -> str:
    if isinstance(value, dict) and isinstance(value.get("b64"), str):  # as TensorFlow Serving does
        try:
            return base64.b64decode(value["b64"], validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError) as error:
            raise bad(f"base64 as {where}", str(error)) from error
    if not isinstance(value, str):
        raise bad(f"a string as {where}", shown(value))
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise bad(f"a valid Unicode string as {where}", "one with a lone surrogate")
    return value


def plain(value: object) -> object:
    """Converts a value to JSON: numbers that are not finite become null.

    Example:

    >>> plain({"p": np.array([0.5, np.nan])})
    {'p': [0.5, None]}
    """
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)
