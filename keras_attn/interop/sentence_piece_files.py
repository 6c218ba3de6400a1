"""The files of SentencePiece tokenizers, of Llama and XLM-RoBERTa, read and written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from keras_attn.input_files import read_input
from keras_attn.interop.byte_pair_files import (
    FAST,
    GENERATION,
    SENTENCE_PIECE,
    SETTINGS,
    end_ids_of,
    named_token,
    numbered_tokens,
)
from keras_attn.interop.json_files import read_object
from keras_attn.text import SentencePieceTokenizer
from keras_attn.text.sentence_piece_model import model_pieces

FAIRSEQ_PIECES = "sentencepiece.bpe.model"
XLM_ROBERTA = "xlm-roberta"
"""The `model_type` of an XLM-RoBERTa."""
_FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")
"""The first ids of XLM-RoBERTa."""
_CLASSES = {"llama": "LlamaTokenizer", XLM_ROBERTA: "XLMRobertaTokenizer"}


def has_sentence_pieces(folder: Path) -> bool:
    """Returns whether a decoder's folder has its tokenizer in `tokenizer.model`."""
    if not (folder / SENTENCE_PIECE).is_file():
        return False
    if not (folder / FAST).is_file():
        return True
    # Llama 2 has the same tokenizer in both files, Llama 3 another format in the first.
    model = read_object(folder / FAST).get("model")
    return isinstance(model, Mapping) and model.get("byte_fallback") is True


