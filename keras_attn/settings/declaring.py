"""Declared settings: keyword arguments, command options, TOML lines and JSON fields."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

from keras_attn.settings.run_defaults import RunDefault

S = TypeVar("S")


def setting(
    default: object,
    help: str,
    *,
    kind: type | None = None,
    choices: Sequence[object] | None = None,
    at_least: float | None = None,
    below: float | None = None,
    above: float | None = None,
    steps: Sequence[str] = (),
    required: bool = False,
    shapes_result: bool = True,
    check: Callable[[Any], object] | None = None,
    path: str = "",
) -> Any:
    """Declares a field of a settings dataclass.

    Args:
        default: The default value. If it is a `RunDefault`, the default is None until training
            begins; see `Settings.decided`.
        help: Help text for the command, TOML files and the documentation.
        kind: Expected type. It must be given if `default` is None; otherwise, it is the type of the
            default value by default. If `default` is None or a `RunDefault`, None is also allowed.
            A setting of type `tuple` is a list in files and a repeatable option of the command; a
            single string stands for a tuple of one string. A setting of type `object` accepts any
            type, and may be a table; the command line takes an inline TOML table, such as
            `{good = 2.0}`.
        choices: The allowed values.
        at_least: Smallest allowed value.
        below: Upper limit; values must be smaller.
        above: Lower limit; values must be greater.
        steps: Steps of the command that have the option, such as `"fit"`. If empty, the steps of
            the class apply; see `Settings.for_steps`.
        required: Whether the option is required in the command.
        shapes_result: Whether the value affects the trained model. If False, an interrupted run can
            be resumed with another value.
        check: Function that raises a ValueError for a wrong value. It is called after all other
            checks, and not for None.
        path: Kind of path, if the value is a path: `"examples"` (a file that a reader decodes, a
            folder, or a pattern of files), `"file"`, `"folder"`, or `"model"`. The command checks
            that the path exists before it imports Keras.

    Returns:
        A dataclass field.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading(Settings):
    ...     speed: int = setting(3, "pages an hour", at_least=1)
    ...     pages: int | None = setting(None, "pages to read", kind=int)
    >>> Reading().speed, Reading(pages=7).pages
    (3, 7)
    """
    metadata = {
        "help": help,
        "kind": kind or type(default.value if isinstance(default, RunDefault) else default),
        "choices": choices,
        "at_least": at_least,
        "below": below,
        "above": above,
        "steps": tuple(steps),
        "required": required,
        "shapes_result": shapes_result,
        "check": check,
        "path": path,
    }
    return _field(default, metadata)


def _field(default: object, metadata: Mapping[str, object]) -> Any:
    """A dataclass field with a default, which may be a `RunDefault`."""
    later = default if isinstance(default, RunDefault) else None
    default = None if later is not None else default
    more = {"optional": default is None, "run_default": later}
    return dataclasses.field(default=default, metadata={**metadata, **more})


def size(
    help: str,
    default: object = dataclasses.MISSING,
    kind: type = int,
    optional: bool = False,
    at_least: float | None = 1,
    check: Callable[[Any], object] | None = None,
) -> Any:
    """Declares a field of a settings dataclass that is computed from data, such as a vocabulary
    size, and that users do not set.

    Args:
        help: Description of the size.
        default: The default value; without a default, the field is required.
        kind: Type of the size.
        optional: Whether None is allowed; always the case if the default is None.
        at_least: Smallest allowed value if `kind` is int; None for no limit.
        check: Function that raises a ValueError for a wrong value, as in `setting`.

    Returns:
        A dataclass field.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Counting(Settings):
    ...     vocabulary_size: int = size("number of tokens")
    ...     dim: int = setting(8, "width")
    >>> Counting(50).dim, [field.name for field in declared_fields(Counting)]
    (8, ['dim'])
    """
    least = at_least if kind is int else None
    metadata = setting(None, help, kind=kind, at_least=least, check=check).metadata
    optional = optional or default is None
    return dataclasses.field(
        default=default, metadata={**metadata, "optional": optional, "size": True}
    )


def declared_fields(kind: type) -> list[dataclasses.Field]:
    """Returns the fields of a settings dataclass, except those declared by `size`.

    Args:
        kind: The dataclass, a subclass of `Settings`.

    Example:

    >>> [field.name for field in declared_fields(TextGenerationTraining)][:2]
    ['epochs', 'learning_rate']
    """
    return [field for field in dataclasses.fields(kind) if not field.metadata.get("size")]


class Option(NamedTuple):
    """The declaration of a setting, for the command and TOML files. `setting` describes the fields.

    Example:

    >>> Option("dim", int, 8, "width of the model", None, False, ()).name
    'dim'
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: Sequence[Any] | None
    required: bool
    steps: tuple[str, ...]
    path: str = ""


