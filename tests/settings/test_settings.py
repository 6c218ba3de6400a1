"""Settings files: what they may hold, and what is said of the rest."""

import dataclasses

import pytest

from keras_attn.models import ENCODER_DECODERS
from keras_attn.settings import differences, read_settings, write_settings
from keras_attn.tasks import (
    TranslationDataSettings,
    TranslationDecodingSettings,
    TranslationModelSettings,
    TranslationTrainingSettings,
)
from keras_attn.tasks.translation_settings import SECTIONS

KINDS = [
    TranslationDataSettings,
    TranslationModelSettings,
    TranslationTrainingSettings,
    TranslationDecodingSettings,
]


def write(folder, text):
    path = folder / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_written_is_read(tmp_path):
    odd = 'quotes " and \\ back\u00e4\n\ttab \u2028 \x7f \x00 # no comment'
    sections = {
        "data": TranslationDataSettings(train=odd, vocabulary_size=300, separate_vocabularies=True),
        "model": TranslationModelSettings(dropout=0.25),
        "training": TranslationTrainingSettings(learning_rate=1e-05),
        "decoding": TranslationDecodingSettings(alpha=-0.5),
    }
    write_settings(tmp_path / "settings.toml", sections)
    read = read_settings(tmp_path / "settings.toml", SECTIONS)
    assert {name: SECTIONS[name](**values) for name, values in read.items()} == sections


@pytest.mark.parametrize("kind", KINDS)
def test_each_setting_has_a_help_text_and_a_default_that_is_allowed(kind):
    kind()
    for field in dataclasses.fields(kind):
        assert len(field.metadata["help"]) > 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\ndimm = 3", r"unknown setting `dimm` in \[model\]\. Did you mean `dim`"),
        ("[training]\nlerning_rate = 3", "Did you mean `learning_rate`"),
        ("[modle]\ndim = 3", r"unknown section \[modle\]\. Did you mean `model`"),
        ("[zzz]\ndim = 3", r"unknown section \[zzz\]\. Known: data, model"),
        ("dim = 3", r"`dim` stands outside of its section\. Put it under \[model\]"),
        ("model = 3", r"expected a section \[model\]\. Received: model = 3"),
        ("[model\ndim", "Expected a TOML file"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_settings(write(tmp_path, text), SECTIONS)


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
        TranslationModelSettings(**values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"num_layers": 4, "normalize_first": False},
        {"positions": "rotary", "normalization": "rms_norm", "gated": True, "rematerialize": True},
        {"model": "rnn", "attention": "none", "cell": "lstm", "units": 64},
        {"model": "rnn", "attention": "luong-dot", "window": "predictive", "window_size": 3},
        {"model": "rnn", "order": "luong", "input_feeding": "no", "recurrent_dropout": 0.2},
    ],
    ids=str,
)
def test_settings_of_both_kinds_of_model_are_read_again(tmp_path, values):
    """What stands in the file of a run is a settings file, and gives the same model."""
    model = TranslationModelSettings(**values)
    write_settings(tmp_path / "settings.toml", {"model": model})
    read = read_settings(tmp_path / "settings.toml", SECTIONS)
    again = TranslationModelSettings(**read["model"])
    assert again == model
    assert again.config() == model.config()
    kind, _ = ENCODER_DECODERS[model.model]
    kind(300, **{k: v for k, v in model.config().items() if k != "model"})


def test_the_number_of_layers_suits_the_model():
    assert TranslationModelSettings().num_layers == 3
    assert TranslationModelSettings(model="rnn").num_layers == 1
    assert TranslationModelSettings(model="rnn", num_layers=2).config()["num_layers"] == 2


def test_what_auto_means():
    config = TranslationModelSettings(model="rnn", attention="luong-general").config()
    assert config["model"] == "rnn"
    for name in ("order", "input_feeding", "window", "window_size"):
        assert config[name] is None
    config = TranslationModelSettings(
        model="rnn", order="luong", input_feeding="yes", window="monotonic"
    ).config()
    assert (config["order"], config["input_feeding"]) == ("luong", True)
    assert (config["window"], config["window_size"]) == ("monotonic", 10)
    assert not {"units", "cell", "attention"} & TranslationModelSettings().config().keys()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"attention": "luong-dot"}, "`attention` belongs to model='rnn'"),
        ({"units": 64}, r"`units` belongs to model='rnn'\. Received: units=64 with model='tr"),
        ({"window": "monotonic"}, "`window` belongs to model='rnn'"),
        ({"model": "rnn", "num_heads": 8}, "`num_heads` belongs to model='transformer'"),
        ({"model": "rnn", "normalize_first": False}, "`normalize_first` belongs to model='tr"),
        ({"model": "rnn", "gated": True}, "`gated` belongs to model='transformer'"),
        ({"positions": "learned"}, "`positions` .*'sinusoidal', 'rotary', 'alibi'"),
        ({"model": "rnn", "window_size": 3}, "`window_size` belongs to a window"),
        ({"model": "rnn", "units": 7}, "`units` must be even"),
        ({"model": "rnn", "attention": "none", "order": "luong"}, "`order` belong to an att"),
        ({"model": "rnn", "attention": "none", "input_feeding": "yes"}, "`input_feeding` belong"),
        ({"model": "rnn", "attention": "none", "window": "monotonic"}, "`window.* belong to an"),
        ({"model": "rnn", "attention": "luong"}, "Did you mean 'luong-"),
        ({"model": "gru"}, r"one of 'transformer', 'rnn'\. Received: 'gru'"),
        ({"num_layers": -1}, "at least 0"),
    ],
)
def test_settings_that_do_not_apply_to_the_model(values, message):
    with pytest.raises(ValueError, match=message):
        TranslationModelSettings(**values)


def test_choices_name_the_nearest():
    with pytest.raises(
        ValueError, match=r"Received: 'mixed_bfloat'\. Did you mean 'mixed_bfloat16'"
    ):
        TranslationTrainingSettings(precision="mixed_bfloat")
    with pytest.raises(ValueError, match="above 0"):
        TranslationTrainingSettings(learning_rate=0.0)


def test_differences_count_what_shapes_the_result():
    here = TranslationTrainingSettings(epochs=3, checkpoint_steps=5, device="cpu")
    assert differences(TranslationTrainingSettings(), here) == ["epochs is 20 there, 3 here"]
    assert TranslationModelSettings(dropout=0).dropout == 0.0
