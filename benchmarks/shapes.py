"""Captions of drawn shapes, learned from nothing: where a captioner looks, and what it can combine.

    python benchmarks/shapes.py                          # on the backend of KERAS_BACKEND
    python benchmarks/shapes.py --models transformer --seeds 0 1 2
    python benchmarks/shapes.py --quick                  # about a minute: does it run?

A small CNN and a captioner over its grid of regions are trained together, on pictures of one or two
coloured shapes (`drawn_shapes.draw_shapes`) with captions such as "a red circle left of a
blue square". In training six combinations of colour and shape never occur, among them the red
circle. Then new pictures are captioned by greedy search; "unseen" are those with one object of such
a combination. Two things are counted:

- Captions that are right, word for word.
- Words on their object. For each colour and each shape of the right caption, the map of the word at
  the same place of the model's caption: of the step of decoding that gave the word (for a
  Transformer, the mean of the heads in the last block). It counts if the middle of the cell with
  the largest weight lies in the box around the object that the word is about. Where the model's
  caption has ended before, it does not count. Beside it, for the same words: the peak is on the
  other object; the peak of the same word of another picture, with a caption of the same form; a
  cell at random.
"""

import argparse
import os
import platform
import time
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from drawn_shapes import COLOURS, draw_shapes

from keras_attn.batches import EpochOrder
from keras_attn.models import small_cnn_encoder
from keras_attn.tasks import Captioner
from keras_attn.text import BytePairTokenizer
from keras_attn.training import without_autotuning
from keras_attn.version import __version__

IMAGE_SIZE = 64
COLUMNS = {
    "words": "words on their object",
    "colours": "colours",
    "shapes": "shapes",
    "other object": "on the other one",
    "other map": "map of another picture",
    "random cell": "cell at random",
}


def configs(args):
    """Settings of each kind of captioner."""
    return {
        "soft-attention": {
            "dim": args.dim,
            "units": args.units,
            "initial_units": args.initial_units or None,
            "dropout": args.dropout,
            "doubly_stochastic": args.doubly_stochastic,
        },
        "transformer": {
            "dim": args.dim,
            "num_layers": args.layers,
            "num_heads": args.heads,
            "intermediate_dim": 4 * args.dim,
            "region_positions": "learned",
        },
    }


def make(name, captions, args):
    """An untrained captioner; each word of the captions is one token."""
    tokenizer = BytePairTokenizer.train(captions, 400, allow_fewer=True)
    encoder = small_cnn_encoder(IMAGE_SIZE, args.filters, dropout=args.region_dropout)
    config = {"model": name, **configs(args)[name]}
    return Captioner(tokenizer, encoder, train_encoder=True, model=config, data={"max_length": 12})


def covered(thing, grid):
    """Which cells' middles lie in the box of an object."""
    rows, columns = ((np.arange(count) + 0.5) / count for count in grid)
    return np.array([[thing.covers(row, column, IMAGE_SIZE) for column in columns] for row in rows])


def words_on_objects(pictures, found):
    """Shares of the words whose peak is on their object, and of what chance gives."""
    of_form = defaultdict(list)
    for number, picture in enumerate(pictures):
        form = "above" in picture.caption, len(picture.objects)
        of_form[form].append(number)
    other = {n: part[i - 1] for part in of_form.values() for i, n in enumerate(part)}
    maps = [[weights for _, weights in caption.words()] for caption in found]
    grid = found[0].attention.shape[1:]

    def is_on(box, number, place):
        return place < len(maps[number]) and bool(box.flat[maps[number][place].argmax()])

    hits = defaultdict(list)
    for number, picture in enumerate(pictures):
        boxes = [covered(thing, grid) for thing in picture.objects]
        words = zip(picture.caption.split(), picture.of_words, strict=True)
        for place, (word, thing) in enumerate(words):
            if thing is None:
                continue
            box, rest = boxes[thing], [box for i, box in enumerate(boxes) if i != thing]
            hit = is_on(box, number, place)
            hits["words"].append(hit)
            hits["colours" if word in COLOURS else "shapes"].append(hit)
            hits["other object"].append(any(is_on(box, number, place) for box in rest))
            hits["other map"].append(is_on(box, other[number], place))
            hits["random cell"].append(box.mean())
    return {name: float(np.mean(values)) for name, values in hits.items()}


