"""Learns to name images, also new combinations of known parts, and shows where the model looked.

    python examples/captioning.py

downloads emoji with their English names (67 MB, once) and trains a small convolutional network and
a decoder with soft attention (Show, Attend and Tell) from scratch, for some minutes on a CPU. The
model is tested on combinations that do not occur in the training data, such as "woman running dark
skin tone": the training data have running women and dark skin, but never both together. The script
measures BLEU, CIDEr and exact matches, draws where the model looked for each word
(`where_it_looked.png`, and `viewer.html`, a page to explore), and exports a SavedModel that takes
the bytes of images, returns captions and needs only TensorFlow. All files are written to
`--run-dir`; only the downloaded data are kept in a cache. The images are Twemoji by Twitter (CC BY
4.0).
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

from keras_attn_command import plain_output

DECODER = {
    "model": "soft-attention",
    "dim": 128,
    "units": 256,
    "attention_units": 128,
    "dropout": 0.3,
    "doubly_stochastic": 0.0,  # names have fewer words than pictures have regions
}
SHOWN, VIEWED = 10, 24


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--run-dir", type=Path, default=Path("runs/captioning"), help="default: %(default)s")
    add("--data", type=Path, help="your own: a CSV file with the columns image and caption")
    add("--all", action="store_true", help="train on emoji without attributes too, such as flags")
    add("--style", default="twitter", help="of the emoji: twitter or google (%(default)s)")
    add("--pictures-wheel", type=Path, help="the emoji's pictures, if they are there already")
    add("--names-wheel", type=Path, help="the emoji's names, in the same way")
    add("--cache-dir", type=Path, help="where the emoji are kept (~/.cache/keras_attn)")
    add("--test-size", type=int, help="pictures for the test (300; a fifth of --data at most)")
    add("--image-size", type=int, default=64, help="rows and columns of pictures (%(default)s)")
    add("--filters", type=int, nargs="+", default=[32, 64, 128], help="of the network's stages")
    add("--shift", type=int, default=3, help="most pixels a picture is moved by (%(default)s)")
    add("--vocabulary-size", type=int, default=600, help="byte-pair tokens (%(default)s)")
    add("--epochs", type=int, default=40, help="passes over the captions (%(default)s)")
    add("--batch-size", type=int, default=32, help="captions of a batch (%(default)s)")
    add("--learning-rate", type=float, default=2e-3, help="the highest (%(default)s)")
    add("--beams", type=int, default=4, help="width of the beam search (%(default)s)")
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

    from keras_attn.metrics import caption_scores
    from keras_attn.models import small_cnn_encoder
    from keras_attn.tasks import Captioner
    from keras_attn.text import BytePairTokenizer
    from keras_attn.training import seed_everything
    from keras_attn.visualize import AttentionView, attention_viewer

    say("1. Data")
    train, validation, test = read_data(args)
    began = time.monotonic()  # the download is not counted
    print(f"Pictures: train {len(train):,}, validation {len(validation):,}, test {len(test):,}")
    seen = [caption for _, captions in train for caption in captions]
    references = [captions for _, captions in test]

    say("2. Tokenizer")
    tokenizer = BytePairTokenizer.train(seen, args.vocabulary_size, allow_fewer=True)
    example = references[0][0]
    print(f"{tokenizer.vocabulary_size} byte pairs. {example!r} is written as")
    print(" ".join(tokenizer.tokens(tokenizer.encode(example))))

    say("3. Training")
    seed_everything(args.seed)
    encoder = small_cnn_encoder(args.image_size, args.filters)
    captioner = Captioner(
        tokenizer, encoder, train_encoder=True, model=DECODER, data={"max_length": 32}
    )
    rows, columns = encoder.grid
    print(
        f"{captioner.model.count_params():,} weights, of which {encoder.count_params():,} make "
        f"{rows} x {columns} regions of a picture."
    )
    fit(captioner, train, validation, args)
    captioner.save(args.run_dir / "captioner.task")

    say("4. Test: combinations that training did not have")
    predicted = captioner.caption([image for image, _ in test], beams=args.beams)
    scores = caption_scores(predicted, references, seen)
    exact = [caption in captions for caption, captions in zip(predicted, references, strict=True)]
    print(f"{scores}\n{sum(exact)} of {len(exact)} exactly right: {sum(exact) / len(exact):.1%}")
    nearest = nearest_captions(train, test, encoder.image_size)
    copies = caption_scores(nearest, references, seen)
    print(f"The captions of the most alike training pictures would have {copies}")
    write_captions(args.run_dir / "test.tsv", predicted, references)

    say(f"5. {SHOWN} new pictures")
    pairs = list(zip(predicted, references, strict=True))
    for caption, captions in pairs[:: len(test) // SHOWN or 1]:
        print(f"  model      {caption}\n  reference  {captions[0]}\n")

    say("6. Where it looked")
    longest = sorted(zip(test, exact, strict=True), key=lambda x: (-x[1], -len(x[0][1][0])))
    shown = [image for (image, _), _ in longest[:VIEWED]]
    looked = captioner.caption(shown, beams=args.beams, return_attention=True)
    picture, page = args.run_dir / "where_it_looked.png", args.run_dir / "viewer.html"
    looked[0].plot(shown[0], picture)
    views = [AttentionView.from_words(*pair) for pair in zip(shown, looked, strict=True)]
    page.write_text(attention_viewer(views, "Where it looked for each word"), encoding="utf-8")
    for word, weights in looked[0].words():
        row, column = divmod(int(weights.argmax()), columns)
        print(f"{word:<16}row {row + 1}, column {column + 1}: {weights.max():.2f} of its attention")
    print(f"{picture}\n{page}")

    say("7. A SavedModel, called in a process that has only TensorFlow")
    saved_model = args.run_dir / "saved_model"
    captioner.export(saved_model, beams=args.beams)
    files = [image if isinstance(image, bytes) else Path(image).read_bytes() for image in shown[:3]]
    served = call_saved_model(saved_model, image=files)["caption"]
    for caption, raw in zip(served, files, strict=True):
        print(f"  {len(raw):,} bytes -> {caption}")

    minutes = (time.monotonic() - began) / 60
    results = {
        "minutes": round(minutes, 2),
        "exact": sum(exact) / len(exact),
        "pictures": {"train": len(train), "validation": len(validation), "test": len(test)},
        **{name: getattr(scores, name) for name in ("bleu_1", "bleu_4", "rouge_l", "cider")},
        "tokenization": scores.tokenization,
        "served": served,
    }
    text = json.dumps(results, indent=1, ensure_ascii=False)
    (args.run_dir / "results.json").write_text(text + "\n", encoding="utf-8")
    say(f"Done in {minutes:.1f} minutes. All of it is in {args.run_dir}")


def read_data(args: argparse.Namespace) -> tuple[list, list, list]:
    """Returns (picture, captions) pairs for training, validation and test."""
    from keras_attn.corpora import DownloadError, load_emoji_pictures, split_by_concept
    from keras_attn.images import read_caption_csv

    try:
        if args.data:
            read = read_caption_csv(args.data)
            print(read.summary())
            images = [(image.path, list(image.captions)) for image in read]
            random.Random(args.seed).shuffle(images)
            count = args.test_size or min(300, len(images) // 5)
            few = max(count // 3, 1)
            if not count or count + few >= len(images):
                raise ValueError(
                    "Expected pictures to learn from beside those of the test, --test-size, and a "
                    f"third of that for the choice of weights. Received: {len(images)} pictures."
                )
            return images[count + few :], images[count : count + few], images[:count]
        pictures = load_emoji_pictures(
            args.style, args.cache_dir, args.pictures_wheel, args.names_wheel
        )
        print(f"{len(pictures):,} emoji with their names")
        count = args.test_size or 300
        splits = split_by_concept(pictures, count // 3, count)
    except (DownloadError, ValueError, OSError) as error:
        sys.exit(f"{error}\nHere: --data FILE, or --pictures-wheel FILE and --names-wheel FILE.")
    held_out = [" + ".join(pair) for pair, side in splits.held_out.items() if side == "test"]
    print(f"{len(held_out)} combinations for the test alone: {', '.join(held_out[:4])}, ...")
    # "apple" and "flag of Norway" have one picture each: there is nothing to combine.
    train = [picture for picture in splits.train if args.all or picture.concept[1]]
    return tuple(
        [(picture.image, [picture.name]) for picture in side]
        for side in (train, splits.validation, splits.test)
    )


class Shifted:
    """Pictures, each time moved by some pixels, as training batches read them.

    Args:
        pictures: What `CaptionBatches` reads pictures from.
        most: Most pixels, up or down and left or right.
        seed: Of the moves.
    """

    def __init__(self, pictures, most: int, seed: int):
        import numpy as np

        self.pictures = pictures
        self.shape = pictures.shape
        self.most = most
        self.random = np.random.default_rng(seed)

    def __len__(self) -> int:
        return len(self.pictures)

    def read(self, numbers):
        """Returns `(B, H, W, 3)`; what comes in at an edge is the edge's pixels."""
        import numpy as np

        images = self.pictures.read(numbers)
        count, height, width, _ = images.shape
        around = (self.most, self.most)
        wide = np.pad(images, ((0, 0), around, around, (0, 0)), mode="edge")
        moves = self.random.integers(0, 2 * self.most + 1, (count, 2))
        moved = [
            image[top : top + height, left : left + width]
            for image, (top, left) in zip(wide, moves, strict=True)
        ]
        return np.stack(moved)


