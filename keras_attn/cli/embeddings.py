"""The steps of word embeddings that other tasks have not: neighbours, analogies, files, a map."""

import contextlib
from pathlib import Path
from typing import Any, TextIO

import click

from keras_attn.cli.options import FILE, page_option
from keras_attn.cli.output import check_output, open_output
from keras_attn.cli.task_command import step_command, task_command
from keras_attn.interop.word_vectors import FORMATS
from keras_attn.metrics import Neighbour
from keras_attn.tasks import WordEmbedder

_model = click.option(
    "--model", "model_file", type=FILE, required=True,
    help="the model, such as RUN/best.task; or a file of word vectors",
)  # fmt: skip


def _show(found: list[Neighbour], output: TextIO) -> None:
    for word, similarity in found:
        print(f"{similarity:7.4f}  {word}", file=output)


def _nearest(model_file: Path, words: tuple[str, ...], settings: dict[str, Any]) -> None:
    embedder = WordEmbedder.load(model_file)
    with contextlib.ExitStack() as stack:
        output = open_output(None, stack)
        for i, text in enumerate(words):
            found = embedder.nearest(text, settings["use"].top_k)
            print(f"{chr(10) if i else ''}{text}", file=output)
            _show(found, output)


nearest = step_command(
    WordEmbedder,
    "nearest",
    _nearest,
    """Show the words nearest to each of WORDS.

    In place of a word there may be a sum and difference, in quotation marks: "king - man + woman".
    """,
    _model,
    click.argument("words", nargs=-1, required=True),
)


def _analogy(model_file: Path, a: str, b: str, c: str, settings: dict[str, Any]) -> None:
    found = WordEmbedder.load(model_file).analogy(a, b, c, settings["use"].top_k)
    with contextlib.ExitStack() as stack:
        _show(found, open_output(None, stack))


analogy = step_command(
    WordEmbedder,
    "analogy",
    _analogy,
    "Answer: A is to B as C is to which word? The words nearest to B - A + C are shown.",
    _model,
    click.argument("a"),
    click.argument("b"),
    click.argument("c"),
)


def _vectors(model_file: Path, output: Path, format: str, settings: dict[str, Any]) -> None:
    check_output(output)
    embedder = WordEmbedder.load(model_file)
    embedder.save_vectors(output, format)
    click.echo(f"{output}: {embedder.vectors}")


vectors = step_command(
    WordEmbedder,
    "vectors",
    _vectors,
    """Write the words and their vectors to a file that other programs read.

    Every task with --word-vectors can start from it, and gensim reads word2vec's two forms.
    """,
    _model,
    click.option("--to", "output", type=FILE, required=True, help="file to write"),
    click.option(
        "--format", type=click.Choice(["auto", *FORMATS]), default="auto", show_default=True,
        help="auto goes by the end of the name: .bin is word2vec's binary form, .npy and .npz are "
        "NumPy's, any other is GloVe's text",
    ),
)  # fmt: skip


def _page(
    model_file: Path, output: Path, count: int, title: str, seed: int, settings: dict[str, Any]
) -> None:
    check_output(output)
    page = WordEmbedder.load(model_file).word_page(count, settings["use"].top_k, title, seed)
    with contextlib.ExitStack() as stack:
        open_output(output, stack).write(page)
    click.echo(str(output))


page = step_command(
    WordEmbedder,
    "page",
    _page,
    """Write a page with a map of words: search, and the neighbours of a word on a click.

    It is one file of HTML that fetches nothing.
    """,
    _model,
    page_option,
    click.option(
        "--count", type=click.IntRange(5), default=1000, show_default=True,
        help="number of words on the map, the commonest",
    ),
    click.option("--title", default="Words", show_default=True, help="of the page"),
    click.option("--seed", type=int, default=0, show_default=True, help="seed of the map"),
)  # fmt: skip

embeddings = task_command(WordEmbedder)
for step in (nearest, analogy, vectors, page):
    embeddings.add_command(step)