def main():
    """Trains, and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    names = ("soft-attention", "transformer")
    add("--models", nargs="+", choices=names, default=list(names))
    add("--seeds", nargs="+", type=int, default=[0])
    add("--pictures", type=int, default=12000, help="to train on (12000)")
    add("--test-pictures", type=int, default=1000, help="seen, and as many unseen (1000)")
    add("--epochs", type=int, default=16)
    add("--batch", type=int, default=64)
    add("--learning-rate", type=float, default=2e-3)
    add("--weight-decay", type=float, default=1e-2)
    add("--filters", nargs="+", type=int, default=[32, 64, 64], help="each halves the grid")
    add("--region-dropout", type=float, default=0.0)
    add("--dim", type=int, default=64)
    add("--units", type=int, default=32, help="of the LSTM")
    add(
        "--initial-units",
        type=int,
        default=4,
        help="hidden units before the first state; 0: no hidden layer",
    )
    add("--dropout", type=float, default=0.5, help="of soft attention's output")
    add("--doubly-stochastic", type=float, default=0.0)
    add("--layers", type=int, default=1, help="of the Transformer")
    add("--heads", type=int, default=1)
    add("--save", help="folder for the trained captioners, which `Captioner.load` reads")
    add("--verbose", type=int, default=0, help="2: a line an epoch")
    add("--quick", action="store_true", help="few pictures, one epoch")
    args = parser.parse_args()
    if args.quick:
        args.pictures, args.test_pictures, args.epochs, args.filters = 512, 64, 1, [8, 16, 16]
    print(
        f"keras_attn {__version__}, keras {keras.__version__}, {keras.backend.backend()}, Python "
        f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores\n{vars(args)}"
    )
    pictures = [(p.image, p.caption) for p in draw_shapes(args.pictures, seed=0)]
    captions = [caption for _, caption in pictures]
    tests = {
        kind: draw_shapes(args.test_pictures, seed=seed, kind=kind)
        for seed, kind in enumerate(("seen", "unseen"), start=101)
    }
    heads = ["model", "seed", "combinations", "captions right", *COLUMNS.values(), "minutes"]
    print(f"\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for name in args.models:
        for seed in args.seeds:
            keras.utils.set_random_seed(seed)
            captioner = make(name, captions, args)
            start = time.perf_counter()
            batches = captioner.dataset(pictures, batch_size=args.batch, seed=seed, multiple=1)
            steps = len(batches) * args.epochs
            captioner.compile(steps, args.learning_rate, weight_decay=args.weight_decay)
            captioner.model.fit(
                without_autotuning(batches), epochs=args.epochs, shuffle=False,
                verbose=args.verbose,
                callbacks=[EpochOrder(batches)],
            )  # fmt: skip
            minutes = (time.perf_counter() - start) / 60
            if args.save:
                Path(args.save).mkdir(parents=True, exist_ok=True)
                captioner.save(Path(args.save) / f"{name}_{seed}.zip")
            for kind, test in tests.items():
                found = captioner.caption(
                    [picture.image for picture in test], beams=1, return_attention=True,
                    batch_size=100,
                )  # fmt: skip
                right = [a.text == b.caption for a, b in zip(found, test, strict=True)]
                hits = words_on_objects(test, found)
                shares = [np.mean(right), *(hits[column] for column in COLUMNS)]
                cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
                print(f"| {name} | {seed} | {kind} | {cells} | {minutes:.1f} |", flush=True)


if __name__ == "__main__":
    main()
