"""The SentencePiece models of T5, with its sentinels, read and written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn.input_files import read_input
from keras_attn.interop.json_files import read_object, to_json
from keras_attn.text import SentencePieceTokenizer
from keras_attn.text.sentence_piece_model import read_model

MODEL = "spiece.model"
_CONFIG = "tokenizer_config.json"
_NAMED = {"<pad>": 0, "</s>": 1, "<unk>": 2}
_SENTINEL = re.compile(r"<extra_id_\d+>")


def read_t5_tokenizer(
    folder: Path, settings: Mapping[str, Any], size: int
) -> SentencePieceTokenizer | None:
    """Reads the tokenizer of a folder: the pieces of its model, then sentinels in reverse order.

    `size` is the vocabulary size of the model, which may exceed the tokenizer's.
    """
    path = folder / MODEL
    if not path.is_file():
        return None
    model = read_input(path, "a SentencePiece model")
    own = folder / _CONFIG
    count = (read_object(own) if own.is_file() else {}).get("extra_ids")
    if count is None:
        count = 0 if settings.get("model_type") == "mt5" else 100
    if type(count) is not int or not 0 <= count <= size:
        raise ValueError(
            f"{own}: `extra_ids`, the number of sentinels, must be an integer from 0 to {size}. "
            f"Received: {count!r}."
        )
    try:
        pieces = [*read_model(model)[1]]
        sentinels = [f"<extra_id_{n}>" for n in reversed(range(count))]
        sentinels = [token for token in sentinels if token not in pieces]
        for token, index in _NAMED.items():
            if pieces[index : index + 1] != [token]:
                raise ValueError(f"its piece {index} must be {token!r}, as in all T5.")
        if len(pieces) + len(sentinels) > size:
            raise ValueError(
                f"it has {len(pieces):,} pieces, followed by {len(sentinels)} sentinels, but "
                f"the model has {size:,} tokens. They do not belong together."
            )
        return SentencePieceTokenizer(
            model,
            [*pieces, *sentinels] if sentinels else None,
            pad_token="<pad>",
            start_token="<pad>",
            end_token="</s>",
            unknown_token="<unk>",
            special_tokens=[t for t in (*pieces, *sentinels) if _SENTINEL.fullmatch(t)],
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def t5_tokenizer_files(tokenizer: object, size: int) -> dict[str, bytes]:
    """Returns the files for `T5Tokenizer` of transformers, keyed by file name."""
    files = {
        "generation_config.json": to_json(
            {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
        )
    }
    if tokenizer is None:
        return files
    if not isinstance(tokenizer, SentencePieceTokenizer):
        raise TypeError(
            "`tokenizer` of a T5 must be a SentencePieceTokenizer. Received: "
            f"{type(tokenizer).__name__}."
        )
    pieces = [*read_model(tokenizer.model)[1]]
    more = [*tokenizer.vocabulary[len(pieces) :]]
    sentinels = [f"<extra_id_{n}>" for n in reversed(range(len(more)))]
    named = [*tokenizer.vocabulary[: len(_NAMED)]] == [*_NAMED] and tokenizer.start_id == 0
    if not named or [*tokenizer.vocabulary] != [*pieces, *sentinels] or more != sentinels:
        raise ValueError(
            "The tokenizer of a T5 has the ids of its SentencePiece model, '<pad>' (which "
            "starts targets too), '</s>' and '<unk>' first, and then its sentinels "
            "'<extra_id_n>' in descending order. Received: another tokenizer."
        )
    if len(tokenizer.vocabulary) > size:
        raise ValueError(
            "The tokenizer must not have more tokens than the model. Received: a tokenizer "
            f"with {len(tokenizer.vocabulary):,} tokens for a model with {size:,}."
        )
    config = {
        "tokenizer_class": "T5Tokenizer",
        "extra_ids": len(more),
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "additional_special_tokens": sentinels[::-1],
    }
    return {**files, MODEL: tokenizer.model, _CONFIG: to_json(config)}
