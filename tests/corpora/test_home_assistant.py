import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from keras_attn.corpora import DownloadError, home_assistant, load_home_assistant

STRINGS = {
    "lamp": {
        "en": {
            "title": "Lamp",
            "a": {"x": "Turn the  light\non", "y": "Only two"},
            "same": "Wi-Fi is here",
            "ref": "See [%key:common::state::on%] right here",
            "only": "Only in English here",
            "name": "Hello {name}, welcome back",
            "empty": "This one is empty",
        },
        "de": {
            "title": "Lampe",
            "a": {"x": "Licht einschalten ", "y": "Nur zwei"},
            "same": "Wi-Fi is here",
            "ref": "Siehe [%key:common::state::on%]",
            "name": "Hallo {name}, willkommen",
            "empty": " ",
        },
    },
    "bulb": {
        "en": {"b": "Turn the light on", "c": "Turn it off now"},
        "de": {"b": "Licht einschalten", "c": "Jetzt ausschalten"},
    },
    "other": {"en": {"b": "Not in German yet"}, "fr": {"b": "Pas en allemand"}},
}
PAIRS = [
    ("Turn the light on", "Licht einschalten", ("bulb", "lamp")),
    ("Turn it off now", "Jetzt ausschalten", ("bulb",)),
    ("Hello {name}, welcome back", "Hallo {name}, willkommen", ("lamp",)),
]


def make_wheel(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for integration, languages in STRINGS.items():
            for language, strings in languages.items():
                name = f"homeassistant/components/{integration}/translations/{language}.json"
                archive.writestr(name, json.dumps(strings))
        archive.writestr("homeassistant/components/lamp/strings/de.json", '{"x": "one two three"}')
        archive.writestr("homeassistant/__init__.py", "raise RuntimeError")
    return path


def fake_pip(monkeypatch, action, returncode=0, stderr=""):
    calls = []

    def run(command, **kwargs):
        calls.append(command)
        action(Path(command[command.index("-d") + 1]))
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_pairs_of_a_wheel(tmp_path):
    pairs = load_home_assistant("de", wheel=make_wheel(tmp_path / "w.whl"))
    assert [tuple(pair) for pair in pairs] == PAIRS


def test_min_words_and_the_other_direction(tmp_path):
    wheel = make_wheel(tmp_path / "w.whl")
    assert ("Only two", "Nur zwei", ("lamp",)) in load_home_assistant(
        "de", wheel=wheel, min_words=2
    )
    back = load_home_assistant("en", source="de", wheel=wheel, min_words=1)
    assert ("Jetzt ausschalten", "Turn it off now", ("bulb",)) in back


def test_languages_are_checked(tmp_path):
    wheel = make_wheel(tmp_path / "w.whl")
    with pytest.raises(ValueError, match=r"'xx'.*It has: de, en, fr"):
        load_home_assistant("xx", wheel=wheel)
    with pytest.raises(ValueError, match="different languages"):
        load_home_assistant("en", wheel=wheel)


def test_bad_wheels(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.whl"):
        load_home_assistant(wheel=tmp_path / "none.whl")
    half = tmp_path / "half.whl"
    half.write_bytes(make_wheel(tmp_path / "w.whl").read_bytes()[:-60])
    with pytest.raises(ValueError, match="whole wheel"):
        load_home_assistant(wheel=half)


def test_downloads_once_into_the_cache(tmp_path, monkeypatch, capsys):
    calls = fake_pip(monkeypatch, lambda folder: make_wheel(folder / home_assistant.WHEEL_NAME))
    cache = tmp_path / "deep" / "cache"
    monkeypatch.setenv("KERAS_ATTN_CACHE", str(cache))
    first = load_home_assistant()
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "67 MB" in err
    second = load_home_assistant(cache_dir=cache)
    assert [tuple(pair) for pair in first] == PAIRS == [tuple(pair) for pair in second]
    assert len(calls) == 1
    assert capsys.readouterr().err == ""
    folder = calls[0][calls[0].index("-d") + 1]
    assert calls[0] == [
        *[sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"],
        *["--python-version", "3.14.2", "-d", folder, "homeassistant==2026.11.0"],
    ]
    assert [path.name for path in cache.iterdir()] == [home_assistant.WHEEL_NAME]


def test_a_failing_pip_names_the_other_choices(tmp_path, monkeypatch):
    fake_pip(monkeypatch, lambda folder: None, 1, "x" * 5000 + "No matching distribution found")
    with pytest.raises(DownloadError) as caught:
        load_home_assistant(cache_dir=tmp_path)
    message = str(caught.value)
    assert "No matching distribution found" in message
    assert "exit status 1" in message
    assert "read_tsv" in message
    assert "wheel=" in message
    assert len(message) < 2000
    assert list(tmp_path.iterdir()) == []


def test_a_half_file_is_not_taken_for_a_whole_one(tmp_path, monkeypatch):
    def half(folder):
        data = make_wheel(folder / "w").read_bytes()
        (folder / home_assistant.WHEEL_NAME).write_bytes(data[:-60])

    cache = tmp_path / "cache"
    calls = fake_pip(monkeypatch, half)
    for _ in range(2):
        with pytest.raises(DownloadError):
            load_home_assistant(cache_dir=cache)
    assert len(calls) == 2
    assert list(cache.iterdir()) == []


def test_no_pip_to_run(tmp_path, monkeypatch):
    def nothing(folder):
        raise FileNotFoundError("no such program")

    fake_pip(monkeypatch, nothing)
    with pytest.raises(DownloadError, match="no such program"):
        load_home_assistant(cache_dir=tmp_path)
