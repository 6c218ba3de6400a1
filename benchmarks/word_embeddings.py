"""Word embeddings beside gensim's Word2Vec: the same words, settings and epochs, several seeds.

    pip install gensim==4.4.0
    python benchmarks/word_embeddings.py --text texts/ --dialogues dataset.json \\
        --questions questions-words.txt --pairs wordsim353.tsv --pairs simlex999.tsv

Both learn from the words that `WordIds` cut and counted, so both have the same vocabulary. The
table has, for each seed, the share of analogies that are answered right (30,000 commonest words),
Spearman's correlation for each file of pairs, and the words of the text a second, of the clock and
of the processor (all threads), without reading and counting; under it are the means, and the ratio
of the speeds. The two programs take turns. What is in `--results` is not done again.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras

from keras_attn.files import atomic_write
from keras_attn.metrics import WordSpace
from keras_attn.records import Documents, read_analogies, read_dialogues, read_word_pairs
from keras_attn.tasks import WordEmbedder, WordIds


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--text", required=True, help="files of text, as `keras-attn embeddings fit` reads them")
    add("--dialogues", help="also a file of dialogues, such as chitchat-dataset's dataset.json")
    add("--questions", required=True, help="word2vec's questions-words.txt")
    add("--pairs", action="append", default=[], help="WordSim353, SimLex999; may be repeated")
    add("--model", choices=("skip-gram", "cbow"), default="skip-gram")
    add("--programs", nargs="+", choices=("ours", "gensim"), default=["ours", "gensim"])
    add("--seeds", nargs="+", type=int, default=[1, 2, 3], help="default: 1 2 3")
    add("--epochs", type=int, default=5, help="default: %(default)s")
    add("--dim", type=int, default=100, help="default: %(default)s")
    add("--threads", type=int, default=os.cpu_count(), help="of gensim (%(default)s)")
    add("--limit", type=int, help="number of texts that are read, for a trial")
    add("--results", type=Path, default=Path("runs/word_embeddings.json"), help="JSON file")
    return parser.parse_args(arguments)


def texts(args: argparse.Namespace) -> Iterator[str]:
    """Reads documents, and dialogues of two speakers with all of their turns as one text."""
    yield from (" ".join(document) for document in Documents(args.text))
    if args.dialogues:
        for dialogue in read_dialogues(args.dialogues, on_error="skip"):
            yield " ".join(turn.text for turn in dialogue)


def ours(words: WordIds, args: argparse.Namespace, seed: int) -> tuple[list[str], Any]:
    """Trains our model."""
    keras.utils.set_random_seed(seed)
    embedder = WordEmbedder.create(words, model={"model": args.model, "dim": args.dim})
    embedder.fit(words, epochs=args.epochs, seed=seed, verbose=0)
    return embedder.vectors.words, embedder.vectors.vectors


def gensims(sentences: list[list[str]], args: argparse.Namespace, seed: int) -> tuple[Any, Any]:
    """Trains gensim's model."""
    from gensim.models import Word2Vec

    model = Word2Vec(
        sentences,
        vector_size=args.dim,
        window=5,
        min_count=1,  # rare words are out already
        sg=int(args.model == "skip-gram"),
        negative=5,
        sample=1e-3,
        epochs=args.epochs,
        workers=args.threads,
        seed=seed,
    )
    return model.wv.index_to_key, model.wv.vectors


def measured(program: str, seed: int, words: WordIds, args: argparse.Namespace) -> dict[str, Any]:
    """Trains once, and scores what came of it."""
    if program == "gensim":
        of_text = iter([words.tokenizer.vocabulary[i] for i in words.ids])
        sentences = [list(itertools.islice(of_text, int(n))) for n in words.lengths]
    clock, processor = time.perf_counter(), time.process_time()
    if program == "gensim":
        found, vectors = gensims(sentences, args, seed)
    else:
        found, vectors = ours(words, args, seed)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    space, count = WordSpace(found, vectors), len(words.ids) * args.epochs
    return {
        "program": program,
        "seed": seed,
        "analogies": 100 * space.analogies(read_analogies(args.questions)).share(),
        **{
            Path(file).stem: space.word_pairs(read_word_pairs(file)).spearman for file in args.pairs
        },
        "words a second": count / clock,
        "words a processor's second": count / processor,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Writes the runs, their means and the ratios of the speeds."""
    names = list(rows[0])
    made = [[f"{v:,.3f}" if isinstance(v, float) else str(v) for v in r.values()] for r in rows]
    means: dict[str, dict[str, float]] = {}
    for program in dict.fromkeys(row["program"] for row in rows):
        own = [row for row in rows if row["program"] == program]
        means[program] = {n: statistics.mean(row[n] for row in own) for n in names[2:]}
        made.append([program, "mean", *(f"{value:,.3f}" for value in means[program].values())])
    lines = [" | ".join(names), " | ".join(["---"] * len(names)), *map(" | ".join, made)]
    text = "\n".join(f"| {line} |" for line in lines)
    if len(means) == 2:
        for name in names[-2:]:
            text += f"\n{name}, ours / gensim: {means['ours'][name] / means['gensim'][name]:.2f}"
    return text


def main(arguments: list[str] | None = None) -> None:
    """Measures what is not measured yet, and prints the table."""
    args = parse_arguments(arguments)
    words = WordIds.counted(itertools.islice(texts(args), args.limit))
    print(words.summary(), flush=True)
    settings = {
        "words": words.fingerprint,
        **{name: getattr(args, name) for name in ("model", "epochs", "dim", "threads")},
    }
    kept = json.loads(args.results.read_text("utf-8")) if args.results.is_file() else {}
    if kept and kept["settings"] != settings:
        sys.exit(f"{args.results} has results of other settings: {kept['settings']}.")
    rows = kept.get("rows", [])
    done = {(row["program"], row["seed"]) for row in rows}
    for seed, program in itertools.product(args.seeds, args.programs):
        if (program, seed) in done:
            continue
        rows.append(measured(program, seed, words, args))
        print(rows[-1], flush=True)
        args.results.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(args.results) as partial:
            partial.write_text(json.dumps({"settings": settings, "rows": rows}, indent=1), "utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
