"""WordPiece tokenizer of BERT."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import keras

from keras_attn.input_files import read_input
from keras_attn.inputs import check_listed
from keras_attn.line_ends import with_newlines
from keras_attn.packages import needed
from keras_attn.text.checks import well_formed
from keras_attn.text.offsets import Offsets, original_offsets
from keras_attn.text.row_tokenizer import PlacedTokenizer, Rows
from keras_attn.text.word_piece_engine import (
    CONTINUATION,
    MAX_WORD_LENGTH,
    is_alone,
    make_engine,
    removed_marks,
    without_long_words,
)

if TYPE_CHECKING:
    from keras_attn.text.word_piece_graph import GraphWordPiece

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_MOST_CHARACTERS = 1000  # size of the alphabet; rarer characters are unknown


@keras.saving.register_keras_serializable(package="keras_attn")
class WordPieceTokenizer(PlacedTokenizer):
    """WordPiece tokenizer with the ids of BERT's tokenizer.

    A text is cleaned (control characters are removed, white space becomes spaces) and, depending on
    the settings, lower-cased and stripped of accents. The text is then split into words at white
    space and around each punctuation mark and Chinese character. Each word is split from the left
    into the longest pieces in the vocabulary; pieces inside a word start with `##`. A word that
    cannot be split into such pieces, or has more than 100 characters, becomes `[UNK]`.

    Case, accents, spaces and rare characters are therefore lost, and `decode` puts a space between
    all words. `BytePairTokenizer` keeps all characters, optionally including spaces. Use
    `WordPieceTokenizer` for BERT's vocabularies, and for short sequences of clean text. If accents
    are kept, `é` and `e` with a combining accent have different ids, as in BERT's own tokenizer.
    Special tokens come only from `add_start` and `add_end`; unlike in BERT's own tokenizer, "[SEP]"
    in a text is not a special token. If `mask_in_text` is True, "[MASK]" in a text is a special
    token. In all other respects, the ids are the same as in Hugging Face's `BertTokenizer`. The
    older Python version of `BertTokenizer` differs for characters that are missing in one of the
    two Unicode tables.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805): BERT.
        - [Schuster and Nakajima, 2012](https://research.google/pubs/japanese-and-korean-voice-search/):
          WordPiece.

    Args:
        vocabulary: The tokens in the order of their ids. `[PAD]` must be the first; `[UNK]`,
            `[CLS]` and `[SEP]` are required; `[MASK]` is optional.
        lowercase: Whether letters are lower-cased; False for cased vocabularies.
        strip_accents: Whether accents are removed (`é` becomes `e`); `lowercase` if None.
        mask_in_text: Whether "[MASK]" in a text is read as the token `[MASK]`.

    Raises:
        ValueError: If the vocabulary is invalid, or lacks `[MASK]` although `mask_in_text` is True.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> words = ["un", "##aff", "##able", "café", "cafe", "!"]
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])
    >>> ids = tokenizer.encode("Unaffable Café! 🙂", add_start=True)
    >>> tokenizer.tokens(ids)
    ['[CLS]', 'un', '##aff', '##able', 'cafe', '!', '[UNK]']
    >>> tokenizer.decode(ids)
    'unaffable cafe ! [UNK]'
    """

    pad_id = 0
    max_word_length = MAX_WORD_LENGTH

    assets_name = "word_piece"

    def __init__(
        self,
        vocabulary: Sequence[str],
        lowercase: bool = True,
        strip_accents: bool | None = None,
        mask_in_text: bool = False,
    ) -> None:
        self.vocabulary = _checked_vocabulary(vocabulary)
        self.mask_in_text = bool(mask_in_text)
        self.lowercase = bool(lowercase)
        self.strip_accents = strip_accents if strip_accents is None else bool(strip_accents)
        ids_of = {token: index for index, token in enumerate(self.vocabulary)}
        self.unknown_id: int = ids_of["[UNK]"]
        self.start_id: int = ids_of["[CLS]"]
        self.end_id: int = ids_of["[SEP]"]
        self.mask_id: int | None = ids_of.get("[MASK]")
        """Id of `[MASK]`, or None."""
        if self.mask_in_text and self.mask_id is None:
            raise ValueError(
                "`mask_in_text` needs a vocabulary with [MASK]. Received: a vocabulary of "
                f"{len(self.vocabulary)} tokens without [MASK]."
            )
        # The text of each id; words have a space before them.
        self.token_texts = [
            "" if index in (self.pad_id, self.start_id, self.end_id) else _written(token)
            for index, token in enumerate(self.vocabulary)
        ]
        self._encoder: Any = None

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocabulary_size: int,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        min_frequency: int = 2,
        allow_fewer: bool = False,
        mask_in_text: bool = False,
    ) -> WordPieceTokenizer:
        """Learns a vocabulary from texts, deterministically.

        The pieces come from byte-pair merges over the 1000 most frequent characters, as in the
        `tokenizers` library. Words of more than 100 characters, which become `[UNK]`, are left out,
        because the cost of a word grows with the square of its length.

        Args:
            texts: The training texts, which are iterated twice.
            vocabulary_size: Number of ids: 5 special tokens, each character twice (at the start of
                a word and inside a word; punctuation marks and Chinese characters only once), and
                the merged pieces.
            lowercase: Whether letters are lower-cased.
            strip_accents: Whether accents are removed; `lowercase` if None.
            min_frequency: Minimum number of occurrences of a pair that is merged.
            allow_fewer: Whether the result may have fewer ids than `vocabulary_size` if the texts
                do not provide more.
            mask_in_text: Whether "[MASK]" in a text is read as the token `[MASK]`.

        Returns:
            A `WordPieceTokenizer`.

        Raises:
            ImportError: If the package `tokenizers` is not installed.
            TypeError: If an element of `texts` is not a string.
            ValueError: If `texts` is an iterator or has no character, or `vocabulary_size` is too
                small for the characters or, unless `allow_fewer` is True, too large for the texts.

        Example:

        >>> from keras_attn.text import WordPieceTokenizer
        >>> tokenizer = WordPieceTokenizer.train(["low lower lowest"] * 3, 22)
        >>> tokenizer.vocabulary[-2:], tokenizer.tokens(tokenizer.encode("Lows Lowest!"))
        (('low', 'lowe'), ['low', '##s', 'lowe', '##s', '##t', '[UNK]'])
        """
        with needed("A WordPiece tokenizer"):
            from tokenizers import trainers

        check_listed(texts, "texts")
        if isinstance(texts, Iterator):
            raise ValueError(
                "`texts` must be a collection of strings that can be read twice. Received: "
                f"{texts!r:.80}. Convert it to a list."
            )
        engine = make_engine({"[UNK]": 0}, lowercase, strip_accents)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(engine.normalizer.normalize_str(well_formed(text)))
        del counts[" "]
        if not counts:
            raise ValueError("`texts` must hold at least one character. Received: none.")
        common = sorted(counts, key=lambda c: (-counts[c], c))[:_MOST_CHARACTERS]
        alphabet = sorted(common)
        # Given beforehand; else the trainer adds them in the random order of a hash table.
        within = [CONTINUATION + c for c in alphabet if not is_alone(engine, c)]
        smallest = len(SPECIAL_TOKENS) + len(alphabet) + len(within)
        if vocabulary_size < smallest:
            raise ValueError(
                f"`vocabulary_size` must be at least {smallest}: {len(SPECIAL_TOKENS)} special "
                f"tokens, {len(alphabet)} characters, {len(within)} of them also within words. "
                f"Received: {vocabulary_size}. Use a larger one; 8000 to 32000 is usual."
            )
        trainer = trainers.WordPieceTrainer(
            vocab_size=vocabulary_size,
            min_frequency=min_frequency,
            special_tokens=[*SPECIAL_TOKENS, *within],
            limit_alphabet=len(alphabet),
            initial_alphabet=alphabet,
            continuing_subword_prefix=CONTINUATION,
            show_progress=False,
        )
        kept = (without_long_words(well_formed(text)) for text in texts)
        engine.train_from_iterator(kept, trainer)
        ids_of = engine.get_vocab(with_added_tokens=False)
        if len(ids_of) < vocabulary_size and not allow_fewer:
            raise ValueError(
                f"The texts yield a vocabulary of at most {len(ids_of)} tokens. Received: "
                f"vocabulary_size={vocabulary_size}, min_frequency={min_frequency}. Use "
                f"vocabulary_size={len(ids_of)} or less, more text, or a smaller "
                "min_frequency."
            )
        characters = {*SPECIAL_TOKENS, *alphabet, *within}
        merged = sorted(ids_of.keys() - characters, key=ids_of.__getitem__)
        vocabulary = [*SPECIAL_TOKENS, *alphabet, *within, *merged]
        return cls(vocabulary, lowercase, strip_accents, mask_in_text)

    @classmethod
    def from_vocabulary_file(
        cls,
        path: str | os.PathLike[str],
        lowercase: bool = True,
        strip_accents: bool | None = None,
        mask_in_text: bool = False,
    ) -> WordPieceTokenizer:
        r"""Reads a `vocab.txt` of BERT, with a token on each line.

        Args:
            path: The file.
            lowercase: True for "uncased" vocabularies, and False for "cased" vocabularies. The file
                does not contain this setting.
            strip_accents: Whether accents are removed; `lowercase` if None.
            mask_in_text: Whether "[MASK]" in a text is read as the token `[MASK]`.

        Returns:
            A `WordPieceTokenizer`, whose ids are the line numbers from 0.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If the vocabulary is invalid or not UTF-8. `[PAD]` must be on the first
                line, because padding is id 0 in the models of this package.

        Example:

        >>> import pathlib, tempfile
        >>> from keras_attn.text import WordPieceTokenizer
        >>> path = pathlib.Path(tempfile.mkdtemp(), "vocab.txt")
        >>> _ = path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nhi\n##gh\n", encoding="utf-8")
        >>> WordPieceTokenizer.from_vocabulary_file(path).encode("High")
        [4, 5]
        """
        try:
            text = read_input(path, "a vocabulary, a text file,").decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"Expected UTF-8. Received: {os.fspath(path)}: {error}.") from error
        lines = with_newlines(text.removeprefix("\ufeff")).removesuffix("\n").split("\n")
        try:
            return cls(lines, lowercase, strip_accents, mask_in_text)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error

    def _rows(self, texts: list[str]) -> Rows:
        read = [well_formed(text) for text in texts]
        found = self.engine().encode_batch_fast(read, add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def _placed_rows(self, texts: list[str]) -> tuple[Rows, list[Offsets]]:
        read = [well_formed(text) for text in texts]
        found = self.engine().encode_batch(read, add_special_tokens=False)
        offsets = [
            self._with_marks(text, encoding.ids, encoding.offsets)
            for text, encoding in zip(texts, found, strict=True)
        ]
        return [encoding.ids for encoding in found], offsets

    def _text(self, ids: list[int]) -> str:
        return "".join([self.token_texts[index] for index in ids]).removeprefix(" ")

    def to_graph(self) -> GraphWordPiece:
        """Returns the tokenizer as a `tf.Module` of core TensorFlow ops.

        Returns:
            A `GraphWordPiece`, for `tf.data` pipelines and SavedModels.

        Raises:
            ImportError: If TensorFlow is not installed.

        Example:

        >>> import tensorflow as tf
        >>> from keras_attn.text import WordPieceTokenizer
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hi", "##gh"]
        >>> graph = WordPieceTokenizer(words).to_graph()
        >>> graph.encode(tf.constant(["High", ""])).to_list()
        [[4, 5], []]
        """
        with needed("A tokenizer in a graph"):
            from keras_attn.text.word_piece_graph import GraphWordPiece

        return GraphWordPiece(self)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__` as JSON-compatible values."""
        return {
            "vocabulary": list(self.vocabulary),
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "mask_in_text": self.mask_in_text,
        }

    def __repr__(self) -> str:
        return (
            f"<WordPieceTokenizer vocabulary_size={self.vocabulary_size} "
            f"lowercase={self.lowercase}>"
        )

    def engine(self) -> Any:
        """Returns the tokenizer of the `tokenizers` library that encodes the texts."""
        if self._encoder is None:
            ids_of = {token: index for index, token in enumerate(self.vocabulary)}
            whole = ["[MASK]"] if self.mask_in_text else []
            self._encoder = make_engine(ids_of, self.lowercase, self.strip_accents, whole)
        return self._encoder

    def _with_marks(self, text: str, ids: list[int], offsets: Offsets) -> Offsets:
        """Extends offsets by the removed accents that follow."""
        places = original_offsets(text, offsets)
        if text.isascii():
            return places
        marks = removed_marks(self.lowercase, self.strip_accents)
        if marks.isdisjoint(text):
            return places
        ends = [*range(len(text) + 1)]  # for each place, that behind the marks that begin there
        for place in reversed(range(len(text))):
            if text[place] in marks:
                ends[place] = ends[place + 1]
        return [
            (start, end if index == self.mask_id else ends[end])
            for index, (start, end) in zip(ids, places, strict=True)
        ]