class Entry(NamedTuple):
    """The name, value and help text of a setting, as written to a TOML file.

    Example:

    >>> Entry("dim", 8, "width of the model").value
    8
    """

    name: str
    value: Any
    help: str


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base class of settings dataclasses, which check their values when they are created.

    The fields of a subclass are declared with `setting` and `size`. An integer becomes a float, a
    list or a string a tuple, and a path a string where this type is expected.

    Raises:
        TypeError: If a setting is unknown, or a value has the wrong type.
        ValueError: If a value is out of range or not among the `choices`, a float is not finite, or
            the `check` of a setting refuses its value.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading(Settings):
    ...     speed: int = setting(3, "pages an hour", at_least=1)
    >>> Reading(speed=0)
    Traceback (most recent call last):
        ...
    ValueError: `speed` must be at least 1. Received: 0.
    """

    for_steps: ClassVar[tuple[str, ...]] = ()
    """Steps of the command that have the settings declared without `steps`. If empty, all steps
    that take this section have them."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.metadata["kind"] is float:
                object.__setattr__(self, field.name, as_float(field.name, value))
            if field.metadata["kind"] is object:
                object.__setattr__(self, field.name, as_table(field.name, value))
            if field.metadata["kind"] is tuple and isinstance(value, list | str):
                one = isinstance(value, str)
                object.__setattr__(self, field.name, (value,) if one else tuple(value))
            if field.metadata["kind"] is str and isinstance(value, os.PathLike):
                object.__setattr__(self, field.name, os.fspath(value))
            check_value(field.name, getattr(self, field.name), field.metadata)

    @classmethod
    def declared(cls) -> list[Option]:
        """Returns an `Option` for each setting of the class, except sizes."""
        return [
            Option(
                field.name,
                field.metadata["kind"],
                field.metadata["run_default"] or field.default,
                field.metadata["help"],
                field.metadata["choices"],
                field.metadata["required"],
                field.metadata["steps"],
                field.metadata["path"],
            )
            for field in declared_fields(cls)
        ]

    @classmethod
    def made(cls, values: Mapping[str, object]) -> Self:
        """Creates an instance from the values of some settings. Sizes cannot be given.

        Args:
            values: Values, keyed by setting; all other settings have their defaults.

        Raises:
            TypeError: If a setting is unknown (the message suggests the nearest name) or has the
                wrong type.
            ValueError: If a value is not allowed, such as a number out of range.
        """
        known = [field.name for field in declared_fields(cls)]
        for name in values:
            if name not in known:
                raise TypeError(f"Unknown setting `{name}`. {nearest(name, known)}")
        return cls(**values)

    def entries(self) -> list[Entry]:
        """Returns a list with an `Entry` (name, value and help text) for each setting, except
        sizes."""
        return [
            Entry(field.name, getattr(self, field.name), field.metadata["help"])
            for field in declared_fields(type(self))
        ]

    def undecided(self) -> dict[str, RunDefault]:
        """Returns the `RunDefault` of each setting that is declared with one and is still None,
        keyed by setting."""
        return {
            field.name: field.metadata["run_default"]
            for field in declared_fields(type(self))
            if field.metadata["run_default"] is not None and getattr(self, field.name) is None
        }

    def decided(self, cases: Sequence[str] = ()) -> Self:
        """Returns a copy in which settings that are None get the value of their `RunDefault`.

        Settings that are not declared with a `RunDefault` do not change.

        Args:
            cases: Names of the cases that apply to the training run, such as `"backbone"`; see
                `RunDefault`.

        Example:

        >>> @dataclasses.dataclass(frozen=True)
        ... class Reading(Settings):
        ...     speed: int | None = setting(RunDefault(3, backbone=5), "pages an hour")
        >>> Reading().decided(["backbone"]), Reading(7).decided(["backbone"])
        (Reading(speed=5), Reading(speed=7))
        """
        values = {name: default.chosen(cases) for name, default in self.undecided().items()}
        return dataclasses.replace(self, **values)

    def shaping(self) -> dict[str, Any]:
        """Returns a dict of the values of the settings, keyed by name.

        Sizes and settings declared with `shapes_result=False` are left out.

        Example:

        >>> @dataclasses.dataclass(frozen=True)
        ... class Reading(Settings):
        ...     speed: int = setting(3, "pages an hour")
        ...     aloud: bool = setting(False, "for the others", shapes_result=False)
        >>> Reading().shaping()
        {'speed': 3}
        """
        return {
            field.name: getattr(self, field.name)
            for field in declared_fields(type(self))
            if field.metadata["shapes_result"]
        }

    def check(self, data: Settings | None = None) -> None:
        """Does nothing by default. Subclasses override it to raise an error if the settings are
        incompatible, or a file that they name does not exist.

        The command's `evaluate` calls it for the settings of class `Test`, before it loads the
        model.

        Args:
            data: Settings of class `Data` in the same call; None if there are none.
        """

    def to_dict(self) -> dict[str, Any]:
        """Returns all values, including sizes, as a dict for JSON."""
        return dataclasses.asdict(self)


