"""Where settings come from, and what becomes an option."""

import dataclasses

import click
import pytest
from click.testing import CliRunner

from keras_attn.cli import keras_attn_command
from keras_attn.cli.task_command import merged, options_of
from keras_attn.settings import Settings, setting
from keras_attn.tasks import (
    EntailmentClassifier,
    Tagger,
    TextClassifier,
    TextGenerationUse,
    TextGenerator,
)


def given(task, step, **values):
    return {option.name: values.get(option.name) for _, option in options_of(task, step)}


def test_the_command_line_goes_before_the_file_and_the_file_before_defaults(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("[use]\ntemperature = 0.5\ntop_k = 3\n")
    line = given(TextGenerator, "predict", temperature=0.7)
    found = merged(TextGenerator, "predict", file, line)["use"]
    assert (found.temperature, found.top_k) == (0.7, 3)
    assert found.top_p == TextGenerationUse().top_p
    # `none` takes back what the file says.
    line = given(TextGenerator, "predict", top_k="none")
    assert merged(TextGenerator, "predict", file, line)["use"].top_k is None


@pytest.mark.parametrize("task", [EntailmentClassifier, Tagger, TextClassifier])
def test_tables_on_the_command_line(task, tmp_path):
    def weight(text):
        line = given(task, "fit", train="a.csv", class_weight=text)
        return merged(task, "fit", None, line)["training"].class_weight

    assert weight("{good=2.0,bad=1}") == {"good": 2.0, "bad": 1}
    assert (weight("balanced"), weight("none")) == ("balanced", None)
    for wrong in ('{"good": 2.0}', "even", "{good = -1}"):
        with pytest.raises(click.UsageError, match="--class-weight must be"):
            weight(wrong)
    shown = CliRunner().invoke(keras_attn_command, [task.name, "fit", "--help"]).output
    assert "a table such as '{good = 2, bad = 0.5}'" in " ".join(shown.split())


@pytest.mark.parametrize("task", [TextClassifier, TextGenerator])
def test_every_setting_is_an_option_of_a_step(task):
    """With its help text and its default, and named in the help of the command."""
    found = {}
    for step in task.steps:
        for section, option in options_of(task, step):
            found[section, option.name] = (step, option)
    declared = {
        (name, option.name)
        for name, section in task.sections().items()
        for option in section.declared()
    }
    assert found.keys() == declared
    for step in {step for step, _ in found.values()}:
        shown = CliRunner().invoke(keras_attn_command, [task.name, step, "--help"])
        assert shown.exit_code == 0
        for name in (o.name for s, o in found.values() if s == step):
            assert f"--{name.replace('_', '-')}" in shown.output
    for _, option in found.values():
        assert len(option.help) > 8


def test_two_options_of_one_name_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Test(Settings):
        batch_size: int = setting(3, "the same name as in Use")

    class Twice(TextClassifier):
        pass

    Twice.Test = Test
    with pytest.raises(
        ValueError, match=r"Twice have options of `evaluate` named \['batch_size'\]"
    ):
        options_of(Twice, "evaluate")
