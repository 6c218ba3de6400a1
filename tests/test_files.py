"""Files are whole or not there."""

import os

import pytest

from keras_attn.files import atomic_write, check_writable, remove_partial_files


def test_the_old_file_stays_where_writing_fails(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(OSError, match="full"), atomic_write(path) as partial:
        partial.write_text("new, but not wh")
        raise OSError("disk full")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_new_file_replaces_the_old_one_at_the_end(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_write(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
        assert partial.parent == tmp_path  # the same disk, so that the replacing is one step
    assert path.read_text() == "new"


def test_leavings_of_killed_processes_are_removed(tmp_path):
    writing = atomic_write(tmp_path / "file")
    writing.__enter__().write_text("half")
    (tmp_path / "other").write_text("mine")
    assert len(os.listdir(tmp_path)) == 2
    remove_partial_files(tmp_path)
    assert os.listdir(tmp_path) == ["other"]


def test_places_that_cannot_be_written_to(tmp_path):
    assert check_writable(tmp_path / "a" / "b").is_dir()
    assert os.listdir(tmp_path / "a" / "b") == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match="a file"):
        check_writable(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="Give another folder"):
        check_writable(tmp_path)


def test_no_permission_whoever_runs_this(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.write_bytes", refuse)
    with pytest.raises(PermissionError, match=r"No permission to write to .* Give another folder"):
        check_writable(tmp_path)
