"""Attention weights and tokens of a model's call, for the attention viewer."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn.layers.collect import AttentionKey, AttentionMaps
from keras_attn.visualize.checks import WordMaps, checked_layers, checked_words
from keras_attn.visualize.display import displayed_tokens, drawable
from keras_attn.visualize.focus import Focus, find_focus
from keras_attn.visualize.head_outcomes import HeadOutcomes
from keras_attn.visualize.pictures import Picture, as_image, shrunk
from keras_attn.visualize.viewer_page import attention_viewer
from keras_attn.visualize.web_page import escaped

START = "<start>"
_NAMES = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "self": "self-attention",
    "pooling": "attention pooling",
    "weighting": "token weighting",
}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class AttentionPart:
    """One kind of attention: its weights in each layer and head, and its tokens.

    Args:
        name: Name of the attention, such as `"cross-attention"`.
        queries: The T query tokens.
        keys: The S key tokens, or None for the regions of the view's image.
        weights: A list of the weights of each layer, `(heads, T, S)`, or `(T, S)` for a single
            head; finite, non-negative numbers. They are stored as float32 `(heads, T, S)`.
        query_name: Name of the queries, such as `"translation"`.
        key_name: Name of the keys, such as `"source"`.
        paths: Path of each layer in `attention_maps`, for `HeadOutcomes`; may be empty.

    Raises:
        ValueError: If there is no query, key or layer; if weights do not match the tokens, are not
            finite or are negative; or if the number of paths differs from the number of layers.

    Example:

    >>> part = AttentionPart("cross-attention", ["a", "dog"], ["Hund"], [np.ones((4, 2, 1))])
    >>> len(part.weights), part.weights[0].shape
    (1, (4, 2, 1))
    """

    name: str
    queries: Sequence[str]
    keys: Sequence[str] | None
    weights: Sequence[np.ndarray]
    query_name: str = "looks"
    key_name: str = "is looked at"
    paths: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(self.queries))
        layers = list(self.weights)
        if self.keys is not None:
            object.__setattr__(self, "keys", tuple(self.keys))
        count = np.shape(layers[0])[-1] if layers and np.ndim(layers[0]) else 0
        count = count if self.keys is None else len(self.keys)
        if not self.queries or not count:
            raise ValueError(
                f"Expected at least one query and one key. Received: {len(self.queries)} queries "
                f"and {count} keys of {self.name!r}."
            )
        layers = checked_layers(layers, len(self.queries), count)
        object.__setattr__(self, "weights", tuple(layers))
        object.__setattr__(self, "paths", tuple(self.paths))
        if len(self.paths) not in (0, len(layers)):
            raise ValueError(
                f"Expected a path for each of the {len(layers)} layers of {self.name!r}, or "
                f"no paths. Received: {list(self.paths)}."
            )

    def __repr__(self) -> str:
        keys = "regions" if self.keys is None else "keys"
        _, count, size = self.weights[0].shape
        return (
            f"<AttentionPart {self.name!r}: {len(self.weights)} layers, {count} queries, "
            f"{size} {keys}>"
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class AttentionView:
    """The attention of a model for one input, for `attention_viewer`.

    Notebooks display a view in the viewer.

    Args:
        parts: `AttentionPart`s, the most informative first.
        title: Name of the input. If empty, the tokens of the first part are used.
        image: The image, if a part attends to regions: a path, the bytes of a file, or an array
            `(H, W, 3)` with values from 0 to 255. Images that are wider or higher than 640 pixels
            are reduced to this size.
        grid: Rows and columns of the regions, which cover the whole image.
        focus: Initial selection of the viewer. If None, the viewer opens on the strongest link
            between two words, which `Focus` defines.
        outcomes: The `HeadOutcomes` of the model, its predictions without each head. The viewer
            shows them for parts with `paths`. If None, heads cannot be switched off.

    Raises:
        ImportError: If `image` is a file or a large array, and Pillow is not installed.
        OSError: If the image file is missing or cannot be read.
        ValueError: If there is no part; if an image or a grid is missing, or given without being
            needed; if the image is not valid; or if the grid or the focus does not match the parts.

    Example:

    >>> weights = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> view = AttentionView([AttentionPart("cross", ["a", "dog"], ["ein", "Hund"], [weights])])
    >>> view
    <AttentionView 'a dog': cross>
    """

    parts: Sequence[AttentionPart]
    title: str = ""
    image: Any = None
    grid: tuple[int, int] | None = None
    focus: Focus | None = None
    outcomes: HeadOutcomes | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise ValueError("Expected at least one `AttentionPart`. Received: none.")
        regions = [part for part in self.parts if part.keys is None]
        if (self.image is None) != (not regions) or (self.grid is None) != (not regions):
            raise ValueError(
                "Expected `image`, `grid` and parts with keys=None, whose keys are the regions of "
                "the image; or none of the three. Received: "
                f"image={'None' if self.image is None else 'given'}, grid={self.grid!r}, and "
                f"{len(regions)} of {len(self.parts)} parts with keys=None."
            )
        if regions and self.grid is not None:
            rows, columns = grid = tuple(int(size) for size in self.grid)
            for part in regions:
                if part.weights[0].shape[2] != rows * columns:
                    raise ValueError(
                        f"`grid` must have as many regions as there are weights, "
                        f"{part.weights[0].shape[2]} in {part.name!r}. Received: {self.grid!r}."
                    )
            object.__setattr__(self, "grid", grid)
            object.__setattr__(self, "image", shrunk(as_image(self.image)))
        if self.focus is not None:
            find_focus(self.parts, self.focus)
        if not self.title:
            object.__setattr__(self, "title", _joined(self.parts[0].queries))

    @classmethod
    def from_maps(
        cls,
        maps: AttentionMaps,
        source_tokens: Sequence[str] | None = None,
        target_tokens: Sequence[str] | None = None,
        *,
        input_tokens: Sequence[str] | None = None,
        image: Picture | None = None,
        grid: tuple[int, int] | None = None,
        answer: str = "answer",
        row: int = 0,
        title: str = "",
        focus: Focus | None = None,
    ) -> "AttentionView":
        """Creates a view from the result of `keras_attn.attention_maps(model, inputs)`.

        For a single text (of a classifier or a language model), pass `source_tokens`; for a pair of
        texts, also `target_tokens`; for a captioner, `target_tokens`, `image` and `grid`. Target
        tokens are the predicted tokens; each of them labels the query that predicted it.

        If the model has cross-attention, a self-attention layer belongs to the decoder if a
        cross-attention layer has the same parent in its path, as in `DecoderBlock`; otherwise, it
        belongs to the encoder. `TokenWeighting` is shown as each token's share of the absolute
        weights. For other models, create the `AttentionPart`s yourself.

        Args:
            maps: The `AttentionMaps` of one call of the model.
            source_tokens: The tokens of the source without padding, or None if it is an image.
            target_tokens: The tokens of the target, or None.
            input_tokens: The decoder's input token for each target token. If None, `<start>` and
                all target tokens except the last.
            image: The image, as in the constructor.
            grid: Rows and columns of the regions, as in the constructor.
            answer: The classifier's prediction, which labels the query of attention pooling and of
                token weighting.
            row: Index of the row of the batch, from 0.
            title: Name of the input, as in the constructor.
            focus: Initial selection of the viewer, as in the constructor.

        Returns:
            An `AttentionView` with a part for each kind of attention.

        Raises:
            ImportError: If `image` is a file or a large array, and Pillow is not installed.
            OSError: If the image file is missing or cannot be read.
            ValueError: If the tokens do not match the maps, tokens that the maps need are missing,
                the row does not exist, or the image or the grid does not match the maps.

        Example:

        >>> layer = MultiHeadSelfAttention(num_heads=2)
        >>> maps = attention_maps(layer, keras.ops.ones((1, 3, 8)))
        >>> AttentionView.from_maps(maps, ["one", "two", "three"])
        <AttentionView 'one two three': self-attention>
        """
        if target_tokens is not None and input_tokens is None:
            input_tokens = [START, *list(target_tokens)[:-1]]
        crossing = any(key.role == "cross" for key in maps)
        parents = {_parent(key) for key in maps if key.role == "cross"} - {""}
        found: dict[str, list[np.ndarray]] = {}
        paths: dict[str, list[str]] = {}
        for key, batch in maps.items():
            kind = key.role
            if kind == "self" and crossing:
                kind = "decoder" if _parent(key) in parents else "encoder"
            found.setdefault(kind, []).append(_of_row(np.asarray(batch, "float32"), row, key))
            paths.setdefault(kind, []).append(key.path)
        source = ("source", source_tokens)
        target = ("target", target_tokens)
        sides = {
            "cross": (target, source if image is None else ("picture", None)),
            "pooling": (("answer", [answer]), ("text", source_tokens)),
            "weighting": (("answer", [answer]), ("text", source_tokens)),
            "encoder": (source, source),
            "decoder": (target, ("read before", input_tokens)),
            "self": (("text", source_tokens), ("text", source_tokens)),
        }
        parts = []
        for kind in [kind for kind in sides if kind in found]:
            (query_name, queries), (key_name, keys) = sides[kind]
            if queries is None or (keys is None and (image is None or kind != "cross")):
                missing = query_name if queries is None else key_name
                argument = "target_tokens" if missing == "target" else "source_tokens"
                raise ValueError(f"{_NAMES[kind]} requires `{argument}`. Received: None.")
            layers = [_cut(w, len(queries), keys, kind) for w in found[kind]]
            names = (_NAMES[kind], queries, keys, layers, query_name, key_name)
            parts.append(AttentionPart(*names, paths[kind]))
        return cls(parts, title, image, grid, focus)

    @classmethod
    def from_words(cls, image: Picture, words: WordMaps, title: str = "") -> "AttentionView":
        """Creates a view of a caption from an image and a map for each word.

        Args:
            image: The image, as in the constructor.
            words: A list of tuples (word, map `(rows, columns)`), or an object whose method
                `words()` returns this list, such as a `Caption`.
            title: Name of the image. If empty, the words are used.

        Returns:
            An `AttentionView` with one part, which has one layer and one head.

        Raises:
            ImportError: If `image` is a file or a large array, and Pillow is not installed.
            OSError: If the image file is missing or cannot be read.
            ValueError: If there is no word, a map has the wrong shape or values, the maps differ in
                size, or the image is not valid.

        Example:

        >>> words = [("red", np.ones((2, 2)) / 4), ("car", np.eye(2) / 2)]
        >>> AttentionView.from_words(np.zeros((8, 8, 3), "uint8"), words).grid
        (2, 2)
        """
        pairs = checked_words(words)
        shapes = {weights.shape for _, weights in pairs}
        if len(shapes) != 1:
            raise ValueError(
                "Expected maps (rows, columns) of the same size, for at least one word. "
                f"Received: shapes {sorted(shapes)}."
            )
        (grid,) = shapes
        table = np.stack([weights.ravel() for _, weights in pairs])
        part = AttentionPart(
            _NAMES["cross"], [word for word, _ in pairs], None, [table], "caption", "picture"
        )
        return cls([part], title, image, grid)

    def _repr_html_(self) -> str:
        page = escaped(attention_viewer(self, self.title))
        return (
            f'<iframe srcdoc="{page}" title="attention viewer" '
            'sandbox="allow-scripts allow-downloads" '
            'style="width:100%;height:640px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<AttentionView {self.title!r}: {', '.join(part.name for part in self.parts)}>"


def _parent(key: AttentionKey) -> str:
    return key.path.rpartition("/")[0]


def _of_row(batch: np.ndarray, row: int, key: AttentionKey) -> np.ndarray:
    """One row of a batch as `(heads, T, S)`."""
    if not 0 <= row < len(batch):
        raise ValueError(
            f"`row` must be one of the {len(batch)} rows of the batch. Received: {row!r}."
        )
    weights = batch[row]
    if key.role == "weighting":
        weights = np.abs(weights)
        weights = weights / (weights.sum() or 1)
    return weights.reshape((1,) * (3 - weights.ndim) + weights.shape)


def _cut(weights: np.ndarray, queries: int, keys: Sequence[str] | None, kind: str) -> np.ndarray:
    """The weights without padding."""
    count = weights.shape[2] if keys is None else len(keys)
    kept = weights[:, :queries, :count]
    if kept.shape[1:] != (queries, count):
        raise ValueError(
            f"Expected {weights.shape[1]} queries and {weights.shape[2]} keys of {_NAMES[kind]}. "
            f"Received: {queries} and {count} tokens."
        )
    lost = weights[:, :queries, count:].sum(axis=2).max(initial=0)
    if lost > 1e-3:
        raise ValueError(
            f"Expected a token for each of the {weights.shape[2]} keys of {_NAMES[kind]} "
            f"that is not padding. Received: {count} tokens; up to {lost:.3f} of the weight "
            "of a query is on keys without a token."
        )
    return kept


def _joined(tokens: Sequence[str], most: int = 80) -> str:
    shown = [(" " * (not t.joined) + t.text) for t in displayed_tokens(tokens) if not t.special]
    text = drawable("".join(shown).strip())
    return text if len(text) <= most else f"{text[:most]}…"
