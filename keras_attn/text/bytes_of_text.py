"""Byte alphabet and pre-token pattern of byte-pair encoding."""

import itertools
from collections.abc import Iterable

# Code points that are punctuation, symbols or controls. They are listed, because `\p{...}` and `\s`
# follow the Unicode version of the engine: two engines, or two releases of one, would disagree.
# Code points in no range below that are neither blanks nor 0-9 count as letters.
SYMBOL_RANGES = (
    (0x00, 0x08), (0x0E, 0x1F),  # controls, without \t \n \v \f \r
    (0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E),  # ASCII
    (0x7F, 0xA9), (0xAB, 0xB4), (0xB6, 0xB9), (0xBB, 0xBF), (0xD7, 0xD7), (0xF7, 0xF7),  # Latin-1
    (0x37E, 0x37E), (0x387, 0x387),  # Greek
    (0x55A, 0x55F), (0x589, 0x58A), (0x58D, 0x58F),  # Armenian
    (0x5BE, 0x5BE), (0x5C0, 0x5C0), (0x5C3, 0x5C3), (0x5F3, 0x5F4),  # Hebrew
    (0x606, 0x60F), (0x61B, 0x61F), (0x66A, 0x66D), (0x6D4, 0x6D4),  # Arabic
    (0x964, 0x965), (0xE3F, 0xE3F), (0xF04, 0xF14), (0xF3A, 0xF3D),  # Indic, Thai, Tibetan
    (0x104A, 0x104F), (0x1360, 0x1368), (0x17D4, 0x17DB), (0x1800, 0x180A),  # Burmese to Mongolian
    (0x2000, 0x200B), (0x200E, 0x206F),  # general punctuation, without the joiners
    (0x20A0, 0x20CF), (0x2100, 0x2BFF),  # currency, letterlike, arrows, mathematics, dingbats
    (0x2E00, 0x2FFF), (0x3000, 0x3004), (0x3008, 0x3020), (0x3030, 0x3030), (0x303D, 0x303F),  # CJK
    (0x30FB, 0x30FB), (0x3200, 0x33FF),  # katakana middle dot, enclosed CJK
    (0xFD3E, 0xFD3F), (0xFE10, 0xFE1F), (0xFE30, 0xFE6F), (0xFEFF, 0xFEFF),  # forms
    (0xFF01, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF65), (0xFFE0, 0xFFFD),
    (0x1D000, 0x1D24F), (0x1F000, 0x1FBFF), (0xE0000, 0xE007F),  # music, emoji, tags of flags
)  # fmt: skip
# Zero-width joiners and variation selectors go with letters (Persian, Hindi) and with emoji.
JOINER_RANGES = ((0x200C, 0x200D), (0xFE00, 0xFE0F))
# Scripts written without spaces. Their runs are not words, and are cut sooner.
UNSPACED_RANGES = (
    (0xE00, 0xE3E), (0xE40, 0xF03), (0xF15, 0xF39), (0xF3E, 0x1049), (0x1050, 0x109F),
    (0x1780, 0x17D3), (0x17DC, 0x17FF), (0x1950, 0x19FF), (0x1A20, 0x1AAF),  # Thai to Khmer
    (0x3005, 0x3007), (0x3021, 0x302F), (0x3031, 0x303C), (0x3040, 0x30FA), (0x30FC, 0x312F),
    (0x31A0, 0x31FF), (0x3400, 0xA4CF), (0xF900, 0xFAFF), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF),
)  # fmt: skip


def _class(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(rf"\x{{{low:X}}}-\x{{{high:X}}}" for low, high in ranges)


def _split_pattern() -> str:
    """The pre-token pattern: letters, digits or symbols after at most one space; line breaks;
    spaces.

    Every code point matches one of the branches, so nothing is lost between two matches. Every
    branch is bounded, which bounds the work for a pre-token. Without look-around and Unicode
    classes, RE2 (TensorFlow) and Oniguruma (`tokenizers`) give the same matches.
    """
    symbols, joiners, breaks = _class(SYMBOL_RANGES), _class(JOINER_RANGES), r"\x{9}-\x{D}"
    unspaced = _class(UNSPACED_RANGES)
    return "|".join(
        (
            rf" ?[^ 0-9{breaks}{symbols}{unspaced}]{{1,64}}",
            rf" ?[{unspaced}]{{1,16}}",
            r" ?[0-9]{1,3}",
            rf" ?[{symbols}{joiners}]{{1,32}}",
            rf"[{breaks}]{{1,32}}",
            r" {1,32}",
        )
    )


SPLIT_PATTERN = _split_pattern()


def _byte_alphabet() -> tuple[str, ...]:
    """A printable character for each byte, as in GPT-2: the byte itself, or U+0100 + n."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = itertools.count(0x100)
    return tuple(chr(b) if b in printable else chr(next(others)) for b in range(256))


BYTE_ALPHABET = _byte_alphabet()
