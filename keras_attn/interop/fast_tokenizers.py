"""Tokenizers as files that other runtimes read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from keras_attn.fields import EncoderInput
from keras_attn.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer

if TYPE_CHECKING:
    import tokenizers

FAST = "tokenizer.json"


def write_tokenizer(folder: Path, field: EncoderInput) -> str:
    """Writes the tokenizer of an encoder to a folder.

    WordPiece and byte-level BPE without a normalization of their own become `tokenizer.json`, with
    the special tokens around one text or two, for `tokenizers.Tokenizer.from_file`. SentencePiece
    becomes `sentence_piece.model`, for the library `sentencepiece`, and as all others the JSON file
    of `save_assets`, which has the vocabulary where the ids are not those of the library.

    Returns:
        The name of the file.

    Raises:
        RuntimeError: If `tokenizers` reads other ids from the file than the field makes.
    """
    tokenizer = field.tokenizer
    if isinstance(tokenizer, SentencePieceTokenizer):
        (folder / "sentence_piece.model").write_bytes(tokenizer.model)
    plain = isinstance(tokenizer, BytePairTokenizer) and not (
        tokenizer.normalize or tokenizer.compose
    )
    if not plain and not isinstance(tokenizer, WordPieceTokenizer):
        tokenizer.save_assets(folder)
        return f"{tokenizer.assets_name}.json"
    fast = _fast(field)
    _compare(field, fast)
    fast.save(str(folder / FAST))
    return FAST


def _fast(field: EncoderInput) -> tokenizers.Tokenizer:
    """The engine of a tokenizer, with the special tokens of the field."""
    import tokenizers

    names = field.tokenizer.vocabulary
    fast = tokenizers.Tokenizer.from_str(field.tokenizer.engine().to_str())
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
    for given in ([(text,) for text in texts], [*zip(texts, texts[::-1], strict=True)]):
        for row in given:
            if len(row) == 2 and sum(map(len, field.tokenizer.encode(list(row)))) >= field.room - 2:
                continue
            ids, segments = field.encode(*([text] for text in row))
            read = fast.encode(*row)
            expected = (ids[0].tolist(), segments[0].tolist())
            if (read.ids, read.type_ids) != expected:
                raise RuntimeError(
                    f"`tokenizers` reads another row from {FAST} than this tokenizer. Expected: "
                    f"{expected} for {row}. Received: {(read.ids, read.type_ids)}."
                )
