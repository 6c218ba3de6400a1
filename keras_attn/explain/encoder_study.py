"""Views, head roles and head divergence of an encoder for some texts."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_attn.explain.attention_rows import attention_of_texts
from keras_attn.explain.head_divergence import head_divergence
from keras_attn.explain.head_roles import HeadRoles, head_roles
from keras_attn.fields import EncoderInput
from keras_attn.inputs import listed
from keras_attn.layers import attention_maps
from keras_attn.layers.collect import AttentionMaps
from keras_attn.visualize import AttentionView, encoder_page
from keras_attn.visualize.encoder_page import LookAt


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class EncoderStudy:
    """The attention of an encoder in a set of texts, from `study_encoder` or `study_texts`.

    A word is a token that is not special.

    Args:
        views: An `AttentionView` for each text.
        roles: The `HeadRoles` over all texts; None if the texts contain no word.
        divergence: The divergence of each pair of heads, as returned by `head_divergence`, `(layers
            * heads, layers * heads)`; None if the texts contain no word.
        ids: The ids of each text's tokens.

    Example:

    >>> model = BertConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32).build()
    >>> ids = np.array([[2, 9, 3]])
    >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    >>> study_encoder(model, inputs, [["[CLS]", "it", "[SEP]"]], ids < 4)
    <EncoderStudy of 1 text: 1 x 2 heads>
    """

    views: Sequence[AttentionView]
    roles: HeadRoles | None
    divergence: np.ndarray | None
    ids: Sequence[Sequence[int]]

    def html(
        self, notes: Sequence[LookAt | None] | None = None, title: str = "What the encoder looks at"
    ) -> str:
        """Returns an HTML page of the texts' tokens, the attention, and the roles of the heads.

        The page is made by `keras_attn.visualize.encoder_page`.

        Args:
            notes: A note for each text: a `LectureSentence`, any object with a `query` (a word of
                the text) and a `note` (a string), or None. If None, there are no notes.
            title: Heading of the page.

        Returns:
            The page as an HTML string; write it as UTF-8.

        Raises:
            ValueError: If the number of notes differs from the number of texts, or a text lacks the
                word of its note.

        Example:

        >>> part = AttentionPart("self", ["it"], ["it"], [np.ones((1, 1, 1))])
        >>> roles = HeadRoles([[[0, 0, 1, 0, 0]]], tokens=1)
        >>> study = EncoderStudy([AttentionView([part])], roles, np.zeros((1, 1)), [[9]])
        >>> "it, id 9" in study.html()
        True
        """
        return encoder_page(
            self.views, self.roles, self.divergence, ids=self.ids, notes=notes, title=title
        )

    def __repr__(self) -> str:
        count = len(self.views)
        layers = self.views[0].parts[0].weights
        texts = f"{count} text{'' if count == 1 else 's'}"
        return f"<EncoderStudy of {texts}: {len(layers)} x {len(layers[0])} heads>"


def study_encoder(
    model: keras.Model,
    inputs: dict[str, Any],
    tokens: Sequence[Sequence[str]],
    special_mask: npt.ArrayLike | None = None,
    titles: Sequence[str] | None = None,
) -> EncoderStudy:
    """Calls an encoder and collects the attention of its heads.

    Args:
        model: A model built by `BertConfig`, with or without heads, or any model that reads
            `token_ids` and has self-attention.
        inputs: A dict of the inputs of the model for B texts: `token_ids (B, T)`, padded on the
            right, and other inputs that the model reads. `padding_mask (B, T)` is True for tokens;
            if it is missing, there is no padding.
        tokens: For each text, its readable tokens without padding.
        special_mask: `(B, T)`, True for special tokens such as `[CLS]` and `[SEP]`. If None, there
            are no special tokens.
        titles: Names of the texts. If None, their tokens are used.

    Returns:
        An `EncoderStudy`. The roles of the heads and their divergence are averages over the words
        of all texts.

    Raises:
        ValueError: If the tokens, masks or titles do not match the inputs, padding is not on the
            right, or the model has no self-attention.

    Example:

    >>> model = BertConfig(50, dim=16, num_layers=2, num_heads=2, intermediate_dim=32).build()
    >>> ids = np.array([[2, 9, 3, 0], [2, 9, 8, 3]])
    >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    >>> tokens = [["[CLS]", "it", "[SEP]"], ["[CLS]", "it", "was", "[SEP]"]]
    >>> study = study_encoder(model, inputs, tokens, ids < 4)
    >>> study.roles.tokens, study.divergence.shape
    (3, (4, 4))
    """
    ids = np.asarray(keras.ops.convert_to_numpy(inputs["token_ids"]))
    mask = inputs.get("padding_mask")
    real = np.ones(ids.shape, bool)
    if mask is not None:
        real = np.asarray(keras.ops.convert_to_numpy(mask)).astype(bool)
    lengths = real.sum(axis=1).tolist()
    if [len(row) for row in tokens] != lengths or (real[:, 1:] & ~real[:, :-1]).any():
        raise ValueError(
            "Expected a token for each id that is not padding, and padding on the right. "
            f"Received: rows of {[len(row) for row in tokens]} tokens, and of {lengths} ids."
        )
    if titles is None:
        titles = [""] * len(ids)
    elif len(titles) != len(ids):
        raise ValueError(
            f"Expected a title for each of the {len(ids)} texts. Received: {len(titles)}."
        )
    kept = [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]
    return study_maps(attention_maps(model, inputs), kept, tokens, real, special_mask, titles)


def study_maps(
    maps: AttentionMaps,
    ids: Sequence[Sequence[int]],
    tokens: Sequence[Sequence[str]],
    padding_mask: np.ndarray,
    special_mask: npt.ArrayLike | None,
    titles: Sequence[str],
) -> EncoderStudy:
    """Creates an `EncoderStudy` from the attention maps of a model."""
    views = [
        AttentionView.from_maps(maps, row, row=i, title=title)
        for i, (row, title) in enumerate(zip(tokens, titles, strict=True))
    ]
    roles = divergence = None
    if any(text.words.any() for text in attention_of_texts(maps, padding_mask, special_mask)):
        roles = head_roles(maps, padding_mask, special_mask)
        divergence = head_divergence(maps, padding_mask, special_mask)
    return EncoderStudy(views, roles, divergence, ids)


def study_texts(
    model: keras.Model, field: EncoderInput, texts: Sequence[str | tuple[str, str]]
) -> EncoderStudy:
    """Calls an encoder on texts and collects the attention of its heads.

    Args:
        model: A model built by `BertConfig`, with or without heads, or a text classifier with
            self-attention, which reads only ids.
        field: The `EncoderInput` that converts texts to inputs of the model.
        texts: Strings, or pairs of strings; each becomes one row of tokens.

    Returns:
        An `EncoderStudy`, whose views have the texts as titles.

    Raises:
        TypeError: If an input is neither a string nor a pair of strings.
        ValueError: If there is no text, or the model has no self-attention.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "it", "was"])
    >>> model = BertConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32).build()
    >>> study_texts(model, EncoderInput(tokenizer, 16), ["it was", ("it", "was")])
    <EncoderStudy of 2 texts: 1 x 2 heads>
    """
    rows, segments, titles = [], [], []
    for i, text in enumerate(listed(texts, "strings or pairs of strings")):
        single = isinstance(text, str)
        pair = [text] if single else list(text) if isinstance(text, tuple | list) else []
        if len(pair) != 2 - single or not all(isinstance(part, str) for part in pair):
            raise TypeError(
                f"Expected strings or pairs of strings. Received: {text!r:.100} at position {i}."
            )
        ids, of = field.encode(pair[:1], pair[1:] or None)
        rows.append(ids[0])
        segments.append(of[0])
        titles.append(" / ".join(pair))
    if not rows:
        raise ValueError("Expected at least one text. Received: none.")
    width, tokenizer = max(map(len, rows)), field.tokenizer
    ids = np.array([np.pad(r, (0, width - len(r))) for r in rows], "int32")
    real = np.arange(width) < np.array([[len(row)] for row in rows])
    inputs = {
        "token_ids": ids,
        "segment_ids": np.array([np.pad(s, (0, width - len(s))) for s in segments], "int32"),
        "padding_mask": real,
        "masked_positions": ids[:, :1] * 0,
    }
    special = (ids == tokenizer.start_id) | (ids == tokenizer.end_id)
    tokens = [tokenizer.tokens(row) for row in rows]
    if isinstance(model.input, dict):
        read = {name: inputs[name] for name in model.input}
        return study_encoder(model, read, tokens, special & real, titles)
    special |= ids == tokenizer.pad_id  # a row of a text without tokens
    return study_maps(attention_maps(model, ids), rows, tokens, real, special & real, titles)
