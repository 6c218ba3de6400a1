"""Vocabularies, tokenizers and settings of the folders of CTranslate2."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from keras_attn.input_files import read_input
from keras_attn.interop.ctranslate2_files import ModelFile
from keras_attn.interop.json_files import parse_list, read_object
from keras_attn.text import CharacterTokenizer, SentencePieceTokenizer
from keras_attn.text.characters import SPECIAL_TOKENS
from keras_attn.text.checks import well_formed
from keras_attn.text.language_marks import MARK

PIECES = "sentencepiece.model"
_OF_SIDES = ("source.spm", "target.spm")
_BLANKS = ("<blank>", "<pad>", "<PAD>")
_NEW = ("<pad>", "<padding>", "<no token>")
_KNOWN = {
    "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "decoder_start_token": "<s>",
    "add_source_bos": False, "add_source_eos": False, "layer_norm_epsilon": None,
    "multi_query_attention": False,
}  # fmt: skip
_WANTED = "Such models cannot be loaded."


class TranslatorSettings(NamedTuple):
    """The settings in the `config.json` of a translator."""

    unknown: str
    end: str
    start: str
    """The token from which the decoder starts."""
    source_end: bool
    """Whether sources end with `end`, as sources of Marian always do."""
    epsilon: float | None
    """Epsilon of the norms."""


class Vocabularies(NamedTuple):
    """The vocabularies of sources and targets, and the id of each row of the file."""

    settings: TranslatorSettings
    tokens: tuple[tuple[str, ...], tuple[str, ...]]
    """The tokens of sources, and the tokens of targets, in the order of their ids."""
    rows: tuple[tuple[int, ...], tuple[int, ...]]
    """The id of each row of the file, for sources and for targets."""
    pad_id: int
    starts_with_padding: bool
    """Whether the decoder starts from padding, whose embedding is zero."""
    pieces: tuple[bytes, bytes] | None
    """The SentencePiece models of sources and targets; None if each token is a character."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of tokens in the source and target vocabularies."""
        return len(self.tokens[0]), len(self.tokens[1])

    @property
    def shared(self) -> bool:
        """Whether sources and targets have the same vocabulary."""
        return self.tokens[0] == self.tokens[1]

    def tokenizers(self, two: bool) -> tuple[Any, Any]:
        """Returns the tokenizer of sources, and the tokenizer of targets or None if they share one.

        Args:
            two: Whether sources and targets have separate embeddings.
        """
        two = two or (self.pieces is not None and len(set(self.pieces)) == 2)
        source, *target = (self._tokenizer(side) for side in ((0, 1) if two else (0,)))
        return source, target[0] if target else None

    def _tokenizer(self, side: int) -> CharacterTokenizer | SentencePieceTokenizer:
        tokens = self.tokens[side]
        if self.pieces is None:
            return CharacterTokenizer(tokens)
        pad, known = tokens[self.pad_id], self.settings
        start = pad if self.starts_with_padding else known.start
        return SentencePieceTokenizer(
            self.pieces[side],
            tokens,
            pad_token=pad,
            start_token=start if start in tokens else pad,
            end_token=known.end if known.end in tokens else pad,
            unknown_token=known.unknown,
            special_tokens=[token for token in tokens if re.fullmatch(MARK, token)],
        )

    def added(self, pad_id: int) -> tuple[int, ...]:
        """Returns the target ids that have no row in the file, except padding."""
        return tuple(sorted(set(range(self.sizes[1])) - set(self.rows[1]) - {pad_id}))


def read_vocabularies(folder: Path, file: ModelFile) -> Vocabularies:
    """Reads the vocabularies and settings of a folder; unsupported ones raise an error."""
    zeros = bool(file.number("decoder/start_from_zero_embedding"))
    settings = _read_settings(folder, file, zeros)
    pieces = _read_pieces(folder)
    given = [_read_tokens(folder, side, settings.unknown) for side in ("source", "target")]
    for name, token in (("eos_token", settings.end), ("decoder_start_token", settings.start)):
        if token not in given[1]:
            raise ValueError(
                f"{folder}: `{name}` must be in the vocabulary of the targets. Received: {token!r}."
            )
    if settings.source_end and settings.end not in given[0]:
        raise ValueError(
            f"{folder}: `eos_token` must be in the vocabulary of the sources, because it ends each "
            f"source. Received: {settings.end!r}."
        )
    if pieces is None:
        return _of_characters(folder, settings, given, zeros)
    return _of_pieces(settings, given, zeros, pieces)


def _read_pieces(folder: Path) -> tuple[bytes, bytes] | None:
    """Reads one SentencePiece model for both sides, or Marian's two; None if there is none."""
    one = next((x for x in (folder / PIECES, folder.parent / PIECES) if x.is_file()), None)
    source, target = (one or folder / name for name in _OF_SIDES)
    if not (source.is_file() and target.is_file()):
        return None
    return read_input(source, "a SentencePiece model"), read_input(target, "a SentencePiece model")


