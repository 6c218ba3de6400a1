"""Files of word vectors: bytes by hand, round trips, and files that are cut off or lie."""

import gzip
import resource
import struct
import sys
import zipfile

import numpy as np
import pytest

from keras_attn.interop import (
    WordVectors,
    read_word_vectors,
    word_vector_width,
    write_word_vectors,
)

GLOVE = "the 0.5 -1\ncaf\u00e9 2 3e-1\n. . . 4 5\ndog 6 7\n"
WORDS, ROWS = ["the", "caf\u00e9", ". . .", "dog"], [[0.5, -1], [2, 0.3], [4, 5], [6, 7]]
# word2vec.c writes "%s " and the floats, then a newline; others leave the newline out.
BINARY = b"".join(
    f"{word} ".encode() + struct.pack("<2f", *row) + b"\n"
    for word, row in zip(["</s>", "caf\u00e9", "dog"], [[1, 2], [3, 4.5], [-1, 0]], strict=True)
)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", ["v.txt", "v.vec.gz"])
def test_glove_text(tmp_path, name):
    data = gzip.compress(GLOVE.encode()) if name.endswith("gz") else GLOVE
    path = write(tmp_path / name, data)
    found = read_word_vectors(path)
    assert found.words == WORDS
    np.testing.assert_array_equal(found.vectors, np.array(ROWS, "float32"))
    assert (found.dim, word_vector_width(path), len(found)) == (2, 2, 4)
    some = read_word_vectors(path, {"dog", "cow"})
    assert (some.words, some["dog"].tolist(), "cow" in some) == (["dog"], [6.0, 7.0], False)
    assert read_word_vectors(path, ["dog"], first=2).words == ["the", "caf\u00e9", "dog"]
    assert read_word_vectors(path, first=1).words == ["the"]
    assert read_word_vectors(path, []).vectors.shape == (0, 2)


def test_word2vec_text(tmp_path):
    path = write(tmp_path / "v.vec", "3 2\nthe 1 2\ndog 3 4 \r\nthe 9 9\n")
    found = read_word_vectors(path)  # of a word that comes twice, the first
    assert (found.words, found.vectors.tolist()) == (["the", "dog"], [[1, 2], [3, 4]])
    assert word_vector_width(path) == 2


@pytest.mark.parametrize("first", ["", "2\t2\n"])
def test_tabs(tmp_path, first):
    for lines in ("the\t1\t2\nnew york\t3\t4\t\n", "the\t1 2\nnew york\t3 4\n"):
        path = write(tmp_path / ("v.vec" if first else "v.txt"), first + lines)
        found = read_word_vectors(path)
        assert (found.words, found.vectors.tolist()) == (["the", "new york"], [[1, 2], [3, 4]])
        assert word_vector_width(path) == 2


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_other_systems(tmp_path, end):
    for name, text in (("v.txt", GLOVE), ("v.vec", f"4 2\n{GLOVE}")):
        path = write(tmp_path / name, text.replace("\n", end))
        assert read_word_vectors(path).words == WORDS
        assert word_vector_width(path) == 2
    np.save(tmp_path / "a.npy", np.ones((4, 2)))
    words = write(tmp_path / "a.txt", "\n".join(WORDS).replace("\n", f"  {end}"))
    assert read_word_vectors(tmp_path / "a.npy", words=words).words == WORDS


def test_spaces_between_a_word_and_its_numbers(tmp_path):
    """Of any number, before the word too; a word of several parts has single ones."""
    text = "the  0.5 -1\ncaf\u00e9 2   3e-1 \n .  . .  4  5\n\tdog\t 6\t7\t\n"
    for first in ("", "4  2\n"):
        found = read_word_vectors(write(tmp_path / "v.txt", first + text.replace("\t", " ")))
        assert found.words == WORDS
        np.testing.assert_array_equal(found.vectors, np.array(ROWS, "float32"))
    assert read_word_vectors(write(tmp_path / "v.txt", "the\t1\t2\n" + text)).words == WORDS


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("cat 3", "fewer"), ("cat  3", "fewer"), ("cat", "fewer"), (" 3 4", "fewer"),
        ("cat 3 4 5", "more numbers"), ("cat  3 4 5", "more numbers"),
        ("cat 3 4 5 6", "more numbers"), ("new cat -1e-3 4 5", "more numbers"),
        ("7 .5 4 5", "more numbers"), ("", "fewer"),
    ],
)  # fmt: skip
def test_a_line_of_other_numbers_than_the_first_is_named(tmp_path, line, problem):
    """Whether its word is wanted or not; a line that makes up for it changes nothing."""
    path = write(tmp_path / "v.txt", f"the 1 2\n{line}\ncow 5 6 7\ndog 8\n")
    for wanted in (None, ["dog"]):
        with pytest.raises(ValueError) as error:
            read_word_vectors(path, wanted)
        assert f"2 numbers on each line. Received: {problem}, b'{line}' in line 2" in str(
            error.value
        )


