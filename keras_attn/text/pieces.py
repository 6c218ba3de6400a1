"""Streaming of texts: complete characters, and stop strings."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from keras_attn.text.sentence_piece import SentencePieceTokenizer
from keras_attn.text.tokenizer import Tokenizer

EACH_BYTE = "keras_attn.each_byte"
"""Name of an error handler that replaces each invalid byte by U+FFFD, like SentencePiece."""


def _each_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(EACH_BYTE, _each_byte)


class TokenReader:
    """Converts a stream of ids to text, one complete character at a time.

    The concatenated results of all calls equal `tokenizer.decode` of all ids. A character whose
    bytes are spread over several tokens is returned when its last token is read. Unlike `decode` of
    SentencePiece, the reader keeps a space at the start, because the ids continue a text.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        errors = EACH_BYTE if isinstance(tokenizer, SentencePieceTokenizer) else "replace"
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)

    def read(self, ids: Sequence[int]) -> str:
        """Reads further ids, and returns the text that they complete."""
        pieces = getattr(self._tokenizer, "token_bytes", None)
        if pieces is None:
            return self._tokenizer.decode(list(ids))
        return self._decoder.decode(b"".join(pieces[index] for index in ids))

    def end(self) -> str:
        """Returns U+FFFD for an incomplete character at the end; otherwise, an empty string."""
        return self._decoder.decode(b"", final=True)


def checked_stops(stops: str | Sequence[str] | None) -> tuple[str, ...]:
    """Checks stop strings (one, several or None), and returns them as a tuple."""
    if stops is not None and not isinstance(stops, Sequence):
        raise TypeError(
            "`stop` must be a string or a list of strings. Received: "
            f"{stops!r}, of type {type(stops).__name__}."
        )
    found = (stops,) if isinstance(stops, str) else tuple(stops or ())
    for stop in found:
        if not isinstance(stop, str):
            raise TypeError(
                f"`stop` must be strings. Received: {stop!r}, of type {type(stop).__name__}."
            )
        if not stop:
            raise ValueError(
                "`stop` must not contain an empty string, because every text would end at "
                f"once. Received: {found!r}. Leave it out."
            )
        if any("\ud800" <= character <= "\udfff" for character in stop):
            raise ValueError(
                f"`stop` must be valid text. Received: {stop!r}, which contains half a character."
            )
    return tuple(dict.fromkeys(found))


def cut_at_stop(text: str, stops: Sequence[str]) -> str:
    """Cuts a text before the first stop string."""
    places = [text.find(stop) for stop in stops]
    return text[: min((place for place in places if place >= 0), default=len(text))]


def stop_pattern(stops: Sequence[str]) -> str:
    """Returns an RE2 pattern that matches the first stop string and all text after it."""
    codes = ("".join(f"\\x{{{ord(character):x}}}" for character in stop) for stop in stops)
    return f"(?s)(?:{'|'.join(codes)}).*"


class StopReader:
    """Finds the first stop string in a streamed text.

    The concatenated results of all calls equal `cut_at_stop` of the whole text. The end of a piece
    is held back while it may be the beginning of a stop string.
    """

    def __init__(self, stops: Sequence[str]):
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False
        """Whether a stop string was found."""

    def read(self, piece: str) -> str:
        """Reads the next piece, and returns the text that cannot belong to a stop string."""
        if self.stopped:
            return ""
        text, place = self._held + piece, 0
        while place < len(text):
            if text.startswith(self._stops, place):
                self.stopped, self._held = True, ""
                return text[:place]
            if any(stop.startswith(text[place:]) for stop in self._stops):
                break
            place += 1
        self._held = text[place:]
        return text[:place]

    def end(self) -> str:
        """Returns the text that is still held back, cut before a stop string."""
        held, self._held = self._held, ""
        text = cut_at_stop(held, self._stops)  # a shorter one in the beginning of a longer one
        self.stopped = self.stopped or len(text) < len(held)
        return text
