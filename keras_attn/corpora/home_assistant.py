"""Human translations from the Home Assistant wheel."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator

from keras_attn.corpora.download import PackageFile
from keras_attn.records.parallel import TranslationPair, unique_pairs
from keras_attn.white_space import normalize_white_space

VERSION = "2026.11.0"
PYTHON_VERSION = "3.14.2"
WHEEL_NAME = f"homeassistant-{VERSION}-py3-none-any.whl"

_MEMBER = re.compile(r"homeassistant/components/([^/]+)/translations/([^/]+)\.json")
_REFERENCE = re.compile(r"\[%\s*key:")
_WHEEL = PackageFile(
    "homeassistant",
    VERSION,
    WHEEL_NAME,
    "67 MB",
    "a tab-separated file of your own (keras_attn.records.read_tsv)",
    options=("--only-binary=:all:", "--python-version", PYTHON_VERSION),
)


def load_home_assistant(
    target: str = "de",
    source: str = "en",
    cache_dir: str | os.PathLike[str] | None = None,
    wheel: str | os.PathLike[str] | None = None,
    min_words: int = 3,
) -> list[TranslationPair]:
    """Loads sentence pairs of Home Assistant's user interface (Apache-2.0).

    The texts, translated by people, come from the wheel `homeassistant==2026.11.0` (67 MB). `pip`
    downloads the wheel once; it is read as a zip archive without being installed. Strings of two
    languages form a pair if an integration has them under the same key.

    White space is stripped, and runs of white space (including newlines) become one space. A
    repeated pair is kept once; its `groups` are the names of all integrations that contain the
    pair. A pair is dropped if one of its texts is empty, if both texts are equal, if the source has
    fewer than `min_words` words, or if a text has an unresolved reference to another string
    (`[%key:...%]`). Placeholders such as `{name}` and Markdown links are kept, because a good
    translation copies them.

    With `min_words=3`, there are 24,350 pairs of English and German, 19,657 of English and French,
    24,362 of English and Spanish, and 9,420 of English and Italian. The pairs are sorted by the
    names of the integrations, and have the order of the source file within an integration.

    Args:
        target: Language code of the translations, as in the file names: "de", "fr", "es", "it",
            "pt-BR", "zh-Hans", ...
        source: Language code of the sentences.
        cache_dir: Folder for the wheel. Default: the environment variable `KERAS_ATTN_CACHE`, or
            else `~/.cache/keras_attn`.
        wheel: Path of an existing wheel, instead of a download.
        min_words: Minimum number of words (separated by white space) of a source sentence.

    Returns:
        A list of `TranslationPair(source, target, groups)`.

    Raises:
        DownloadError: If the wheel cannot be downloaded or stored; the message has the reason.
        FileNotFoundError: If `wheel` does not exist.
        ValueError: If `source` equals `target`, or the wheel is not a zip archive, is damaged, or
            lacks a language.

    Example (needs the wheel or the network):

    ```python
    pairs = load_home_assistant("de")
    pairs[0].source, pairs[0].target, pairs[0].groups
    ```
    """
    if source == target:
        raise ValueError(
            f"`source` and `target` must be different languages. Received: {source!r} twice."
        )
    path = _WHEEL.find(wheel, cache_dir)
    with _WHEEL.whole(path), zipfile.ZipFile(path) as archive:
        pairs = list(_read_pairs(archive, source, target))
    return [pair for pair in unique_pairs(pairs) if _wanted(pair, min_words)]


def _wanted(pair: TranslationPair, min_words: int) -> bool:
    return (
        bool(pair.source and pair.target)
        and pair.source != pair.target
        and len(pair.source.split()) >= min_words
        and not _REFERENCE.search(pair.source)
        and not _REFERENCE.search(pair.target)
    )


def _read_pairs(archive: zipfile.ZipFile, source: str, target: str) -> Iterator[TranslationPair]:
    members: dict[str, dict[str, str]] = {}
    for name in archive.namelist():
        if match := _MEMBER.fullmatch(name):
            members.setdefault(match[1], {})[match[2]] = name
    languages = {language for files in members.values() for language in files}
    for language in (source, target):
        if language not in languages:
            raise ValueError(
                f"Expected a language of the wheel. Received: {language!r}. "
                f"It has: {', '.join(sorted(languages)) or 'no translations at all'}."
            )
    for integration, files in sorted(members.items()):
        if source not in files or target not in files:
            continue
        translations = dict(_flatten(json.loads(archive.read(files[target]))))
        for key, text in _flatten(json.loads(archive.read(files[source]))):
            if key in translations:
                yield TranslationPair(
                    normalize_white_space(text),
                    normalize_white_space(translations[key]),
                    (integration,),
                )


def _flatten(tree: object, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """All strings of nested dicts, each with its path of keys."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _flatten(value, (*prefix, key))
    elif isinstance(tree, str):
        yield prefix, tree
