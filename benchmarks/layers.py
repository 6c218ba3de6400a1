"""Encoder and decoder blocks beside their peers: time and memory of a training step.

    python benchmarks/layers.py                     # on the backend of KERAS_BACKEND
    python benchmarks/layers.py --dim 128 --length 32 --batch 64

Each contender is a stack of equal blocks, trained by `train_on_batch` with Adam on a mean squared
error. The contenders take turns, round by round, so that a machine that slows down slows all of
them; a row gives the median time of a step and its median ratio to keras_attn in the same round.
Peak memory is that of the process so far (Linux), so it is right only with `--only NAME`.
"""

import argparse
import os
import platform
import resource
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import keras_hub
import numpy as np

from keras_attn.layers import DecoderBlock, TransformerEncoderBlock
from keras_attn.version import __version__


def stock_block(args):
    """An encoder block of stock Keras layers."""

    def apply(x):
        attention = keras.layers.MultiHeadAttention(args.heads, args.dim // args.heads)
        x = keras.layers.LayerNormalization(epsilon=1e-5)(x + attention(x, x))
        h = keras.layers.Dense(4 * args.dim, activation="relu")(x)
        return keras.layers.LayerNormalization(epsilon=1e-5)(x + keras.layers.Dense(args.dim)(h))

    return apply


def contenders(args):
    """Name -> function that applies one new block to (x, memory)."""
    wide, heads = 4 * args.dim, args.heads
    return {
        "encoder: keras_attn": lambda x, m: TransformerEncoderBlock(heads, wide)(x),
        "encoder: keras_hub": lambda x, m: keras_hub.layers.TransformerEncoder(wide, heads)(x),
        "encoder: stock Keras": lambda x, m: stock_block(args)(x),
        "decoder: keras_attn": lambda x, m: DecoderBlock(heads, wide)(x, m),
        "decoder: keras_hub": lambda x, m: keras_hub.layers.TransformerDecoder(wide, heads)(x, m),
    }


def build(block, args):
    """A compiled stack."""
    x, memory = keras.Input((None, args.dim)), keras.Input((None, args.dim))
    y = x
    for _ in range(args.layers):
        y = block(y, memory)
    model = keras.Model([x, memory], y)
    model.compile("adam", "mse", jit_compile=args.jit)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--dim", type=int, default=256)
    add("--heads", type=int, default=8)
    add("--layers", type=int, default=4)
    add("--batch", type=int, default=32)
    add("--length", type=int, default=64)
    add("--rounds", type=int, default=15)
    add("--steps", type=int, default=5, help="steps in a round")
    add("--jit", action="store_true", help="compile with XLA (JAX always does)")
    add("--only", help="run one contender, for its memory")
    args = parser.parse_args()
    backend = keras.backend.backend()
    args.jit = args.jit or backend == "jax"
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"Keras {keras.__version__} on {backend}, keras_hub {keras_hub.__version__}, "
        f"keras_attn {__version__}\n{vars(args)}"
    )
    shape = (args.batch, args.length, args.dim)
    x, memory, y = (np.random.default_rng(i).normal(size=shape).astype("float32") for i in range(3))
    models = {
        name: build(block, args)
        for name, block in contenders(args).items()
        if args.only in (None, name)
    }
    for model in models.values():
        for _ in range(3):
            model.train_on_batch([x, memory], y)
    times = {name: [] for name in models}
    for _ in range(args.rounds):
        for name, model in models.items():
            began = time.perf_counter()
            for _ in range(args.steps):
                model.train_on_batch([x, memory], y)
            times[name].append((time.perf_counter() - began) / args.steps)
    print(f"{'':<24}{'ms a step':>10}{'time / ours':>14}")
    for name, values in times.items():
        ours = times.get(name.split(":")[0] + ": keras_attn", values)
        ratio = statistics.median(a / b for a, b in zip(values, ours, strict=True))
        print(f"{name:<24}{1000 * statistics.median(values):>10.1f}{ratio:>14.2f}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
