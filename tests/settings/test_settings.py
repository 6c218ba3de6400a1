"""Settings: what files may hold, what is said of the rest, and the choice of a kind."""

import dataclasses
import re

import pytest

from keras_attn import tasks
from keras_attn.models import ENCODER_DECODERS
from keras_attn.settings import (
    Kinds,
    Settings,
    differences,
    read_settings,
    setting,
    size,
    with_defaults,
    write_settings,
)
from keras_attn.tasks import (
    Task,
    TextClassifier,
    TextGenerator,
    TranslationData,
    TranslationTraining,
    TranslationUse,
    Translator,
)

SECTIONS = Translator.sections()
MODEL = ENCODER_DECODERS.made


def write(folder, text):
    path = folder / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_written_is_read(tmp_path):
    odd = 'quotes " and \\ back\u00e4\n\ttab \u2028 \x7f \x00 # no comment'
    sections = {
        "data": TranslationData(train=odd, vocabulary_size=300, separate_vocabularies=True),
        "training": TranslationTraining(learning_rate=1e-05),
        "use": TranslationUse(alpha=-0.5, num_return_sequences=2),
    }
    write_settings(tmp_path / "settings.toml", sections)
    read = read_settings(tmp_path / "settings.toml", SECTIONS)
    assert {name: SECTIONS[name].made(read[name]) for name in sections} == sections


def test_a_table_may_be_written_in_a_string(tmp_path):
    training = TextClassifier.Training
    table = {"good": 2.0, "very bad": 1}
    written = training(class_weight='{good = 2.0, "very bad" = 1}')
    assert written.class_weight == table and training(class_weight=table) == written
    write_settings(tmp_path / "settings.toml", {"training": written})
    read = read_settings(tmp_path / "settings.toml", {"training": training})["training"]
    assert training.made(read) == written
    for wrong in ('{"good": 2.0}', "{good=2.0", "{good 2.0}"):
        with pytest.raises(ValueError, match="`class_weight` must be a word, or a table as TOML"):
            training(class_weight=wrong)


@pytest.mark.parametrize("task", [Translator, TextClassifier, TextGenerator])
def test_each_setting_has_a_help_text_and_a_default_that_is_allowed(task):
    for section in task.sections().values():
        section.made({})
        for option in section.declared():
            assert len(option.help) > 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\ndimm = 3", r"unknown setting `dimm` in \[model\]\. Did you mean `dim`"),
        ("[training]\nlerning_rate = 3", "Did you mean `learning_rate`"),
        ("[modle]\ndim = 3", r"unknown section \[modle\]\. Did you mean `model`"),
        ("[zzz]\ndim = 3", r"unknown section \[zzz\]\. Known: data, model, training, use, test"),
        ("dim = 3", r"`dim` is outside of its section\. Put it under \[model\]"),
        ("model = 3", r"expected a section \[model\]\. Received: model = 3"),
        ("[model\ndim", "Expected a TOML file"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_settings(write(tmp_path, text), SECTIONS)


def test_values_that_no_file_can_hold(tmp_path):
    with pytest.raises(ValueError, match=r"encoded as UTF-8.*udce9.*rename the file"):
        write_settings(tmp_path / "a.toml", {"data": TranslationData(train="caf\udce9.csv")})
    for make in (lambda x: TranslationTraining(learning_rate=x), lambda x: MODEL({"dropout": x})):
        with pytest.raises(ValueError, match=r"must be a finite number\. Received: 9999"):
            make(10**401 - 1)
    with pytest.raises(ValueError, match=r"must be one of.*Received: \['bag'\]"):
        MODEL({"model": ["bag"]})


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="settings file"):
        read_settings(tmp_path / "nothing.toml", SECTIONS)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"dim": 0}, ValueError, "at least 1. Received: 0"),
        ({"dim": "8"}, TypeError, "of type int. Received: '8'"),
        ({"dim": True}, TypeError, "of type int. Received: True"),
        ({"dropout": 1}, ValueError, "`dropout` must be below 1. Received: 1.0"),
        ({"dropout": float("nan")}, ValueError, "finite"),
        ({"normalize_first": 1}, TypeError, "of type bool"),
    ],
)
def test_bad_values(values, error, message):
    with pytest.raises(error, match=message):
        MODEL(values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"num_layers": 4, "normalize_first": False},
        {"positions": "rotary", "normalization": "rms_norm", "gated": True, "rematerialize": True},
        {"model": "rnn", "attention": "none", "cell": "lstm", "units": 64},
        {"model": "rnn", "attention": "luong-dot", "window": "predictive", "window_size": 3},
        {"model": "rnn", "order": "luong", "input_feeding": False, "recurrent_dropout": 0.2},
    ],
    ids=str,
)
def test_a_choice_is_read_again(tmp_path, values):
    """What stands in the file of a run is a settings file, and gives the same model."""
    model = MODEL(values)
    write_settings(tmp_path / "settings.toml", {"model": model})
    read = read_settings(tmp_path / "settings.toml", {"model": ENCODER_DECODERS})
    again = MODEL(read["model"])
    assert again.entries() == model.entries()
    config = ENCODER_DECODERS.make(model, source_vocabulary_size=300)
    assert ENCODER_DECODERS.make(again, source_vocabulary_size=300) == config
    described = ENCODER_DECODERS.describe(config)
    assert ENCODER_DECODERS.make(described) == config
    assert described["model"] == values.get("model", "transformer")
    assert {name: described[name] for name in values} == values


