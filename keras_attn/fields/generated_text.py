"""Prompts as inputs, and generated texts as outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from keras_attn.arrays import Array
from keras_attn.fields.signature import Encode
from keras_attn.fields.text import checked_texts
from keras_attn.hints import Tensor
from keras_attn.text import SentencePieceTokenizer
from keras_attn.text.checks import well_formed
from keras_attn.text.pieces import cut_at_stop, stop_pattern
from keras_attn.text.tokenizer import Tokenizer


class PromptInput:
    """Input field that converts prompts to ids, and adds their seeds and the number of new tokens.

    The tokens at the beginning of a prompt that is too long are removed. Then the start token is
    added.

    Args:
        tokenizer: A tokenizer with `encode`, `start_id`, `pad_id` and `to_graph`.
        max_length: Maximum number of tokens of a prompt, without the start token.
        limit: Function `limit(tf, number)` that the graph calls with the requested number of new
            tokens, an int32 scalar. It returns the number, or raises an error if it is too large.
        graph: Function that returns the tokenizer's graph; `tokenizer.to_graph` if None.

    Example:

    >>> from keras_attn.text import CharacterTokenizer
    >>> prompts = PromptInput(CharacterTokenizer.train(["abcd"]), 2, lambda tf, number: number)
    >>> prompts.encode(["abcd", ""], [7, 8], 5)["ids"]
    [[1, 6, 7], [1]]
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_length: int,
        limit: Callable[[ModuleType, Tensor], Tensor],
        graph: Callable[[], Any] | None = None,
    ):
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.limit = limit
        self._graph = graph or tokenizer.to_graph

    def encode(self, texts: Sequence[str], seeds: Any, num_tokens: int) -> dict[str, Any]:
        """Returns the ids of each prompt, the seeds and the number of new tokens.

        Args:
            texts: The B prompts, strings.
            seeds: A seed for each prompt, integers `(B,)`.
            num_tokens: Number of new tokens.

        Returns:
            A dict with `ids`, a list with the list of ids of each prompt; `prompt`, the list of
            prompts, in which lone surrogates are replaced; `seed`, int32 `(B,)`; and `num_tokens`.

        Raises:
            TypeError: If a prompt is not a string.
        """
        texts = checked_texts(texts)
        rows = self.tokenizer.encode(texts)
        return {
            # A character that is no UTF-8 may become three: the last of what is read.
            "ids": [[self.tokenizer.start_id, *row[-self.max_length :]] for row in rows],
            "prompt": [well_formed(text) for text in texts],
            "seed": np.asarray(seeds, "int32"),
            "num_tokens": num_tokens,
        }

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops, and its `tf.Module`s.

        The function is called with prompts `(B,)`, seeds `(B,)` and the number of new tokens, which
        `limit` checks. It returns a dict as in `encode`, with `ids` as a table `(B, P)`, padded on
        the right.

        Args:
            tf: The module `tensorflow`.
        """
        graph, start, pad = self._graph(), self.tokenizer.start_id, self.tokenizer.pad_id

        def encode(text: Tensor, seeds: Tensor, num_tokens: Tensor) -> dict[str, Tensor]:
            num_tokens = self.limit(tf, num_tokens)
            text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
            ids = graph.encode(text)[:, -self.max_length :]
            ids = tf.concat([tf.fill([tf.size(text), 1], start), ids], axis=1).to_tensor(pad)
            return {"ids": ids, "prompt": text, "seed": seeds, "num_tokens": num_tokens}

        return encode, [graph]


class GeneratedText:
    """Output field that decodes generated texts from the ids of their tokens.

    Args:
        tokenizer: A tokenizer with `decode` and `to_graph`.
        of: Name of the ids of B inputs, with one text `(B, T)` or R texts `(B, R, T)` for each; in
            Python, they may also be lists of rows.
        some: Name of booleans `(B,)`; where they are False, the generated texts are empty. None if
            there are none.
        after: Name of the prompts `(B,)`, which are put before the generated texts; None if there
            are none.
        stops: Stop strings; a text is cut before the first one.
        graph: Function that returns the tokenizer's graph, which other fields may share;
            `tokenizer.to_graph` if None.

    Example:

    >>> from keras_attn.text import CharacterTokenizer
    >>> field = GeneratedText(CharacterTokenizer.train(["abcd"]), after="prompt", stops=["d"])
    >>> field.decode({"tokens": [[5, 6], [6, 7]], "prompt": ["a", ""]})
    ['abc', 'c']
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        of: str = "tokens",
        *,
        some: str | None = None,
        after: str | None = None,
        stops: Sequence[str] = (),
        graph: Callable[[], Any] | None = None,
    ):
        self.tokenizer = tokenizer
        self.of, self.some, self.after = of, some, after
        self.stops = tuple(stops)
        self._make_graph = graph or tokenizer.to_graph
        self._graph: Any = None

    def decode(self, tensors: Mapping[str, Any]) -> list[Any]:
        """Returns a list with a text for each of B inputs, or with a list of R texts for each input
        if the ids are `(B, R, T)`.

        Args:
            tensors: A dict that has the ids under the name in `of`, and the values that `some` and
                `after` name.
        """
        ids = tensors[self.of]
        if not len(ids):
            return []  # `tokenizer.decode` takes an empty list for one text without ids
        if self.after and isinstance(self.tokenizer, SentencePieceTokenizer):
            texts = self.tokenizer.continuation(ids)
            before = zip(texts, tensors[self.after], strict=True)
            texts = [text if after else _each(_begun, text) for text, after in before]
        else:
            texts = self.tokenizer.decode(ids)
        if self.stops:
            cut = functools.partial(cut_at_stop, stops=self.stops)
            texts = [_each(cut, text) for text in texts]
        if self.some:
            rows = zip(texts, tensors[self.some], strict=True)
            texts = [x if some else "" if isinstance(x, str) else [""] * len(x) for x, some in rows]
        if self.after:
            rows = zip(tensors[self.after], texts, strict=True)
            texts = [_each(before.__add__, text) for before, text in rows]
        return texts

    def modules(self) -> list[object]:
        """Returns the `tf.Module`s that `graph` uses; call it before `graph`."""
        self._graph = self._make_graph()
        return [self._graph]

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Array:
        """Returns the result of `decode` as a tensor `(B,)` or `(B, R)`, computed with TensorFlow
        ops.

        Args:
            tf: The module `tensorflow`.
            tensors: A dict of tensors that has the ids under the name in `of`, and the values that
                `some` and `after` name.
        """
        ids = tensors[self.of]
        if self.after and isinstance(self.tokenizer, SentencePieceTokenizer):
            texts = self._graph.continuation(ids)
            begun = tf.strings.regex_replace(texts, "^ ", "")
            new = tf.reshape(tensors[self.after] == "", [-1, *[1] * (texts.shape.rank - 1)])
            texts = tf.where(new, begun, texts)
        else:
            texts = self._graph.decode(ids)
        if self.stops:
            texts = tf.strings.regex_replace(texts, stop_pattern(self.stops), "")
        if self.some:
            some = tensors[self.some]
            some = tf.reshape(some, [-1, *[1] * (texts.shape.rank - 1)])
            texts = tf.where(some, texts, "")
        if not self.after:
            return texts
        before = tensors[self.after]
        return tf.add(before if texts.shape.rank == 1 else tf.expand_dims(before, 1), texts)


def _begun(text: str) -> str:
    """A text without the leading space of its first piece."""
    return text.removeprefix(" ")


def _each(function: Callable[[str], str], text: str | Sequence[str]) -> str | list[str]:
    """Applies a function to a text, or to each of a list of texts."""
    return function(text) if isinstance(text, str) else [function(x) for x in text]
