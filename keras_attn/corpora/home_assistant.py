"""Human translations from the Home Assistant wheel: real data that `pip` alone can reach."""

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
    """Sentence pairs of Home Assistant's user interface, translated by people (Apache-2.0).

    The texts are read out of the wheel `homeassistant==2026.11.0` (67 MB), which the `pip` of this
    Python downloads once. It is opened as a zip archive and never installed or run. The strings of
    two languages belong together when an integration has them under one key.

    What is done to them: white space is stripped and runs of it (newlines too) become one space;
    a pair is kept once, with the names of all integrations in which it occurs as its `groups`;
    pairs with an empty side, with two equal sides, with fewer than `min_words` words in the
    source, or with an unresolved reference to another string (`[%key:...%]`) are dropped.
    Placeholders such as `{name}` and Markdown links stay as they are: they occur on both sides,
    and a good translation copies them.

    With `min_words=3` English gives 24,350 pairs with German, 19,657 with French, 24,362 with
    Spanish and 9,420 with Italian. The order is that of the integrations' names and their keys.

    Args:
        target: Language code of the translations, as in the file names: "de", "fr", "es", "it",
            "pt-BR", "zh-Hans", ...
        source: Language code of the sentences.
        cache_dir: Folder that keeps the wheel. Defaults to the environment variable
            `KERAS_ATTN_CACHE`, then to `~/.cache/keras_attn`.
        wheel: Path of an existing wheel; nothing is downloaded then.
        min_words: Fewest words (separated by white space) of a source sentence.

    Returns:
        A list of `TranslationPair(source, target, groups)`.

    Raises:
        DownloadError: `pip` failed; the message contains the end of its output.
        FileNotFoundError: `wheel` is not there.
        ValueError: The wheel is not a zip archive or is broken, or has no such language.

    Example (needs the wheel or the network):

    ```python
    pairs = load_home_assistant("de")
    pairs[0].source, pairs[0].target, pairs[0].groups
    ```
    """
    if source == target:
        raise ValueError(
            f"`source` and `target` must be two languages. Received: {source!r} twice."
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
    """All strings of a nest of dictionaries, each with its path of keys."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _flatten(value, (*prefix, key))
    elif isinstance(tree, str):
        yield prefix, tree