def test_options_of_several_kinds_are_one():
    kinds = Kinds("kind", "plain", "what it is")

    @kinds.register("fancy")
    @dataclasses.dataclass(frozen=True)
    class Fancy(Settings):
        count: int = size("how many there are")
        dim: int = setting(4, "width", at_least=1)
        colour: str | None = setting(None, "its colour", kind=str, choices=("red", "blue"))

    @kinds.register("plain")
    @dataclasses.dataclass(frozen=True)
    class Plain(Settings):
        count: int = size("how many there are")
        dim: int = setting(8, "width", at_least=1)

    options = {option.name: option for option in kinds.declared()}
    assert [*options] == ["kind", "dim", "colour"]  # no sizes
    assert (options["kind"].default, options["kind"].choices) == ("plain", ("plain", "fancy"))
    assert (options["dim"].help, options["dim"].default) == ("width", "plain: 8, fancy: 4")
    assert options["colour"].help == "fancy: its colour"
    assert kinds.make({"dim": 3}, count=2, other=7) == Plain(2, 3)
    assert kinds.make(Fancy(5, 6), count=2) == Fancy(2, 6)
    assert kinds.make("fancy", count=2) == Fancy(2)
    assert (kinds.made("fancy").name, kinds.made("fancy").named) == ("fancy", True)
    chosen = kinds.made(Fancy(5, 6))
    assert (chosen.name, dict(chosen.values)) == ("fancy", {"dim": 6, "colour": None})
    assert kinds.made(chosen) is chosen
    with pytest.raises(TypeError, match=r"'Plain', 'Fancy'\], or a dict of settings. Received: 7"):
        kinds.made(7)
    for wrong, message in (
        ({"colour": "red"}, "`colour` is only used with kind='fancy'. Received: colour='red'"),
        ({"kind": "fancy", "colour": "green"}, "one of 'red', 'blue'"),
        ({"kind": "odd"}, "one of 'plain', 'fancy'. Received: 'odd'"),
        ({"dim": 0}, "at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            kinds.made(wrong)
    with pytest.raises(TypeError, match=r"Unknown setting `dimm`\. Did you mean `dim`"):
        kinds.made({"dimm": 3})


def test_inherited_settings_with_other_defaults():
    @dataclasses.dataclass(frozen=True)
    class Base(Settings):
        speed: int = setting(3, "{pages} an hour", at_least=1)

    @dataclasses.dataclass(frozen=True)
    class Other(Settings):
        place: str = setting("chair", "where, with {pages}", choices=("chair", "bed"))

    @dataclasses.dataclass(frozen=True)
    @with_defaults(
        speed=5,
        words={"pages": "leaves"},
        steps={"place": ["fit"]},
        choices={"place": ("chair", "floor")},
        required={"place": True},
    )
    class Quick(Other, Base):
        aloud: bool = setting(False, "for the others")

    @dataclasses.dataclass(frozen=True)
    @with_defaults(speed=None, help={"place": "there"})
    class Free(Quick):
        pass

    assert (Base().speed, Quick().speed, Quick.speed, Free().speed) == (3, 5, 5, None)
    with pytest.raises(ValueError, match="`speed` must be at least 1"):
        Quick(speed=0)
    with pytest.raises(TypeError, match=r"`speed` must be of type int\. Received: None"):
        Quick(speed=None)
    speed, place, aloud = Quick.declared()
    assert (speed.help, place.help, aloud.name) == ("leaves an hour", "where, with leaves", "aloud")
    assert (place.steps, place.choices, place.required) == (("fit",), ("chair", "floor"), True)
    assert [option.help for option in Base.declared()] == ["{pages} an hour"]
    assert (Free.declared()[1].help, Free.declared()[1].steps) == ("there", ("fit",))
    for wrong in ({"sped": 5}, {"help": {"sped": "fast"}}):
        with pytest.raises(TypeError, match=r"Unknown setting `sped`\. Did you mean `speed`"):
            with_defaults(**wrong)(type("Wrong", (Base,), {}))


def test_words_of_families_are_replaced_in_all_tasks():
    classes = [kind for kind in vars(tasks).values() if isinstance(kind, type)]
    every = [kind for kind in classes if issubclass(kind, Task) and hasattr(kind, "name")]
    assert len(every) == 15
    braces = {
        (task.name, option.name): option.help
        for task in every
        for section in task.sections().values()
        for option in section.declared()
        if re.search(r"{\w+}", option.help)
    }
    assert [*braces] == [("visual-questions", "image_name")]  # a pattern of file names


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"attention": "luong-dot"}, "`attention` is only used with model='rnn'"),
        (
            {"units": 64},
            r"`units` is only used with model='rnn'\. Received: units=64 with model='tr",
        ),
        ({"window": "monotonic"}, "`window` is only used with model='rnn'"),
        ({"model": "rnn", "num_heads": 8}, "`num_heads` is only used with model='transformer'"),
        (
            {"model": "rnn", "normalize_first": False},
            "`normalize_first` is only used with model='tr",
        ),
        ({"model": "rnn", "gated": True}, "`gated` is only used with model='transformer'"),
        ({"positions": "learned"}, "`positions` .*'sinusoidal_from_one', 'rotary', 'alibi'"),
        ({"model": "rnn", "window_size": 3}, "`window_size` requires a `window`"),
        ({"model": "rnn", "units": 7}, "`units` must be even"),
        (
            {"model": "rnn", "attention": "none", "order": "luong"},
            "`order` can only be used with att",
        ),
        (
            {"model": "rnn", "attention": "none", "input_feeding": True},
            "`input_feeding` can only be used with",
        ),
        (
            {"model": "rnn", "attention": "none", "window": "monotonic"},
            "`window.* can only be used with",
        ),
        ({"model": "rnn", "attention": "luong"}, "Did you mean 'luong-"),
        ({"model": "gru"}, r"one of 'transformer', 'rnn', 't5'\. Received: 'gru'"),
        ({"num_layers": 0}, "at least 1"),
    ],
)
def test_settings_that_do_not_apply_to_the_model(values, message):
    with pytest.raises(ValueError, match=message):
        MODEL(values)


def test_choices_name_the_nearest():
    with pytest.raises(
        ValueError, match=r"Received: 'mixed_bfloat'\. Did you mean 'mixed_bfloat16'"
    ):
        TranslationTraining(precision="mixed_bfloat")
    with pytest.raises(ValueError, match="above 0"):
        TranslationTraining(learning_rate=0.0)


def test_differences_count_what_shapes_the_result():
    here = TranslationTraining(epochs=3, checkpoint_steps=5, device="cpu")
    assert differences(TranslationTraining(epochs=20), here) == ["epochs is 20 there, 3 here"]
    assert type(MODEL({"dropout": 0}).values["dropout"]) is float
