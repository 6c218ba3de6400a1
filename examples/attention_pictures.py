"""Draws pictures of the documentation: what "it" looks at, senses of words, positions and a map.

    python examples/attention_pictures.py --encoder minilm --to docs

`--encoder` is a folder with Hugging Face weights of a BERT encoder, such as all-MiniLM-L6-v2. The
script writes `it.png`, `senses.png`, `positions.png` and `word_map.png`. Each example is chosen by
a rule: the head with the strongest link from "it" to "animal" in the first sentence; the last layer
for the senses; and for the map, the first whole words of at least four letters in the vocabulary,
which is sorted by frequency.
"""

import argparse
from pathlib import Path
from typing import Any

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from word_senses import WORD_SENSES

from keras_attn.explain import contextual_view, study_texts
from keras_attn.fields import EncoderInput
from keras_attn.interop import load_pretrained
from keras_attn.metrics import WordSpace
from keras_attn.ops import sinusoids
from keras_attn.visualize import LECTURE_SENTENCES, Focus, main_directions, word_places
from keras_attn.visualize.display import displayed_tokens
from keras_attn.visualize.figures import figure_class
from keras_attn.visualize.focus import find_focus, place_of

COLOURS = ("#2b6cb0", "#d9730d", "#2f8f46")
HOT = "#fd8d3c"
WORDS = 260


def draw_it(model: Any, field: EncoderInput, path: Path) -> None:
    """Draws what "it" looks at if the animal was too tired and if the street was too wide."""
    views = study_texts(model, field, [sentence.text for sentence in LECTURE_SENTENCES[:2]]).views
    focus = find_focus(views[0].parts, Focus("it", on="animal"))
    layer, head = focus["layer"], focus["head"]
    figure = figure_class()(figsize=(10, 2.5))
    axes = figure.add_axes((0.01, 0.0, 0.98, 0.88))
    axes.set(
        xlim=(0, 100), ylim=(-0.5, 3.5), title=f"What “it” looks at in layer {layer}, head {head}"
    )
    axes.axis("off")
    renderer = FigureCanvasAgg(figure).get_renderer()
    for line, view in enumerate(views):
        (part,) = view.parts
        shown = displayed_tokens(part.queries)
        query = place_of(shown, "it")
        x, y = 1.0, 2.7 - 1.8 * line
        for token, weight in zip(shown, part.weights[layer][head][query], strict=True):
            box = {"facecolor": HOT, "alpha": float(np.sqrt(weight)), "edgecolor": "none", "pad": 3}
            word = axes.text(x, y, token.text, fontsize=13, bbox=box, va="baseline",
                             weight="bold" if token.text == "it" else "normal")  # fmt: skip
            extent = word.get_window_extent(renderer).transformed(axes.transData.inverted())
            middle = (extent.x0 + extent.x1) / 2
            if weight >= 0.02:
                axes.text(middle, y - 0.75, f"{weight:.2f}", fontsize=9, ha="center", color="#555")
            x = extent.x1 + 1.1
    figure.savefig(path, dpi=110)


def draw_senses(model: Any, field: EncoderInput, path: Path) -> None:
    """Draws "bank" and "spring" in sentences with three senses, before and after the layers."""
    figure = figure_class()(figsize=(9, 7), layout="constrained")
    grid = figure.subplots(2, 2)
    for row, word in zip(grid, ("bank", "spring"), strict=True):
        view = contextual_view((model, field.tokenizer), WORD_SENSES[word], word)
        last = len(view.vectors) - 1
        for axes, layer in zip(row, (0, last), strict=True):
            points = main_directions(view.vectors[layer])
            for colour, sense in zip(COLOURS, WORD_SENSES[word], strict=True):
                own = np.array([s == sense for s in view.senses])
                axes.scatter(*points[own].T, color=colour, label=sense, s=45, alpha=0.8)
            name = "embeddings" if layer == 0 else f"after layer {layer - 1}"
            axes.set(xticks=[], yticks=[], title=f"“{word}”, {name}: nearest sentence has the "
                     f"sense in {view.accuracies[layer]:.0%}")  # fmt: skip
            axes.title.set_fontsize(10)
        row[0].legend(fontsize=9)
    figure.savefig(path, dpi=100)


def draw_positions(path: Path, length: int = 100, dim: int = 64) -> None:
    """Draws sinusoidal positions, and their dot products by distance."""
    table = np.asarray(sinusoids(np.arange(length), dim), "float32").reshape(length, dim)
    figure = figure_class()(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    image = left.imshow(table, cmap="RdBu", aspect="auto", vmin=-1, vmax=1)
    left.set(xlabel="dimension", ylabel="position", title="Sinusoidal positions")
    figure.colorbar(image, ax=left)
    products = table @ table.T / (dim / 2)
    for position, colour in zip((20, 50, 80), COLOURS, strict=True):
        right.plot(np.arange(length) - position, products[position], color=colour,
                   label=f"position {position}")  # fmt: skip
    right.set(xlabel="distance", ylabel="dot product / (dim / 2)",
              title="Dot products depend only on the distance")  # fmt: skip
    right.legend(fontsize=9)
    figure.savefig(path, dpi=100)


def draw_map(model: Any, field: EncoderInput, path: Path) -> None:
    """Draws a map of the encoder's embeddings of words, each label where there is room for it."""
    table = np.asarray(model.get_layer("embedding").token_embedding.embedding.embeddings)
    vocabulary = field.tokenizer.vocabulary
    chosen = [i for i, w in enumerate(vocabulary) if w.isascii() and w.isalpha() and len(w) > 3]
    words = [vocabulary[i] for i in chosen[:WORDS]]
    places = word_places(WordSpace(words, table[chosen[:WORDS]]).units)
    figure = figure_class()(figsize=(10, 7), dpi=80)
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.98))
    axes.scatter(*places.T, s=9, color=COLOURS[0], alpha=0.5)
    axes.set(xticks=[], yticks=[])
    renderer = FigureCanvasAgg(figure).get_renderer()
    taken: list[Any] = []
    for word, place in zip(words, places, strict=True):
        label = axes.annotate(word, place, (0, 4), textcoords="offset points", ha="center",
                              fontsize=9)  # fmt: skip
        for offset in ((0, 4), (0, -12), (22, -4), (-22, -4)):
            label.set_position(offset)
            box = label.get_window_extent(renderer)
            if not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
        else:
            label.remove()
    figure.savefig(path)


def main() -> None:
    """Draws all pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", required=True, help="folder of Hugging Face weights")
    parser.add_argument("--to", type=Path, default=Path(), help="folder of the pictures")
    args = parser.parse_args()
    args.to.mkdir(parents=True, exist_ok=True)
    model, tokenizer, _ = load_pretrained(args.encoder)
    field = EncoderInput(tokenizer, 128)
    draw_it(model, field, args.to / "it.png")
    draw_senses(model, field, args.to / "senses.png")
    draw_positions(args.to / "positions.png")
    draw_map(model, field, args.to / "word_map.png")
    print(f"Wrote it.png, senses.png, positions.png and word_map.png to {args.to}")


if __name__ == "__main__":
    main()
