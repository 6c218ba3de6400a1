"""Vectors of words in the files of GloVe, word2vec and NumPy, read and written."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import os
import re
from collections.abc import Collection, Container, Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np

from keras_attn.files import atomic_write, whole
from keras_attn.input_files import input_file
from keras_attn.interop.word_vector_arrays import read_npz, read_vector_array, words_beside
from keras_attn.line_ends import cut_lines

FORMATS = ("glove", "word2vec", "word2vec_binary", "npy", "npz")
_SUFFIXES = {".bin": "word2vec_binary", ".npy": "npy", ".npz": "npz"}
_LONGEST_WORD = 2000  # bytes
_LONGEST_LINE = 1 << 20
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclasses.dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors; `vectors[word]` is the vector of a word, float32 `(D,)`.

    Args:
        words: The N words, all different.
        vectors: Their vectors of width D, `(N, D)`, which are converted to float32.

    Raises:
        ValueError: If a word occurs twice, or `vectors` does not have the shape `(N, D)`.

    Example:

    >>> vectors = WordVectors(["cat", "dog"], np.eye(2))
    >>> vectors.dim, vectors["dog"].tolist(), "cow" in vectors
    (2, [0.0, 1.0], False)
    """

    words: list[str]
    vectors: np.ndarray

    def __post_init__(self) -> None:
        vectors = np.asarray(self.vectors, "float32")
        if vectors.ndim != 2 or len(vectors) != len(self.words) or not vectors.shape[1]:
            raise ValueError(
                f"Expected a vector for each of the {len(self.words)} words, an array (N, D). "
                f"Received: shape {vectors.shape}."
            )
        object.__setattr__(self, "words", list(self.words))
        object.__setattr__(self, "vectors", vectors)
        if len(self._places) < len(self.words):
            raise ValueError("Expected distinct words. Received: repeated words.")

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @property
    def dim(self) -> int:
        """Width D of the vectors."""
        return self.vectors.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._places

    def __getitem__(self, word: str) -> np.ndarray:
        return self.vectors[self._places[word]]

    def __repr__(self) -> str:
        return f"<WordVectors of {len(self):,} words, {self.dim} wide>"


def read_word_vectors(
    path: str | os.PathLike[str],
    wanted: Collection[str] | None = None,
    first: int = 0,
    format: str = "auto",
    words: Sequence[str] | str | os.PathLike[str] | None = None,
) -> WordVectors:
    """Reads word vectors from a file.

    | format | file |
    |---|---|
    | `"glove"` | text: a word and its numbers on each line, separated by spaces or tabs |
    | `"word2vec"` | text: a line with the number of words and the width, then as in `"glove"` |
    | `"word2vec_binary"` | the first line of `"word2vec"`, then each word and its float32 numbers |
    | `"npy"` | a NumPy array, with the words in a text file, one per line, or in Parquet |
    | `"npz"` | a NumPy archive with `words` and `vectors` |

    Only the requested vectors are kept, so a file (except an `.npz` archive) may be larger than
    memory. Text and word2vec files may be gzipped. If a word occurs twice, its first vector is
    used. A word in a text file may contain spaces, like some of GloVe's, but must not end with a
    space and a number.

    Args:
        path: The file.
        wanted: The words to keep. If None, only the `first` words are kept, or all words of the
            file if `first` is 0.
        first: Number of words at the start of the file that are also kept. Most files begin with
            the most frequent words.
        format: One of the formats, or `"auto"` to infer it from the suffix (`.bin`, `.npy`, `.npz`)
            or the first line.
        words: For `format="npy"`, the words, or a file with the words. By default, the file in the
            same folder with the same name and the suffix `.txt` or `.parquet`, or the only file
            with the suffix `.txt` or `.parquet`. Parquet needs pyarrow.

    Returns:
        A `WordVectors` of the kept words, in the order of the file.

    Raises:
        FileNotFoundError: If a file is missing.
        ImportError: If the words are in a Parquet file, and pyarrow is not installed.
        ValueError: If a file is truncated or does not have the format (for example, if a line has
            more or fewer numbers than the first line; the message names the line or word), if a
            vector is not finite, or if `words` are given for another format than `"npy"`.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "vectors.txt"
    >>> _ = path.write_text("the 0.5 1\\ncat 2 3\\ndog -1 0\\n")
    >>> found = read_word_vectors(path, wanted=["dog", "cow"], first=1)
    >>> found.words, found.vectors.tolist()
    (['the', 'dog'], [[0.5, 1.0], [-1.0, 0.0]])
    """
    path, kind = _checked(path, format)
    if words is not None and kind != "npy":
        raise ValueError(
            f"`words` are only used with the format 'npy'. Received: `words` with {path}."
        )
    keep = _Keep(path, wanted, first)
    if kind in ("npy", "npz"):
        if kind == "npz":
            every, array = read_npz(path)
        else:
            array = read_vector_array(path)
            if words is None or isinstance(words, str | os.PathLike):
                every = words_beside(path, words)
            else:
                every = list(words)
        if len(every) != len(array):
            raise ValueError(
                f"{path}: expected a vector for each word. Received: {len(array):,} vectors, "
                f"{len(every):,} words."
            )
        rows = [i for i, word in enumerate(every) if keep.takes(word)]
        picked = np.asarray(array[rows], "float32")
        for i, row in zip(rows, picked, strict=True):
            if not np.isfinite(row).all():
                raise ValueError(f"{path}: the vector of {every[i]!r} is not finite.")
        return WordVectors([every[i] for i in rows], picked)
    with whole(path), _opened(path) as file:
        width = (_binary if kind == "word2vec_binary" else _text)(file, keep, kind)
    return WordVectors(keep.words, np.frombuffer(keep.data, "float32").reshape(-1, width))