@pytest.mark.parametrize("newlines", [True, False])
def test_word2vec_binary(tmp_path, newlines):
    rows = BINARY
    if not newlines:  # none of the floats has this byte
        rows = rows.replace(b"\n", b"")
    path = write(tmp_path / "v.bin", b"3 2\n" + rows)
    found = read_word_vectors(path)
    assert found.words == ["</s>", "caf\u00e9", "dog"]
    assert found.vectors.tolist() == [[1, 2], [3, 4.5], [-1, 0]]
    assert read_word_vectors(path, ["dog"]).vectors.tolist() == [[-1, 0]]
    assert word_vector_width(path) == 2


def test_numpy(tmp_path):
    vectors = np.arange(6.0, dtype="float16").reshape(3, 2)
    np.save(tmp_path / "v.npy", vectors)
    write(tmp_path / "names.txt", "\ufeffa\r\nb\r\ncaf\u00e9\r\n")
    for words in (None, tmp_path / "names.txt", ["a", "b", "caf\u00e9"]):
        found = read_word_vectors(tmp_path / "v.npy", ["caf\u00e9", "a"], words=words)
        assert (found.words, found.vectors.tolist()) == (["a", "caf\u00e9"], [[0, 1], [4, 5]])
    for words in (["a", "b", "caf\u00e9"], [b"a", b"b", "caf\u00e9".encode()]):
        np.savez_compressed(tmp_path / "v.npz", words=np.array(words), vectors=vectors)
        found = read_word_vectors(tmp_path / "v.npz", first=1)
        assert (found.words, found.vectors.tolist()) == (["a"], [[0, 1]])
    assert word_vector_width(tmp_path / "v.npy") == word_vector_width(tmp_path / "v.npz") == 2
    write(tmp_path / "v.txt", "x\ny\nz\n")  # of the same name: it goes before others
    assert read_word_vectors(tmp_path / "v.npy").words == ["x", "y", "z"]


def test_parquet(tmp_path, monkeypatch):
    np.save(tmp_path / "v.npy", np.ones((2, 3), "float32"))
    write(tmp_path / "index.parquet", "no such file")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ImportError, match=r"index\.parquet, needs the module pyarrow"):
            read_word_vectors(tmp_path / "v.npy")
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    with pytest.raises(ValueError, match="whole Parquet"):
        read_word_vectors(tmp_path / "v.npy")
    table = arrow.table({"index": ["a", "b"], "count": [3, 2]})
    parquet.write_table(table, tmp_path / "index.parquet")
    assert read_word_vectors(tmp_path / "v.npy").words == ["a", "b"]
    parquet.write_table(arrow.table({"count": [3, 2]}), tmp_path / "index.parquet")
    with pytest.raises(ValueError, match="one column of strings"):
        read_word_vectors(tmp_path / "v.npy")


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("v.txt", "auto"), ("v.txt.gz", "auto"), ("v.vec", "word2vec"), ("v.bin", "auto"),
        ("v.npy", "auto"), ("v.npz", "auto"), ("w2v.bin.gz", "word2vec_binary"),
        ("v.bin.gz", "auto"),
    ],
)  # fmt: skip
def test_round_trip_to_the_bit(tmp_path, name, format):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 7)).astype("float32") * 10.0 ** rng.integers(-30, 30, (40, 1))
    words = [f"w{i}" for i in range(38)] + ["\u6f22", "a,b\x01"]
    vectors = WordVectors(words, values)
    write_word_vectors(tmp_path / name, vectors, format)
    found = read_word_vectors(tmp_path / name)
    assert found.words == words
    np.testing.assert_array_equal(found.vectors, vectors.vectors)


def lying_npz(path):
    """An archive whose header of the vectors says what is not so."""
    np.savez(path, words=np.array(["a"]), vectors=np.ones((1, 2), "float32"))
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["vectors.npy"] = parts["vectors.npy"].replace(b"(1, 2), ", b"(9999999999, 2), ")
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return path.read_bytes()


