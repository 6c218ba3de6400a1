"""Learns word vectors from a text, and compares the senses of a word in an encoder.

    python examples/word_embeddings.py --text corpus.txt --encoder minilm

learns word vectors from the text (or reads them with `--vectors glove.txt`), prints nearest words
and analogies such as "king - man + woman", and writes a map of the most frequent words to
`RUN_DIR/map.html`. Each word has a single vector, even if it has several senses.

With `--encoder`, a folder of Hugging Face weights or a task with an encoder, the script then reads
the sentences of `WORD_SENSES`: ten words with three senses each. For each layer, it counts how
often the nearest other sentence has the same sense of the word. The layer is chosen with five words
and measured with the other five. `RUN_DIR/senses/WORD.html` shows in which layer the senses of a
word separate, and what the word attends to in each layer.
"""

import argparse
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

import numpy as np
from word_senses import LAYER_WORDS, TEST_WORDS, WORD_SENSES

from keras_attn.explain import contextual_view, sense_layer
from keras_attn.files import atomic_write
from keras_attn.tasks import EmbeddingsData, SimilarityScorer, WordEmbedder


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", help="text to learn from; blank lines part documents")
    source.add_argument("--vectors", help="file of word vectors instead: GloVe, word2vec, NumPy")
    add("--encoder", help="folder of Hugging Face weights, or a task with an encoder")
    add("--run-dir", type=Path, default=Path("runs/words"), help="default: %(default)s")
    add("--model", choices=("skip-gram", "cbow"), default="skip-gram")
    add("--dim", type=int, default=100, help="default: %(default)s")
    add("--epochs", type=int, default=5, help="default: %(default)s")
    add("--min-frequency", type=int, default=5, help="default: %(default)s")
    add("--map-words", type=int, default=1000, help="words on the map (%(default)s)")
    args = parser.parse_args(arguments)
    for name in ("model", "dim", "epochs", "min_frequency"):
        if args.vectors and getattr(args, name) != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} belongs to --text, from which is learned.")
    return args


def learn(args: argparse.Namespace) -> WordEmbedder:
    """Learns vectors in a folder; the same command goes on with a run that was interrupted."""
    data = EmbeddingsData(text=args.text, min_frequency=args.min_frequency)
    examples = WordEmbedder.read(data)
    print(examples.summary, flush=True)
    run = WordEmbedder.train(
        examples.train,
        None,
        args.run_dir / "vectors",
        data,
        {"model": args.model, "dim": args.dim},
        {"epochs": args.epochs},
        log=print,
    )
    if not run.complete:
        raise SystemExit(130)
    return WordEmbedder.load(run.best)


def show(embedder: WordEmbedder) -> None:
    """Prints neighbours of some words that the vectors have."""
    asked = ("spring", "bank", "king", "good", "king - man + woman", "better - good + bad")
    for text, found in zip(asked, embedder.predict(list(asked), top_k=6), strict=True):
        if found["words"]:
            print(f"{text}: {', '.join(found['words'])}")


def senses(args: argparse.Namespace, embedder: WordEmbedder) -> None:
    """Prints where the senses of ten words part, and writes a page for each."""
    encoder = SimilarityScorer.from_backbone(args.encoder)
    known, views = embedder.space(), {}
    folder = args.run_dir / "senses"
    folder.mkdir(parents=True, exist_ok=True)
    for word, sentences in WORD_SENSES.items():
        static = None if known.place(word) is None else known
        views[word] = contextual_view(encoder, sentences, word, static)
        shares = "  ".join(f"{share:5.0%}" for share in views[word].accuracies)
        print(f"{word:<8}{shares}   one vector: {[n.word for n in views[word].neighbours[:4]]}")
        with atomic_write(folder / f"{word}.html") as partial:
            partial.write_text(views[word].html(), encoding="utf-8")
    layer = sense_layer([views[word] for word in LAYER_WORDS])
    found = np.mean([views[word].accuracies for word in TEST_WORDS], axis=0)
    chance = np.mean([views[word].chance for word in TEST_WORDS])
    print(
        f"Layer {layer}, chosen on {', '.join(LAYER_WORDS)}: the nearest sentence has the sense in "
        f"{found[layer]:.1%} of those of {', '.join(TEST_WORDS)}; embeddings: {found[0]:.1%}; "
        f"chance: {chance:.1%}"
    )
    print(folder / "spring.html")


def main(arguments: list[str] | None = None) -> None:
    """Learns or reads vectors, and writes the pages."""
    args = parse_arguments(arguments)
    args.run_dir.mkdir(parents=True, exist_ok=True)
    embedder = WordEmbedder.load(args.vectors) if args.vectors else learn(args)
    show(embedder)
    page = embedder.word_page(args.map_words, title="Words that stand in the same places")
    with atomic_write(args.run_dir / "map.html") as partial:
        partial.write_text(page, encoding="utf-8")
    print(args.run_dir / "map.html")
    if args.encoder:
        senses(args, embedder)


if __name__ == "__main__":
    main()
