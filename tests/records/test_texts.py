"""Plain text: files and their parts."""

import pytest

from keras_attn.records import read_text, split_text


def test_text_files(tmp_path):
    file = tmp_path / "t.txt"
    file.write_bytes("\ufeffé\r\nb\rc\n".encode())
    assert read_text(file) == "é\nb\nc\n"
    file.write_bytes(b"a\xffb")
    with pytest.raises(ValueError, match="byte 0xff at byte 2"):
        read_text(file)
    file.write_bytes(b"")
    with pytest.raises(ValueError, match="empty"):
        read_text(file)
    with pytest.raises(FileNotFoundError, match="a folder"):
        read_text(tmp_path)
    with pytest.raises(FileNotFoundError, match="nothing"):
        read_text(tmp_path / "none")


def test_splits():
    text = "".join(map(chr, range(65, 65 + 37)))
    for dev, test in [(0, 0), (0.05, 0.1), (0.5, 0.4), (0, 0.1), (0.3, 0)]:
        parts = split_text(text, dev, test)
        assert "".join(parts) == text
    # As everybody cuts tiny Shakespeare: data[:int(n * 0.9)], data[int(n * 0.9):]
    n = 1_115_394
    assert [len(p) for p in split_text("x" * n, 0, 0.1)] == [int(n * 0.9), 0, n - int(n * 0.9)]
    for dev, test in [(-0.1, 0.1), (0.1, -0.1), (0.5, 0.5), (1, 0)]:
        with pytest.raises(ValueError, match="together below 1"):
            split_text(text, dev, test)