def read_sentence_pieces(folder: Path, settings: Mapping[str, Any]) -> SentencePieceTokenizer:
    """Reads the tokenizer of a decoder, which has the ids of its SentencePiece model.

    Tokens that were added after the pieces of the model become special tokens of the
    `SentencePieceTokenizer`.
    """
    path = folder / SENTENCE_PIECE
    model = read_input(path, "a SentencePiece model")
    own = read_object(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
    try:
        pieces = model_pieces(model)
        tokens = [*pieces, *_added(folder, own, pieces)]
        start = named_token(own, "bos_token")
        end = named_token(own, "eos_token")
        ends = numbered_tokens(end_ids_of(folder, settings), tokens)
        start = start or next(iter(numbered_tokens(settings.get("bos_token_id"), tokens)), None)
        end = end or next(iter(ends), None)
        more = tokens[len(pieces) :]
        return SentencePieceTokenizer(
            model,
            tokens if more else None,
            pad_token=named_token(own, "pad_token"),
            start_token=start,
            end_token=end,
            unknown_token=named_token(own, "unk_token"),
            special_tokens=more,
            end_tokens=[token for token in ends if token != end],
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _added(folder: Path, own: Mapping[str, Any], pieces: Iterable[str]) -> list[str]:
    """The tokens behind the pieces, in the order of their ids."""
    tokens = dict(enumerate(pieces))
    found: dict[int, str] = {}
    listed = own.get("added_tokens_decoder")
    for number, value in (listed if isinstance(listed, Mapping) else {}).items():
        name = value.get("content") if isinstance(value, Mapping) else value
        if isinstance(name, str) and str(number).isdecimal():
            found[int(number)] = name
    path = folder / "added_tokens.json"
    if path.is_file():
        added = read_object(path)
        found |= {i: name for name, i in added.items() if type(i) is int and isinstance(name, str)}
    wrong = next((i for i, name in found.items() if tokens.get(i, name) != name), None)
    if wrong is not None:
        raise ValueError(
            f"Expected the token {wrong} to be {tokens[wrong]!r}, as in the SentencePiece model. "
            f"Received: {found[wrong]!r} among the added tokens."
        )
    more = {i: name for i, name in sorted(found.items()) if i not in tokens}
    if [*more] != [*range(len(tokens), len(tokens) + len(more))]:
        raise ValueError(
            f"Expected added tokens to have consecutive ids from {len(tokens)}. Received: "
            f"{[*more][:5]}."
        )
    return [*more.values()]


def fairseq_vocabulary(pieces: Iterable[str]) -> list[str]:
    """Returns the pieces of a SentencePiece model in the order of XLM-RoBERTa's ids.

    The model begins with `<unk> <s> </s>`. The ids begin with `<s> <pad> </s> <unk>`, and end with
    `<mask>`.
    """
    given = list(pieces)
    if given[:3] != ["<unk>", "<s>", "</s>"]:
        raise ValueError(
            "A SentencePiece model of an XLM-RoBERTa must begin with <unk>, <s> and </s>. "
            f"Received: {given[:3]}."
        )
    return [*_FAIRSEQ, *given[3:], "<mask>"]


def read_fairseq_pieces(folder: Path) -> SentencePieceTokenizer | None:
    """Reads the tokenizer of an XLM-RoBERTa model; None if its folder has none."""
    path = folder / FAIRSEQ_PIECES
    if not path.is_file():
        if (folder / FAST).is_file():
            raise ValueError(
                f"{folder / FAST}: the tokenizer of an XLM-RoBERTa is read from {FAIRSEQ_PIECES}, "
                "which is not in the folder. Copy that file from the original model."
            )
        return None
    model = read_input(path, "a SentencePiece model")
    try:
        return fairseq_tokenizer(model)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def fairseq_tokenizer(model: bytes) -> SentencePieceTokenizer:
    """Returns a tokenizer with XLM-RoBERTa's ids from the bytes of a SentencePiece model."""
    return SentencePieceTokenizer(
        model, fairseq_vocabulary(model_pieces(model)), pad_token="<pad>", mask_token="<mask>"
    )


def write_sentence_pieces(
    folder: Path, tokenizer: SentencePieceTokenizer, kind: str, sequence_length: int
) -> None:
    """Writes the tokenizer of a model of kind `"llama"` or `"xlm-roberta"`."""
    pieces = model_pieces(tokenizer.model)
    names = tokenizer.vocabulary
    settings: dict[str, Any] = {
        "tokenizer_class": _CLASSES.get(kind),
        "model_max_length": sequence_length,
        "unk_token": names[tokenizer.unknown_id],
    }
    if kind == XLM_ROBERTA:
        if list(names) != fairseq_vocabulary(pieces):
            raise ValueError(
                "`tokenizer` must have the ids of XLM-RoBERTa: <s>, <pad>, </s>, <unk>, the pieces "
                "of the model and <mask>. Received: a vocabulary that begins with "
                f"{list(names[:5])}."
            )
        settings |= {"pad_token": "<pad>", "mask_token": "<mask>", "cls_token": "<s>"}
        settings |= {"sep_token": "</s>", "bos_token": "<s>", "eos_token": "</s>"}
        (folder / FAIRSEQ_PIECES).write_bytes(tokenizer.model)
    else:
        if names[: len(pieces)] != pieces:
            raise ValueError(
                "The vocabulary of `tokenizer` must begin with the pieces of its SentencePiece "
                f"model, in their order. Received: a vocabulary that begins with {list(names[:5])}."
                " Train a tokenizer for the decoder with `SentencePieceTokenizer.train`."
            )
        settings |= {
            "bos_token": names[tokenizer.start_id],
            "eos_token": names[tokenizer.end_id],
            "pad_token": names[tokenizer.pad_id],
            "add_bos_token": True,
            "add_eos_token": False,
            "legacy": False,
            "added_tokens_decoder": {
                str(i): {"content": names[i], "special": True, "lstrip": False, "rstrip": False,
                         "single_word": False, "normalized": False}
                for i in range(len(pieces), len(names))
            },
        }  # fmt: skip
        (folder / SENTENCE_PIECE).write_bytes(tokenizer.model)
        ends = {"bos_token_id": tokenizer.start_id, "eos_token_id": list(tokenizer.end_ids)}
        (folder / GENERATION).write_text(json.dumps(ends, indent=2) + "\n", encoding="utf-8")
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    (folder / SETTINGS).write_text(text, encoding="utf-8")
