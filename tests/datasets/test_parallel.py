import pytest

from keras_attn.datasets import TranslationPair, read_tsv


def write(tmp_path, data: bytes):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(data)
    return path


def test_reads_normalises_and_keeps_pairs_once(tmp_path):
    text = "\ufeffHello  you.\t Hallo du. \tCC-BY\textra\r\n\nBye\tTschüss\nHello you.\tHallo du.\n"
    pairs = read_tsv(write(tmp_path, text.encode()))
    assert pairs == [
        TranslationPair("Hello you.", "Hallo du.", ()),
        TranslationPair("Bye", "Tschüss", ()),
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\tb\nno tab here\n", r"line 2: expected source<TAB>target.*'no tab here'"),
        (b"a\tb\nc\td\nx\xff\ty\n", r"line 3: expected UTF-8 text.*0xff at column 2"),
        (b"\tb\n", r"line 1: .*empty source"),
        (b"a\t \n", r"line 1: .*empty target"),
        (b"\n\n", "at least one"),
        (b"", "at least one"),
    ],
)
def test_errors_name_the_line(tmp_path, data, message):
    with pytest.raises(ValueError, match=message):
        read_tsv(write(tmp_path, data))


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_tsv(tmp_path / "none.tsv")