def word_vector_width(path: str | os.PathLike[str], format: str = "auto") -> int:
    """Returns the width of the vectors in a file, reading only its beginning if possible.

    Args:
        path: The file.
        format: One of the formats of `read_word_vectors`, or `"auto"` to infer it.

    Returns:
        The width D of the vectors.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file does not have the format.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "vectors.txt"
    >>> _ = path.write_text("the 0.5 1\\n")
    >>> word_vector_width(path)
    2
    """
    path, kind = _checked(path, format)
    if kind == "npz":
        return read_npz(path)[1].shape[1]
    if kind == "npy":
        return read_vector_array(path).shape[1]
    with whole(path), _opened(path) as file:
        line = next(cut_lines(file, _LONGEST_LINE), b"")
        return _line_width(path, line) if kind == "glove" else _sizes(path, line)[1]


def write_word_vectors(
    path: str | os.PathLike[str], vectors: WordVectors, format: str = "auto"
) -> None:
    """Writes word vectors to a file atomically.

    In text files, numbers have nine digits, so that float32 values are restored exactly.

    Args:
        path: The file. A text or word2vec file is gzipped if its name ends in `.gz`. With
            `format="npy"`, the words are written to a file with the same name and the suffix
            `.txt`.
        vectors: The words and their vectors.
        format: One of the formats of `read_word_vectors`, or `"auto"` to infer it from the suffix:
            `"glove"` if the suffix belongs to no other format.

    Raises:
        ValueError: If the format is unknown, or a word is empty or has white space.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "vectors.bin"
    >>> write_word_vectors(path, WordVectors(["cat", "dog"], [[0.1, 2], [3, 4]]))
    >>> read_word_vectors(path).words
    ['cat', 'dog']
    """
    path = Path(path).expanduser()
    if format == "auto":
        format = _SUFFIXES.get(Path(path.name.lower().removesuffix(".gz")).suffix, "glove")
    _check_format(format)
    for word in vectors.words:
        if not word or any(c.isspace() for c in word):
            raise ValueError(
                "Expected words without white space, which separates words in a file. "
                f"Received: {word!r}."
            )
    if format == "npz":
        encoded = np.frombuffer("\n".join(vectors.words).encode("utf-8"), "uint8")
        with atomic_write(path) as partial, open(partial, "wb") as file:
            np.savez(file, words=encoded, vectors=vectors.vectors)
        return
    if format == "npy":
        with atomic_write(path.with_suffix(".txt")) as partial:
            partial.write_text("".join(f"{w}\n" for w in vectors.words), "utf-8", newline="\n")
        with atomic_write(path) as partial, open(partial, "wb") as file:
            np.save(file, vectors.vectors)
        return
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with atomic_write(path) as partial, opened(partial, "wb") as file:
        if format != "glove":
            file.write(f"{len(vectors)} {vectors.dim}\n".encode())
        for word, row in zip(vectors.words, vectors.vectors, strict=True):
            if format == "word2vec_binary":
                numbers = row.astype("<f4").tobytes()
            else:
                numbers = " ".join(f"{x:.9g}" for x in row).encode()
            file.write(word.encode("utf-8") + b" " + numbers + b"\n")


