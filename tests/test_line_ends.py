"""Lines: one way to cut them, whatever the file is read by."""

import io
import os
import random
import re
import sys

import pytest

from keras_attn.line_ends import cut_lines, with_newlines

CASES = [
    (b"", []),
    (b"one", [b"one"]),
    (b"one\n", [b"one"]),
    (b"one\r", [b"one"]),
    (b"one\r\n", [b"one"]),
    (b"\n\r\r\n", [b"", b""]),
    (b"one\ntwo\rthree\r\nfour", [b"one", b"two", b"three", b"four"]),
    (b"one\n\n\ntwo", [b"one", b"", b"", b"two"]),
    (b"one\r\r\rtwo", [b"one", b"", b"", b"two"]),
    (b"one\r\r\r", [b"one", b"", b""]),
    (b"one\r\n\r\n\r\ntwo", [b"one", b"", b"", b"two"]),
    (b"one\r\r\ntwo\r\r\r\n\r\r\n", [b"one", b"two", b""]),  # "\n" twice made to "\r\n"
    (b"one\r\n\rtwo\n\rthree", [b"one", b"", b"two", b"", b"three"]),
]


@pytest.mark.parametrize(("data", "lines"), CASES)
def test_ends(data, lines):
    assert list(cut_lines(io.BytesIO(data))) == lines
    text = with_newlines(data.decode())
    assert text.split("\n") == [*(line.decode() for line in lines), *[""] * (data[-1:] in b"\r\n")]


def test_no_other_character_ends_a_line():
    others = [c for c in map(chr, range(sys.maxunicode + 1)) if len(f"a{c}b".splitlines()) > 1]
    assert [c for c in others if c in "\n\r"] == ["\n", "\r"]
    text = "|".join(c for c in others if c not in "\n\r")
    assert list(cut_lines(io.BytesIO(f"{text}\r{text}\n".encode()))) == [text.encode()] * 2
    assert with_newlines(text) == text
    every = bytes(set(range(256)) - {10, 13})
    assert list(cut_lines(io.BytesIO(every + b"\r" + every))) == [every, every]


def test_ends_between_two_pieces_that_are_read():
    """Python reads 8,192 bytes at a time: ends stand within, at and across their borders."""
    rng = random.Random(0)
    for _ in range(200):
        data = b"".join(
            rng.choice([b"a" * rng.randrange(9000), b"\n", b"\r", b"\r\n"]) for _ in range(12)
        )
        expected = re.split(rb"\r*\n|\r", data)
        expected = expected[:-1] if not expected[-1] else expected
        assert list(cut_lines(io.BytesIO(data))) == expected
        assert with_newlines(data.decode()).encode() == re.sub(rb"\r*\n|\r", b"\n", data)


def test_a_line_is_given_when_its_end_is_written():
    """Who types waits for the answer to a line, and not for the end of the input."""
    source, target = os.pipe()
    with open(source, "rb") as file:
        lines = cut_lines(file)
        for line in (b"one", b"two"):
            os.write(target, line + b"\n")
            assert next(lines) == line
        os.close(target)
        assert list(lines) == []


def test_long_lines_come_in_pieces():
    assert list(cut_lines(io.BytesIO(b"abcdefg\rhi\n"), 3)) == [b"abc", b"def", b"g", b"hi"]
