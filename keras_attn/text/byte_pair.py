"""Byte-level byte-pair encoding."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import keras

from keras_attn.inputs import check_listed
from keras_attn.packages import needed
from keras_attn.text.byte_pair_patterns import PATTERNS, pre_tokenizer
from keras_attn.text.bytes_of_text import BYTE_ALPHABET
from keras_attn.text.checks import readable, well_formed
from keras_attn.text.normalization import (
    compose_with_offsets,
    normalize_text,
    normalize_with_offsets,
)
from keras_attn.text.offsets import Offsets, byte_offsets, original_offsets
from keras_attn.text.row_tokenizer import PlacedTokenizer, Rows

if TYPE_CHECKING:
    from keras_attn.text.byte_pair_graph import GraphBytePair

SPECIAL_TOKENS = ("<pad>", "<start>", "<end>")

# Arguments that most tokenizers leave as they are.
_UNUSUAL = {
    "pattern": "keras_attn",
    "special_tokens": list(SPECIAL_TOKENS),
    "ignore_merges": False,
    "end_tokens": [],
    "compose": False,
    "whole_tokens": [],
}
_BLANKS = b" \t\n\v\f\r"
_BYTE_OF = {character: byte for byte, character in enumerate(BYTE_ALPHABET)}


@keras.saving.register_keras_serializable(package="keras_attn")
class BytePairTokenizer(PlacedTokenizer):
    """Tokenizer by byte-level byte-pair encoding.

    The tokenizer splits the UTF-8 bytes of a text into pre-tokens: words, numbers and runs of
    symbols, each with the preceding space (`pattern` defines them). In each pre-token, it
    repeatedly merges the adjacent pair `(a, b)` that comes first in the list of merges into one
    token `ab`, until the pre-token contains no pair of the list. The list contains the most
    frequent pairs of the training texts, in order of frequency.

    All 256 bytes are tokens, so there is no unknown token. By default, texts are normalized first.
    With `normalize=False` and `compose=False`, `decode` restores every text including spaces, line
    breaks and control characters. Ids 0, 1 and 2 are `<pad>`, `<start>` and `<end>` unless other
    `special_tokens` are given. If a text contains special tokens as strings, they are not read as
    special tokens.

    References:
        - [Sennrich et al., 2016](https://arxiv.org/abs/1508.07909): byte-pair encoding of words.
        - [Radford et al., 2019](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf):
          over bytes (GPT-2).

    Args:
        vocabulary: The tokens in the order of their ids, written in GPT-2's byte alphabet (a space
            is `Ġ`): the special tokens, all 256 bytes and the merged tokens. The default special
            tokens come first; other `special_tokens` may be anywhere.
        merges: Pairs of tokens, the most frequent first. Both tokens and their concatenation must
            be in `vocabulary`.
        normalize: Whether texts are normalized before they are encoded, in Python and in a graph,
            so that texts that look the same have the same ids: each run of white space becomes one
            space, white space at both ends is removed, and a letter with a combining mark becomes
            one character, as in NFC. If False, white space is kept, which is needed for source
            code, poems and other texts with lines.
        pattern: Pattern that splits texts into pre-tokens. `"keras_attn"`: pre-tokens of bounded
            length, the same in every version of Unicode. `"gpt2"` and `"llama3"`: the pre-tokens of
            these models. A graph uses the classes of letters, numbers and blanks of the
            `tokenizers` version with which it was created.
        special_tokens: Tokens without text: padding, start and end (which may be the same token),
            followed by other tokens that never result from a text.
        ignore_merges: Whether a pre-token in the vocabulary is one token even if the merges do not
            produce it, as in Llama 3.
        end_tokens: Special tokens that end a text in addition to the end token, such as the end of
            a turn in Llama 3.
        compose: Whether a letter with a combining mark becomes one character, as with `normalize`,
            while white space is kept. It has no effect if `normalize` is True. Unlike NFC, a mark
            is not composed across another mark, and no character is decomposed.
        whole_tokens: Tokens of the vocabulary, written as in texts, that are one token anywhere in
            a text, such as the runs of spaces in ModernBERT. The longest match is used.

    Raises:
        ValueError: If the vocabulary, the merges, the pattern or the special tokens are invalid.

    Example:

    >>> from keras_attn.text import BytePairTokenizer
    >>> texts = ["low low low lower lower newest newest newest newest widest widest"]
    >>> tokenizer = BytePairTokenizer.train(texts, vocabulary_size=268)
    >>> ids = tokenizer.encode("the lowest 🙂")
    >>> tokenizer.tokens(ids)
    ['t', 'h', 'e', '▁low', 'est', '▁', '<0xF0>', '<0x9F>', '<0x99>', '<0x82>']
    >>> tokenizer.decode(ids)
    'the lowest 🙂'
    >>> tokenizer.encode("  the\\u00a0lowest\\n🙂") == ids
    True
    """

    # Every byte is a token, so there is no unknown token.
    unknown_id = None

    assets_name = "byte_pair"

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Sequence[tuple[str, str] | list[str]],
        normalize: bool = True,
        pattern: str = "keras_attn",
        special_tokens: Sequence[str] = SPECIAL_TOKENS,
        ignore_merges: bool = False,
        end_tokens: Sequence[str] = (),
        compose: bool = False,
        whole_tokens: Sequence[str] = (),
    ) -> None:
        if pattern not in PATTERNS:
            raise ValueError(f"`pattern` must be one of {list(PATTERNS)}. Received: {pattern!r}.")
        self.special_tokens = _checked_special_tokens(special_tokens)
        self.whole_tokens = tuple(whole_tokens)
        self.vocabulary = _checked_vocabulary(vocabulary, self.special_tokens, self.whole_tokens)
        ordinary = set(self.vocabulary) - {*self.special_tokens, *self.whole_tokens}
        self.merges = _checked_merges(merges, ordinary)
        self.normalize = bool(normalize)
        self.compose = bool(compose)
        self.pattern = pattern
        self.ignore_merges = bool(ignore_merges)
        self.pad_id, self.start_id, self.end_id = map(
            self.vocabulary.index, self.special_tokens[: len(SPECIAL_TOKENS)]
        )
        self.end_tokens = tuple(end_tokens)
        if not set(self.end_tokens) <= set(self.special_tokens):
            raise ValueError(
                f"`end_tokens` must be special tokens. Received: {list(self.end_tokens)} with "
                f"special_tokens={list(self.special_tokens)}."
            )
        others = (self.vocabulary.index(token) for token in self.end_tokens)
        self.end_ids = tuple(dict.fromkeys([self.end_id, *others]))
        """The ids of all tokens that end a text, `end_id` first."""
        # The bytes of each id; special tokens have none.
        self.token_bytes = [
            bytes(_BYTE_OF[character] for character in token) if token in ordinary else b""
            for token in self.vocabulary
        ]
        for token in self.whole_tokens:
            self.token_bytes[self.vocabulary.index(token)] = token.encode()
        self.leading_blanks = [len(b) - len(b.lstrip(_BLANKS)) for b in self.token_bytes]
        """Number of leading blanks, which are one byte each, of each id."""
        self._encoder: Any = None

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocabulary_size: int,
        min_frequency: int = 2,
        allow_fewer: bool = False,
        normalize: bool = True,
        pattern: str = "keras_attn",
    ) -> BytePairTokenizer:
        """Learns the merges from texts, deterministically.

        Args:
            texts: The training texts, such as a list of strings or a generator of lines.
            vocabulary_size: Number of ids: 3 special tokens, 256 bytes, and the merged tokens.
            min_frequency: Minimum number of occurrences of a pair that is merged.
            allow_fewer: Whether the result may have fewer ids than `vocabulary_size` if the texts
                do not provide more.
            normalize: Whether texts are normalized before they are encoded. If True, the training
                texts are also normalized.
            pattern: Pattern that splits texts into pre-tokens: `"keras_attn"`, `"gpt2"` or
                `"llama3"`.

        Returns:
            A `BytePairTokenizer`.

        Raises:
            ImportError: If the package `tokenizers` is not installed.
            TypeError: If an element of `texts` is not a string.
            ValueError: If there is no text, the pattern is unknown, or `vocabulary_size` is smaller
                than 259 or, unless `allow_fewer` is True, too large for the texts.

        Example:

        >>> from keras_attn.text import BytePairTokenizer
        >>> tokenizer = BytePairTokenizer.train(["a rose is a rose is a rose"], 263)
        >>> tokenizer.vocabulary[-4:]
        ('os', 'ros', 'Ġros', 'Ġrose')
        """
        check_listed(texts, "texts")
        with needed("A byte-pair tokenizer"):
            from tokenizers import trainers

        smallest = len(SPECIAL_TOKENS) + 256
        if vocabulary_size < smallest:
            raise ValueError(
                f"`vocabulary_size` must be at least {smallest} ({len(SPECIAL_TOKENS)} special "
                f"tokens and 256 bytes). Received: vocabulary_size={vocabulary_size}. Use a larger "
                "one; 4000 to 32000 is usual."
            )
        checked = (text for text in (_read(text, normalize) for text in texts) if text)
        first = next(checked, None)
        if first is None:
            raise ValueError(
                "`texts` must contain at least one string that is not empty. Received: none. Check "
                "the data; a generator can be read only once."
            )
        if pattern not in PATTERNS:
            raise ValueError(f"`pattern` must be one of {list(PATTERNS)}. Received: {pattern!r}.")
        engine = _engine({}, [], pattern)
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary_size,
            min_frequency=min_frequency,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=list(BYTE_ALPHABET),
            show_progress=False,
        )
        engine.train_from_iterator(itertools.chain([first], checked), trainer)
        model = json.loads(engine.to_str())["model"]
        vocabulary = sorted(model["vocab"], key=model["vocab"].get)
        if len(vocabulary) < vocabulary_size and not allow_fewer:
            raise ValueError(
                f"The texts yield a vocabulary of at most {len(vocabulary)} tokens. "
                f"Received: vocabulary_size={vocabulary_size}, "
                f"min_frequency={min_frequency}. Use vocabulary_size={len(vocabulary)} or "
                "less, more text, or a smaller min_frequency."
            )
        return cls(vocabulary, model["merges"], normalize, pattern)

    def normalized(self, text: str) -> str:
        """Returns the normalized text that the tokenizer encodes.

        Args:
            text: A string.

        Returns:
            The string after normalization (`normalize=True`) or composition (`compose=True`). With
            neither, only lone surrogates are replaced. `decode(encode(text))` returns the same
            string.

        Raises:
            TypeError: If `text` is not a string.
        """
        text = _read(text, self.normalize)
        return compose_with_offsets(text)[0] if self.compose and not self.normalize else text

    def engine(self) -> Any:
        """Returns the tokenizer of the `tokenizers` library that encodes normalized texts."""
        if self._encoder is None:
            ids_of = {
                token: index
                for index, token in enumerate(self.vocabulary)
                if self.token_bytes[index]
            }
            self._encoder = _engine(
                ids_of, self.merges, self.pattern, self.ignore_merges, self.whole_tokens
            )
        return self._encoder

    def _rows(self, texts: list[str]) -> Rows:
        read = [self.normalized(text) for text in texts]
        found = self.engine().encode_batch_fast(read, add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def _placed_rows(self, texts: list[str]) -> tuple[Rows, list[Offsets]]:
        """Computes ids with offsets; only white space that normalization strips is not covered."""
        rows, offsets = self._rows(texts), []
        for text, row in zip(texts, rows, strict=True):
            lengths = [len(self.token_bytes[index]) for index in row]
            read = well_formed(text)
            if self.normalize or self.compose:
                read, places = (normalize_with_offsets if self.normalize else compose_with_offsets)(
                    read
                )
                found = byte_offsets(read, lengths)
                found = [(places[start][0], places[end - 1][1]) for start, end in found]
            else:
                found = byte_offsets(read, lengths)
            offsets.append(original_offsets(text, found))
        return rows, offsets

    def _text(self, ids: list[int]) -> str:
        return b"".join([self.token_bytes[index] for index in ids]).decode("utf-8", "replace")

    def _pieces(self, ids: list[int]) -> list[str]:
        return [
            readable(self.token_bytes[index]) if self.token_bytes[index] else self.vocabulary[index]
            for index in ids
        ]

    def to_graph(self) -> GraphBytePair:
        """Returns the tokenizer as a `tf.Module` of core TensorFlow ops.

        Returns:
            A `GraphBytePair`, for `tf.data` pipelines and SavedModels.

        Raises:
            ImportError: If TensorFlow is not installed; or if `tokenizers` is not installed, unless
                `pattern` is `"keras_attn"`.

        Example:

        >>> import tensorflow as tf
        >>> from keras_attn.text import BytePairTokenizer
        >>> graph = BytePairTokenizer.train(["a rose is a rose is a rose"], 263).to_graph()
        >>> graph.encode(tf.constant(["a rose", ""])).to_list()
        [[67, 262], []]
        """
        with needed("A tokenizer in a graph"):
            from keras_attn.text.byte_pair_graph import GraphBytePair

        return GraphBytePair(self)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__` as JSON-compatible values."""
        return {
            "vocabulary": list(self.vocabulary),
            "merges": [list(m) for m in self.merges],
            "normalize": self.normalize,
            **self._unusual(),
        }

    def _unusual(self) -> dict[str, Any]:
        """Rarely used arguments that differ from their defaults."""
        values = (
            self.pattern, list(self.special_tokens), self.ignore_merges, list(self.end_tokens),
            self.compose, list(self.whole_tokens),
        )  # fmt: skip
        given = zip(_UNUSUAL.items(), values, strict=True)
        return {name: value for (name, usual), value in given if value != usual}


