"""Special tokens that occur as strings in texts."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_attn.text.characters import CharacterTokenizer
from keras_attn.text.checks import well_formed
from keras_attn.text.registry import PieceTokenizer

ENDS = ("<end>", "</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>")
"""Names that common tokenizers give to the token that ends a text."""
_STARTS = ("<pad>", "<start>")
_NAMES = (
    *ENDS,
    *("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "<s>", "<pad>", "<unk>", "<mask>", "<bos>"),
    *("<start>", "<unknown>", "<|begin_of_text|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>"),
)


def pattern_of(names: Iterable[str]) -> re.Pattern[str]:
    """Returns a pattern with a group that matches any of several names, the longest first."""
    return re.compile(
        "(" + "|".join(map(re.escape, sorted(set(names), key=len, reverse=True))) + ")"
    )


_USUAL = pattern_of(_NAMES)


def written_special_tokens(examples: object, tokenizer: object = None) -> Counter[str]:
    """Counts the special tokens that occur as strings in the texts of examples."""
    own = getattr(tokenizer, "special_tokens", ())
    pattern = pattern_of([*_NAMES, *own]) if own else _USUAL
    found: Counter[str] = Counter()
    waiting: list[object] = [examples]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if names := pattern.findall(part):
                found.update(names)
        elif isinstance(part, Mapping):
            waiting.extend(part.values())
        elif isinstance(part, Sequence) and not isinstance(part, bytes | bytearray):
            waiting.extend(part)
    return found


def counted(names: Mapping[str, int]) -> str:
    """Describes the counts of special tokens, the most frequent first."""
    rows = sorted(names.items(), key=lambda row: (-row[1], row[0]))
    return ", ".join(f"`{name}` {f'{n:,} times' if n > 1 else 'once'}" for name, n in rows)


def say_written(
    found: Mapping[str, int],
    tokenizer: object,
    log: Callable[[str], Any],
    known: Container[str] | None = None,
) -> None:
    """Reports how special tokens in texts are read.

    By default, special tokens in texts are read as ordinary text, which is seldom intended, so a
    warning reports them. The tokens in `known` are read as tokens, and so is `[MASK]` by a
    tokenizer with `mask_in_text`.
    """
    settable = known is not None
    if known is None:
        known = ("[MASK]",) if getattr(tokenizer, "mask_in_text", False) else ()
    as_text = {name: count for name, count in found.items() if name not in known}
    as_tokens = {name: count for name, count in found.items() if name in known}
    if as_text:
        advice = "If they are not meant as text, remove them"
        if settable:
            advice += ", or read those of the tokenizer as tokens: special_tokens=True "
            advice += "(--special-tokens)"
        warnings.warn(
            f"Special tokens in the examples are read as text: {counted(as_text)}. {advice}.",
            stacklevel=5,
        )
    if as_tokens:
        log(f"Special tokens in the examples are read as tokens: {counted(as_tokens)}.")


def readable_tokens(tokenizer: PieceTokenizer | CharacterTokenizer) -> dict[str, int]:
    """Returns the ids of the special tokens that may be read in a text, keyed by token.

    Imported tokenizers such as GPT-2's have their own special tokens. For tokenizers trained by
    this package, any of `ENDS` stands for the end token, and the padding and start tokens are
    ordinary text.
    """
    own = getattr(tokenizer, "special_tokens", ())
    found = {name: tokenizer.vocabulary.index(name) for name in own if name not in _STARTS}
    if not own or "<end>" in own:
        return {**dict.fromkeys(ENDS, tokenizer.end_id), **found}
    return found


class SpecialTokenReader:
    """Encodes texts; if `as_tokens`, special tokens of `readable_tokens` become one id."""

    def __init__(self, tokenizer: PieceTokenizer | CharacterTokenizer, as_tokens: bool):
        self.tokenizer = tokenizer
        self.tokens = readable_tokens(tokenizer) if as_tokens else {}
        """Ids of the special tokens that are read as tokens, keyed by their strings."""

    def _cut(self, text: str) -> tuple[list[str], list[str]]:
        """The parts of a text, and the special tokens between them."""
        if not self.tokens:
            return [text], []
        parts = pattern_of(self.tokens).split(text)
        return parts[::2], parts[1::2]

    def encode(self, text: str) -> np.ndarray:
        """Returns the ids of a text, int32 `(N,)`."""
        parts, between = self._cut(text)
        first, *rest = (np.array(row, "int32") for row in self.tokenizer.encode(parts))
        rows = [first]
        for token, row in zip(between, rest, strict=True):
            rows += [np.array([self.tokens[token]], "int32"), row]
        return np.concatenate(rows)

    def documents(self, documents: Sequence[tuple[str, str]]) -> tuple[list[np.ndarray], list[int]]:
        """Returns the ids of prompts and texts with end tokens, and the lengths of prompts."""
        sides = [[self.encode(part) for part in parts] for parts in documents]
        rows = [np.append(np.concatenate(x), np.int32(self.tokenizer.end_id)) for x in sides]
        return rows, [len(prompt) for prompt, _ in sides]

    def length(self, text: str) -> int:
        """Returns the number of characters of a text, counting a special token as one."""
        parts, tokens = self._cut(text)
        return sum(len(well_formed(part)) for part in parts) + len(tokens)

    def has_ends(self, text: str) -> bool:
        """Returns whether a text contains an end token that is read as a token."""
        ends = getattr(self.tokenizer, "end_ids", (self.tokenizer.end_id,))
        return any(self.tokens[token] in ends for token in self._cut(text)[1])