def with_defaults(
    *,
    help: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
    steps: Mapping[str, Sequence[str]] | None = None,
    choices: Mapping[str, Sequence[str]] | None = None,
    required: Mapping[str, bool] | None = None,
    **defaults: object,
) -> Callable[[type[S]], type[S]]:
    """Class decorator that changes the declarations of inherited settings, such as defaults.

    Args:
        help: New help texts, keyed by setting.
        words: Words for placeholders in inherited help texts: `{"rows": "texts"}` replaces `{rows}`
            by `texts`.
        steps: New steps of the command, keyed by setting.
        choices: New allowed values, keyed by setting.
        required: Whether the option is required in the command, keyed by setting.
        **defaults: New defaults, keyed by setting.

    Returns:
        A decorator for a subclass of `Settings`. It must be placed below `dataclass`.

    Raises:
        TypeError: If the decorated class does not inherit one of the settings.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading(Settings):
    ...     speed: int = setting(3, "{pages} an hour", at_least=1)
    >>> @dataclasses.dataclass(frozen=True)
    ... @with_defaults(speed=5, words={"pages": "chapters"})
    ... class QuickReading(Reading):
    ...     aloud: bool = setting(False, "for the others")
    >>> QuickReading(), QuickReading.declared()[0].help
    (QuickReading(speed=5, aloud=False), 'chapters an hour')
    """
    metadata: dict[str, Mapping[str, object]] = {
        "help": help or {},
        "steps": {name: tuple(some) for name, some in (steps or {}).items()},
        "choices": choices or {},
        "required": required or {},
    }

    def decorate(subclass: type[S]) -> type[S]:
        fields = {
            field.name: field
            for base in reversed(subclass.__mro__[1:])
            if dataclasses.is_dataclass(base)
            for field in dataclasses.fields(base)
        }
        for name in {name for names in (defaults, *metadata.values()) for name in names}:
            if name not in fields:
                raise TypeError(f"Unknown setting `{name}`. {nearest(name, fields)}")
        for name, field in fields.items():
            changed = {key: new[name] for key, new in metadata.items() if name in new}
            text = str(changed.get("help", field.metadata["help"]))
            for word, said in (words or {}).items():
                text = text.replace(f"{{{word}}}", said)
            changes = {**field.metadata, **changed, "help": text}
            if name in defaults:
                again = _field(defaults[name], changes)
            elif changes != field.metadata:
                again = dataclasses.field(default=field.default, metadata=changes)
            else:
                continue
            again.kw_only = field.kw_only
            setattr(subclass, name, again)
            subclass.__annotations__ = {**subclass.__annotations__, name: field.type}
        return subclass

    return decorate


