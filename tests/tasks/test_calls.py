"""Methods whose keyword arguments are settings."""

import inspect
from dataclasses import dataclass

import numpy as np
import pytest

from keras_attn.settings import Settings, setting
from keras_attn.tasks import Tagger, Task, Translator
from keras_attn.tasks.base.calls import declared_call, options_for, parted


@dataclass(frozen=True)
class Use(Settings):
    width: int = setting(3, "letters of a word", at_least=1, steps=("predict", "evaluate"))
    loud: bool = setting(False, "in capitals")
    page: str = setting("", "title of the page", steps=("explain",))


@dataclass(frozen=True)
class Measuring(Settings):
    num_bootstrap: int = setting(7, "samples")


class Cutter(Task):
    name = "cutter"
    Use, Test = Use, Measuring

    def __init__(self):
        """A task without a model."""

    def results(self, texts, use, *, mark=""):
        """Cut texts.

        Args:
            texts: One text, or a list of them.
            use: Settings `Use`.
            mark: What stands behind a text
                that is cut.

        Returns:
            The texts.
        """
        cut = [text[: use.width] + mark for text in texts]
        return [text.upper() for text in cut] if use.loud else cut

    def inputs_of(self, examples):
        """Return the texts."""
        return [text for text, _ in examples]

    def report(self, examples, results, *, num_bootstrap, seed=0):
        """Count what is right."""
        right = sum(text == label for (_, label), text in zip(examples, results, strict=True))
        return right, num_bootstrap, seed

    def guesses(self, examples, results):
        """Return both sides."""
        return results, [label for _, label in examples]


class Louder(Cutter):
    @dataclass(frozen=True)
    class Use(Use):
        loud: bool = setting(True, "in capitals")


def test_signatures_are_those_of_settings_and_hooks():
    assert str(inspect.signature(Cutter.predict)) == (
        "(self, texts, *, mark='', width: 'int' = 3, loud: 'bool' = False)"
    )
    assert str(inspect.signature(Cutter.evaluate)) == (
        "(self, examples, *, labels=None, num_bootstrap=7, seed=0, width: 'int' = 3, "
        "loud: 'bool' = False)"
    )
    assert "page" in inspect.signature(Cutter.explain).parameters
    assert inspect.signature(Louder().predict).parameters["loud"].default is True


def test_the_signature_of_fit_has_its_settings():
    shown = inspect.signature(Translator.fit).parameters
    assert [*shown][:3] == ["self", "examples", "dev"]
    assert (shown["checkpoint_steps"].default, shown["learning_rate"].default) == (1000, None)
    assert "patience: Epochs without a better" in inspect.getdoc(Translator.fit)
    assert inspect.signature(Tagger.fit).parameters["checkpoint_steps"].default == 500


def test_the_docstring_names_every_argument():
    assert inspect.getdoc(Cutter.predict) == (
        "Cut texts.\n\n"
        "Args:\n"
        "    texts: One text, or a list of them.\n"
        "    mark: What stands behind a text\n"
        "        that is cut.\n"
        "    width: Letters of a word.\n"
        "    loud: In capitals.\n\n"
        "Returns:\n"
        "    The texts."
    )
    assert inspect.getdoc(Cutter.evaluate).startswith(
        "Count what is right.\n\nArgs:\n    labels: The right result for each input"
    )


def test_one_and_many_and_none():
    cutter = Cutter()
    assert cutter.predict("abcd") == "abc"
    assert cutter.predict(["abcd", "ef"], width=1, mark=".") == ["a.", "e."]
    assert cutter.predict(texts="abcd", loud=True) == Louder().predict("abcd") == "ABC"
    assert cutter.predict(iter([])) == []
    assert cutter.predict("abcd", width=np.int64(2)) == "ab"


def test_an_evaluation_compares_the_results_with_the_examples():
    examples = [("abcd", "abc"), ("efgh", "ef")]
    assert Cutter().evaluate(examples) == (1, 7, 0)
    assert Cutter().evaluate(["abcd", "efgh"], labels=("abc", "ef")) == (1, 7, 0)
    assert Cutter().evaluate(examples, width=2, num_bootstrap=0, seed=5) == (1, 0, 5)


def test_guesses_that_are_all_the_same_are_doubted():
    examples = [("abcd", "abc")] * 3
    assert Cutter().doubt_guesses(examples) == Cutter().doubt_guesses(()) == ""
    assert "abc" in Cutter().doubt_guesses([*examples, ("abce", "abce")])


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda task: task.predict("a", 2), TypeError, r"predict\(texts, \*, .*: 2 argum"),
        (lambda task: task.predict(), TypeError, "0 arguments by position"),
        (lambda task: task.predict("a", widht=2), TypeError, "`widht`. Did you mean `width`"),
        (lambda task: task.predict("a", page="b"), TypeError, "Unknown setting `page`"),
        (lambda task: task.predict("a", width=0), ValueError, "`width` must be at least 1"),
        (lambda task: task.predict({"a": 1}), TypeError, "keys"),
        (lambda task: task.evaluate(["a"], labels=[]), ValueError, "1 examples and 0 labels"),
        (lambda task: task.evaluate([], mark="."), TypeError, "Unknown setting `mark`"),
    ],
)
def test_wrong_calls_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(Cutter())


def test_a_method_of_its_own_stays():
    class Other(Cutter):
        def predict(self, texts):
            """Say nothing."""
            return "nothing"

    assert Other().predict("abc") == "nothing"
    assert list(inspect.signature(Other.predict).parameters) == ["self", "texts"]


def test_the_settings_of_a_step():
    assert [x.name for x in options_for(Use, "explain")] == ["loud", "page"]
    assert parted(options_for(Use, "predict"), ["mark"], {"mark": 1, "width": 2}) == (
        {"width": 2},
        {"mark": 1},
    )


def test_a_hook_without_a_docstring_has_that_of_the_call():
    def call(self, *inputs, **settings):
        """Do it."""

    def hook(self, texts, use):
        pass

    made = declared_call(call, hook, options_for(Use, "explain"), {})
    assert made.__doc__ == "Do it.\n\nArgs:\n    loud: In capitals.\n    page: Title of the page."
