"""What commands read: the same from files and from standard input."""

from pathlib import Path

import pytest
from command_runs import standard_input

from keras_attn.cli.lines import READERS


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
