"""Groups of equal and nearly equal texts."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from keras_attn.records.splits import template
from keras_attn.records.splitting import Links

_WORDS = 8  # of a shingle
_NEIGHBOURS = 8  # texts that are compared for each shingle that they share
_MIX = np.uint64(0x9E3779B97F4A7C15)


def duplicate_groups(texts: Sequence[str], shared: float = 0.5) -> np.ndarray:
    """Assigns equal and nearly equal texts to groups.

    Two texts are linked if they have the same `template` (they differ only in case, punctuation,
    symbols, white space and the values of numbers), or if they share enough runs of 8 words, for
    example a review and its longer version. The fraction of shared runs, relative to the text with
    fewer runs, must be at least `shared`. Texts that are linked through others are in the same
    group. A text without letters and digits, such as ":)", is its own template.

    Time and memory are proportional to the total number of words: tens of thousands of reviews take
    a few seconds.

    Args:
        texts: The texts.
        shared: Minimum fraction of shared runs of words, above 0. If it is above 1, only templates
            are compared.

    Returns:
        The group number of each text, int64 `(len(texts),)`. Groups are numbered from 0 in the
        order of their first texts.

    Raises:
        ValueError: If `shared` is not above 0.

    Example:

    >>> long = "one of the very best films that I have seen this year so far"
    >>> texts = ["Great!", "Dull.", "great", long, f"In short: {long}."]
    >>> duplicate_groups(texts).tolist()
    [0, 1, 0, 2, 2]
    """
    if not shared > 0:
        raise ValueError(f"`shared` must be above 0. Received: {shared!r}.")
    links = Links(len(texts))
    # No template begins with a space, but those of texts without letters and digits.
    templates = [template(x) or " " + unicodedata.normalize("NFKC", x).strip() for x in texts]
    first: dict[str, int] = {}
    for index, key in enumerate(templates):
        links.add(first.setdefault(key, index), index)
    if shared <= 1:
        distinct = list(first.values())
        for one, other in _overlapping([templates[index] for index in distinct], shared):
            links.add(distinct[one], distinct[other])
    roots = np.array([links.root(index) for index in range(len(texts))], "int64")
    return np.unique(roots, return_inverse=True)[1].reshape(-1)


def _overlapping(texts: Sequence[str], shared: float) -> list[tuple[int, int]]:
    """Pairs of texts that share enough runs of words."""
    ids: dict[str, int] = {}
    words = [ids.setdefault(word, len(ids)) for text in texts for word in text.split()]
    lengths = np.array([len(text.split()) for text in texts], "int64")
    owners = np.repeat(np.arange(len(texts)), lengths)
    if len(words) < _WORDS:
        return []
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64
        mixed = (np.array(words, "uint64") + np.uint64(1)) * _MIX
        mixed ^= mixed >> np.uint64(29)
        count = len(words) - _WORDS + 1
        hashes = np.zeros(count, "uint64")
        for offset in range(_WORDS):
            hashes = hashes * np.uint64(0x100000001B3) + mixed[offset : offset + count]
    within = owners[:count] == owners[_WORDS - 1 :]
    hashes, owners = hashes[within], owners[:count][within]
    order = np.lexsort((owners, hashes))
    hashes, owners = hashes[order], owners[order]
    new = np.ones(len(hashes), "bool")
    new[1:] = (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])
    hashes, owners = hashes[new], owners[new]  # each run once a text
    sizes = np.bincount(owners, minlength=len(texts))
    keys = []
    for distance in range(1, _NEIGHBOURS + 1):
        same = hashes[distance:] == hashes[:-distance]
        keys.append(owners[:-distance][same] * len(texts) + owners[distance:][same])
    pairs, counts = np.unique(np.concatenate(keys), return_counts=True)
    one, other = pairs // len(texts), pairs % len(texts)
    enough = counts >= shared * np.minimum(sizes[one], sizes[other])
    return list(zip(one[enough].tolist(), other[enough].tolist(), strict=True))
