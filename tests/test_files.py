"""Files are whole or not there."""

import errno
import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from processes import run_python

from keras_attn.cli.lines import check_files
from keras_attn.export import replaced_folder
from keras_attn.files import (
    atomic_folder,
    atomic_write,
    check_output,
    check_writable,
    only_one,
    remove_partial_files,
    whole,
)


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


@pytest.mark.parametrize("write", [atomic_write, atomic_folder])
def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path, write):
    named = pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/file'")
    with named as caught, write(tmp_path / "file"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="device: 'other'"), write(tmp_path / "file"):
        raise OSError(errno.ENOSPC, "No space left on device", "other")
    with pytest.raises(OSError, match=r"Input/output error$"), write(tmp_path / "file"):
        raise OSError(errno.EIO, "Input/output error")
    assert os.listdir(tmp_path) == []


def test_no_room_for_a_probe(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        check_writable(tmp_path)


def test_damaged_archives_are_told_with_the_name_of_the_file(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, numbers=np.arange(9))
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"\x93NUMPY") + 140] ^= 1
    path.write_bytes(raw)
    named = pytest.raises(ValueError, match=r"a\.npz, which is cut off or damaged \(Bad CRC-32")
    with named, whole(path), np.load(path) as arrays:
        arrays["numbers"]
    packed = tmp_path / "a.gz"
    raw = bytearray(gzip.compress(b"word " * 99))
    for broken in (raw[:-9], raw[:-8] + bytes(8), raw[:12] + b"\xff\xff" + raw[14:]):
        packed.write_bytes(broken)
        named = pytest.raises(ValueError, match=r"a\.gz, which is cut off or damaged \(\w")
        with named, whole(packed), gzip.open(packed) as file:
            file.read()


def test_leavings_of_killed_processes_are_removed(tmp_path):
    (tmp_path / ".partial-file-0123abcd").write_text("half")
    writing = atomic_write(tmp_path / "file")
    writing.__enter__().write_text("another process writes this now")
    other = atomic_write(tmp_path / "other")
    other.__enter__().write_text("and this")
    assert len(os.listdir(tmp_path)) == 3
    remove_partial_files(tmp_path / "file")
    remove_partial_files(tmp_path / "nothing")
    left = sorted(name[:14] for name in os.listdir(tmp_path))
    assert left == [".partial-file-", ".partial-other"]
    assert (tmp_path / "file").exists() is False
    writing.__exit__(None, None, None)
    other.__exit__(None, None, None)
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


KILLED = """
import os, signal, sys
from keras_attn.export import replaced_folder
with replaced_folder(sys.argv[1], overwrite=True) as folder:
    folder.mkdir()
    (folder / "saved_model.pb").write_text("half")
    print(*os.listdir("."), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_an_export_that_was_killed_leaves_nothing_for_good(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_text("old")
    done = run_python("tensorflow", KILLED, tmp_path / "model", cwd=tmp_path, check=False)
    assert done.returncode != 0 and ".partial-model-" in done.stdout
    assert (tmp_path / "model" / "saved_model.pb").read_text() == "old"
    assert len(os.listdir(tmp_path)) == 2
    with replaced_folder(tmp_path / "model", overwrite=True) as folder:
        assert len(os.listdir(tmp_path)) == 2  # its own one, and what is there
        with replaced_folder(tmp_path / "model", overwrite=True) as second:
            second.mkdir()
            (second / "saved_model.pb").write_text("new")
        folder.mkdir()
        (folder / "saved_model.pb").write_text("newer")
    assert os.listdir(tmp_path) == ["model"]
    assert (tmp_path / "model" / "saved_model.pb").read_text() == "newer"


@pytest.mark.parametrize("write", [atomic_write, atomic_folder])
def test_a_file_system_that_is_read_only(tmp_path, monkeypatch, write):
    def refuse(self, *args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system", str(self))

    for name in ("write_bytes", "touch", "mkdir"):
        monkeypatch.setattr(f"pathlib.Path.{name}", refuse)
    message = "is on a read-only file system. Give another folder"
    with pytest.raises(OSError, match=message) as caught, write(tmp_path / "file"):
        pass
    assert caught.value.errno == errno.EROFS and str(tmp_path) in str(caught.value)
    with pytest.raises(OSError, match=message):
        check_writable(tmp_path / "new")


def test_no_permission_for_a_file(tmp_path):
    refused = pytest.raises(PermissionError, match=r"to write to .*/file\. Give another folder")
    with refused, atomic_write(tmp_path / "file") as partial:
        raise PermissionError(errno.EACCES, "Permission denied", str(partial))
    with pytest.raises(PermissionError, match="denied: 'other'"), atomic_write(tmp_path / "file"):
        raise PermissionError(errno.EACCES, "Permission denied", "other")
    assert os.listdir(tmp_path) == []


def test_what_another_process_writes_beside_stays(tmp_path):
    with atomic_folder(tmp_path / "data-fr") as other:
        with atomic_folder(tmp_path / "data") as partial:
            (partial / "a").write_text("a")
        (other / "b").write_text("b")
    assert (tmp_path / "data-fr" / "b").read_text() == "b"


def test_links_are_followed_and_pipes_are_left_alone(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_write(tmp_path / "link") as partial:
        partial.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"), atomic_write(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_is_whole_or_not_there(tmp_path):
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "folder") as partial:
        (partial / "file").write_text("x")
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    killed = tmp_path / ".partial-folder-0123abcd"
    killed.mkdir()
    (killed / "file").write_text("x")
    with atomic_folder(tmp_path / "folder") as partial:
        (partial / "file").write_text("x")
    assert os.listdir(tmp_path) == ["folder"]
    with pytest.raises(FileExistsError, match="Give another"), atomic_folder(tmp_path / "folder"):
        pass


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_a_folder_that_another_is_filling_stays(tmp_path):
    with pytest.raises(OSError), atomic_folder(tmp_path / "folder") as first:
        (first / "file").write_text("x")
        with atomic_folder(tmp_path / "folder") as second:
            (second / "other").write_text("y")
        assert (first / "file").read_text() == "x"  # the second one was ready before
    assert os.listdir(tmp_path) == ["folder"] and os.listdir(tmp_path / "folder") == ["other"]


def test_one_process_at_a_time(tmp_path):
    with only_one(tmp_path / ".lock", "trains"):
        again = only_one(tmp_path / ".lock", "trains")
        with pytest.raises(BlockingIOError, match="Another process trains in"):
            again.__enter__()
    with only_one(tmp_path / ".lock", "trains"):
        pass


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


def test_outputs_and_inputs_are_checked_before_the_work(tmp_path):
    with pytest.raises(
        IsADirectoryError, match=r"Expected the path of a file. Received: .*, which is a folder"
    ):
        check_output(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"Expected a file. Received: nowhere.txt, which"):
        check_files((Path("-"), Path("nowhere.txt")))
