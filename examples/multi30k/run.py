"""Trains and tests translators on Multi30k, and prints a table of their scores.

    python examples/multi30k/run.py --data-dir multi30k --directions de-en en-de --seeds 0 1 2
    python examples/multi30k/run.py --data-dir multi30k --directions de-en-rnn-additive

The folder contains `train`, `val` and `test_2016_flickr` in `de` and `en`, plain or gzipped, with a
sentence on each line (https://github.com/multi30k/dataset, task 1). A direction is the name of a
settings file in the folder of this script: Transformers for both directions, and recurrent networks
with and without additive attention from German to English. After an interruption, the same command
resumes: finished parts are not computed again. A run takes hours on two cores; with a GPU, set
`KERAS_BACKEND=jax`.
"""

import argparse
import dataclasses
import json
import statistics
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

from keras_attn.files import atomic_write
from keras_attn.settings import differences, read_settings
from keras_attn.tasks import PreparedTranslation, Translator
from keras_attn.training import compute_on

HERE = Path(__file__).parent
FIGURES = ("bleu_lowercase", "bleu", "chrf")


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data-dir", type=Path, required=True, help="folder of Multi30k's files")
    add("--run-dir", type=Path, default=Path("runs/multi30k"), help="default: %(default)s")
    known = sorted(path.stem for path in HERE.glob("*.toml"))
    text = f"settings files beside this script: {', '.join(known)} (de-en)"
    add("--directions", nargs="+", default=["de-en"], choices=known, metavar="NAME", help=text)
    add("--seeds", nargs="+", type=int, default=[0], help="default: 0")
    add("--epochs", type=int, help="instead of those of the settings")
    add("--device", default="auto", choices=["auto", "cpu", "gpu"], help="default: auto")
    args = parser.parse_args(arguments)
    with compute_on(args.device):
        rows = [
            (direction, seed, figures(direction, seed, args))
            for direction in args.directions
            for seed in args.seeds
        ]
    print("\n| direction | seed | BLEU lower-cased | BLEU cased | chrF |\n|---|---|---|---|---|")
    for direction, seed, found in rows:
        print(f"| {direction} | {seed} | " + " | ".join(f"{found[k]:.1f}" for k in FIGURES) + " |")
    for direction in args.directions:
        of_it = [found for other, _, found in rows if other == direction]
        means = [statistics.mean(found[k] for found in of_it) for k in FIGURES]
        print(f"| {direction} | mean | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")
    for name in FIGURES:
        print(rows[0][2][f"{name}_signature"])


def figures(direction: str, seed: int, args: argparse.Namespace) -> dict:
    """Trains one model and tests it, or reads what was found before."""
    sections = Translator.sections()
    read = read_settings(HERE / f"{direction}.toml", sections)
    settings = {name: sections[name].made(values) for name, values in read.items()}
    data_dir, run_dir = args.run_dir / direction / "data", args.run_dir / direction / f"{seed}"
    print(f"\n=== {direction}, seed {seed}", flush=True)
    if not data_dir.exists():
        wanted = dataclasses.replace(settings["data"], train=str(args.data_dir))
        PreparedTranslation.prepare(wanted, data_dir, print)
    data = PreparedTranslation.load(data_dir)
    if differences(data.settings, settings["data"]):
        raise SystemExit(f"{data_dir} was prepared by other settings. Remove it.")
    training = dataclasses.replace(settings["training"], seed=seed)
    if args.epochs:
        training = dataclasses.replace(training, epochs=args.epochs)
    # It trains, or has nothing left to do.
    run = Translator.train(data, data.dev, run_dir, None, settings["model"], training, print)
    if not run.complete:
        raise SystemExit("Interrupted. Run the same command again to resume.")
    scores_file = run_dir / "test.json"
    names = ("beams", "alpha", "batch_size")
    decoding = {name: getattr(settings["use"], name) for name in names}
    if scores_file.exists():
        former = json.loads(scores_file.read_text(encoding="utf-8"))
        if former["decoding"] == decoding:
            return former
    scores = Translator.load(run.best).evaluate(data.test, **decoding)._asdict()
    scores["decoding"] = decoding
    with atomic_write(scores_file) as partial:
        text = json.dumps(scores, ensure_ascii=False, indent=1)
        partial.write_text(text + "\n", encoding="utf-8")
    return scores


if __name__ == "__main__":
    main()
