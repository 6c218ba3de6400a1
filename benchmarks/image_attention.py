"""A small CNN with attention to channels, to places, to both, and without: accuracy and time.

    python benchmarks/image_attention.py                        # on the backend of KERAS_BACKEND
    python benchmarks/image_attention.py --data-dir ucm_captions
    python benchmarks/image_attention.py --quick                # about a minute: does it run?

A classifier of `small_cnn_encoder`, the mean of its regions and a Dense layer is trained from
random weights with each attention. All have the same data, seeds and settings, and the weights
after the last epoch count; nothing is chosen by the accuracy that is reported. Two tasks:

- With `--data-dir`, UCM-Captions (`captions.json` and `images/`): 21 kinds of land, 100 pictures
  each in the order of their files' numbers, resized. Training pictures are turned and mirrored at
  random. Trained on the side "train", tested on "val" (210 pictures, so a picture is half a point).
- Without, drawn pictures of three shapes of which exactly one is red: which shape is the red one?
  Chance is 1 in 6, also for one who does not know where the red one is.

Times are of `train_on_batch`, all models in turns, round by round, so that a machine that slows
down slows all; a ratio is the median of the rounds' ratios. Where other programs use the same
cores, `--cpu-time` counts seconds of the processor, of all threads, instead of the clock's.
"""

import argparse
import os
import platform
import statistics
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from drawn_shapes import SHAPES, draw_shapes

from keras_attn.images import load_image, read_ucm_captions
from keras_attn.models import small_cnn_encoder
from keras_attn.training import WarmupCosineSchedule
from keras_attn.version import __version__

BACKEND = keras.backend.backend()
ATTENTIONS = (None, "channel", "spatial", "cbam")


