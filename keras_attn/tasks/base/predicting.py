"""Predictions, evaluation and explanations of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from keras_attn.explain.explained_page import explained_page
from keras_attn.inputs import listed
from keras_attn.tasks.base.calls import declared_call, further_parameters, options_for, parted
from keras_attn.tasks.base.constructed import Given
from keras_attn.tasks.base.doubts import doubt_of_guesses
from keras_attn.tasks.base.exported import Exported
from keras_attn.tasks.base.fitted import Fitted
from keras_attn.tasks.base.measured import Figures

_LABELS = {"labels": "the right result for each input, if `examples` contains only inputs"}


class Predicting(Fitted[Given], Exported):
    """Base class of `Task`: predictions, evaluation and explanations.

    `predict`, `evaluate` and `explain` accept the settings of class `Use` of the corresponding step
    as keyword arguments; `own_use` overrides defaults. The signatures and docstrings of the three
    methods are made from the settings and from the hooks that they call: `results`, `report` and
    `explained`. Keyword-only parameters of a hook are also arguments of the method; for `report`,
    the settings of class `Test` provide the defaults of these arguments.
    """

    inputs_are: ClassVar[str] = "texts"
    """Name of the inputs in messages."""
    guesses_are: ClassVar[str] = ""
    """Name of the units of `guesses` if they are not examples, such as `"words"`."""
    hooks: ClassVar[Mapping[str, str]] = {
        "predict": "results",
        "evaluate": "report",
        "explain": "explained",
    }
    """The hook that provides the arguments and the docstring of each call."""

    def __init_subclass__(cls, **more: Any):
        super().__init_subclass__(**more)
        for name, hook in cls.hooks.items():
            method = getattr(cls, name)
            generic = getattr(Predicting, name)
            decisive = {"name", "hooks", "Use", "Test", "Data", "input_columns", hook}
            changed = not decisive.isdisjoint(vars(cls))
            if changed and getattr(method, "__wrapped__", method) is generic:
                options = options_for(cls.Use, name)
                further = {x.name: x for x in cls.Test.declared()}
                own = _LABELS if name == "evaluate" and cls.learns_labels else {}
                own = {**own, **cls.column_helps(name != "evaluate")}
                call = declared_call(generic, getattr(cls, hook), options, further, own)
                setattr(cls, name, call)

    # What a task writes

    @staticmethod
    def is_one(inputs: Any) -> bool:
        """Returns whether the argument is a single input: a string, or a tuple for pairs."""
        return isinstance(inputs, str)

    def asked(self, inputs: Any) -> list[Any]:
        """Checks the inputs of a call.

        Args:
            inputs: The inputs: a list of one input, or the iterable that the caller passed.

        Returns:
            A list of inputs, as `results` and `explained` receive them.

        Raises:
            TypeError: If an input has the wrong type.
        """
        return listed(inputs, self.inputs_are)

    def results(self, inputs: Any, use: Any) -> list[Any]:
        """Predicts the outputs for inputs.

        Args:
            inputs: One input, or a list of inputs.
            use: Settings of class `Use`.

        Returns:
            A dict of outputs keyed by name, or a list of dicts for a list of inputs.

        Raises:
            TypeError: If an input has the wrong type.
        """
        size = getattr(use, "batch_size", 64)
        (name,) = self.inputs
        found = []
        for i in range(0, len(inputs), size):
            columns = self._computed({name: inputs[i : i + size]}, use)
            rows = zip(*columns.values(), strict=True)
            found += [dict(zip(columns, row, strict=True)) for row in rows]
        return found

    def inputs_of(self, examples: Any) -> list[Any]:
        """Returns the list of inputs that `results` receives for examples: by default, the first
        element of each example.

        Args:
            examples: Examples, as returned by `checked`.
        """
        return [example[0] for example in examples]

    def measured(self, examples: Any, use: Any) -> Any:
        """Computes the predictions that `report` compares with the examples: by default, the
        `results` of their inputs.

        Args:
            examples: Examples, as returned by `checked`.
            use: Settings of class `Use`.
        """
        return self.results(self.inputs_of(examples), use) if len(examples) else []

    def report(self, *examples: Any, **settings: Any) -> Any:
        """Evaluates the task on examples.

        Args:
            *examples: Examples, as returned by `checked`, and predictions, as returned by
                `measured`.
            **settings: Settings of class `Test`, which overrides declare as keyword-only
                parameters.

        Returns:
            A dict of scores, or a report that `print` shows and whose `to_dict()` returns the
            scores.
        """
        raise NotImplementedError

    def guesses(self, examples: Any, results: Any) -> tuple[list[Any], list[Any]] | None:
        """Returns the predicted and the true labels, to detect a model that always predicts the
        same label.

        Args:
            examples: Examples, as returned by `checked`.
            results: Predictions, as returned by `measured`.

        Returns:
            Two lists of the same length, or None to skip the check.
        """
        return None

    def explained(self, inputs: Any, use: Any) -> Any:
        """Explains predictions.

        Args:
            inputs: One input, or a list of inputs.
            use: Settings of class `Use`.

        Returns:
            An explanation for one input; for a list of inputs, a list of explanations or one object
            that explains all inputs.
        """
        raise NotImplementedError

    page: Any = staticmethod(explained_page)
    """Function that returns an HTML page from the result of `explain` and a title."""

    # What is written once

    def predict(self, *inputs: Any, **settings: Any) -> Any:
        """Predicts the outputs for one input or a list of inputs, as the hook `results` does."""
        columns = self.taken_from(settings, inputs=True)
        use, more = self._parted("predict", settings)
        given = self.read_asked(inputs[0], columns)
        one = self.is_one(given)
        asked = self.asked([given] if one else given)
        found = self.results(asked, use, **more) if asked else []
        return found[0] if one else found

    def evaluate(self, *examples: Any, **settings: Any) -> Any:
        """Evaluates the task on examples, and returns the scores of the hook `report`."""
        columns = self.taken_from(settings)
        given = self._joined(examples[0], settings.pop("labels", None))
        given = self.read_own(given, columns)
        if type(self).report is Predicting.report:
            return Figures(self.score(given))
        use, more = self._parted("evaluate", settings)
        checked = self.checked(given)
        report = self.report(checked, self.measured(checked, use), **more)
        return Figures(report) if isinstance(report, dict) else report

    def score(self, examples: Given) -> dict[str, float]:
        """Returns the scores of `evaluate` for examples, without confidence intervals."""
        if type(self).report is Predicting.report:
            raise NotImplementedError(f"{type(self).__name__} has neither `report` nor `score`.")
        intervals = "num_bootstrap" in self._further("evaluate")
        return self.figures(self.evaluate(examples, **{"num_bootstrap": 0} if intervals else {}))

    def figures(self, report: Any) -> dict[str, float]:
        """Returns the scores of a report that are logged after each epoch, keyed by name.

        Args:
            report: The result of `evaluate`.
        """
        return dict(report if isinstance(report, dict) else report.to_dict())

    def explain(self, *inputs: Any, **settings: Any) -> Any:
        """Explains the predictions for one input or a list of inputs with the hook `explained`."""
        columns = self.taken_from(settings, inputs=True)
        use, more = self._parted("explain", settings)
        given = self.read_asked(inputs[0], columns)
        one = self.is_one(given)
        found = self.explained(self.asked([given] if one else given), use, **more)
        return found[0] if one and isinstance(found, list) else found

    def doubt_guesses(self, dev: Any) -> str:
        """Returns a warning if the prediction is the same for all development examples, although
        their labels differ; an empty string otherwise."""
        if not len(dev) or type(self).guesses is Predicting.guesses:
            return ""
        examples = self.checked(dev)
        guesses = self.guesses(examples, self.measured(examples, self.used({})))
        what = self.guesses_are or self.examples_are
        return "" if guesses is None else doubt_of_guesses(*guesses, what)

    def _parted(self, step: str, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Splits keyword arguments into settings `Use` and arguments of the hook."""
        more = self._further(step)
        options = [x for x in options_for(self.Use, step) if x.name not in more]
        use, more_given = parted(options, more, given)
        return self.used(use), more_given

    def _further(self, step: str) -> list[str]:
        """Names of the arguments of a call that are not settings `Use`."""
        return [x.name for x in further_parameters(getattr(self, self.hooks[step]))]