def _engine(
    ids_of: dict[str, int],
    merges: Sequence[tuple[str, str]],
    pattern: str,
    ignore_merges: bool = False,
    whole_tokens: Sequence[str] = (),
) -> Any:
    """The encoder and trainer of the `tokenizers` library."""
    with needed("A byte-pair tokenizer"):
        from tokenizers import AddedToken, Tokenizer, models

    engine = Tokenizer(models.BPE(ids_of, list(merges), ignore_merges=ignore_merges))
    engine.pre_tokenizer = pre_tokenizer(pattern)
    if whole_tokens:
        engine.add_tokens([AddedToken(token, normalized=False) for token in whole_tokens])
    return engine


def _read(text: str, normalize: bool) -> str:
    text = well_formed(text)
    return normalize_text(text) if normalize else text


def _checked_special_tokens(tokens: Sequence[str]) -> tuple[str, ...]:
    found = () if isinstance(tokens, str) else tuple(tokens)
    if len(found) < len(SPECIAL_TOKENS) or not all(isinstance(t, str) and t for t in found):
        raise ValueError(
            "`special_tokens` must be strings: the tokens for padding, the start and the end, which"
            f" may be the same, and perhaps others. Received: {str(tokens)[:80]}."
        )
    return found


def _checked_vocabulary(
    vocabulary: Sequence[str], special: tuple[str, ...], whole: tuple[str, ...] = ()
) -> tuple[str, ...]:
    tokens = tuple(vocabulary)
    start = "begin with" if special == SPECIAL_TOKENS else "contain"
    expected = (
        f"`vocabulary` must {start} {list(special[:3])}, and contain all 256 bytes and the merged "
        "tokens."
    )
    train = "Make one with `BytePairTokenizer.train`."
    if special == SPECIAL_TOKENS and tokens[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS:
        received = list(tokens[: len(SPECIAL_TOKENS)])
        raise ValueError(f"{expected} Received: a vocabulary that begins with {received}. {train}")
    known, aside = set(tokens), {*special, *whole}
    if "" in whole or len(aside) < len(set(special)) + len(whole):
        raise ValueError(
            "`whole_tokens` must be different strings that are not empty and no special tokens. "
            f"Received: {str(list(whole))[:80]}."
        )
    if not aside <= known:
        raise ValueError(
            f"{expected} Received: a vocabulary without {sorted(aside - known)[:5]}. {train}"
        )
    ordinary = [token for token in tokens if token not in aside]
    for token in ordinary:
        if not isinstance(token, str) or not token or not _BYTE_OF.keys() >= set(token):
            raise ValueError(
                f"{expected} Received: the token {token!r}, which is not written in the byte "
                f"alphabet of GPT-2 (a space is 'Ġ'). {train}"
            )
    if len(known) < len(tokens):
        twice = next(token for index, token in enumerate(tokens) if token in tokens[:index])
        raise ValueError(f"{expected} Received: the token {twice!r} twice. {train}")
    missing = set(BYTE_ALPHABET) - set(ordinary)
    if missing:
        raise ValueError(
            f"{expected} Received: a vocabulary without {len(missing)} of the bytes: "
            f"{sorted(missing)[:8]}. {train}"
        )
    return tokens


def _checked_merges(
    merges: Sequence[tuple[str, str] | list[str]], ordinary: set[str]
) -> tuple[tuple[str, str], ...]:
    expected = "`merges` must be pairs of tokens (left, right)"
    seen: set[tuple[str, str]] = set()
    for merge in merges:
        two = isinstance(merge, list | tuple) and len(merge) == 2
        if not two or not all(isinstance(token, str) for token in merge):
            raise ValueError(f"{expected}. Received: {merge!r}. Split it in two.")
        left, right = merge
        for token in (left, right, left + right):
            if token not in ordinary:
                raise ValueError(
                    f"{expected}, each and both together in the vocabulary. Received: {merge!r}, "
                    f"but {token!r} is not in it. Use both from the same tokenizer."
                )
        if (left, right) in seen:
            raise ValueError(f"{expected}, each pair once. Received {merge!r} twice. Remove one.")
        seen.add((left, right))
    return tuple((left, right) for left, right in merges)
