"""Learns to write like Shakespeare, character by character, and shows how to sample from it.

    python examples/text_generation.py

downloads Shakespeare's works (5.4 MB, once), trains a recurrent network for some minutes on a CPU,
measures bits per character on other plays, generates texts with several settings, and exports a
SavedModel that needs only TensorFlow. All files are written to `--run-dir`; only the downloaded
data are kept in a cache.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from keras_attn_command import plain_output

SETTINGS = {
    "sober": {"temperature": 0.5},
    "the model itself": {"temperature": 1.0},
    "top-k": {"top_k": 5},
    "top-p": {"top_p": 0.9},
    "min-p": {"temperature": 1.5, "min_p": 0.2},
    "no 12 characters twice": {"temperature": 0.3, "no_repeat_ngram_size": 12},
}


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--run-dir", type=Path, default=Path("runs/text_generation"), help="default: %(default)s")
    add("--data", type=Path, help="a text file of your own")
    add("--archive", type=Path, help="the default data's archive, if it is there already")
    add("--cache-dir", type=Path, help="where the default data are kept (~/.cache/keras_attn)")
    add("--units", type=int, default=256, help="width of the network (%(default)s)")
    add("--layers", type=int, default=1, help="recurrent layers (%(default)s)")
    add("--sequence-length", type=int, default=128, help="characters of a window (%(default)s)")
    add("--batch-size", type=int, default=128, help="windows of a batch (%(default)s)")
    add("--epochs", type=int, default=3, help="passes over the text (%(default)s)")
    add("--learning-rate", type=float, default=5e-3, help="the highest (%(default)s)")
    add("--num-characters", type=int, default=300, help="length of the samples (%(default)s)")
    add("--prompt", default="HAMLET.\n", help="beginning of the samples (%(default)r)")
    add("--seed", type=int, default=0, help="of everything random (%(default)s)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    args = parse_arguments(arguments)
    plain_output()
    if args.run_dir.exists() and any(args.run_dir.iterdir()):
        sys.exit(f"{args.run_dir} is not empty. Give another --run-dir, or remove that one.")
    args.run_dir.mkdir(parents=True, exist_ok=True)

    from saved_models import call_saved_model

    from keras_attn.tasks import TextGenerator
    from keras_attn.text import CharacterTokenizer
    from keras_attn.training import seed_everything

    say("1. Data")
    train, validation, test = read_data(args)
    began = time.monotonic()  # the download is not counted
    print(f"Characters: train {len(train):,}, validation {len(validation):,}, test {len(test):,}")
    tokenizer = CharacterTokenizer.train([train])
    print(f"{tokenizer.vocabulary_size} ids: {''.join(tokenizer.vocabulary[4:])!r}")

    say("2. Training")
    seed_everything(args.seed)
    config = {"units": args.units, "num_layers": args.layers, "dropout": 0.0}
    generator = TextGenerator(
        tokenizer, model=config, data={"sequence_length": args.sequence_length}
    )
    print(f"An LSTM of {generator.model.count_params():,} weights: {config}")
    generator.fit(
        train,
        validation,
        epochs=args.epochs,
        batch_size=args.batch_size,
        seed=args.seed,
        learning_rate=args.learning_rate,
    )
    generator.save(args.run_dir / "generator.task")

    say("3. Test")
    score = generator.evaluate(test)
    print(f"{score.bits_per_character:.3f} bits per character of {score.characters:,}")

    say(f"4. What it writes after {args.prompt!r}")
    samples = {}
    for name, settings in SETTINGS.items():
        samples[name] = generator.generate(
            args.prompt, args.num_characters, seed=args.seed, **settings
        )
        print(f"--- {name}: {settings}\n{samples[name]}\n")

    say("5. A SavedModel, called in a process that has only TensorFlow")
    saved_model = args.run_dir / "saved_model"
    settings = SETTINGS["top-p"]
    generator.export(saved_model, **settings)
    served = call_saved_model(
        saved_model, prompt=[args.prompt, ""], seed=[1, 2], num_characters=100
    )["text"]
    for text in served:
        print(f"---\n{text}")
    if served != generator.generate([args.prompt, ""], 100, seed=[1, 2], **settings):
        raise RuntimeError("The SavedModel and the Python object differ.")

    minutes = (time.monotonic() - began) / 60
    results = {**score._asdict(), "minutes": round(minutes, 2), "samples": samples}
    text = json.dumps(results, indent=1, ensure_ascii=False)
    (args.run_dir / "results.json").write_text(text + "\n", encoding="utf-8")
    say(f"Done in {minutes:.1f} minutes. All of it is in {args.run_dir}")


def read_data(args: argparse.Namespace) -> tuple[str, str, str]:
    """Returns texts for training, validation and test."""
    from keras_attn.corpora import DownloadError, load_shakespeare
    from keras_attn.records import read_text, split_text

    try:
        if args.data:
            return split_text(read_text(args.data), 0.05, 0.1)
        works = load_shakespeare(cache_dir=args.cache_dir, archive=args.archive)
    except DownloadError as error:
        sys.exit(f"{error}\nHere: --data FILE or --archive FILE.")
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    print(f"{len(works)} works of Shakespeare, as Project Gutenberg has them")
    unseen = {"macbeth": "test", "sonnets": "test", "tempest": "validation"}
    texts = {"train": [], "validation": [], "test": []}
    for work in works:
        texts[unseen.get(work.name, "train")].append(work.text)
    return tuple("\n".join(part) for part in texts.values())


def say(text: str) -> None:
    """Prints a heading."""
    print(f"\n=== {text}", flush=True)


if __name__ == "__main__":
    main()