class _Keep:
    """Chooses among the words of a file, and collects the vectors of those."""

    def __init__(self, path: Path, wanted: Collection[str] | None, first: int):
        if isinstance(first, bool) or first < 0:
            raise ValueError(f"`first` must be an integer of at least 0. Received: {first!r}.")
        self.path = path
        self.wanted = None if wanted is None and not first else frozenset(wanted or ())
        self.bytes = (
            set() if self.wanted is None else {w.encode("utf-8", "replace") for w in self.wanted}
        )
        self.first = first
        self.words: list[str] = []
        self.data = bytearray()
        self.seen: set[str] = set()
        self.passed = 0

    def takes(self, word: str | bytes) -> bool:
        """Whether the next word of the file is kept."""
        self.passed += 1
        if self.wanted is not None and self.passed > self.first:
            wanted: Container[str | bytes] = self.wanted if isinstance(word, str) else self.bytes
            if word not in wanted:
                return False
        if isinstance(word, bytes):
            word = word.decode("utf-8", "replace")
        if word in self.seen or not word:
            return False
        self.seen.add(word)
        return True

    def add(self, word: bytes, vector: np.ndarray, where: str) -> None:
        """Keeps a vector."""
        if not np.isfinite(vector).all():
            raise ValueError(
                f"{self.path}: expected finite numbers. Received: NaN or infinity {where}."
            )
        self.words.append(word.decode("utf-8", "replace"))
        self.data += vector.astype("float32").tobytes()


def _checked(path: str | os.PathLike[str], format: str) -> tuple[Path, str]:
    """The path of a file and its format."""
    path = input_file(path, "a file of word vectors")
    if format == "auto":
        format = _SUFFIXES.get(Path(path.name.lower().removesuffix(".gz")).suffix, "")
        if not format:
            with whole(path), _opened(path) as file:
                fields = next(cut_lines(file, _LONGEST_LINE), b"").split()
            header = len(fields) == 2 and all(field.isdigit() for field in fields)
            format = "word2vec" if header else "glove"
    _check_format(format)
    return path, format


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise ValueError(
            f"`format` must be 'auto' or one of {', '.join(map(repr, FORMATS))}. Received: "
            f"{format!r}."
        )


def _opened(path: Path) -> IO[bytes]:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path, "rb")) if zipped else open(path, "rb")