def _of_pieces(
    settings: TranslatorSettings, given: list[list[str]], zeros: bool, pieces: tuple[bytes, bytes]
) -> Vocabularies:
    """Keeps the order of the file; a token for padding is added behind it if it has none."""
    source, target = given
    alike = [
        x for x in _BLANKS if x in source and x in target and source.index(x) == target.index(x)
    ]
    rows = tuple(range(len(source))), tuple(range(len(target)))
    pad_id = source.index(alike[0]) if alike and not zeros else max(map(len, given))
    known = {*source, *target}
    free = [x for x in (*_NEW, *(f"<no token {i}>" for i in range(pad_id))) if x not in known]
    for tokens in given:
        count = pad_id + 1 - len(tokens)
        tokens += [*free[1:count], *free[: min(count, 1)]] if count > 0 else []
    starts = zeros or settings.start == target[pad_id]
    return Vocabularies(settings, (tuple(source), tuple(target)), rows, pad_id, starts, pieces)


def _of_characters(
    folder: Path, settings: TranslatorSettings, given: list[list[str]], zeros: bool
) -> Vocabularies:
    """Puts tokens that are characters in the order of a `CharacterTokenizer`."""
    # A start whose embedding is of zeros is a token that the file does not have.
    start = None if zeros else settings.start
    rows, tokens = [], []
    for side in given:
        blank = next((x for x in _BLANKS if x in side), None)
        special = [blank, start, settings.end, settings.unknown]
        others = [x for x in side if x not in special]
        several = [x for x in others if len(x) != 1]
        if several or start == settings.end:
            what = f"the tokens {several[:3]}" if several else "the end as the start"
            raise ValueError(
                f"{folder}: expected a {PIECES}, {' and '.join(_OF_SIDES)}, or tokens that are "
                f"characters, with a token for the start. Received: {what} without them. Copy the "
                "SentencePiece models of the translator there."
            )
        tokens.append((*SPECIAL_TOKENS, *others))
        ids = {x: i for i, x in enumerate([*special, *others]) if x is not None}
        rows.append(tuple(ids[x] for x in side))
    return Vocabularies(settings, (tokens[0], tokens[1]), (rows[0], rows[1]), 0, False, None)


def _read_settings(folder: Path, file: ModelFile, zeros: bool) -> TranslatorSettings:
    path = folder / "config.json"
    given = read_object(path) if path.is_file() else {}
    unknown = [name for name, value in given.items() if value and name not in _KNOWN]
    if unknown:
        raise ValueError(
            f"{path}: the setting `{unknown[0][:40]}` is not supported. Received: "
            f"{str(given[unknown[0]])[:80]!r}. {_WANTED}"
        )
    if not path.is_file():  # before version 6 these were variables
        flags = {name: bool(file.number(f"with_{name}")) for name in ("source_bos", "source_eos")}
        given = {f"add_{name}": value for name, value in flags.items()}
        if file.number("with_target_bos") == 0:
            given["decoder_start_token"] = "</s>"
    values = {name: given.get(name, default) for name, default in _KNOWN.items()}
    strings = [name for name in _KNOWN if name.endswith("_token") and name != "bos_token"]
    for name in strings:
        if not isinstance(values[name], str):
            raise ValueError(
                f"{path}: `{name}` must be a token. Received: {str(values[name])[:40]!r}. {_WANTED}"
            )
    for name in ("multi_query_attention", "add_source_bos"):
        if values[name]:
            raise ValueError(f"{path}: `{name}` must be false. Received: true. {_WANTED}")
    epsilon = values["layer_norm_epsilon"]
    if epsilon is not None and not (isinstance(epsilon, int | float) and 0 < epsilon < 1):
        raise ValueError(
            f"{path}: `layer_norm_epsilon` must be a number above 0 and below 1, or null. "
            f"Received: {str(epsilon)[:40]!r}."
        )
    return TranslatorSettings(
        values["unk_token"],
        values["eos_token"],
        values["decoder_start_token"],
        bool(values["add_source_eos"]) or zeros,
        epsilon,
    )


def _read_tokens(folder: Path, side: str, unknown: str) -> list[str]:
    """Reads the tokens of a side; the last one is `unknown` if the file has none."""
    names = [f"{x}_vocabulary.{end}" for x in (side, "shared") for end in ("json", "txt")]
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise ValueError(f"{folder}: expected one of {', '.join(names)}. Received: none of them.")
    content = read_input(path, "a vocabulary")
    if path.suffix == ".json":
        tokens = parse_list(content, str(path))
    else:
        try:
            tokens = content.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} must be UTF-8. Received: {error}.") from error
        tokens = tokens[:-1] if tokens[-1] == "" else tokens
    wrong = [x for x in tokens if not isinstance(x, str) or well_formed(x) != x]
    if wrong or len(set(tokens)) < len(tokens):
        raise ValueError(
            f"{path} must contain distinct strings without lone surrogates. Received: "
            + (f"{str(wrong[0])[:40]!r}." if wrong else "a repeated token.")
        )
    return tokens if unknown in tokens else [*tokens, unknown]
