"""Readers of sentence pairs from files: tables, parallel files, JSON lines, folders.

They check every line, and report all problems of a file at once. `keras_attn.line_ends` defines
where lines end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypedDict, Unpack

from keras_attn.records.opened_lines import is_zip, open_lines, open_member
from keras_attn.records.pair_reading import Checks, PairReading
from keras_attn.records.parallel import ParallelText
from keras_attn.records.reading import Location, chosen_format, find_file
from keras_attn.records.rows import has_rows
from keras_attn.records.tables import Column, Table, check_columns


class PairColumns(TypedDict, total=False):
    """Arguments of `read_pairs` for the columns of a table."""

    source: int | str
    target: int | str
    delimiter: str


def pair_columns(source: str | None, target: str | None, delimiter: str = "") -> PairColumns:
    """Returns the arguments of `read_pairs` for columns that are given as strings."""
    found: PairColumns = {}
    if source:
        found["source"] = int(source) if source.isdecimal() else source
    if target:
        found["target"] = int(target) if target.isdecimal() else target
    if delimiter:
        found["delimiter"] = delimiter
    return found


def read_pairs(
    path: Location,
    target_path: Location | None = None,
    *,
    format: str = "auto",
    source: int | str | None = None,
    target: int | str | None = None,
    split: str | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    **checks: Unpack[Checks],
) -> ParallelText:
    r"""Reads sentence pairs; the format is inferred from the path.

    | path | format | read by |
    |---|---|---|
    | with a `target_path` | `"parallel"` | `read_parallel` |
    | a folder | `"multi30k"` | `read_multi30k` |
    | `*.zip` | `"tatoeba"` | `read_tatoeba` |
    | `*.jsonl`, `*.ndjson`, `*.json` | `"jsonl"` | `read_json_lines` |
    | `*.tsv`, `*.tab`, `*.txt` | `"tsv"` | `read_tsv` |
    | `*.csv` | `"csv"` | `read_tsv`, with a comma as the usual `delimiter` |
    | `*.parquet`, `*.pq`, `Rows` | `"jsonl"` | `read_json_lines`; each row is an object |

    Text files may be gzipped (`*.gz` at the end of these names). Texts are UTF-8, or UTF-16 with a
    byte order mark; lines end at "\n", "\r\n" or "\r". Lines are counted from 1.

    Args:
        path: The file or the folder.
        target_path: A second file, whose line i is the translation of line i of the first.
        format: `"auto"`, or a format in the table.
        source: Where the source sentences are: name or number (from 0) of the column, key of the
            JSON object, or language of the folder's files. The default depends on the format.
        target: Where the translations are, in the same form.
        split: First part of the names of the folder's files, `"train"` by default; only for
            `format="multi30k"`.
        header: Whether the first row contains column names; only for the formats `"tsv"` and
            `"csv"`.
        delimiter: The character between columns; only for the formats `"tsv"` and `"csv"`. Default:
            as in `read_tsv`.
        **checks: Settings that all readers of pairs have.
            `on_error`: `"error"` (default) raises one ValueError for all bad lines. `"skip"` leaves
                them out, and lists them in `problems` of the result.
            `max_characters`: Maximum number of characters of a sentence. Default None: no limit.
            `normalize_spaces`: Whether white space at the ends is stripped, and runs of white space
                (including no-break spaces and Unicode line ends) become one space. Default True.
            `unique`: Whether a repeated pair is kept only once. Default False: repetitions are
                kept, so that a test set stays complete, and they are counted in `repeated`.

    Returns:
        A `ParallelText`, a sequence of `TranslationPair` with `problems`, `counts` and `summary()`.

    Raises:
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        OSError: If a file does not exist or cannot be read.
        ValueError: With `on_error="error"`, if a line is bad (the message has the line number): it
            has invalid UTF-8, a sentence that is too long, empty or without visible characters, too
            few columns, or JSON that is invalid or lacks a sentence. With any `on_error`, if there
            is no pair or no such column, a setting does not apply to the format, two files have
            different numbers of lines, or a file is damaged.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "pairs.tsv")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write("Hello.\tHallo.\nThank you!\t\nNo.\tNein.\n")
    >>> text = read_pairs(path, source=1, target=0, on_error="skip")
    >>> [pair.target for pair in text]
    ['Hello.', 'No.']
    >>> text.problems
    [LineProblem(line=2, kind='empty', what='the source is empty')]
    """
    if isinstance(path, str):
        path = os.path.expanduser(path)
    if format == "auto" and target_path is not None:
        format = "parallel"
    elif format == "auto" and Path(path).is_dir():
        format = "multi30k"
    elif format == "auto" and not has_rows(path) and not Path(path).exists():
        raise FileNotFoundError(f"Expected a file or a folder. Received: {os.fspath(path)}.")
    expected = "a `target_path`, a folder, or a file"
    format = chosen_format(format, path, _SUFFIXES, _READERS, expected)
    reader, known = _READERS[format]
    given: dict[str, object] = {"source": source, "target": target, "split": split}
    given |= {"header": header, "delimiter": delimiter, "target_path": target_path}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in known:
            takes = ", ".join(f"`{known_name}`" for known_name in known)
            raise ValueError(
                f"`{name}` is not a setting of the format {format!r}, which takes {takes}. "
                f"Received: {name}={options[name]!r}."
            )
    if format == "parallel" and target_path is None:
        raise ValueError("The format 'parallel' needs a `target_path`. Received: None.")
    return reader(path, **options, **checks)


def read_tsv(
    path: Location,
    source: Column = 0,
    target: Column = 1,
    header: bool | None = None,
    delimiter: str | None = None,
    **checks: Unpack[Checks],
) -> ParallelText:
    r"""Reads sentence pairs from columns of a table, plain or gzipped.

    Blank lines are skipped. In tab-separated files, quotation marks have no special meaning, and
    additional columns are ignored. With any other `delimiter`, cells may be in quotation marks, and
    a row with more or fewer cells than the first row is bad; usually it has a delimiter outside
    quotation marks.

    Args:
        path: The file.
        source: Name or number (from 0) of the column of the source sentences.
        target: Name or number of the column of the translations.
        header: Whether the first row contains column names. Default: True if a column is given by
            name.
        delimiter: The character between columns. Default: a tab, unless the first row contains the
            column names separated by `,`, `;` or `|`.
        **checks: The settings `on_error`, `max_characters`, `normalize_spaces` and `unique`, as in
            `read_pairs`.

    Returns:
        A `ParallelText`, in the order of the file.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If a line is bad, there is no pair, or the file is damaged, as in `read_pairs`.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "pairs.tsv")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write("Hello.\tHallo.\tCC-BY\nThank you!\tDanke!\n")
    >>> [pair.target for pair in read_tsv(path)]
    ['Hallo.', 'Danke!']
    """
    return _read_columns("\t", path, source, target, header, delimiter, **checks)


def _read_columns(
    usual: str,
    path: Location,
    source: Column = 0,
    target: Column = 1,
    header: bool | None = None,
    delimiter: str | None = None,
    **checks: Unpack[Checks],
) -> ParallelText:
    _check_different(source, target)
    tabs = (delimiter or usual) == "\t"
    columns = {"source": source, "target": target}
    table = Table(columns, delimiter, not tabs, header, not tabs, usual)
    with open_lines(path) as lines:
        return _read_table(path, lines, table, checks)


def read_parallel(
    source_path: Location, target_path: Location, **checks: Unpack[Checks]
) -> ParallelText:
    r"""Reads two parallel files, plain or gzipped: line i of one is the translation of line i of
    the other.

    If the files have different numbers of lines, an error is raised with any `on_error`, because
    all pairs after a missing line would be wrong.

    Args:
        source_path: The file of source sentences, one per line.
        target_path: The file of translations.
        **checks: The settings `on_error`, `max_characters`, `normalize_spaces` and `unique`, as in
            `read_pairs`.

    Returns:
        A `ParallelText`, in the order of the files.

    Raises:
        OSError: If a file cannot be read.
        ValueError: As in `read_pairs`, or if the same file was given twice.

    Example:

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> paths = [os.path.join(folder, name) for name in ("text.en", "text.de")]
    >>> for path, text in zip(paths, ["Hello.\nNo.\n", "Hallo.\nNein.\n"]):
    ...     with open(path, "w", encoding="utf-8") as file:
    ...         _ = file.write(text)
    >>> read_parallel(*paths)[1]
    TranslationPair(source='No.', target='Nein.', groups=())
    """
    reading = PairReading(f"{os.fspath(source_path)} and {os.fspath(target_path)}", **checks)
    if os.path.samefile(source_path, target_path):
        raise ValueError(f"Expected two files. Received: {os.fspath(source_path)} twice.")
    counts = [0, 0]
    with open_lines(source_path) as sources, open_lines(target_path) as targets:
        for number, sides in enumerate(zip_longest(sources, targets), start=1):
            counts = [n + (side is not None) for n, side in zip(counts, sides, strict=True)]
            if None not in sides:
                source = reading.decode(number, sides[0], "source")
                target = reading.decode(number, sides[1], "target")
                reading.add(number, source, target)
    if counts[0] != counts[1]:
        raise ValueError(
            f"Expected files with equal numbers of lines. Received: {os.fspath(source_path)} with "
            f"{counts[0]:,} lines, {os.fspath(target_path)} with {counts[1]:,}. A line is missing "
            "in one of them, so later lines do not match. Correct the files; on_error='skip' "
            "does not help here."
        )
    reading.lines = counts[0]
    return reading.finish()


def read_json_lines(
    path: Location, source: str = "source", target: str = "target", **checks: Unpack[Checks]
) -> ParallelText:
    r"""Reads sentence pairs from JSON lines (plain or gzipped), each line a JSON object.

    The rows of Parquet files and `Rows` are read like JSON objects.

    Dots in a key lead to nested objects, as in `"text.en"`. If an object lacks a key, it is looked
    up under `"translation"`, so that `source="en", target="de"` reads both `{"en": "No.", "de":
    "Nein."}` and `{"translation": {"en": "No.", "de": "Nein."}}`. Blank lines are skipped.

    Args:
        path: The file.
        source: Key of the source sentence.
        target: Key of its translation.
        **checks: The settings `on_error`, `max_characters`, `normalize_spaces` and `unique`, as in
            `read_pairs`.

    Returns:
        A `ParallelText`, in the order of the file.

    Raises:
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        OSError: If the file cannot be read.
        ValueError: If a line is bad, there is no pair, or the file is damaged, as in `read_pairs`.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "pairs.jsonl")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write('{"translation": {"en": "No.", "de": "Nein."}}\n')
    >>> read_json_lines(path, source="en", target="de")[0].target
    'Nein.'
    """
    reading = PairReading(path, **checks)
    _check_different(source, target)
    check_columns({"source": source, "target": target}, of_json=True)
    with open_lines(path) as lines:
        for number, record in reading.records(lines):
            reading.add(number, *(reading.value(number, record, key) for key in (source, target)))
    return reading.finish()


def read_multi30k(
    folder: Location,
    source: str = "de",
    target: str = "en",
    split: str = "train",
    **checks: Unpack[Checks],
) -> ParallelText:
    r"""Reads a folder of files `SPLIT.LANGUAGE` or `SPLIT.LANGUAGE.gz`, such as Multi30k's.

    Multi30k has the splits `train`, `val` and `test_2016_flickr` in the languages `en`, `de` and
    `fr`. Other folders with file names of this form can also be read.

    Args:
        folder: The folder.
        source: Language of the source sentences.
        target: Language of the translations.
        split: First part of the files' names.
        **checks: The settings `on_error`, `max_characters`, `normalize_spaces` and `unique`, as in
            `read_pairs`.

    Returns:
        A `ParallelText`, in the order of the files.

    Raises:
        OSError: If there is no such folder or file.
        ValueError: If a line is bad, there is no pair, or the file is damaged, as in `read_pairs`.

    Example:

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for language, text in {"de": "Ein Hund.\n", "en": "A dog.\n"}.items():
    ...     with open(os.path.join(folder, f"val.{language}"), "w", encoding="utf-8") as file:
    ...         _ = file.write(text)
    >>> read_multi30k(folder, "en", "de", split="val")[0].target
    'Ein Hund.'
    """
    _check_different(source, target)
    advice = " Choose another `split` or language."
    sides = (source, target)
    paths = [find_file(folder, [f"{split}.{side}"], advice=advice) for side in sides]
    return read_parallel(*paths, **checks)


def read_tatoeba(
    path: Location, source: int = 0, target: int = 1, **checks: Unpack[Checks]
) -> ParallelText:
    r"""Reads Tatoeba's sentence pairs from a zip archive, or from the file in it.

    An archive from manythings.org/anki contains one tab-separated text file, with columns for the
    English sentence, the other language and, in newer archives, the authors. With `source=1,
    target=0`, English is the target. Tatoeba's own exports have a number before each sentence: use
    `source=1, target=3`. The sentences are under CC-BY 2.0: name their authors if you publish them.

    A sentence with several translations gives several pairs, which `split_pairs` keeps together.

    Args:
        path: The zip archive, or the text file in it, plain or gzipped.
        source: Number of the column of the source sentences, from 0.
        target: Number of the column of the translations.
        **checks: The settings `on_error`, `max_characters`, `normalize_spaces` and `unique`, as in
            `read_pairs`.

    Returns:
        A `ParallelText`, in the order of the file.

    Raises:
        OSError: If the file cannot be read.
        ValueError: As in `read_pairs`, or if the archive does not have exactly one text file.

    Example:

    >>> import os, tempfile, zipfile
    >>> path = os.path.join(tempfile.mkdtemp(), "deu-eng.zip")
    >>> with zipfile.ZipFile(path, "w") as archive:
    ...     archive.writestr("deu.txt", "No.\tNein.\tCC-BY 2.0 ...\n")
    ...     archive.writestr("_about.txt", "Where it is from.")
    >>> read_tatoeba(path, source=1, target=0)[0].target
    'No.'
    """
    if not is_zip(path):
        return read_tsv(path, source, target, **checks)
    _check_different(source, target)
    table = Table({"source": source, "target": target}, "\t", quotes=False, exact=False)
    with open_member(path) as lines:
        return _read_table(path, lines, table, checks)


_READERS: dict[str, tuple[Callable[..., ParallelText], tuple[str, ...]]] = {
    "tsv": (read_tsv, ("source", "target", "header", "delimiter")),
    "csv": (partial(_read_columns, ","), ("source", "target", "header", "delimiter")),
    "parallel": (read_parallel, ("target_path",)),
    "jsonl": (read_json_lines, ("source", "target")),
    "multi30k": (read_multi30k, ("source", "target", "split")),
    "tatoeba": (read_tatoeba, ("source", "target")),
}
_SUFFIXES = {
    **{".tsv": "tsv", ".tab": "tsv", ".txt": "tsv", ".csv": "csv", ".zip": "tatoeba"},
    **{".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"},
}


def _read_table(
    path: Location, lines: Iterator[bytes], table: Table, checks: Checks
) -> ParallelText:
    reading = PairReading(path, **checks)
    for number, cells in table.cells(reading, lines):
        reading.add(number, cells["source"], cells["target"])
    return reading.finish()


def _check_different(source: Column, target: Column) -> None:
    if source == target:
        raise ValueError(
            f"`source` and `target` must be different columns. Received: {source!r} twice."
        )
