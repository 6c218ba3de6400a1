"""Tokenizers as files that other runtimes read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from keras_attn.fields import EncoderInput
from keras_attn.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer
from keras_attn.text.assets import SavedTokenizer

if TYPE_CHECKING:
    import tokenizers

FAST = "tokenizer.json"


def write_tokenizer(folder: Path, field: EncoderInput) -> str:
    """Writes the tokenizer of an encoder to a folder.

    A WordPiece tokenizer, or a byte-level BPE tokenizer without normalization, is written as
    `tokenizer.json`, for `tokenizers.Tokenizer.from_file`. This file also adds the special tokens
    around one text or two. All other tokenizers are written as the JSON file of `save_assets`. For
    a SentencePiece tokenizer, this file has the ids of the model, and `sentence_piece.model` is
    written in addition, for the library `sentencepiece`.

    Returns:
        The name of the file.

    Raises:
        TypeError: If the tokenizer is not one of `keras_attn.text`.
        RuntimeError: If `tokenizers` encodes a text differently with the file.
    """
    tokenizer = field.tokenizer
    if isinstance(tokenizer, SentencePieceTokenizer):
        (folder / "sentence_piece.model").write_bytes(tokenizer.model)
    if isinstance(tokenizer, WordPieceTokenizer) or (
        isinstance(tokenizer, BytePairTokenizer) and not (tokenizer.normalize or tokenizer.compose)
    ):
        fast = _fast(field, tokenizer.engine())
        _compare(field, fast)
        fast.save(str(folder / FAST))
        return FAST
    if not isinstance(tokenizer, SavedTokenizer):
        raise TypeError(
            f"Expected a tokenizer of keras_attn.text. Received: {type(tokenizer).__name__}."
        )
    tokenizer.save_assets(folder)
    return f"{tokenizer.assets_name}.json"


def _fast(field: EncoderInput, engine: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """A copy of the engine of a tokenizer, with the special tokens of the field."""
    import tokenizers

    names = field.tokenizer.vocabulary
    fast = tokenizers.Tokenizer.from_str(engine.to_str())
    start, end, between = (
        [f"{names[i]}:0" for i in ids] for ids in (field.start, field.end, field.between)
    )
    special = {names[i]: i for i in (*field.start, *field.end, *field.between)}
    fast.post_processor = tokenizers.processors.TemplateProcessing(
        single=[*start, "$A:0", *end],
        pair=[*start, "$A:0", *between, "$B:1", *(f"{x[:-1]}1" for x in end)],
        special_tokens=list(special.items()),
    )
    return fast


def _compare(field: EncoderInput, fast: tokenizers.Tokenizer) -> None:
    """Raises a RuntimeError if texts that are not cut have other ids."""
    texts = [text for text in field.examples if len(field.tokenizer.encode(text)) <= field.room]
    pairs = [
        (first, second)
        for first, second in zip(texts, texts[::-1], strict=True)
        if sum(map(len, field.tokenizer.encode([first, second]))) < field.room - 2
    ]
    for row in [*((text,) for text in texts), *pairs]:
        ids, segments = field.encode([row[0]], [row[1]] if len(row) == 2 else None)
        read = fast.encode(row[0], row[1] if len(row) == 2 else None)
        read_ids = ids[0] != field.tokenizer.pad_id  # without special tokens, `""` is padding
        expected = (ids[0][read_ids].tolist(), segments[0][read_ids].tolist())
        if (read.ids, read.type_ids) != expected:
            raise RuntimeError(
                f"`tokenizers` encodes a text differently with {FAST} than this tokenizer. "
                f"Expected: {expected} for {row}. Received: {(read.ids, read.type_ids)}."
            )
