"""WordPiece encoder of the `tokenizers` library with BERT's settings."""

import functools
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keras_attn.packages import needed

if TYPE_CHECKING:
    import tokenizers

CONTINUATION = "##"
MAX_WORD_LENGTH = 100
"""Maximum length of a word; longer words are `[UNK]`."""
# Letters and digits except ideographs, each of which is a word for BERT.
_WORD = (
    r"[^\W\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF\U00020000-\U0002A6DF\U0002A700-\U0002CEAF"
    r"\U0002F800-\U0002FA1F]"
)
_LONG = re.compile(f"{_WORD}{{{MAX_WORD_LENGTH + 1},}}")


def without_long_words(text: str) -> str:
    """Returns a text without the words that are too long for WordPiece."""
    return _LONG.sub(" ", text)


def make_engine(
    ids_of: dict[str, int],
    lowercase: bool,
    strip_accents: bool | None,
    whole: Sequence[str] = (),
) -> Any:
    """Creates a tokenizer of the `tokenizers` library with BERT's normalization."""
    with needed("A WordPiece tokenizer"):
        from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

    engine = Tokenizer(
        models.WordPiece(
            ids_of,
            unk_token="[UNK]",
            max_input_chars_per_word=MAX_WORD_LENGTH,
            continuing_subword_prefix=CONTINUATION,
        )
    )
    engine.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.add_special_tokens([AddedToken(token, normalized=False) for token in whole])
    return engine


@functools.lru_cache(maxsize=4)
def removed_marks(lowercase: bool, strip_accents: bool | None) -> frozenset[str]:
    """Returns the combining marks that BERT's cleaning removes."""
    clean = make_engine({"[UNK]": 0}, lowercase, strip_accents).normalizer.normalize_str
    marks = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) == "Mn"]
    return frozenset(mark for mark in marks if not clean(mark))


def is_alone(engine: "tokenizers.Tokenizer", character: str) -> bool:
    """Returns whether a cleaned character always is a separate word."""
    around = engine.normalizer.normalize_str(f"a{character}a")
    return len(engine.pre_tokenizer.pre_tokenize_str(around)) > 1