def npy(header):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {header}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", "", "an empty file|a word and the numbers"),
        ("v.txt", "the\n", "a word and the numbers of its vector"),
        ("v.txt", "the 1 2\ndog 1\n", "in line 2. The file may be cut off"),
        ("v.txt", "the 1 2\ndog 1 x\n", "GloVe and word2vec.*b'dog 1 x' in line 2"),
        ("v.txt", "It was night.\nit is\n", "GloVe and word2vec.*It was night.* in line 1"),
        ("v.txt", "5\n", "a word and the numbers of its vector"),
        ("v.txt", "the 1 2\ndog 1 nan\n", "finite numbers. Received: NaN or infinity in line 2"),
        ("v.txt", "the " + "1 " * 700_000, "line 1 is too long"),
        ("v.vec", "3 2\nthe 1 2\n", "expected 3 words, as its first line says. Received: 1"),
        ("v.vec", "1 2\nthe 1 2\ndog 1 2\n", "Received: 2"),
        ("v.vec", "0 2\n", "0 words, 2 wide"),
        ("v.vec", "5 999999999\n", "5 words, 999999999 wide"),
        ("v.bin", b"3 2\n" + BINARY[:-3], "end of the file within word 3"),
        ("v.bin", b"4 2\n" + BINARY, "word 4 and a space. Received: the end"),
        ("v.bin", b"2 2\n" + BINARY, "more bytes after them"),
        ("v.bin", b"9999999999 50000\n" + b"x " + bytes(100), "within word 1"),
        ("v.bin", b"2 1\n" + b"x" * 5000, "2000 bytes without one"),
        ("v.bin", b"many few\n", "a first line with the number of words"),
        ("v.bin", b"1 1\na " + struct.pack("<f", float("inf")), "infinity of word 1"),
        ("v.npy", npy((1 << 40, 50)) + bytes(64), "cut off or damaged"),
        ("v.npy", npy((3,)) + bytes(12), r"floats of shape \(words, width\)"),
        ("v.npy", npy((2, 1)) + bytes(8), "2 vectors, 3 words"),
        ("v.npy", npy((3, 1)) + struct.pack("<3f", 0, 0, float("nan")), "'c' is not finite"),
        ("v.npy", b"\x80\x04K\x01.", "cut off or damaged"),
        ("v.npz", b"PK", "an archive of NumPy"),
        ("v.npz", None, "bytes of an array of 79,999,999,992"),
        ("v.gz", gzip.compress(GLOVE.encode(), mtime=0)[:-12], "cut off or damaged"),
    ],
)
def test_files_that_are_cut_off_or_lie(tmp_path, name, content, message):
    write(tmp_path / "v.words.txt", "a\nb\nc\n")
    if content is None:
        content = lying_npz(tmp_path / "lie.npz")
    path = write(tmp_path / name, content)
    kind = "npy" if name == "v.npy" else "auto"
    with pytest.raises(ValueError, match=message) as error:
        read_word_vectors(
            path, format=kind, words=tmp_path / "v.words.txt" if kind == "npy" else None
        )
    assert str(path) in str(error.value)


def test_wrong_use(tmp_path):
    path = write(tmp_path / "v.txt", GLOVE)
    with pytest.raises(FileNotFoundError, match="There is nothing"):
        read_word_vectors(tmp_path / "none.txt")
    with pytest.raises(FileNotFoundError, match="a folder"):
        word_vector_width(tmp_path)
    with pytest.raises(ValueError, match="`format` must be"):
        read_word_vectors(path, format="fasttext")
    with pytest.raises(ValueError, match="only used with the format 'npy'"):
        read_word_vectors(path, words=["a"])
    with pytest.raises(ValueError, match="`first`"):
        read_word_vectors(path, first=-1)
    (tmp_path / "other").mkdir()
    np.save(tmp_path / "other/v.npy", np.ones((1, 2)))
    with pytest.raises(FileNotFoundError, match=r"v\.txt or \.parquet"):
        read_word_vectors(tmp_path / "other/v.npy")
    with pytest.raises(ValueError, match="white space"):
        write_word_vectors(path, WordVectors(["New York"], [[1.0]]))
    for words, values in [(["a"], [[1.0], [2.0]]), (["a"], [1.0]), (["a", "a"], [[1.0], [2.0]])]:
        with pytest.raises(ValueError, match="Expected"):
            WordVectors(words, values)
    assert read_word_vectors(path).words == WORDS  # a write that failed leaves the old file


def test_a_large_file_costs_no_memory(tmp_path):
    """Of 60,000 words, 100 wide, one is kept: 24 MB of floats in the binary file."""
    rows = np.zeros((60_000, 100), "float32")
    write_word_vectors(tmp_path / "v.bin", WordVectors([f"w{i}" for i in range(60_000)], rows))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert read_word_vectors(tmp_path / "v.bin", ["w59999"]).words == ["w59999"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8_000
