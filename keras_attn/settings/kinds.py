"""Choices among several kinds, such as model architectures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from keras_attn.settings.declaring import (
    Entry,
    Option,
    Settings,
    as_float,
    check_value,
    declared_fields,
    nearest,
)

S = TypeVar("S", bound=Settings)


class Kinds(Mapping[str, type[Settings]]):
    """A registry of kinds, which are named subclasses of `Settings`.

    Python calls, TOML files and saved files represent a choice as a dict with the name of the kind
    under `key`: `{"model": "rnn", "units": 64}`.

    Args:
        key: Name of the setting that selects the kind.
        default: Name of the default kind.
        help: Help text of the setting `key` in the command.

    Example:

    >>> VEHICLES = Kinds("vehicle", "bus", "how to travel")
    >>> @VEHICLES.register("bus")
    ... @dataclasses.dataclass(frozen=True)
    ... class Bus(Settings):
    ...     stops: int = setting(3, "number of stops", at_least=1)
    >>> VEHICLES.make({"stops": 5})
    Bus(stops=5)
    >>> VEHICLES.describe(Bus(5))
    {'vehicle': 'bus', 'stops': 5}
    """

    def __init__(self, key: str, default: str, help: str):
        self.key = key
        self.default = default
        self.help = help
        self._kinds: dict[str, type[Settings]] = {}

    def register(self, name: str) -> Callable[[type[S]], type[S]]:
        """Class decorator that registers a class of settings as a kind.

        Args:
            name: Name of the kind.

        Returns:
            A decorator that returns the class unchanged.
        """

        def decorate(kind: type[S]) -> type[S]:
            self._kinds[name] = kind
            return kind

        return decorate

    def __getitem__(self, name: str) -> type[Settings]:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        # The default first, whichever module was imported first.
        return iter(sorted(self._kinds, key=lambda name: name != self.default))

    def __len__(self) -> int:
        return len(self._kinds)

    def name_of(self, made: object) -> str:
        """Returns the name under which the class of an instance is registered.

        Args:
            made: An instance of a registered class.

        Raises:
            TypeError: If the class of `made` is not registered.
        """
        for name, kind in self.items():
            if type(made) is kind:
                return name
        kinds = [kind.__name__ for kind in self.values()]
        raise TypeError(f"Expected one of {kinds}. Received: {type(made).__name__}.")

    def describe(self, made: Settings) -> dict[str, Any]:
        """Returns the settings and sizes of an instance as a JSON-safe dict, with the name of its
        kind under `key`."""
        return {self.key: self.name_of(made), **made.to_dict()}

    def make(self, config: object = None, **sizes: object) -> Any:
        """Creates an instance of a kind.

        Args:
            config: An instance of a kind, the name of a kind, a `Choice` as returned by `made`, a
                dict of settings, or None for the defaults of the default kind. A dict may have the
                name of a kind under `key`; otherwise, the default kind is used.
            **sizes: Sizes computed from data, such as `vocabulary_size`. They override the sizes in
                `config`; sizes that the kind does not have are ignored.

        Returns:
            An instance of the chosen kind.

        Raises:
            TypeError: If a setting has the wrong type, or a required size is missing.
            ValueError: If `config` is of another type, the kind or a setting is unknown, a value is
                out of range, or settings contradict each other.
        """
        if isinstance(config, str):
            config = {self.key: config}
        if isinstance(config, Choice):
            name, values = config.name, dict(config.values)
        elif isinstance(config, Settings) and isinstance(config, tuple(self.values())):
            name, values = self.name_of(config), config.to_dict()
        else:
            name, values = self._checked(config)
        kind = self[name]
        own = {field.name for field in dataclasses.fields(kind)}
        return kind(**{**values, **{k: v for k, v in sizes.items() if k in own}})

    def _checked(self, config: object) -> tuple[str, dict[str, Any]]:
        given = config if isinstance(config, Mapping) else {}
        name = given.get(self.key, self.default)
        known = {n: [f.name for f in dataclasses.fields(kind)] for n, kind in self.items()}
        own = known.get(name, [])
        unknown = [key for key in given if key not in (self.key, *own)] if own else []
        if (given is not config and config is not None) or not own or unknown:
            fields = "; ".join(f"{self.key}={n!r}: {names}" for n, names in known.items())
            raise ValueError(
                f"`config` must be one of {[kind.__name__ for kind in self.values()]}, or a dict "
                f"of the settings of one of them: {fields}. Received: {config!r}"
                + (f", with {unknown}, which are not settings of {name!r}." if unknown else ".")
            )
        return name, {key: value for key, value in given.items() if key != self.key}

    # As a section of settings

    def declared(self) -> list[Option]:
        """Returns a list with an `Option` for the setting `key`, and one for each setting of the
        kinds; kinds with the same setting share its option."""
        options = [Option(self.key, str, self.default, self.help, tuple(self), False, ())]
        every: dict[str, dict[str, dataclasses.Field]] = {}
        for name, kind in self.items():
            for field in declared_fields(kind):
                every.setdefault(field.name, {})[name] = field
        return options + [self._option(name, fields) for name, fields in every.items()]

    def _option(self, name: str, fields: Mapping[str, dataclasses.Field]) -> Option:
        """One option for a setting of several kinds, which may have different defaults."""
        texts = _by_value({kind: f.metadata["help"] for kind, f in fields.items()})
        shown = [
            text if len(kinds) == len(self) else f"{', '.join(kinds)}: {text}"
            for text, kinds in texts.items()
        ]
        defaults = _by_value({kind: f.default for kind, f in fields.items()})
        first = next(iter(fields.values()))
        choices = None
        if first.metadata["choices"] is not None:
            every = [c for f in fields.values() for c in f.metadata["choices"]]
            choices = tuple(dict.fromkeys(every))
        default = first.default
        if len(defaults) > 1:
            default = ", ".join(f"{', '.join(kinds)}: {d}" for d, kinds in defaults.items())
        return Option(name, first.metadata["kind"], default, "; ".join(shown), choices, False, ())

    def made(self, values: object) -> Choice:
        """Chooses a kind and checks the given settings; `make` adds sizes from data later.

        Args:
            values: The name of a kind, an instance of a kind (whose sizes are ignored), a `Choice`,
                or a dict of settings. A dict may have the name of a kind under `key`; otherwise,
                the default kind is chosen.

        Returns:
            A `Choice` of the kind with the given settings; `values` itself if it is a `Choice`.

        Raises:
            TypeError: If `values` is of another type, or a setting is unknown or has the wrong
                type.
            ValueError: If the kind is unknown, a setting belongs to another kind, a value is out of
                range, or settings contradict each other.
        """
        if isinstance(values, Choice):
            return values
        if isinstance(values, str):
            values = {self.key: values}
        if isinstance(values, Settings) and isinstance(values, tuple(self.values())):
            own = {
                field.name: getattr(values, field.name) for field in declared_fields(type(values))
            }
            values = {self.key: self.name_of(values), **own}
        if not isinstance(values, Mapping):
            raise TypeError(
                f"Expected one of {[kind.__name__ for kind in self.values()]}, or a dict of "
                f"settings. Received: {values!r}."
            )
        name = values.get(self.key, self.default)
        if not isinstance(name, str) or name not in self:
            raise ValueError(
                f"`{self.key}` must be one of {', '.join(map(repr, self))}. Received: {name!r}."
            )
        fields = {field.name: field for field in declared_fields(self[name])}
        chosen = {}
        for key, value in values.items():
            if key == self.key:
                continue
            if key not in fields:
                kinds = [n for n, k in self.items() if key in {f.name for f in declared_fields(k)}]
                if not kinds:
                    known = [option.name for option in self.declared()]
                    raise TypeError(f"Unknown setting `{key}`. {nearest(key, known)}")
                raise ValueError(
                    f"`{key}` is only used with {self.key}={' or '.join(map(repr, kinds))}. "
                    f"Received: {key}={value!r} with {self.key}={name!r}."
                )
            if fields[key].metadata["kind"] is float:
                value = as_float(key, value)
            check_value(key, value, fields[key].metadata)
            chosen[key] = value
        choice = Choice(self, name, chosen, self.key in values)
        sizes = [f.name for f in dataclasses.fields(self[name]) if f.default is dataclasses.MISSING]
        self.make(choice, **dict.fromkeys(sizes, 2))  # what settings say of each other
        return choice


@dataclasses.dataclass(frozen=True)
class Choice:
    """The name of a kind and the settings given for it, without sizes computed from data.

    Args:
        kinds: The registry in which the kind is registered.
        name: Name of the chosen kind.
        values: The given settings, keyed by name; all other settings have their defaults.
        named: Whether the kind was chosen by name; if False, the kind is the default.

    Example:

    >>> TEXT_CLASSIFIERS.made({"model": "rnn", "units": 64})
    Choice(name='rnn', values={'units': 64})
    """

    kinds: Kinds = dataclasses.field(compare=False, repr=False)
    name: str
    values: Mapping[str, Any]
    named: bool = dataclasses.field(default=True, compare=False, repr=False)

    def entries(self) -> list[Entry]:
        """Returns a list with an `Entry` for the name of the kind, and one for each setting of the
        kind, except sizes."""
        return [
            Entry(self.kinds.key, self.name, self.kinds.help),
            *(
                Entry(
                    field.name, self.values.get(field.name, field.default), field.metadata["help"]
                )
                for field in declared_fields(self.kinds[self.name])
            ),
        ]

    def shaping(self) -> dict[str, Any]:
        """Returns a dict of the name of the kind and the values of its settings, without sizes and
        settings declared with `shapes_result=False`."""
        fields = {field.name: field for field in declared_fields(self.kinds[self.name])}
        return {
            name: value
            for name, value, _ in self.entries()
            if name == self.kinds.key or fields[name].metadata["shapes_result"]
        }


def _by_value(values: Mapping[str, Any]) -> dict[Any, list[str]]:
    """The names that have each value."""
    found: dict[Any, list[str]] = {}
    for name, value in values.items():
        found.setdefault(value, []).append(name)
    return found
