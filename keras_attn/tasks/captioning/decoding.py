"""From pictures to the n best captions, and where the model looked."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.explain.alignment import Alignment
from keras_attn.generation import CompiledFunction, Generation, Recent, beam_search
from keras_attn.generation.numbers import columns
from keras_attn.models import CaptionDecoder, ImageEncoder
from keras_attn.tasks.families.picture_task import padded_rows, row_batches
from keras_attn.text import BytePairTokenizer
from keras_attn.text.readable import END, readable_tokens

Tensor = Any


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Caption:
    """A caption of a picture, and where the model looked for each of its tokens.

    Args:
        text: The caption.
        score: Log-probability divided by the length penalty `((5 + length) / 6) ** alpha`.
        truncated: Whether it was cut at its greatest length, without an end.
        tokens: T readable tokens, as `BytePairTokenizer.tokens` gives them; the last one is `</s>`
            where it was not cut.
        attention: float32 `(T, rows, columns)`: the weights of the regions when a token was
            predicted, over the encoder's `grid`; they sum to 1. Of a Transformer the mean over the
            heads of the last cross-attention.

    Example:

    >>> weights = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]]])
    >>> caption = Caption("red car", -0.7, False, ["red", "▁c", "ar"], weights)
    >>> [(word, weights.tolist()) for word, weights in caption.words()]
    [('red', [[1.0, 0.0]]), ('car', [[0.25, 0.75]])]
    """

    text: str
    score: float
    truncated: bool
    tokens: list[str]
    attention: np.ndarray

    def words(self) -> list[tuple[str, np.ndarray]]:
        """Returns the words, each with the mean `(rows, columns)` of the maps of its tokens.

        The end has no map here.
        """
        count, *grid = self.attention.shape
        regions = [f"▁{number}" for number in range(grid[0] * grid[1])]  # each of them a word
        broken = "\ufffd" in self.text  # bytes that are no text, which are not its tokens
        words = Alignment(
            regions,
            self.tokens,
            self.attention.reshape(count, -1),
            None,
            None if broken else self.text,
        ).by_words()
        total = len(words.target_tokens) - (self.tokens[-1:] == [END])
        maps = words.weights.reshape(-1, *grid)
        return list(zip(words.target_tokens[:total], maps[:total], strict=True))

    def plot(
        self, image: Any, path: str | os.PathLike | None = None, title: str | None = None
    ) -> Any:
        """Draws the picture, and for each word the picture with its map over it.

        Needs matplotlib, of the extra `examples`.

        Args:
            image: The picture: a path, bytes of a file or an array `(H, W, 3)`.
            path: Where the figure is written, if anywhere.
            title: Text above it; the caption if None.

        Returns:
            A `matplotlib.figure.Figure`, which notebooks show.
        """
        from keras_attn.images import load_image
        from keras_attn.visualize import plot_caption

        return plot_caption(load_image(image), self, path, title=title)

    def __repr__(self) -> str:
        return f"Caption({self.text!r}, score={self.score:.3f}{', cut' * self.truncated})"


class CaptionSearch:
    """Makes captions of regions with the layers of a model.

    It has no weights of its own: train, load or change the model, and it follows.

    Args:
        encoder: An `ImageEncoder`.
        captioner: A model built by the config of a captioner.
        tokenizer: The captions' tokenizer.
        max_length: Most tokens of a caption, the end included.

    Example:

    >>> tokenizer = BytePairTokenizer.train(["a red car"], 259)
    >>> encoder = small_cnn_encoder(16, filters=(4, 8))
    >>> config = SoftAttentionCaptionerConfig(259, region_dim=8, dim=8, units=8)
    >>> search = CaptionSearch(encoder, config.build(), tokenizer, max_length=5)
    >>> regions = np.zeros((1, 16, 8), "float32")
    >>> len(search.best(regions, beams=2, alpha=1.0, batch_size=2)[0]) <= 5
    True
    """

    def __init__(
        self,
        encoder: ImageEncoder,
        captioner: keras.Model,
        tokenizer: BytePairTokenizer,
        max_length: int,
    ):
        self.encoder = encoder
        self.captioner = captioner
        self.layers = CaptionDecoder(captioner)
        self.tokenizer = tokenizer
        self.max_length = max_length
        self._compiled: Recent[CompiledFunction] = Recent()

    def best(
        self, regions: np.ndarray, beams: int, alpha: float, batch_size: int
    ) -> list[list[int]]:
        """Returns the ids of the best caption of each picture, the end included."""
        run = self._compile(self.search, beams)
        results = []
        for rows in row_batches(regions, batch_size):
            padded = padded_rows(rows, batch_size)
            found = run(padded, self.max_length, *columns({"alpha": alpha}, len(padded)))
            for r in range(len(rows)):
                results.append(found.tokens[r, 0, : found.lengths[r, 0]].tolist())
        return results

    def n_best(
        self, regions: np.ndarray, beams: int, alpha: float, count: int, batch_size: int
    ) -> list[list[Caption]]:
        """Returns the `count` best captions of each picture."""
        run = self._compile(self.search_and_align, beams, count)
        results = []
        for rows in row_batches(regions, batch_size):
            padded = padded_rows(rows, batch_size)
            of_rows = columns({"alpha": alpha}, len(padded))
            found, weights = run(padded, self.max_length, *of_rows)
            for r in range(len(rows)):
                row = Generation(*(part[r] for part in found))
                results.append(self._readable(row, weights[r]))
        return results

    def _readable(self, found: Generation, weights: np.ndarray) -> list[Caption]:
        captions = []
        for r, length in enumerate(np.asarray(found.lengths)):
            if length == 0:  # there is no such one
                continue
            ids = found.tokens[r, :length].tolist()
            captions.append(
                Caption(
                    self.tokenizer.decode(ids),
                    float(found.scores[r]),
                    not found.finished[r],
                    readable_tokens(self.tokenizer, ids),
                    weights[r, :length].reshape(int(length), *self.encoder.grid).copy(),
                )
            )
        return captions

    def _compile(self, function: Callable, beams: int, *settings: Any) -> CompiledFunction:
        """`(regions, max_length, alpha)`, compiled for all values of alpha."""
        return self._compiled.get(
            (function.__name__, beams, *settings),
            lambda: CompiledFunction(
                lambda regions, length, alpha: function(regions, length, beams, alpha, *settings),
                self.captioner,
                dtype="float32",
                rank=3,
            ),
        )

    # Tensors: for any backend, and for the export

    def search(
        self, regions: Tensor, max_length: Any, beams: int, alpha: float | Tensor, count: int = 1
    ) -> Generation:
        """Beam search from regions `(B, R, D)`: the `count` best. `alpha` may be `(B,)`."""
        return self._search(*self._read(regions), max_length, beams, alpha, count)

    def search_and_align(
        self, regions: Tensor, max_length: Any, beams: int, alpha: float | Tensor, count: int
    ) -> tuple[Generation, Tensor]:
        """As `search`, with the weights `(B, R, T, S)` of `CaptionDecoder.align_found`."""
        memory, mask = self._read(regions)
        found = self._search(memory, mask, max_length, beams, alpha, count)
        if keras.backend.backend() != "jax":  # there, shapes are those of the longest
            found = found._replace(tokens=found.tokens[:, :, : ops.max(found.lengths)])
        return found, self.layers.align_found(memory, mask, found, self.tokenizer.start_id)

    def _read(self, regions: Tensor) -> tuple[Tensor, Tensor]:
        shape = (-1, self.encoder.num_regions, self.encoder.region_dim)
        return self.layers.encode(ops.reshape(regions, shape))

    def _search(
        self,
        memory: Tensor,
        mask: Tensor,
        max_length: Any,
        beams: int,
        alpha: float | Tensor,
        count: int,
    ) -> Generation:
        tokenizer = self.tokenizer
        start = ops.zeros_like(mask[:, :1], dtype="int32") + tokenizer.start_id
        return beam_search(
            self.layers.decoder,
            start,
            None,
            memory,
            mask,
            num_beams=beams,
            max_length=max_length,
            num_return_sequences=count,
            alpha=alpha,
            end_id=tokenizer.end_id,
            pad_id=tokenizer.pad_id,
            suppressed_ids=(tokenizer.pad_id, tokenizer.start_id),
        )
