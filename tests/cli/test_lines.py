"""What commands read: the same from files and from standard input."""

from pathlib import Path

import pytest
from command_runs import standard_input

from keras_attn.cli.lines import READERS
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
