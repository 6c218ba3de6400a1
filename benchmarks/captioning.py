"""Pictures a second: regions by an encoder, and captions by both decoders.

    python benchmarks/captioning.py                  # on the backend of KERAS_BACKEND
    python benchmarks/captioning.py --quick          # about a minute: does it run?
    KERAS_BACKEND=jax python benchmarks/captioning.py --batch 128 --encoders vgg16 resnet50

Three tables. *Regions*: `Captioner.regions` of pictures in memory, resized already, which scales
the pixels and runs the network, beside `predict_on_batch` of the bare network of
`keras.applications` on pixels that are scaled already. *Captions*: greedy search and a beam of 4
from regions of VGG16's size (196 of 512), by an LSTM with soft attention and by a Transformer, of
random weights and of one length, that of `--length`. *From files*: the whole way from JPEG files to
captions, the decoding of the files included.

Each pair takes turns, round by round; a ratio is the median of the rounds' ratios. Where other
programs use the same cores, `--cpu-time` counts seconds of the processor, of all threads.
"""

import argparse
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from keras_attn.generation import CompiledFunction, beam_search
from keras_attn.models import CaptionDecoder, applications_encoder
from keras_attn.models.image_encoders import APPLICATIONS
from keras_attn.tasks import Captioner
from keras_attn.text import BytePairTokenizer
from keras_attn.version import __version__

BACKEND = keras.backend.backend()
DECODERS = {
    "LSTM, soft attention": {"model": "soft-attention"},
    "Transformer, 2 blocks": {"model": "transformer"},
}


def timed(function, args):
    """Seconds of one call."""
    clock = time.process_time if args.cpu_time else time.perf_counter
    start = clock()
    function()
    return clock() - start


def rates(functions, count, args):
    """Pictures a second of each function: the median of rounds in turns; and all of them."""
    for function in functions:
        function()  # traces or compiles
        function()
    rounds = [[count / timed(f, args) for f in functions] for _ in range(args.rounds)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)], rounds


def pictures(count, size):
    """Random pictures, uint8."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, *size, 3), dtype="uint8")


def new_captioner(encoder, config):
    """A captioner of random weights."""
    texts = [f"word{number} " * 2 for number in range(300)]
    tokenizer = BytePairTokenizer.train(texts, 1000, allow_fewer=True)
    return Captioner(tokenizer, encoder, model=config, data={"max_length": 20})


def regions(args):
    """The table of encoders."""
    print(
        f"\nRegions, pictures a second: {args.batch} at a time\n\n"
        "| network | regions | keras_attn | bare network | keras_attn / bare |\n"
        "|---|---|---|---|---|"
    )
    for name in args.encoders:
        encoder = applications_encoder(name, weights=None)
        captioner = new_captioner(encoder, {"units": 8, "dim": 8})
        network = encoder.get_layer("network")
        images = pictures(args.batch, encoder.image_size)
        scaled = keras.ops.convert_to_numpy(encoder.preprocess(images[:1]))
        scaled = np.repeat(scaled, args.batch, axis=0)
        (ours, bare), rounds = rates(
            [
                lambda c=captioner, x=images: c._regions(x, args.batch),
                lambda n=network, x=scaled: n.predict_on_batch(x),
            ],
            args.batch,
            args,
        )
        ratios = sorted(a / b for a, b in rounds)
        size = "x".join(map(str, (*encoder.grid, encoder.region_dim)))
        print(
            f"| {name} | {size} | {ours:.1f} | {bare:.1f} | {statistics.median(ratios):.2f} "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f}) |",
            flush=True,
        )


def search_of(captioner, beams, args):
    """A compiled search whose captions end at the greatest length, and not before."""
    layers, tokenizer = CaptionDecoder(captioner.reader), captioner.tokenizer

    def search(regions, max_length):
        memory, mask = layers.encode(keras.ops.reshape(regions, (-1, 196, 512)))
        return beam_search(
            layers.decoder,
            keras.ops.zeros_like(mask[:, :1], dtype="int32") + tokenizer.start_id,
            None,
            memory,
            mask,
            num_beams=beams,
            max_length=args.length,
            min_length=args.length,
            end_id=tokenizer.end_id,
        ).tokens

    return CompiledFunction(search, captioner.reader.variables, dtype="float32", rank=3)


def captions(args):
    """The table of decoders."""
    encoder = applications_encoder("vgg16", weights=None)
    found = np.random.default_rng(0).normal(size=(args.batch, 196, 512)).astype("float32")
    print(
        f"\nCaptions of {args.length} tokens from 14x14x512 regions, pictures a second: "
        f"{args.batch} at a time\n\n| decoder | greedy | beam of 4 |\n|---|---|---|"
    )
    for name, config in DECODERS.items():
        functions = [search_of(new_captioner(encoder, config), k, args) for k in (1, 4)]
        functions = [lambda f=f: f(found, args.length) for f in functions]
        (greedy, beam), _ = rates(functions, args.batch, args)
        print(f"| {name} | {greedy:.1f} | {beam:.1f} |", flush=True)


def from_files(args):
    """The table of whole captioners."""
    from PIL import Image

    print(
        "\nFrom JPEG files of 640x480 to captions (beam of 4), pictures a second\n\n"
        "| encoder, decoder | files to pixels | files to captions |\n|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, pixels in enumerate(pictures(args.batch, (48, 64))):
            paths.append(Path(folder) / f"{number}.jpg")
            Image.fromarray(pixels).resize((640, 480)).save(paths[-1], quality=90)
        for name in args.encoders:
            captioner = new_captioner(applications_encoder(name, weights=None), {})

            def read(size=captioner.encoder.image_size):
                from keras_attn.images import load_image

                return [load_image(path, size) for path in paths]

            def caption(captioner=captioner):
                return captioner.caption(paths, batch_size=args.batch)

            (files, whole), _ = rates([read, caption], args.batch, args)
            print(f"| {name}, LSTM | {files:.1f} | {whole:.1f} |", flush=True)


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--batch", type=int, default=16)
    add("--length", type=int, default=16, help="tokens of a caption (16)")
    add("--rounds", type=int, default=5)
    add("--encoders", nargs="+", default=["vgg16", "mobilenetv2"], choices=[*APPLICATIONS])
    add("--cpu-time", action="store_true", help="seconds of the processor, of all threads")
    add("--quick", action="store_true")
    args = parser.parse_args()
    if args.quick:
        args.batch, args.length, args.rounds, args.encoders = 2, 4, 1, ["mobilenetv2"]
    print(
        f"keras_attn {__version__}, Keras {keras.__version__} on {BACKEND}, Python "
        f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    )
    regions(args)
    captions(args)
    from_files(args)


if __name__ == "__main__":
    main()