def _sizes(path: Path, line: bytes) -> tuple[int, int]:
    """Number of words and width from the first line of word2vec's files."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 12 for field in fields):
        raise ValueError(
            f"{path}: expected a first line with the number of words and the width of their "
            f"vectors. Received: {line[:60]!r}."
        )
    count, width = map(int, fields)
    if not count or not 0 < width < 100_000:
        raise ValueError(
            f"{path}: expected words and vectors. Received: {count} words, {width} wide."
        )
    return count, width


def _line_width(path: Path, line: bytes) -> int:
    fields = line.split()[1:]
    if not fields:
        raise _no_vector(path, line, 1)
    return len(_numbers(path, fields, line, 1))


def _numbers(path: Path, fields: Sequence[bytes], line: bytes, number: int) -> np.ndarray:
    try:
        return np.array([float(field) for field in fields], "float32")
    except ValueError as error:
        raise _no_vector(path, line, number) from error


def _no_vector(path: Path, line: bytes, number: int) -> ValueError:
    return ValueError(
        f"{path}: expected a word and the numbers of its vector on each line, as in the text files "
        f"of GloVe and word2vec. Received: {line[:60]!r} in line {number:,}."
    )


def _lines(file: IO[bytes], path: Path) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(cut_lines(file, _LONGEST_LINE), start=1):
        if len(line) == _LONGEST_LINE:
            raise ValueError(f"{path}: line {number:,} is too long for a word and its vector.")
        yield number, line.rstrip(b" \t")


def _single_spaces(path: Path, line: bytes, width: int, number: int) -> bytes:
    """A line of a word, which may have spaces, and so many numbers, with single spaces."""
    fields = [field for field in line.split(b" ") if field]
    more = len(fields) > width + 1 and _NUMBER.fullmatch(fields[-width - 1])
    if more or len(fields) <= width:
        problem = "more numbers" if more else "fewer"
        raise ValueError(
            f"{path}: expected a word and {width} numbers on each line. Received: {problem}, "
            f"{line[:60]!r} in line {number:,}. The file may be "
            f"{'damaged' if more else 'cut off'}."
        )
    return b" ".join(fields)


def _text(file: IO[bytes], keep: _Keep, kind: str) -> int:
    """Reads lines of words and numbers; returns the width."""
    path, count = keep.path, None
    width = -1
    lines = _lines(file, path)
    if kind == "word2vec":
        count, width = _sizes(path, next(lines, (1, b""))[1])
    number, tabs = 0, None
    for number, line in lines:
        if tabs is None:
            tabs = b"\t" in line
        if tabs:
            line = line.replace(b"\t", b" ")
        if number == 1:
            width = _line_width(path, line.removeprefix(b"\xef\xbb\xbf"))
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.count(b" ") != width or b"  " in line or line.startswith(b" "):
            line = _single_spaces(path, line, width, number)
        word = line.rsplit(b" ", width)[0]
        if keep.takes(word):
            numbers = _numbers(path, line[len(word) + 1 :].split(b" "), line, number)
            keep.add(word, numbers, f"in line {number:,}")
    if width < 0:
        raise ValueError(f"{path}: expected word vectors. Received: an empty file.")
    if count is not None and number - 1 != count:
        raise ValueError(
            f"{path}: expected {count:,} words, as its first line says. Received: "
            f"{number - 1:,}. The file may be cut off."
        )
    return width


def _binary(file: IO[bytes], keep: _Keep, kind: str) -> int:
    """Reads word2vec's binary form; returns the width."""
    path = keep.path
    count, width = _sizes(path, file.readline(100))
    size = 4 * width
    for number in range(1, count + 1):
        word = _word(file, path, number)
        if keep.takes(word):
            data = file.read(size)
            if len(data) == size:
                keep.add(word, np.frombuffer(data, "<f4"), f"of word {number:,}")
        else:
            data = file.read(size)
        if len(data) < size:
            raise ValueError(
                f"{path}: expected {count:,} words with {width} numbers each. Received: the "
                f"end of the file within word {number:,}. The file may be cut off."
            )
    if file.read(2).strip():
        raise ValueError(f"{path}: expected {count:,} words. Received: more bytes after them.")
    return width


def _word(file: IO[bytes], path: Path, number: int) -> bytes:
    word = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte or len(word) > _LONGEST_WORD:
            what = "the end of the file" if not byte else f"{_LONGEST_WORD} bytes without one"
            raise ValueError(
                f"{path}: expected word {number:,} and a space. Received: {what}. The file "
                "may be cut off, or have vectors of another width."
            )
        if byte != b"\n" or word:  # some writers end each word with a newline
            word += byte
    return bytes(word)