def _written(token: str) -> str:
    within = token.startswith(CONTINUATION) and len(token) > len(CONTINUATION)
    return token[len(CONTINUATION) :] if within else f" {token}"


def _checked_vocabulary(vocabulary: Sequence[str]) -> tuple[str, ...]:
    tokens = tuple(vocabulary)
    expected = "A vocabulary of WordPiece must have [PAD] as its first token, and"
    if not tokens or tokens[0] != "[PAD]":
        received = (
            f"a vocabulary with [PAD] as token {tokens.index('[PAD]')}" if "[PAD]" in tokens else ""
        )
        raise ValueError(
            f"{expected} [UNK], [CLS] and [SEP]: id 0 is padding in our models. Received: "
            f"{received or f'a vocabulary that begins with {list(tokens[:3])}'}."
        )
    missing = [token for token in SPECIAL_TOKENS[:4] if token not in tokens]
    if missing:
        raise ValueError(
            f"{expected} [UNK], [CLS] and [SEP]. Received: a vocabulary without {missing}."
        )
    seen: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if not isinstance(token, str) or not token or well_formed(token) != token:
            raise ValueError(f"{expected} strings that are not empty. Token {index} is {token!r}.")
        if token in seen:
            raise ValueError(
                f"{expected} each token once. Received {token!r} as tokens {seen[token]} and "
                f"{index}."
            )
        seen[token] = index
    return tokens
