"""Vectors of words in files of NumPy, with their words in text or Parquet."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from keras_attn.archives import map_array, open_archive
from keras_attn.input_files import input_file
from keras_attn.line_ends import with_newlines
from keras_attn.packages import needed


def read_vector_array(path: Path) -> np.ndarray:
    """Maps the vectors of a `.npy` file into memory; each row is read when it is used."""
    return _checked(map_array(path, "an array of NumPy"), path)


def read_npz(path: Path) -> tuple[list[str], np.ndarray]:
    """Reads words and vectors from a `.npz` archive."""
    with open_archive(path, "an archive of NumPy", sys.maxsize) as archive:
        if not {"words", "vectors"} <= set(archive.arrays()):
            raise ValueError(
                f"{path}: expected the arrays `words` and `vectors`. Received: "
                f"{sorted(archive.names)}."
            )
        words, vectors = archive.array("words"), archive.array("vectors")
    if words.dtype == np.uint8:
        text = _text(words.tobytes(), path)
        return text.split("\n") if text else [], _checked(vectors, path)
    if words.ndim != 1 or words.dtype.kind not in "US":
        raise ValueError(
            f"{path}: expected `words` to be strings. Received: {words.dtype} values of shape "
            f"{words.shape}."
        )
    found = words.tolist()
    if words.dtype.kind == "S":
        found = [_text(word, path) for word in found]
    return found, _checked(vectors, path)


def words_beside(path: Path, words: str | os.PathLike[str] | None) -> list[str]:
    """Reads the words of a `.npy` file from their own file, by default in the same folder."""
    place = _beside(path) if words is None else Path(words).expanduser()
    input_file(place, "a file of words")
    if place.suffix.lower() == ".parquet":
        return _parquet(place)
    text = _text(place.read_bytes(), place).removeprefix("\ufeff")
    return [line.strip(" \t") for line in with_newlines(text).removesuffix("\n").split("\n")]


def _beside(path: Path) -> Path:
    for suffix in (".txt", ".parquet"):
        if path.with_suffix(suffix).is_file():
            return path.with_suffix(suffix)
    found = [p for p in sorted(path.parent.iterdir()) if p.suffix.lower() in (".txt", ".parquet")]
    if len(found) != 1:
        names = ", ".join(p.name for p in found) or "none"
        raise FileNotFoundError(
            f"Expected the words of {path} in the same folder, in "
            f"{path.with_suffix('.txt').name} or .parquet, or in the only file of these "
            f"kinds. Received: {names}."
        )
    return found[0]


def _parquet(path: Path) -> list[str]:
    """The strings of the one column of strings in a Parquet file."""
    advice = "Or write the words to a text file, one on each line, and give that."
    with needed(f"A Parquet file of words, {path},", advice):
        from pyarrow import ArrowInvalid, parquet, types
    try:
        file = parquet.ParquetFile(path)
        schema = file.schema_arrow
        strings = [
            f.name for f in schema if types.is_string(f.type) or types.is_large_string(f.type)
        ]
        if len(strings) != 1:
            raise ValueError(
                f"{path}: expected one column of strings, the words. Received: the columns "
                f"{schema.names}."
            )
        found = file.read(columns=strings).column(0).to_pylist()
    except (ArrowInvalid, OSError) as error:
        raise ValueError(f"{path}: expected a whole Parquet file. Received: {error}.") from error
    return ["" if word is None else word for word in found]


def _checked(vectors: np.ndarray, path: Path) -> np.ndarray:
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or not vectors.shape[1]:
        raise ValueError(
            f"{path}: expected vectors, floats of shape (words, width). Received: {vectors.dtype} "
            f"values of shape {vectors.shape}."
        )
    return vectors


def _text(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected words in UTF-8. Received: {error}.") from error
