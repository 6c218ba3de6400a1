"""Readers of labelled texts from files: CSV, tab-separated, JSON lines, and two known corpora.

They check every line, and report all problems of a file at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Unpack

from keras_attn.input_files import input_file, read_input
from keras_attn.line_ends import with_newlines
from keras_attn.records.columns import read_columns
from keras_attn.records.labelled_reading import LabelledChecks, LabelledReading
from keras_attn.records.labelled_texts import LabelledTexts
from keras_attn.records.reading import Location, find_file
from keras_attn.records.rows import Rows
from keras_attn.records.tables import Column

SENTIMENT = {"0": "negative", "1": "positive"}

_REVIEW_FILE = re.compile(r"(\d+)_\d+\.txt")
_FILM = re.compile(r"/title/(tt\d+)")


def read_labelled(
    path: Location,
    text: Column = "text",
    label: Column = "label",
    format: str = "auto",
    *,
    text_pair: Column | None = None,
    group: Column | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    **checks: Unpack[LabelledChecks],
) -> LabelledTexts:
    r"""Reads labelled texts; the format is inferred from the path.

    | path | format | what it is |
    |---|---|---|
    | `*.csv` | `"csv"` | cells separated by commas, optionally in quotation marks |
    | `*.tsv`, `*.tab` | `"tsv"` | cells between tabs; quotation marks have no special meaning |
    | `*.jsonl`, `*.ndjson`, `*.json` | `"json_lines"` | a JSON object on each line |
    | `*.parquet`, `*.pq`, `Rows` | `"json_lines"` | rows, which are read like JSON objects |

    In CSV, a cell that contains commas, line breaks or quotation marks must be in quotation marks,
    and quotation marks within it are doubled. Files may be gzipped (`*.gz` at the end of these
    names). Texts are UTF-8, or UTF-16 with a byte order mark. Lines end at "\n", "\r\n" or "\r",
    and a line break within quotation marks is read as "\n". Blank lines are skipped. Lines are
    counted from 1, and a row of several lines has the number of its first line. A row with more or
    fewer cells than the first row is bad; usually it has a comma outside quotation marks. White
    space at the ends of texts and labels is stripped; otherwise texts are unchanged.

    Labels are strings. JSON integers and booleans become strings such as "1" and "true".

    Args:
        path: The file.
        text: Name or number (from 0) of the column of the texts; key of the JSON object.
        label: Name or number of the column of the labels; key of the JSON object.
        format: `"auto"`, `"csv"`, `"tsv"` or `"json_lines"`.
        text_pair: Name or number of the column of the second texts, for pairs of texts. None for
            single texts.
        group: Name or number of the column with the source of each text; None if there is none.
        header: Whether the first row contains column names. Default: True if a column is given by
            name.
        delimiter: The character between cells. Default: a comma in `"csv"` and a tab in `"tsv"`,
            unless another one of `,`, `;`, `|` and tab separates the column names in the first row.
            The summary states an inferred delimiter; an ambiguous first row raises an error.
        **checks: Settings of all readers of labelled texts.
            `on_error`: `"error"` (default) raises one ValueError for all bad lines. `"skip"` leaves
                them out, and lists them in `problems` of the result.
            `label_separator`: The separator between the labels of a text, if a text may have any
                number of labels; the label of each example is then a sorted tuple of names. JSON
                files may have lists of names instead. Default None: each text has one label.
            `label_names`: A dict from all allowed labels to their names, such as `{"0": "negative",
                "1": "positive"}`. Default None: any label is allowed and is its own name.
            `unique`: Whether a text that is repeated with the same label is kept only once. Default
                False: repetitions are kept, and counted in `repeated`.

    Returns:
        A `LabelledTexts`, a sequence of `LabelledText` with `problems`, `counts`, `label_counts`
        and `summary()`.

    Raises:
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        OSError: If the file does not exist or cannot be read.
        ValueError: With `on_error="error"`, if a line is bad (the message has the line number): it
            has invalid UTF-8, a text or label that is empty or has only invisible characters, a
            label that `label_names` lacks, a different number of cells, or JSON that is invalid or
            lacks a key. With any `on_error`, if there is no text or no such column (the message
            lists the columns), a setting does not apply to the format, a quotation mark is never
            closed, or the file is damaged.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "reviews.csv")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write('text,label\n"Good, really.",pos\nDull.,neg\n,neg\n')
    >>> texts = read_labelled(path, on_error="skip")
    >>> texts[0]
    LabelledText(text='Good, really.', label='pos', group='', second=None)
    >>> texts.label_counts, texts.problems
    ({'neg': 1, 'pos': 1}, [LineProblem(line=4, kind='empty', what='the text is empty')])
    """
    reading = LabelledReading(path, **checks)
    columns: dict[str, Column] = {"text": text, "label": label}
    columns |= {} if text_pair is None else {"text_pair": text_pair}
    columns |= {} if group is None else {"group": group}
    reading.pairs = text_pair is not None
    if not isinstance(path, Rows):
        input_file(path)
    reading.read(read_columns(path, columns, reading, format, delimiter, header=header, exact=True))
    return reading.finish()


def read_imdb(
    folder: Location, split: str = "train", on_error: str = "error", unique: bool = False
) -> LabelledTexts:
    r"""Reads the training or test set of the IMDB reviews, 25,000 reviews each.

    The folder is the unpacked official archive (`aclImdb`, with `train/pos/0_9.txt` and so on), or
    has a file of JSON lines, `imdb_train.jsonl` or `train.jsonl` (for the test set,
    `imdb_test.jsonl` or `test.jsonl`), with "text" and "label" (0 or 1), plain or gzipped. The
    labels of the result are "negative" and "positive". If the folder `train` or `test` has
    `urls_pos.txt` and `urls_neg.txt`, the `group` of each review is its film. White space at the
    ends of texts is stripped; otherwise texts are unchanged, including `<br />`.

    References:
        - [Maas et al., 2011](https://aclanthology.org/P11-1015/): Learning word vectors for
          sentiment analysis.

    Args:
        folder: The folder.
        split: `"train"` or `"test"`.
        on_error: `"error"` raises one ValueError for all bad files or lines; `"skip"` leaves them
            out, and lists them in `problems`.
        unique: Whether a text that is repeated with the same label is kept only once. 96 training
            reviews and 199 test reviews are repetitions, and 123 texts are in both sets (see
            `remove_labelled_overlap`).

    Returns:
        A `LabelledTexts`. From the official folder, negative reviews come first, in the order of
        the numbers in the file names.

    Raises:
        OSError: If there is no such folder or file.
        ValueError: If `split` is unknown, or if a file or line is bad, as in `read_labelled`.

    Example:

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for name, text in {"neg/0_2.txt": "Dull.", "pos/0_9.txt": "A <b>gem</b>."}.items():
    ...     path = os.path.join(folder, "test", name)
    ...     os.makedirs(os.path.dirname(path))
    ...     with open(path, "w", encoding="utf-8") as file:
    ...         _ = file.write(text)
    >>> read_imdb(folder, "test").examples[1]
    LabelledText(text='A <b>gem</b>.', label='positive', group='', second=None)
    """
    _check_split(split, ("train", "test"))
    base = Path(folder)
    if (base / split / "pos").is_dir() and (base / split / "neg").is_dir():
        reading = LabelledReading(os.fspath(base / split), on_error, unique)
        for name, label in (("neg", "negative"), ("pos", "positive")):
            films = _films(base / split / f"urls_{name}.txt")
            for number, path in _review_files(base / split / name):
                reading.lines += 1
                raw = read_input(path).removeprefix(b"\xef\xbb\xbf")
                text = reading.decode(reading.lines, raw, f"file {name}/{path.name}")
                reading.add(reading.lines, text, label, films.get(number, ""))
        return reading.finish()
    names = [f"imdb_{split}.jsonl", f"{split}.jsonl"]
    path = find_file(base, names, f", or folders {split}/pos and {split}/neg")
    return read_labelled(
        path, format="json_lines", on_error=on_error, unique=unique, label_names=SENTIMENT
    )


def read_sst2(
    folder: Location, split: str = "train", on_error: str = "error", unique: bool = False
) -> LabelledTexts:
    r"""Reads the training or development set of GLUE's SST-2, phrases and sentences about films.

    `train.tsv` has 67,349 phrases, including parts of sentences; `dev.tsv` has 872 sentences. (The
    labels of GLUE's test set are not public; models are compared on `dev.tsv`.) The labels are
    "negative" and "positive". The sentences come from Rotten Tomatoes reviews. If you also train on
    `load_movie_reviews`, remove the sentences of SST-2 from it with `remove_labelled_overlap`.

    References:
        - [Socher et al., 2013](https://aclanthology.org/D13-1170/): the treebank.
        - [Wang et al., 2019](https://arxiv.org/abs/1804.07461): GLUE.

    Args:
        folder: The folder with the file of the split, or with a folder `SST-2` that has it.
        split: `"train"` or `"dev"`.
        on_error: `"error"` raises one ValueError for all bad lines; `"skip"` leaves them out, and
            lists them in `problems`.
        unique: Whether a text that is repeated with the same label is kept only once.

    Returns:
        A `LabelledTexts`, in the order of the file.

    Raises:
        OSError: If there is no such folder or file.
        ValueError: If `split` is unknown, or if a line is bad, as in `read_labelled`.

    Example:

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "dev.tsv"), "w", encoding="utf-8") as file:
    ...     _ = file.write('sentence\tlabel\nit \'s a " gem " . \t1\n')
    >>> read_sst2(folder, "dev")[0].text
    'it \'s a " gem " .'
    """
    _check_split(split, ("train", "dev"))
    base = Path(folder)
    inner = base / "SST-2"
    path = find_file(inner if inner.is_dir() else base, [f"{split}.tsv"])
    return read_labelled(
        path, "sentence", on_error=on_error, unique=unique, label_names=SENTIMENT, format="tsv"
    )


def _check_split(split: str, known: tuple[str, ...]) -> None:
    if split not in known:
        raise ValueError(f"Expected `split` to be one of {known}. Received: {split!r}.")


def _review_files(folder: Path) -> Iterator[tuple[int, Path]]:
    """The files `NUMBER_RATING.txt`, sorted by number."""
    matches = ((_REVIEW_FILE.fullmatch(path.name), path) for path in folder.iterdir())
    yield from sorted((int(match[1]), path) for match, path in matches if match)


def _films(path: Path) -> dict[int, str]:
    """The film of each review, keyed by its number, from a file with a URL on each line."""
    if not path.is_file():
        return {}
    found = map(_FILM.search, with_newlines(path.read_bytes().decode("utf-8")).split("\n"))
    return {number: match[1] for number, match in enumerate(found) if match}
