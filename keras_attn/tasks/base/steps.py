"""Steps of a task's command, declared by decorated methods."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from keras_attn.settings import Settings

MODEL_HELP = "the model: a file, such as RUN/best.task, or the name of a model in the package"
_F = TypeVar("_F", bound=Callable[..., object])


class Note(NamedTuple):
    """A line that a step yields between its output lines, and that is written to standard error.

    Example:

    >>> Note("a.png: broken").failed
    False
    """

    text: str
    failed: bool = False
    """Whether the command exits with code 1 after the step."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of a task's command, with its settings, inputs and outputs.

    The first parameter of the function receives the task (`self`), or its class if the step needs
    no model. The other parameters may have these names, and receive these values:

    - `inputs`: an iterator of lists of inputs; with `reads="pictures"`, a list of paths; if
      `reads` names arguments, a list of their values;
    - `files`: the paths to read; `skip`: whether `on_error` skips bad inputs;
    - `to`: the path to write; `overwrite`: whether an existing output may be replaced;
    - `terminal`: whether the output lines go to a terminal;
    - `log`: a function that prints a line immediately;
    - `model_file`: the path of the model; `step`: this object;
    - the name of a section, such as `use`, or the name of the step: the settings of this section,
      or the step's own `settings`;
    - `settings`: a dict of all sections, keyed by name.

    A function with the parameter `to` writes the file itself, and the lines that it yields are
    printed. Otherwise, these lines are written to the output. A line may be an iterable of pieces;
    a `Note` goes to standard error.

    Args:
        name: Name of the step in the command.
        help: Help text of the step. Its first paragraph appears in the list of steps.
        function: Function that performs the step.
        takes: Names of the sections whose settings are options of the step, or a dict from section
            to the names of the settings that the step has. A setting that is declared for certain
            steps (`steps`, or `for_steps` of its class) is an option of exactly these steps,
            unless the dict has its section.
        settings: The settings that only this step has. In files, their section is `[name]`.
        reads: Kind of the inputs: `"lines"`, `"pairs"`, `"only_pairs"`, `"picture_pairs"`,
            `"turns"`, `"prompts"`, `"typed"` (standard input, line by line) or `"pictures"`; or the
            names of arguments in capitals, such as `"A B"` and `"WORDS..."`. If empty, the step has
            no inputs.
        writes: Kind of the output. With `"lines"` or `"report"` (JSON), the step has the option
            `--to`; with `"file"`, `"page"` (HTML), `"figures"`, `"folder"`, `"model"` or
            `"saved_model"`, this option is required. With `"run"`, the step has the required option
            `--run-dir`. If empty, the lines of the step go to standard output.
        to: Help text of `--to`.
        model: Help text of `--model`; if empty, the step needs no model and is a class method.
        device: Whether the step has the option `--device`.
        required: Names of settings that are required in this step, in addition to those declared
            as required.
        before: Name of the step before which this step is listed; if empty, the step is listed
            after the standard steps, but before `quantize` and `export`.
        check: Function that is called before the model is loaded. Its parameters have the names
            above. It raises an error if the step cannot be performed.
        method: Name of the task's method, if the step is a method.

    Example:

    >>> steps_of(WordEmbedder)["analogy"].reads
    'A B C'
    """

    name: str
    help: str
    function: Callable[..., Any]
    takes: Mapping[str, Sequence[str]] | Sequence[str] = ()
    settings: type[Settings] | None = None
    reads: str = ""
    writes: str = ""
    to: str = ""
    model: str = MODEL_HELP
    device: bool = False
    required: Sequence[str] = ()
    before: str = ""
    check: Callable[..., None] | None = None
    method: str = ""

    @property
    def line(self) -> str:
        """The first paragraph of the help text, as one line."""
        return " ".join(self.help.partition("\n\n")[0].split())

    def names(self) -> list[str]:
        """Returns the names of the parameters of the function."""
        return [*inspect.signature(self.function).parameters][1:]

    def check_before(self, given: Mapping[str, Any]) -> None:
        """Calls `check`, if there is one, which raises an error if the step cannot be performed.

        Args:
            given: All values that `check` may receive, keyed by parameter name.
        """
        if self.check is not None:
            self.check(**{name: given[name] for name in inspect.signature(self.check).parameters})

    def run(self, owner: Any, given: Mapping[str, Any]) -> str | Iterable[Any] | None:
        """Performs the step.

        Args:
            owner: The loaded task, or its class if the step needs no model.
            given: All values that the function may receive, keyed by parameter name.

        Returns:
            The result of the function: a line, an iterable of lines and `Note`s, or None if the
            step has no output lines.
        """
        values = {name: given[name] for name in self.names()}
        return (
            getattr(owner, self.method)(**values) if self.method else self.function(owner, **values)
        )


def step(name: str = "", **declared: Any) -> Callable[[_F], _F]:
    """Decorator that makes a method a step of the task's command, `keras-attn TASK NAME`.

    The docstring of the method is the help text. A step without a model (`model=""`) is a class
    method, with `@classmethod` above `@step`. A subclass may override the method.

    Args:
        name: Name of the step; the name of the method if empty.
        **declared: Settings, inputs and outputs of the step: arguments of `Step` other than
            `name`, `help`, `function` and `method`.

    Returns:
        A decorator that returns the method itself.

    Raises:
        TypeError: If the method has no docstring, or an argument is unknown.

    Example:

    >>> class Greeter:
    ...     @step(reads="NAMES...")
    ...     def greet(self, inputs):
    ...         '''Greet people.'''
    ...         yield from (f"Hello, {name}!" for name in inputs)
    >>> found = steps_of(Greeter)["greet"]
    >>> found.line, list(found.run(Greeter(), {"inputs": ["Ada"]}))
    ('Greet people.', ['Hello, Ada!'])
    """

    def decorate(function: _F) -> _F:
        own = getattr(function, "__name__", "")
        text = inspect.getdoc(function)
        if not text:
            raise TypeError(
                f"Expected a docstring of `{own}`: it is the help text of the step. Received: none."
            )
        function.__dict__["_step"] = Step(name or own, text, function, method=own, **declared)
        return function

    return decorate


def steps_of(owner: type) -> dict[str, Step]:
    """Returns the steps that `@step` declares in a class and its base classes, keyed by name.

    Args:
        owner: The class of a task.

    Returns:
        A dict from names to `Step`s, with the steps of base classes first. If several classes
        declare the same name, the most derived one counts.

    Example:

    >>> list(steps_of(WordEmbedder))
    ['nearest', 'analogy', 'vectors', 'page']
    """
    found: dict[str, Step] = {}
    for kind in reversed(owner.__mro__):
        for value in vars(kind).values():
            declared = getattr(getattr(value, "__func__", value), "_step", None)
            if isinstance(declared, Step):
                found[declared.name] = declared
    return found


def values_for(method: Callable[..., Any], settings: Settings) -> dict[str, Any]:
    """Returns the settings that a method accepts, keyed by name."""
    taken = [*inspect.signature(method).parameters][1:]
    return {entry.name: entry.value for entry in settings.entries() if entry.name in taken}
