"""The SentencePiece models and vocabularies of Marian translators, read and written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from keras_attn.input_files import read_input
from keras_attn.interop.json_files import read_object, to_json
from keras_attn.text import SentencePieceTokenizer
from keras_attn.text.language_marks import MARK

_MODELS = {"source": "source.spm", "target": "target.spm"}
_VOCABULARIES = {"source": "vocab.json", "target": "target_vocab.json"}


class MarianTokenizers(NamedTuple):
    """The tokenizers of sources and targets. With a shared vocabulary, their ids are the same."""

    source: SentencePieceTokenizer | None
    target: SentencePieceTokenizer | None


def read_marian_tokenizers(
    folder: Path, sizes: Mapping[str, int], ids: Mapping[str, int]
) -> MarianTokenizers:
    """Reads the tokenizers of a folder with `source.spm`, `target.spm` and `vocab.json`.

    `sizes` and `ids` are the vocabulary sizes and the special ids of the model. If a folder has no
    SentencePiece models and vocabularies, the tokenizers are None.
    """
    names = [*_MODELS.values(), _VOCABULARIES["source"]]
    there = [name for name in names if (folder / name).is_file()]
    if not there:
        return MarianTokenizers(None, None)
    missing = [name for name in names if name not in there]
    if missing:
        raise ValueError(
            f"{folder}: a Marian translator has {', '.join(names)}. Received: no {missing[0]}."
        )
    path = folder / _VOCABULARIES["source"]
    own = folder / _VOCABULARIES["target"]
    paths = {"source": path, "target": own if own.is_file() else path}
    found = {}
    for side, file in paths.items():
        vocabulary = _read_vocabulary(file, sizes[side])
        pad = vocabulary[ids["pad"]]
        if pad != "<pad>":
            raise ValueError(
                f"{file}: the token {ids['pad']}, the padding by config.json, must be '<pad>'. "
                f"Received: {pad!r}."
            )
        model = folder / _MODELS[side]
        try:
            found[side] = SentencePieceTokenizer(
                read_input(model, "a SentencePiece model"),
                vocabulary,
                pad_token=pad,
                start_token=vocabulary[ids["start"]] if side == "target" else pad,
                end_token=vocabulary[ids["end"]],
                unknown_token="<unk>",
                special_tokens=[piece for piece in vocabulary if re.fullmatch(MARK, piece)],
            )
        except ValueError as error:
            raise ValueError(f"{model}, with {file.name}: {error}") from error
    return MarianTokenizers(found["source"], found["target"])


def _read_vocabulary(path: Path, size: int) -> list[str]:
    """Reads the pieces of a vocabulary in the order of their ids."""
    pieces = read_object(path)
    if sorted(pieces.values(), key=repr) != sorted(range(len(pieces)), key=repr):
        raise ValueError(
            f"{path} must give the pieces the ids 0 to {len(pieces) - 1}, each once. Received: "
            "other values."
        )
    if len(pieces) != size:
        raise ValueError(
            f"{path} must have the {size:,} pieces of the model. Received: {len(pieces):,} pieces. "
            "They do not belong together."
        )
    return sorted(pieces, key=lambda piece: pieces[piece])


def marian_tokenizer_files(
    source: SentencePieceTokenizer, target: SentencePieceTokenizer
) -> dict[str, bytes]:
    """Returns the files for `MarianTokenizer` of transformers, keyed by file name."""
    for side, tokenizer in (("source", source), ("target", target)):
        named = {"pad_id": "<pad>", "unknown_id": "<unk>", "end_id": "</s>"}
        for name, token in named.items():
            if tokenizer.vocabulary[getattr(tokenizer, name)] != token:
                raise ValueError(
                    f"The {side} tokenizer of a Marian model must have {token!r} as its `{name}`. "
                    f"Received: {tokenizer.vocabulary[getattr(tokenizer, name)]!r}."
                )
    separate = source.vocabulary != target.vocabulary
    config = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
    files = {_MODELS["source"]: source.model, _MODELS["target"]: target.model}
    files[_VOCABULARIES["source"]] = _vocabulary_file(source)
    if separate:
        files[_VOCABULARIES["target"]] = _vocabulary_file(target)
    return {**files, "tokenizer_config.json": to_json(config)}


def _vocabulary_file(tokenizer: SentencePieceTokenizer) -> bytes:
    return to_json({piece: i for i, piece in enumerate(tokenizer.vocabulary)})