def land_kinds(args):
    """Training and test pictures of UCM, with the numbers of their classes."""
    sides = []
    for side in ("train", "val"):
        files = [image for image in read_ucm_captions(args.data_dir) if image.split == side]
        classes = [(int(Path(image.path).stem) - 1) // 100 for image in files]
        pictures = [load_image(image.path, args.image_size) for image in files]
        sides.append((np.stack(pictures), np.array(classes, "int32")))
    return sides


def red_ones(args):
    """Drawn pictures with one red object, and the number of its shape."""
    sides = []
    for seed, count in enumerate((args.pictures, args.test_pictures)):
        images, classes = [], []
        block = 0
        while len(images) < count:
            block += 1
            for picture in draw_shapes(
                1000, seed=10_000 * seed + block, kind="any", num_objects=3,
                image_size=args.image_size,
            ):  # fmt: skip
                red = [thing.shape for thing in picture.objects if thing.colour == "red"]
                if len(red) == 1:
                    images.append(picture.image)
                    classes.append(SHAPES.index(red[0]))
        sides.append((np.stack(images[:count]), np.array(classes[:count], "int32")))
    return sides


def classifier(attention, num_classes, steps, args):
    """A compiled model from pictures to logits."""
    options = {} if attention in (None, "spatial") else {"reduction": args.reduction}
    encoder = small_cnn_encoder(
        args.image_size, args.filters, attention, dropout=args.dropout, **options
    )
    x = keras.layers.GlobalAveragePooling1D()(encoder.output)
    model = keras.Model(encoder.input, keras.layers.Dense(num_classes, name="classes")(x))
    schedule = WarmupCosineSchedule(args.learning_rate, max(1, steps // 20), steps)
    model.compile(
        keras.optimizers.AdamW(schedule, weight_decay=args.weight_decay),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=args.jit if BACKEND == "tensorflow" else "auto",
    )
    return model


def turned(images, rng):
    """The pictures, each turned by a multiple of 90 degrees and mirrored or not."""
    images = images.copy()
    turns = rng.integers(8, size=len(images))
    for turn in range(1, 8):
        chosen = turns == turn
        part = np.rot90(images[chosen], turn % 4, axes=(1, 2))
        images[chosen] = part[:, :, ::-1] if turn >= 4 else part
    return images


def accuracy(attention, seed, train, test, args):
    """Trains a model, and returns its accuracy on the test pictures."""
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    images, classes = train
    steps = args.epochs * -(-len(images) // args.batch)
    model = classifier(attention, int(classes.max()) + 1, steps, args)
    for epoch in range(args.epochs):
        given = turned(images, rng) if args.data_dir else images
        fitted = model.fit(given, classes, args.batch, epochs=1, verbose=0)
        if args.verbose:
            print(f"  {attention}, seed {seed}, epoch {epoch + 1}: {fitted.history}", flush=True)
    logits = model.predict(test[0], batch_size=args.batch, verbose=0)
    return float(np.mean(np.argmax(logits, axis=1) == test[1]))


def times(train, args):
    """For each attention its parameters, the median seconds of a step, and the ratios to None."""
    images, classes = (part[: args.batch] for part in train)
    models = {name: classifier(name, int(train[1].max()) + 1, 1000, args) for name in ATTENTIONS}
    clock = time.process_time if args.cpu_time else time.perf_counter
    seconds = {name: [] for name in models}
    for round_number in range(-2, args.rounds):  # two to warm up
        for name, model in models.items():
            start = clock()
            model.train_on_batch(images, classes)
            if round_number >= 0:
                seconds[name].append(clock() - start)
    found = {}
    for name, model in models.items():
        ratios = [a / b for a, b in zip(seconds[name], seconds[None], strict=True)]
        found[name] = model.count_params(), statistics.median(seconds[name]), sorted(ratios)
    return found


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data-dir", help="folder of UCM-Captions; without it, drawn shapes")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add("--pictures", type=int, default=1500, help="drawn ones to train on")
    add("--test-pictures", type=int, default=2000, help="drawn ones")
    add("--image-size", type=int, default=64)
    add("--filters", nargs="+", type=int, default=[16, 32, 64, 128])
    add("--reduction", type=int, default=4, help="of the attention to channels")
    add("--epochs", type=int, help="20 on UCM-Captions, 12 on drawn shapes")
    add("--batch", type=int, default=32)
    add("--learning-rate", type=float, default=2e-3)
    add("--weight-decay", type=float, default=1e-2)
    add("--dropout", type=float, default=0.2)
    add("--rounds", type=int, default=15, help="timed steps")
    add("--jit", action="store_true", help="XLA on TensorFlow")
    add("--cpu-time", action="store_true")
    add("--verbose", action="store_true", help="a line an epoch")
    add("--quick", action="store_true", help="few pictures, one epoch and seed")
    args = parser.parse_args()
    args.epochs = args.epochs or (20 if args.data_dir else 12)
    if args.quick:
        args.pictures, args.test_pictures, args.epochs, args.rounds = 64, 32, 1, 2
        args.filters, args.seeds, args.image_size = [8, 16], [0], 32
    print(
        f"keras_attn {__version__}, keras {keras.__version__}, {BACKEND}, Python "
        f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, "
        f"{'processor' if args.cpu_time else 'wall'} time\n{vars(args)}"
    )
    train, test = land_kinds(args) if args.data_dir else red_ones(args)
    timed = times(train, args)
    print(
        f"\n{len(train[0]):,} pictures to train on, {len(test[0]):,} to test\n\n"
        "| attention | parameters | ms a step | time / none | accuracy | of each seed |\n"
        "|---|---|---|---|---|---|"
    )
    for name, (parameters, seconds, ratios) in timed.items():
        found = [accuracy(name, seed, train, test, args) for seed in args.seeds]
        each = ", ".join(f"{100 * value:.1f}" for value in found)
        print(
            f"| {name or 'none'} | {parameters:,} | {1e3 * seconds:.1f} | "
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) | "
            f"{100 * statistics.mean(found):.1f} % | {each} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
