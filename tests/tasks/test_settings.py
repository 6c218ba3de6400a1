"""Settings files: what they may hold, and what is said of the rest."""

import dataclasses

import pytest

from keras_attn.tasks import (
    TranslationDataSettings,
    TranslationDecodingSettings,
    TranslationModelSettings,
    TranslationTrainingSettings,
)
from keras_attn.tasks.settings import differences, read_settings, write_settings
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
