"""What commands read: the same from files and from standard input."""

import gzip
from pathlib import Path

import pytest
from command_runs import standard_input

from keras_attn.cli.lines import READERS, read_chunks
from keras_attn.records.encodings import files_in


def test_lines_in_another_encoding(tmp_path):
    content = "caf\u00e9\tna\u00efve\r\n\u00fcber\t\n"
    expected = [("caf\u00e9", "na\u00efve"), ("\u00fcber", "")]
    for encoding in ("cp1252", "utf-16", "utf-8"):
        (tmp_path / "a.txt").write_bytes(content.encode(encoding))
        with files_in(encoding):
            READERS["only_pairs"].check((tmp_path / "a.txt",), False)
            assert list(READERS["only_pairs"].chunks((tmp_path / "a.txt",))) == [expected]


@pytest.mark.parametrize("name", [n for n in READERS if READERS[n].argument == "files"])
def test_packed_and_marked_files(tmp_path, name):
    """They are read as `fit` reads them: gzipped, and UTF-16 with a byte order mark."""
    content = "caf\u00e9\tb\nc\td\n"
    (tmp_path / "a.txt").write_text(content, encoding="utf-8")
    expected = list(READERS[name].chunks((tmp_path / "a.txt",)))
    (tmp_path / "b").write_bytes(gzip.compress(content.encode()))
    (tmp_path / "c.txt").write_bytes(content.encode("utf-16"))
    for file in (tmp_path / "b", tmp_path / "c.txt"):
        READERS[name].check((file,), True)
        assert list(READERS[name].chunks((file,))) == expected


@pytest.mark.parametrize(
    ("begins", "message"),
    [(b"PAR1", "a Parquet file"), (b"PK\x03\x04", "zip archive"), (b"\x1f\x8b\x08", "damaged")],
)
def test_files_that_are_no_text(tmp_path, begins, message):
    (tmp_path / "a").write_bytes(begins + b"\n")
    with pytest.raises(ValueError, match=message):
        list(READERS["lines"].chunks((tmp_path / "a",)))


@pytest.mark.parametrize("name", [n for n in READERS if READERS[n].argument == "files"])
def test_standard_input(tmp_path, name):
    content = "\ufeffa\tb\r\nc\td e\tf"
    (tmp_path / "a.txt").write_text(content, encoding="utf-8")
    expected = list(READERS[name].chunks((tmp_path / "a.txt",)))
    assert sum(map(len, expected)) == 2
    for files in ((), (Path("-"),)):
        READERS[name].check(files, True)
        with standard_input(content):
            assert list(READERS[name].chunks(files)) == expected
    with standard_input(""):
        assert list(READERS[name].chunks(())) == []


def test_closed_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ValueError, match=r"which is closed\. Give files instead"):
        list(read_chunks(()))