def as_float(name: str, value: object) -> object:
    """Converts an integer to a float; returns other values unchanged."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"`{name}` must be a finite number. Received: {value!r:.20}...") from None


def as_table(name: str, value: object) -> object:
    """Parses a string that begins with `{` as an inline TOML table; returns others unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        why = str(error).partition(" (at ")[0]
        raise ValueError(
            f"`{name}` must be a word, or a table as TOML writes it, such as "
            f"""{{good = 2.0, "very bad" = 0.5}}. Received: {value} ({why})."""
        ) from error


def check_value(name: str, value: Any, limits: Mapping[str, Any]) -> None:
    """Raises a TypeError or ValueError if a value does not match the metadata of its setting."""
    kind = limits["kind"]
    if value is None and limits["optional"]:
        return
    if type(value) is not kind and kind is not object:
        raise TypeError(
            f"`{name}` must be of type {kind.__name__}{' or None' if limits['optional'] else ''}. "
            f"Received: {value!r}, of type {type(value).__name__}."
        )
    if kind is float and not math.isfinite(value):
        raise ValueError(f"`{name}` must be a finite number. Received: {value}.")
    if limits["choices"] is not None and value not in limits["choices"]:
        near = difflib.get_close_matches(str(value), map(str, limits["choices"]), 1)
        raise ValueError(
            f"`{name}` must be one of {', '.join(map(repr, limits['choices']))}. "
            f"Received: {value!r}." + (f" Did you mean {near[0]!r}?" if near else "")
        )
    if limits["at_least"] is not None and value < limits["at_least"]:
        raise ValueError(f"`{name}` must be at least {limits['at_least']}. Received: {value}.")
    if limits["above"] is not None and value <= limits["above"]:
        raise ValueError(f"`{name}` must be above {limits['above']}. Received: {value}.")
    if limits["below"] is not None and value >= limits["below"]:
        raise ValueError(f"`{name}` must be below {limits['below']}. Received: {value}.")
    if limits["check"] is not None:
        limits["check"](value)


class Section(Protocol):
    """Interface of a settings section: `Settings` or a `Choice`."""

    def entries(self) -> list[Entry]:
        """Returns the name, value and help text of each setting."""

    def shaping(self) -> dict[str, Any]:
        """Returns the values of the settings, without those with `shapes_result=False`."""


def differences(former: Section, present: Section) -> list[str]:
    """Describes how two sections of settings differ.

    Settings declared with `shapes_result=False` are ignored.

    Args:
        former: The earlier settings: `Settings` or a `Choice`.
        present: The present settings, of the same class as `former`.

    Returns:
        A list with a text for each setting that differs, such as `"speed is 3 there, 5 here"`.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading(Settings):
    ...     speed: int = setting(3, "pages an hour")
    >>> differences(Reading(), Reading(5))
    ['speed is 3 there, 5 here']
    """
    there, here = former.shaping(), present.shaping()
    return [
        f"{name} is {there.get(name)!r} there, {here.get(name)!r} here"
        for name in {**there, **here}
        if there.get(name) != here.get(name)
    ]


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns a sentence that suggests the nearest known name, or lists all names."""
    known = list(known)
    near = difflib.get_close_matches(name, known, 1, cutoff=0.5)
    return f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(known)}."


class WrongUse(ValueError):
    """Raised for incompatible settings; the command then exits with code 2, as for a wrong option.

    Example:

    >>> str(WrongUse("Give either --data or --pairs."))
    'Give either --data or --pairs.'
    """
