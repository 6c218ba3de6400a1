"""Where settings come from, and what becomes an option."""

import dataclasses

import click
import pytest
from click.testing import CliRunner

from keras_attn.cli import keras_attn_command
from keras_attn.cli.step_settings import options_of
from keras_attn.cli.task_command import all_steps, merged, task_command
from keras_attn.settings import Settings, setting
from keras_attn.tasks import (
    AnswerSelector,
    EntailmentClassifier,
    Note,
    Tagger,
    TextClassifier,
    TextGenerationUse,
    TextGenerator,
    Translator,
    WordEmbedder,
    step,
    steps_of,
)


def given(task, step, **values):
    return {
        option.name: values.get(option.name)
        for _, option in options_of(task, all_steps(task)[step])
    }


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
    sections = task.sections()
    for name, made in all_steps(task).items():
        for section, option in options_of(task, made):
            found[section, option.name] = (name, option)
        if made.settings is not None:
            sections[name] = made.settings
    declared = {
        (name, option.name) for name, section in sections.items() for option in section.declared()
    }
    assert found.keys() == declared
    for name in {name for name, _ in found.values()}:
        shown = CliRunner().invoke(keras_attn_command, [task.name, name, "--help"])
        assert shown.exit_code == 0
        for option in (o.name for n, o in found.values() if n == name):
            assert f"--{option.replace('_', '-')}" in shown.output
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
        ValueError, match=r"Twice have the same options \['batch_size'\] of the step `evaluate`"
    ):
        options_of(Twice, all_steps(Twice)["evaluate"])


def test_settings_of_a_step_in_a_file(tmp_path):
    """Other steps read the same file, and do not mind."""
    file = tmp_path / "settings.toml"
    file.write_text("[use]\ntop_k = 3\n[page]\ncount = 7\ntitle = 'Map'\n")
    found = merged(WordEmbedder, "page", file, given(WordEmbedder, "page", title="Words"))
    assert (found["page"].count, found["page"].title, found["use"].top_k) == (7, "Words", 3)
    assert merged(WordEmbedder, "nearest", file, given(WordEmbedder, "nearest"))["use"].top_k == 3
    file.write_text("[page]\nnumber = 7\n")
    with pytest.raises(ValueError, match=r"unknown setting `number` in \[page\]"):
        merged(WordEmbedder, "page", file, given(WordEmbedder, "page"))
    with pytest.raises(click.UsageError, match="--count must be at least 5"):
        merged(WordEmbedder, "page", None, given(WordEmbedder, "page", count=4))


def test_what_a_step_requires_of_shared_settings():
    line = given(AnswerSelector, "index", backbone="encoder.task")
    with pytest.raises(click.UsageError, match="Missing option '--answers'"):
        merged(AnswerSelector, "index", None, line)


def test_help_in_groups_and_steps_in_order():
    shown = CliRunner().invoke(keras_attn_command, ["tagging", "fit", "--help"]).output
    titles = [line[:-1] for line in shown.splitlines() if line[:1].isupper() and line[-1:] == ":"]
    assert titles == ["Required", "Files", "Data", "Model", "Training", "Options"]
    required = shown.partition("Required:")[2].partition("Files:")[0]
    assert "--run-dir" in required and "--train" in required and "--epochs" not in required
    shown = (
        CliRunner().invoke(keras_attn_command, ["translation", "--help"], terminal_width=100).output
    )
    listed = [line.split()[0] for line in shown.partition("Steps:")[2].splitlines() if line]
    assert listed == list(all_steps(Translator))
    steps = ["prepare", "fit", "evaluate", "predict", "explain", "score", "quantize", "export"]
    assert listed == steps
    assert "Train; the same command again" in shown


class Spelling(WordEmbedder):
    """A task with steps of its own."""

    @classmethod
    @step(reads="FIRST REST...", model="", before="fit", writes="lines")
    def spell(cls, inputs):
        """Spell words.

        Letter by letter.
        """
        for word in inputs:
            yield iter(word)
            yield Note(f"{len(word)} letters", failed=word == "bad")

    @step("nearest", model="")
    def _nothing(self):
        """Find nothing."""


@pytest.mark.parametrize(("words", "code"), [(["a", "bc"], 0), (["a", "bad"], 1)])
def test_lines_notes_and_pieces(words, code, tmp_path):
    """Pieces make a line; notes go to standard error, and may say that something failed."""
    command = task_command(Spelling)
    assert list(command.commands)[:3] == ["spell", "fit", "evaluate"]
    run = CliRunner().invoke(command, ["spell", *words, "--to", str(tmp_path / "out.txt")])
    assert run.exit_code == code, run.output
    assert (tmp_path / "out.txt").read_text() == "".join(f"{word}\n" for word in words)
    assert run.stderr == "".join(f"{len(word)} letters\n" for word in words)
    assert CliRunner().invoke(command, ["spell", "a"]).exit_code == 2  # REST is missing


def test_steps_that_cannot_be_made():
    class Wrong(WordEmbedder):
        @step(reads="lines")
        def count(self, lines):
            """Count lines."""

    with pytest.raises(TypeError, match=r"step `count` of Wrong to be among .*: \['lines'\]"):
        task_command(Wrong)

    class Twice(WordEmbedder):
        @step(settings=WordEmbedder.Use)
        def data(self):
            """Show the data."""

    with pytest.raises(ValueError, match="Twice already has settings named 'data'"):
        task_command(Twice)


def test_steps_of_subclasses():
    assert steps_of(Spelling)["nearest"].line == "Find nothing."
    assert steps_of(WordEmbedder)["nearest"].line == "Show the words nearest to each of WORDS."

    class Louder(Spelling):
        @classmethod
        def spell(cls, inputs):
            return (word.upper() for word in inputs)

    found = steps_of(Louder)["spell"]
    assert list(found.run(Louder, {"inputs": ["a"]})) == ["A"]
    with pytest.raises(TypeError, match="Expected a docstring of `silent`"):

        @step()
        def silent(self):
            pass
