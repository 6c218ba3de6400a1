"""Decoding of ids with the layers of a model."""

import copy
from typing import Any

import keras
from keras import ops

from keras_attn.generation.decoders import check_room, repeat
from keras_attn.hints import Size, Tensor
from keras_attn.layers import TokenEmbedding
from keras_attn.ops.compilers import compiler, on_cpu
from keras_attn.ops.masks import token_mask
from keras_attn.ops.padding import known_value
from keras_attn.ops.prepared import prepared

LARGEST_COPY = 2**25  # maximum size of an embedding that is copied for a search
MOST_TOKENS_XLA = 10_000  # for more, the XLA of TensorFlow reads a copy up to four times slower


class TokenDecoder:
    """Decodes ids with an embedding, positions, a decoder stack and an output layer.

        logits = head(decoder(positions(embedding(ids)), memory))

    The decoder uses the layers of a model, so its results equal the results of the model.

    Args:
        embedding: `TokenEmbedding`, or a layer that embeds ids `(B, T)`.
        positions: Layer called as `positions(x, positions=...)`, or None.
        decoder: `TransformerDecoder`, or an object with its `prefill`, `step` and `reorder`.
        head: Layer from `(B, D)` to logits `(B, V)`; `embedding(x, reverse=True)` if None.

    Example:

    >>> embedding = TokenEmbedding(vocabulary_size=20, dim=8)
    >>> stack = TransformerDecoder(num_layers=1, num_heads=2, intermediate_dim=16)
    >>> stack.build((None, None, 8))
    >>> decoder = TokenDecoder(embedding, PositionalEncoding(), stack)
    >>> logits, state = decoder.prefill(ops.array([[1, 5]]), max_length=4)
    >>> logits, state = decoder.step(ops.array([7]), ops.array([2]), state)
    >>> tuple(logits.shape)
    (1, 20)
    """

    def __init__(
        self,
        embedding: keras.layers.Layer,
        positions: keras.layers.Layer | None,
        decoder: Any,
        head: keras.layers.Layer | None = None,
    ):
        self.embedding = embedding
        self.positions = positions
        self.decoder = decoder
        self.head = head
        self._kernel = None

    @property
    def longest(self) -> int | None:
        """Maximum number of tokens that have positions; None if there is no limit."""
        return getattr(self.positions, "sequence_length", None)

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        x = self.embedding(ids)
        return x if self.positions is None else self.positions(x, positions=positions)

    def logits(self, x: Tensor) -> Tensor:
        """Computes the logits `(..., V)` from outputs `(..., D)` of the decoder stack."""
        if self.head is not None:
            return self.head(x)
        if self._kernel is not None:
            products = ops.matmul(ops.cast(x, self._kernel.dtype), self._kernel)
            return self.embedding.as_logits(products)
        return self.embedding(x, reverse=True)

    def laid_out(self) -> "TokenDecoder":
        """Returns an equivalent decoder that may be faster for a search over several rows.

        Its logits are products with a copy of the embedding, in the layout that is fastest for few
        rows. The method returns this decoder itself if any of these holds: it runs on PyTorch or
        a GPU, it has a separate output layer, the embedding is not a `TokenEmbedding` or is too
        large to copy, or TensorFlow uses XLA for a vocabulary of more than 10,000 tokens.
        """
        embedding = self.embedding
        tied = self.head is None and isinstance(embedding, TokenEmbedding)
        if not tied or type(embedding).call is not TokenEmbedding.call or not on_cpu():
            return self
        if embedding.vocabulary_size * embedding.dim > LARGEST_COPY:
            return self
        xla = keras.backend.backend() == "tensorflow" and compiler() == "xla"
        if xla and embedding.vocabulary_size > MOST_TOKENS_XLA:
            return self
        other = copy.copy(self)
        # LoRA has settings beside its variables.
        lora = getattr(embedding.embedding, "lora_enabled", False)
        other._kernel = embedding.output_kernel() if lora else prepared(embedding.output_kernel)
        return other

    def prefill(
        self,
        prompt: Tensor,
        prompt_mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        max_length: Size | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Reads prompts, and returns the logits for the next tokens.

        Args:
            prompt: Ids `(B, P)`.
            prompt_mask: Padding mask `(B, P)`, True for tokens, with padding anywhere; all if None.
                Padding does not count in positions, distances or windows: the result depends only
                on the tokens.
            memory: Source states `(B, S, Dm)`, or None.
            memory_mask: Padding mask of the memory, `(B, S)`, or None.
            max_length: Length of the cache of a Transformer decoder, for P and all steps; P + 1 if
                None.

        Returns:
            A tuple of the logits `(B, V)` after the last token of each row, and the state for
            `step`.

        Raises:
            ValueError: If a prompt has more tokens than the table of positions (in a graph, this
                cannot be checked for a prompt with a mask), or the decoder stack is not built.
        """
        prompt = ops.convert_to_tensor(prompt)
        mask = token_mask(prompt, prompt_mask)
        if self.longest is not None:
            known = None if prompt_mask is None else known_value(mask)
            most = None if known is None else int(known.sum(axis=1).max(initial=0))
            length = prompt.shape[1] if prompt_mask is None else most
            if length is not None:
                check_room(self, length)
        count = ops.cumsum(ops.cast(mask, "int32"), axis=1)
        positions, more = ops.maximum(count - 1, 0), {}
        x = self._embed(prompt, positions)
        if prompt_mask is not None and getattr(self.decoder, "reads_positions", False):
            more["positions"] = positions  # of attention that reads them
        x, state = self.decoder.prefill(x, mask, memory, memory_mask, max_length, **more)
        index = ops.cumsum(ops.ones_like(count), axis=1) - 1
        last = ops.max(ops.where(mask, index, 0), axis=1)
        x = ops.take_along_axis(x, ops.reshape(last, (-1, 1, 1)), axis=1)
        return self.logits(x[:, 0]), state

    def step(
        self, tokens: Tensor, positions: Tensor, state: dict[str, Any], return_scores: bool = False
    ) -> tuple[Any, ...]:
        """Reads one token for each row, and returns the logits for the next tokens.

        Args:
            tokens: Ids `(B,)`.
            positions: Positions `(B,)`, the number of earlier tokens of each row.
            state: State from `prefill` or the last `step`.
            return_scores: Whether to also return the attention weights.

        Returns:
            `(logits (B, V), state)`, or `(logits, state, scores)` with the attention weights.

        Raises:
            ValueError: If a position is known to be outside the table of positions.
        """
        if self.longest is not None:
            known = known_value(positions)
            if known is not None:
                check_room(self, int(known.max(initial=0)) + 1)
        x = self._embed(ops.expand_dims(tokens, 1), ops.expand_dims(positions, 1))
        x, state, *scores = self.decoder.step(x, state, return_scores)
        return (self.logits(x[:, 0]), state, *scores)

    def reorder(self, state: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        """Returns a state in which row i continues row `rows[i]` of the given state.

        Parts of the state that depend only on the memory are not reordered, nor are caches that the
        beams of a sentence share.

        Args:
            state: State from `prefill`, `step` or `repeat`, with B rows.
            rows: Indices of rows, integers `(B,)`; row `rows[i]` is a beam of the same sentence as
                row i.
        """
        return self.decoder.reorder(state, rows)

    def repeat(self, state: dict[str, Any], times: int) -> dict[str, Any]:
        """Returns a state in which each row is repeated `times` times in succession.

        Parts of the state that depend only on the memory are not repeated if the stack can share
        them among rows. A `TransformerDecoder` may also share slots of its caches.

        Args:
            state: State from `prefill` or `step`.
            times: Number of beams of each row.

        Raises:
            ValueError: If the rows of the state of a `TransformerDecoder` already share slots.
        """
        return repeat(self.decoder, state, times)
