"""Reading and training of SentencePiece models."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from keras_attn.inputs import check_listed
from keras_attn.packages import needed
from keras_attn.text.checks import well_formed

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

SPACE = "▁"
"""SentencePiece's symbol for a space."""
MODEL_TYPES = ("unigram", "bpe")
_LONG_WORD = re.compile(r"(\S{100})(?=\S)")


def read_model(model: bytes) -> tuple[SentencePieceProcessor, list[str]]:
    """Reads a serialized model, and returns the library's processor and the pieces."""
    with needed("A SentencePiece tokenizer"):
        import sentencepiece

    if not isinstance(model, bytes):
        raise TypeError(
            "`model` must be the bytes of a SentencePiece model, as `Path(...).read_bytes()` gives "
            f"them. Received: {type(model).__name__}."
        )
    sentencepiece.set_min_log_level(1)  # no lines about models without a normalisation
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model or b"\0")
        return processor, [processor.id_to_piece(i) for i in range(len(processor))]
    except (RuntimeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"`model` must be a SentencePiece model. Received: {len(model):,} bytes that are "
            "damaged or of another kind. Copy the file again."
        ) from error


def model_pieces(model: bytes) -> tuple[str, ...]:
    """Returns the pieces of a serialized SentencePiece model in the order of its own ids."""
    return tuple(read_model(model)[1])


def train_model(
    texts: Iterable[str],
    vocabulary_size: int,
    model_type: str,
    normalize: bool,
    byte_fallback: bool,
    user_defined: Iterable[str],
    allow_fewer: bool,
) -> bytes:
    """Trains a model for `SentencePieceTokenizer.train`, and returns its serialized bytes."""
    with needed("A SentencePiece tokenizer"):
        import sentencepiece

    check_listed(texts, "texts")
    if model_type not in MODEL_TYPES:
        raise ValueError(
            f"`model_type` must be one of {list(MODEL_TYPES)}. Received: {model_type!r}."
        )
    failed: list[Exception] = []
    lines = _lines(texts, failed)
    first = next(lines, None)
    if first is None:
        raise ValueError(
            "`texts` must contain at least one string that is not blank. Received: none. Check the "
            "data; a generator can be read only once."
        )
    file = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=chain([first], lines),
            model_writer=file,
            vocab_size=vocabulary_size,
            model_type=model_type,
            byte_fallback=byte_fallback,
            normalization_rule_name="nmt_nfkc" if normalize else "identity",
            remove_extra_whitespaces=normalize,
            # Without a piece of its own a space would be text when it is decoded.
            required_chars=SPACE,
            user_defined_symbols=list(user_defined),
            hard_vocab_limit=not allow_fewer,
            max_sentence_length=2**30,
            num_threads=8,  # the sums, and so the model, depend on it
            pad_id=0,
            bos_id=1,
            eos_id=2,
            unk_id=3,
            minloglevel=2,
        )
    except RuntimeError as error:
        if failed:
            raise failed[0] from None
        raise ValueError(_reason(str(error), vocabulary_size)) from error
    return file.getvalue()


def _lines(texts: Iterable[str], failed: list[Exception]) -> Iterator[str]:
    """The texts with long words split, because their cost grows faster than their length.

    The library turns errors of `texts` into a RuntimeError, so the original is kept in `failed`.
    """
    try:
        for text in texts:
            read = well_formed(text)
            if read.strip():
                yield _LONG_WORD.sub(r"\1 ", read)
    except Exception as error:
        failed.append(error)
        raise


def _reason(error: str, size: int) -> str:
    """Explains from the library's error why a model of this size cannot be trained."""
    least = re.search(r"required_chars\. \d+ vs (\d+)", error)
    most = re.search(r"Please set it to a value <= (\d+)", error)
    if least:
        return (
            f"`vocabulary_size` must be at least {least[1]}: 4 special tokens, the bytes and the "
            f"characters of the texts. Received: {size}. Use a larger one; 8000 to 32000 is usual."
        )
    if most:
        return (
            f"The texts give a vocabulary of {most[1]} at most. Received: vocabulary_size={size}. "
            f"Use vocabulary_size={most[1]} or less, or more text."
        )
    return f"SentencePiece cannot be trained on these texts, with vocabulary_size={size}: {error}"
