"""White space as tasks read it: the same in Python and in a TensorFlow graph."""

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

# What `str.isspace` says of each character, written out: engines and releases differ in `\s`.
_BLANKS = (
    r"\x{9}-\x{D}\x{1C}-\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}"
    r"\x{3000}"
)


def normalize_white_space(text: str) -> str:
    """Strips a text, and replaces each run of white space, including newlines, by one space."""
    return " ".join(text.split())


def normalize_white_space_in_graph(tf: ModuleType, text: "tf.Tensor") -> "tf.Tensor":
    """Normalizes texts like `normalize_white_space`, with TensorFlow ops."""
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
    text = tf.strings.regex_replace(text, f"[{_BLANKS}]+", " ")
    return tf.strings.strip(text)
