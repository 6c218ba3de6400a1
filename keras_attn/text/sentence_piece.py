"""SentencePiece tokenizer with unigram and byte-pair models."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import keras

from keras_attn.hints import TensorLike
from keras_attn.packages import needed
from keras_attn.text.checks import checked_ids, for_each_row, well_formed
from keras_attn.text.offsets import Offsets, original_offsets
from keras_attn.text.row_tokenizer import PlacedTokenizer, Rows
from keras_attn.text.sentence_piece_model import SPACE, read_model, train_model

if TYPE_CHECKING:
    from keras_attn.text.sentence_piece_graph import GraphSentencePiece


@keras.saving.register_keras_serializable(package="keras_attn")
class SentencePieceTokenizer(PlacedTokenizer):
    r"""Tokenizer with a SentencePiece model.

    The model defines the normalization of texts: `nmt_nfkc` unifies characters that look the same
    and collapses white space, and `identity` keeps the text. Unless the model has the setting
    `add_dummy_prefix=False`, a space is put before the text. The tokenizer then writes spaces as
    `▁`, and splits the text into the most probable pieces (unigram) or by merges (BPE). Pieces
    cross word boundaries only if the model was trained that way. A character that the model lacks
    becomes its UTF-8 bytes (`<0xE2>`) if the model has byte fallback; otherwise, a run of such
    characters is one unknown token, which is decoded as `" ⁇ "`.
    Control symbols such as `</s>` never result from a text; user-defined symbols in a text are
    always recognized.

    In Python, the tokenizer uses the `sentencepiece` library; graphs use the ops of
    `tensorflow_text`. Both give the same ids, except where two segmentations of a text have the
    same probability up to rounding.

    References:
        - [Kudo and Richardson, 2018](https://arxiv.org/abs/1808.06226): SentencePiece.
        - [Kudo, 2018](https://arxiv.org/abs/1804.10959): unigram language models.

    Args:
        model: The serialized SentencePiece model: the bytes of a file such as `tokenizer.model` or
            `source.spm`.
        vocabulary: The pieces in the order of the ids that the neural network uses, if these are
            not the ids of the SentencePiece model. Pieces of the model that are not in the
            vocabulary are unknown. The vocabulary may have further entries, such as language marks;
            a piece that is unknown to the model is looked up among these entries, as in Marian.
        pad_token: The padding token. By default, the padding token of the model; if it has none,
            `<pad>` if it is in the vocabulary, otherwise the end token.
        start_token: The token that begins a text. By default, the start token of the model (`<s>`)
            if it is in the vocabulary, otherwise the padding token, which begins the targets of
            Marian and T5.
        end_token: The token that ends a text. By default, the end token of the model (`</s>`).
        unknown_token: The token for unknown pieces. By default, the unknown token of the model
            (`<unk>`).
        mask_token: The token that masks a word, if there is one.
        special_tokens: Other tokens that never result from a text and are decoded to nothing, such
            as language marks and sentinels. The control symbols of the model are always included.
        end_tokens: Tokens that end a text in addition to `end_token`.

    Raises:
        ImportError: If the package `sentencepiece` is not installed.
        TypeError: If `model` is not bytes, or a token is not a string.
        ValueError: If the model is damaged, or the vocabulary lacks a given or default token,
            contains a token twice, or lacks more than half of the model's pieces.

    Example:

    >>> from keras_attn.text import SentencePieceTokenizer
    >>> texts = ["low low low lower lower newest newest newest newest widest widest"]
    >>> tokenizer = SentencePieceTokenizer.train(texts, 290, model_type="bpe")
    >>> ids = tokenizer.encode("the  lowest é")
    >>> tokenizer.tokens(ids)
    ['▁', 't', '<0x68>', 'e', '▁low', 'est', '▁', '<0xC3>', '<0xA9>']
    >>> tokenizer.decode(ids)
    'the lowest é'
    """

    exported_with = ("tensorflow", "tensorflow_text")

    assets_name = "sentence_piece"

    def __init__(
        self,
        model: bytes,
        vocabulary: Sequence[str] | None = None,
        *,
        pad_token: str | None = None,
        start_token: str | None = None,
        end_token: str | None = None,
        unknown_token: str | None = None,
        mask_token: str | None = None,
        special_tokens: Sequence[str] = (),
        end_tokens: Sequence[str] = (),
    ) -> None:
        processor, own = read_model(model)
        self._processor = processor
        self.model = model
        self.renumbered = vocabulary is not None
        """Whether a vocabulary defines the ids instead of the SentencePiece model."""
        self.vocabulary = tuple(own if vocabulary is None else vocabulary)
        _check_vocabulary(self.vocabulary, own)
        self._ids_of = {piece: index for index, piece in enumerate(self.vocabulary)}

        def named(index: int) -> str:
            return own[index] if index >= 0 and own[index] in self._ids_of else ""

        end = end_token or named(processor.eos_id())
        usual = "<pad>" if "<pad>" in self._ids_of else end
        pad = pad_token or named(processor.pad_id()) or usual
        self.pad_id = self._id(pad, "pad_token")
        self.end_id = self._id(end, "end_token")
        self.start_id = self._id(start_token or named(processor.bos_id()) or pad, "start_token")
        self.unknown_id = self._id(unknown_token or named(processor.unk_id()), "unknown_token")
        self.mask_id = self._id(mask_token, "mask_token") if mask_token else None
        """Id of the token that masks a word, or None."""
        for token in special_tokens:
            self._id(token, "special_tokens")
        others = (self._id(token, "end_tokens") for token in end_tokens)
        self.end_ids = tuple(dict.fromkeys([self.end_id, *others]))
        """The ids of all tokens that end a text, `end_id` first."""
        self._tokens = {
            "pad_token": pad_token,
            "start_token": start_token,
            "end_token": end_token,
            "unknown_token": unknown_token,
            "mask_token": mask_token,
            "special_tokens": list(special_tokens),
            "end_tokens": list(end_tokens),
        }
        controls = (p for i, p in enumerate(own) if processor.is_control(i) and p in self._ids_of)
        first = [self.vocabulary[i] for i in (self.pad_id, self.start_id, self.end_id)]
        more = dict.fromkeys([*([mask_token] if mask_token else []), *controls, *special_tokens])
        self.special_tokens = (*first, *(token for token in more if token not in first))
        """The tokens that never result from a text: padding, start and end (which may be the same),
        then others."""
        self._processor_ids = {piece: i for i, piece in enumerate(own)}
        aside = {*self.special_tokens}
        self.spelled = [
            () if piece in aside else _spelled(piece, self._processor_ids)
            for piece in self.vocabulary
        ]
        """The piece of the SentencePiece model that each id is decoded as; special tokens have
        none."""
        self.text_ids = {p: i for p, i in self._ids_of.items() if p not in aside}
        """The ids that can result from a text."""

    def _id(self, token: str | None, name: str) -> int:
        if token is not None and not isinstance(token, str):
            raise TypeError(f"`{name}` must be a string. Received: {token!r}.")
        if token not in self._ids_of:
            raise ValueError(
                f"`{name}` must be in the vocabulary. Received: {token!r}, and a vocabulary of "
                f"{len(self.vocabulary):,} pieces that begins with {list(self.vocabulary[:5])}."
            )
        return self._ids_of[token]

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocabulary_size: int,
        *,
        model_type: str = "unigram",
        normalize: bool = True,
        byte_fallback: bool = True,
        user_defined: Sequence[str] = (),
        allow_fewer: bool = False,
    ) -> SentencePieceTokenizer:
        """Trains a model on texts, deterministically.

        Ids 0 to 3 are `<pad>`, `<s>`, `</s>` and `<unk>`. Runs of more than 100 characters
        without a space are cut by inserting spaces, because training on them is slow.

        Args:
            texts: The training texts, such as a list of strings or a generator of lines.
            vocabulary_size: Number of ids: 4 special tokens, 256 bytes with `byte_fallback`, the
                characters of the texts and longer pieces.
            model_type: Type of the model, `"unigram"` or `"bpe"`.
            normalize: Whether texts are normalized by `nmt_nfkc`, and runs of white space become
                one space. If False, all characters are kept.
            byte_fallback: Whether rare characters are encoded as bytes, so that nothing is unknown.
            user_defined: Symbols that are always one piece.
            allow_fewer: Whether the result may have fewer ids than `vocabulary_size` if the texts
                do not provide more.

        Returns:
            A `SentencePieceTokenizer`.

        Raises:
            ImportError: If the package `sentencepiece` is not installed.
            TypeError: If an element of `texts` is not a string.
            ValueError: If there is no text, `model_type` is unknown, or `vocabulary_size` is too
                small for the characters or, unless `allow_fewer` is True, too large for the texts.

        Example:

        >>> from keras_attn.text import SentencePieceTokenizer
        >>> tokenizer = SentencePieceTokenizer.train(["a rose is a rose is a rose"] * 9, 268)
        >>> tokenizer.tokens(tokenizer.encode("Rose is a rose"))
        ['▁', '<0x52>', 'o', 's', 'e', '▁', 'i', 's', '▁', 'a', '▁rose']
        """
        return cls(
            train_model(
                texts, vocabulary_size, model_type, normalize, byte_fallback, user_defined,
                allow_fewer,
            )
        )  # fmt: skip

    def normalized(self, text: str) -> str:
        """Returns the normalized text that the tokenizer encodes.

        Args:
            text: A string.

        Returns:
            The string normalized by the model, without the space that the model may put before it.

        Raises:
            TypeError: If `text` is not a string.
        """
        read = self._processor.normalize(well_formed(text)).replace(SPACE, " ")
        return read.removeprefix(" ") if self.dropped_spaces else read

    @cached_property
    def dropped_spaces(self) -> int:
        """The number of spaces that `decode` drops at the start of a text: 0 for none, 1 for one,
        and 2 for all."""
        if SPACE in self._processor_ids:
            return 3 - len(self._processor.decode_pieces([SPACE, SPACE, "."]))
        spaced = next((piece for piece in self._processor_ids if piece.startswith(SPACE)), "")
        return len(spaced) - len(self._processor.decode_pieces([spaced, "."])) + 1 if spaced else 0

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes that each id stands for inside a text; empty for special tokens."""
        return [b"".join(map(self._bytes, pieces)) for pieces in self.spelled]

    @cached_property
    def is_byte(self) -> list[bool]:
        """Whether each id is a UTF-8 byte."""
        return [self._is_byte(piece) for piece in self.vocabulary]

    @cached_property
    def is_text(self) -> list[bool]:
        """Whether each id is neither a byte nor blanks."""
        return [
            bool(piece.replace(SPACE, " ").strip()) and not byte
            for piece, byte in zip(self.vocabulary, self.is_byte, strict=True)
        ]

    def _is_byte(self, piece: str) -> bool:
        index = self._processor_ids.get(piece)
        return index is not None and self._processor.is_byte(index)

    def _bytes(self, piece: str) -> bytes:
        if self._is_byte(piece):
            return bytes([int(piece[3:5], 16)])
        if self._processor_ids.get(piece) == self._processor.unk_id():
            return self._processor.decode_pieces([piece]).encode("utf-8")
        return piece.replace(SPACE, " ").encode("utf-8")

    def _rows(self, texts: list[str]) -> Rows:
        read = [well_formed(text) for text in texts]
        if not self.renumbered:
            return self._processor.encode(read, out_type=int)
        return [self._numbers(row) for row in self._processor.encode(read, out_type=str)]

    def _numbers(self, pieces: Sequence[str]) -> list[int]:
        return [self.text_ids.get(piece, self.unknown_id) for piece in pieces]

    def _placed_rows(self, texts: list[str]) -> tuple[Rows, list[Offsets]]:
        """Computes ids and offsets without leading blanks; parts of a character have its span."""
        rows, places = [], []
        for text in texts:
            read = well_formed(text)
            found = self._processor.encode(read, out_type="offset_mapping")
            ids = self._numbers(found["pieces"]) if self.renumbered else found["ids"]
            rows.append(ids)
            places.append(original_offsets(text, self._places(read, ids, found["offsets"])))
        return rows, places

    def _places(self, text: str, ids: list[int], offsets: Offsets) -> Offsets:
        """Converts the library's spans of pieces to spans without leading blanks.

        The library assigns characters that are divided among several pieces to the last of them.
        """
        bytes_inside = [self.is_byte[i] and s == e for i, (s, e) in zip(ids, offsets, strict=True)]
        found = _filled(offsets, bytes_inside)
        found = [(end - len(text[start:end].lstrip()), end) for start, end in found]
        return _filled(
            found, [self.is_text[i] and s == e for i, (s, e) in zip(ids, found, strict=True)]
        )

    def continuation(self, ids: TensorLike) -> Any:
        """Decodes ids like `decode`, but keeps the space at the start of each text.

        `decode` drops this space, because it is not part of the encoded text. If the ids continue
        another text, however, the space separates two words.

        Args:
            ids: One row of ids, or any nested structure of rows.

        Returns:
            A string for one row; nested lists of strings for several rows.

        Raises:
            TypeError: If `ids` are not integers.
            ValueError: If an id is not in the vocabulary.

        Example:

        >>> from keras_attn.text import SentencePieceTokenizer
        >>> tokenizer = SentencePieceTokenizer.train(["a rose is a rose is a rose"] * 9, 268)
        >>> ids = tokenizer.encode("a rose")
        >>> tokenizer.decode(ids), tokenizer.continuation(ids)
        ('a rose', ' a rose')
        """
        size = self.vocabulary_size
        return for_each_row(ids, lambda row: self._spelled_text(checked_ids(row, size), ".")[1:])

    def _text(self, ids: list[int]) -> str:
        return self._spelled_text(ids)

    def _spelled_text(self, ids: list[int], *before: str) -> str:
        pieces = [*before, *chain.from_iterable(self.spelled[index] for index in ids)]
        return self._processor.decode_pieces(pieces)

    def to_graph(self) -> GraphSentencePiece:
        """Returns the tokenizer as a `tf.Module` of ops of TensorFlow Text.

        A process that loads a SavedModel with this module must first `import tensorflow_text`.

        Returns:
            A `GraphSentencePiece`, for `tf.data` pipelines and SavedModels.

        Raises:
            ImportError: If TensorFlow or TensorFlow Text is not installed.

        Example:

        >>> import tensorflow as tf
        >>> from keras_attn.text import SentencePieceTokenizer
        >>> tokenizer = SentencePieceTokenizer.train(["a rose is a rose is a rose"] * 9, 268)
        >>> graph = tokenizer.to_graph()
        >>> graph.encode(tf.constant(["a rose", ""])).to_list() == tokenizer.encode(["a rose", ""])
        True
        """
        with needed("A tokenizer in a graph"):
            from keras_attn.text.sentence_piece_graph import GraphSentencePiece

        return GraphSentencePiece(self)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `__init__` as JSON-compatible values; the model is in base64."""
        return {
            "model": base64.b64encode(self.model).decode("ascii"),
            "vocabulary": list(self.vocabulary) if self.renumbered else None,
            **self._tokens,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Creates a tokenizer from the result of `get_config`."""
        try:
            model = base64.b64decode(config["model"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError(
                f"Expected a SentencePiece model as base64. Received: {error}."
            ) from error
        return cls(**{**config, "model": model})


def _filled(offsets: Offsets, empty: Sequence[bool]) -> Offsets:
    """Replaces empty spans by the span of the next piece if it begins at the same position."""
    found, place = list(offsets), (-1, -1)
    for index in reversed(range(len(found))):
        if not empty[index]:
            place = found[index]
        elif found[index][0] == place[0]:
            found[index] = place
    return found


def _spelled(piece: str, known: Mapping[str, int]) -> tuple[str, ...]:
    """A piece as the SentencePiece model writes it; other tokens are unchanged, without spaces."""
    if piece in known or SPACE not in piece:
        return (piece,)
    return tuple(part for part in re.split(f"({SPACE})", piece) if part)


def _check_vocabulary(vocabulary: Sequence[str], own: Sequence[str]) -> None:
    wrong = [piece for piece in vocabulary if not isinstance(piece, str)]
    if wrong:
        raise TypeError(f"`vocabulary` must contain only strings. Received: {wrong[0]!r}.")
    distinct = set(vocabulary)
    if len(distinct) < len(vocabulary):
        twice = next(p for p, count in Counter(vocabulary).items() if count > 1)
        raise ValueError(
            f"`vocabulary` must contain each piece only once. Received: {twice!r} twice."
        )
    missing = [piece for piece in own if piece not in distinct]
    if 2 * len(missing) > len(own):
        raise ValueError(
            "`vocabulary` must belong to the SentencePiece model. Received: a vocabulary of "
            f"{len(vocabulary):,} pieces that lacks {len(missing):,} of the {len(own):,} "
            f"pieces of the model, such as {missing[:5]}. Check that both files belong to "
            "the same model."
        )