def fit(captioner, train: list, validation: list, args: argparse.Namespace) -> None:
    """Does what `captioner.fit` does, and moves the pictures that are trained on."""
    from keras_attn.training import without_autotuning

    batches = captioner.dataset(train, batch_size=args.batch_size, seed=args.seed)
    batches.pictures = Shifted(batches.pictures, args.shift, args.seed)
    captioner.compile(total_steps=args.epochs * len(batches), learning_rate=args.learning_rate)
    captioner.model.fit(
        without_autotuning(batches),
        validation_data=without_autotuning(captioner.dataset(validation, shuffle=False)),
        epochs=args.epochs,
        shuffle=False,  # the batches do it
        verbose=2,
    )


def nearest_captions(train: list, test: list, size: tuple[int, int]) -> list[str]:
    """For each test picture the caption of the training picture whose pixels are most alike."""
    import numpy as np

    from keras_attn.images import load_image

    flat = [
        np.stack([load_image(image, size).reshape(-1).astype("float32") for image, _ in side])
        for side in (train, test)
    ]
    known, asked = flat
    distances = np.sum(known**2, axis=1) - 2 * asked @ known.T
    return [train[number][1][0] for number in distances.argmin(axis=1)]


def write_captions(path: Path, predicted: list[str], references: list[list[str]]) -> None:
    """Writes caption and reference, tab-separated."""
    lines = ["caption\treference"]
    lines += [
        f"{caption}\t{texts[0]}" for caption, texts in zip(predicted, references, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def say(text: str) -> None:
    """Prints a heading."""
    print(f"\n=== {text}", flush=True)


if __name__ == "__main__":
    main()
